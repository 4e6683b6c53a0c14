"""Sweeps that are killed at random moments: what was stored stays, and the same sweep again ends with the same rows."""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from killing import SPEC, all_gone, children, comparable, driver, rows_in, wait_for

import solspace as ss

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")]
ROWS = 400


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    path = tmp_path_factory.mktemp("serial") / "runs.db"
    ss.sweep(ss.Spec(**SPEC), path, executor="serial")
    return comparable(path)


@pytest.mark.exhaustive
@pytest.mark.parametrize("executor", ["processes", "serial", "dask"])
def test_drivers_killed(
    executor: str,
    tmp_path: Path,
    reference: dict[str, Any],
    budget: Callable[[int, int], int],
    tally: Counter[str],
) -> None:
    """Ten kills of each sweep at random moments, then one that is let through."""
    for seed in range(budget(1, 5) if executor == "processes" else budget(0, 2)):
        path, moment = tmp_path / f"{seed}.db", random.Random(seed)
        for kill in range(10):
            _kill_once(path, executor, moment, anywhere=kill % 5 == 4)
            tally["driver killed"] += 1
        assert rows_in(path) < ROWS, f"seed {seed}: the sweep ended before the last kill, nothing was tested"
        _ends_as(path, executor, reference, f"seed {seed}")


def _kill_once(path: Path, executor: str, moment: random.Random, anywhere: bool) -> None:
    goal = rows_in(path) + moment.randint(1, 35)
    process = driver(path, executor, n_workers=2)
    if anywhere:  # also before the workers are there, but not so late that a fast machine is done
        end = time.monotonic() + moment.uniform(0, 1.0)
        while time.monotonic() < end and rows_in(path) < goal:
            time.sleep(0.005)
    else:
        wait_for(lambda: rows_in(path) >= goal, process)
        time.sleep(moment.uniform(0, 0.02))
    workers = children(process.pid)
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while not all_gone(workers):
        assert time.monotonic() < end, "workers outlive their driver"
        time.sleep(0.01)


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_workers_killed(
    executor: str,
    tmp_path: Path,
    reference: dict[str, Any],
    budget: Callable[[int, int], int],
    tally: Counter[str],
) -> None:
    """Two kills of a worker in each sweep, which goes on by itself: it starts another."""
    for seed in range(budget(0, 5)):
        path, moment = tmp_path / f"{seed}.db", random.Random(seed)
        process = driver(path, executor, n_workers=2)
        for goal in (moment.randint(1, 100), moment.randint(101, 250)):
            wait_for(lambda: rows_in(path) >= goal, process)  # noqa: B023
            if workers := _workers(process.pid):
                os.kill(moment.choice(workers), signal.SIGKILL)
                tally["worker killed"] += 1
        _, message = process.communicate(timeout=300)
        assert process.returncode == 0, f"seed {seed}: {message}"
        assert comparable(path) == reference, f"seed {seed}"


def _workers(pid: int) -> list[int]:
    """Return the processes below `pid` that have none below them: those that compute."""
    below = children(pid)
    return [worker for child in below for worker in (_workers(child) or [child])]


def _ends_as(path: Path, executor: str, reference: dict[str, Any], said: str) -> None:
    process = driver(path, executor, n_workers=2)
    _, message = process.communicate()
    assert process.returncode == 0, f"{said}: {message}"
    assert comparable(path) == reference, said
