"""Processes that compute beside the server: any of them can be stopped or crash without harm to the page.

They are spawned by `multiprocessing`, with `child_environment` set before: one thread each, and no imports from the
current folder. They end with the server, and Ctrl-C, which reaches all processes of a terminal, is left to the server.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import threading
import traceback
from collections import Counter
from collections.abc import Callable, Hashable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any

# seconds allowed on top of the time limit for the first answer of a process: it imports, and may have to compile
STARTING = 120.0
_SPAWN = multiprocessing.get_context("spawn")


class Failure(Exception):
    """A computation failed; the message is a sentence for the user."""


class Stopped(Exception):
    """The process was stopped during a computation."""


class Worker:
    """A process that computes one thing at a time; `niceness` is relative to the server."""

    def __init__(self, niceness: int = 5) -> None:
        self._link, link = _SPAWN.Pipe()
        self.process = _SPAWN.Process(target=_serve, args=(link, niceness), daemon=True)
        self.process.start()
        link.close()
        self._stopped = False

    @property
    def alive(self) -> bool:
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

    Questions are answered in their order, equal ones once; `memory` answers are kept. A computation of more than `limit`
    seconds is stopped, and with it its process.
    """

    def __init__(self, size: int, niceness: int = 0, limit: float = 20.0, memory: int = 512) -> None:
        self.size, self.niceness, self.limit, self.memory = size, niceness, limit, memory
        self._threads = ThreadPoolExecutor(size)
        self._workers: dict[int, Worker] = {}  # by the thread that waits for it
        self._known: dict[Hashable, Future[Any]] = {}  # the oldest first
        self._waiting: Counter[Future[Any]] = Counter()

    def submit(self, function: Callable[..., Any], *args: object) -> Future[Any]:
        """Return the future value of `function(*args)`; it raises `Failure` as `Worker.call` does."""
        return self._threads.submit(self._call, function, args)

    async def ask(self, function: Callable[..., Any], *args: Hashable) -> Any:
        """Return `function(*args)`, as `submit` does; not computed if all its callers are cancelled before its turn."""
        key = function, args
        future = self._known.pop(key) if key in self._known else self.submit(function, *args)
        self._known[key] = future
        if len(self._known) > self.memory:
            del self._known[next(iter(self._known))]
        self._waiting[future] += 1
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        future.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
        try:
            await done.wait()
            return future.result()
        finally:
            self._waiting[future] -= 1
            if self._waiting[future] == 0:
                del self._waiting[future]
                future.cancel()
            if future.cancelled() or (future.done() and future.exception()):
                self._known.pop(key, None)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in list(self._workers.values()):
            worker.stop()

    def _call(self, function: Callable[..., Any], args: tuple[object, ...]) -> Any:
        thread, limit = threading.get_ident(), self.limit
        worker = self._workers.get(thread)
        if worker is None or not worker.alive:
            worker = self._workers[thread] = Worker(self.niceness)
            limit += STARTING
        return worker.call(function, *args, limit=limit)


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
