"""Files that may be damaged or hostile, or the bytes of one: how they are opened, and what may become of them.

Nothing that a file says about its own size is believed: a compressed one may expand to a hundred times its size, or to
a quarter of a gigabyte if that is more. Whatever is wrong is one sentence that names the file.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

Source = str | os.PathLike[str] | bytes
"""A file, or the bytes of one: what a browser sent."""
FREE = 1 << 28
"""Bytes to which any file may expand in memory."""
FOLD = 100
"""Factor by which a file may expand beyond that."""
SLACK = 1 << 14
"""Bytes that headers may add to a limit on arrays."""


class Damaged(ValueError):
    """A file that cannot be read, and the `reason`."""

    def __init__(self, source: Source, reason: object) -> None:
        self.reason = str(reason).rstrip(".")
        name = "the file" if isinstance(source, bytes) else os.fspath(source)
        super().__init__(f"{name} cannot be read: {self.reason}.")


@contextmanager
def opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or bytes; give the stream and its size, and turn whatever damage leads to into a sentence."""
    with _stream(source) as stream:
        try:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            yield stream, size
        except (Damaged, MemoryError):
            raise
        except Exception as error:  # what zipfile, zlib, NumPy and Arrow raise for damage depends on their versions
            raise Damaged(source, f"it is damaged or not of the kind its name says ({short(error)})") from error


def _stream(source: Source) -> BinaryIO:
    if isinstance(source, bytes):
        return io.BytesIO(source)
    try:
        about = os.stat(source)
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {os.fspath(source)}.") from None
    if not stat.S_ISREG(about.st_mode):  # a pipe or a device could be read for ever
        raise Damaged(source, "it is not a file")
    return open(source, "rb")


def check_size(
    source: Source, announced: int, size: int, limit: int | None, advice: str = "save it uncompressed, with np.save"
) -> None:
    """Raise a sentence where a file of `size` bytes would take `announced` bytes of memory, more than it may."""
    allowed = max(FREE, FOLD * size) if limit is None else limit + SLACK
    if announced > allowed:
        hint = "" if limit is not None else f"; {advice}"
        raise Damaged(source, f"its {size:,} bytes expand to {announced:,}, more than the {allowed:,} allowed{hint}")


def short(error: Exception) -> str:
    """Return the first line of what an error says, without advice on how to call NumPy.

    >>> short(ValueError("bad cell; use `usecols`"))
    'bad cell'
    """
    words = str(error).partition("\n")[0].partition(";")[0]
    return words[:200] if words.strip() else type(error).__name__
