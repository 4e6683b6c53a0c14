"""Read arrays from files that may be damaged or hostile: .npy, .npz, tables of text, Parquet; from a path or from bytes.

Nothing in a file is executed, and nothing that it says about its own size is believed: a header is compared with the
bytes that are there before memory is taken for it, and a compressed file may expand to a hundred times its size, or to
a quarter of a gigabyte if that is more. Whatever is wrong is one sentence that names the file.
"""

from __future__ import annotations

import io
import math
import os
import stat
import warnings
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

Source = str | os.PathLike[str] | bytes
"""A file, or the bytes of one: what a browser sent."""
KINDS = (".npy", ".npz", ".csv", ".tsv", ".parquet")
"""What `read_arrays` can read."""
FREE = 1 << 28
"""Bytes to which any compressed file may expand."""
FOLD = 100
"""Factor by which a compressed file may expand beyond that."""
_HEADER = 1 << 14
_ENTRIES = 10_000
_END = 22
"""Bytes of the record with which a zip file ends, before its comment."""
_CHUNK = 1 << 20
_PLAIN = "biufUS"
"""Kinds of NumPy types that are plain numbers or words."""


class Damaged(ValueError):
    """A file that cannot be read, and the `reason`."""

    def __init__(self, source: Source, reason: object) -> None:
        self.reason = str(reason).rstrip(".")
        name = "the file" if isinstance(source, bytes) else os.fspath(source)
        super().__init__(f"{name} cannot be read: {self.reason}.")


def read_arrays(source: Source, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays in a file by name; the only array of a .npy, a table or a Parquet file is called "".

    Numbers and words are taken, in arrays of up to `limit` bytes where one is given. A table is text with a row a line,
    cells separated by commas or tabs; a first line that holds no number is skipped.

    >>> read_arrays(b"a,b\\n1,2\\n3,4\\n")
    {'': array([[1., 2.],
           [3., 4.]])}
    """
    return _READERS[_kind(source)](source, limit)


def read_npz(source: Source, names: Iterable[str] | None = None, limit: int | None = None) -> dict[str, np.ndarray]:
    """Return the arrays of a .npz file, or of them those called `names` that are there."""
    with _opened(source) as (stream, size), zipfile.ZipFile(stream) as archive:
        entries = _entries(source, stream, size, archive)
        wanted = [name for name in entries if names is None or name in set(names)]
        _check_size(source, sum(entries[name].file_size for name in wanted), size, limit)
        return {name: _unpacked(source, archive, entries[name]) for name in wanted}


def _npy(source: Source, limit: int | None) -> dict[str, np.ndarray]:
    with _opened(source) as (stream, size):
        return {"": _array(source, stream, size, limit)}


def _table(source: Source, limit: int | None) -> dict[str, np.ndarray]:
    with _opened(source) as (stream, size):
        if limit is not None and size > limit:
            raise Damaged(source, f"it has {size:,} bytes, more than the {limit:,} allowed")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
        try:
            return {"": _cells(source, text)}
        except UnicodeDecodeError:
            raise Damaged(source, "it is not text in UTF-8") from None
        finally:
            text.detach()


def _parquet(source: Source, limit: int | None) -> dict[str, np.ndarray]:
    try:
        import pandas
        from pyarrow import parquet
    except ImportError:
        raise ValueError("reading .parquet needs pandas and pyarrow: pip install 'solspace[pandas]'.") from None
    with _opened(source) as (stream, size):
        about = parquet.read_metadata(stream)
        _check_size(source, 8 * about.num_rows * about.num_columns, size, limit)
        stream.seek(0)
        values = pandas.read_parquet(stream).to_numpy()
        if values.dtype == object and all(isinstance(value, str) for value in values.flat):
            values = values.astype(str)
        if values.dtype.kind not in _PLAIN:
            raise Damaged(source, "its columns must all be numbers, or all be words")
        return {"": values[:, 0] if values.shape[1] == 1 else values}


_READERS: dict[str, Callable[[Source, int | None], dict[str, np.ndarray]]] = {
    ".npy": _npy,
    ".npz": lambda source, limit: read_npz(source, limit=limit),
    ".csv": _table,
    ".tsv": _table,
    ".parquet": _parquet,
}
_MAGIC = {b"\x93NUM": ".npy", b"PK\x03\x04": ".npz", b"PAR1": ".parquet"}


def _kind(source: Source) -> str:
    """Return the kind of a file, by its name; that of bytes, which have none, by how they begin."""
    if isinstance(source, bytes):
        return _MAGIC.get(source[:4], ".csv")
    kind = Path(source).suffix.lower()
    if kind not in KINDS:
        raise Damaged(source, f"known kinds are {', '.join(KINDS)}")
    return kind


@contextmanager
def _opened(source: Source) -> Iterator[tuple[BinaryIO, int]]:
    """Open a file or bytes; give the stream and its size, and turn whatever damage leads to into a sentence."""
    with _stream(source) as stream:
        try:
            size = stream.seek(0, io.SEEK_END)
            stream.seek(0)
            yield stream, size
        except (Damaged, MemoryError):
            raise
        except Exception as error:  # what zipfile, zlib, NumPy and Arrow raise for damage depends on their versions
            raise Damaged(source, f"it is damaged or not of the kind its name says ({_short(error)})") from error


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


def _short(error: Exception) -> str:
    """Return the first line of what an error says, without advice on how to call NumPy."""
    words = str(error).partition("\n")[0].partition(";")[0]
    return words[:200] if words.strip() else type(error).__name__


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
    if int.from_bytes(length, "little") > _HEADER:
        raise Damaged(source, "the header of its array is too long")
    text = stream.read(int.from_bytes(length, "little"))
    read = np.lib.format.read_array_header_1_0 if first else np.lib.format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # written by Python 2; or damaged, which is an error soon enough
            shape, fortran, dtype = read(cast(Any, io.BytesIO(length + text)), max_header_size=_HEADER)
    except Exception as error:  # the header is a Python literal: a damaged one can raise nearly anything
        raise Damaged(source, f"the header of its array is damaged ({_short(error)})") from error
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


def _check_size(source: Source, announced: int, size: int, limit: int | None) -> None:
    allowed = max(FREE, FOLD * size) if limit is None else limit + _HEADER
    if announced > allowed:
        advice = "" if limit is not None else "; save it uncompressed, with np.save or np.savez"
        raise Damaged(source, f"its {size:,} bytes expand to {announced:,}, more than the {allowed:,} allowed{advice}")


def _cells(source: Source, text: io.TextIOBase) -> np.ndarray:
    """Return the numbers of a table, (rows,) where it has one column; the words of a column that holds no numbers."""
    first = text.readline()
    separator = "\t" if "\t" in first else ","
    skipped = int(not any(map(_is_number, first.split(separator))))  # a line of words alone is a header
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of a table without rows
        try:
            text.seek(0)
            table = np.loadtxt(text, delimiter=separator, skiprows=skipped, quotechar='"', ndmin=2)
        except UnicodeDecodeError:
            raise
        except (UserWarning, ValueError) as error:
            words = _words(text, separator)
            if words is None or not len(words):
                reason = "it holds no numbers" if isinstance(error, UserWarning) else _short(error)
                raise Damaged(source, f"it is not a table of numbers: {reason}") from None
            return words
    return table[:, 0] if table.shape[1] == 1 else table


def _words(text: io.TextIOBase, separator: str) -> np.ndarray | None:
    """Return the lines of a table that has one column of words; None for any other, and for what no one can read."""
    text.seek(0)
    words = []
    for line in text:
        word = line.strip().strip('"')
        if separator in line or not word.isprintable():
            return None
        words.append(word)
    return np.array([word for word in words if word])


def _is_number(word: str) -> bool:
    try:
        float(word.strip().strip('"'))
    except ValueError:
        return False
    return True
