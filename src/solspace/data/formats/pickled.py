"""Read a pickle that may hold numbers, text, lists, dictionaries and NumPy arrays, and run nothing.

A pickle is a program. Its only way out is to name a function and have it called; here every name but the few by which
NumPy writes an array is refused, and even those stand for our own code, which checks sizes and never calls NumPy with
what the file says. Lengths and memo numbers are checked in a first pass, since the C unpickler allocates before it
reads.
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_MODULES = {"numpy", "numpy.core.multiarray", "numpy._core.multiarray", "numpy.core.numeric", "numpy._core.numeric"}
_MEMO = {"PUT", "BINPUT", "LONG_BINPUT"}


class Refused(ValueError):
    """The pickle asks for something that is not data."""


def loads(content: bytes | bytearray) -> Any:
    """Return what the pickle holds; ValueError when it is damaged or asks for anything but data.

    >>> import pickle
    >>> loads(pickle.dumps({"labels": [1, 2], "data": np.arange(3, dtype=np.uint8)}))
    {'labels': [1, 2], 'data': array([0, 1, 2], dtype=uint8)}
    """
    try:
        _check(content)
        return _plain(_DataOnly(io.BytesIO(content), encoding="bytes").load())
    except Refused:
        raise
    except (MemoryError, RecursionError):
        raise ValueError("it asks for more memory than it has bytes") from None
    except Exception as error:  # the unpickler and our stand-ins raise whatever a damaged stream leads them to
        raise ValueError(f"it is truncated or corrupted ({error or type(error).__name__})") from None


def _check(content: bytes | bytearray) -> None:
    for code, argument, _ in pickletools.genops(io.BytesIO(content)):
        if code.name in _MEMO and isinstance(argument, int) and argument > len(content):
            raise ValueError(f"memo number {argument}")


class _DataOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        if module in _MODULES and name in _STAND_INS:
            return _STAND_INS[name]
        raise Refused(f"it asks for {module}.{name}, which is no array; nothing in it was run")

    def persistent_load(self, pid: Any) -> Any:
        raise Refused("it refers to objects outside itself; nothing in it was run")


class _Type:
    """Stands for numpy.dtype: only plain numbers, in either byte order."""

    def __init__(self, code: Any, *_: Any) -> None:
        text = code.decode("ascii") if isinstance(code, bytes) else str(code)
        self.dtype = np.dtype(text)
        if self.dtype.kind not in "buif" or self.dtype.shape:
            raise ValueError(f"arrays of {text}")

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1].decode("ascii") if isinstance(state[1], bytes) else state[1]
        self.dtype = self.dtype.newbyteorder(">" if order == ">" else "<")


class _Values:
    """Stands for numpy.ndarray: its state becomes an array when it has as many bytes as its shape needs."""

    array: Array | None = None

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        _, shape, kind, fortran, raw = state
        self.array = _array(raw, kind, shape, "F" if fortran else "C")


def _array(raw: Any, kind: Any, shape: Any, order: str) -> Array:
    if not isinstance(kind, _Type) or not isinstance(raw, bytes | bytearray):
        raise ValueError("an array without plain bytes")
    if not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ValueError(f"an array of shape {shape}")
    if math.prod(shape) * kind.dtype.itemsize != len(raw):
        raise ValueError(f"an array of shape {shape} with {len(raw)} bytes")
    return np.frombuffer(raw, kind.dtype).reshape(shape, order="F" if order == "F" else "C")


def _reconstruct(subtype: Any, *_: Any) -> _Values:
    if subtype is not _Values:
        raise ValueError("an array of unknown type")
    return _Values()


def _frombuffer(raw: Any, kind: Any, shape: Any, order: Any) -> Array:
    return _array(raw, kind, shape, order)


def _latin1(text: Any, encoding: Any) -> bytes:
    text = text.decode("utf-8") if isinstance(text, bytes) else text
    if encoding not in ("latin1", b"latin1"):
        raise ValueError("text in an unknown encoding")
    return text.encode("latin1")


_STAND_INS = {"_reconstruct": _reconstruct, "ndarray": _Values, "dtype": _Type, "_frombuffer": _frombuffer}


def _plain(value: Any) -> Any:
    if isinstance(value, _Values):
        return value.array
    if isinstance(value, dict):
        return {key: _plain(entry) for key, entry in value.items()}
    return value
