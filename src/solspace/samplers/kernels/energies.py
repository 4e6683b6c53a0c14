"""Integer energies of fixed-point stabilities, sixteen at a time, for the flips on patterns of any values.

A stability is an int32 t, counted from the margin. Both forms of potential are exact functions of t on every processor:
conversions, fused multiply-adds and comparisons that IEEE 754 rounds in one way, then truncation to an integer.

*Power form*: U = c0 + c1 t below an edge; above it A[e] h(z) + B[e], where t = z 2^e with 1 <= z < 2, h is a polynomial and A, B
are tables of the exponent: (1 - s^τ)/τ without the cancellation at small τ, its limit -log s, and hinge and errors besides.
*Cell form*: any potential, linear in cells that divide every octave of |t| into 128, with jumps where it jumps. For a band t is
replaced by half - |t|, the distance from the nearer wall.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numba
import numpy as np
from llvmlite import ir
from llvmlite.ir import IRBuilder, Value
from numba import int64, types, uint64
from numba.core.types import Type
from numba.core.typing import BaseContext

from solspace.numerics.arrays import Array
from solspace.samplers.kernels import flips
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
    _fma,
    _function,
    _halves,
    _same,
    _splat,
    add,
    float_of,
    floats,
    intrinsic,
    ints,
    load,
    operation,
    subtract,
)
from solspace.system.compiled import variant

AT_ONE = flips.B + flips.EXPONENT  # where the coefficients of a power form hold its energy at t = 1
BLOCK = 1024  # constraints whose product float32 holds: 8 times 4 factors to each of twice sixteen lanes
# what four scaled factors, a lane's product and that of all blocks are kept above, so that none underflows further on
LEAST, LEAST_LANE, LEAST_WHOLE = 2.0**-15, 2.0**-30, 2.0**-900
_LOG2E = 1 / math.log(2.0)


def _scalar(b: IRBuilder, data: Value, index: int) -> Value:
    return _splat(b, b.load(b.gep(data, [I64(index)])), FLOATS)


def _table(b: IRBuilder, data: Value, index: int, exponent: Value) -> Value:
    """Return data[index + exponent mod 32] in each lane."""
    if WIDE:
        low, high = (b.load(_at(b, data, I64(index + half), FLOATS), align=4) for half in (0, 16))
        return _call(b, "llvm.x86.avx512.vpermi2var.ps.512", FLOATS, low, exponent, high)
    return _gather(b, data, index, b.and_(exponent, _same(INTS, 31)))


def _gather(b: IRBuilder, data: Value, index: int, lanes: Value) -> Value:
    answer = ir.Constant(FLOATS, ir.Undefined)
    start = b.gep(data, [I64(index)])
    if WIDE:
        every, place = _same(ir.VectorType(I1, 16), 1), b.bitcast(start, I8.as_pointer())
        return _call(b, "llvm.x86.avx512.mask.gather.dps.512", FLOATS, answer, place, lanes, every, I32(4))
    for lane in range(16):
        value = b.load(b.gep(start, [b.sext(b.extract_element(lanes, I32(lane)), I64)]))
        answer = b.insert_element(answer, value, I32(lane))
    return answer


def _mark(b: IRBuilder, places: Value, index: int) -> Value:
    return _splat(b, b.load(b.gep(places, [I64(index)])), INTS)


def _power_energies(b: IRBuilder, v: Value, data: Value, places: Value) -> Value:
    value = b.sitofp(v, FLOATS)
    bits = b.bitcast(value, INTS)
    exponent = b.lshr(bits, _same(INTS, 23))
    z = b.bitcast(b.or_(b.and_(bits, _same(INTS, 0x7FFFFF)), _same(INTS, 0x3F800000)), FLOATS)
    h = _scalar(b, data, flips.H)
    for power in range(1, flips.DEGREE + 1):
        h = _fma(b, h, z, _scalar(b, data, flips.H + power))
    right = _fma(b, _table(b, data, flips.A, exponent), h, _table(b, data, flips.B, exponent))
    left = _fma(b, value, _scalar(b, data, flips.C + 1), _scalar(b, data, flips.C))
    below = b.icmp_signed("<", v, _mark(b, places, 0))
    return b.fptosi(b.select(below, left, right), INTS)


def _cell_energies(b: IRBuilder, v: Value, data: Value, places: Value) -> Value:
    first, last, none = _mark(b, places, 0), _mark(b, places, 1), _same(INTS, 0)
    half = _mark(b, places, flips.HALF)
    size = b.select(b.icmp_signed("<", v, none), b.sub(none, v), v)
    v = b.select(b.icmp_signed(">", half, none), b.sub(half, size), v)
    inside = b.select(b.icmp_signed("<", v, first), first, b.select(b.icmp_signed(">", v, last), last, v))
    negative = b.icmp_signed("<", inside, none)
    bits = b.bitcast(b.sitofp(b.select(negative, b.sub(none, inside), inside), FLOATS), INTS)
    cell = b.sub(b.lshr(bits, _same(INTS, 16)), _same(INTS, 127 * flips.CELLS))
    cell = b.select(b.icmp_signed("<", cell, none), none, cell)
    cell = b.add(cell, b.select(negative, _same(INTS, flips.SIDE), none))
    rest = b.sitofp(b.and_(bits, _same(INTS, 0xFFFF)), FLOATS)
    energy = _fma(b, rest, _gather(b, data, flips.SLOPE, cell), _gather(b, data, flips.VALUE, cell))
    energy = b.select(b.icmp_signed("==", inside, none), _scalar(b, data, flips.ZERO), energy)
    nothing = _same(FLOATS, 0.0)
    for number in range(flips.JUMPS):
        above = b.icmp_signed(">=", inside, _mark(b, places, 2 + number))
        energy = b.fadd(energy, b.select(above, _scalar(b, data, flips.JUMP + number), nothing))
    out = b.sub(v, inside)
    out = b.select(b.icmp_signed("<", out, none), b.sub(none, out), out)
    wall = _fma(b, b.sitofp(out, FLOATS), _scalar(b, data, flips.STEEP), _scalar(b, data, flips.WALLED))
    return b.fptosi(b.fadd(energy, b.select(b.icmp_signed("==", out, none), nothing, wall)), INTS)


@intrinsic
def energies(typing: BaseContext, t: Type, form: types.Array, marks: types.Array) -> Emitter:
    """Return the integer energies of ints `t` for the float32 coefficients `form` and the places `marks`.

    The type of `marks` says which form it is: int64 (edge) for the power form; int32 (first and last t allowed,
    where the potential jumps, and where it is folded) for the cell form.
    """
    return _function(ints, (ints, form, marks), _power_energies if marks.dtype == types.int64 else _cell_energies)


_last = operation(types.int64, ints)(lambda b, vector: b.sext(b.extract_element(vector, I32(15)), I64))
_ones = operation(floats)(lambda b: _same(FLOATS, 1.0))


@numba.njit(inline="always")
def last_energy(t: int, form: Array, marks: Array) -> int:
    return _last(energies(t, form, marks))


@operation(floats, floats, ints, ints, ints, ints, types.float64)
def _times(b: IRBuilder, product: Value, s: Value, t: Value, u: Value, v: Value, scale: Value) -> Value:
    """Return `product` times `scale` and four ints, each of which counts as 1 at least, all five as LEAST at least."""
    s, t, u, v = (_larger(b, b.sitofp(factor, FLOATS), _same(FLOATS, 1.0)) for factor in (s, t, u, v))
    # no factor exceeds 2^30, so that four of them do not overflow
    scaled = b.fmul(b.fmul(b.fmul(s, t), b.fmul(u, v)), _splat(b, b.fptrunc(scale, ir.FloatType()), FLOATS))
    return b.fmul(product, _larger(b, scaled, _same(FLOATS, LEAST)))


@operation(types.float64, floats, floats)
def _whole(b: IRBuilder, x: Value, y: Value) -> Value:
    least = _same(FLOATS, LEAST_LANE)
    product = b.fmul(*_halves(b, b.fmul(_larger(b, x, least), _larger(b, y, least))))
    product = b.fpext(product, ir.VectorType(ir.DoubleType(), 8))
    for _ in range(3):
        product = b.fmul(*_halves(b, product))
    return b.extract_element(product, I32(0))


def _larger(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def _product(sign: int) -> Callable[..., float]:
    """Return the function that multiplies all stabilities less `sign` times a column."""

    @numba.njit(inline="always")
    @variant(sign)
    def four(product, states, at, columns, column, scale):
        s, t, u, v = load(states, at), load(states, at + 16), load(states, at + 32), load(states, at + 48)
        w, x = load(columns, column), load(columns, column + 16)
        y, z = load(columns, column + 32), load(columns, column + 48)
        if sign > 0:
            return _times(product, subtract(s, w), subtract(t, x), subtract(u, y), subtract(v, z), scale)
        return _times(product, add(s, w), add(t, x), add(u, y), add(v, z), scale)

    @numba.njit
    @variant(sign)
    def product(states, at, size, columns, column, scale):
        found = 1.0
        for first in range(0, size, BLOCK):
            one, two = _ones(), _ones()
            for k in range(first, min(first + BLOCK, size), 128):
                one = four(one, states, at + k, columns, column + k, scale)
                two = four(two, states, at + k + 64, columns, column + k + 64, scale)
            found = max(found * _whole(one, two), LEAST_WHOLE)
        return found

    return product


# (states, at, size, columns, column, scale) -> the product of the `size` stabilities from `at` on less or plus a column, each
# times the fourth root of `scale`; or more
product_down, product_up = _product(1), _product(-1)


@numba.njit
def bound(size: int, energy: int, met: bool, logarithm: float, form: Array) -> tuple[float, float]:
    """Return (least, scale): `size` constraints have an energy of at least `least` - `logarithm` · log(product(…, scale)).

    Sums of -L log t are -L log Π t, and a product costs a third of the energies. Stabilities beyond the wall count as t = 1, and
    what the energies may be rounded down by is taken off: a proposal that this bound rejects is one that they would reject, and
    chains are the same bit for bit. Factors are scaled by their geometric mean, known from `energy` where all are `met`; what
    would underflow is lifted, which lowers the bound, and what overflows makes it -∞: nothing is rejected.
    """
    if logarithm == 0.0:
        return 0.0, 0.0
    at_one = float(form[AT_ONE])
    typical = (at_one - energy / size if met else at_one) / logarithm
    typical = min(max(typical, 0.0), 20.0)
    return size * (at_one - _slack(logarithm, at_one) - logarithm * typical), math.exp(-4 * typical)


@numba.njit(inline="always")
def exp_at_most(x: float) -> float:
    """Return exp(x), or up to 0.7% less; 0 below -690 and exp(690) above 690."""
    y = min(max(x, -690.0), 690.0) * _LOG2E
    whole = np.floor(y)
    f = y - whole
    # 1 + f - 0.3431 f (1 - f) is 2^f to within 0.3%
    power = (1.0 - 0.3431 * f * (1.0 - f) + f) * 0.997
    return float_of(uint64(int64(whole + 1023.0)) << uint64(52)) * power if x > -690.0 else 0.0


@numba.njit
def _slack(logarithm: float, at_one: float) -> float:
    """Return the most by which an integer energy may lie below the logarithm.

    A unit for its truncation; 2e-6 of a logarithm for the polynomial, with its rounding and that of the product; and 2^-22
    of the largest entry of the tables, which are those of 31 octaves.
    """
    return 1.0 + 4e-6 * logarithm + 2.5e-7 * (abs(at_one) + 22.0 * logarithm)
