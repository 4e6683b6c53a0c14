"""Power moments of a Gaussian on the half line, and the first two derivatives of their logarithm.

    I_b(x) = int_0^inf u^b phi(u - x) du = Gamma(b + 1) / sqrt(2 pi) exp(-x^2 / 4) D_{-b-1}(-x)

for every real b >= 0 and every x. With rho = (log I_b)' the mean of u under the weight is K = rho + x and
(log I_b)'' = b - rho K; both forms cancel somewhere, so compiled loops read values from a table (`power_table`) of
functions that do not. Importing this module imports Numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Channel, Reals
from solspace.numerics.power_table import DEGREE, SPACING, normal_mean, power_nodes, power_table
from solspace.system.compiled import FAST, njit
from solspace.system.threads import PIECE, split

TILE = 1024
INLINED = FAST | {"inline": "always"}  # compiled once, with the caller
INVERSE_SQRT_TWO_PI = 1.0 / math.sqrt(2.0 * math.pi)
_f = np.float32


def common_precision(*values: ArrayLike) -> type[np.floating]:
    """Return float32 if every array among `values` is float32 (plain Python numbers do not count), else float64.

    >>> common_precision(np.zeros(3, dtype=np.float32), 0.5).__name__
    'float32'
    """
    arrays = [v if isinstance(v, (np.ndarray, np.generic, float, int)) else np.asarray(v) for v in values]
    return np.float32 if np.result_type(*arrays) == np.float32 else np.float64


def log_power_moment(x: ArrayLike, beta: float) -> Channel:
    """Return log I_b(x) and its first two derivatives for real `beta` >= 0, elementwise.

    Relative accuracy is near rounding from x = -infinity to +infinity; float32 in, float32 out.

    >>> log_i, rho, curvature = log_power_moment([-1000.0, 0.0], 0)
    >>> rho
    array([1.00000100e+03, 7.97884561e-01])
    """
    return gaussian_power(x, 1.0, beta)


def gaussian_power(omega: ArrayLike, variance: ArrayLike, beta: float, scaled: bool = False) -> Channel:
    """Return log E[s^beta; s > 0] of s ~ N(omega, variance) and its first two derivatives in omega, elementwise.

    E[s^beta; s > 0] = V^(beta/2) I_beta(omega / sqrt(V)). `scaled` leaves out the -omega^2 / (2 variance) of the logarithm
    at omega < 0.
    """
    if not beta >= 0.0:
        raise ValueError(f"the exponent beta must be at least 0; got {beta!r}.")
    dtype = common_precision(omega, variance)
    shape = np.broadcast_shapes(np.shape(omega), np.shape(variance))
    field = np.asarray(omega, dtype=dtype)
    if field.shape != shape:
        field = np.broadcast_to(field, shape).copy()
    field = np.ascontiguousarray(field).reshape(-1)
    spread = _tile(np.asarray(variance), shape)
    results = np.empty_like(field), np.empty_like(field), np.empty_like(field)
    _moments(field, spread, float(beta), *results, scaled)
    log_z, g, dg = (r.reshape(shape)[()] for r in results)
    return log_z, g, dg


def gaussian_power_derivatives(
    omega: Reals, variance: ArrayLike, beta: float, out: tuple[Reals, Reals] | None = None
) -> tuple[Reals, Reals]:
    """Return the two derivatives of `gaussian_power` alone, fast, in the precision of `omega`.

    `omega` is (m, k), `variance` a scalar, (k,) or (m, k). With `out`, two C-contiguous arrays (m, k) of the same type,
    nothing of that size is allocated.
    """
    dtype = np.float32 if omega.dtype == np.float32 else np.float64
    field: Reals = np.ascontiguousarray(omega, dtype=dtype)
    g, dg = out if out is not None else (np.empty_like(field), np.empty_like(field))
    for result in (g, dg):
        if result.shape != field.shape or result.dtype != dtype or not result.flags.c_contiguous:
            raise ValueError(
                f"out must hold two C-contiguous arrays of shape {field.shape} and type {np.dtype(dtype)}."
            )
    spread = _tile(np.asarray(variance), field.shape)
    flat, flat_g, flat_dg = field.reshape(-1), g.reshape(-1), dg.reshape(-1)
    if dtype == np.float32:
        _single(flat, spread, float(beta), flat_g, flat_dg)
    else:
        _moments(flat, spread, float(beta), np.empty(0), flat_g, flat_dg)
    return g, dg


def _tile(variance: Reals, shape: tuple[int, ...]) -> Reals:
    """Return the variance as long as the flat field, or as a tile that repeats along it."""
    if variance.size == 1:
        return np.full(TILE, variance.reshape(-1)[0])
    if variance.shape == shape[-1:]:
        return np.tile(variance, -(-TILE // variance.size))
    return np.ascontiguousarray(np.broadcast_to(variance, shape)).reshape(-1)


# A variance of zero, as of columns that only fill up a block, yields infinities that are not used. Threads do not inherit
# NumPy's error state, so each task sets it again.


def _moments(field: Reals, spread: Reals, beta: float, log_z: Reals, g: Reals, dg: Reals, scaled: bool = False) -> None:
    """Fill (log Z, g, dg) of a flat field by way of double precision; an empty `log_z` is left out."""
    scale, coefficients = power_table(beta)
    full = spread.size == field.size

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        own = np.asarray(spread[part] if full else spread, dtype=np.float64)
        with np.errstate(all="ignore"):
            shift = 0.5 * beta * np.log(own) if log_z.size else own
            inverse = 1.0 / np.sqrt(own)
        gauss = 0.0 if scaled else 0.5
        _read_table(coefficients, scale, beta, gauss, field[part], inverse, shift, log_z[part], g[part], dg[part])

    split(task, field.size, TILE if full else spread.size, PIECE)


def _single(field: Reals, spread: Reals, beta: float, g: Reals, dg: Reals) -> None:
    """Fill (g, dg) of a flat float32 field by the vectorised loops."""
    full = spread.size == field.size
    block = TILE if full else spread.size
    loop: Any = _derivatives_single if beta > 0.0 else _normal_derivatives_single
    tables: tuple[Any, ...] = power_nodes(beta) if beta > 0.0 else normal_mean()

    def task(start: int, stop: int) -> None:
        part = slice(start, stop)
        with np.errstate(all="ignore"):
            inverse = 1.0 / np.sqrt(spread[part] if full else spread, dtype=np.float32 if beta else np.float64)
        loop(field[part], inverse, block, *tables, g[part], dg[part])

    split(task, field.size, block, PIECE)


# Fields arrive flat in the loops, together with `inverse` = 1 / sqrt(V), as long as the field or a tile that is repeated along
# it. Those of single precision become vector code: no branch but selects, and table look-ups in a loop of their own.


@njit(**FAST)
def _read_table(coefficients, scale, beta, gauss, omega, inverse, shift, log_z, g, dg):
    """Fill log I + shift (unless `log_z` is empty), rho / sqrt(V) and curvature / V; at x < 0 log I holds -gauss x^2."""
    want_log = log_z.size > 0
    cells = coefficients.shape[0] // 2
    tile = inverse.size
    for start in range(0, omega.size, tile):
        part = omega[start : start + tile]
        log_part = log_z[start if want_log else 0 :]
        g_part, dg_part = g[start : start + tile], dg[start : start + tile]
        for i in range(part.size):
            x = part[i] * inverse[i]
            size = abs(x)
            s = scale + size
            reciprocal = 1.0 / s
            position = cells * (scale * reciprocal)
            cell = 0
            if position >= 1.0:  # false for NaN, which must not become an index
                cell = min(int(position), cells - 1)
            y = position - (cell + 0.5)
            if x < 0.0 or beta == 0.0:
                cell += cells
            row = coefficients[np.uint64(cell)]
            first, second, third = row[0, DEGREE], row[1, DEGREE], row[2, DEGREE]
            for k in range(DEGREE - 1, -1, -1):
                first = first * y + row[0, k]
                second = second * y + row[1, k]
                third = third * y + row[2, k]
            first *= reciprocal
            negative = x < 0.0
            argument, factor, rest = s, beta, second
            if beta > 0.0:
                rho = first
                factor = -(beta + 1.0) if negative else beta
                third = third if negative else third * reciprocal * reciprocal
            else:
                density = math.exp(-0.5 * x * x) * INVERSE_SQRT_TWO_PI
                upper = density / (first + size)
                lower = 1.0 - upper
                rho = density / lower
                argument = s if negative else lower
                factor = -1.0 if negative else 1.0
                rest = second if negative else ((1.0 - lower) - upper) / lower  # log1p(-upper) from log(1 - upper)
                third = third if negative else -rho * (rho + x)
            rho = first + size if negative else rho
            if want_log:
                log_i = rest + factor * math.log(argument) - (gauss * x * x if negative else 0.0)
                log_part[i] = log_i + shift[i]
            g_part[i] = rho * inverse[i]
            dg_part[i] = third * inverse[i] * inverse[i]


@njit(**FAST)
def _derivatives_single(omega, inverse, block, nodes, reach, far, g, dg):
    """Fill g and dg in single precision, b > 0: Taylor's series about a node within `reach`, powers of 1/x^2 beyond.

    `nodes` holds (rho, curvature) at spacing SPACING as pairs packed into 64 bits. All higher derivatives follow from
    the Riccati equation rho' = b - rho (rho + x), so two numbers per element are looked up instead of eight.
    """
    index = np.empty(block, np.int32)
    packed = np.empty(block, np.uint64)
    pairs = packed.view(np.float32)
    full = inverse.size == omega.size
    for start in range(0, omega.size, block):
        x = omega[start : start + block]
        scale = inverse[start : start + x.size] if full else inverse[: x.size]
        beyond = _index(x, scale, reach, index)
        for i in range(x.size):
            packed[i] = nodes[np.uint32(index[i])]
        _taylor(x, scale, reach, index, pairs, g[start : start + block], dg[start : start + block])
        if beyond:
            _asymptotic(x, scale, reach, far, g[start : start + block], dg[start : start + block])


@njit(**INLINED)
def _index(omega, inverse, reach, index):
    beyond = 0
    for i in range(omega.size):
        x = omega[i] * inverse[i]
        near = x if x > -reach else -reach  # also for NaN
        near = near if near < reach else reach
        beyond |= x != near
        index[i] = np.int32((near + reach) * _f(1.0 / SPACING) + _f(0.5))
    return beyond


@njit(**INLINED)
def _taylor(omega, inverse, reach, index, pairs, g, dg):
    for i in range(omega.size):
        scale = inverse[i]
        node = _f(index[i]) * _f(SPACING) - reach
        h = omega[i] * scale - node
        r, c1 = pairs[2 * i], pairs[2 * i + 1]
        q = _f(2.0) * r + node
        c2 = -(c1 * q + r)
        c3 = -(c2 * q + _f(2.0) * c1 * (c1 + _f(1.0)))
        c4 = -(c3 * q + _f(3.0) * c2 * (_f(2.0) * c1 + _f(1.0)))
        g[i] = scale * (r + h * (c1 + h * (_f(0.5) * c2 + h * (_f(1.0 / 6.0) * c3))))
        dg[i] = scale * scale * (c1 + h * (c2 + h * (_f(0.5) * c3 + h * (_f(1.0 / 6.0) * c4))))


@njit(**INLINED)
def _asymptotic(omega, inverse, reach, far, g, dg):
    p0, p1, p2, p3, p4, p5 = far[0, 0], far[0, 1], far[0, 2], far[0, 3], far[0, 4], far[0, 5]
    q0, q1, q2, q3, q4, q5 = far[1, 0], far[1, 1], far[1, 2], far[1, 3], far[1, 4], far[1, 5]
    n0, n1, n2, n3, n4, n5 = far[2, 0], far[2, 1], far[2, 2], far[2, 3], far[2, 4], far[2, 5]
    m0, m1, m2, m3, m4, m5 = far[3, 0], far[3, 1], far[3, 2], far[3, 3], far[3, 4], far[3, 5]
    for i in range(omega.size):
        scale = inverse[i]
        x = omega[i] * scale
        size = abs(x)
        reciprocal = _f(1.0) / size
        y = (reach * reciprocal) * (reach * reciprocal)
        right = (p0 + y * (p1 + y * (p2 + y * (p3 + y * (p4 + y * p5))))) * reciprocal
        left = (n0 + y * (n1 + y * (n2 + y * (n3 + y * (n4 + y * n5))))) * reciprocal + size
        right_curvature = (q0 + y * (q1 + y * (q2 + y * (q3 + y * (q4 + y * q5))))) * reciprocal * reciprocal
        left_curvature = m0 + y * (m1 + y * (m2 + y * (m3 + y * (m4 + y * m5))))
        g[i] = (scale * (left if x < _f(0.0) else right)) if size > reach else g[i]
        dg[i] = (scale * scale * (left_curvature if x < _f(0.0) else right_curvature)) if size > reach else dg[i]


@njit(**FAST)
def _normal_derivatives_single(omega, inverse, block, mean, scale, g, dg):
    """Fill g and dg in single precision, b = 0; `mean` holds the polynomial of K s in 2 t - 1, highest power first.

    The exponent x^2 / 2 is formed and reduced in double precision, in a loop of its own: at x = 13 its rounding in
    single precision alone would cost a relative 1e-5 of rho = phi / Phi.
    """
    x = np.empty(block, np.float32)
    rest = np.empty(block, np.float32)
    power = np.empty(block, np.int32)
    full = inverse.size == omega.size
    for start in range(0, omega.size, block):
        part = omega[start : start + block]
        scales = inverse[start : start + part.size] if full else inverse[: part.size]
        _reduce(part, scales, x, rest, power)
        _hazard(x, rest, power, mean, scale, g[start : start + block], dg[start : start + block])
        for i in range(part.size):
            factor = _f(scales[i])
            g[start + i] *= factor
            dg[start + i] *= factor * factor


@njit(**INLINED)
def _reduce(omega, inverse, x, rest, power):
    """Split exp(-x^2 / 2) into exp(rest) 2^power, abs(rest) <= 0.35; power = -127 stands for zero."""
    for i in range(omega.size):
        field = omega[i] * inverse[i]
        exponent = -0.5 * field * field
        exponent = exponent if exponent > -86.0 else -88.0  # zero before denormal numbers make it slow
        twos = np.int32(exponent * 1.4426950408889634 - 0.5)  # of a negative number: rounds to nearest
        x[i] = field
        rest[i] = exponent - twos * 0.6931471805599453
        power[i] = twos


@njit(**INLINED)
def _hazard(x, rest, power, mean, scale, rho, curvature):
    a, b, c, d, e, f = mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]
    h, k, n, p, q, r, t = mean[6], mean[7], mean[8], mean[9], mean[10], mean[11], mean[12]
    for i in range(rho.size):
        size = abs(x[i])
        reciprocal = _f(1.0) / (scale + size)
        y = _f(2.0) * scale * reciprocal - _f(1.0)
        value = ((((((a * y + b) * y + c) * y + d) * y + e) * y + f) * y + h) * y + k
        value = ((((value * y + n) * y + p) * y + q) * y + r) * y + t
        distance = value * reciprocal
        z = rest[i]
        series = _f(1.0 / 6.0) + z * (_f(1.0 / 24.0) + z * (_f(1.0 / 120.0) + z * _f(1.0 / 720.0)))
        series = _f(INVERSE_SQRT_TWO_PI) * (_f(1.0) + z * (_f(1.0) + z * (_f(0.5) + z * series)))
        density = series * np.int32((power[i] + np.int32(127)) << np.int32(23)).view(np.float32)
        upper = distance + size
        finite = _f(1e30) if upper > _f(1e30) else upper  # NaN stays NaN
        right = density * (finite / (finite - density))
        result = upper if x[i] < _f(0.0) else right
        rho[i] = result
        curvature[i] = -result * (distance if x[i] < _f(0.0) else result + size)
