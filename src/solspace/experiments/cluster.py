"""Tasks on a Dask cluster: an existing scheduler, or a local one.

On Slurm, `dask_jobqueue.SLURMCluster(...)` starts a scheduler and workers as batch jobs; give its `scheduler_address`
here. Dask reschedules the tasks of a worker that dies; what we add is a bounded window of submitted tasks, a result
in place of a task that keeps killing workers, and an error in words when the scheduler is gone.
"""

from __future__ import annotations

import itertools
import os
import queue
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from solspace.experiments.executors import lost, run_on_one_thread
from solspace.experiments.tasks import Task
from solspace.store import Result

_MOST = 100
"""Most tasks in a batch."""
_FLIGHT = 0.25
"""Seconds of work that a batch is filled up to."""
_LOCAL = """
import signal, sys
from distributed import LocalCluster
signal.signal(signal.SIGINT, signal.SIG_IGN)
with LocalCluster(n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None) as cluster:
    print(cluster.scheduler_address, flush=True)
    sys.stdin.read()
"""
_GONE = (
    "the connection to the Dask scheduler is lost. Results so far are in the store: start the cluster and run the "
    "same command again to go on."
)


def dask_results(tasks: Iterable[Task], n_workers: int, scheduler: str | None) -> Iterator[Result]:
    """Yield results from the cluster at `scheduler`, or from a local one of `n_workers` processes."""
    tasks = iter(tasks)
    with _client(n_workers, scheduler) as client:
        width = 2 * max(n_workers, sum(client.nthreads().values()))
        flights = _Flights(client)
        while True:
            while len(flights.sent) < width and (batch := list(itertools.islice(tasks, flights.size))):
                flights.submit(batch)
            if not flights.sent:
                return
            yield from flights.receive()


def run_batch(tasks: list[Task]) -> list[Result]:
    """Return the results of some tasks, one after the other on one thread: what a Dask worker is asked to do."""
    return [run_on_one_thread(task) for task in tasks]


class _Flights:
    """Batches of tasks under way.

    Dask spends ten milliseconds and more on a batch, so short tasks travel together: as many as fill a quarter of a
    second, judged by those that have come back.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[str, list[Task]] = {}
        self.size = 1

    def submit(self, batch: list[Task]) -> None:
        future = self.client.submit(run_batch, batch, pure=False)
        self.sent[future.key] = batch
        future.add_done_callback(self.done.put)

    def receive(self) -> list[Result]:
        future = self._next()
        batch = self.sent.pop(future.key)
        if future.status == "finished":
            try:
                results = future.result()
            except Exception as error:
                raise ConnectionError(_GONE) from error
            mean = sum(result.seconds for result in results) / len(results)
            self.size = max(1, min(_MOST, 2 * self.size, int(_FLIGHT / (mean + 1e-9))))
            return results
        if future.status != "error":
            raise ConnectionError(_GONE)
        cause = future.exception()
        if type(cause).__name__ != "KilledWorker":
            raise ChildProcessError(
                f"the Dask workers cannot run solspace tasks ({type(cause).__name__}: {cause}). Is the same version of "
                "solspace installed where they run?"
            ) from cause
        if len(batch) == 1:
            return [lost(batch[0], "Dask: KilledWorker")]
        for task in batch:
            self.submit([task])
        return []

    def _next(self) -> Any:
        while True:
            try:
                return self.done.get(timeout=1)
            except queue.Empty:
                if self.client.status not in ("running", "connecting"):
                    raise ConnectionError(_GONE) from None


@contextmanager
def _client(n_workers: int, scheduler: str | None) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("executor 'dask' needs dask.distributed: pip install 'solspace[cluster]'.") from None
    with _local(n_workers) if scheduler is None else nullcontext(scheduler) as address:
        try:
            client = Client(address, timeout="30s", set_as_default=False)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"no Dask scheduler answers at {address} ({error}).") from None
        with client:
            yield client


@contextmanager
def _local(n_workers: int) -> Iterator[str]:
    """Start a local cluster in a process of its own and give its address.

    Inside this process Dask would import the user's script once more in every worker, and a script without a
    `__main__` guard would start sweeps within sweeps.
    """
    start = [sys.executable, "-c", _LOCAL, str(n_workers)]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))}
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            address = process.stdout.readline().strip()
            if not address:
                raise ChildProcessError("the local Dask cluster did not start; its message is above.")
            yield address
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
