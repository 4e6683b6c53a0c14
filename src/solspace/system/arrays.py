"""Arrays from files, or from the bytes of one: .npy, .npz, sparse matrices in .npz, and tables (`tables`).

Nothing in a file is executed. Sizes are checked before memory is taken: the header of an array must agree with the bytes that
follow it, and a file may expand to a hundred times its size, or to `FREE` if that is more. Damage is a ValueError that names
the file.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import stat
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

Source = str | os.PathLike[str] | bytes
"""A file, or the bytes of one."""
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
"""Files with columns."""
KINDS = (".npy", ".npz", *TABLES)
"""Files that `read_arrays` reads."""
FREE = 1 << 28
"""Bytes to which any file may expand in memory."""
_FOLD = 100
"""Factor by which a file may expand beyond that."""
_HEADERS = 1 << 14
"""Bytes that headers may add to a limit on arrays."""
_MAGIC = {b"\x93NUM": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet"}


class Damaged(ValueError):
    """A file that cannot be read, and the `reason`."""

    def __init__(self, source: Source, reason: object) -> None:
        self.reason = str(reason).rstrip(".")
        name = "the file" if isinstance(source, bytes) else os.fspath(source)
        super().__init__(f"{name} cannot be read: {self.reason}.")


def read_arrays(source: Source, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in a file by name; that of a .npy, a sparse matrix or a table is called "".

    They may take `limit` bytes. ValueError if the file is damaged, too large or of another kind.

    >>> read_arrays(b"a,b\\n1,2\\n3,4\\n")
    {'': array([[1., 2.],
           [3., 4.]])}
    """
    kind = kind_of(source)
    if kind in TABLES:
        from solspace.system import tables

        return {"": tables.read_numbers(source, kind, limit)}
    if kind == ".npz":
        arrays = read_npz(source, limit=limit)
        return {"": _dense(source, limit)} if {"format", "shape", "data"} <= set(arrays) else arrays
    with opened(source) as (stream, size):
        check_size(source, size, size, limit)
        return {"": _array(source, stream, size)}


def read_npz(source: Source, names: Iterable[str] | None = None, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file, or those among `names`."""
    with opened(source) as (stream, size), zipfile.ZipFile(stream) as archive:
        entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        if not entries:
            raise Damaged(source, "it holds no arrays")
        stream.seek(max(0, size - 22))
        end = stream.read()  # of an archive without a comment; Python's zipfile does not compare the number of entries
        if end.startswith(b"PK\5\6") and int.from_bytes(end[10:12], "little") not in (len(archive.infolist()), 0xFFFF):
            raise Damaged(source, "its list of arrays is damaged")
        wanted = {name: entries[name] for name in entries if names is None or name in set(names)}
        check_size(source, sum(info.file_size for info in wanted.values()), size, limit)
        arrays = {}
        for name, info in wanted.items():
            with archive.open(info) as entry:
                arrays[name] = _array(source, entry, info.file_size)
        return arrays


def contents(source: Source, limit: int | None = None) -> bytes:
    """Return the bytes of a file, unpacked where gzip compressed them."""
    with opened(source) as (stream, size):
        packed = stream.read(2) == b"\x1f\x8b"
        stream.seek(0)
        plain: Any = gzip.GzipFile(fileobj=stream) if packed else stream
        content = bytearray()
        while chunk := plain.read(1 << 20):
            content += chunk
            check_size(source, len(content), size, limit)
        return bytes(content)


@contextmanager
def opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or bytes; give the stream and its size, and turn any error within the block into a sentence."""
    with _stream(source) as stream, explained(source):
        size = stream.seek(0, io.SEEK_END)
        stream.seek(0)
        yield stream, size


@contextmanager
def explained(source: Source) -> Iterator[None]:
    """Turn any error into one that names the file: those of zipfile, zlib, NumPy and Arrow depend on their versions."""
    try:
        yield
    except Damaged:
        raise
    except Exception as error:
        reason = str(error).partition("\n")[0].partition(";")[0][:200].strip() or type(error).__name__
        raise Damaged(source, f"it is damaged or not of the kind its name says ({reason})") from error


def check_size(source: Source, wanted: int, size: int, limit: int | None, advice: str = "") -> None:
    """Raise ValueError if a file of `size` bytes would take `wanted` bytes of memory, more than it may."""
    allowed = max(FREE, _FOLD * size) if limit is None else limit + _HEADERS
    if wanted > allowed:
        hint = f"; {advice or 'save it uncompressed, with np.save'}" if limit is None else ""
        raise Damaged(
            source, f"its {size:,} bytes expand to {wanted:,} or more, more than the {allowed:,} allowed{hint}"
        )


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


def kind_of(source: Source) -> str:
    """Return the ending of a file's name, one of `KINDS`; bytes are known by how they begin."""
    if isinstance(source, bytes):
        return _MAGIC.get(source[:4], ".csv")
    for kind in KINDS:
        if os.fspath(source).lower().endswith(kind):
            return kind
    raise Damaged(source, f"known kinds are {', '.join(KINDS)}")


def _array(source: Source, stream: Any, size: int) -> np.ndarray:
    """Return the array in a .npy `stream` of `size` bytes, whose header must agree with that size."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    announced, there = math.prod(shape) * dtype.itemsize, size - stream.tell()
    if dtype.kind not in "biufUS":
        held = "pickled objects" if dtype.hasobject else str(dtype)
        raise Damaged(source, f"it holds {held} instead of plain numbers or words")
    if announced != there:
        raise Damaged(source, f"its header announces {announced:,} bytes, but {there:,} follow")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def _dense(source: Source, limit: int | None) -> np.ndarray:
    """Return a sparse matrix, whose parts have been checked, as an array."""
    from scipy import sparse

    with opened(source) as (stream, size):
        matrix = sparse.load_npz(stream)
        rows, columns = matrix.shape
        check_size(
            source, rows * columns * matrix.dtype.itemsize, size, limit, "it is made dense, so take fewer columns"
        )
        if hasattr(matrix, "check_format"):  # compiled code follows the indices
            matrix.check_format(full_check=True)
        return np.asarray(matrix.toarray())
