"""Tables of the power moments I_b(x) = int_0^inf u^b phi(u - x) du, one per exponent.

Every quantity is stored as a function of t = c / (c + |x|), which maps each half line onto (0, 1] and both
asymptotic expansions onto a neighbourhood of t = 0, so one set of cells is right from x = 0 to infinity.
With s = c + |x| = c / t the stored functions are smooth, of order one, and lose no digit when unpacked:

=======  ==================  ==================================  ================
side     first               second                              third
=======  ==================  ==================================  ================
x >= 0   rho s               log I - b log s                     (log I)'' s^2
x < 0    K s, K = rho + x    log I + x^2/2 + (b + 1) log s       (log I)''
=======  ==================  ==================================  ================

The values come from integrals with positive integrands only: K = E[u], rho = b E[1/u] and
(log I)'' = -(b / K) E[(u - K)^2 / u] under the weight u^b phi(u - x). None of them cancels, neither in the
far tails nor where rho is small beside x. The trapezoidal rule in y with u = a log(1 + exp(y - exp(-y)))
takes the algebraic end at u = 0 and the Gaussian end at once.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEGREE = 7
LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
FAR = 20.0  # beyond it the end at u = 0 weighs less than exp(-200): a plain Gaussian window is enough
STEP = 0.15
TAIL = 45.0  # integrands are dropped below exp(-45) of their peak
TOLERANCE = 2e-14


@dataclass(frozen=True, eq=False)
class PowerTable:
    """Piecewise polynomials for one exponent; rows are cells of t, those of x >= 0 first, then those of x < 0.

    Attributes
    ----------
    beta
        The exponent b.
    scale
        The constant c of t = c / (c + |x|).
    cells
        Number of cells on each side.
    coefficients
        Shape (2 * cells, 3, DEGREE + 1), monomials in the cell's own coordinate in [-1/2, 1/2], constant first.
    """

    beta: float
    scale: float
    cells: int
    coefficients: Array


@lru_cache(maxsize=64)
def power_table(beta: float) -> PowerTable:
    """Table of the power moment of exponent `beta`, built once (some ten milliseconds) and kept.

    Examples
    --------
    >>> power_table(2.0).coefficients.shape[1:]
    (3, 8)
    """
    scale = 4.0 + math.sqrt(beta)
    cells = 128
    while True:
        coefficients = np.concatenate([_fit(beta, scale, cells, sign) for sign in (1.0, -1.0)])
        table = PowerTable(beta, scale, cells, np.ascontiguousarray(coefficients))
        if cells >= 2048 or _tail(table) < TOLERANCE:
            return table
        cells *= 2


def _fit(beta: float, scale: float, cells: int, sign: float) -> Array:
    """Coefficients of one side by interpolation in Chebyshev points of every cell, shape (cells, 3, DEGREE + 1)."""
    nodes = 0.5 * np.cos(np.pi * (np.arange(DEGREE + 1) + 0.5) / (DEGREE + 1))
    t = (np.arange(cells)[:, None] + 0.5 + nodes) / cells
    s = scale / t.ravel()
    x = sign * (s - scale)
    columns = _positive_side(x, s, beta) if sign > 0 else _negative_side(x, s, beta)
    values = np.stack(columns).reshape(3, cells, DEGREE + 1)
    inverse = np.linalg.inv(np.vander(nodes, increasing=True))
    return np.einsum("kj,qcj->cqk", inverse, values)


def _tail(table: PowerTable) -> float:
    """Largest share of the last coefficient in any stored value: the size of the interpolation error."""
    coefficients = table.coefficients
    if table.beta == 0.0:
        coefficients = coefficients[table.cells :, ::2]
    weight = np.array([1.0, 1.0 + table.beta, 1.0])[:: 2 if table.beta == 0.0 else 1]
    size = np.maximum(np.abs(coefficients[:, :, 0]), 1e-300)
    size[:, 1:-1] = np.maximum(size[:, 1:-1], weight[1:-1])
    return float(np.max(np.abs(coefficients[:, :, -1]) / size)) * 0.5**DEGREE / 2.0**DEGREE


def _positive_side(x: Array, s: Array, beta: float) -> tuple[Array, Array, Array]:
    if beta == 0.0:
        return np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
    log_i, rho, curvature = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    near = x < FAR + 2.0 * math.sqrt(beta)
    log_i[near], _, rho[near], curvature[near] = _near_moments(x[near], np.ones(near.sum()), beta)
    log_i[~near], rho[~near], curvature[~near] = _far_moments(x[~near], beta)
    return rho * s, log_i - beta * np.log(s), curvature * s * s


def _negative_side(x: Array, s: Array, beta: float) -> tuple[Array, Array, Array]:
    log_scaled, mean, _, curvature = _near_moments(x, 1.0 / (1.0 - x), beta)
    return mean * s, log_scaled + (beta + 1.0) * np.log(s), curvature


def _near_moments(x: Array, unit: Array, beta: float) -> tuple[Array, Array, Array, Array]:
    """Values (log I, K, rho, curvature) by the trapezoidal rule; log I without its -x^2/2 when x < 0."""
    start = math.log(max(beta, 1e-12) / TAIL) if beta > 0 else -math.log(TAIL)
    reach = x + math.sqrt(beta) + 10.0 if x[0] >= 0 else beta + TAIL + 10.0 * math.sqrt(beta)
    y = np.arange(start, np.max(reach), STEP)
    z = y - np.exp(-y)
    v = np.logaddexp(0.0, z)
    log_v = np.where(z < -30.0, z, np.log(np.maximum(v, 1e-300)))
    log_jacobian = (-np.logaddexp(0.0, -z) - log_v) + np.log1p(np.exp(-y))  # of dv / v
    u = unit[:, None] * v
    shifted = -0.5 * u * u + x[:, None] * u
    peak = (beta * log_v + shifted).max(axis=1)
    inverse = np.exp(shifted + (beta * log_v + log_jacobian) - peak[:, None])  # u^(b-1), up to units
    weight = inverse * v
    total = weight.sum(axis=1)
    mean = (weight @ v) / total * unit
    log_i = peak + np.log(total * STEP) + (beta + 1.0) * np.log(unit) - LOG_SQRT_TWO_PI
    log_i -= np.where(x > 0, 0.5 * x * x, 0.0)
    deviation = u - mean[:, None]
    if beta == 0.0:
        variance = np.einsum("ij,ij->i", weight, deviation * deviation) / total
        return log_i, mean, mean - x, variance - 1.0
    rho = np.where(x > 0, beta * inverse.sum(axis=1) / total / unit, mean - x)
    spread = np.einsum("ij,ij->i", inverse, deviation * deviation) / total / unit
    return log_i, mean, rho, -beta * spread / mean


def _far_moments(x: Array, beta: float) -> tuple[Array, Array, Array]:
    """Values (log I, rho, curvature) at large positive x, where the weight is a Gaussian times a slow power."""
    mode = 0.5 * (x + np.sqrt(x * x + 4.0 * beta))
    offset = np.arange(-9.5, 9.6, 0.25)
    u = mode[:, None] + offset
    shift = beta / mode  # of the mode from x
    weight = np.exp(beta * np.log1p(offset / mode[:, None]) - offset * (0.5 * offset + shift[:, None]))
    total = weight.sum(axis=1)
    mean = mode + (weight @ offset) / total
    log_i = beta * np.log(mode) - 0.5 * shift * shift + np.log(total * 0.25) - LOG_SQRT_TWO_PI
    rho = beta * (weight / u).sum(axis=1) / total
    spread = (weight * (u - mean[:, None]) ** 2 / u).sum(axis=1) / total
    return log_i, rho, -beta * spread / mean
