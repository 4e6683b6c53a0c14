"""Files that are written whole or not at all, and locks that end with their holder.

After a crash, a kill or a full disk either the old file or the new one is there. A writer holds a lock on its temporary file, so
that the next writer can remove what a killed one left. `Lock` sits on a file of its own beside the store it protects: SQLite
keeps locks on its file, and POSIX drops them all when any part of the process closes it. Symbolic links and pipes under these
names are neither followed nor waited for.
"""

from __future__ import annotations

import datetime
import errno
import glob
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

_PLAIN = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
"""Flags of `os.open`: a symbolic link is refused, and opening a pipe does not block."""
_YOUNG = 2.0
"""Seconds after which a temporary file without a lock has no writer."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that becomes `path` when the block ends without an error."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    handle = os.open(name, flags, 0o666)  # from which the system takes the user's umask
    _try_lock(handle)  # some network drives have no locks; there no writer removes another's file
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name == "posix":  # while the lock is held; Windows moves closed files only
                os.replace(name, path)
        if os.name != "posix":
            os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` whose writers are dead."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            handle = os.open(name, os.O_WRONLY | _PLAIN)
            try:
                if time.time() - os.fstat(handle).st_mtime > _YOUNG and _try_lock(handle):
                    os.unlink(name)
            finally:
                os.close(handle)


def _try_lock(handle: int) -> bool:
    """Lock an open file until it is closed; return False if another process holds it."""
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(handle, 1 << 20, os.SEEK_SET)  # a byte past the content, which others must be able to read
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
            os.lseek(handle, 0, os.SEEK_SET)
        else:
            import fcntl

            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


class Locked(RuntimeError):
    """Another process or object holds the lock; the message names it."""


class Lock:
    """Exclusive lock on the file `path`, taken at once or refused with `Locked`."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from filelock import FileLock, Timeout

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
        with suppress(OSError), open(os.open(self._holder, os.O_RDONLY | _PLAIN), "rb") as file:
            return file.read(500).decode("utf-8", "replace") or "another process"
        return "another process"

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._lock.is_locked:
            with suppress(OSError):
                self._holder.unlink()
            self._lock.release()
