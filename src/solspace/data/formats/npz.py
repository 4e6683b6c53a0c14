"""NumPy's npz: Keras' `mnist.npz` (x_train, y_train, x_test, y_test) and our own (images, labels, index).

`numpy.load` believes the shape in an array's header and allocates it; here the size of the zip entry is checked
first, and arrays of Python objects are refused before anything is unpickled.
"""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from solspace.data.formats.stream import LIMIT, check_size, damaged, take

Array = NDArray[Any]
_HEADER = 1 << 12
"""Bytes granted to the header of an array."""
_DAMAGE = (zipfile.BadZipFile, EOFError, zlib.error, struct.error, NotImplementedError, RuntimeError, OverflowError)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with _zip(path) as archive:
            yield archive
    except _DAMAGE as error:
        raise damaged(path, f"it is truncated or corrupted ({error})") from None


def _zip(path: Path) -> zipfile.ZipFile:
    with open(path, "rb"):  # a missing or forbidden file is its own error, not a damaged archive
        pass
    try:
        return zipfile.ZipFile(path)
    except (*_DAMAGE, ValueError, OSError) as error:
        raise damaged(path, f"it is not a whole npz archive ({error})") from None


def read_npz(path: Path, names: Iterable[str], limit: int = LIMIT) -> dict[str, Array]:
    """Return the arrays called `names`; those that the file does not have are left out."""
    with _archive(path) as archive:
        there = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {name: _read(archive, there[name], path, limit) for name in names if name in there}


def _read(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, limit: int) -> Array:
    check_size(path, info.file_size, limit + _HEADER, packed=info.compress_size)
    with archive.open(info) as entry:
        stream = cast(BinaryIO, entry)
        shape, fortran, dtype = _header(stream, path, info.filename)
        size = math.prod(shape) * dtype.itemsize
        check_size(path, size, limit, packed=info.compress_size)
        content = take(stream, size, path)
        if stream.read(1):
            raise damaged(path, f"{info.filename} in it is longer than its header announces")
    return np.frombuffer(content, dtype).reshape(shape, order="F" if fortran else "C")


def _header(stream: BinaryIO, path: Path, name: str) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    try:
        version = np.lib.format.read_magic(stream)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, fortran, dtype = read(stream, max_header_size=_HEADER)
    except _DAMAGE:
        raise
    except Exception as error:  # the header is a Python literal: what a damaged one raises depends on NumPy and Python
        raise damaged(path, f"{name} in it is not a NumPy array ({error})") from None
    if dtype.kind not in "buif" or min(shape, default=0) < 0:
        raise damaged(path, f"{name} in it holds {dtype} of shape {shape} instead of an array of numbers")
    return shape, fortran, dtype
