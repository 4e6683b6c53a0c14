"""Tasks on a Dask cluster: an existing scheduler, or a local one.

On Slurm, `dask_jobqueue.SLURMCluster(...)` starts a scheduler and workers as batch jobs; pass its `scheduler_address`.
Dask reruns the tasks of a worker that dies. Added here: a bounded window of submitted tasks, a failed result for a task
that keeps killing workers, and messages if the scheduler is lost or no worker is left.

A local cluster runs in a process of its own, uses TLS with a key that only this process receives, and imports nothing
from the current folder.
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

from solspace.experiments.executors import lost, of_the_same_code, run_on_one_thread
from solspace.experiments.tasks import Task
from solspace.store import Result
from solspace.system.extras import install

_LARGEST_BATCH = 100
_BATCH_SECONDS = 0.25
_WARN_AFTER = 5.0
"""Seconds without any worker before a warning."""
_GIVE_UP_AFTER = 40.0
"""Seconds without any worker before a local cluster is abandoned: its own restarts take a few."""
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
_SCHEDULER_LOST = (
    "the connection to the Dask scheduler is lost. Results so far are in the store: start the cluster and run the "
    "same command again to go on."
)
_WORKERS_LOST = (
    "all workers of the local Dask cluster ended and did not come back. Results so far are in the store: run the same "
    "command again to go on, with fewer workers if memory was short."
)


def dask_results(tasks: Iterable[Task], n_workers: int, scheduler: str | None) -> Iterator[list[Result]]:
    """Yield results from the cluster at `scheduler`, or from a local one of `n_workers` processes."""
    tasks = iter(tasks)
    with _client(n_workers, scheduler) as client:
        width = 2 * max(n_workers, sum(client.nthreads().values()))
        batches = _Batches(client, local=scheduler is None)
        while True:
            while len(batches.sent) < width and (batch := list(itertools.islice(tasks, batches.size))):
                batches.submit(batch)
            if not batches.sent:
                return
            yield batches.receive()


def run_batch(tasks: list[Task]) -> list[Result]:
    """Return the results of some tasks, computed one after the other on one thread of a Dask worker."""
    return [run_on_one_thread(task) for task in tasks]


class _Batches:
    """Submitted batches of tasks.

    Dask spends 10 ms and more on a batch, so short tasks are sent together: as many as fill `_BATCH_SECONDS`, estimated from
    those that have returned.
    """

    def __init__(self, client: Any, local: bool) -> None:
        self.client, self.local = client, local
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[str, list[Task]] = {}
        self.size = 1
        self.without_workers_since: float | None = None

    def submit(self, batch: list[Task]) -> None:
        future = self.client.submit(run_batch, batch, pure=False)
        self.sent[future.key] = batch
        future.add_done_callback(self.done.put)

    def receive(self) -> list[Result]:
        future = self._next()
        batch = self.sent.pop(future.key)
        if future.status in ("finished", "lost", "pending"):  # lost with its worker: it will be computed again
            results = self._fetch(future)
            mean = sum(result.seconds for result in results) / len(results)
            self.size = max(1, min(_LARGEST_BATCH, 2 * self.size, int(_BATCH_SECONDS / (mean + 1e-9))))
            return [of_the_same_code(task, result) for task, result in zip(batch, results)]
        if future.status != "error":
            raise ConnectionError(_SCHEDULER_LOST)
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
                self._check()

    def _fetch(self, future: Any) -> list[Result]:
        """Return the results of a finished batch, which may have been lost with their worker and be computed again."""
        timeout = 2.0
        while True:
            try:
                return future.result(timeout=timeout)
            except TimeoutError:
                timeout *= 2  # large arrays over a slow network need their time
                self._check()
            except Exception as error:
                raise ConnectionError(_SCHEDULER_LOST) from error

    def _check(self) -> None:
        """Raise if the scheduler is lost; warn if no worker is left, since tasks would wait for one silently."""
        from distributed.comm import CommClosedError

        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(_SCHEDULER_LOST)
        try:
            workers = self.client.nthreads()
        except (OSError, CommClosedError):
            return  # the client's status will change
        before, now = self.without_workers_since, time.monotonic()
        self.without_workers_since = None if workers else before or now
        if workers or before is None:
            return
        if self.local and now - before > _GIVE_UP_AFTER:
            raise ConnectionError(_WORKERS_LOST)
        if now - before > _WARN_AFTER:
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
    """Start a local cluster in a process of its own; yield its address and key.

    In this process Dask would import the user's script in every worker, and a script without a `__main__` guard would
    start sweeps within sweeps.
    """
    from distributed import Security

    command = [sys.executable, "-c", _LOCAL, str(n_workers)]
    path = os.pathsep.join(str(part) or os.getcwd() for part in sys.path)  # as here: where users' modules are found
    env = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            if not line:
                raise ChildProcessError("the local Dask cluster did not start; its message is above.")
            address, certificate, key = json.loads(line)
            tls = {"tls_ca_file": certificate, "tls_client_cert": certificate, "tls_client_key": key}
            yield address, Security(**tls, require_encryption=True)
        finally:
            process.stdin.close()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
