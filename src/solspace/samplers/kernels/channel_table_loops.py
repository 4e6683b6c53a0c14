"""Compiled reading of a `ResponseTable`; imported at first use, as Numba is.

Along the field and along the variance alike a value is that of the polynomial through the six nodes around it.
"""

from __future__ import annotations

import math

import numpy as np

from solspace.system.compiled import FAST, njit


@njit(inline="always", **FAST)
def _place(x, start, step, size):
    """Return the node to the left of asinh x, kept inside, and how far behind it x is."""
    magnitude = abs(x)
    depth = math.log(magnitude + math.sqrt(magnitude * magnitude + 1.0))
    at = ((depth if x >= 0 else -depth) - start) / step
    node = min(max(int(at), 2), size - 4) if abs(at) < 1e9 else 2
    return node, at - node


@njit(inline="always", **FAST)
def _weights(s):
    """Return the weights of the nodes -2, …, 3 at a share `s` of the way from node 0 to node 1."""
    left, right, middle = (s + 2) * (s + 1), (s - 2) * (s - 3), s * (s - 1)
    return (
        -(s + 1) * middle * right / 120,
        (s + 2) * middle * right / 24,
        -left * (s - 1) * right / 12,
        left * s * right / 12,
        -left * middle * (s - 3) / 24,
        left * middle * (s - 2) / 120,
    )


@njit(inline="always", **FAST)
def _read(row, node, w):
    return (
        w[0] * row[node - 2]
        + w[1] * row[node - 1]
        + w[2] * row[node]
        + w[3] * row[node + 1]
        + w[4] * row[node + 2]
        + w[5] * row[node + 3]
    )


@njit(**FAST)
def along(table, x, start, step):
    """Return the two rows of `table` (2, size) at each of `x` (k,), (2, k)."""
    found = np.empty((2, x.size))
    for i in range(x.size):
        node, share = _place(x[i], start, step, table.shape[1])
        w = _weights(share)
        found[0, i], found[1, i] = _read(table[0], node, w), _read(table[1], node, w)
    return found


@njit(**FAST)
def by_column(omega, variance, tables, start, step, g, dg):
    """Fill g and dg (m, k) from a table for every column, (k, 2, size)."""
    size = tables.shape[2]
    for r in range(omega.shape[0]):
        for k in range(omega.shape[1]):
            inverse = 1.0 / math.sqrt(variance[k])
            node, share = _place(omega[r, k] * inverse, start, step, size)
            w = _weights(share)
            g[r, k] = _read(tables[k, 0], node, w) * inverse
            dg[r, k] = _read(tables[k, 1], node, w) * inverse * inverse


@njit(**FAST)
def by_element(omega, variance, stack, low, spacing, start, step, g, dg):
    """Fill g and dg (m, k), each at its own variance, from `stack` (rows, 2 size) whose first row is number `low`."""
    size = stack.shape[1] // 2
    for r in range(omega.shape[0]):
        for k in range(omega.shape[1]):
            inverse = 1.0 / math.sqrt(variance[r, k])
            depth = math.log(variance[r, k]) / spacing
            cell = math.floor(depth)
            v = _weights(depth - cell)
            node, share = _place(omega[r, k] * inverse, start, step, size)
            w = _weights(share)
            value, slope = 0.0, 0.0
            for i in range(6):
                row = stack[cell - 2 - low + i]
                value += v[i] * _read(row, node, w)
                slope += v[i] * _read(row, size + node, w)
            g[r, k], dg[r, k] = value * inverse, slope * inverse * inverse
