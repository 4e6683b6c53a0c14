"""The idx format of MNIST and FashionMNIST: a magic number, the sizes, then the bytes; plain or gzip-compressed.

The magic number is 0, 0, the type (8: unsigned byte) and the number of dimensions; each size is four bytes, the
highest first.
"""

from __future__ import annotations

import hashlib
import math
import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.data.formats.stream import LIMIT, check_size, damaged, opened, take

Array = NDArray[Any]
_UNSIGNED_BYTE = 8


def read_idx(path: Path, limit: int = LIMIT) -> Array:
    """Return the uint8 array in an idx file, refusing anything else in a sentence."""
    with opened(path) as stream:
        magic = stream.read(4)
        if len(magic) < 4:
            raise damaged(path, "it is truncated before the end of its header")
        if magic[:2] != b"\0\0" or magic[2] != _UNSIGNED_BYTE or not 1 <= magic[3] <= 4:
            raise damaged(path, f"its magic number {magic.hex()} is not that of an idx file of unsigned bytes")
        shape = struct.unpack(f">{magic[3]}I", take(stream, 4 * magic[3], path))
        size = math.prod(shape)
        check_size(path, size, limit)
        content = take(stream, size, path)
        if stream.read(1):
            raise damaged(path, f"it holds more than the {size:,} bytes its header announces")
    return np.frombuffer(content, np.uint8).reshape(shape)


def header(shape: tuple[int, ...]) -> bytes:
    """Return the bytes before those of a uint8 array of this shape.

    >>> header((2,)).hex()
    '0000080100000002'
    """
    return bytes((0, 0, _UNSIGNED_BYTE, len(shape))) + struct.pack(f">{len(shape)}I", *shape)


def idx_sha256(array: Array) -> str:
    """Return the checksum that an uncompressed idx file of `array` has."""
    digest = hashlib.sha256(header(array.shape))
    digest.update(np.ascontiguousarray(array, np.uint8).tobytes())
    return digest.hexdigest()
