"""Worker processes and the pool: answers, failures, stops, fairness, and an end when the server ends.

Nothing here is timed: a computation that must still run when the next thing happens waits for a file to appear.
"""

from __future__ import annotations

import asyncio
import os
import queue
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from solspace.explorer.workers import Failure, Pool, Stopped, Worker
from solspace.system.threads import child_environment

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


def ask(pool, *question):
    return asyncio.ensure_future(pool.ask(*question))


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
        "import os\nfrom solspace.explorer.settings import parse\nfrom solspace.explorer.workers import Worker\n"
        "from solspace.system.threads import child_environment\n"
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


def test_the_pool_shares_answers_once_and_keeps_the_newest(pool, tmp_path):
    file = tmp_path / "go"

    async def story():
        busy = ask(pool, wait, str(file))
        shared = [ask(pool, unique, "same") for _ in range(3)]
        moves = [ask(pool, unique, k) for k in range(20)]  # a slider that moves on: only the last counts
        await asyncio.sleep(0)
        shared[0].cancel()
        for move in moves[:-1]:
            move.cancel()
        await asyncio.wait(moves[:-1])
        assert len(pool._known) == 3
        file.touch()
        answers = await asyncio.gather(*shared[1:], moves[-1], busy)
        assert answers[0] == answers[1]
        assert answers[2][0] == (19,)
        assert await pool.ask(unique, "same") == answers[0]  # no process was used

    asyncio.run(story())


def test_a_question_asked_again_while_it_is_computed_is_answered(pool, tmp_path):
    file = tmp_path / "go"

    async def story():
        first = ask(pool, wait, str(file))
        await asyncio.sleep(0.1)
        first.cancel()
        again = ask(pool, wait, str(file))
        await asyncio.sleep(0)
        file.touch()
        await again

    asyncio.run(story())


def test_pages_take_turns(pool, tmp_path):
    order, file = [], tmp_path / "go"

    async def page(number):
        for left in range(3):
            await pool.ask(unique, number, left)
            order.append(number)

    async def story():
        busy, pages = ask(pool, wait, str(file)), [asyncio.ensure_future(page(number)) for number in range(5)]
        await asyncio.sleep(0)
        file.touch()
        await asyncio.gather(busy, *pages)

    asyncio.run(story())
    assert [sorted(order[k : k + 5]) for k in (0, 5, 10)] == [list(range(5))] * 3


def test_what_takes_too_long_is_given_up(pool, tmp_path):
    async def story():
        pool.limit = 0.1
        assert await pool.ask(double, 2) == 4  # the start of the process does not count
        with pytest.raises(Failure, match=r"within 0.1 seconds"):
            await pool.ask(wait, str(tmp_path / "never"))
        pool.limit = LONG
        assert await pool.ask(double, 4) == 8

    asyncio.run(story())


def test_a_failure_is_not_remembered(pool):
    async def story():
        for _ in range(2):
            with pytest.raises(Failure, match="no such thing"):
                await pool.ask(fail, "no such thing.")
        assert not pool._known

    asyncio.run(story())
