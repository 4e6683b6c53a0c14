"""Executors: how tasks run in this process, in processes on this machine, or on a Dask cluster.

An executor is a generator that takes tasks one by one, only as many as it can keep busy, and yields lists of results in
any order; memory does not grow with the number of tasks. Each task runs on one thread, since threads change the rounding
of a matrix product. If a worker dies its tasks run again; a task that ends `DEATHS` workers is a failed result.

Worker processes are loky's. A Dask cluster is an existing one, on Slurm for example that of `dask_jobqueue.SLURMCluster`, or
a local one. Its workers that have a GPU drive it by `device.on_device`, a worker to a card.
"""

from __future__ import annotations

import itertools
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

from solspace.experiments.tasks import Task, finished, run
from solspace.store import Result
from solspace.system.checks import install, unknown

DEATHS = 3
ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
              "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")  # fmt: skip


def cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_limited = 0


def keep_to_one_thread() -> None:
    """Keep BLAS and Numba to one thread in this process; cheap if nothing was imported since the last call."""
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


def serial(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[list[Result]]:
    """Yield results computed in this process, in the order of the tasks."""
    with one_thread():
        for task in tasks:
            yield [run_on_one_thread(task)]


def process_pool(count: int) -> Any:
    """Return loky's pool of `count` worker processes, each on one thread, which end when this process ends.

    Loky does not import the script of the user, which therefore needs no `if __name__ == "__main__"` guard. Python's safe
    path keeps the processes from importing modules of the current folder.
    """
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.backend import resource_tracker as loky_tracker

    # raised where `pgrep` is missing, and where loky replaces a worker whose memory has grown: both are harmless
    for message in ("Failed to kill subprocesses", "A worker stopped while some jobs"):
        warnings.filterwarnings("ignore", message, UserWarning)
    safe = {"PYTHONSAFEPATH": "1"}
    with _environment(safe):  # of the processes that track semaphores, which loky and the standard library start
        loky_tracker.ensure_running()
        if os.name == "posix":
            from multiprocessing import resource_tracker

            resource_tracker.ensure_running()
    env = safe | dict.fromkeys(ONE_THREAD, "1")
    return ProcessPoolExecutor(count, env=env, initializer=start_worker, initargs=(os.getpid(),))


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        for name in variables:
            os.environ.pop(name)
            os.environ.update({name: before[name]} if name in before else {})


def start_worker(driver: int) -> None:
    """Prepare a worker: what it prints goes to standard error, Ctrl-C is left to the process `driver`, and it dies with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also in the middle of compiled code

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class WorkerPool:
    """Worker processes that compute a stream of tasks, at most two in flight for each worker.

    If a worker dies, loky ends the whole pool. The tasks in flight then run again one by one, each as the only one, which
    shows the task that ends its workers.
    """

    def __init__(self, tasks: Iterable[Task], n_workers: int | None = None) -> None:
        tasks, self._width = iter(tasks), 2 * (n_workers or cores())
        first = list(itertools.islice(tasks, self._width))
        self._tasks, self._count = itertools.chain(first, tasks), min(self._width // 2, len(first))
        self._running: dict[Future[Result], Task] = {}
        self._suspects: deque[Task] = deque()
        self._deaths: Counter[str] = Counter()
        self._pool: Any = None

    def results(self, block: bool) -> list[Result]:
        """Return the results that are there; with `block`, wait for one, and return none if no task is left."""
        while True:
            self._submit()
            found = self._collect(block)
            if found or not block or not (self._running or self._suspects):
                return found

    def close(self) -> None:
        """End the workers; their tasks are abandoned."""
        if self._pool is not None:
            self._pool.shutdown(wait=True, kill_workers=True)

    def _submit(self) -> None:
        while len(self._running) < (1 if self._suspects else self._width):
            task = self._suspects.popleft() if (suspect := bool(self._suspects)) else next(self._tasks, None)
            if task is None:
                return
            if self._pool is None:
                self._start()
            try:
                self._running[self._pool.submit(run, task)] = task
            except BrokenProcessPool:  # died while idle, or the tasks in flight will show it
                self._suspects.appendleft(task)
                self._pool = None
            if suspect:
                return

    def _start(self) -> None:
        for _ in range(DEATHS):
            self._pool = process_pool(self._count)
            try:
                self._pool.submit(os.getpid).result()
            except BrokenProcessPool:
                continue
            return
        raise ChildProcessError("the worker processes did not start; their message is above.")

    def _collect(self, block: bool) -> list[Result]:
        done, _ = wait(self._running, None if block else 0, return_when=FIRST_COMPLETED)
        if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
            done, _ = wait(self._running)
            self._pool = None
        alone, found = len(done) == 1, []
        for future in done:
            task = self._running.pop(future)
            try:
                found.append(of_the_same_code(task, future.result()))
            except BrokenProcessPool as death:
                self._deaths[task.key] += alone
                if self._deaths[task.key] == DEATHS:
                    found.append(lost(task, str(death).partition("{")[2].partition("}")[0] or "no exit code"))
                else:
                    self._suspects.append(task)
        return found


def processes(
    tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None
) -> Iterator[list[Result]]:
    """Yield results of worker processes, by default one for each core."""
    return processes_beside(tasks, iter(()), n_workers)


def processes_beside(
    tasks: Iterable[Task], others: Iterator[list[Result]], n_workers: int | None = None
) -> Iterator[list[Result]]:
    """Yield `others`, which this process computes, and meanwhile and after them the results of worker processes.

    If `others` raises, the results that are there are yielded first.
    """
    with closing(WorkerPool(tasks, n_workers)) as pool:
        yield pool.results(block=False)
        try:
            for other in others:
                yield other
                yield pool.results(block=False)
        except GeneratorExit:
            raise
        except BaseException:
            yield pool.results(block=False)
            raise
        finally:
            getattr(others, "close", lambda: None)()
        while found := pool.results(block=True):
            yield found


def of_the_same_code(task: Task, result: Result) -> Result:
    """Return a worker's result; raise ChildProcessError if another version of the code computed it."""
    if result.key != task.key:
        raise ChildProcessError(
            f"the worker on {result.host} runs another version of solspace ({result.version}), whose results do "
            "not belong into this store: install the same version everywhere."
        )
    return result


def lost(task: Task, cause: str) -> Result:
    """Return the failed result of a task that ended all workers it ran on."""
    message = f"the task ended {DEATHS} worker processes ({cause}): out of memory, or killed by the system?"
    return finished(task, {}, {}, error=message)


_WARN_AFTER = 5.0
"""Seconds without any Dask worker before a warning."""
_GIVE_UP_AFTER = 40.0
"""Seconds without any worker before a local cluster, or the cards, are abandoned: restarts take a few."""
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
_CARDS_LOST = (
    "all Dask workers with a GPU ended and did not come back. Results so far are in the store: run the same command "
    "again to go on."
)


def dask(
    tasks: Iterable[Task],
    n_workers: int | None = None,
    scheduler: str | None = None,
    for_cards: Iterable[Task] | None = None,
) -> Iterator[list[Result]]:
    """Yield results from the Dask cluster at `scheduler`, or from a local one of `n_workers` processes.

    Tasks `for_cards` go to the workers that have a GPU; if there are none, to all.
    """
    with _client(n_workers or cores(), scheduler) as client:
        local, for_cards = scheduler is None, for_cards or ()
        cards = LocalCards(local_cards(), n_workers) if local and for_cards else None
        stream = _Dask(client, cards, local)
        drivers = stream.find_drivers() if for_cards else set()
        if not drivers:
            tasks, for_cards = itertools.chain(tasks, for_cards), ()
        width = {_TASKS: 2 * max(n_workers or cores(), sum(client.nthreads().values())), _CARDS: 2 * len(drivers)}
        waiting = {_TASKS: iter(tasks), _CARDS: iter(for_cards)}
        while True:
            for kind, own in waiting.items():
                while stream.count(kind) < width[kind] and (batch := list(itertools.islice(own, stream.size[kind]))):
                    stream.submit(batch, kind)
            if not stream.sent:
                return
            yield stream.receive()


EXECUTORS: dict[str, Callable[..., Iterator[list[Result]]]] = {"serial": serial, "processes": processes, "dask": dask}


def find(name: str) -> Callable[..., Iterator[list[Result]]]:
    """Return the executor called `name`."""
    if name not in EXECUTORS:
        raise unknown("executor", name, EXECUTORS)
    return EXECUTORS[name]


class LocalCards(NamedTuple):
    """The cards of this machine, which workers of a local cluster take in turn; `n_workers` of them, or one to a card."""

    cards: tuple[str, ...]
    n_workers: int | None

    def take(self, worker: int) -> None:
        """Let this process, the worker of that number, see its own card alone, as dask-cuda does."""
        seen = self.cards[worker % len(self.cards)] if worker < (self.n_workers or len(self.cards)) else ""
        os.environ["CUDA_VISIBLE_DEVICES"] = seen


def local_cards() -> tuple[str, ...]:
    """Return the cards that this process may use, as CUDA_VISIBLE_DEVICES lists them."""
    from solspace.samplers.device import cupy, missing

    if missing():
        return ()
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    return tuple(named.split(",") if named else map(str, range(cupy().cuda.runtime.getDeviceCount())))


def visible_card(cards: LocalCards | None, dask_worker: Any) -> str | None:
    """Return the cards that a Dask worker sees, by CUDA_VISIBLE_DEVICES, or None; one of a local cluster takes its own."""
    from solspace.samplers.device import missing

    if cards is not None and cards.cards:
        cards.take(int(dask_worker.name))
    return None if missing() else os.environ.get("CUDA_VISIBLE_DEVICES", "")


def run_batch(tasks: list[Task], cards: LocalCards | None) -> tuple[list[Result], float]:
    """Return the results of some tasks, computed one after the other on one thread of a Dask worker, and the seconds."""
    begun = time.perf_counter()
    return [run_on_one_thread(task) for task in tasks], time.perf_counter() - begun


def run_on_card(tasks: list[Task], cards: LocalCards | None) -> tuple[list[Result], float]:
    """Return the results of tasks that share the card of a Dask worker, and the seconds."""
    from distributed import get_worker

    from solspace.experiments.device import on_device

    if visible_card(cards, get_worker()) is None:
        raise RuntimeError("the worker has no GPU any more")
    with _card_turn:
        begun = time.perf_counter()
        found = {result.key: result for result in itertools.chain.from_iterable(on_device(tasks))}
    return [found[task.key] for task in tasks], time.perf_counter() - begun


_card_turn = threading.Lock()
"""Threads of one worker take turns on its card."""


@dataclass(frozen=True)
class _Kind:
    """How tasks are sent to Dask: in batches that take about `seconds`, at first of `size` tasks and of `largest` at most."""

    run: Callable[[list[Task], LocalCards | None], tuple[list[Result], float]]
    seconds: float
    size: int
    largest: int


_TASKS = _Kind(run_batch, seconds=0.25, size=1, largest=100)  # Dask spends 10 ms and more on a batch
_CARDS = _Kind(run_on_card, seconds=20.0, size=256, largest=10_000)


class _Sent(NamedTuple):
    batch: list[Task]
    kind: _Kind
    future: Any
    drivers: set[str]
    """Addresses of the workers with a card when it was sent."""


class _Dask:
    """Batches of tasks on a Dask cluster.

    Dask runs the tasks of a worker that dies again. Added here: a bounded number of submitted tasks, a failed result for a task
    that keeps killing workers, and messages if the scheduler is lost or no worker is left.
    """

    def __init__(self, client: Any, cards: LocalCards | None, local: bool) -> None:
        self.client, self.cards, self.local = client, cards, local
        self.done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.sent: dict[str, _Sent] = {}
        self.size = {_TASKS: _TASKS.size, _CARDS: _CARDS.size}
        self.deaths: Counter[str] = Counter()
        self.workerless_since: float | None = None
        self.known: set[str] = set()
        self.failed: list[Result] = []

    def find_drivers(self) -> set[str]:
        """Return the addresses of the workers that drive a card: those started with one, or else those that see any."""
        visible = self.client.run(visible_card, self.cards)
        seen = {address: card for address, card in visible.items() if card is not None}
        found = {address for address, card in seen.items() if card} or set(seen)
        self.known = found or self.known
        return found

    def count(self, kind: _Kind) -> int:
        """Return how many batches of a kind are under way."""
        return sum(one.kind is kind for one in self.sent.values())

    def submit(self, batch: list[Task], kind: _Kind) -> None:
        drivers = (self.find_drivers() or self.known) if kind is _CARDS else set()
        where = {"workers": sorted(drivers), "allow_other_workers": False} if drivers else {}
        future = self.client.submit(kind.run, batch, self.cards, pure=False, **where)
        self.sent[future.key] = _Sent(batch, kind, future, drivers)
        future.add_done_callback(self.done.put)

    def receive(self) -> list[Result]:
        future = self._next()
        if future is None or future.key not in self.sent:  # it was sent again
            found, self.failed = self.failed, []
            return found
        batch, kind, *_ = self.sent.pop(future.key)
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
        if type(cause).__name__ == "LostDevice":
            raise cause
        raise ChildProcessError(
            f"the Dask workers cannot run solspace tasks ({type(cause).__name__}: {cause}). Is the same version of "
            "solspace installed where they run?"
        ) from cause

    def _again(self, batch: list[Task], kind: _Kind, deaths: int) -> list[Result]:
        """Send a batch whose worker died again, in halves; return the failed result of a task that ended too many."""
        if len(batch) > 1:
            middle = len(batch) // 2
            self.submit(batch[:middle], kind)
            self.submit(batch[middle:], kind)
            return []
        self.deaths[batch[0].key] += deaths
        if self.deaths[batch[0].key] >= DEATHS:
            return [lost(batch[0], "Dask: KilledWorker")]
        self.submit(batch, kind)
        return []

    def _next(self) -> Any:
        while True:
            try:
                return self.done.get(timeout=1)
            except queue.Empty:
                self._check()
                if self.failed:
                    return None

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
        from distributed.comm import CommClosedError

        if self.client.status not in ("running", "connecting"):
            raise ConnectionError(_SCHEDULER_LOST)
        try:
            workers = self.client.nthreads()
        except (OSError, CommClosedError):
            return  # the client's status will change
        stranded = [key for key, one in self.sent.items() if one.drivers and not one.drivers & set(workers)]
        before, now = self.workerless_since, time.monotonic()
        self.workerless_since = None if workers and not stranded else before or now
        if workers and stranded:
            self._resend(stranded, now - (before or now))
            return
        if workers or before is None:
            return
        if self.local and now - before > _GIVE_UP_AFTER:
            raise ConnectionError(_WORKERS_LOST)
        if now - before > _WARN_AFTER:
            address = self.client.scheduler.address
            cure = "waiting for them to come back" if self.local else f"start some with: dask worker {address}"
            warnings.warn(
                f"no Dask worker is connected to {address}, and {sum(len(one.batch) for one in self.sent.values()):,} tasks "
                f"wait: {cure}. Ctrl-C ends; what is done is in the store.",
                stacklevel=2,
            )

    def _resend(self, stranded: Sequence[str], waited: float) -> None:
        """Send what waits for workers with a card that are gone to those that are there."""
        if not self.find_drivers():
            if waited > _GIVE_UP_AFTER:
                raise ConnectionError(_CARDS_LOST)
            return
        for key in stranded:
            batch, kind, future, _ = self.sent.pop(key)
            future.cancel()
            self.failed += self._again(batch, kind, 1)


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
