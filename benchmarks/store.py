"""Measure what a sweep costs beyond its tasks: overhead a task, rows stored and read back, memory against tasks.

``python -m benchmarks.store`` prints a Markdown table.
"""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import solspace as ss
from benchmarks.timing import Table
from solspace.experiments.executors import EXECUTORS, RunConfig
from solspace.store import Result, Store

_SWEEP = """
import resource, sys
from pathlib import Path
import solspace as ss
ss.sweep(ss.Spec(n=3, alpha=0.4, sampler="exact", instances=int(sys.argv[2])), sys.argv[1], executor="serial")
status = Path("/proc/self/status")  # getrusage would count what the parent had before this process began
lines = status.read_text().splitlines() if status.exists() else []
peaks = [line.split()[1] for line in lines if line.startswith("VmHWM")]
print(peaks[0] if peaks else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def overhead(executor: str, folder: Path, count: int = 1000) -> float:
    """Milliseconds of wall time a task beyond the task itself, start of the workers left out."""
    spec = ss.Spec(n=3, alpha=0.4, sampler="exact", instances=count)
    path = folder / f"{executor}.db"
    stamps, work = [], 0.0
    stream = EXECUTORS[executor](spec.tasks(), (), RunConfig(n_workers=1))
    with Store(path, write=True) as store:
        for result in itertools.chain.from_iterable(stream):
            store.add(result)
            stamps.append(time.perf_counter())
            work += result.seconds
    wall = stamps[-1] - stamps[count // 10]
    return 1e3 * max(0.0, wall / (0.9 * count) - work / count)


def store_rows(folder: Path, count: int = 100_000) -> tuple[float, float, float, float]:
    """Seconds to add, to read with a filter, to read all; megabytes on disk."""
    path = folder / "rows.db"
    task = {
        "kind": "sample",
        "n": 1001,
        "patterns": "binary",
        "target": {"prior": "binary", "margin": 0.0},
        "options": {},
    }
    start = time.perf_counter()
    with Store(path, write=True) as store:
        for i in range(count):
            values = {"solved": i % 5, "overlap": i / count}
            store.add(Result(f"{i:032x}", {**task, "alpha": (i % 50) / 100, "instance": i // 50}, values=values))
    added = time.perf_counter() - start
    with Store(path) as store:
        start = time.perf_counter()
        assert sum(1 for _ in store.rows(alpha=(0.2, 0.29), solved=3)) == count // 25
        filtered = time.perf_counter() - start
        start = time.perf_counter()
        assert sum(1 for _ in store.rows()) == count
        read = time.perf_counter() - start
    return added, filtered, read, path.stat().st_size / 1e6


def memory(folder: Path, count: int) -> float:
    """Peak resident megabytes of a serial sweep of `count` tasks, in a process of its own."""
    command = [sys.executable, "-c", _SWEEP, str(folder / f"memory{count}.db"), str(count)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / 1e3


def table(count: int = 4000, rows: int = 100_000) -> Table:
    """Return what a sweep of `count` tasks costs beyond them, and a store of `rows` rows."""
    found = Table(
        "Sweeps and the store",
        "What an executor adds to a task (wall time without the start of workers; at most 5 ms is required), and the cost of a "
        "store of results.",
        ("what", "measured"),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for executor in ("serial", "processes"):
            times = [overhead(executor, folder, count) for _ in range(3)]
            found.add(f"overhead of a task, {executor}", f"{statistics.median(times):.2f} ms")
        added, filtered, read, size = store_rows(folder, rows)
        found.add(f"{rows:,} rows added", f"{added:.1f} s, {size:.0f} MB")
        found.add(f"read back with a filter ({rows // 25:,} rows)", f"{filtered:.2f} s")
        found.add("read back whole", f"{read:.1f} s")
        few, many = memory(folder, 1000), memory(folder, 5 * count)
        found.add(f"peak memory, 1,000 and {5 * count:,} tasks", f"{few:.0f} and {many:.0f} MB")
    return found


if __name__ == "__main__":
    print(table().markdown())
    with tempfile.TemporaryDirectory() as place:
        print(f"Overhead of a task by a local Dask cluster: {overhead('dask', Path(place), 4000):.2f} ms.")
