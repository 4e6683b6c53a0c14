"""Processes that compute beside the server: any of them can be stopped or crash without harm to the page.

They are spawned by `multiprocessing`, with `child_environment` set before: one thread each, and no imports from the
current folder. They end with the server, and Ctrl-C, which reaches all processes of a terminal, is left to the server.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from typing import Any

STARTING = 120.0
"""Seconds allowed on top of the time limit for the first answer of a process: it imports, and may have to compile."""
_SPAWN = multiprocessing.get_context("spawn")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")  # fmt: skip

Answer = Callable[[str, Any], None]
"""Called with ("done", value) or ("failed", sentence), from any thread."""


class Failure(Exception):
    """A computation failed; the message is a sentence for the user."""


class Stopped(Exception):
    """The process was stopped during a computation."""


def child_environment() -> dict[str, str]:
    """Return the environment variables that worker processes need, to be set before the first one starts."""
    return dict.fromkeys(_THREADS, "1") | {"PYTHONSAFEPATH": "1"}


class Worker:
    """A process that computes one thing at a time; `niceness` is relative to the server.

    >>> from solspace.explorer.settings import parse
    >>> worker = Worker()
    >>> worker.call(parse, "alpha", "1/4")
    0.25
    >>> worker.stop()
    """

    def __init__(self, niceness: int = 5) -> None:
        self._link, link = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(link, niceness), daemon=True)
        self.process.start()
        link.close()
        self._stopped = False

    @property
    def alive(self) -> bool:
        """Whether the process can take a computation."""
        return not self._stopped and self.process.is_alive()

    def call(
        self,
        function: Callable[..., Any],
        *args: object,
        limit: float | None = None,
        on_update: Callable[[Any], None] | None = None,
    ) -> Any:
        """Return `function(*args)`, or `function(*args, report)` with `on_update`, which gets what is reported.

        Raises `Failure` if that fails, if the process dies or exceeds `limit` seconds, and `Stopped` after `stop`.
        """
        try:
            self._link.send((function, args, on_update is not None))
            while self._link.poll(limit):
                kind, value = self._link.recv()
                if kind == "done":
                    return value
                if kind == "failed":
                    raise Failure(value)
                if on_update is not None:
                    on_update(value)
        except (EOFError, OSError):
            if self._stopped:
                raise Stopped from None
            self.process.join()
            code = self.process.exitcode
            raise Failure(f"the worker process ended (code {code}): out of memory, or killed by the system?") from None
        self.stop()
        raise Failure(f"no answer within {limit:g} seconds; try values closer to the defaults.")

    def stop(self) -> None:
        """End the process, whatever it is doing; may be called from any thread."""
        self._stopped = True
        self.process.kill()
        self.process.join()


class Pool:
    """Worker processes, `size` of them, for the questions of all pages.

    Each asker has at most one open question: a new one replaces the one before, as when a slider moves on. Questions
    are answered in their order, equal ones once; `memory` answers are kept. A computation of more than `limit` seconds
    is stopped, and with it its process.
    """

    def __init__(self, size: int, niceness: int = 0, limit: float = 20.0, memory: int = 512) -> None:
        self.size, self.niceness, self.limit, self.memory = size, niceness, limit, memory
        self._threads = ThreadPoolExecutor(size)
        self._local = threading.local()
        self._workers: list[Worker] = []
        self._known: OrderedDict[Hashable, Future[Any]] = OrderedDict()
        self._open: dict[Hashable, tuple[Future[Any], Answer]] = {}
        self._lock = threading.RLock()

    def warm_up(self, function: Callable[..., Any], *args: object) -> None:
        """Start all processes and let each compute `function(*args)`, so that the first page need not wait."""
        for _ in range(self.size):
            self.submit(function, *args)

    def submit(self, function: Callable[..., Any], *args: object) -> Future[Any]:
        """Return the future value of `function(*args)`; it raises `Failure` as `Worker.call` does."""
        return self._threads.submit(self._call, function, args)

    def ask(self, asker: Hashable, answer: Answer, function: Callable[..., Any], *args: Hashable) -> None:
        """Call `answer` with the value of `function(*args)`, unless `asker` asks something else before."""
        key = function, args
        with self._lock:
            self.drop(asker)
            future = self._known.get(key)
            if future is None:
                future = self._known[key] = self.submit(function, *args)
                future.add_done_callback(partial(self._forget_failure, key))
            self._known.move_to_end(key)
            while len(self._known) > self.memory:
                self._known.popitem(last=False)
            question = self._open[asker] = future, answer
        future.add_done_callback(lambda _: self._answer(asker, question))

    def drop(self, asker: Hashable) -> None:
        """Withdraw the open question of `asker`."""
        with self._lock:
            future, _ = self._open.pop(asker, (None, None))
            if future is not None and all(future is not other for other, _ in self._open.values()):
                future.cancel()

    def close(self) -> None:
        """End all processes."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.stop()

    def _call(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:
        worker, limit = getattr(self._local, "worker", None), self.limit
        if worker is None or not worker.alive:
            worker = self._local.worker = Worker(self.niceness)
            limit += STARTING
            with self._lock:
                self._workers = [*(other for other in self._workers if other.alive), worker]
        return worker.call(function, *args, limit=limit)

    def _forget_failure(self, key: Hashable, future: Future[Any]) -> None:
        with self._lock:
            if (future.cancelled() or future.exception()) and self._known.get(key) is future:
                del self._known[key]

    def _answer(self, asker: Hashable, question: tuple[Future[Any], Answer]) -> None:
        with self._lock:
            if self._open.get(asker) is not question:  # the asker has asked something else since
                return
            del self._open[asker]
        future, answer = question
        error = future.exception()
        answer(*(("done", future.result()) if error is None else ("failed", str(error))))


def _serve(link: Connection, niceness: int) -> None:
    """Compute until the server closes `link` or ends: the main loop of a process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with suppress(OSError, AttributeError):
        os.nice(niceness)
    threading.Thread(target=_end_with_server, daemon=True).start()
    with suppress(EOFError, OSError):
        while True:
            function, args, reports = link.recv()
            more = [lambda value: link.send(("update", value))] if reports else []
            link.send(_compute(function, *args, *more))


def _end_with_server() -> None:
    server = multiprocessing.parent_process()
    if server is not None:
        server.join()
        os._exit(0)


def _compute(function: Callable[..., Any], *args: object) -> tuple[str, Any]:
    try:
        return "done", function(*args)
    except MemoryError:
        return "failed", "this machine has not enough memory for that."
    except Exception as error:
        if not isinstance(error, (ValueError, ImportError)):
            traceback.print_exc()
        return "failed", " ".join(str(error).split()) or type(error).__name__
