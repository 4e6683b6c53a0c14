"""Read arrays from files that may be damaged or hostile: .npy, .npz, sparse .npz, tables of text, Parquet; or from bytes.

Nothing in a file is executed, and nothing that it says about its own size is believed: a header is compared with the
bytes that are there before memory is taken for it, and nothing expands beyond the limits of `sources`.
"""

from __future__ import annotations

import io
import math
import os
import warnings
import zipfile
from collections.abc import Callable, Iterable
from typing import Any, BinaryIO, cast

import numpy as np

from solspace.system import parquet, sparse, tables
from solspace.system.sources import FREE, SLACK, Damaged, Source, check_size, opened, short

__all__ = ["FREE", "KINDS", "TABLES", "Damaged", "Source", "read_arrays", "read_labelled", "read_npz"]

_TEXT = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
TABLES = (*_TEXT, ".parquet")
"""Files with columns."""
KINDS = (".npy", ".npz", *TABLES)
"""What `read_arrays` can read."""
_ENTRIES = 10_000
_END = 22
"""Bytes of the record with which a zip file ends, before its comment."""
_CHUNK = 1 << 20
_PLAIN = "biufUS"
"""Kinds of NumPy types that are plain numbers or words."""


def read_arrays(source: Source, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in a file by name; the only array of a .npy, a sparse matrix or a table is called "".

    Numbers and words are taken, in arrays of up to `limit` bytes where one is given. What is a table: see `tables`.

    >>> read_arrays(b"a,b\\n1,2\\n3,4\\n")
    {'': array([[1., 2.],
           [3., 4.]])}
    """
    return _READERS[_kind(source)](source, limit)


def read_labelled(
    source: Source, label: str | None = None, index: str | None = None, limit: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return patterns (m, n) and labels (m,) of a table: the other columns, and the column `label` where one is given.

    Columns go by name or by number. `index` is left out of the patterns, and so is an index that pandas wrote.

    >>> read_labelled(b",x,y,animal\\n0,1,2,cat\\n1,3,4,dog\\n", "animal")
    (array([[1., 2.],
           [3., 4.]]), array(['cat', 'dog'], dtype='<U3'))
    """
    read = parquet.labelled if _kind(source) == ".parquet" else tables.labelled
    return read(source, label, index, limit)


def read_npz(source: Source, names: Iterable[str] | None = None, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file, or of them those called `names` that are there."""
    with opened(source) as (stream, size), zipfile.ZipFile(stream) as archive:
        entries = _entries(source, stream, size, archive)
        wanted = [name for name in entries if names is None or name in set(names)]
        check_size(source, sum(entries[name].file_size for name in wanted), size, limit)
        return {name: _unpacked(source, archive, entries[name]) for name in wanted}


def _npy(source: Source, limit: int | None) -> dict[str, np.ndarray]:
    with opened(source) as (stream, size):
        return {"": _array(source, stream, size, limit)}


def _npz(source: Source, limit: int | None) -> dict[str, np.ndarray]:
    arrays = read_npz(source, limit=limit)
    if not sparse.is_sparse(arrays):
        return arrays
    with opened(source) as (_, size):
        return {"": sparse.dense(source, arrays, size, limit)}


_READERS: dict[str, Callable[[Source, int | None], dict[str, np.ndarray]]] = {
    ".npy": _npy,
    ".npz": _npz,
    **dict.fromkeys(_TEXT, lambda source, limit: {"": tables.numbers(source, limit)}),
    ".parquet": lambda source, limit: {"": parquet.numbers(source, limit)},
}
_MAGIC = {b"\x93NUM": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet"}


def _kind(source: Source) -> str:
    """Return the kind of a file, by its name; that of bytes, which have none, by how they begin."""
    if isinstance(source, bytes):
        return _MAGIC.get(source[:4], ".csv")
    for kind in KINDS:
        if os.fspath(source).lower().endswith(kind):
            return kind
    raise Damaged(source, f"known kinds are {', '.join(KINDS)}")


def _array(source: Source, stream: BinaryIO, size: int, limit: int | None = None) -> np.ndarray:
    """Return the array in a .npy `stream` of `size` bytes in all."""
    shape, fortran, dtype, header = _header(source, stream)
    there, announced = size - header, math.prod(shape) * dtype.itemsize
    if limit is not None and announced > limit:
        raise Damaged(source, f"its header announces {announced:,} bytes, more than the {limit:,} allowed")
    if announced != there:
        raise Damaged(source, f"its header announces {announced:,} bytes, but {there:,} follow")
    content, at = np.empty(announced, np.uint8), 0
    while at < announced:
        chunk = stream.read(min(_CHUNK, announced - at))
        if not chunk:
            raise Damaged(source, f"it is truncated: {announced:,} bytes announced, {at:,} there")
        content[at : at + len(chunk)] = np.frombuffer(chunk, np.uint8)
        at += len(chunk)
    return np.ndarray(shape, dtype, content.data, order="F" if fortran else "C")


def _header(source: Source, stream: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Return shape, order and type of the array in a .npy stream, and how many bytes its header takes."""
    magic = stream.read(8)
    if magic[:6] != b"\x93NUMPY" or magic[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise Damaged(source, "it is not a NumPy array")
    first = magic[6] == 1
    length = stream.read(2 if first else 4)
    if int.from_bytes(length, "little") > SLACK:
        raise Damaged(source, "the header of its array is too long")
    text = stream.read(int.from_bytes(length, "little"))
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # written by Python 2; or damaged, which is an error soon enough
            shape, fortran, dtype = read(cast(Any, io.BytesIO(length + text)), max_header_size=SLACK)
    except Exception as error:  # the header is a Python literal: a damaged one can raise nearly anything
        raise Damaged(source, f"the header of its array is damaged ({short(error)})") from error
    if dtype.hasobject:
        raise Damaged(source, "its arrays must be plain numbers or words, not pickled objects")
    if dtype.kind not in _PLAIN or dtype.itemsize == 0 or (dtype.kind == "f" and dtype.itemsize > 8):
        raise Damaged(source, f"it holds {dtype} instead of plain numbers or words")
    if min(shape, default=0) < 0:
        raise Damaged(source, f"its array has the shape {shape}")
    return shape, fortran, dtype, len(magic) + len(length) + len(text)


def _entries(source: Source, stream: BinaryIO, size: int, archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """Return the arrays of an archive by name, before anything is unpacked; none may be lost from its directory."""
    listed = archive.infolist()
    entries = {info.filename.removesuffix(".npy"): info for info in listed if info.filename.endswith(".npy")}
    stream.seek(size - len(archive.comment) - _END + 10)
    announced = int.from_bytes(stream.read(2), "little")  # zipfile does not look at it; 65535 stands for any number
    if not 0 < len(entries) == len(listed) <= _ENTRIES or announced not in (len(listed), 0xFFFF):
        raise Damaged(source, "it holds no arrays, something else beside them, or two of one name")
    for info in listed:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise Damaged(source, "it is compressed in a way that NumPy does not use")
    return entries


def _unpacked(source: Source, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(info) as entry:
        array = _array(source, cast(BinaryIO, entry), info.file_size)
        if entry.read(1):  # to the end, where the checksum is compared
            raise Damaged(source, f"{info.filename} in it is longer than its header announces")
    return array
