"""Tables of 16-bit entries kept in registers: a window of some hundred entries is permuted by index, with no loads.

A register of AVX-512 is a table of 32 words or 64 bytes, and one instruction permutes a pair of them by an index
vector. A window of several such pages takes one such instruction each and a choice between them. With byte
permutations (VBMI) low and high bytes of the entries are looked up apart, 64 indices at a time, which halves the work.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core.types import Type
from numba.core.typing import BaseContext

from solspace.samplers.kernels.machine_vectors import (
    FEATURES,
    I8,
    I16,
    I32,
    I64,
    WIDE,
    WORDS,
    Emitter,
    _at,
    _call,
    _function,
    _same,
    _splat,
    intrinsic,
    words,
)  # isort: skip  # fmt: skip

OCTETS = ir.VectorType(I8, 64)
BYTES = WIDE and "+avx512vbmi" in FEATURES
"""True where a table of 128 bytes can be permuted."""
PAGES = 4
"""Most pages of 128 entries that `look_up` searches."""


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
