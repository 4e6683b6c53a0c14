"""Vectors of the machine as values inside compiled functions.

Numba leaves vectors to LLVM's loop vectoriser, which does not find what the flip kernels live on: sums selected by packed bits,
and tables held in registers. Here four vector types become Numba values, and each function is one or two instructions on
AVX-512. What is emitted is LLVM's own vector language, so every other processor runs it too, with the same bits.

`words` are 32 × int16, `ints` 16 × int32, `longs` 16 × int64, `floats` 16 × float32. A selection of lanes is an unsigned
integer, lane 0 in its lowest bit. Indices count elements of a contiguous array; they must not be negative: nothing checks them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
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
Emitter = tuple[Signature, Callable[..., Value]]  # what an intrinsic returns: its signature, and what emits its code

I1, I8, I16, I32, I64 = (ir.IntType(bits) for bits in (1, 8, 16, 32, 64))
WORDS, INTS, LONGS = ir.VectorType(I16, 32), ir.VectorType(I32, 16), ir.VectorType(I64, 16)
FLOATS, OCTETS = ir.VectorType(ir.FloatType(), 16), ir.VectorType(I8, 64)

FEATURES = frozenset(cpu_target.target_context.codegen().magic_tuple()[2].split(","))  # of the processor compiled for
WIDE = {"+avx512bw", "+avx512vl"} <= FEATURES  # a register holds 32 words, a table of 64 words can be permuted
BYTES = WIDE and "+avx512vbmi" in FEATURES  # a table of 128 bytes can be permuted
PAGES = 4  # most pages of 128 entries that `look_up` searches


class Vector(types.Type):
    def __init__(self, name: str) -> None:
        super().__init__(name=f"solspace.{name}")


words, ints, longs, floats = Vector("words"), Vector("ints"), Vector("longs"), Vector("floats")
_LLVM: dict[Type, ir.Type] = {words: WORDS, ints: INTS, longs: LONGS, floats: FLOATS}


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: models.DataModel, kind: Type) -> None:
        super().__init__(manager, kind, _LLVM[kind])


def _function(result: Type, arguments: tuple[Type, ...], emit: Callable[..., Value]) -> Emitter:
    """Return the signature of an intrinsic, and its emitter `emit(builder, *values)`: arrays as pointers to their data."""

    def generate(context: Target, builder: IRBuilder, signature: Signature, values: Sequence[Value]) -> Value:
        own = [
            context.make_array(kind)(context, builder, value=value).data if isinstance(kind, types.Array) else value
            for kind, value in zip(signature.args, values)
        ]
        answer = emit(builder, *own)
        return context.get_dummy_value() if result is types.void else answer

    return result(*arguments), generate


def operation(result: Type, *arguments: Type) -> Callable[[Callable[..., Value]], Any]:
    """Return a decorator of emitters (builder, *values): compiled code calls them with `arguments`, and gets a `result`."""

    def decorate(emit: Callable[..., Value]) -> Any:
        @intrinsic
        @wraps(emit)
        def define(typing: BaseContext, *_: Type) -> Emitter:
            return _function(result, arguments, emit)

        return define

    return decorate


def _same(kind: ir.Type, value: float) -> Value:
    return ir.Constant(kind, [value] * kind.count)


def _splat(b: IRBuilder, value: Value, kind: ir.Type) -> Value:
    """Return `value` in every lane, cut to the lanes' size where it is an integer."""
    if isinstance(value.type, ir.IntType) and value.type != kind.element:
        value = b.trunc(value, kind.element)
    first = b.insert_element(ir.Constant(kind, ir.Undefined), value, I32(0))
    return b.shuffle_vector(first, first, ir.Constant(ir.VectorType(I32, kind.count), [0] * kind.count))


def _call(b: IRBuilder, name: str, result: ir.Type, *values: Value) -> Value:
    kind = ir.FunctionType(result, [value.type for value in values])
    return b.call(cgutils.get_or_insert_function(b.module, kind, name), values)


def _fma(b: IRBuilder, x: Value, y: Value, z: Value) -> Value:
    vector = isinstance(x.type, ir.VectorType)
    size = "f32" if isinstance(x.type.element if vector else x.type, ir.FloatType) else "f64"
    return _call(b, f"llvm.fma.{f'v{x.type.count}' if vector else ''}{size}", x.type, x, y, z)


def _at(b: IRBuilder, data: Value, index: Value, kind: ir.Type) -> Value:
    return b.bitcast(b.gep(data, [index]), kind.as_pointer())


def _halves(b: IRBuilder, vector: Value) -> list[Value]:
    half = vector.type.count // 2
    places = (ir.Constant(ir.VectorType(I32, half), list(range(first, first + half))) for first in (0, half))
    return [b.shuffle_vector(vector, vector, place) for place in places]


def _chosen(b: IRBuilder, mask: Value, yes: Value, no: Value) -> Value:
    return b.select(b.bitcast(mask, ir.VectorType(I1, yes.type.count)), yes, no)


def _pairs(b: IRBuilder, vector: Value) -> Value:
    if WIDE:
        return _call(b, "llvm.x86.avx512.pmaddw.d.512", INTS, vector, _same(WORDS, 1))
    if "+avx2" in FEATURES:
        one, eight = _same(ir.VectorType(I16, 16), 1), ir.VectorType(I32, 8)
        low, high = (_call(b, "llvm.x86.avx2.pmadd.wd", eight, half, one) for half in _halves(b, vector))
        return b.shuffle_vector(low, high, ir.Constant(INTS, list(range(16))))
    both, half = b.bitcast(vector, INTS), _same(INTS, 16)
    return b.add(b.ashr(b.shl(both, half), half), b.ashr(both, half))


def _vector_of(array: types.Array) -> Vector:
    return {types.int16: words, types.uint16: words, types.int32: ints, types.uint32: ints}[array.dtype]


@intrinsic
def load(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Return the vector at array[index], of the type the array's elements make; a multiple of 64 bytes."""
    kind = _vector_of(array)
    return _function(kind, (array, types.intp), lambda b, data, i: b.load(_at(b, data, i, _LLVM[kind]), align=64))


@intrinsic
def store(typing: BaseContext, array: types.Array, index: Type, vector: Vector) -> Emitter:
    signature, kind = (array, types.intp, vector), _LLVM[vector]
    return _function(types.void, signature, lambda b, data, i, value: b.store(value, _at(b, data, i, kind), align=64))


@intrinsic
def get(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Return array[index] without Python's rule for negative indices, which costs more than the load."""
    return _function(array.dtype, (array, types.intp), lambda b, data, i: b.load(b.gep(data, [i])))


@intrinsic
def put(typing: BaseContext, array: types.Array, index: Type, value: Type) -> Emitter:
    signature = array, types.intp, array.dtype
    return _function(types.void, signature, lambda b, data, i, element: b.store(element, b.gep(data, [i])))


@intrinsic
def prefetch(typing: BaseContext, array: types.Array, index: Type) -> Emitter:
    """Begin to read the cache line of array[index]."""

    def emit(b: IRBuilder, data: Value, i: Value) -> None:
        address = _at(b, data, i, I8)
        suffix = "p0" if str(address.type) == "ptr" else "p0i8"
        flags = I32(0), I32(3), I32(1)  # for reading, into the nearest cache, data
        _call(b, f"llvm.prefetch.{suffix}", ir.VoidType(), address, *flags)

    return _function(types.void, (array, types.intp), emit)


@intrinsic
def add(typing: BaseContext, left: Type, right: Type) -> Emitter:
    return _function(left, (left, right), lambda b, x, y: b.add(x, y))


@intrinsic
def subtract(typing: BaseContext, left: Type, right: Type) -> Emitter:
    return _function(left, (left, right), lambda b, x, y: b.sub(x, y))


zeros = operation(ints)(lambda b: _same(INTS, 0))
no_longs = operation(longs)(lambda b: _same(LONGS, 0))
# the sum of all ints, which must fit 32 bits, and of all longs
total = operation(types.int64, ints)(lambda b, v: b.sext(_call(b, "llvm.vector.reduce.add.v16i32", I32, v), I64))
total_longs = operation(types.int64, longs)(lambda b, v: _call(b, "llvm.vector.reduce.add.v16i64", I64, v))
widen = operation(longs, longs, ints)(lambda b, sums, v: b.add(sums, b.sext(v, LONGS)))
# pairwise sums of words, of all or of those that a mask selects, added to ints
add_words = operation(ints, ints, words)(lambda b, sums, v: b.add(sums, _pairs(b, v)))
add_selected = operation(ints, ints, types.uint32, words)(
    lambda b, sums, mask, v: b.add(sums, _pairs(b, _chosen(b, mask, v, _same(WORDS, 0))))
)
keep = operation(words, types.uint32, words)(lambda b, mask, v: _chosen(b, mask, v, _same(WORDS, 0)))
add_where = operation(words, words, types.uint32, types.int64)(
    lambda b, v, mask, by: b.add(v, _chosen(b, mask, _splat(b, by, WORDS), _same(WORDS, 0)))
)
bits_of = operation(types.uint64, types.float64)(lambda b, number: b.bitcast(number, I64))
float_of = operation(types.float64, types.uint64)(lambda b, bits: b.bitcast(bits, ir.DoubleType()))


@operation(words, words, types.uint32, types.int64)
def shift(b: IRBuilder, vector: Value, mask: Value, by: Value) -> Value:
    """Return the words less `by` where `mask` selects, plus `by` elsewhere."""
    up = _splat(b, by, WORDS)
    return b.add(vector, _chosen(b, mask, b.sub(_same(WORDS, 0), up), up))


@operation(types.uint32, words, types.int64, types.int64)
def beyond(b: IRBuilder, vector: Value, first: Value, width: Value) -> Value:
    """Return the selection of words outside first .. first + width - 1, all counted modulo 2^16."""
    place = b.sub(vector, _splat(b, first, WORDS))
    return b.bitcast(b.icmp_unsigned(">=", place, _splat(b, width, WORDS)), I32)


@operation(types.boolean, words, words, types.int64, types.int64)
def either_beyond(b: IRBuilder, left: Value, right: Value, first: Value, width: Value) -> Value:
    """Return whether any word of two vectors lies outside first .. first + width - 1, all counted modulo 2^16."""
    origin = _splat(b, first, WORDS)
    x, y = b.sub(left, origin), b.sub(right, origin)
    larger = b.select(b.icmp_unsigned(">", x, y), x, y)
    return b.icmp_unsigned("!=", b.bitcast(b.icmp_unsigned(">=", larger, _splat(b, width, WORDS)), I32), I32(0))


@operation(types.boolean, ints, types.int64, types.int64)
def ints_beyond(b: IRBuilder, vector: Value, first: Value, last: Value) -> Value:
    """Return whether some of the ints lie outside first .. last."""
    below = b.icmp_signed("<", vector, _splat(b, first, INTS))
    above = b.icmp_signed(">", vector, _splat(b, last, INTS))
    return b.icmp_unsigned("!=", b.bitcast(b.or_(below, above), I16), I16(0))


@intrinsic(prefer_literal=True)
def look_up(
    typing: BaseContext, table: types.Array, halves: types.Array, first: Type, pages: types.IntegerLiteral, left: Type,
    right: Type, side: types.IntegerLiteral,
) -> Emitter:  # fmt: skip
    """Return table[left] (side 0) or table[right] (side 1), by permuting registers; only where `WIDE`.

    One instruction permutes a pair of registers by an index vector; a window of several such pages takes one instruction each
    and a choice between them. With byte permutations low and high bytes are looked up apart, 64 indices at a time, which halves
    the work. Words lie in first .. first + 128 `pages` - 1 with `first` a multiple of 32; others come back undefined. `halves`
    holds the low bytes of the table's entries from `first` on, and 128 PAGES further on their high bytes.
    """
    count, right_side = pages.literal_value, side.literal_value

    def from_words(
        b: IRBuilder, data: Value, _: Value, first: Value, _pages: Value, left: Value, right: Value, _side: Value
    ) -> Value:
        place = b.sub(right if right_side else left, _splat(b, first, WORDS))
        pairs = [
            [_at(b, data, b.add(first, I64(64 * page + half)), WORDS) for half in (0, 32)] for page in range(2 * count)
        ]
        return _permuted(b, "llvm.x86.avx512.vpermi2var.hi.512", pairs, place, b.lshr(place, _same(WORDS, 6)))

    def from_bytes(
        b: IRBuilder, _: Value, data: Value, first: Value, _pages: Value, left: Value, right: Value, _side: Value
    ) -> Value:
        places = [b.sub(vector, _splat(b, first, WORDS)) for vector in (left, right)]
        pack = "llvm.x86.avx512.packuswb.512"
        index = _call(b, pack, OCTETS, *(b.and_(place, _same(WORDS, 0xFF)) for place in places))
        page = _call(b, pack, OCTETS, *(b.lshr(place, _same(WORDS, 7)) for place in places))
        low, high = (
            [[_at(b, data, I64(part + 128 * k + half), OCTETS) for half in (0, 64)] for k in range(count)]
            for part in (0, 128 * PAGES)
        )
        permute = "llvm.x86.avx512.vpermi2var.qi.512"
        found = _permuted(b, permute, low, index, page), _permuted(b, permute, high, index, page)
        # packing took eight words of each vector in turn: interleaving low and high bytes undoes it
        order = [16 * lane + 8 * right_side + i for lane in range(4) for i in range(8)]
        mixed = ir.Constant(ir.VectorType(I32, 64), [place for i in order for place in (i, 64 + i)])
        return b.bitcast(b.shuffle_vector(*found, mixed), WORDS)

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
