"""A process beside the server that does one job at a time, tells how far it is, and can be stopped.

Frames are pickles behind their length, on the child's standard input and output. The server writes (number, job, args)
or (number, "stop"); the child answers (number, kind, value) with kind "update" any number of times and then one of
"done", "failed" (a sentence) and "stopped". A stop asks politely first: the job sees it at its next `report`. A child
that does not answer within two seconds is killed. It ends with its server: when its standard input closes.

Each child keeps to one thread and steps back behind the server, so that ten of them share the machine fairly.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from itertools import count
from typing import Any, BinaryIO

PATIENCE = 2.0
"""Seconds between asking a job to stop and killing its process."""
JOBS = {
    "curves": "solspace.explorer.curves:curves",
    "columns": "solspace.explorer.curves:columns",
    "thresholds": "solspace.explorer.curves:thresholds",
    "upload": "solspace.explorer.uploads:read_upload",
    "sample": "solspace.explorer.runs:sample",
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")  # fmt: skip

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
        self._process: subprocess.Popen[bytes] | None = None
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
            env = os.environ | dict.fromkeys(_THREADS, "1") | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            command = [sys.executable, "-P", "-c", "from solspace.explorer.worker import serve; serve()"]
            process = subprocess.Popen(
                [*command, str(self.niceness)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
            )
            self._process = process
            threading.Thread(target=self._listen, args=(process,), daemon=True).start()

    def submit(self, job: str, args: tuple[Any, ...], deliver: Deliver) -> None:
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
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                with suppress(OSError, ValueError):
                    pipe.close()  # type: ignore[union-attr]
            self._process = None

    def _send(self, message: Any) -> None:
        with suppress(OSError, ValueError, AttributeError):  # the child is gone: its reader tells
            write(self._process.stdin, message)  # type: ignore[union-attr, arg-type]

    def _listen(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(EOFError, OSError, ValueError, struct.error, pickle.UnpicklingError):
            while True:
                number, kind, value = read(process.stdout)  # type: ignore[arg-type]
                self._deliver(number, kind, value)
        self._child_ended(process)

    def _deliver(self, number: int, kind: str, value: Any) -> None:
        with self._lock:
            if self._current is None or self._current[0] != number:
                return
            deliver = self._current[1]
            if kind != "update":
                self._current = None
        _safely(deliver, kind, value)

    def _child_ended(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            if self._process is process:
                self._kill()
            code, current, asked = process.poll(), self._current, self._asked_to_stop
            if current is None or self._process is not None:
                return
            self._current = None
        sentence = f"the worker process ended (code {code}): out of memory, or killed by the system?"
        _safely(current[1], *(("stopped", None) if asked else ("failed", sentence)))


def _safely(deliver: Deliver, kind: str, value: Any) -> None:
    """Deliver, and let no mistake of the receiver end the thread that reads for all."""
    try:
        deliver(kind, value)
    except Exception:
        traceback.print_exc()


def serve() -> None:
    """Do jobs until standard input ends: the child's main loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the server decides what it means
    with suppress(OSError, AttributeError):
        os.nice(int(sys.argv[1]))
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a job prints must not get into the frames
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    stops: set[int] = set()
    threading.Thread(target=_receive, args=(inbox, stops), daemon=True).start()
    while True:
        number, job, args = inbox.get()
        with suppress(BrokenPipeError):
            write(sink, (number, *_do(number, job, args, stops, sink)))


def _receive(inbox: queue.SimpleQueue[Any], stops: set[int]) -> None:
    with suppress(Exception):
        while True:
            number, job, args = read(sys.stdin.buffer)
            if job == "stop":
                stops.add(number)
            else:
                inbox.put((number, job, args))
    os._exit(0)


def _do(number: int, job: str, args: tuple[Any, ...], stops: set[int], sink: BinaryIO) -> tuple[str, Any]:
    def report(value: Any) -> None:
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


def reporting(function: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a job that takes `report` as its last argument: report(value) sends an update, report(None) only looks
    whether the user asked to stop."""
    function.reports = True  # type: ignore[attr-defined]
    return function


def write(pipe: BinaryIO, value: Any) -> None:
    """Write one frame."""
    frame = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<q", len(frame)) + frame)
    pipe.flush()


def read(pipe: BinaryIO) -> Any:
    """Return the next frame."""
    (length,) = struct.unpack("<q", pipe.read(8))
    frame = pipe.read(length)
    if len(frame) < length:
        raise EOFError
    return pickle.loads(frame)
