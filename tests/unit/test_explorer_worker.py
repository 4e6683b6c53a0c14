"""Worker processes and the pool: answers, failures, stops, fairness, and an end when the server ends.

Nothing here is timed: a job that must still run when the next thing happens waits for a file, the `gate`, to appear.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from solspace.explorer.pool import Pool
from solspace.explorer.worker import Worker, reporting

HERE = f"{Path(__file__).stem}"
LONG = 120
"""Seconds after which a loaded machine has surely answered."""


# ---- jobs, run in the child


def double(x):
    return 2 * x


def fail(words):
    raise ValueError(words)


def die():
    os._exit(3)


def chat():
    print("this must not get into the frames")
    return "quiet"


@reporting
def count_up(report):
    for k in range(10**9):
        report(k)
        time.sleep(0.01)


@reporting
def deaf(report):
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    report("deaf from now on")
    time.sleep(10 * LONG)


def wait(gate):
    while not Path(gate).exists():
        time.sleep(0.01)


def unique(*key):
    return key, os.urandom(8)


def environment(name):
    return os.environ.get(name), os.nice(0)


@pytest.fixture
def worker(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = Worker(niceness=3)
    yield made
    made.close()


@pytest.fixture
def pool(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    made = Pool(1, patience=LONG)
    yield made
    made.close()


@pytest.fixture
def busy(pool, tmp_path):
    """Return a pool that has something to do until the file `gate` exists, and that file."""
    gate = tmp_path / "gate"
    pool.ask("somebody", f"{HERE}:wait", (str(gate),), lambda *answer: None)
    return pool, gate


def ask(worker, job, *args):
    answers = queue.Queue()
    worker.submit(f"{HERE}:{job}", args, lambda *answer: answers.put(answer))
    return answers


def test_one_worker_answers_fails_stays_quiet_and_lives_on(worker):
    assert ask(worker, "double", 21).get(timeout=LONG) == ("done", 42)
    first = worker.pid
    assert ask(worker, "fail", "no such thing.").get(timeout=LONG) == ("failed", "no such thing.")
    assert ask(worker, "chat").get(timeout=LONG) == ("done", "quiet")
    assert ask(worker, "environment", "OMP_NUM_THREADS").get(timeout=LONG) == ("done", ("1", min(os.nice(0) + 3, 19)))
    assert worker.pid == first
    kind, words = ask(worker, "die").get(timeout=LONG)
    assert kind == "failed"
    assert "code 3" in words
    assert ask(worker, "double", 1).get(timeout=LONG) == ("done", 2)
    assert worker.pid != first


def test_a_job_is_stopped_politely_and_a_deaf_one_is_killed(worker):
    answers = ask(worker, "count_up")
    assert answers.get(timeout=LONG) == ("update", 0)
    with pytest.raises(RuntimeError, match="busy"):
        ask(worker, "double", 1)
    process = worker.pid
    worker.stop()
    while (answer := answers.get(timeout=LONG))[0] == "update":
        pass
    assert answer == ("stopped", None)
    assert worker.pid == process
    answers = ask(worker, "deaf")
    assert answers.get(timeout=LONG) == ("update", "deaf from now on")
    worker.stop()
    assert answers.get(timeout=LONG) == ("stopped", None)
    assert not worker.busy
    assert worker.pid != process


def test_a_closed_worker_is_gone_and_silent(worker):
    answers = ask(worker, "count_up")
    answers.get(timeout=LONG)
    process = worker.pid
    worker.close()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    while not answers.empty():
        assert answers.get()[0] == "update"


def test_a_worker_ends_with_its_server():
    code = (
        "import time; from solspace.explorer.worker import Worker\n"
        "w = Worker(); w.submit('time:sleep', (60,), print); print(w.pid, flush=True); time.sleep(60)"
    )
    server = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(server.stdout.readline())
    server.kill()
    server.wait()
    server.stdout.close()
    for _ in range(10 * LONG):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        if Path(f"/proc/{child}/stat").exists() and Path(f"/proc/{child}/stat").read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail("the worker outlived its server")


def test_the_pool_shares_answers_once_and_keeps_the_newest(busy):
    pool, gate = busy
    answers = queue.Queue()
    for asker in "abc":
        pool.ask(asker, f"{HERE}:unique", ("same",), lambda *a, asker=asker: answers.put((asker, *a)))
    for k in range(20):  # a slider that moves on: only the last counts
        pool.ask("mover", f"{HERE}:unique", (k,), lambda *a: answers.put(("mover", *a)))
    gate.touch()
    got = [answers.get(timeout=LONG) for _ in range(4)]
    assert {a for a, *_ in got} == {"a", "b", "c", "mover"}
    assert len({value for a, _, value in got if a != "mover"}) == 1
    assert [value[0] for a, _, value in got if a == "mover"] == [(19,)]
    pool.ask("later", f"{HERE}:unique", ("same",), lambda *a: answers.put(("later", *a)))
    assert answers.get_nowait()[2] == got[0][2]  # remembered: no process was asked


def test_pages_take_turns(busy):
    pool, gate = busy
    order, done = [], queue.Queue()

    def again(page, left):
        def answered(kind, value):
            order.append(page)
            if left:
                again(page, left - 1)
            else:
                done.put(page)

        pool.ask(page, f"{HERE}:unique", (page, left), answered)

    for page in range(5):
        again(page, 2)
    gate.touch()
    for _ in range(5):
        done.get(timeout=LONG)
    rounds = [sorted(order[k : k + 5]) for k in (0, 5, 10)]
    assert rounds == [list(range(5))] * 3


def test_what_takes_too_long_is_given_up(pool, tmp_path):
    answers = queue.Queue()
    pool.patience = 0.1
    pool.ask("a", f"{HERE}:double", (2,), lambda *a: answers.put(a))
    assert answers.get(timeout=LONG) == ("done", 4)  # that the process had to start first is not its fault
    pool.ask("a", f"{HERE}:wait", (str(tmp_path / "never"),), lambda *a: answers.put(a))
    kind, words = answers.get(timeout=LONG)
    assert kind == "failed"
    assert "within 0.1 seconds" in words
    pool.patience = LONG
    pool.ask("a", f"{HERE}:double", (4,), lambda *a: answers.put(a))
    assert answers.get(timeout=LONG) == ("done", 8)
