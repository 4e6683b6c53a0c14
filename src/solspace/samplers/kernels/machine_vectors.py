"""Vectors of the machine as values inside compiled functions.

Numba leaves vectors to LLVM's loop vectoriser, which does not find what the flip kernels live on: sums selected by
packed bits, and tables held in registers. Here three vector types become Numba values, and each function below is one
or two instructions on AVX-512. What is emitted is LLVM's own vector language, so every other processor runs it too, in
more instructions and with the same bits: sums are of integers, and floating point is written out operation by
operation.

`words` are 32 × int16, `ints` 16 × int32, `longs` 16 × int64. A selection of lanes is an unsigned integer, lane 0
in its lowest bit. Indices count elements of a contiguous array; they must not be negative, and nothing checks them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target
from numba.extending import intrinsic as _intrinsic
from numba.extending import models, register_model

intrinsic: Any = _intrinsic

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
WORDS, INTS, LONGS = ir.VectorType(I16, 32), ir.VectorType(I32, 16), ir.VectorType(I64, 16)
FLOATS = ir.VectorType(ir.FloatType(), 16)

FEATURES = frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))
"""What the processor that Numba compiles for can do."""
WIDE = {"+avx512bw", "+avx512vl"} <= FEATURES
"""True where a register holds 32 words and a table of 64 words can be permuted."""


class Vector(types.Type):
    """The Numba type of a machine vector."""

    def __init__(self, name: str) -> None:
        super().__init__(name=f"solspace.{name}")


class Words(Vector):
    """32 × int16."""


class Ints(Vector):
    """16 × int32."""


class Longs(Vector):
    """16 × int64."""


words, ints, longs = Words("words"), Ints("ints"), Longs("longs")
_LLVM = {words: WORDS, ints: INTS, longs: LONGS}


def _register(cls: type, vector: Any) -> None:
    @register_model(cls)
    class Model(models.PrimitiveModel):
        def __init__(self, manager: Any, kind: Any) -> None:
            super().__init__(manager, kind, vector)


for _kind, _vector in _LLVM.items():
    _register(type(_kind), _vector)


def _function(result: Any, arguments: tuple[Any, ...], emit: Callable[..., Any]) -> tuple[Any, Callable[..., Any]]:
    """Return what an intrinsic returns: its signature, and the emitter `emit(builder, *values)`."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        given = [
            context.make_array(kind)(context, builder, value=value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, values)
        ]
        answer = emit(builder, *given)
        return context.get_dummy_value() if result is types.void else answer

    return result(*arguments), generate


def _same(kind: Any, value: Any) -> Any:
    return ir.Constant(kind, [value] * kind.count)


def _splat(builder: Any, value: Any, kind: Any) -> Any:
    first = builder.insert_element(ir.Constant(kind, ir.Undefined), value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def _call(builder: Any, name: str, result: Any, *values: Any) -> Any:
    kind = ir.FunctionType(result, [value.type for value in values])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), values)


def _at(builder: Any, data: Any, index: Any, kind: Any) -> Any:
    return builder.bitcast(builder.gep(data, [index]), kind.as_pointer())


def _lanes(builder: Any, mask: Any, count: int) -> Any:
    return builder.bitcast(mask, ir.VectorType(I1, count))


def _pairs(builder: Any, vector: Any) -> Any:
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


def _vector_of(array: Any) -> Any:
    return {16: words, 32: ints}[array.dtype.bitwidth]


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """Return the vector at array[index], of the type the array's elements make; a multiple of 64 bytes."""
    kind = _vector_of(array)
    return _function(kind, (array, types.intp), lambda b, data, i: b.load(_at(b, data, i, _LLVM[kind]), align=64))


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """Write a vector to array[index]; a multiple of 64 bytes."""

    def emit(b: Any, data: Any, i: Any, value: Any) -> None:
        b.store(value, _at(b, data, i, _LLVM[vector]), align=64)

    return _function(types.void, (array, types.intp, vector), emit)


@intrinsic
def get(typing: Any, array: Any, index: Any) -> Any:
    """Return array[index] without Python's rule for negative indices, which costs more than the load."""
    return _function(array.dtype, (array, types.intp), lambda b, data, i: b.load(b.gep(data, [i])))


@intrinsic
def put(typing: Any, array: Any, index: Any, value: Any) -> Any:
    """Write array[index] = value, a value of the array's own type."""

    def emit(b: Any, data: Any, i: Any, given: Any) -> None:
        b.store(given, b.gep(data, [i]))

    return _function(types.void, (array, types.intp, array.dtype), emit)


@intrinsic
def prefetch(typing: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of array[index], to be read soon."""

    def emit(b: Any, data: Any, i: Any) -> None:
        address = _at(b, data, i, I8)
        suffix = "p0" if str(address.type) == "ptr" else "p0i8"
        flags = (ir.Constant(I32, value) for value in (0, 3, 1))  # for reading, into the nearest cache, data
        _call(b, f"llvm.prefetch.{suffix}", ir.VoidType(), address, *flags)

    return _function(types.void, (array, types.intp), emit)


@intrinsic
def zeros(typing: Any) -> Any:
    """Return ints of zero."""
    return _function(ints, (), lambda b: _same(INTS, 0))


@intrinsic
def add(typing: Any, left: Any, right: Any) -> Any:
    """Return the sum of two vectors of integers of the same type."""
    return _function(left, (left, right), lambda b, x, y: b.add(x, y))


@intrinsic
def total(typing: Any, vector: Any) -> Any:
    """Return the sum of all ints; it must fit 32 bits."""
    return _function(types.int64, (ints,), lambda b, x: b.sext(_call(b, "llvm.vector.reduce.add.v16i32", I32, x), I64))


@intrinsic
def add_words(typing: Any, sums: Any, vector: Any) -> Any:
    """Return `sums` plus the pairwise sums of words."""
    return _function(ints, (ints, words), lambda b, x, v: b.add(x, _pairs(b, v)))


@intrinsic
def add_selected(typing: Any, sums: Any, mask: Any, vector: Any) -> Any:
    """Return `sums` plus the pairwise sums of the words that the 32-bit `mask` selects."""

    def emit(b: Any, x: Any, chosen: Any, v: Any) -> Any:
        return b.add(x, _pairs(b, b.select(_lanes(b, chosen, 32), v, _same(WORDS, 0))))

    return _function(ints, (ints, types.uint32, words), emit)


@intrinsic
def keep(typing: Any, mask: Any, vector: Any) -> Any:
    """Return the words with those that `mask` does not select set to zero."""
    return _function(
        words, (types.uint32, words), lambda b, chosen, v: b.select(_lanes(b, chosen, 32), v, _same(WORDS, 0))
    )


@intrinsic
def shift(typing: Any, vector: Any, mask: Any, by: Any) -> Any:
    """Return the words less `by` where `mask` selects, plus `by` elsewhere."""

    def emit(b: Any, v: Any, chosen: Any, step: Any) -> Any:
        up = _splat(b, b.trunc(step, I16), WORDS)
        down = b.sub(_same(WORDS, 0), up)
        return b.add(v, b.select(_lanes(b, chosen, 32), down, up))

    return _function(words, (words, types.uint32, types.int64), emit)


@intrinsic
def add_where(typing: Any, vector: Any, mask: Any, by: Any) -> Any:
    """Return the words plus `by` where `mask` selects."""

    def emit(b: Any, v: Any, chosen: Any, step: Any) -> Any:
        return b.add(v, b.select(_lanes(b, chosen, 32), _splat(b, b.trunc(step, I16), WORDS), _same(WORDS, 0)))

    return _function(words, (words, types.uint32, types.int64), emit)


@intrinsic
def beyond(typing: Any, vector: Any, first: Any, width: Any) -> Any:
    """Return the selection of words outside first .. first + width - 1, all counted modulo 2^16."""

    def emit(b: Any, v: Any, start: Any, size: Any) -> Any:
        place = b.sub(v, _splat(b, b.trunc(start, I16), WORDS))
        return b.bitcast(b.icmp_unsigned(">=", place, _splat(b, b.trunc(size, I16), WORDS)), I32)

    return _function(types.uint32, (words, types.int64, types.int64), emit)


@intrinsic
def bits_of(typing: Any, number: Any) -> Any:
    """Return the 64 bits of a float64."""
    return _function(types.uint64, (types.float64,), lambda b, x: b.bitcast(x, I64))


@intrinsic
def float_of(typing: Any, bits: Any) -> Any:
    """Return the float64 with these 64 bits."""
    return _function(types.float64, (types.uint64,), lambda b, x: b.bitcast(x, ir.DoubleType()))


@intrinsic
def no_longs(typing: Any) -> Any:
    """Return sixteen int64 zeros."""
    return _function(longs, (), lambda b: _same(LONGS, 0))


@intrinsic
def widen(typing: Any, sums: Any, vector: Any) -> Any:
    """Return `sums` of int64 plus the ints."""
    return _function(longs, (longs, ints), lambda b, x, v: b.add(x, b.sext(v, LONGS)))


@intrinsic
def total_longs(typing: Any, vector: Any) -> Any:
    """Return the sum of all int64 lanes."""
    return _function(types.int64, (longs,), lambda b, x: _call(b, "llvm.vector.reduce.add.v16i64", I64, x))


@intrinsic
def subtract(typing: Any, left: Any, right: Any) -> Any:
    """Return the difference of two vectors of integers of the same type."""
    return _function(left, (left, right), lambda b, x, y: b.sub(x, y))


@intrinsic
def ints_beyond(typing: Any, vector: Any, first: Any, last: Any) -> Any:
    """Return whether some of the ints lie outside first .. last."""

    def emit(b: Any, v: Any, low: Any, high: Any) -> Any:
        below = b.icmp_signed("<", v, _splat(b, b.trunc(low, I32), INTS))
        above = b.icmp_signed(">", v, _splat(b, b.trunc(high, I32), INTS))
        return b.icmp_unsigned("!=", b.bitcast(b.or_(below, above), I16), ir.Constant(I16, 0))

    return _function(types.boolean, (ints, types.int64, types.int64), emit)
