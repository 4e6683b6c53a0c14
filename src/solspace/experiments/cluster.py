"""Tasks on a Dask cluster: an existing scheduler, or a local one.

On Slurm, `dask_jobqueue.SLURMCluster(...)` starts a scheduler and workers as batch jobs; give its `scheduler_address`
here. Dask reschedules the tasks of a worker that dies; what we add is a bounded window of submitted tasks, a result
in place of a task that keeps killing workers, and words when the scheduler is gone or no worker is left.

A local cluster runs in a process of its own and speaks TLS with a key that only this process is told, so that nobody
else on the machine can hand it work. Nothing in the current folder is imported by it: Python's safe path holds for it
and all it starts.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from solspace.experiments.executors import lost, run_on_one_thread
from solspace.experiments.tasks import Task
from solspace.store import Result
from solspace.system.extras import install

_MOST = 100
"""Most tasks in a batch."""
_FLIGHT = 0.25
"""Seconds of work that a batch is filled up to."""
_SILENCE = 5.0
"""Seconds without any worker before the user is told."""
_PATIENCE = 40.0
"""Seconds without any worker before a local cluster is given up: its own restarts take a few."""
_LOCAL = """
import json, signal, sys
from distributed import LocalCluster, Security
signal.signal(signal.SIGINT, signal.SIG_IGN)
safe = Security.temporary()
with LocalCluster(
    n_workers=int(sys.argv[1]), threads_per_worker=1, dashboard_address=None, host="127.0.0.1", security=safe
) as cluster:
    print(json.dumps([cluster.scheduler_address, safe.tls_client_cert, safe.tls_client_key]), flush=True)
    sys.stdin.read()
"""
_GONE = (
    "the connection to the Dask scheduler is lost. Results so far are in the store: start the cluster and run the "
    "same command again to go on."
)


_DESERTED = (
    "all workers of the local Dask cluster ended and did not come back. Results so far are in the store: run the same "
    "command again to go on, with fewer workers if memory was short."
)


def dask_results(tasks: Iterable[Task], n_workers: int, scheduler: str | None) -> Iterator[Result]:
    """Yield results from the cluster at `scheduler`, or from a local one of `n_workers` processes."""
    tasks = iter(tasks)
    with _client(n_workers, scheduler) as client:
        width = 2 * max(n_workers, sum(client.nthreads().values()))
        flights = _Flights(client, local=scheduler is None)
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

    def __init__(self, client: Any, local: bool) -> None:
        self.client, self.local = client, local
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[str, list[Task]] = {}
        self.size = 1
        self.alone_since: float | None = None

    def submit(self, batch: list[Task]) -> None:
        future = self.client.submit(run_batch, batch, pure=False)
        self.sent[future.key] = batch
        future.add_done_callback(self.done.put)

    def receive(self) -> list[Result]:
        future = self._next()
        batch = self.sent.pop(future.key)
        if future.status in ("finished", "lost", "pending"):  # lost with its worker: it will be computed anew
            results = self._fetched(future)
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
                self._look_around()

    def _fetched(self, future: Any) -> list[Result]:
        """Return the results of a batch that is done. They may have died with their worker, and wait for another."""
        patience = 2.0
        while True:
            try:
                return future.result(timeout=patience)
            except TimeoutError:
                patience *= 2  # large arrays over a slow network need their time
                self._look_around()
            except Exception as error:
                raise ConnectionError(_GONE) from error

    def _look_around(self) -> None:
        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(_GONE)
        self._look_for_workers()

    def _look_for_workers(self) -> None:
        """Tell the user when no worker is left: tasks would wait for one in silence, and for ever."""
        from distributed.comm import CommClosedError

        try:
            there = self.client.nthreads()
        except (OSError, CommClosedError):
            return  # the client's status will say
        before, now = self.alone_since, time.monotonic()
        self.alone_since = None if there else before or now
        if there or before is None:
            return
        if self.local and now - before > _PATIENCE:
            raise ConnectionError(_DESERTED)
        if now - before > _SILENCE:
            address = self.client.scheduler.address
            cure = "waiting for them to come back" if self.local else f"start some with: dask worker {address}"
            warnings.warn(
                f"no Dask worker is connected to {address}, and {sum(map(len, self.sent.values())):,} tasks wait: "
                f"{cure}. Ctrl-C ends; what is done is in the store.",
                stacklevel=2,
            )


@contextmanager
def _client(n_workers: int, scheduler: str | None) -> Iterator[Any]:
    try:
        from distributed import Client
    except ImportError:
        raise ImportError(f"executor 'dask' needs dask.distributed: {install('cluster')}.") from None
    with _local(n_workers) if scheduler is None else nullcontext((scheduler, None)) as (address, security):
        try:
            client = Client(address, timeout="30s", set_as_default=False, security=security)
        except (OSError, ValueError) as error:
            raise ConnectionError(f"no Dask scheduler answers at {address} ({error}).") from None
        with client:
            yield client


@contextmanager
def _local(n_workers: int) -> Iterator[tuple[str, Any]]:
    """Start a local cluster in a process of its own and give its address and the key to it.

    Inside this process Dask would import the user's script once more in every worker, and a script without a
    `__main__` guard would start sweeps within sweeps.
    """
    from distributed import Security

    start = [sys.executable, "-c", _LOCAL, str(n_workers)]
    path = os.pathsep.join(str(part) or os.getcwd() for part in sys.path)  # as here: where users' modules are found
    env = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(start, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise ChildProcessError("the local Dask cluster did not start; its message is above.")
            address, certificate, key = json.loads(line)
            yield (
                address,
                Security(
                    tls_ca_file=certificate, tls_client_cert=certificate, tls_client_key=key, require_encryption=True
                ),
            )
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
