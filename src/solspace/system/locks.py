"""A lock that the operating system lets go when its holder dies, however it dies.

The lock sits on a file of its own beside the thing it protects, never on the thing itself: SQLite keeps locks on its
file, and POSIX drops them all when anybody in the process closes it. The file says who holds the lock, for the
message to the other one.
"""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import sys
from pathlib import Path


class Locked(RuntimeError):
    """Somebody else holds the lock; the message says who."""


class Lock:
    """Exclusive lock on the file `path`, taken at once or refused with `Locked`.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.lock"
    >>> lock = Lock(path)
    >>> try:
    ...     Lock(path)
    ... except Locked as error:
    ...     print(str(error).startswith("process"))
    True
    >>> lock.release()
    >>> Lock(path).release()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        while True:
            self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            if not try_lock(self._file):
                holder = _holder(self._file)
                os.close(self._file)
                raise Locked(holder)
            if is_current(self._file, self.path):
                break
            os.close(self._file)
        since = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}, since {since}".encode())

    def release(self) -> None:
        """Let go, and remove the file where the system allows it."""
        if self._file < 0:
            return
        if sys.platform != "win32":
            self.path.unlink(missing_ok=True)
        os.close(self._file)
        self._file = -1


def try_lock(file: int) -> bool:
    """Lock the open file `file` until it is closed; return False where another process holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 1 << 20, os.SEEK_SET)  # a byte past the text, which others must be able to read
            msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            os.lseek(file, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def is_current(file: int, path: Path) -> bool:
    """Return whether the open file `file` is still the one at `path`: its last holder may have removed it."""
    if sys.platform == "win32":
        return True
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False


def _holder(file: int) -> str:
    os.lseek(file, 0, os.SEEK_SET)
    return os.read(file, 500).decode(errors="replace") or "another process"
