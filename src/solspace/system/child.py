"""A Python process beside this one that is spoken to in frames: pickles behind their length, on its standard input and
output.

It is started as a plain `python -P -c`, not by `multiprocessing`: so a script needs no `if __name__ == "__main__"` guard,
the environment that keeps BLAS and Numba to one thread is there before they load, and a killed child takes with it only
what it was asked last. `-P` keeps the current folder out of it: a `struct.py` that lies there is not run. It imports from
where its parent does: the first frame says where that is. Ctrl-C reaches the whole group of processes, so a child ignores
it and its parent decides what it means.
"""

from __future__ import annotations

import os
import pickle
import signal
import struct
import subprocess
import sys
from contextlib import suppress
from typing import IO, Any

_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS",
            "NUMEXPR_NUM_THREADS", "NUMBA_NUM_THREADS")  # fmt: skip
_START = """
import pickle, struct, sys
frame = sys.stdin.buffer.read(struct.unpack("<q", sys.stdin.buffer.read(8))[0])
sys.path[:] = pickle.loads(frame)
from importlib import import_module
import_module(sys.argv[1]).serve(*sys.argv[2:])
"""


class ChildEnded(EOFError):
    """The process at the other end is gone."""


class Child:
    """A process that runs `serve(*arguments)` of `module`, on one thread.

    >>> child = Child("solspace.system.child")
    >>> child.send({"margin": 0.5}); child.receive()
    {'margin': 0.5}
    >>> child.close(); child.death
    'signal 9'
    """

    def __init__(self, module: str, *arguments: str) -> None:
        command = [sys.executable, "-P", "-c", _START, module, *arguments]
        env = os.environ | dict.fromkeys(_THREADS, "1")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        with suppress(ChildEnded):  # it is told when an answer is wanted
            self.send([str(part) for part in sys.path])

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def code(self) -> int:
        """The exit code of a child that has ended; waits for it."""
        return self._process.wait()

    @property
    def death(self) -> str:
        """How a child that has ended did so, in words; waits for it."""
        return f"signal {-self.code}" if self.code < 0 else f"exit code {self.code}"

    def send(self, value: object) -> None:
        """Send one frame, or raise `ChildEnded`."""
        assert self._process.stdin is not None
        write(self._process.stdin, value)

    def receive(self) -> Any:
        """Return the next frame, or raise `ChildEnded`."""
        assert self._process.stdout is not None
        return read(self._process.stdout)

    def kill(self) -> None:
        """End the process, whatever it is doing."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """End the process and close its pipes; nobody may be reading from it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError, ValueError):
                pipe.close()  # type: ignore[union-attr]


def ends() -> tuple[IO[bytes], IO[bytes]]:
    """Return where a child reads frames and where it writes them; what it prints goes to standard error from now on."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return sys.stdin.buffer, sink


def serve() -> None:
    """Send every frame back: the smallest child."""
    source, sink = ends()
    with suppress(ChildEnded):
        while True:
            write(sink, read(source))


def write(pipe: IO[bytes], value: object) -> None:
    """Write one frame, or raise `ChildEnded`."""
    frame = pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    try:
        pipe.write(struct.pack("<q", len(frame)) + frame)
        pipe.flush()
    except (OSError, ValueError):
        raise ChildEnded from None


def read(pipe: IO[bytes]) -> Any:
    """Return the next frame, or raise `ChildEnded`."""
    try:
        (length,) = struct.unpack("<q", pipe.read(8))
        frame = pipe.read(length)
    except (OSError, ValueError, struct.error):  # gone, closed here meanwhile, or killed in the middle of a frame
        raise ChildEnded from None
    if len(frame) < length:
        raise ChildEnded
    return pickle.loads(frame)
