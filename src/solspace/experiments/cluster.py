"""Tasks on a Dask cluster: an existing one, on Slurm for example that of `dask_jobqueue.SLURMCluster`, or a local one.

Added to Dask: a bounded number of submitted tasks, in batches; a failed result for a task that keeps killing workers; messages
if the scheduler is lost or no worker is left. Workers that have a GPU drive it by `device.on_device`.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

from joblib import cpu_count

from solspace.experiments.device import on_device
from solspace.experiments.tasks import DEATHS, Stream, Task, lost, of_the_same_code, run, unless_empty, use_one_thread
from solspace.samplers import device
from solspace.store import Result
from solspace.system.checks import install

if TYPE_CHECKING:
    from solspace.experiments.executors import RunConfig

_WARN_AFTER = 5.0  # seconds without any worker before a warning
_GIVE_UP_AFTER = 40.0  # seconds before a local cluster, or the cards, are abandoned: restarts take a few
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
_AGAIN = "Results so far are in the store: run the same command again to go on"
_SCHEDULER_LOST = f"the connection to the Dask scheduler is lost. {_AGAIN}, once the cluster runs."


def dask(tasks: Iterable[Task], for_device: Iterable[Task], config: RunConfig) -> Stream:
    """Yield results from the Dask cluster at `config.scheduler`, or from a local one of `config.n_workers` processes.

    Tasks `for_device` go to the workers that have a GPU; if there are none, to all.
    """
    tasks, for_device = unless_empty(tasks), unless_empty(for_device)
    if not (tasks or for_device):
        return
    count, local = config.n_workers or cpu_count(), config.scheduler is None
    with _client(count, config.scheduler) as client:
        stream = _Dask(client, local_cards(config.n_workers) if local and for_device else (), local)
        drivers = stream.find_drivers() if for_device else set()
        if not drivers:
            tasks, for_device = itertools.chain(tasks, for_device), ()
        threads = max(count, sum(client.nthreads().values()))
        waiting, on_cards = iter(tasks), iter(for_device)
        while True:
            stream.fill(TASKS, waiting, 2 * threads)
            stream.fill(CARDS, on_cards, 2 * len(drivers))
            if not stream.sent:
                return
            yield stream.receive()


def local_cards(n_workers: int | None) -> tuple[str, ...]:
    """Return the card of each worker of a local cluster that takes one: `n_workers` of them in turn, or one to a card."""
    if device.missing():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    cards = named.split(",") if named else [str(i) for i in range(device.cupy().cuda.runtime.getDeviceCount())]
    return tuple(itertools.islice(itertools.cycle(cards), n_workers or len(cards)))


def visible_card(cards: tuple[str, ...], dask_worker: Any) -> str | None:
    """Return what a worker sees by CUDA_VISIBLE_DEVICES, or None; those of a local cluster see their own of `cards` alone."""
    if cards:
        number = int(dask_worker.name)
        os.environ["CUDA_VISIBLE_DEVICES"] = cards[number] if number < len(cards) else ""
    return None if device.missing() else os.environ.get("CUDA_VISIBLE_DEVICES", "")


def run_batch(tasks: list[Task], cards: tuple[str, ...]) -> tuple[list[Result], float]:
    begun = time.perf_counter()
    use_one_thread()
    return [run(task) for task in tasks], time.perf_counter() - begun


def run_on_card(tasks: list[Task], cards: tuple[str, ...]) -> tuple[list[Result], float]:
    """Return the results of tasks that share the card of a worker, and the seconds: those of single tasks overlap."""
    from distributed import get_worker

    if visible_card(cards, get_worker()) is None:
        raise RuntimeError("the worker has no GPU any more")
    with _card_turn:
        begun = time.perf_counter()
        found = {result.key: result for result in itertools.chain.from_iterable(on_device(tasks))}
    return [found[task.key] for task in tasks], time.perf_counter() - begun


_card_turn = threading.Lock()  # threads of one worker take turns on its card


class Kind(NamedTuple):
    """How tasks are sent: in batches that take about `seconds`, at first of `size` tasks and of `largest` at most."""

    run: Callable[[list[Task], tuple[str, ...]], tuple[list[Result], float]]
    seconds: float
    size: int
    largest: int


TASKS = Kind(run_batch, seconds=0.25, size=1, largest=100)  # Dask spends 10 ms and more on a batch
CARDS = Kind(run_on_card, seconds=20.0, size=256, largest=10_000)


class _Sent(NamedTuple):
    batch: list[Task]
    kind: Kind
    future: Any
    drivers: set[str]  # addresses of the workers with a card when it was sent


class _Dask:
    def __init__(self, client: Any, cards: tuple[str, ...], local: bool) -> None:
        self.client, self.cards, self.local = client, cards, local
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[str, _Sent] = {}
        self.size = {kind: kind.size for kind in (TASKS, CARDS)}
        self.deaths: Counter[str] = Counter()
        self.idle_since: float | None = None
        self.known: set[str] = set()
        self.failed: list[Result] = []

    def find_drivers(self) -> set[str]:
        """Return the addresses of the workers that drive a card: those started with one, or else those that see any."""
        visible = self.client.run(visible_card, self.cards)
        seen = {address: card for address, card in visible.items() if card is not None}
        found = {address for address, card in seen.items() if card} or set(seen)
        self.known = found or self.known
        return found

    def fill(self, kind: Kind, tasks: Iterator[Task], width: int) -> None:
        for _ in range(width - sum(one.kind is kind for one in self.sent.values())):
            if batch := list(itertools.islice(tasks, self.size[kind])):
                self.submit(batch, kind)

    def submit(self, batch: list[Task], kind: Kind) -> None:
        drivers = (self.find_drivers() or self.known) if kind is CARDS else set()
        where = {"workers": sorted(drivers), "allow_other_workers": False} if drivers else {}
        future = self.client.submit(kind.run, batch, self.cards, pure=False, **where)
        self.sent[future.key] = _Sent(batch, kind, future, drivers)
        future.add_done_callback(self.done.put)

    def receive(self) -> list[Result]:
        """Return the results of the next batch; none if it was sent again."""
        while not self.failed:
            try:
                future = self.done.get(timeout=1)
                return self._collect(future, self.sent.pop(future.key)) if future.key in self.sent else []
            except queue.Empty:
                self._check()
        found, self.failed = self.failed, []
        return found

    def _collect(self, future: Any, sent: _Sent) -> list[Result]:
        batch, kind, *_ = sent
        if future.status in ("finished", "lost", "pending"):  # lost with its worker: it will be computed again
            results, seconds = self._fetch(future)
            fitting = int(kind.seconds * len(batch) / (seconds + 1e-9))
            self.size[kind] = max(1, min(kind.largest, 2 * self.size[kind], fitting))
            return [of_the_same_code(task, result) for task, result in zip(batch, results)]
        if future.status != "error":
            raise ConnectionError(_SCHEDULER_LOST)
        cause = future.exception()
        if type(cause).__name__ == "KilledWorker":
            return self._again(batch, kind, DEATHS)
        if isinstance(cause, device.LostDevice):
            raise cause
        raise ChildProcessError(
            f"the Dask workers cannot run solspace tasks ({type(cause).__name__}: {cause}). Is the same version of "
            "solspace installed where they run?"
        ) from cause

    def _again(self, batch: list[Task], kind: Kind, deaths: int) -> list[Result]:
        """Send a batch whose worker died again, in halves; return the failed result of a task that ended too many."""
        self.deaths[batch[0].key] += deaths * (len(batch) == 1)
        if self.deaths[batch[0].key] >= DEATHS:
            return [lost(batch[0], "Dask: KilledWorker")]
        half = len(batch) // 2
        for part in filter(None, (batch[:half], batch[half:])):
            self.submit(part, kind)
        return []

    def _fetch(self, future: Any) -> tuple[list[Result], float]:
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
        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(_SCHEDULER_LOST)
        try:
            workers = set(self.client.nthreads())
        except OSError:
            return  # the client's status will change
        stranded = [key for key, one in self.sent.items() if one.drivers and not one.drivers & workers]
        if workers and not stranded:
            self.idle_since = None
            return
        self.idle_since = self.idle_since or time.monotonic()
        waited = time.monotonic() - self.idle_since
        if workers and self.find_drivers():
            for key in stranded:  # these wait for workers with a card that are gone: others have one
                batch, kind, future, _ = self.sent.pop(key)
                future.cancel()
                self.failed += self._again(batch, kind, 1)
        elif (workers or self.local) and waited > _GIVE_UP_AFTER:
            lacking = "all Dask workers with a GPU" if workers else "all workers of the local Dask cluster"
            raise ConnectionError(f"{lacking} ended and did not come back. {_AGAIN}, with fewer if memory was short.")
        elif not workers and waited > _WARN_AFTER:
            address, waiting = self.client.scheduler.address, sum(len(one.batch) for one in self.sent.values())
            cure = "waiting for them to come back" if self.local else f"start some with: dask worker {address}"
            words = f"no Dask worker is connected to {address}, and {waiting:,} tasks wait: {cure}"
            warnings.warn(f"{words}. Ctrl-C ends; what is done is in the store.", stacklevel=2)


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

    It uses TLS with a key that only this process receives. In this process Dask would import the user's script in every
    worker, and a script without a `__main__` guard would start sweeps within sweeps.
    """
    from distributed import Security

    path = os.pathsep.join(str(part) or os.getcwd() for part in sys.path)  # as here: where users' modules are found
    env = os.environ | {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    command = [sys.executable, "-c", _LOCAL, str(n_workers)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env) as process:
        try:
            line = process.stdout.readline()  # type: ignore[union-attr]
            if not line:
                raise ChildProcessError("the local Dask cluster did not start; its message is above.")
            address, certificate, key = json.loads(line)
            tls = {"tls_ca_file": certificate, "tls_client_cert": certificate, "tls_client_key": key}
            yield address, Security(**tls, require_encryption=True)
        finally:
            try:
                process.communicate(timeout=10)  # closes its input, which ends it
            except subprocess.TimeoutExpired:
                process.kill()
