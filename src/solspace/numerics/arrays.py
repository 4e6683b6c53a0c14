"""Names of array types in annotations, arrays aligned to cache lines, and silence about numbers that underflow."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

Array: TypeAlias = NDArray[Any]  # any type: NumPy cannot tell types of kernels apart that take two of them
Reals: TypeAlias = NDArray[np.floating]  # single or double precision
Doubles: TypeAlias = NDArray[np.float64]
Precision: TypeAlias = str | type[np.floating] | np.dtype[np.floating]  # float32 or float64, by name or as NumPy has it
Bools: TypeAlias = NDArray[np.bool_]
Index: TypeAlias = NDArray[np.integer]
LINE = 64  # bytes of a cache line, and of the widest vector register

P = ParamSpec("P")
R = TypeVar("R")


def aligned(shape: int | tuple[int, ...], dtype: DTypeLike) -> Array:
    """Return zeros at an address that is a multiple of 64 bytes.

    >>> aligned((2, 32), np.int16).ctypes.data % 64
    0
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(size + LINE, np.uint8)
    start = -raw.ctypes.data % LINE
    return raw[start : start + size].view(dtype).reshape(shape)


def vanishing(function: Callable[P, R]) -> Callable[P, R]:
    """Let numbers underflow inside `function` without a warning: in the tail of a density zero is the right value.

    >>> with np.errstate(all="raise"):
    ...     float(vanishing(np.exp)(-1e3))
    0.0
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return call
