"""Read patterns that a user sent: bytes of a file (`system.arrays`) become an array, or a sentence says why not.

Nothing is written to the disk, and the file's name never leaves the browser. Files on their way and the patterns that
pages keep count against one allowance.
"""

from __future__ import annotations

import threading

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.system.arrays import read_arrays

MAX_BYTES = 32 * 2**20
"""Largest upload."""
MAX_PATTERNS = 64 * 2**20
"""Bytes that the patterns of one page may take in memory."""
MAX_TOTAL = 256 * 2**20
"""Bytes that files on their way and patterns kept may take, over all pages."""


def read_upload(content: bytes) -> Array:
    """Return the patterns (m, n) in `content`: a .npy file, a .npz with one array, or a table, one pattern a line.

    >>> read_upload(b"a,b,c\\n1,-1,1\\n1,1,-1\\n")
    array([[ 1, -1,  1],
           [ 1,  1, -1]], dtype=int8)
    """
    if len(content) > MAX_BYTES:
        raise ValueError(too_large(len(content)))
    if not content:
        raise ValueError("the file is empty.")
    arrays = read_arrays(content, MAX_PATTERNS)
    if len(arrays) != 1:
        raise ValueError(f"the file holds {len(arrays)} arrays; send one with the patterns alone.")
    patterns = Perceptron(*arrays.values()).patterns
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
    """The memory that uploads of all pages may take together; counted from any thread.

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
        self._lock = threading.Lock()

    def take(self, token: str, what: str, size: int) -> None:
        """Count `size` bytes for a page instead of what it had of the same kind; `ValueError` if that is too much."""
        with self._lock:
            others = sum(taken for owner, taken in self._taken.items() if owner != (token, what))
            if others + size <= self.limit:
                self._taken[token, what] = size
                return
        raise ValueError(
            f"uploads of all open pages take {others / 2**20:.0f} MiB and this one needs {size / 2**20:.0f} MiB more; "
            f"the limit is {self.limit // 2**20} MiB: close a tab."
        )

    def free(self, token: str, *what: str) -> None:
        """Take back what was counted for a page: some kinds, or all."""
        with self._lock:
            for kind in what or ("file", "patterns"):
                self._taken.pop((token, kind), None)
