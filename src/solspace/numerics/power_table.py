"""Power moments I_b(x) = int_0^inf u^b phi(u - x) du: integrals that cannot cancel, and the tables made from them.

*Integrals.* Under the weight u^b phi(u - x) on u > 0, with K = E[u] and rho = (log I)', the first of these forms keep every
digit:  rho = b E[1/u] = K - x,  (log I)'' = -(b / K) E[(u - K)^2 / u] = Var[u] - 1.

*Table, double precision.* Functions of t = c / (c + |x|), smooth and of order one with s = c + |x| = c / t:

=======  ==================  ==================================  ================
side     first               second                              third
=======  ==================  ==================================  ================
x >= 0   rho s               log I - b log s                     (log I)'' s^2
x < 0    K s, K = rho + x    log I + x^2/2 + (b + 1) log s       (log I)''
=======  ==================  ==================================  ================

At b = 0 rho falls like exp(-x^2 / 2) on the positive side: there the negative side's cells give the Mills ratio.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.arrays import Doubles, vanishing

LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
STEP = 0.15
TAIL = 45.0  # integrands are dropped below exp(-45) of their peak
FAR = 20.0  # beyond it the end at u = 0 weighs less than exp(-200): a plain Gaussian window is enough
LARGE = 256.0  # exponents from which the end at u = 0 is out of reach at every x
OFFSETS = np.arange(-10.0, 14.1, 0.25)  # in units of the width at the mode; the slower fall is on the right
DEGREE = 7  # of the polynomials of the table
TOLERANCE = 2e-14
MOST_CELLS = 2048
SPACING = 1.0 / 32.0  # of the nodes in single precision


def positive_moments(x: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log I, rho, curvature) at x >= 0, for `beta` > 0."""
    if beta >= LARGE:
        log_scaled, _, rho, curvature = _peaked_moments(x, beta)
        return log_scaled, rho, curvature
    log_i, rho, curvature = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    near = x < FAR + 2.0 * math.sqrt(beta)
    if near.any():
        shifted, _, rho[near], curvature[near] = _near_moments(x[near], np.ones(near.sum()), beta)
        log_i[near] = shifted - 0.5 * x[near] ** 2
    log_i[~near], rho[~near], curvature[~near] = _far_moments(x[~near], beta)
    return log_i, rho, curvature


def negative_moments(x: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log I + x^2/2, K, curvature) at x <= 0."""
    moments = _peaked_moments(x, beta) if beta >= LARGE else _near_moments(x, 1.0 / (1.0 - x), beta)
    return moments[0], moments[1], moments[3]


def _near_moments(x: Doubles, unit: Doubles, beta: float) -> Doubles:
    """Return (log I + x^2/2, K, rho, curvature), all x on one side; u is counted in `unit`."""
    blocks = (slice(start, start + 64) for start in range(0, x.size, 64))  # small enough for the processor's cache
    return np.concatenate([_near_block(x[block], unit[block], beta) for block in blocks], axis=1)


def _near_block(x: Doubles, unit: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    start = math.log((beta or 1.0) / TAIL)
    reach = np.max(x) + math.sqrt(beta) + 10.0 if x[0] >= 0.0 else beta + TAIL + 10.0 * math.sqrt(beta)
    y = np.arange(start, reach, STEP)
    z = y - np.exp(-y)
    v = np.logaddexp(0.0, z)
    log_v = np.where(z < -30.0, z, np.log(np.maximum(v, 1e-300)))
    log_jacobian = (-np.logaddexp(0.0, -z) - log_v) + np.log1p(np.exp(-y))  # of dv / v
    u = unit[:, None] * v
    exponent = u * (x[:, None] - 0.5 * u)
    peak = (beta * log_v + exponent).max(axis=1)
    inverse = np.exp(exponent + (beta * log_v + log_jacobian) - peak[:, None])  # u^(b-1), up to units
    weight = inverse * v
    total = weight.sum(axis=1)
    mean = (weight @ v) / total * unit
    log_scaled = peak + np.log(total * STEP) + (beta + 1.0) * np.log(unit) - LOG_SQRT_TWO_PI
    deviation = u - mean[:, None]
    deviation *= deviation
    if beta == 0.0:
        variance = np.einsum("ij,ij->i", weight, deviation) / total
        return log_scaled, mean, mean - x, variance - 1.0
    rho = np.where(x > 0, beta * inverse.sum(axis=1) / total / unit, mean - x)
    spread = np.einsum("ij,ij->i", inverse, deviation) / total / unit
    return log_scaled, mean, rho, -beta * spread / mean


def _far_moments(x: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log I, rho, curvature) at large positive x, where the weight is a Gaussian times a slow power."""
    mode = 0.5 * (x + np.sqrt(x * x + 4.0 * beta))
    shift = beta / mode  # of the mode from x
    offset = np.arange(-9.5, 9.6, 0.25)
    u = mode[:, None] + offset
    weight = np.exp(beta * np.log1p(offset / mode[:, None]) - offset * (0.5 * offset + shift[:, None]))
    total = weight.sum(axis=1)
    mean = mode + (weight @ offset) / total
    log_i = beta * np.log(mode) - 0.5 * shift * shift + np.log(total * 0.25) - LOG_SQRT_TWO_PI
    rho = beta * (weight / u).sum(axis=1) / total
    spread = (weight * (u - mean[:, None]) ** 2 / u).sum(axis=1) / total
    return log_i, rho, -beta * spread / mean


def _peaked_moments(x: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return (log I, K, rho, curvature) for a large exponent; log I + x^2/2 at x < 0, where that is the smaller number.

    At u = mode (1 + d) the exponent b log u - (u - x)^2/2 is below its peak by b (d - log(1 + d)) + (mode d)^2/2.
    """
    root = np.sqrt(x * x + 4.0 * beta)
    mode = np.where(x < 0, 2.0 * beta / (root - np.minimum(x, 0.0)), 0.5 * (root + x))
    width = mode / np.sqrt(mode * mode + beta)
    offset = width[:, None] * OFFSETS
    d = offset / mode[:, None]
    weight = np.exp(beta * _log1p_less(d) - 0.5 * offset * offset)
    total = weight.sum(axis=1)
    shift = (weight * offset).sum(axis=1) / total
    mean = mode + shift
    inverse = weight / (1.0 + d)  # of 1/u, in units of 1/mode
    rho = beta / mode * inverse.sum(axis=1) / total
    spread = (inverse * (offset - shift[:, None]) ** 2).sum(axis=1) / (mode * total)
    exponent = np.where(x < 0, mode * (x - 0.5 * mode), -0.5 * (beta / mode) ** 2)
    log_i = beta * np.log(mode) + exponent + np.log(total * width * 0.25) - LOG_SQRT_TWO_PI
    return log_i, mean, rho, -beta * spread / mean


def _log1p_less(d: Doubles) -> Doubles:
    """Return log(1 + d) - d, by its series where the difference would cancel."""
    series = np.zeros_like(d)
    for k in range(24, 1, -1):
        series = (1.0 / k if k % 2 else -1.0 / k) + series * d
    with np.errstate(under="ignore"):
        return np.where(np.abs(d) < 0.2, series * d * d, np.log1p(d) - d)


class PowerTable(NamedTuple):
    """Piecewise polynomials for one exponent: t = scale / (scale + |x|), cells of x >= 0 first, then those of x < 0.

    `coefficients` (2 cells, 3, DEGREE + 1) are monomials in the cell's own coordinate in [-1/2, 1/2], constant first.
    """

    scale: float
    coefficients: Doubles


@lru_cache(maxsize=64)
@vanishing
def power_table(beta: float) -> PowerTable:
    """Return the table of exponent `beta`, built once."""
    scale = 4.0 + math.sqrt(beta)
    cells = 128 if beta == 0.0 or beta > 0.3 else 256
    while True:
        sides = [_fit(beta, scale, cells, sign) for sign in (1.0, -1.0)]
        if cells >= MOST_CELLS or max(map(_last_share, sides)) < TOLERANCE:
            return PowerTable(scale, np.ascontiguousarray(np.concatenate(sides)))
        cells *= 2


def _fit(beta: float, scale: float, cells: int, sign: float) -> Doubles:
    # one side by interpolation in Chebyshev points of every cell, (cells, 3, DEGREE + 1)
    nodes = 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    s = cells * scale / (np.arange(cells)[:, None] + 0.5 + nodes).ravel()
    x = sign * (s - scale)
    if sign < 0:
        log_scaled, mean, curvature = negative_moments(x, beta)
        columns = [mean * s, log_scaled + (beta + 1.0) * np.log(s), curvature]
    elif beta > 0.0:
        log_i, rho, curvature = positive_moments(x, beta)
        columns = [rho * s, log_i - beta * np.log(s), curvature * s * s]
    else:
        columns = [np.zeros_like(x)] * 3
    values = np.stack(columns).reshape(3, cells, DEGREE + 1)
    inverse = np.linalg.inv(np.vander(nodes, increasing=True))
    return np.einsum("kj,qcj->cqk", inverse, values)


def _last_share(side: Doubles) -> float:
    """Largest share of the last coefficient in the first and third value of any cell: their interpolation error."""
    size = np.maximum(np.abs(side[:, ::2, 0]), 1e-300)
    return float(np.max(np.abs(side[:, ::2, -1]) / size)) * 0.25**DEGREE


@lru_cache(maxsize=64)
@vanishing
def power_nodes(beta: float) -> tuple[NDArray[np.uint64], np.float32, NDArray[np.float32]]:
    """Return tables of single precision for an exponent `beta` > 0: nodes, reach, polynomials.

    The nodes are pairs (rho, curvature) at spacing SPACING from -reach to reach, each pair packed into 64 bits. Polynomials
    (4, 6) in (reach / x)^2 follow beyond: rho x and curvature x^2 at x > 0, K |x| and curvature at x < 0.
    """
    reach = math.ceil(8.0 + 2.0 * math.sqrt(beta))
    right = np.arange(0.0, reach + 0.5 * SPACING, SPACING)
    left = -right[:0:-1]
    _, rho, curvature = positive_moments(right, beta)
    _, mean, below = negative_moments(left, beta)
    nodes = np.stack([np.concatenate([mean - left, rho]), np.concatenate([below, curvature])], axis=1)
    y = 0.5 + 0.5 * np.cos(np.pi * (np.arange(32) + 0.5) / 32)
    size = reach / np.sqrt(y)
    rho_s, right = _read(size, 0, beta)
    mean_s, left = _read(size, 1, beta)
    reciprocal = 1.0 / (power_table(beta).scale + size)
    right = right * reciprocal * reciprocal
    mean = (beta - left) / (mean_s * reciprocal + size)
    far = [_relative_fit(y, v, 5) for v in (rho_s * reciprocal * size, right * size**2, mean * size, left)]
    return nodes.astype(np.float32).view(np.uint64)[:, 0], np.float32(reach), np.array(far, dtype=np.float32)


@lru_cache(maxsize=1)
@vanishing
def normal_mean() -> tuple[NDArray[np.float32], np.float32]:
    """Return the coefficients of K s in 2 t - 1 (13,), highest power first, at b = 0 and x <= 0, and a constant c.

    Here s = c + |x|, t = c / s and K is the mean of a Gaussian of mean x cut to the positive half line.
    """
    scale = 3.0
    y = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    s = 2.0 * scale / (1.0 + y)
    mean_s, curvature = _read(s - scale, 1, 0.0)
    mills = 1.0 / (mean_s / (power_table(0.0).scale + s - scale) + (s - scale))
    return _relative_fit(y, -curvature * mills * s, 12)[::-1].astype(np.float32), np.float32(scale)


def _read(size: Doubles, side: int, beta: float) -> tuple[Doubles, Doubles]:
    """Return the first and the third function of the table at |x| = `size`; `side` is 0 for x >= 0, 1 for x < 0."""
    scale, coefficients = power_table(beta)
    cells = len(coefficients) // 2
    position = cells * (scale / (scale + size))
    cell = np.minimum(position.astype(np.int64), cells - 1)
    y, rows = position - (cell + 0.5), coefficients[cell + cells * side]
    value = rows[:, :, -1]
    for k in range(DEGREE - 1, -1, -1):
        value = value * y[:, None] + rows[:, :, k]
    return value[:, 0], value[:, 2]


def _relative_fit(y: Doubles, values: Doubles, degree: int) -> Doubles:
    return np.asarray(np.polynomial.polynomial.polyfit(y, values, degree, w=1.0 / values), dtype=np.float64)
