"""Share an elementwise task among threads, in parts whose bounds do not change results.

Compiled loops release the interpreter's lock. Numba's own parallel regions are avoided: their default pool neither survives a
fork nor allows calls from several threads at once.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

PIECE = 1 << 16
_THREADS = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMEXPR", "NUMBA")
_pools: dict[tuple[int, str, int], ThreadPoolExecutor] = {}


def share(task: Callable[[int, int], None], size: int, grain: int = 1) -> None:
    """Call `task(start, stop)` for pieces of range(`size`) that start at multiples of `grain`, on all threads.

    >>> done = []
    >>> share(lambda start, stop: done.append((start, stop)), 10)
    >>> done
    [(0, 10)]
    """
    piece = grain * -(-PIECE // grain)
    if size <= 2 * piece:
        task(0, size)
        return
    starts = range(0, size, piece)
    workers = min(_allowed(), len(starts))

    def run(worker: int) -> None:
        for start in starts[worker::workers]:
            task(start, min(start + piece, size))

    _run_all(run, workers)


def split(task: Callable[[int, int], None], size: int, grain: int = 1) -> None:
    """Call `task(start, stop)` for equal parts of range(`size`), one to a thread, for tasks with a cost at every call.

    >>> done = []
    >>> split(lambda start, stop: done.append(stop - start), 10, grain=16)
    >>> done
    [10]
    """
    pieces = -(-size // grain)
    workers = min(_allowed(), pieces) if pieces > 1 else 1
    bounds = [min(size, grain * (pieces * worker // workers)) for worker in range(workers + 1)]
    _run_all(lambda worker: task(bounds[worker], bounds[worker + 1]), workers)


def _run_all(run: Callable[[int], None], workers: int) -> None:
    others = [pool(workers - 1).submit(run, worker) for worker in range(1, workers)]
    run(0)
    for other in others:
        other.result()


def child_environment() -> dict[str, str]:
    """Return what worker processes need: one thread each, and no imports from the current folder."""
    threads = (*(f"{name}_NUM_THREADS" for name in _THREADS), "VECLIB_MAXIMUM_THREADS")
    return dict.fromkeys(threads, "1") | {"PYTHONSAFEPATH": "1"}


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: its sums do not depend on the number of threads then, and threads of ours can share it."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@cache
def _controller() -> ThreadpoolController:
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
