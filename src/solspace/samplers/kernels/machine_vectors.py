"""Vectors of the machine as values inside compiled functions.

Numba leaves vectors to LLVM's loop vectoriser, which does not find what the flip kernels live on: sums selected by
packed bits, and tables held in registers. Here four vector types become Numba values, and each function below is one
or two instructions on AVX-512. What is emitted is LLVM's own vector language, so every other processor runs it too, in
more instructions and with the same bits: sums are of integers, and floating point is written out operation by
operation.

`look_up` reads a table of 16-bit entries that is kept in registers: one AVX-512 instruction permutes a pair of registers by
an index vector, and a window of several such pages takes one instruction each and a choice between them. With byte
permutations (VBMI) low and high bytes are looked up apart, 64 indices at a time, which halves the work.

`words` are 32 × int16, `ints` 16 × int32, `longs` 16 × int64, `floats` 16 × float32. A selection of lanes is an unsigned
integer, lane 0 in its lowest bit. Indices count elements of a contiguous array; they must not be negative, and nothing checks
them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core import cgutils
from numba.core.base import BaseContext as Target
from numba.core.registry import cpu_target
from numba.core.types import Type
from numba.core.typing import BaseContext
from numba.core.typing.templates import Signature
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model

from solspace.system.compiled import require_jit

require_jit()
intrinsic: Any = _intrinsic  # Numba's own annotations do not allow how it is called
Emitter = tuple[Signature, Callable[..., Value]]
"""What an intrinsic returns: its signature, and what emits its code."""

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
WORDS, INTS, LONGS = ir.VectorType(I16, 32), ir.VectorType(I32, 16), ir.VectorType(I64, 16)
FLOATS = ir.VectorType(ir.FloatType(), 16)

FEATURES = frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))
"""What the processor that Numba compiles for can do."""
WIDE = {"+avx512bw", "+avx512vl"} <= FEATURES
"""True where a register holds 32 words and a table of 64 words can be permuted."""
OCTETS = ir.VectorType(I8, 64)
BYTES = WIDE and "+avx512vbmi" in FEATURES
"""True where a table of 128 bytes can be permuted."""
PAGES = 4
"""Most pages of 128 entries that `look_up` searches."""


class Vector(types.Type):
    """The Numba type of a machine vector."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"solspace.{name}")


words, ints, longs, floats = Vector("words"), Vector("ints"), Vector("longs"), Vector("floats")
_LLVM: dict[Type, ir.Type] = {words: WORDS, ints: INTS, longs: LONGS, floats: FLOATS}


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: models.DataModel, kind: Type) -> None:
        super().__init__(manager, kind, _LLVM[kind])


def _function(result: Type, arguments: tuple[Type, ...], emit: Callable[..., Value]) -> Emitter:
    """Return what an intrinsic returns: its signature, and the emitter `emit(builder, *values)`."""

    def generate(context: Target, builder: IRBuilder, signature: Signature, values: Sequence[Value]) -> Value:
        given = [
            context.make_array(kind)(context, builder, value=value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, values)
        ]
        answer = emit(builder, *given)
        return context.get_dummy_value() if result is types.void else answer

    return result(*arguments), generate


def _same(kind: ir.Type, value: float) -> Value:
    return ir.Constant(kind, [value] * kind.count)


def _splat(builder: IRBuilder, value: Value, kind: ir.Type) -> Value:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def _call(builder: IRBuilder, name: str, result: ir.Type, *values: Value) -> Value:
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _at(builder: IRBuilder, data: Value, index: Value, kind: ir.Type) -> Value:
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _lanes(builder: IRBuilder, mask: Value, count: int) -> Value:
    return builder.bitcast(mask, ir.VectorType(I1, count))


def _pairs(builder: IRBuilder, vector: Value) -> Value:
    """Sums of neighbouring words, as ints."""
    if WIDE:
        return _call(builder, "llvm.x86.avx512.pmaddw.d.512", INTS, vector, _same(WORDS, 1))
    if "+avx2" in FEATURES:
        one = _same(ir.VectorType(I16, 16), 1)
        halves = [
            builder.shuffle_vector(vector, vector, ir.Constant(INTS, list(range(first, first + 16))))
            for first in (0, 16)
        ]
        low, high = (_call(builder, "llvm.x86.avx2.pmadd.wd", ir.VectorType(I32, 8), half, one) for half in halves)
        return builder.shuffle_vector(low, high, ir.Constant(INTS, list(range(16))))
    both, half = builder.bitcast(vector, INTS), _same(INTS, 16)
    return builder.add(builder.ashr(builder.shl(both, half), half), builder.ashr(both, half))


def _vector_of(array: types.Array) -> Vector:
    return {types.int16: words, types.uint16: words, types.int32: ints, types.uint32: ints}[array.dtype]


@intrinsic
def load(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Return the vector at array[index], of the type the array's elements make; a multiple of 64 bytes."""
    kind = _vector_of(array)
    return _function(kind, (array, types.intp), lambda b, data, i: b.load(_at(b, data, i, _LLVM[kind]), align=64))


@intrinsic
def store(typing: BaseContext, array: types.Array, index: Type, vector: Vector) -> Emitter:
    """Write a vector to array[index]; a multiple of 64 bytes."""

    def emit(b: IRBuilder, data: Value, i: Value, value: Value) -> None:
        b.store(value, _at(b, data, i, _LLVM[vector]), align=64)

    return _function(types.void, (array, types.intp, vector), emit)


@intrinsic
def get(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Return array[index] without Python's rule for negative indices, which costs more than the load."""
    return _function(array.dtype, (array, types.intp), lambda b, data, i: b.load(b.gep(data, [i])))


@intrinsic
def put(typing: BaseContext, array: types.Array, index: Type, value: Type) -> Emitter:
    """Write array[index] = value, a value of the array's own type."""

    def emit(b: IRBuilder, data: Value, i: Value, given: Value) -> None:
        b.store(given, b.gep(data, [i]))

    return _function(types.void, (array, types.intp, array.dtype), emit)


@intrinsic
def prefetch(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Ask for the cache line of array[index], to be read soon."""

    def emit(b: IRBuilder, data: Value, i: Value) -> None:
        address = _at(b, data, i, I8)
        suffix = "p0" if str(address.type) == "ptr" else "p0i8"
        flags = (ir.Constant(I32, value) for value in (0, 3, 1))  # for reading, into the nearest cache, data
        _call(b, f"llvm.prefetch.{suffix}", ir.VoidType(), address, *flags)

    return _function(types.void, (array, types.intp), emit)


@intrinsic
def zeros(typing: BaseContext) -> Emitter:
    """Return ints of zero."""
    return _function(ints, (), lambda b: _same(INTS, 0))


@intrinsic
def add(typing: BaseContext, left: Type, right: Type) -> Emitter:
    """Return the sum of two vectors of integers of the same type."""
    return _function(left, (left, right), lambda b, x, y: b.add(x, y))


@intrinsic
def total(typing: BaseContext, vector: Type) -> Emitter:
    """Return the sum of all ints; it must fit 32 bits."""
    return _function(types.int64, (ints,), lambda b, x: b.sext(_call(b, "llvm.vector.reduce.add.v16i32", I32, x), I64))


@intrinsic
def add_words(typing: BaseContext, sums: Type, vector: Type) -> Emitter:
    """Return `sums` plus the pairwise sums of words."""
    return _function(ints, (ints, words), lambda b, x, v: b.add(x, _pairs(b, v)))


@intrinsic
def add_selected(typing: BaseContext, sums: Type, mask: Type, vector: Type) -> Emitter:
    """Return `sums` plus the pairwise sums of the words that the 32-bit `mask` selects."""

    def emit(b: IRBuilder, x: Value, chosen: Value, v: Value) -> Value:
        return b.add(x, _pairs(b, b.select(_lanes(b, chosen, 32), v, _same(WORDS, 0))))

    return _function(ints, (ints, types.uint32, words), emit)


@intrinsic
def keep(typing: BaseContext, mask: Type, vector: Type) -> Emitter:
    """Return the words with those that `mask` does not select set to zero."""
    return _function(
        words, (types.uint32, words), lambda b, chosen, v: b.select(_lanes(b, chosen, 32), v, _same(WORDS, 0))
    )


@intrinsic
def shift(typing: BaseContext, vector: Type, mask: Type, by: Type) -> Emitter:
    """Return the words less `by` where `mask` selects, plus `by` elsewhere."""

    def emit(b: IRBuilder, v: Value, chosen: Value, step: Value) -> Value:
        up = _splat(b, b.trunc(step, I16), WORDS)
        down = b.sub(_same(WORDS, 0), up)
        return b.add(v, b.select(_lanes(b, chosen, 32), down, up))

    return _function(words, (words, types.uint32, types.int64), emit)


@intrinsic
def add_where(typing: BaseContext, vector: Type, mask: Type, by: Type) -> Emitter:
    """Return the words plus `by` where `mask` selects."""

    def emit(b: IRBuilder, v: Value, chosen: Value, step: Value) -> Value:
        return b.add(v, b.select(_lanes(b, chosen, 32), _splat(b, b.trunc(step, I16), WORDS), _same(WORDS, 0)))

    return _function(words, (words, types.uint32, types.int64), emit)


@intrinsic
def beyond(typing: BaseContext, vector: Type, first: Type, width: Type) -> Emitter:
    """Return the selection of words outside first .. first + width - 1, all counted modulo 2^16."""

    def emit(b: IRBuilder, v: Value, start: Value, size: Value) -> Value:
        place = b.sub(v, _splat(b, b.trunc(start, I16), WORDS))
        return b.bitcast(b.icmp_unsigned(">=", place, _splat(b, b.trunc(size, I16), WORDS)), I32)

    return _function(types.uint32, (words, types.int64, types.int64), emit)


@intrinsic
def bits_of(typing: BaseContext, number: Type) -> Emitter:
    """Return the 64 bits of a float64."""
    return _function(types.uint64, (types.float64,), lambda b, x: b.bitcast(x, I64))


@intrinsic
def float_of(typing: BaseContext, bits: Type) -> Emitter:
    """Return the float64 with these 64 bits."""
    return _function(types.float64, (types.uint64,), lambda b, x: b.bitcast(x, ir.DoubleType()))


@intrinsic
def no_longs(typing: BaseContext) -> Emitter:
    """Return sixteen int64 zeros."""
    return _function(longs, (), lambda b: _same(LONGS, 0))


@intrinsic
def widen(typing: BaseContext, sums: Type, vector: Type) -> Emitter:
    """Return `sums` of int64 plus the ints."""
    return _function(longs, (longs, ints), lambda b, x, v: b.add(x, b.sext(v, LONGS)))


@intrinsic
def total_longs(typing: BaseContext, vector: Type) -> Emitter:
    """Return the sum of all int64 lanes."""
    return _function(types.int64, (longs,), lambda b, x: _call(b, "llvm.vector.reduce.add.v16i64", I64, x))


@intrinsic
def subtract(typing: BaseContext, left: Type, right: Type) -> Emitter:
    """Return the difference of two vectors of integers of the same type."""
    return _function(left, (left, right), lambda b, x, y: b.sub(x, y))


@intrinsic
def ints_beyond(typing: BaseContext, vector: Type, first: Type, last: Type) -> Emitter:
    """Return whether some of the ints lie outside first .. last."""

    def emit(b: IRBuilder, v: Value, low: Value, high: Value) -> Value:
        below = b.icmp_signed("<", v, _splat(b, b.trunc(low, I32), INTS))
        above = b.icmp_signed(">", v, _splat(b, b.trunc(high, I32), INTS))
        return b.icmp_unsigned("!=", b.bitcast(b.or_(below, above), I16), ir.Constant(I16, 0))

    return _function(types.boolean, (ints, types.int64, types.int64), emit)


@intrinsic
def either_beyond(typing: BaseContext, left: Type, right: Type, first: Type, width: Type) -> Emitter:
    """Return whether any word of two vectors lies outside first .. first + width - 1, all counted modulo 2^16."""

    def emit(b: IRBuilder, v: Value, w: Value, start: Value, size: Value) -> Value:
        origin = _splat(b, b.trunc(start, I16), WORDS)
        x, y = b.sub(v, origin), b.sub(w, origin)
        larger = b.select(b.icmp_unsigned(">", x, y), x, y)
        out = b.icmp_unsigned(">=", larger, _splat(b, b.trunc(size, I16), WORDS))
        return b.icmp_unsigned("!=", b.bitcast(out, I32), ir.Constant(I32, 0))

    return _function(types.boolean, (words, words, types.int64, types.int64), emit)


@intrinsic(prefer_literal=True)
def look_up(
    typing: BaseContext,
    table: types.Array,
    halves: types.Array,
    first: Type,
    pages: types.IntegerLiteral,
    left: Type,
    right: Type,
    side: types.IntegerLiteral,
) -> Emitter:
    """Return table[left] (side 0) or table[right] (side 1), by permuting registers; only where `WIDE`.

    Words lie in first .. first + 128 `pages` - 1 with `first` a multiple of 32; others come back undefined. `halves`
    holds the low bytes of the table's entries from `first` on, and 128 PAGES further on their high bytes.
    """
    count = pages.literal_value

    def from_words(
        b: IRBuilder, data: Value, _: Value, start: Value, __: Value, v: Value, w: Value, ___: Value
    ) -> Value:
        place = b.sub(w if side.literal_value else v, _splat(b, b.trunc(start, I16), WORDS))
        pairs = [
            [_at(b, data, b.add(start, ir.Constant(I64, 64 * page + half)), WORDS) for half in (0, 32)]
            for page in range(2 * count)
        ]
        return _permuted(b, "llvm.x86.avx512.vpermi2var.hi.512", pairs, place, b.lshr(place, _same(WORDS, 6)))

    def from_bytes(
        b: IRBuilder, _: Value, data: Value, start: Value, __: Value, v: Value, w: Value, ___: Value
    ) -> Value:
        origin = _splat(b, b.trunc(start, I16), WORDS)
        places = [b.sub(v, origin), b.sub(w, origin)]
        pack = "llvm.x86.avx512.packuswb.512"
        index = _call(b, pack, OCTETS, *(b.and_(place, _same(WORDS, 0xFF)) for place in places))
        page = _call(b, pack, OCTETS, *(b.lshr(place, _same(WORDS, 7)) for place in places))

        def permuted(part: int) -> Value:
            starts = [part + 128 * number for number in range(count)]
            pairs = [[_at(b, data, ir.Constant(I64, at + half), OCTETS) for half in (0, 64)] for at in starts]
            return _permuted(b, "llvm.x86.avx512.vpermi2var.qi.512", pairs, index, page)

        # packing took eight words of each vector in turn: interleaving low and high bytes undoes it
        order = [16 * lane + 8 * side.literal_value + i for lane in range(4) for i in range(8)]
        mixed = ir.Constant(ir.VectorType(I32, 64), [place for i in order for place in (i, 64 + i)])
        return b.bitcast(b.shuffle_vector(permuted(0), permuted(128 * PAGES), mixed), WORDS)

    arguments = (table, halves, types.int64, pages, words, words, side)
    return _function(words, arguments, from_bytes if BYTES else from_words)


def _permuted(b: IRBuilder, name: str, pairs: list[list[Value]], index: Value, page: Value) -> Value:
    """Return what a table of several pages, each of two registers, holds at `index`, with `page` saying which."""
    answer = None
    for number, addresses in enumerate(pairs):
        low, high = (b.load(address, align=64) for address in addresses)
        found = _call(b, name, index.type, low, index, high)
        here = b.icmp_unsigned("==", page, _same(index.type, number))
        answer = found if answer is None else b.select(here, found, answer)
    return answer
