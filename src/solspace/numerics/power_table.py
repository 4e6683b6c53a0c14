"""Tables of the power moments I_b(x) = int_0^inf u^b phi(u - x) du, one per exponent, in double precision.

Every quantity is stored as a function of t = c / (c + |x|), which maps each half line onto (0, 1] and both
asymptotic expansions onto a neighbourhood of t = 0, so one set of cells is right from x = 0 to infinity.
With s = c + |x| = c / t the stored functions are smooth, of order one, and lose no digit when unpacked:

=======  ==================  ==================================  ================
side     first               second                              third
=======  ==================  ==================================  ================
x >= 0   rho s               log I - b log s                     (log I)'' s^2
x < 0    K s, K = rho + x    log I + x^2/2 + (b + 1) log s       (log I)''
=======  ==================  ==================================  ================

At b = 0 (the normal distribution function) rho falls like exp(-x^2 / 2) on the positive side: there the negative side's
cells give the Mills ratio and the exponential is taken apart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from solspace.numerics.arrays import Bools, Doubles
from solspace.numerics.power_integrals import LOG_SQRT_TWO_PI, negative_moments, positive_moments
from solspace.numerics.tails import vanishing

DEGREE = 7
TOLERANCE = 2e-14
MOST_CELLS = 2048


@dataclass(frozen=True, eq=False)
class PowerTable:
    """Piecewise polynomials for one exponent; rows are cells of t, those of x >= 0 first, then those of x < 0.

    Attributes
    ----------
    beta
        The exponent b.
    scale
        The constant c of t = c / (c + |x|).
    coefficients
        Shape (2 cells, 3, DEGREE + 1), monomials in the cell's own coordinate in [-1/2, 1/2], constant first.
    """

    beta: float
    scale: float
    coefficients: Doubles


@lru_cache(maxsize=64)
@vanishing
def power_table(beta: float) -> PowerTable:
    """Table of the power moment of exponent `beta`, built once (some ten milliseconds) and kept.

    Examples
    --------
    >>> power_table(2.0).coefficients.shape
    (256, 3, 8)
    """
    scale = 4.0 + math.sqrt(beta)
    cells = 128 if beta == 0.0 or beta > 0.3 else 256
    while True:
        sides = [_fit(beta, scale, cells, sign) for sign in (1.0, -1.0)]
        if cells >= MOST_CELLS or max(map(_last_share, sides)) < TOLERANCE:
            return PowerTable(beta, scale, np.ascontiguousarray(np.concatenate(sides)))
        cells *= 2


def _fit(beta: float, scale: float, cells: int, sign: float) -> Doubles:
    """Coefficients of one side by interpolation in Chebyshev points of every cell, shape (cells, 3, DEGREE + 1)."""
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


@vanishing
def evaluate(x: Doubles, table: PowerTable, scaled: bool = False) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log I, rho, curvature) of a flat array, by NumPy alone; `scaled` leaves out -x^2/2 of log I at x < 0.

    Examples
    --------
    >>> log_i, rho, curvature = evaluate(np.array([0.0]), power_table(0.0))
    >>> round(float(rho[0]), 12) == round((2 / np.pi) ** 0.5, 12)
    True
    """
    out = np.empty((3, x.size))
    unpack = _normal if table.beta == 0.0 else _power
    for start in range(0, x.size, 1 << 14):
        block = slice(start, start + (1 << 14))
        out[:, block] = unpack(x[block], table, scaled)
    return out[0], out[1], out[2]


def _power(x: Doubles, table: PowerTable, scaled: bool) -> tuple[Doubles, Doubles, Doubles]:
    s = table.scale + np.abs(x)
    log_s = np.log(s)
    negative = x < 0
    first, second, third = _polynomials(s, negative, table)
    reciprocal = 1.0 / s
    first *= reciprocal
    rho = np.where(negative, first - x, first)
    curvature = np.where(negative, third, third * reciprocal * reciprocal)
    below = second - (table.beta + 1.0) * log_s
    if not scaled:
        below -= 0.5 * x * x
    return np.where(negative, below, second + table.beta * log_s), rho, curvature


def _normal(x: Doubles, table: PowerTable, scaled: bool) -> tuple[Doubles, Doubles, Doubles]:
    size = np.abs(x)
    s = table.scale + size
    first, _, third = _polynomials(s, np.ones(x.shape, dtype=bool), table)
    mills = 1.0 / (first / s + size)  # Phi(-|x|) / phi(x)
    with np.errstate(under="ignore"):
        density = np.exp(-0.5 * x * x - LOG_SQRT_TWO_PI)
        upper = density * mills
        rho = np.where(x < 0, 1.0 / mills, density / (1.0 - upper))
        curvature = np.where(x < 0, third, -rho * (rho + x))
    below = np.log(mills) - LOG_SQRT_TWO_PI
    if not scaled:
        below -= 0.5 * x * x
    return np.where(x < 0, below, np.log1p(-upper)), rho, curvature


def _polynomials(s: Doubles, negative: Bools, table: PowerTable) -> Doubles:
    cells = table.coefficients.shape[0] // 2
    position = cells * (table.scale / s)
    cell = np.minimum(np.where(position >= 1.0, position, 0.0).astype(np.int64), cells - 1)  # 0 for NaN
    y = position - (cell + 0.5)
    coefficients = table.coefficients[cell + cells * negative]
    value = coefficients[:, :, -1]
    for k in range(DEGREE - 1, -1, -1):
        value = value * y[:, None] + coefficients[:, :, k]
    return np.ascontiguousarray(value.T)
