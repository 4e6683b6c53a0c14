"""Names of array types in annotations, and arrays aligned to cache lines."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]  # any type: NumPy cannot tell types of kernels apart that take two of them
Reals: TypeAlias = NDArray[np.floating]  # single or double precision
Doubles: TypeAlias = NDArray[np.float64]
Channel: TypeAlias = tuple[Reals, Reals, Reals]  # a logarithm and its first two derivatives
Precision: TypeAlias = str | type[np.floating] | np.dtype[np.floating]  # float32 or float64, by name or as NumPy has it
PRECISIONS = ("float32", "float64")
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.integer]
LINE = 64  # bytes of a cache line, and of the widest vector register
vanishing = np.errstate(under="ignore")  # a decorator: in the tail of a density zero is the right value


def aligned(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return zeros at an address that is a multiple of 64 bytes.

    >>> aligned((2, 32), np.int16).ctypes.data % 64
    0
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)
