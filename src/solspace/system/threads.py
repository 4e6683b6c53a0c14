"""Share an elementwise task among threads, in parts whose bounds do not change results.

Compiled loops release the interpreter's lock. Numba's own parallel regions are avoided: their default pool neither survives a
fork nor allows calls from several threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

PIECE = 1 << 16  # entries of a piece whose temporary arrays fit into a cache
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")
_pools: dict[tuple[int, str, int], ThreadPoolExecutor] = {}


def split(task: Callable[[int, int], None], size: int, grain: int = 1, piece: int = 0) -> None:
    """Call `task(start, stop)` for parts of range(`size`) that start at multiples of `grain`, on all threads.

    There is a part for each thread, or many of about `piece` entries for tasks that take memory in proportion.

    >>> done = []
    >>> split(lambda start, stop: done.append((start, stop)), 10, grain=16)
    >>> done
    [(0, 10)]
    """
    if size <= max(grain, 2 * piece):
        task(0, size)
        return
    grains, workers = -(-size // grain), _allowed()
    length = grain * -(-piece // grain if piece else -grains // workers)
    starts = range(0, size, length)

    def run(worker: int) -> None:
        for start in starts[worker::workers]:
            task(start, min(start + length, size))

    others = [pool(workers - 1).submit(run, worker) for worker in range(1, min(workers, len(starts)))]
    run(0)
    for other in others:
        other.result()


def child_environment() -> dict[str, str]:
    """Return what worker processes need: one thread each, and no imports from the current folder."""
    threads = (*(f"{name}_NUM_THREADS" for name in _THREADS), "VECLIB_MAXIMUM_THREADS")
    return dict.fromkeys(threads, "1") | {"PYTHONSAFEPATH": "1"}


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep BLAS to one thread: its sums do not depend on the number of threads then, and threads of ours can share it."""
    return _controller().limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    import scipy.linalg.blas  # noqa: F401  SciPy has a BLAS of its own, which is found once it is loaded
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _allowed() -> int:
    import numba

    return numba.get_num_threads()


def pool(workers: int, name: str = "solspace") -> ThreadPoolExecutor:
    """Return threads that are kept for the life of this process; a pool inherited by a forked child has none left."""
    key = (os.getpid(), name, workers)
    if key not in _pools:
        _pools[key] = ThreadPoolExecutor(workers, name)
    return _pools[key]
