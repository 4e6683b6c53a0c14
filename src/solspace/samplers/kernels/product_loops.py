"""Products of patterns of any type with columns, converted in the caches; imported at first use, as Numba is.

*Tiles*, for dozens of columns: `rows` × (`vectors` · `lanes`) sums stay in registers while the depth runs by, patterns are
converted a few hundred at a time into a buffer that stays in the first cache, and columns are packed once for all rows.

*Few columns*, one or four: the time goes into reading and converting the patterns, so that registers run along them, and four
columns share each converted entry. Loops are emitted as vectors: Numba's vectoriser takes seconds for the same code.

Every sum runs in one fixed order: a column's result does not depend on the columns beside it or on the number of threads.
Arrays are C-contiguous; widths of columns are those of `products.width`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

import numba
import numpy as np
from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext as Target
from numba.core.types import Type
from numba.core.typing import BaseContext
from numba.core.typing.templates import Signature
from numpy.typing import DTypeLike

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.machine_vectors import FEATURES, I32, I64, Emitter, intrinsic
from solspace.system.compiled import FAST, njit

REGISTER = 64 if "+avx512f" in FEATURES else 32 if "+avx2" in FEATURES else 16
"""Bytes of a vector register."""
VECTORS = 4 if REGISTER == 64 else 2
"""Most vectors beside each other in a tile; with the rows below, what fits into 32 or 16 registers."""
ROWS = (12, 12, 8, 6) if REGISTER == 64 else (10, 6, 1, 1)
"""Rows of a tile of one vector, of two, three and four."""
DEPTH, ACROSS = 512, 24
"""Depth of a block of the product X m, and rows of the patterns converted at a time."""
DEPTH_BACK, ACROSS_BACK = 96, 384
"""The same for Xᵀ g, with columns in the place of rows: wide strips, because each row of one lies on its own page."""
STRIP = 2048
"""Sums of few columns that are kept in the first cache while rows run by."""


class Product(NamedTuple):
    """A product of patterns with columns, and where it goes."""

    patterns: Array
    """(m, n) of any real type."""
    columns: Array
    """(n, w) or (m, w)."""
    out: Array
    """(m, w) or (n, w)."""
    scale: np.floating
    square: bool
    """Whether the patterns' squares are meant."""
    lane: int
    """Columns in a register."""


class Scratch(NamedTuple):
    """Memory of one thread, in the type of the columns."""

    patterns: Array
    """(ACROSS, DEPTH), or (DEPTH_BACK, ACROSS_BACK)."""
    columns: Array
    """(DEPTH · VECTORS · lane,)."""


class Block(NamedTuple):
    """Converted patterns: the one in row r at depth p is at r · row + p · deep of `values`."""

    values: Array
    row: int
    deep: int


def lanes(dtype: DTypeLike) -> int:
    """Return the number of columns in a register: widths of column arrays are multiples of it."""
    return REGISTER // np.dtype(dtype).itemsize


def _data(context: Target, builder: IRBuilder, kind: types.Array, value: Value) -> Value:
    return context.make_array(kind)(context, builder, value).data


def _at(builder: IRBuilder, pointer: Value, *offsets: Value | int) -> Value:
    for offset in offsets:
        pointer = builder.gep(pointer, [I64(offset) if isinstance(offset, int) else offset])
    return pointer


def _load(builder: IRBuilder, pointer: Value, kind: ir.Type, align: int) -> Value:
    return builder.load(builder.bitcast(pointer, kind.as_pointer()), align=align)


def _store(builder: IRBuilder, value: Value, pointer: Value, align: int) -> None:
    builder.store(value, builder.bitcast(pointer, value.type.as_pointer()), align=align)


def _splat(builder: IRBuilder, value: Value, kind: ir.Type) -> Value:
    """Return `value` in every lane of `kind`, itself where that is a scalar."""
    if not isinstance(kind, ir.VectorType):
        return value
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def _fma(builder: IRBuilder, x: Value, y: Value, z: Value) -> Value:
    kind, vector = x.type, isinstance(x.type, ir.VectorType)
    scalar = kind.element if vector else kind
    name = f"llvm.fma.{f'v{kind.count}' if vector else ''}f{32 if isinstance(scalar, ir.FloatType) else 64}"
    function = cgutils.get_or_insert_function(builder.module, ir.FunctionType(kind, [kind] * 3), name)
    return builder.call(function, [x, y, z])


def _converted(builder: IRBuilder, value: Value, kind: ir.Type) -> Value:
    """Return entries of patterns in the type of the columns, scalars or vectors."""
    given, wanted = (one.element if isinstance(one, ir.VectorType) else one for one in (value.type, kind))
    if isinstance(given, ir.IntType):
        return builder.sitofp(value, kind)
    if given == wanted:
        return value
    return builder.fptrunc(value, kind) if isinstance(wanted, ir.FloatType) else builder.fpext(value, kind)


def _loop(
    builder: IRBuilder, start: Value, stop: Value, step: int, carried: Sequence[Value],
    body: Callable[[Value, list[Value]], list[Value]],
) -> tuple[Value, list[Value]]:  # fmt: skip
    """Emit a loop from `start` while below `stop`; return the index and what it carries from turn to turn, at its end."""
    before, head = builder.block, builder.append_basic_block("head")
    inside, after = builder.append_basic_block("inside"), builder.append_basic_block("after")
    builder.branch(head)
    builder.position_at_end(head)
    index, now = builder.phi(I64), [builder.phi(value.type) for value in carried]
    index.add_incoming(start, before)
    for phi, value in zip(now, carried):
        phi.add_incoming(value, before)
    builder.cbranch(builder.icmp_signed("<", index, stop), inside, after)
    builder.position_at_end(inside)
    result, following = body(index, now), builder.add(index, I64(step))
    index.add_incoming(following, builder.block)
    for phi, value in zip(now, result):
        phi.add_incoming(value, builder.block)
    builder.branch(head)
    builder.position_at_end(after)
    return index, now


@intrinsic(prefer_literal=True)
def tile(
    typing: BaseContext,
    a: types.Array,
    a_steps: Type,
    b: types.Array,
    c: types.Array,
    c_steps: Type,
    depth: Type,
    rows: types.IntegerLiteral,
    vectors: types.IntegerLiteral,
) -> Emitter:
    """Add Σ_p a[at + row r + deep p] b[p, j] to c[start + wide r + j] for r < rows, j < `vectors` registers of lanes.

    `a_steps` is (at, row, deep) and `c_steps` (start, wide); `rows` and `vectors` are constants of the code. Nothing is
    checked.
    """
    signature = types.void(
        a, types.UniTuple(types.intp, 3), b, c, types.UniTuple(types.intp, 2), types.intp, rows, vectors
    )
    lane, size = lanes(str(b.dtype)), np.dtype(str(b.dtype)).itemsize
    grid = [(r, v) for r in range(rows.literal_value) for v in range(vectors.literal_value)]
    wide = vectors.literal_value * lane

    def generate(context: Target, builder: IRBuilder, _: Signature, values: Sequence[Value]) -> Value:
        vector = ir.VectorType(context.get_value_type(b.dtype), lane)
        packed = _data(context, builder, b, values[2])
        at, row, deep = cgutils.unpack_tuple(builder, values[1], 3)
        start, width = cgutils.unpack_tuple(builder, values[4], 2)
        given = _at(builder, _data(context, builder, a, values[0]), at)
        starts = [_at(builder, given, builder.mul(row, I64(r))) for r in range(rows.literal_value)]
        out = _at(builder, _data(context, builder, c, values[3]), start)
        ends = [_at(builder, out, builder.mul(width, I64(r)), v * lane) for r, v in grid]

        def step(p: Value, sums: list[Value]) -> list[Value]:
            line, along = _at(builder, packed, builder.mul(p, I64(wide))), builder.mul(p, deep)
            columns = [_load(builder, _at(builder, line, v * lane), vector, size) for v in range(wide // lane)]
            factors = [_splat(builder, builder.load(_at(builder, place, along)), vector) for place in starts]
            return [_fma(builder, factors[r], columns[v], sums[k]) for k, (r, v) in enumerate(grid)]

        before = [_load(builder, end, vector, size) for end in ends]
        for total, end in zip(_loop(builder, I64(0), values[5], 1, before, step)[1], ends):
            _store(builder, total, end, size)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def _convert_lanes(
    typing: BaseContext, source: types.Array, source_at: Type, target: types.Array, target_at: Type
) -> Emitter:
    """Write a register's worth of `source`, in the type of `target`; nothing is checked."""

    def generate(context: Target, builder: IRBuilder, _: Signature, values: Sequence[Value]) -> Value:
        given, wanted = (context.get_value_type(kind.dtype) for kind in (source, target))
        count, size = lanes(str(target.dtype)), np.dtype(str(target.dtype)).itemsize
        start = _at(builder, _data(context, builder, source, values[0]), values[1])
        value = _converted(builder, _load(builder, start, ir.VectorType(given, count), 1), ir.VectorType(wanted, count))
        _store(builder, value, _at(builder, _data(context, builder, target, values[2]), values[3]), size)
        return context.get_dummy_value()

    return types.void(source, types.intp, target, types.intp), generate


@njit(**FAST)
def _convert(patterns, first, last, start, end, square, lane, target):
    """Write patterns[first:last, start:end], or its square, to `target` in its own type."""
    whole = (end - start) // lane * lane
    for r in range(last - first):
        source, result = patterns[first + r][start:end], target[r]
        for p in range(0, whole, lane):
            _convert_lanes(source, p, result, p)
        for p in range(whole, source.size):
            result[p] = source[p]
        if square:
            for p in range(source.size):
                result[p] *= result[p]


@njit(**FAST)
def _pack(columns, start, depth, column, width, scale, packed):
    for p in range(depth):
        source, result = columns[start + p][column : column + width], packed[p * width : (p + 1) * width]
        for k in range(width):
            result[k] = scale * source[k]


def _in_tiles(rows: int, vectors: int) -> Callable[..., None]:
    """Return the function that takes so many `rows` and `vectors` to a tile, and what rows are left one by one."""

    @numba.njit(inline="always", **FAST)  # type: ignore[call-overload]
    def add(block, columns, out, first, last, column, depth):
        wide, r, count = out.shape[1], 0, last - first
        while r + rows <= count:
            at, to = (r * block.row, block.row, block.deep), ((first + r) * wide + column, wide)
            tile(block.values, at, columns, out, to, depth, rows, vectors)
            r += rows
        while r < count:
            at, to = (r * block.row, block.row, block.deep), ((first + r) * wide + column, wide)
            tile(block.values, at, columns, out, to, depth, 1, vectors)
            r += 1

    return add


_in_tiles_1, _in_tiles_2, _in_tiles_3, _in_tiles_4 = map(_in_tiles, ROWS, (1, 2, 3, 4))


@njit(inline="always", **FAST)
def _rows(block, columns, out, first, last, column, depth, vectors):
    """Add the products of rows `first` to `last` with the packed `columns` to `out`, tile by tile."""
    if vectors == 4:
        _in_tiles_4(block, columns, out, first, last, column, depth)
    elif vectors == 3:
        _in_tiles_3(block, columns, out, first, last, column, depth)
    elif vectors == 2:
        _in_tiles_2(block, columns, out, first, last, column, depth)
    else:
        _in_tiles_1(block, columns, out, first, last, column, depth)


@njit(**FAST)
def forward(task, first, last, scratch):
    """Fill rows first <= μ < last of the task's `out` with scale Σ_i x_μi columns_i, or with x² in the place of x."""
    patterns, columns, out, scale, square, lane = task
    a, b = scratch
    n = patterns.shape[1]
    out[first:last] = 0
    for column in range(0, columns.shape[1], VECTORS * lane):
        width = min(VECTORS * lane, columns.shape[1] - column)
        for start in range(0, n, DEPTH):
            depth = min(DEPTH, n - start)
            _pack(columns, start, depth, column, width, scale, b)
            for r in range(first, last, ACROSS):
                end = min(r + ACROSS, last)
                _convert(patterns, r, end, start, start + depth, square, lane, a)
                _rows(Block(a, DEPTH, 1), b, out, r, end, column, depth, width // lane)


@njit(**FAST)
def backward(task, first, last, scratch):
    """Fill rows first <= i < last of the task's `out` with scale Σ_μ x_μi columns_μ, or with x²."""
    patterns, columns, out, scale, square, lane = task
    a, b = scratch
    m = patterns.shape[0]
    out[first:last] = 0
    for column in range(0, columns.shape[1], VECTORS * lane):
        width = min(VECTORS * lane, columns.shape[1] - column)
        for start in range(0, m, DEPTH_BACK):
            depth = min(DEPTH_BACK, m - start)
            _pack(columns, start, depth, column, width, scale, b)
            for i in range(first, last, ACROSS_BACK):
                end = min(i + ACROSS_BACK, last)
                _convert(patterns, start, start + depth, i, end, square, lane, a)
                _rows(Block(a, 1, ACROSS_BACK), b, out, i, end, column, depth, width // lane)


def _entries(builder: IRBuilder, rows: Sequence[Value], at: Value, kind: ir.Type, square: bool) -> list[Value]:
    """Return the patterns of `rows` from `at` on, or their squares, in the type `kind` of the columns."""
    found = []
    for row in rows:
        given = row.type.pointee
        given = ir.VectorType(given, kind.count) if isinstance(kind, ir.VectorType) else given
        x = _converted(builder, _load(builder, _at(builder, row, at), given, 1), kind)
        found.append(builder.fmul(x, x) if square else x)
    return found


def _total(builder: IRBuilder, vector: Value) -> Value:
    """Return the sum of all lanes, halves added to halves."""
    while vector.type.count > 1:
        half = vector.type.count // 2
        parts = (ir.Constant(ir.VectorType(I32, half), list(range(start, start + half))) for start in (0, half))
        vector = builder.fadd(*(builder.shuffle_vector(vector, vector, part) for part in parts))
    return builder.extract_element(vector, I32(0))


def _row_starts(builder: IRBuilder, patterns: Value, row: Value, last: Value, n: Value, rows: int) -> list[Value]:
    """Return where some rows begin, from `row` on; rows beyond the end are the last one again."""
    starts = []
    for r in range(rows):
        here, end = builder.add(row, I64(r)), builder.sub(last, I64(1))
        here = builder.select(builder.icmp_signed("<", here, last), here, end)
        starts.append(_at(builder, patterns, builder.mul(here, n)))
    return starts


@intrinsic(prefer_literal=True)
def _dots(
    typing: BaseContext,
    patterns: types.Array,
    rows_at: Type,
    columns: types.Array,
    out: types.Array,
    steps: Type,
    scale: Type,
    square: Type,
    rows: types.IntegerLiteral,
    count: types.IntegerLiteral,
) -> Emitter:
    """Write scale Σ_i x_ri columns[c, i] to out[r, at + c] for `rows` rows from `row` on, and `count` columns.

    `rows_at` is (row, end of all rows) and `steps` (n, width of out, at); squares of x are taken unless `square` is None.
    """
    high, wide = rows.literal_value, count.literal_value
    grid = list(product(range(high), range(wide)))
    squared = not isinstance(square, types.NoneType)
    pair, triple = types.UniTuple(types.intp, 2), types.UniTuple(types.intp, 3)
    signature = types.void(patterns, pair, columns, out, triple, columns.dtype, square, rows, count)

    def generate(context: Target, builder: IRBuilder, _: Signature, values: Sequence[Value]) -> Value:
        x, columns_of, target = (
            _data(context, builder, kind, values[k]) for kind, k in ((patterns, 0), (columns, 2), (out, 3))
        )
        row, last = cgutils.unpack_tuple(builder, values[1], 2)
        n, width, at = cgutils.unpack_tuple(builder, values[4], 3)
        scalar, size = context.get_value_type(columns.dtype), np.dtype(str(columns.dtype)).itemsize
        vector = ir.VectorType(scalar, 64 // size)
        starts = _row_starts(builder, x, row, last, n, high)
        heads = [_at(builder, columns_of, builder.mul(n, I64(c))) for c in range(wide)]

        def step(kind: ir.Type) -> Callable[[Value, list[Value]], list[Value]]:
            def add(i: Value, sums: list[Value]) -> list[Value]:
                entries = _entries(builder, starts, i, kind, squared)
                factors = [_load(builder, _at(builder, head, i), kind, size) for head in heads]
                return [_fma(builder, entries[r], factors[c], sums[k]) for k, (r, c) in enumerate(grid)]

            return add

        whole = builder.sub(n, builder.srem(n, I64(vector.count)))
        nothing = [_splat(builder, scalar(0.0), vector)] * len(grid)
        i, sums = _loop(builder, I64(0), whole, vector.count, nothing, step(vector))
        _, totals = _loop(builder, i, n, 1, [_total(builder, each) for each in sums], step(scalar))
        for (r, c), total in zip(grid, totals):
            here = builder.add(row, I64(r))
            with builder.if_then(builder.icmp_signed("<", here, last)):
                place = _at(builder, target, builder.mul(here, width), at, c)
                builder.store(builder.fmul(values[5], total), place)
        return context.get_dummy_value()

    return signature, generate


@intrinsic(prefer_literal=True)
def _add_rows(
    typing: BaseContext,
    patterns: types.Array,
    row: Type,
    columns: types.Array,
    out: types.Array,
    steps: Type,
    span: Type,
    scale: Type,
    square: Type,
    rows: types.IntegerLiteral,
    count: types.IntegerLiteral,
) -> Emitter:
    """Add scale Σ_r x_ri columns[r, at + c] to out[c, i] over `rows` rows from `row` on, for `count` columns and i in `span`.

    `steps` is (m, n, width of columns, at); squares of x are taken unless `square` is None.
    """
    high, wide = rows.literal_value, count.literal_value
    squared = not isinstance(square, types.NoneType)
    pair, four = types.UniTuple(types.intp, 2), types.UniTuple(types.intp, 4)
    signature = types.void(patterns, types.intp, columns, out, four, pair, out.dtype, square, rows, count)

    def generate(context: Target, builder: IRBuilder, _: Signature, values: Sequence[Value]) -> Value:
        x, given, target = (
            _data(context, builder, kind, values[k]) for kind, k in ((patterns, 0), (columns, 2), (out, 3))
        )
        m, n, width, at = cgutils.unpack_tuple(builder, values[4], 4)
        first, last = cgutils.unpack_tuple(builder, values[5], 2)
        scalar, size = context.get_value_type(out.dtype), np.dtype(str(out.dtype)).itemsize
        vector = ir.VectorType(scalar, 64 // size)
        starts = _row_starts(builder, x, values[1], m, n, high)
        sums = [_at(builder, target, builder.mul(n, I64(c))) for c in range(wide)]
        factors = {}
        for r, c in product(range(high), range(wide)):
            here = builder.add(values[1], I64(r))
            inside = builder.icmp_signed("<", here, m)
            place = _at(builder, given, builder.mul(builder.select(inside, here, values[1]), width), at, c)
            factors[r, c] = builder.select(inside, builder.fmul(values[6], builder.load(place)), scalar(0.0))

        def step(kind: ir.Type) -> Callable[[Value, list[Value]], list[Value]]:
            own = {key: _splat(builder, factor, kind) for key, factor in factors.items()}

            def add(i: Value, _: list[Value]) -> list[Value]:
                entries = _entries(builder, starts, i, kind, squared)
                for c in range(wide):
                    place = _at(builder, sums[c], i)
                    total = _load(builder, place, kind, size)
                    for r in range(high):
                        total = _fma(builder, entries[r], own[r, c], total)
                    _store(builder, total, place, size)
                return []

            return add

        span = builder.sub(last, first)
        whole = builder.sub(last, builder.srem(span, I64(vector.count)))
        end = _loop(builder, first, whole, vector.count, [], step(vector))[0]
        _loop(builder, end, last, 1, [], step(scalar))
        return context.get_dummy_value()

    return signature, generate


@njit(**FAST)
def forward_few(patterns, columns, out, at, first, last, scale, square):
    """Fill rows first <= μ < last of out[:, at : at + k] with scale Σ_i x_μi columns[:, i], x² unless `square` is None.

    `columns` is (k, n) with k of one or four.
    """
    steps = patterns.shape[1], out.shape[1], at
    if len(columns) == 1:
        for row in range(first, last, 8):
            _dots(patterns, (row, last), columns, out, steps, scale, square, 8, 1)
    else:
        for row in range(first, last, 4):
            _dots(patterns, (row, last), columns, out, steps, scale, square, 4, 4)


@njit(**FAST)
def backward_few(patterns, columns, at, out, first, last, scale, square):
    """Add scale Σ_μ x_μi columns[μ, at : at + k] to first <= i < last of `out` (k, n), k of one or four; x² unless
    `square` is None.
    """
    m, n = patterns.shape
    steps = m, n, columns.shape[1], at
    for start in range(first, last, STRIP):
        span = start, min(start + STRIP, last)
        if len(out) == 1:
            for row in range(0, m, 8):
                _add_rows(patterns, row, columns, out, steps, span, scale, square, 8, 1)
        else:
            for row in range(0, m, 4):
                _add_rows(patterns, row, columns, out, steps, span, scale, square, 4, 4)
