"""CPU seconds of the command line from a cold start: ``python -m benchmarks start``."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile

from benchmarks.timing import Spread, Table

SOLSPACE = (sys.executable, "-m", "solspace")
FLOOR = (sys.executable, "-c", "import numpy, scipy, matplotlib")


def cpu_seconds(command: tuple[str, ...], folder: str, **environment: str) -> float:
    """Return the CPU time of a command and its children, in an environment without the thread limits of this benchmark."""
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
    own = {name: value for name, value in os.environ.items() if name not in threads}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, env=own | environment, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def table(quick: bool = False) -> Table:
    """Return CPU seconds of `--help`, of `sample` with and without compiled code, and of importing three libraries."""
    found = Table(
        "Start", "CPU seconds of whole processes, all cores; the first run compiles.", ("command", "CPU time")
    )
    with tempfile.TemporaryDirectory() as folder:
        cache = os.path.join(folder, "cache")
        runs = {
            "python -c 'import numpy, scipy, matplotlib'": (FLOOR, 3 if quick else 9),
            "solspace --help": ((*SOLSPACE, "--help"), 3 if quick else 9),
            "solspace sample, first run": ((*SOLSPACE, "sample"), 1),
            "solspace sample": ((*SOLSPACE, "sample"), 3 if quick else 9),
        }
        for name, (command, rounds) in runs.items():
            found.add(name, Spread.of([cpu_seconds(command, folder, NUMBA_CACHE_DIR=cache) for _ in range(rounds)]))
    return found
