"""Read patterns that a user sent: bytes of a .npy or .csv file become an array, or a sentence says why not.

Nothing in a file is executed (no pickles), nothing is written to the disk, the file's name never leaves the browser,
and the header of a .npy file is compared with the bytes that came before any memory is taken for it. Files on their way
and the patterns that pages keep count against one allowance.
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
MAX_PATTERNS = 64 * 2**20
"""Bytes that the patterns of one page may take in memory."""
MAX_TOTAL = 256 * 2**20
"""Bytes that files on their way and patterns kept may take, over all pages."""
_MAGIC = b"\x93NUMPY"


def read_upload(content: bytes) -> Array:
    """Return the patterns (m, n) in `content`: a .npy file or numbers separated by commas, one pattern a line.

    >>> read_upload(b"a,b,c\\n1,-1,1\\n1,1,-1\\n")
    array([[ 1, -1,  1],
           [ 1,  1, -1]], dtype=int8)
    """
    if len(content) > MAX_BYTES:
        raise ValueError(too_large(len(content)))
    if not content:
        raise ValueError("the file is empty.")
    array = _npy(content) if content.startswith(_MAGIC) else _csv(content)
    patterns = Perceptron(array).patterns
    if patterns.nbytes > MAX_PATTERNS:
        raise ValueError(
            f"the patterns take {patterns.nbytes / 2**20:.0f} MiB of memory; the limit is {MAX_PATTERNS // 2**20} MiB."
        )
    return patterns


def too_large(size: int) -> str:
    """Return the sentence about a file of `size` bytes.

    >>> too_large(40 * 2**20)
    'the file has 40 MiB; the limit is 32 MiB.'
    """
    return f"the file has {size / 2**20:.0f} MiB; the limit is {MAX_BYTES // 2**20} MiB."


class Allowance:
    """The memory that uploads of all pages may take together; used on the server's own thread.

    >>> allowance = Allowance(limit=100 * 2**20)
    >>> allowance.take("a page", "patterns", 60 * 2**20)
    >>> allowance.take("another", "file", 50 * 2**20)
    Traceback (most recent call last):
    ...
    ValueError: uploads of all open pages take 60 MiB and this one needs 50 MiB more; the limit is 100 MiB: close a tab.
    """

    def __init__(self, limit: int = MAX_TOTAL) -> None:
        self.limit = limit
        self._taken: dict[tuple[str, str], int] = {}

    def take(self, token: str, what: str, size: int) -> None:
        """Count `size` bytes for a page instead of what it had of the same kind; `ValueError` if that is too much."""
        others = sum(taken for owner, taken in self._taken.items() if owner != (token, what))
        if others + size > self.limit:
            raise ValueError(
                f"uploads of all open pages take {others / 2**20:.0f} MiB and this one needs {size / 2**20:.0f} MiB more; "
                f"the limit is {self.limit // 2**20} MiB: close a tab."
            )
        self._taken[token, what] = size

    def free(self, token: str, *what: str) -> None:
        """Take back what was counted for a page: some kinds, or all."""
        for kind in what or ("file", "patterns"):
            self._taken.pop((token, kind), None)


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
