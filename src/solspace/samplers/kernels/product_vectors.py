"""Products of patterns of any type with one column, or four; imported at first use, as Numba is.

A single product only reads the patterns: as int8 they are a quarter of what float32 would be. What is left is their
conversion, so loops are written so that the compiler vectorises it, and it is told to use whole registers (of 64 bytes
it would by itself use half). Rows go through together, those of a product to share what they read of the column, those
of its transpose to share what they write; four columns share each converted entry and cost little more than one.
"""

from __future__ import annotations

from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core.base import BaseContext as Target
from numba.core.typing import BaseContext

from solspace.samplers.kernels.machine_vectors import Emitter, intrinsic
from solspace.system.compiled import njit

ANY_ORDER = {"nogil": True, "error_model": "numpy", "fastmath": True}
"""How sums are compiled whose order does not matter."""
STRIP = 2048
"""Sums kept in the first cache while rows run by."""


@intrinsic
def _wide(typing: BaseContext) -> Emitter:
    """Have the function that calls this compiled for registers of 64 bytes, where there are such."""

    def generate(context: Target, builder: IRBuilder, *_: Value) -> Value:
        # llvmlite knows no attributes but LLVM's own, by name
        set.add(builder.function.attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


@njit(**ANY_ORDER)
def forward(patterns, column, out, first, last, scale):
    """Fill first <= μ < last of `out` with scale Σ_i x_μi column_i."""
    _wide()
    whole = first + (last - first) // 4 * 4
    for r in range(first, whole, 4):
        a, b, c, d = patterns[r], patterns[r + 1], patterns[r + 2], patterns[r + 3]
        ta, tb, tc, td = out.dtype.type(0), out.dtype.type(0), out.dtype.type(0), out.dtype.type(0)
        for i in range(column.size):
            ta += a[i] * column[i]
            tb += b[i] * column[i]
            tc += c[i] * column[i]
            td += d[i] * column[i]
        out[r], out[r + 1], out[r + 2], out[r + 3] = scale * ta, scale * tb, scale * tc, scale * td
    for r in range(whole, last):
        row = patterns[r]
        total = out.dtype.type(0)
        for i in range(row.size):
            total += row[i] * column[i]
        out[r] = scale * total


@njit(**ANY_ORDER)
def backward(patterns, column, out, first, last, scale):
    """Fill first <= i < last of `out` with scale Σ_μ x_μi column_μ."""
    _wide()
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


@njit(**ANY_ORDER)
def _add_eight(rows, factors, scale, part):
    _wide()
    a, b, c, d, e, f, g, h = rows[0], rows[1], rows[2], rows[3], rows[4], rows[5], rows[6], rows[7]
    fa, fb, fc, fd = scale * factors[0], scale * factors[1], scale * factors[2], scale * factors[3]
    fe, ff, fg, fh = scale * factors[4], scale * factors[5], scale * factors[6], scale * factors[7]
    for i in range(part.size):
        part[i] += fa * a[i] + fb * b[i] + fc * c[i] + fd * d[i] + fe * e[i] + ff * f[i] + fg * g[i] + fh * h[i]


@njit(**ANY_ORDER)
def forward_four(patterns, columns, out, at, first, last, scale, square):
    """Fill rows first <= μ < last of out[:, at : at + 4] with scale Σ_i x_μi columns[:, i], or with x² in the place of
    x; `columns` is (4, n).
    """
    _wide()
    kind, zero = out.dtype.type, out.dtype.type(0)
    a, b, c, d = columns[0], columns[1], columns[2], columns[3]
    for r in range(first, last, 2):
        upper, lower = patterns[r], patterns[min(r + 1, last - 1)]
        ua, ub, uc, ud, la, lb, lc, ld = zero, zero, zero, zero, zero, zero, zero, zero
        for i in range(a.size):
            u, v = kind(upper[i]), kind(lower[i])
            if square:
                u, v = u * u, v * v
            ua, ub, uc, ud = ua + u * a[i], ub + u * b[i], uc + u * c[i], ud + u * d[i]
            la, lb, lc, ld = la + v * a[i], lb + v * b[i], lc + v * c[i], ld + v * d[i]
        _put(out[min(r + 1, last - 1)], at, scale, la, lb, lc, ld)
        _put(out[r], at, scale, ua, ub, uc, ud)


@njit(inline="always", **ANY_ORDER)
def _put(row, at, scale, a, b, c, d):
    row[at], row[at + 1], row[at + 2], row[at + 3] = scale * a, scale * b, scale * c, scale * d


@njit(**ANY_ORDER)
def backward_four(patterns, given, at, out, first, last, scale, square):
    """Fill first <= i < last of `out` (4, n) with scale Σ_μ x_μi given[μ, at : at + 4], or with x² in the place of x."""
    _wide()
    m = patterns.shape[0]
    for start in range(first, last, STRIP):
        end = min(start + STRIP, last)
        out[:, start:end] = 0
        parts = out[0, start:end], out[1, start:end], out[2, start:end], out[3, start:end]
        for r in range(0, m - m % 4, 4):
            _add_four(patterns[r : r + 4, start:end], given[r : r + 4, at : at + 4], scale, square, *parts)
        for r in range(m - m % 4, m):
            row = patterns[r, start:end]
            for part, factor in zip(parts, (given[r, at], given[r, at + 1], given[r, at + 2], given[r, at + 3])):
                for i in range(part.size):
                    x = out.dtype.type(row[i])
                    part[i] += scale * factor * (x * x if square else x)


@njit(**ANY_ORDER)
def _add_four(rows, factors, scale, square, a, b, c, d):
    _wide()
    kind = a.dtype.type
    first, second, third, fourth = rows[0], rows[1], rows[2], rows[3]
    fa, fb, fc, fd = scale * factors[0, 0], scale * factors[0, 1], scale * factors[0, 2], scale * factors[0, 3]
    sa, sb, sc, sd = scale * factors[1, 0], scale * factors[1, 1], scale * factors[1, 2], scale * factors[1, 3]
    ta, tb, tc, td = scale * factors[2, 0], scale * factors[2, 1], scale * factors[2, 2], scale * factors[2, 3]
    la, lb, lc, ld = scale * factors[3, 0], scale * factors[3, 1], scale * factors[3, 2], scale * factors[3, 3]
    for i in range(a.size):
        x, y, z, w = kind(first[i]), kind(second[i]), kind(third[i]), kind(fourth[i])
        if square:
            x, y, z, w = x * x, y * y, z * z, w * w
        a[i] += fa * x + sa * y + ta * z + la * w
        b[i] += fb * x + sb * y + tb * z + lb * w
        c[i] += fc * x + sc * y + tc * z + lc * w
        d[i] += fd * x + sd * y + td * z + ld * w
