"""Read patterns that a user sent: bytes of a .npy or .csv file become an array, or a sentence says why not.

Nothing in a file is executed (no pickles), nothing is written to the disk, the file's name never leaves the browser,
and the header of a .npy file is compared with the bytes that came before any memory is taken for it.
"""

from __future__ import annotations

import io
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.problem import Perceptron

Array = NDArray[Any]
MAX_BYTES = 32 * 2**20
"""Largest upload."""
_MAGIC = b"\x93NUMPY"


def read_upload(content: bytes) -> Array:
    """Return the patterns (m, n) in `content`: a .npy file or numbers separated by commas, one pattern a line.

    >>> read_upload(b"a,b,c\\n1,-1,1\\n1,1,-1\\n")
    array([[ 1, -1,  1],
           [ 1,  1, -1]], dtype=int8)
    """
    if len(content) > MAX_BYTES:
        raise ValueError(f"the file has {len(content) / 2**20:.0f} MiB; the limit is {MAX_BYTES // 2**20} MiB.")
    if not content:
        raise ValueError("the file is empty.")
    array = _npy(content) if content.startswith(_MAGIC) else _csv(content)
    return Perceptron(array).patterns


def _npy(content: bytes) -> Array:
    file = io.BytesIO(content)
    try:
        version = np.lib.format.read_magic(file)
        readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
        shape, _, dtype = readers[version](file)
    except (ValueError, KeyError):
        raise ValueError("the .npy file's header cannot be read.") from None
    if dtype.hasobject:
        raise ValueError("the array must hold plain numbers, not pickled objects.")
    if dtype.kind not in "biuf":
        raise ValueError(f"the array must hold numbers; it holds {dtype}.")
    promised = dtype.itemsize
    for size in shape:
        promised *= size
    if promised != len(content) - file.tell():
        raise ValueError(f"the .npy file is damaged: its header promises {promised} bytes of data.")
    return np.load(io.BytesIO(content), allow_pickle=False)


def _csv(content: bytes) -> Array:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError("the file is neither a NumPy .npy file nor text.") from None
    lines = text.splitlines()
    header = int(any(not _is_number(word) for word in lines[0].split(",")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.loadtxt(lines, delimiter=",", skiprows=header, ndmin=2)
        except UserWarning:
            raise ValueError("the file holds no numbers.") from None
        except ValueError as error:
            raise ValueError(f"the file is not a table of numbers: {str(error).partition(';')[0]}.") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
