"""Products of all pairs of rows: overlaps of samples.

In blocks, and never a large matrix times its own transpose: NumPy leaves that to a routine of its own (syrk), in which
OpenBLAS 0.3.31 on several threads crashes at 16,000 rows of 784; and the square of all rows is four times what is asked for.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array, Doubles

_BLOCK = 256
"""Rows that are multiplied at a time."""


def pair_products(rows: Array) -> Doubles:
    """Return ⟨a, b⟩ of all pairs of rows, the first with all others first, (k(k - 1)/2,).

    >>> pair_products(np.array([[1, 1], [1, -1], [2, 0]]))
    array([0., 2., 2.])
    """
    k, rows = len(rows), rows.astype(np.float64)
    found, at = np.empty(k * (k - 1) // 2), 0
    for first in range(0, k, _BLOCK):
        for i, line in enumerate(rows[first : first + _BLOCK] @ rows[first:].T):
            own = line[i + 1 :]
            found[at : at + len(own)] = own
            at += len(own)
    return found


def mean_pair_product(rows: Array) -> float:
    """Return the mean of ⟨a, b⟩ over all pairs of two rows or more, from the sum of the rows alone.

    >>> mean_pair_product(np.array([[1, 1], [1, -1], [2, 0]]))
    1.3333333333333333
    """
    k, total = len(rows), rows.sum(axis=0, dtype=np.float64)
    own = sum(float(np.square(rows[first : first + _BLOCK], dtype=np.float64).sum()) for first in range(0, k, _BLOCK))
    return (float(total @ total) - own) / (k * (k - 1))
