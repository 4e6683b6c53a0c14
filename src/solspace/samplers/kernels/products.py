"""Products with the patterns: X m/√n and Xᵀ g/√n for many columns at once, and the same with squared entries.

Patterns are not copied. Where their type is the working one, BLAS does the work; where it is not (±1 patterns are
int8), and for squares, compiled loops convert entries in registers: vectors run along the patterns, and four columns share each
converted entry. The loops are emitted as vectors, since Numba's vectoriser takes seconds for the same code. Every sum runs in one
fixed order: a column's result does not depend on the columns beside it or on the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.types import Type
from numba.core.typing import BaseContext

from solspace.numerics.arrays import Array, Precision, aligned
from solspace.problem import Perceptron
from solspace.samplers.kernels.machine_vectors import (
    I32,
    I64,
    WIDE,
    Emitter,
    _fma,
    _function,
    _halves,
    _splat,
    intrinsic,
)
from solspace.system.compiled import FAST, njit
from solspace.system.threads import split

ROWS = 4 if WIDE else 1  # whose scalar products with four columns fit into the registers
STRIP = 2048  # sums of four columns that stay in the first cache while rows run by
BLOCK = 1 << 18  # bytes of patterns that are multiplied with all columns before the next are read


class Products:
    """The four products of AMP for columns (n, k) or (m, k) of type `dtype`; k is 1 or a multiple of 4."""

    def __init__(self, problem: Perceptron, dtype: Precision) -> None:
        self.patterns = problem.patterns
        self.scale = np.dtype(dtype).type(1 / np.sqrt(problem.n))
        self.binary = problem.has_binary_patterns

    def forward(self, operand: Array, out: Array, squares: bool = False) -> Array:
        """Return X operand/√n, or Σ_i x_μi² operand_i/n of `squares`, (m, k), in `out`."""
        return self._product(_forward, self.patterns, operand, out, squares)

    def backward(self, operand: Array, out: Array, squares: bool = False) -> Array:
        """Return Xᵀ operand/√n, or Σ_μ x_μi² operand_μ/n of `squares`, (n, k), in `out`."""
        return self._product(_backward, self.patterns.T, operand, out, squares)

    def _product(self, loops: Callable[..., Array], left: Array, operand: Array, out: Array, squares: bool) -> Array:
        if squares and self.binary:
            out[...] = operand.sum(axis=0, dtype=np.float64) / self.patterns.shape[1]
            return out
        if squares:
            return loops(self.patterns, operand, out, self.scale**2, True)
        if self.patterns.dtype == operand.dtype and operand.shape[1] != 4:
            return np.multiply(np.matmul(left, operand, out=out), self.scale, out=out)
        return loops(self.patterns, operand, out, self.scale, None)


def _forward(patterns: Array, operand: Array, out: Array, scale: np.floating, square: bool | None) -> Array:
    lines = operand.T
    if len(lines) > 1:
        lines = _lines(len(lines), len(operand), operand.dtype)
        lines[:, : len(operand)] = operand.T
    rows = max(4, BLOCK // patterns[0].nbytes // 4 * 4)
    split(lambda first, last: _fill_rows(patterns, lines, out, first, last, rows, scale, square), len(out), 256)
    return out


def _backward(patterns: Array, operand: Array, out: Array, scale: np.floating, square: bool | None) -> Array:
    rows, k = BLOCK // (STRIP * patterns.itemsize), operand.shape[1]

    def part(first: int, last: int) -> None:
        for start in range(first, last, STRIP):
            strip = out[start : min(start + STRIP, last)]
            strip[...] = 0
            sums = strip.T if k == 1 else _lines(k, len(strip), operand.dtype)
            _fill_strip(patterns, operand, sums, start, strip, rows, scale, square)

    split(part, len(out), 256)
    return out


def _lines(k: int, length: int, dtype: Precision) -> Array:
    """Return zeros (k, `length` or more), an odd number of cache lines apart: others would share places in the cache."""
    return aligned((k, 16 * (-(-length // 16) | 1)), dtype)


@njit(**FAST)
def _fill_rows(patterns, lines, out, first, last, block, scale, square):
    """Fill rows first <= μ < last of `out` (m, k) with scale Σ_i x_μi lines[:, i], x² unless `square` is None."""
    n, step, wide = patterns.shape[1], lines.shape[1], out.shape[1]
    if wide == 1:
        whole = first + (last - first) // 8 * 8
        for r in range(first, whole, 8):
            _dots(patterns, r * n, n, lines, 0, step, out, r, wide, scale, square, 8, 1)
        for r in range(whole, last):
            _dots(patterns, r * n, n, lines, 0, step, out, r, wide, scale, square, 1, 1)
        return
    for start in range(first, last, block):
        end = min(start + block, last)
        whole = start + (end - start) // ROWS * ROWS
        for c in range(0, wide, 4):
            for r in range(start, whole, ROWS):
                _dots(patterns, r * n, n, lines, c * step, step, out, r * wide + c, wide, scale, square, ROWS, 4)
            for r in range(whole, end):
                _dots(patterns, r * n, n, lines, c * step, step, out, r * wide + c, wide, scale, square, 1, 4)


@njit(**FAST)
def _fill_strip(patterns, columns, sums, start, out, block, scale, square):
    """Fill `out` (size, k) with scale Σ_μ x_μi columns_μ for i from `start` on, x² unless `square` is None.

    `sums` (k, size or more) is zeros, or one line that shares its memory with `out`.
    """
    m, n = patterns.shape
    step, (size, wide) = sums.shape[1], out.shape
    if wide == 1:
        whole = m // 8 * 8
        for r in range(0, whole, 8):
            _add_rows(patterns, r * n + start, n, columns, r, wide, sums, 0, step, size, scale, square, 8, 1)
        for r in range(whole, m):
            _add_rows(patterns, r * n + start, n, columns, r, wide, sums, 0, step, size, scale, square, 1, 1)
        return
    for first in range(0, m, block):
        end = min(first + block, m)
        whole = first + (end - first) // 4 * 4
        for c in range(0, wide, 4):
            for r in range(first, whole, 4):
                at, place = r * n + start, r * wide + c
                _add_rows(patterns, at, n, columns, place, wide, sums, c * step, step, size, scale, square, 4, 4)
            for r in range(whole, end):
                at, place = r * n + start, r * wide + c
                _add_rows(patterns, at, n, columns, place, wide, sums, c * step, step, size, scale, square, 1, 4)
    for i in range(size):
        for c in range(wide):
            out[i, c] = sums[c, i]


@intrinsic(prefer_literal=True)
def _dots(
    typing: BaseContext, patterns: types.Array, row: Type, n: Type, lines: types.Array, line: Type, step: Type,
    out: types.Array, place: Type, wide: Type, scale: Type, square: Type, rows: types.IntegerLiteral,
    count: types.IntegerLiteral,
) -> Emitter:  # fmt: skip
    """Write scale Σ_i x[row + r n + i] lines[line + c step + i] to out[place + r wide + c] for r < rows, c < count."""
    squared, vector = square is not types.none, _vector(lines)

    def emit(b: IRBuilder, x: Value, row: Value, n: Value, data: Value, line: Value, step: Value, target: Value,
             place: Value, wide: Value, scale: Value, *_: Value) -> None:  # fmt: skip
        starts = [_at(b, x, row, b.mul(n, I64(r))) for r in range(rows.literal_value)]
        heads = [_at(b, data, line, b.mul(step, I64(c))) for c in range(count.literal_value)]
        whole = b.sub(n, b.srem(n, I64(vector.count)))
        sums = [[cgutils.alloca_once_value(b, vector(None)) for _ in heads] for _ in starts]
        with cgutils.for_range_slice(b, I64(0), whole, I64(vector.count)) as (i, _turn):
            factors = [_load(b, _at(b, head, i), vector) for head in heads]
            for entry, totals in zip(_entries(b, starts, i, vector, squared), sums):
                for factor, total in zip(factors, totals):
                    b.store(_fma(b, entry, factor, b.load(total)), total)
        # what is left: the columns of a row side by side
        few = ir.VectorType(vector.element, count.literal_value)
        beside = [_gathered(b, [_folded(b, b.load(total)) for total in totals], few) for totals in sums]
        ends = [cgutils.alloca_once_value(b, totals) for totals in beside]
        with cgutils.for_range_slice(b, whole, n, I64(1)) as (i, _turn):
            factor = _gathered(b, [b.load(_at(b, head, i)) for head in heads], few)
            for entry, total in zip(_entries(b, starts, i, vector.element, squared), ends):
                b.store(_fma(b, _splat(b, entry, few), factor, b.load(total)), total)
        for r, total in enumerate(ends):
            place_of = b.bitcast(_at(b, target, place, b.mul(wide, I64(r))), few.as_pointer())
            b.store(b.fmul(_splat(b, scale, few), b.load(total)), place_of, align=1)

    i = types.intp
    return _function(types.void, (patterns, i, i, lines, i, i, out, i, i, lines.dtype, square, rows, count), emit)


@intrinsic(prefer_literal=True)
def _add_rows(
    typing: BaseContext, patterns: types.Array, row: Type, n: Type, factors: types.Array, place: Type, wide: Type,
    sums: types.Array, line: Type, step: Type, size: Type, scale: Type, square: Type, rows: types.IntegerLiteral,
    count: types.IntegerLiteral,
) -> Emitter:  # fmt: skip
    """Add scale Σ_r x[row + r n + i] factors[place + r wide + c] to sums[line + c step + i] for i < size, c < count."""
    squared, vector = square is not types.none, _vector(sums)

    def emit(b: IRBuilder, x: Value, row: Value, n: Value, data: Value, place: Value, wide: Value, target: Value,
             line: Value, step: Value, size: Value, scale: Value, *_: Value) -> None:  # fmt: skip
        starts = [_at(b, x, row, b.mul(n, I64(r))) for r in range(rows.literal_value)]
        heads = [_at(b, data, place, b.mul(wide, I64(r))) for r in range(rows.literal_value)]
        ends = [_at(b, target, line, b.mul(step, I64(c))) for c in range(count.literal_value)]
        own = [[b.fmul(scale, b.load(_at(b, head, I64(c)))) for head in heads] for c in range(len(ends))]
        whole = b.sub(size, b.srem(size, I64(vector.count)))
        for kind, first, last, stride in ((vector, I64(0), whole, vector.count), (vector.element, whole, size, 1)):
            spread = [[_splat(b, factor, kind) if kind is vector else factor for factor in each] for each in own]
            with cgutils.for_range_slice(b, first, last, I64(stride)) as (i, _turn):
                entries = _entries(b, starts, i, kind, squared)
                for end, each in zip(ends, spread):
                    total = _load(b, _at(b, end, i), kind)
                    for entry, factor in zip(entries, each):
                        total = _fma(b, entry, factor, total)
                    b.store(total, b.bitcast(_at(b, end, i), kind.as_pointer()), align=1)

    i = types.intp
    return _function(types.void, (patterns, i, i, factors, i, i, sums, i, i, i, sums.dtype, square, rows, count), emit)


def _vector(kind: types.Array) -> ir.VectorType:
    return ir.VectorType(
        ir.FloatType() if kind.dtype == types.float32 else ir.DoubleType(), 64 // np.dtype(str(kind.dtype)).itemsize
    )


def _at(b: IRBuilder, pointer: Value, *offsets: Value) -> Value:
    for offset in offsets:
        pointer = b.gep(pointer, [offset])
    return pointer


def _load(b: IRBuilder, pointer: Value, kind: ir.Type) -> Value:
    return b.load(b.bitcast(pointer, kind.as_pointer()), align=1)


def _entries(b: IRBuilder, rows: Sequence[Value], at: Value, kind: ir.Type, square: bool) -> list[Value]:
    """Return the patterns of `rows` from `at` on, or their squares, in the type `kind` of the columns."""
    found = []
    for row in rows:
        source, target = row.type.pointee, kind.element if isinstance(kind, ir.VectorType) else kind
        x = _load(b, _at(b, row, at), source if target is kind else ir.VectorType(source, kind.count))
        if isinstance(source, ir.IntType):
            x = b.sitofp(x, kind)
        elif source != target:
            x = b.fptrunc(x, kind) if isinstance(target, ir.FloatType) else b.fpext(x, kind)
        found.append(b.fmul(x, x) if square else x)
    return found


def _gathered(b: IRBuilder, scalars: Sequence[Value], kind: ir.VectorType) -> Value:
    vector = ir.Constant(kind, ir.Undefined)
    for lane, scalar in enumerate(scalars):
        vector = b.insert_element(vector, scalar, I32(lane))
    return vector


def _folded(b: IRBuilder, value: Value) -> Value:
    while value.type.count > 1:
        value = b.fadd(*_halves(b, value))
    return b.extract_element(value, I32(0))
