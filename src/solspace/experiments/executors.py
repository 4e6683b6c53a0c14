"""Executors: how tasks run in this process, in processes on this machine, or on a Dask cluster.

An executor is a generator that takes tasks one by one, only as many as it can keep busy, and yields lists of results in any
order; memory does not grow with the number of tasks. Tasks for a device come apart from the others. Each task runs on one
thread, since threads change the rounding of a matrix product. If a worker dies its tasks run again; a task that ends `DEATHS`
workers is a failed result.
"""

from __future__ import annotations

import itertools
import os
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from joblib import cpu_count

from solspace.experiments.cluster import dask
from solspace.experiments.device import on_device
from solspace.experiments.tasks import DEATHS, Stream, Task, lost, of_the_same_code, one_thread, run
from solspace.store import Result
from solspace.system.checks import one_of, optional, whole
from solspace.system.threads import child_environment


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where tasks run; fields are those of `sweep`."""

    executor: str = "processes"
    scheduler: str | None = None
    n_workers: int | None = None
    retry: bool = False
    show_progress: bool | None = None

    def __post_init__(self) -> None:
        one_of(EXECUTORS)("executor", self.executor)
        optional(whole(1))("n_workers", self.n_workers)
        if self.scheduler is not None and self.executor != "dask":
            raise ValueError(f"scheduler belongs to executor 'dask'; got executor {self.executor!r}.")


def serial(tasks: Iterable[Task], for_device: Iterable[Task], config: RunConfig) -> Stream:
    """Yield results computed in this process, in the order of the tasks, and then those of a device."""
    with one_thread():
        for task in tasks:
            yield [run(task)]
    yield from on_device(for_device, config.n_workers)


def processes(tasks: Iterable[Task], for_device: Iterable[Task], config: RunConfig) -> Stream:
    """Yield results of a device, which this process drives, and meanwhile and after them those of worker processes.

    If this process fails, the results of the others that are there are yielded first.
    """
    own = on_device(for_device, config.n_workers)
    with closing(WorkerPool(tasks, config.n_workers)) as pool, closing(own):
        yield pool.results(block=False)
        try:
            for found in own:
                yield found
                yield pool.results(block=False)
        except GeneratorExit:
            raise
        except BaseException:
            yield pool.results(block=False)
            raise
        while found := pool.results(block=True):
            yield found


# (tasks, tasks for a device, where they run) -> lists of results
Executor = Callable[[Iterable[Task], Iterable[Task], RunConfig], Stream]
EXECUTORS: dict[str, Executor] = {"serial": serial, "processes": processes, "dask": dask}


class WorkerPool:
    """Worker processes that compute a stream of tasks, at most two in flight for each worker.

    They start when they are needed. If one dies, loky ends the whole pool. The tasks in flight then run again one by one, each as
    the only one, which shows the task that ends its workers.
    """

    def __init__(self, tasks: Iterable[Task], n_workers: int | None = None) -> None:
        tasks, self._width = iter(tasks), 2 * (n_workers or cpu_count())
        first = list(itertools.islice(tasks, self._width))
        self._tasks, self._count = itertools.chain(first, tasks), min(self._width // 2, len(first))
        self._running: dict[Future[Result], Task] = {}
        self._pool: Any = None

    def results(self, block: bool) -> list[Result]:
        """Return the results that are there; with `block`, wait for one, and return none if no task is left."""
        while len(self._running) < self._width and (task := next(self._tasks, None)) is not None:
            self._running[self._submit(task)] = task
        done, _ = wait(self._running, None if block else 0, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            done, _ = wait(self._running)
        return [self._result(self._running.pop(future), future) for future in done]

    def _submit(self, task: Task) -> Future[Result]:
        for _ in range(DEATHS):
            try:
                if self._pool is None:
                    self._pool = _loky(self._count)
                    self._pool.submit(os.getpid).result()
                return self._pool.submit(run, task)
            except BrokenProcessPool:
                self._pool = None
        raise ChildProcessError("the worker processes did not start; their message is above.")

    def _result(self, task: Task, future: Future[Result]) -> Result:
        for attempt in range(1 + DEATHS):
            alone = self._submit(task) if attempt else future
            try:
                return of_the_same_code(task, alone.result())
            except BrokenProcessPool as death:
                cause = str(death).partition("{")[2].partition("}")[0] or "no exit code"
        return lost(task, cause)

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)


def _loky(count: int) -> Any:
    """Return loky's pool of `count` worker processes, each on one thread, which end when this process ends.

    Loky imports neither the script of the user, which needs no `if __name__ == "__main__"` guard, nor, on Python's safe path,
    modules of the current folder.
    """
    from multiprocessing import resource_tracker

    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    # raised where `pgrep` is missing, and where loky replaces a worker whose memory has grown: both are harmless
    for message in ("Failed to kill subprocesses", "A worker stopped while some jobs"):
        warnings.filterwarnings("ignore", message, UserWarning)
    before = os.environ.get("PYTHONSAFEPATH", "")
    os.environ["PYTHONSAFEPATH"] = (
        "1"  # of the processes that track semaphores, which loky and the standard library start
    )
    try:
        loky_tracker.ensure_running()
        if os.name == "posix":
            resource_tracker.ensure_running()
    finally:
        os.environ["PYTHONSAFEPATH"] = before  # empty is as if it were not set
    return ProcessPoolExecutor(count, env=child_environment(), initializer=_start_worker, initargs=(os.getpid(),))


def _start_worker(driver: int) -> None:
    """Prepare a worker: what it prints goes to standard error, Ctrl-C is left to the process `driver`, and it ends with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
