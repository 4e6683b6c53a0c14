"""Who runs the tasks: this process, processes on this machine, or a Dask cluster.

An executor is a generator: it takes tasks one by one, only as many as it can keep busy, and yields their results as
they come, in any order. It never keeps the list of tasks, so memory does not grow with their number. Each task runs
on one thread, here as elsewhere, since threads change the rounding of a matrix product. A worker that dies costs its
task another try; a task that has cost three workers is a failed result.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import closing, contextmanager

from solspace.experiments.tasks import Task, finished, run
from solspace.experiments.worker import Worker, WorkerDied
from solspace.store import Result
from solspace.system.names import unknown

DEATHS = 3
"""Workers a task may cost before it counts as failed."""


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_limited = 0


def keep_to_one_thread() -> None:
    """Keep BLAS and Numba to one thread in this process; cheap when nothing was imported since the last call."""
    global _limited
    if len(sys.modules) == _limited:
        return
    from threadpoolctl import threadpool_limits

    threadpool_limits(1)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)
    _limited = len(sys.modules)


@contextmanager
def one_thread() -> Iterator[None]:
    """Undo `keep_to_one_thread` when the block ends."""
    global _limited
    from threadpoolctl import threadpool_limits

    numba = sys.modules.get("numba")
    before = numba.get_num_threads() if numba else None
    with threadpool_limits(1):
        try:
            yield
        finally:
            _limited = 0
            if numba := sys.modules.get("numba"):
                numba.set_num_threads(before or numba.config.NUMBA_NUM_THREADS)


def run_on_one_thread(task: Task) -> Result:
    """Return the task's result, computed on one thread of this process."""
    keep_to_one_thread()
    return run(task)


def serial(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results computed in this process, in the order of the tasks."""
    with one_thread():
        yield from map(run_on_one_thread, tasks)


def processes(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results from worker processes, one for each core unless `n_workers` says otherwise."""
    with closing(_polled(tasks, n_workers, lambda: True)) as made:
        yield from (result for result in made if result is not None)


def processes_beside(
    tasks: Iterable[Task], others: Iterator[list[Result]], n_workers: int | None = None
) -> Iterator[list[Result]]:
    """Yield `others`, which this process makes, and what worker processes make of `tasks` meanwhile and after them.

    What they have made when `others` fail is yielded before the error is raised.
    """
    alone = False
    made = _polled(tasks, n_workers, lambda: alone)

    def there() -> Iterator[list[Result]]:
        for result in made:
            if result is None:
                return
            yield [of_the_same_code(result)]

    try:
        yield from there()
        for other in others:
            yield other
            yield from there()
        alone = True
        yield from there()
    except GeneratorExit:
        raise
    except BaseException:
        yield from there()
        raise
    finally:
        made.close()
        getattr(others, "close", lambda: None)()


def _polled(
    tasks: Iterable[Task], n_workers: int | None, waits: Callable[[], bool]
) -> Generator[Result | None, None, None]:
    """Yield results from worker processes as they come; while there is none, wait for it or yield None."""
    count = n_workers or cores()
    inbox: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
    outbox: queue.SimpleQueue[Result | BaseException] = queue.SimpleQueue()
    pool = [_Attendant(inbox, outbox) for _ in range(count)]

    def receive() -> Result | BaseException | None:
        try:
            return outbox.get(block=waits())
        except queue.Empty:
            return None

    try:
        yield from _window(tasks, 2 * count, inbox.put, receive)
    finally:
        for _ in pool:
            inbox.put(None)
        for attendant in pool:
            attendant.end()


def _window(
    tasks: Iterable[Task],
    width: int,
    submit: Callable[[Task], object],
    receive: Callable[[], Result | BaseException | None],
) -> Iterator[Result | None]:
    """Keep at most `width` tasks submitted and not yet received; yield None where `receive` found nothing yet."""
    waiting = 0
    tasks = iter(tasks)
    more = True
    while more or waiting:
        while more and waiting < width:
            task = next(tasks, None)
            more = task is not None
            if task is not None:
                submit(task)
                waiting += 1
        if waiting:
            result = receive()
            waiting -= result is not None
            if isinstance(result, BaseException):
                raise result
            yield result


class _Attendant:
    """A thread that looks after one worker process: hands it tasks, starts another when it dies."""

    def __init__(
        self, inbox: queue.SimpleQueue[Task | None], outbox: queue.SimpleQueue[Result | BaseException]
    ) -> None:
        self.inbox, self.outbox = inbox, outbox
        self.worker: Worker | None = None
        self.ending = False
        self.thread = threading.Thread(target=self._attend, daemon=True)
        self.thread.start()

    def _attend(self) -> None:
        try:
            while (task := self.inbox.get()) is not None and not self.ending:
                self.outbox.put(self._run(task))
        except BaseException as error:
            self.outbox.put(error)
        finally:
            if self.worker is not None:
                self.worker.close()

    def _run(self, task: Task) -> Result:
        cause = "stopped"
        for _ in range(DEATHS):
            try:
                if self.worker is None:
                    self.worker = Worker()
                if self.ending:
                    break
                return self.worker.run(task)
            except WorkerDied as death:
                cause = str(death)
                if self.worker is not None:
                    self.worker.close()
                self.worker = None
        return lost(task, cause)

    def end(self) -> None:
        """Stop at once: the task in hand is given up."""
        self.ending = True
        if (worker := self.worker) is not None:
            worker.kill()
        self.thread.join()


def of_the_same_code(result: Result) -> Result:
    """Return a worker's result; raise a sentence where its code names tasks otherwise than this process does."""
    if Task(result.task).key != result.key:
        raise ChildProcessError(
            f"the worker on {result.host} runs another version of solspace ({result.version}), whose results do "
            "not belong into this store: install the same version everywhere."
        )
    return result


def lost(task: Task, cause: str) -> Result:
    """Return the failed result of a task that costs every worker its life."""
    message = f"the task ended {DEATHS} worker processes ({cause}): out of memory, or killed by the system?"
    return finished(task, {}, {}, error=message)


def dask(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results from a Dask cluster: the one at `scheduler`, or a local one."""
    from solspace.experiments.cluster import dask_results

    return dask_results(tasks, n_workers or cores(), scheduler)


EXECUTORS: dict[str, Callable[..., Iterator[Result]]] = {"serial": serial, "processes": processes, "dask": dask}


def find(name: str) -> Callable[..., Iterator[Result]]:
    """Return the executor called `name`."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    return EXECUTORS[name]
