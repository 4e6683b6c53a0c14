"""Integer energies of fixed-point stabilities, sixteen at a time, as the kernel for real-valued patterns asks for them.

A stability is an int32 t, counted from the margin. Two forms of potential are known, each an exact function of t on
every processor: conversions, fused multiply-adds and comparisons that IEEE 754 rounds in one way, then truncation to
an integer.

*Power form*: U = c0 + c1 t below an edge; above it A[e] h(z) + B[e], where t = z 2^e with 1 <= z < 2, h is a
polynomial and A, B are tables of the exponent. This is (1 - s^τ)/τ without the cancellation at small τ, its limit -log
s, and hinge and errors besides. With AVX-512 the tables stay in registers.

*Cell form*: any potential, linear in cells that divide every octave of |t| into 128, with jumps where it jumps. That of
a band is folded first: t is replaced by half - |t|, the distance from the nearer wall.
"""

from __future__ import annotations

from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import types
from numba.core.types import Type
from numba.core.typing import BaseContext

from solspace.samplers.annealing.real_forms import (
    CELLS,
    DEGREE,
    EXPONENT,
    HALF,
    JUMP,
    JUMPS,
    SIDE,
    SLOPE,
    STEEP,
    VALUE,
    WALLED,
    ZERO,
    A,
    B,
    C,
    H,
)  # isort: skip  # fmt: skip
from solspace.samplers.kernels.machine_vectors import (
    FLOATS,
    I1,
    I8,
    I32,
    I64,
    INTS,
    WIDE,
    Emitter,
    _at,
    _call,
    _function,
    _same,
    _splat,
    intrinsic,
    ints,
)  # isort: skip  # fmt: skip

AT_ONE = B + EXPONENT
"""Where the coefficients of a power form hold its energy at t = 1."""


def _fma(b: IRBuilder, x: Value, y: Value, z: Value) -> Value:
    return _call(b, "llvm.fma.v16f32", FLOATS, x, y, z)


def _scalar(b: IRBuilder, data: Value, index: int) -> Value:
    return _splat(b, b.load(b.gep(data, [ir.Constant(I64, index)])), FLOATS)


def _table(b: IRBuilder, data: Value, index: int, exponent: Value) -> Value:
    """Return data[index + exponent mod 32] in each lane."""
    if WIDE:
        low, high = (b.load(_at(b, data, ir.Constant(I64, index + half), FLOATS), align=4) for half in (0, 16))
        return _call(b, "llvm.x86.avx512.vpermi2var.ps.512", FLOATS, low, exponent, high)
    return _gather(b, data, index, b.and_(exponent, _same(INTS, 31)))


def _gather(b: IRBuilder, data: Value, index: int, lanes: Value) -> Value:
    """Return data[index + lane's value] in each lane."""
    answer = ir.Constant(FLOATS, ir.Undefined)
    start = b.gep(data, [ir.Constant(I64, index)])
    if WIDE:
        every, four = ir.Constant(ir.VectorType(I1, 16), [1] * 16), ir.Constant(I32, 4)
        place = b.bitcast(start, I8.as_pointer())
        return _call(b, "llvm.x86.avx512.mask.gather.dps.512", FLOATS, answer, place, lanes, every, four)
    for lane in range(16):
        place = ir.Constant(I32, lane)
        value = b.load(b.gep(start, [b.sext(b.extract_element(lanes, place), I64)]))
        answer = b.insert_element(answer, value, place)
    return answer


def _mark(b: IRBuilder, places: Value, index: int) -> Value:
    place = b.load(b.gep(places, [ir.Constant(I64, index)]))
    return _splat(b, place if place.type == I32 else b.trunc(place, I32), INTS)


def _power_energies(b: IRBuilder, v: Value, data: Value, places: Value) -> Value:
    value = b.sitofp(v, FLOATS)
    bits = b.bitcast(value, INTS)
    exponent = b.lshr(bits, _same(INTS, 23))
    z = b.bitcast(b.or_(b.and_(bits, _same(INTS, 0x7FFFFF)), _same(INTS, 0x3F800000)), FLOATS)
    h = _scalar(b, data, H)
    for power in range(1, DEGREE + 1):
        h = _fma(b, h, z, _scalar(b, data, H + power))
    right = _fma(b, _table(b, data, A, exponent), h, _table(b, data, B, exponent))
    left = _fma(b, value, _scalar(b, data, C + 1), _scalar(b, data, C))
    below = b.icmp_signed("<", v, _mark(b, places, 0))
    return b.fptosi(b.select(below, left, right), INTS)


def _cell_energies(b: IRBuilder, v: Value, data: Value, places: Value) -> Value:
    first, last, none = _mark(b, places, 0), _mark(b, places, 1), _same(INTS, 0)
    half = _mark(b, places, HALF)
    size = b.select(b.icmp_signed("<", v, none), b.sub(none, v), v)
    v = b.select(b.icmp_signed(">", half, none), b.sub(half, size), v)
    inside = b.select(b.icmp_signed("<", v, first), first, b.select(b.icmp_signed(">", v, last), last, v))
    negative = b.icmp_signed("<", inside, none)
    bits = b.bitcast(b.sitofp(b.select(negative, b.sub(none, inside), inside), FLOATS), INTS)
    cell = b.sub(b.lshr(bits, _same(INTS, 16)), _same(INTS, 127 * CELLS))
    cell = b.select(b.icmp_signed("<", cell, none), none, cell)
    cell = b.add(cell, b.select(negative, _same(INTS, SIDE), none))
    rest = b.sitofp(b.and_(bits, _same(INTS, 0xFFFF)), FLOATS)
    energy = _fma(b, rest, _gather(b, data, SLOPE, cell), _gather(b, data, VALUE, cell))
    energy = b.select(b.icmp_signed("==", inside, none), _scalar(b, data, ZERO), energy)
    nothing = _same(FLOATS, 0.0)
    for number in range(JUMPS):
        above = b.icmp_signed(">=", inside, _mark(b, places, 2 + number))
        energy = b.fadd(energy, b.select(above, _scalar(b, data, JUMP + number), nothing))
    out = b.sub(v, inside)
    out = b.select(b.icmp_signed("<", out, none), b.sub(none, out), out)
    wall = _fma(b, b.sitofp(out, FLOATS), _scalar(b, data, STEEP), _scalar(b, data, WALLED))
    return b.fptosi(b.fadd(energy, b.select(b.icmp_signed("==", out, none), nothing, wall)), INTS)


@intrinsic
def energies(typing: BaseContext, t: Type, form: types.Array, marks: types.Array) -> Emitter:
    """Return the integer energies of ints `t` for the float32 coefficients `form` and the places `marks`.

    The type of `marks` says which form it is: int64 (edge) for the power form; int32 (first and last t allowed,
    where the potential jumps, and where it is folded) for the cell form.
    """
    power = marks.dtype == types.int64
    return _function(ints, (ints, form, marks), _power_energies if power else _cell_energies)


@intrinsic
def last_energy(typing: BaseContext, t: Type, form: types.Array, marks: types.Array) -> Emitter:
    """Return the energy of the last of the ints `t`."""
    emit = _power_energies if marks.dtype == types.int64 else _cell_energies
    return _function(
        types.int64,
        (ints, form, marks),
        lambda b, *given: b.sext(b.extract_element(emit(b, *given), ir.Constant(I32, 15)), I64),
    )
