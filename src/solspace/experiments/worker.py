"""A worker process: reads tasks from its standard input, writes results to its standard output, and dies with its
driver.

It is started as a plain `python -P -c`, not by `multiprocessing`: so a script needs no `if __name__ == "__main__"`
guard, the environment that keeps BLAS and Numba to one thread is there before they load, and a killed worker takes
one known task with it. `-P` keeps the current folder out of it: a `struct.py` that lies there is not run. It imports
from where its driver does. Frames are pickles behind their length.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO

from solspace.experiments.tasks import Task, run
from solspace.store import Result

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")  # fmt: skip
_START = """
import pickle, struct, sys
frame = sys.stdin.buffer.read(struct.unpack("<q", sys.stdin.buffer.read(8))[0])
sys.path[:] = pickle.loads(frame)
from solspace.experiments.worker import serve
serve()
"""


class WorkerDied(RuntimeError):
    """The worker process ended in the middle of a task."""


class Worker:
    """A process that runs one task at a time."""

    def __init__(self) -> None:
        env = os.environ | dict.fromkeys(_THREADS, "1")
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )
        try:
            _write(self._in, [str(part) for part in sys.path])
            if _read(self._out) != "ready":
                raise EOFError
        except (EOFError, OSError, struct.error, pickle.UnpicklingError):
            code = self.process.wait()
            self.close()
            if code < 0:
                raise WorkerDied(f"signal {-code}") from None
            raise ChildProcessError("a worker process did not start; its message is above.") from None

    @property
    def _in(self) -> Any:
        return self.process.stdin

    @property
    def _out(self) -> Any:
        return self.process.stdout

    def run(self, task: Task) -> Result:
        """Return the task's result, or raise `WorkerDied`."""
        try:
            _write(self._in, task)
            return _read(self._out)
        except (EOFError, OSError, struct.error, ValueError):
            code = self.process.wait()
            raise WorkerDied(f"signal {-code}" if code < 0 else f"exit code {code}") from None

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self.process.kill()
        self.process.wait()
        for pipe in (self._in, self._out):
            with suppress(OSError):
                pipe.close()


def serve() -> None:
    """Run tasks until standard input ends: the worker's main loop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the driver decides what it means
    _die_with_driver()
    source, sink = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a task prints must not get into the frames
    _write(sink, "ready")
    with suppress(EOFError, BrokenPipeError, struct.error):
        while True:
            _write(sink, run(_read(source)))


def _die_with_driver() -> None:
    driver = os.getppid()
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also in the middle of compiled code

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _write(pipe: BinaryIO, value: Any) -> None:
    frame = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    pipe.write(struct.pack("<q", len(frame)) + frame)
    pipe.flush()


def _read(pipe: BinaryIO) -> Any:
    (length,) = struct.unpack("<q", pipe.read(8))
    frame = pipe.read(length)
    if len(frame) < length:
        raise EOFError
    return pickle.loads(frame)
