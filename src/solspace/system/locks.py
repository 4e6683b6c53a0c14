"""A lock that the operating system lets go when its holder dies, however it dies (`filelock`), and who holds it.

The lock sits on a file of its own beside the thing it protects, never on the thing itself: SQLite keeps locks on its
file, and POSIX drops them all when anybody in the process closes it. Who holds it is written into a second file, since
releases of filelock differ in whether a contender empties the first. Both may lie there without being held: after a
kill, and the lock's own file always, since to remove it lets two processes lock two files of one name.

Neither is ever opened through a symbolic link, and no pipe that lies at one of these names is waited for.

`try_lock` locks a file that is open already, for a writer's temporary file: there is no path to agree on beforehand.
"""

from __future__ import annotations

import datetime
import os
import socket
import sys
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags of `os.open`: a symbolic link is refused, and opening a pipe does not block."""


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
        self._holder = Path(f"{os.fspath(path)}.holder")
        self._lock = FileLock(path, timeout=0)
        try:
            self._lock.acquire()
        except Timeout:
            raise Locked(self._named()) from None
        since = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        with suppress(OSError):  # it serves a message only
            self._holder.unlink(missing_ok=True)  # of a killed holder, or a link to another file
            with open(self._holder, "x", encoding="utf-8") as file:
                file.write(f"process {os.getpid()} on {socket.gethostname()}, since {since}")

    def _named(self) -> str:
        with suppress(OSError), open(os.open(self._holder, os.O_RDONLY | PLAIN), "rb") as file:
            return file.read(500).decode("utf-8", "replace") or "another process"
        return "another process"

    def release(self) -> None:
        """Let go; a second time does nothing."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._holder.unlink()
            self._lock.release()


def try_lock(file: int) -> bool:
    """Lock the open file `file` until it is closed; return False where another process holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(file, 1 << 20, os.SEEK_SET)  # a byte past the content, which others must be able to read
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
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), os.stat(path))
    return False
