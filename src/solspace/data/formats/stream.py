"""Read bytes from files that may be damaged or hostile.

Nothing a file says about its own size is believed: memory grows with the bytes that really come, up to a limit, and a
file that holds fewer or more than its header announces is refused in a sentence.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

LIMIT = 1 << 29
"""Bytes of one array above which a file is refused, unless the reader is told otherwise."""
DEFLATE = 1032
"""No deflate stream expands by more than this factor."""
_CHUNK = 1 << 20
_GZIP = b"\x1f\x8b"


def damaged(path: Path, reason: str) -> ValueError:
    """Return the error for a file that cannot be used."""
    return ValueError(f"{path} cannot be read: {reason}. Remove it or replace it by the original.")


@contextmanager
def opened(path: Path) -> Iterator[BinaryIO]:
    """Open a plain or gzip-compressed file, told apart by its first bytes; damage is said in a sentence."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == _GZIP
            file.seek(0)
            if packed:
                with gzip.open(file) as stream:
                    yield cast(BinaryIO, stream)
            else:
                yield file
    except EOFError:
        raise damaged(path, "it is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise damaged(path, f"its compressed content is corrupted ({error})") from None


def take(stream: BinaryIO, size: int, path: Path) -> bytearray:
    """Return the next `size` bytes, growing with what comes."""
    content = bytearray()
    while len(content) < size:
        chunk = stream.read(min(_CHUNK, size - len(content)))
        if not chunk:
            raise damaged(path, f"it is truncated: {size:,} bytes announced, {len(content):,} there")
        content += chunk
    return content


def check_size(path: Path, announced: int, limit: int, packed: int | None = None) -> None:
    """Refuse an array of `announced` bytes that is over the `limit`, or more than `packed` bytes can expand to."""
    if announced > limit:
        raise damaged(path, f"its header announces {announced:,} bytes, more than the {limit:,} allowed")
    packed = os.path.getsize(path) if packed is None else packed
    if announced > DEFLATE * packed + _CHUNK:
        raise damaged(path, f"its header announces {announced:,} bytes, but the file has {packed:,}")


class Limited:
    """A stream that refuses to give more than `limit` bytes in all."""

    def __init__(self, stream: BinaryIO, limit: int, path: Path) -> None:
        self.stream, self.left, self.path = stream, limit, path

    def read(self, size: int = -1) -> bytes:
        """Return up to `size` bytes, all that there are when it is negative."""
        content = bytearray()
        while size < 0 or len(content) < size:
            # In chunks: a buffered file allocates what it is asked for before it reads.
            chunk = self.stream.read(_CHUNK if size < 0 else min(_CHUNK, size - len(content)))
            if not chunk:
                break
            content += chunk
            self.left -= len(chunk)
            if self.left < 0:
                raise damaged(self.path, "it expands to more than this data set can hold")
        return bytes(content)
