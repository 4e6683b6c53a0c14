"""Files: arrays read from .npy, .npz, sparse matrices in .npz and tables (`tables`), and files written whole or not at all.

Nothing in a file is executed. Sizes are checked before memory is taken: the header of an array must agree with the bytes that
follow it, and a file may expand to a hundred times its size, or to `FREE` if that is more. Damage is a ValueError that names
the file.
"""

from __future__ import annotations

import errno
import glob
import gzip
import io
import math
import os
import secrets
import time
import zipfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np

Source = str | os.PathLike[str] | bytes  # A file, or the bytes of one
TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")  # files with columns
_KINDS = (".npy", ".npz", *TABLES)
_MAGIC = {b"\x93NUM": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet"}
FREE = 1 << 28  # bytes to which any file may expand in memory
_FOLD = 100  # factor by which a file may expand beyond that
_STALE = 3600.0  # seconds after which an unchanged temporary file was left by a killed writer


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
        from solspace.system.tables import read_table

        return {"": read_table(source, limit=limit)[0]}
    if kind == ".npz":
        arrays = read_npz(source, limit=limit)
        return {"": _dense(source, limit)} if {"format", "shape", "data"} <= set(arrays) else arrays
    with opened(source) as (stream, size):
        check_size(source, size, size, limit)
        return {"": _array(source, stream, size)}


def read_npz(source: Source, names: Collection[str] = (), limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file, or those among `names`."""
    with opened(source) as (stream, size), zipfile.ZipFile(stream) as archive:
        entries = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        stream.seek(max(0, size - 22))
        end = stream.read()  # of an archive without a comment; Python's zipfile does not compare the number of entries
        count = int.from_bytes(end[10:12], "little") if end.startswith(b"PK\5\6") else 0xFFFF
        if not entries or count not in (len(archive.infolist()), 0xFFFF):
            raise Damaged(source, "its list of arrays is damaged or empty")
        wanted = {name: info for name, info in entries.items() if name in names or not names}
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
def opened(source: Source) -> Iterator[tuple[IO[bytes], int]]:
    """Open a file or bytes; give the stream and its size, and turn any error within the block into one that names it."""
    if not isinstance(source, bytes) and not os.path.isfile(source):  # a pipe or a device could be read for ever
        raise FileNotFoundError(f"there is no file {os.fspath(source)}.")
    with io.BytesIO(source) if isinstance(source, bytes) else open(source, "rb") as stream, explained(source):
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
        raise Damaged(source, f"it is damaged or not of the kind that its name states ({reason})") from error


def check_size(source: Source, wanted: int, size: int, limit: int | None) -> None:
    """Raise ValueError if a file of `size` bytes would take `wanted` bytes of memory, more than it may."""
    allowed = max(FREE, _FOLD * size) if limit is None else limit
    if wanted > allowed:
        raise Damaged(source, f"its {size:,} bytes expand to {wanted:,} or more, more than the {allowed:,} allowed")


def kind_of(source: Source) -> str:
    """Return the ending of a file's name, one of those that `read_arrays` reads; bytes are known by how they begin."""
    if isinstance(source, bytes):
        return _MAGIC.get(source[:4], ".csv")
    for kind in _KINDS:
        if os.fspath(source).lower().endswith(kind):
            return kind
    raise Damaged(source, f"known kinds are {', '.join(_KINDS)}")


def _array(source: Source, stream: Any, size: int) -> np.ndarray:
    """Return the array in a .npy `stream` of `size` bytes, whose header must agree with that size."""
    version = np.lib.format.read_magic(stream)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, _, dtype = read_header(stream)
    if dtype.kind not in "biufUS":
        raise Damaged(
            source, f"it holds {'pickled objects' if dtype.hasobject else dtype} instead of plain numbers or words"
        )
    if (announced := math.prod(shape) * dtype.itemsize) != (there := size - stream.tell()):
        raise Damaged(source, f"its header announces {announced:,} bytes, but {there:,} follow")
    stream.seek(0)
    return np.load(stream, allow_pickle=False)


def _dense(source: Source, limit: int | None) -> np.ndarray:
    """Return a sparse matrix, whose parts have been checked, as an array."""
    from scipy import sparse

    with opened(source) as (stream, size):
        matrix = sparse.load_npz(stream)
        check_size(source, math.prod(matrix.shape) * matrix.dtype.itemsize, size, limit)
        if hasattr(matrix, "check_format"):  # compiled code follows the indices
            matrix.check_format(full_check=True)
        return np.asarray(matrix.toarray())


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a binary file that becomes `path` when the block ends without an error.

    After a crash, a kill or a full disk either the old file or the new one is there.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    path.parent.mkdir(parents=True, exist_ok=True)
    for left in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        with suppress(OSError):
            if time.time() - left.lstat().st_mtime > _STALE:
                left.unlink()
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
