"""Products of patterns of any type with one column; imported at first use, as Numba is.

A single product only reads the patterns: as int8 they are a quarter of what float32 would be. Loops are written so that
the compiler vectorises them, conversion included.
"""

from __future__ import annotations

from solspace.numerics.compiled import njit

FAST = {"nogil": True, "error_model": "numpy", "fastmath": True}
STRIP = 2048
"""Sums kept in the first cache while eight rows run by."""


@njit(**FAST)
def forward(patterns, column, out, first, last, scale):
    """Fill first <= μ < last of `out` with scale Σ_i x_μi column_i."""
    for r in range(first, last):
        row = patterns[r]
        total = out.dtype.type(0)
        for i in range(row.size):
            total += row[i] * column[i]
        out[r] = scale * total


@njit(**FAST)
def backward(patterns, column, out, first, last, scale):
    """Fill first <= i < last of `out` with scale Σ_μ x_μi column_μ."""
    m = patterns.shape[0]
    for start in range(first, last, STRIP):
        end = min(start + STRIP, last)
        part = out[start:end]
        part[:] = 0
        for r in range(0, m - m % 8, 8):
            _add_eight(patterns[r : r + 8, start:end], column[r : r + 8], scale, part)
        for r in range(m - m % 8, m):
            row = patterns[r, start:end]
            factor = scale * column[r]
            for i in range(part.size):
                part[i] += factor * row[i]


@njit(**FAST)
def _add_eight(rows, factors, scale, part):
    a, b, c, d, e, f, g, h = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]
    fa, fb, fc, fd = scale * factors[0], scale * factors[1], scale * factors[2], scale * factors[3]
    fe, ff, fg, fh = scale * factors[4], scale * factors[5], scale * factors[6], scale * factors[7]
    for i in range(part.size):
        part[i] += fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i] + fe * e[i] + ff * f[i] + fg * g[i] + fh * h[i]
