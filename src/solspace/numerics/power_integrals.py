"""Power moments of a Gaussian on the half line from integrals that cannot cancel; what the tables are built from.

Under the weight u^b phi(u - x) on u > 0, with K = E[u] and rho = (log I)',

    rho = b E[1/u] = K - x,     (log I)'' = -(b / K) E[(u - K)^2 / u] = Var[u] - 1.

The first forms have positive integrands and keep every digit where the second ones subtract nearly equal numbers (rho
at large positive x, where it is b / x beside x). The trapezoidal rule in y, with u = a log(1 + exp(y - exp(-y))), takes
the algebraic end at u = 0 (double exponential in y, for any b > 0) and the Gaussian end alike. It spans b units of u,
so for large exponents it gives way to a rule about the mode: there the weight is a Gaussian of relative width
1/sqrt(b) but for small corrections, at every x, and a hundred nodes are enough however large b is.
"""

from __future__ import annotations

import math

import numpy as np

from solspace.numerics.arrays import Doubles

LOG_SQRT_TWO_PI = 0.5 * math.log(2.0 * math.pi)
STEP = 0.15
TAIL = 45.0  # integrands are dropped below exp(-45) of their peak
FAR = 20.0  # beyond it the end at u = 0 weighs less than exp(-200): a plain Gaussian window is enough
LARGE = 256.0  # exponents from which the end at u = 0 is out of reach at every x
OFFSETS = np.arange(-10.0, 14.1, 0.25)  # in units of the width at the mode; the slower fall is on the right


def positive_moments(x: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log I, rho, curvature) at x >= 0, for `beta` > 0.

    Examples
    --------
    >>> log_i, rho, curvature = positive_moments(np.array([1000.0]), 1.0)
    >>> round(float(1000 * rho[0]), 12)
    1.0
    """
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
    """Return (log I + x^2/2, K, curvature) at x <= 0.

    Examples
    --------
    >>> log_scaled, mean, curvature = negative_moments(np.array([-1000.0]), 0.0)
    >>> round(float(mean[0]), 12)
    0.000999998
    """
    if beta >= LARGE:
        log_scaled, mean, _, curvature = _peaked_moments(x, beta)
        return log_scaled, mean, curvature
    log_scaled, mean, _, curvature = _near_moments(x, 1.0 / (1.0 - x), beta)
    return log_scaled, mean, curvature


def _near_moments(x: Doubles, unit: Doubles, beta: float) -> Doubles:
    """Return (log I + x^2/2, K, rho, curvature), all x on one side; u is counted in `unit`."""
    out = np.empty((4, x.size))
    for start in range(0, x.size, 64):  # small enough for the processor's cache
        part = slice(start, start + 64)
        out[:, part] = _near_block(x[part], unit[part], beta)
    return out


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

    At u = mode (1 + d) the exponent b log u - (u - x)^2/2 is below its peak by b (d - log(1 + d)) + (mode d)^2/2: the
    linear terms, each of order sqrt(b), cancel and are left out.
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
