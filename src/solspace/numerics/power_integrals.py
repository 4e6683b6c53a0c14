"""Power moments of a Gaussian on the half line from integrals that cannot cancel; what the tables are built from.

Under the weight u^b phi(u - x) on u > 0, with K = E[u] and rho = (log I)',

    rho = b E[1/u] = K - x,     (log I)'' = -(b / K) E[(u - K)^2 / u] = Var[u] - 1.

The first forms have positive integrands and keep every digit where the second ones subtract nearly equal numbers (rho
at large positive x, where it is b / x beside x). The trapezoidal rule in y, with u = a log(1 + exp(y - exp(-y))), takes
the algebraic end at u = 0 (double exponential in y, for any b > 0) and the Gaussian end alike.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
STEP = 0.15
TAIL = 45.0  # integrands are dropped below exp(-45) of their peak
FAR = 20.0  # beyond it the end at u = 0 weighs less than exp(-200): a plain Gaussian window is enough


def positive_moments(x: Array, beta: float) -> tuple[Array, Array, Array]:
    """Return (log I, rho, curvature) at x >= 0, for `beta` > 0.

    Examples
    --------
    >>> log_i, rho, curvature = positive_moments(np.array([1000.0]), 1.0)
    >>> round(float(1000 * rho[0]), 12)
    1.0
    """
    log_i, rho, curvature = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    near = x < FAR + 2.0 * math.sqrt(beta)
    if near.any():
        shifted, _, rho[near], curvature[near] = _near_moments(x[near], np.ones(near.sum()), beta)
        log_i[near] = shifted - 0.5 * x[near] ** 2
    log_i[~near], rho[~near], curvature[~near] = _far_moments(x[~near], beta)
    return log_i, rho, curvature


def negative_moments(x: Array, beta: float) -> tuple[Array, Array, Array]:
    """Return (log I + x^2/2, K, curvature) at x <= 0.

    Examples
    --------
    >>> log_scaled, mean, curvature = negative_moments(np.array([-1000.0]), 0.0)
    >>> round(float(mean[0]), 12)
    0.000999998
    """
    log_scaled, mean, _, curvature = _near_moments(x, 1.0 / (1.0 - x), beta)
    return log_scaled, mean, curvature


def _near_moments(x: Array, unit: Array, beta: float) -> Array:
    """Return (log I + x^2/2, K, rho, curvature), all x on one side; u is counted in `unit`."""
    out = np.empty((4, x.size))
    for start in range(0, x.size, 64):  # small enough for the processor's cache
        part = slice(start, start + 64)
        out[:, part] = _near_block(x[part], unit[part], beta)
    return out


def _near_block(x: Array, unit: Array, beta: float) -> tuple[Array, Array, Array, Array]:
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


def _far_moments(x: Array, beta: float) -> tuple[Array, Array, Array]:
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
