"""Compiled elementwise halves of an AMP iteration, and the reading of response tables; imported at first use, as Numba is.

Samples are columns and lie beside each other, so every inner loop runs over the samples of one row and the compiler
vectorises it. Sums over rows are kept apart for pieces of PIECE rows and added up afterwards: rounding stays small in
single precision, and nothing depends on how many threads share the pieces.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types
from numba.extending import overload

from solspace.system.compiled import FAST, njit

PIECE = 512
SMALLEST = 1e-7
"""Least variance of a ±1 weight."""
NEGLIGIBLE = 1e-30
"""Responses below this are none: as denormal numbers they would make the products ten times slower, far inside a band."""
_f = np.float32


def decay(x):
    """Return exp(x) for x <= 0; in single precision by a polynomial that the compiler can vectorise."""
    return math.exp(x)


@overload(decay, inline="always")
def _decay(x):
    if x == types.float32:
        return _single_decay
    return lambda x: math.exp(x)


def _single_decay(x):
    x = max(x, _f(-87.0))
    power = np.int32(x * _f(1.442695041) - _f(0.5))
    rest = (x - power * _f(0.693359375)) + power * _f(2.12194440e-4)
    high = _f(1 / 120) + rest * (_f(1 / 720) + rest * _f(1 / 5040))
    value = _f(1) + rest * (_f(1) + rest * (_f(0.5) + rest * (_f(1 / 6) + rest * (_f(1 / 24) + rest * high))))
    return value * np.int32((power + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(**FAST)
def subtract_reaction(product, g, variance, margin):
    """Turn the products X m/√n into ω - κ: take off the Onsager reaction V g; `variance` is (1, k) or (m, k)."""
    for r in range(product.shape[0]):
        v = variance[r if variance.shape[0] > 1 else 0]
        row, old = product[r], g[r]
        for k in range(row.size):
            row[k] -= v[k] * old[k] + margin


@njit(inline="always", **FAST)
def _put(row, values):
    """Copy `values`: an assignment to a slice compiles for two seconds, as it can raise with a message."""
    for k in range(values.size):
        row[k] = values[k]


@njit(**FAST)
def settle(g, new, curvature, weight, first, sums):
    """Move `g` towards `new`; sums[piece] gets Σ dg and Σ dg² for pieces from `first` on; what is negligible becomes 0."""
    rows, nothing, least = g.shape[0], weight.dtype.type(0), weight.dtype.type(NEGLIGIBLE)
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        total, square = np.zeros_like(weight), np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            old, fresh, slope = g[r], new[r], curvature[r]
            for k in range(weight.size):
                fresh[k] = nothing if abs(fresh[k]) < least else fresh[k]
                moved = old[k] + weight[k] * (fresh[k] - old[k])
                old[k] = moved if weight[k] > 0 else old[k]
                total[k] += slope[k]
                square[k] += slope[k] * slope[k]
        _put(sums[piece, 0], total)
        _put(sums[piece, 1], square)


@njit(**FAST)
def binary_marginals(product, field, mean, spread, precision, weight, share, first, sums):
    """Move `mean` to tanh B, B = product + A m + h; sums[piece] gets Σ change², Σ Δ, Σ Δ².

    `spread` becomes Δ unless it is empty. Unless `share` is, that much of B becomes the field of columns that move.
    """
    rows, kind = mean.shape[0], weight.dtype.type
    one, two, four, least = kind(1), kind(2), kind(4), kind(SMALLEST)
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        moved, width, width2 = np.zeros_like(weight), np.zeros_like(weight), np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            a = precision[r if precision.shape[0] > 1 else 0]
            back, h, m = product[r], field[r], mean[r]
            for k in range(weight.size):
                back[k] = back[k] + a[k] * m[k] + h[k]
            for k in range(share.size):
                h[k] = share[k] * back[k] if weight[k] > 0 else h[k]
            for k in range(weight.size):
                b = back[k]
                e = decay(-two * abs(b))
                inverse = one / (one + e)
                t = (one - e) * inverse
                change = (t if b > 0 else -t) - m[k]
                delta = max(four * e * inverse * inverse, least)
                moved[k] += change * change
                width[k] += delta
                width2[k] += delta * delta
                back[k] = delta
                m[k] = m[k] + weight[k] * change if weight[k] > 0 else m[k]
            if spread.shape[0] > 0:
                old = spread[r]
                for k in range(weight.size):
                    old[k] = back[k] if weight[k] > 0 else old[k]
        _put(sums[piece, 0], moved)
        _put(sums[piece, 1], width)
        _put(sums[piece, 2], width2)


@njit(**FAST)
def tilt(product, field, mean, precision, first, sums):
    """Turn `product` into B = product + A m + h; sums[piece] gets Σ B²."""
    rows = mean.shape[0]
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        power = np.zeros_like(precision[0])
        for r in range(low, min(low + PIECE, rows)):
            a = precision[r if precision.shape[0] > 1 else 0]
            back, h, m = product[r], field[r], mean[r]
            for k in range(power.size):
                back[k] += a[k] * m[k] + h[k]
                power[k] += back[k] * back[k]
        _put(sums[piece, 0], power)


@njit(**FAST)
def scale_towards(product, mean, factor, weight, first, sums):
    """Move `mean` to factor · B, `product` holding B; sums[piece] gets Σ change²."""
    rows = mean.shape[0]
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        moved = np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            b, m = product[r], mean[r]
            for k in range(weight.size):
                change = factor[k] * b[k] - m[k]
                moved[k] += change * change
                m[k] = m[k] + weight[k] * change if weight[k] > 0 else m[k]
        _put(sums[piece, 0], moved)


@njit(inline="always", **FAST)
def _place(x, start, step, size):
    """Return the node of a table to the left of asinh x, kept inside, and how far behind it x is."""
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
def table_along(table, x, start, step):
    """Return the two rows of `table` (2, size) at each of `x` (k,), (2, k)."""
    found = np.empty((2, x.size))
    for i in range(x.size):
        node, share = _place(x[i], start, step, table.shape[1])
        w = _weights(share)
        found[0, i], found[1, i] = _read(table[0], node, w), _read(table[1], node, w)
    return found


@njit(**FAST)
def table_by_column(omega, variance, tables, start, step, g, dg):
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
def table_by_element(omega, variance, stack, low, spacing, start, step, g, dg):
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
