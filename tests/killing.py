"""A sweep as a user's script starts it, and ways to end it: what the tests that kill share."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from solspace.store import Store, StoreError

SPEC: dict[str, Any] = {
    "n": [9, 13], "alpha": [0.3, 0.5], "sampler": "exact", "n_samples": 2, "instances": 100,
    "keep": ["weights", "stabilities"],
}  # fmt: skip
"""400 tasks of a few milliseconds; some have no solution, so that failures are compared too."""


def comparable(path: Path) -> dict[str, Any]:
    """Everything about the rows of a store but when, where and how fast they were made; no row twice."""
    rows: dict[str, Any] = {}
    with Store(path) as store:
        assert store._db.execute("SELECT COUNT(*) FROM results").fetchone()[0] == sum(store.count().values())
        for row in store.rows(arrays=True):
            assert row.key not in rows
            arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in row.arrays.items()}
            rows[row.key] = (row.status, row.task, row.values, arrays, row.error, row.seed, row.version)
    return rows


def driver(path: Path, executor: str = "processes", **options: Any) -> subprocess.Popen[str]:
    """Start the sweep as a user's script would, without a guard around it."""
    script = f"import solspace as ss; ss.sweep(ss.Spec(**{SPEC!r}), {str(path)!r}, {executor!r}, **{options!r})"
    return subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def rows_in(path: Path) -> int:
    try:
        with Store(path) as store:
            return sum(store.count().values())
    except StoreError:
        return 0


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition() and process.poll() is None:
        assert time.monotonic() < end, "nothing happened"
        time.sleep(0.01)


def stat_of(pid: str | int) -> list[str]:
    """Return state, parent, ... of a process; ['Z', '0'] when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return ["Z", "0"]


def children(pid: int) -> list[int]:
    everyone = [entry.name for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [int(one) for one in everyone if stat_of(one)[1] == str(pid)]


def all_gone(pids: list[int]) -> bool:
    return all(stat_of(pid)[0] == "Z" for pid in pids)
