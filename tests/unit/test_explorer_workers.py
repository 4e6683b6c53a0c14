"""Worker processes and the pool: answers, failures, stops, fairness, and an end when the server ends.

Nothing here is timed: a computation that must still run when the next thing happens waits for a file to appear.
"""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solspace.explorer.workers import Failure, Pool, Stopped, Worker, child_environment

LONG = 120
"""Seconds after which a loaded machine has surely answered."""


# ---- computed in the child


def double(x):
    return 2 * x


def fail(words):
    raise ValueError(words)


def die():
    os._exit(3)


def say():
    print("this must not get into the answers")
    return "quiet"


def count_up(report):
    for k in range(10**9):
        report(k)
        time.sleep(0.01)


def wait(file):
    while not Path(file).exists():
        time.sleep(0.01)


def unique(*key):
    return key, os.urandom(8)


def environment():
    return os.environ["OMP_NUM_THREADS"], os.nice(0)


@pytest.fixture(autouse=True)
def prepared(monkeypatch):
    for name, value in child_environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))


@pytest.fixture
def worker():
    started = Worker(niceness=3)
    yield started
    started.stop()


@pytest.fixture
def pool():
    started = Pool(1, limit=LONG)
    yield started
    started.close()


@pytest.fixture
def busy(pool, tmp_path):
    """Return a pool that has something to do until a file exists, and that file."""
    file = tmp_path / "go"
    pool.ask("first", lambda *answer: None, wait, str(file))
    return pool, file


def test_a_worker_answers_fails_and_lives_on(worker):
    assert worker.call(double, 21) == 42
    with pytest.raises(Failure, match="no such thing"):
        worker.call(fail, "no such thing.")
    assert worker.call(say) == "quiet"
    assert worker.call(environment) == ("1", min(os.nice(0) + 3, 19))
    with pytest.raises(Failure, match="code 3"):
        worker.call(die)
    assert not worker.alive


def test_a_computation_is_stopped(worker):
    updates, ends = queue.Queue(), queue.Queue()

    def call():
        try:
            worker.call(count_up, on_update=updates.put)
        except Stopped as stopped:
            ends.put(stopped)

    thread = threading.Thread(target=call)
    thread.start()
    assert updates.get(timeout=LONG) == 0
    process = worker.process.pid
    worker.stop()
    thread.join()
    assert ends.get_nowait()
    assert not worker.alive
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(Stopped):
        worker.call(double, 1)


def test_nothing_in_the_current_folder_is_run(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONSAFEPATH")
    folder, program = tmp_path / "downloads", tmp_path / "program.py"  # started as `solspace` is: from its own folder
    folder.mkdir()
    for name in sys.stdlib_module_names | {"numpy", "scipy", "numba", "solspace", "sitecustomize"}:
        (folder / f"{name}.py").write_text(f"print('ran {name}', flush=True)\n")
    program.write_text(
        "import os\nfrom solspace.explorer.settings import parse\nfrom solspace.explorer.workers import *\n"
        "if __name__ == '__main__':\n"
        "    os.environ |= child_environment()\n    print(Worker().call(parse, 'alpha', '1/4'))\n"
    )
    done = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["0.25"]


def test_a_worker_ends_with_its_server():
    code = (
        "import threading, time; from solspace.explorer.workers import Worker\n"
        "w = Worker(); threading.Thread(target=w.call, args=(time.sleep, 600)).start(); print(w.process.pid, flush=True)\n"
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
    pool, file = busy
    answers = queue.Queue()
    for asker in "abc":
        pool.ask(asker, lambda *a, asker=asker: answers.put((asker, *a)), unique, "same")
    for k in range(20):  # a slider that moves on: only the last counts
        pool.ask("mover", lambda *a: answers.put(("mover", *a)), unique, k)
    file.touch()
    got = [answers.get(timeout=LONG) for _ in range(4)]
    assert {a for a, *_ in got} == {"a", "b", "c", "mover"}
    assert len({value for a, _, value in got if a != "mover"}) == 1
    assert [value[0] for a, _, value in got if a == "mover"] == [(19,)]
    pool.ask("later", lambda *a: answers.put(("later", *a)), unique, "same")
    assert answers.get_nowait()[2] == next(value for a, _, value in got if a == "a")  # no process was asked


def test_a_question_asked_again_while_it_is_computed_is_answered(busy):
    pool, file = busy
    answers = queue.Queue()
    pool.ask("first", lambda *a: answers.put("again"), wait, str(file))
    file.touch()
    assert answers.get(timeout=LONG) == "again"


def test_pages_take_turns(busy):
    pool, file = busy
    order, done = [], queue.Queue()

    def again(page, left):
        def answered(kind, value):
            order.append(page)
            if left:
                again(page, left - 1)
            else:
                done.put(page)

        pool.ask(page, answered, unique, page, left)

    for page in range(5):
        again(page, 2)
    file.touch()
    for _ in range(5):
        done.get(timeout=LONG)
    rounds = [sorted(order[k : k + 5]) for k in (0, 5, 10)]
    assert rounds == [list(range(5))] * 3


def test_what_takes_too_long_is_given_up(pool, tmp_path):
    answers = queue.Queue()
    pool.limit = 0.1
    pool.ask("a", lambda *a: answers.put(a), double, 2)
    assert answers.get(timeout=LONG) == ("done", 4)  # the start of the process does not count
    pool.ask("a", lambda *a: answers.put(a), wait, str(tmp_path / "never"))
    kind, words = answers.get(timeout=LONG)
    assert kind == "failed"
    assert "within 0.1 seconds" in words
    pool.limit = LONG
    pool.ask("a", lambda *a: answers.put(a), double, 4)
    assert answers.get(timeout=LONG) == ("done", 8)
