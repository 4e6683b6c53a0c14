"""A process beside the server that does one job at a time, tells how far it is, and can be stopped.

The server sends (number, job, args) or (number, "stop", ()); the child answers (number, kind, value) with kind "update"
any number of times and then one of "done", "failed" (a sentence) and "stopped". A stop asks politely first: the job sees
it at its next `report`. A child that does not answer within two seconds is killed. It ends with its server: when its
standard input closes.

Each child keeps to one thread and steps back behind the server, so that ten of them share the machine fairly.
"""

from __future__ import annotations

import os
import queue
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import IO, Any

from solspace.system.child import Child, ChildEnded, ends, read, write

PATIENCE = 2.0
"""Seconds between asking a job to stop and killing its process."""
JOBS = {
    "curves": "solspace.explorer.curves:curves",
    "columns": "solspace.explorer.curves:columns",
    "thresholds": "solspace.explorer.curves:thresholds",
    "upload": "solspace.explorer.uploads:read_upload",
    "sample": "solspace.explorer.runs:sample",
}

Deliver = Callable[[str, Any], None]
"""Called with (kind, value) from the worker's reading thread."""


class Stopped(Exception):
    """The user asked the job to stop."""


class Worker:
    """A child process; it starts with its first job and again after it was killed.

    Parameters
    ----------
    niceness
        How far the child steps back behind the server; 0 for none.

    >>> worker = Worker()
    >>> import queue; answers = queue.Queue()
    >>> worker.submit("solspace.explorer.state:parse", ("alpha", "1/4"), lambda *answer: answers.put(answer))
    >>> answers.get(timeout=60)
    ('done', 0.25)
    >>> worker.close()
    """

    def __init__(self, niceness: int = 5) -> None:
        self.niceness = niceness
        self._process: Child | None = None
        self._lock = threading.RLock()
        self._numbers = count()
        self._current: tuple[int, Deliver] | None = None
        self._asked_to_stop = False

    @property
    def busy(self) -> bool:
        """True while a job is under way."""
        return self._current is not None

    @property
    def pid(self) -> int | None:
        """The child's process id, while it lives."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the child now, so that the first job need not wait for it."""
        with self._lock:
            if self._process is not None:
                return
            self._process = process = Child(__name__, str(self.niceness))
            threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def submit(self, job: str, args: tuple[object, ...], deliver: Deliver) -> None:
        """Do `job` (a name in `JOBS` or "module:function"); `deliver` gets its updates and its end."""
        with self._lock:
            if self.busy:
                raise RuntimeError("the worker is busy.")
            self.start()
            number = next(self._numbers)
            self._current, self._asked_to_stop = (number, deliver), False
        self._send((number, JOBS.get(job, job), args))

    def stop(self) -> None:
        """Ask the job under way to stop; kill the child if it does not."""
        with self._lock:
            if self._current is None or self._asked_to_stop:
                return
            number, self._asked_to_stop = self._current[0], True
        self._send((number, "stop", ()))
        timer = threading.Timer(PATIENCE, self._kill_if, (number,))
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """End the child, whatever it is doing; nothing more is delivered."""
        with self._lock:
            self._current = None
            self._kill()

    def _kill_if(self, number: int) -> None:
        with self._lock:
            if self._current is not None and self._current[0] == number:
                self._kill()

    def _kill(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    def _send(self, message: object) -> None:
        with suppress(ChildEnded, AttributeError):  # the child is gone: its reader tells
            self._process.send(message)  # type: ignore[union-attr]

    def _listen(self, process: Child) -> None:
        with suppress(ChildEnded):
            while True:
                self._deliver(*process.receive())
        self._child_ended(process)

    def _deliver(self, number: int, kind: str, value: object) -> None:
        with self._lock:
            if self._current is None or self._current[0] != number:
                return
            deliver = self._current[1]
            if kind != "update":
                self._current = None
        _safely(deliver, kind, value)

    def _child_ended(self, process: Child) -> None:
        with self._lock:
            if self._process is process:
                self._kill()
            current, asked = self._current, self._asked_to_stop
            if current is None or self._process is not None:
                return
            self._current = None
        sentence = f"the worker process ended (code {process.code}): out of memory, or killed by the system?"
        _safely(current[1], *(("stopped", None) if asked else ("failed", sentence)))


def _safely(deliver: Deliver, kind: str, value: object) -> None:
    """Deliver, and let no mistake of the receiver end the thread that reads for all."""
    try:
        deliver(kind, value)
    except Exception:
        traceback.print_exc()


def serve(niceness: str) -> None:
    """Do jobs until standard input ends: the child's main loop."""
    with suppress(OSError, AttributeError):
        os.nice(int(niceness))
    source, sink = ends()
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stops: set[int] = set()
    threading.Thread(target=_receive, args=(source, inbox, stops), daemon=True).start()
    while True:
        number, job, args = inbox.get()
        with suppress(ChildEnded):
            write(sink, (number, *_do(number, job, args, stops, sink)))


def _receive(source: IO[bytes], inbox: queue.SimpleQueue[Any], stops: set[int]) -> None:
    with suppress(Exception):
        while True:
            number, job, args = read(source)
            if job == "stop":
                stops.add(number)
            else:
                inbox.put((number, job, args))
    os._exit(0)


def _do(number: int, job: str, args: tuple[object, ...], stops: set[int], sink: IO[bytes]) -> tuple[str, object]:
    def report(value: object) -> None:
        if number in stops:
            raise Stopped
        if value is not None:
            write(sink, (number, "update", value))

    module, _, name = job.partition(":")
    try:
        function = getattr(import_module(module), name)
        return "done", function(*args, report) if getattr(function, "reports", False) else function(*args)
    except Stopped:
        return "stopped", None
    except MemoryError:
        return "failed", "this machine has not enough memory for that."
    except Exception as error:
        if not isinstance(error, (ValueError, ImportError)):
            traceback.print_exc()
        return "failed", " ".join(str(error).split()) or type(error).__name__


def reporting(function: Callable[..., object]) -> Callable[..., Any]:
    """Mark a job that takes `report` as its last argument: report(value) sends an update, report(None) only looks
    whether the user asked to stop."""
    function.reports = True  # type: ignore[attr-defined]
    return function
