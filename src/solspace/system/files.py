"""Write a file whole or not at all.

The new content goes to a temporary file in the same folder, is flushed to the disk and then takes the old one's place
in one step. A crash, a kill or a full disk at any moment leaves either the old file or the new one, never half of one.
What a killed writer left behind is removed by the next one: a writer holds a lock on its temporary file, which the
operating system lets go when the writer dies.
"""

from __future__ import annotations

import errno
import glob
import os
import secrets
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from solspace.system.locks import PLAIN, is_current, try_lock

_TRIES = 3
"""Temporary files to try a lock on; some network drives have none, and then no writer removes another's file."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that becomes `path` when the block ends without an error."""
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    _remove_stale(path)
    handle, name = _temporary(path)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if sys.platform != "win32":  # while the lock is held; Windows moves closed files only
                os.replace(name, path)
        if sys.platform == "win32":
            os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def _temporary(path: Path) -> tuple[int, Path]:
    """Return a new locked file beside `path`, open for writing, and its name."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    for _ in range(_TRIES):
        name = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
        handle = os.open(name, flags, 0o666)  # from which the system takes the user's umask
        if try_lock(handle) and is_current(handle, name):
            return handle, name
        os.close(handle)  # another writer took it for a dead one's before it was locked, or there are no locks here
        name.unlink(missing_ok=True)
    return os.open(name, flags, 0o666), name


def _remove_stale(path: Path) -> None:
    """Remove the temporary files for `path` whose writers are dead."""
    for name in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            handle = os.open(name, os.O_WRONLY | PLAIN)
            try:
                if try_lock(handle):
                    os.unlink(name)
            finally:
                os.close(handle)
