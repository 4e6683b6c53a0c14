"""A lower bound on the energy of logarithms, at a third of its cost: a sum of logarithms is the logarithm of a product.

A potential -L log t, t the fixed-point stability counted from its wall, sums to -L log Π t over the constraints. A product
takes a conversion and a multiplication where the integer energy takes a polynomial and two tables. Stabilities beyond the
wall count as t = 1, which is higher still in truth, so that what comes out is never above the sum of integer energies,
less what those may be rounded down by. A proposal that this rejects is one that the energies would reject: chains are the
same bit for bit, on every processor, however products are rounded.

Twice sixteen products run side by side in float32. Factors are scaled by their geometric mean, four at a time; what would
underflow is lifted, which lowers the bound, and what overflows makes it -∞: nothing is rejected.
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
from solspace.samplers.kernels.energies import AT_ONE
from solspace.samplers.kernels.machine_vectors import (
    FLOATS,
    I32,
    Emitter,
    _function,
    _same,
    _splat,
    add,
    float_of,
    floats,
    intrinsic,
    ints,
    load,
    subtract,
)  # isort: skip  # fmt: skip

BLOCK = 1024
"""Constraints whose product float32 holds: 8 times 4 factors to each of twice sixteen lanes."""
LEAST, LEAST_LANE, LEAST_WHOLE = 2.0**-15, 2.0**-30, 2.0**-900
"""What four scaled factors, a lane's product and that of all blocks are kept above, so that none underflows further on."""
_LOG2E = 1 / math.log(2.0)


@intrinsic
def _ones(typing: BaseContext) -> Emitter:
    """Return floats of one."""
    return _function(floats, (), lambda b: _same(FLOATS, 1.0))


@intrinsic
def _times(typing: BaseContext, product: Type, s: Type, t: Type, u: Type, v: Type, scale: Type) -> Emitter:
    """Return `product` times `scale` and four ints, each of which counts as 1 at least, all five as LEAST at least."""

    def emit(b: IRBuilder, x: Value, *given: Value) -> Value:
        *factors, scaling = given
        one, least = _same(FLOATS, 1.0), _same(FLOATS, LEAST)
        s, t, u, v = (_larger(b, b.sitofp(factor, FLOATS), one) for factor in factors)
        # no factor exceeds 2^30, so that four of them do not overflow
        scaled = b.fmul(b.fmul(b.fmul(s, t), b.fmul(u, v)), _splat(b, b.fptrunc(scaling, ir.FloatType()), FLOATS))
        return b.fmul(x, _larger(b, scaled, least))

    return _function(floats, (floats, ints, ints, ints, ints, types.float64), emit)


@intrinsic
def _whole(typing: BaseContext, one: Type, two: Type) -> Emitter:
    """Return the product of all of twice sixteen floats."""

    def emit(b: IRBuilder, x: Value, y: Value) -> Value:
        least = _same(FLOATS, LEAST_LANE)
        product = _halved(b, b.fmul(_larger(b, x, least), _larger(b, y, least)))
        product = b.fpext(product, ir.VectorType(ir.DoubleType(), 8))
        for _ in range(3):
            product = _halved(b, product)
        return b.extract_element(product, ir.Constant(I32, 0))

    return _function(types.float64, (floats, floats), emit)


def _halved(b: IRBuilder, x: Value) -> Value:
    """Return the products of the first and the second half of a vector's lanes."""
    half = x.type.count // 2
    first, second = (
        b.shuffle_vector(x, x, ir.Constant(ir.VectorType(I32, half), list(range(start, start + half))))
        for start in (0, half)
    )
    return b.fmul(first, second)


def _larger(b: IRBuilder, x: Value, y: Value) -> Value:
    return b.select(b.fcmp_ordered(">", x, y), x, y)


def _product(sign: int) -> Callable[..., float]:
    """Return the function that multiplies all stabilities less `sign` times a column."""

    @numba.njit(inline="always")
    def four(product, states, at, columns, column, scale):
        s, t, u, v = load(states, at), load(states, at + 16), load(states, at + 32), load(states, at + 48)
        w, x = load(columns, column), load(columns, column + 16)
        y, z = load(columns, column + 32), load(columns, column + 48)
        if sign > 0:
            return _times(product, subtract(s, w), subtract(t, x), subtract(u, y), subtract(v, z), scale)
        return _times(product, add(s, w), add(t, x), add(u, y), add(v, z), scale)

    @numba.njit
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


product_down, product_up = _product(1), _product(-1)
"""(states, at, size, columns, column, scale) -> the product of the `size` stabilities from `at` on less or plus a column, each
times the fourth root of `scale`; or more.
"""


@numba.njit
def bound(size: int, energy: int, met: bool, logarithm: float, form: Array) -> tuple[float, float]:
    """Return (least, scale): `size` constraints have an energy of at least `least` - `logarithm` · log(product(…, scale)).

    Factors are scaled by their geometric mean, which the `energy` tells where all constraints are `met`.
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
