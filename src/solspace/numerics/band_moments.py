"""Moments of a Gaussian under a weight that vanishes like a power at both ends of a band, for every real exponent.

    Z(x, d) = int_{-1}^{1} (1 - y^2)^b N(d y; x, 1) d dy,      z = d y - x

with d the half width of the band and x >= 0 the field, in units of the Gaussian's width: log Z, E z and Var z - 1. Four rules
follow where the mass is: *across* both walls by Gauss-Gegenbauer, whose nodes y and -y go together; at one *wall* by
Gauss-Jacobi; *inside* by the trapezoidal rule about the field, and by parts E z = E r, Var z - 1 = Cov(z, r), with r the slope
of the log weight; *peaked*, for large exponents, in atanh y about the mode.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, roots_jacobi

from solspace.numerics.arrays import Doubles, vanishing
from solspace.numerics.power_table import LOG_SQRT_TWO_PI

INSIDE = 9.7  # distance from the wall, in units of the Gaussian's width, from which on the wall is out of reach
PEAKED = 30.0  # exponent from which on the mass is nearly Gaussian
ACROSS, WALL = 48, 46  # nodes of the two Gauss rules
STEPS: Doubles = 0.4 * np.arange(-24.0, 25.0)  # nodes of the trapezoidal rule inside, in units of the width
LOPSIDED: Doubles = 0.4 * np.arange(-30.0, 40.0)  # the same about a mode: towards the wall the mass falls exponentially
BLOCK = 1 << 8  # fields at a time: some fifty nodes each stay in the processor's cache


@vanishing
def band_moments(x: Doubles, d: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log Z, E z, Var z - 1) for fields `x` >= 0 and half widths `d` > 0 (n,), at exponent `beta` > 0.

    >>> log_z, mean, variance = band_moments(np.array([0.0]), np.array([1.0]), 1.0)
    >>> round(float(np.exp(log_z[0])), 12)  # 2 phi(1)
    0.483941449038
    """
    blocks = (slice(start, start + BLOCK) for start in range(0, x.size, BLOCK))
    log_z, mean, variance = np.concatenate([_block(x[block], d[block], beta) for block in blocks], axis=1)
    return log_z, mean, variance


def _block(x: Doubles, d: Doubles, beta: float) -> Doubles:
    result = np.empty((3, x.size))
    xi = d - x
    drop = 44.0 + 2.2 * beta  # of u^b exp(-u) from its peak to where exp(-42) is left
    outside = np.minimum(xi, 0.0)
    reach = np.maximum(xi, 0.0) + 2 * drop / (np.hypot(outside, math.sqrt(2 * drop)) - outside)
    inside = xi > max(INSIDE, math.sqrt(2 * beta))
    peaked = ~inside & (beta >= PEAKED)
    across = ~(inside | peaked) & (reach > 1.8 * d)
    wall = ~(inside | peaked | across)
    for where, rule in ((inside, _inside), (peaked, _peaked), (across, _across), (wall, _wall)):
        if where.any():
            result[:, where] = rule(x[where], d[where], beta, reach[where])
    return result


@lru_cache(maxsize=64)
def _gegenbauer(beta: float) -> tuple[Doubles, Doubles, float]:
    """Return the positive nodes, the weights of pairs, and the log of what they add up to."""
    y, w = roots_jacobi(ACROSS, beta, beta)
    half = ACROSS // 2
    total = math.log(math.pi) / 2 + float(gammaln(beta + 1) - gammaln(beta + 1.5))
    return y[half:], w[half:] / w.sum(), total


def _by_pairs(pull: Doubles, square: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return the mass of exp(pull (y - 1) - square/2), relative to the weight's own, and mean and variance of y."""
    y, weight, _ = _gegenbauer(beta)
    pull = pull[:, None]
    towards = np.exp(pull * (y - 1.0) - 0.5 * square) * weight
    fall = np.exp(-2.0 * pull * y)  # of the node at -y beside the one at y
    even, odd = towards * (1.0 + fall), towards * (1.0 - fall)
    weak = pull[:, 0] < 1.0
    odd[weak] = towards[weak] * -np.expm1(-2.0 * pull[weak] * y)
    mass = even.sum(axis=1)
    mean = odd @ y / mass
    return mass, mean, even @ (y * y) / mass - mean * mean


def _moments(share: Doubles, u: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    mass = share.sum(axis=1)
    mean = (share * u).sum(axis=1) / mass
    return mass, mean, (share * (u - mean[:, None]) ** 2).sum(axis=1) / mass


def _across(x: Doubles, d: Doubles, beta: float, reach: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    y, _, total = _gegenbauer(beta)
    mass, mean, variance = _by_pairs(d * x, (d[:, None] * y) ** 2, beta)
    log_z = total + np.log(d * mass) + d * x - 0.5 * x * x - LOG_SQRT_TWO_PI
    return log_z, d * mean - x, d * d * variance - 1.0


@lru_cache(maxsize=64)
def _jacobi(beta: float) -> tuple[Doubles, Doubles]:
    """Return nodes v of (0, 1) and weights for the average over v^b."""
    y, w = roots_jacobi(WALL, 0.0, beta)
    return (1.0 + y) / 2.0, w / w.sum()


def _wall(x: Doubles, d: Doubles, beta: float, reach: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    v, weight = _jacobi(beta)
    xi = d - x
    u = reach[:, None] * v
    # outside, xi^2/2 is taken out of the exponent: it would round away what tells nodes apart
    centre = np.maximum(xi, 0.0)[:, None]
    exponent = np.minimum(xi, 0.0)[:, None] * u - 0.5 * (u - centre) ** 2 + beta * np.log(1.0 - u / (2.0 * d[:, None]))
    top = exponent.max(axis=1)
    mass, mean, variance = _moments(np.exp(exponent - top[:, None]) * weight, u)
    log_z = np.log(mass) + top + (beta + 1.0) * np.log(reach) - math.log(beta + 1.0) + beta * np.log(2.0 / d)
    log_z -= 0.5 * np.minimum(xi, 0.0) ** 2 + LOG_SQRT_TWO_PI
    return log_z, xi - mean, variance - 1.0


def _inside(x: Doubles, d: Doubles, beta: float, reach: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    near, far = (d - x)[:, None], (d + x)[:, None]
    mode = np.zeros_like(near)
    for _ in range(4):
        slope, bend = beta * (1 / (far + mode) - 1 / (near - mode)), beta * ((far + mode) ** -2 + (near - mode) ** -2)
        mode -= (mode - slope) / (1 + bend)
    z = mode + STEPS
    share = np.exp(beta * np.log((1.0 - z / near) * (1.0 + z / far)) - 0.5 * z * z)
    mass = share.sum(axis=1)
    r = beta * (1.0 / (far + z) - 1.0 / (near - z))
    mean = (share * r).sum(axis=1) / mass
    curvature = (share * (z - mean[:, None]) * (r - mean[:, None])).sum(axis=1) / mass
    level = beta * (np.log1p(-x / d) + np.log1p(x / d))
    return level + np.log(mass * (0.4 / math.sqrt(2.0 * math.pi))), mean, curvature


@vanishing
def tilted_moments(pull: Doubles, bend: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    """Return log of J = int_{-1}^{1} (1 - y^2)^b exp(pull y - bend y^2/2) dy, E y and Var y, for `pull` >= 0 (n,).

    The same integral by its natural parameters, where no Gaussian need be: `bend` may have any sign, and should not be
    large. A strong pull leaves less than exp(-42) beyond some distance from the wall.

    >>> log_j, mean, variance = tilted_moments(np.array([0.0]), np.array([0.0]), 1.0)
    >>> round(float(np.exp(log_j[0])), 12), round(float(variance[0]), 12)
    (1.333333333333, 0.2)
    """
    result = np.empty((3, pull.size))
    slope = pull - bend  # of the exponent at the wall
    near = slope - np.maximum(-bend, 0.0) > 0.6 * (44.0 + 2.2 * beta)
    for where, rule in ((~near, _tilted_across), (near, _tilted_wall)):
        for part in np.array_split(np.flatnonzero(where), -(-np.count_nonzero(where) // BLOCK) or 1):
            if part.size:
                result[:, part] = rule(pull[part], bend[part], beta)
    return result[0], result[1], result[2]


def _tilted_across(pull: Doubles, bend: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    y, _, total = _gegenbauer(beta)
    mass, mean, variance = _by_pairs(pull, bend[:, None] * y * y, beta)
    return total + np.log(mass) + pull, mean, variance


def _tilted_wall(pull: Doubles, bend: Doubles, beta: float) -> tuple[Doubles, Doubles, Doubles]:
    v, weight = _jacobi(beta)
    drop = 44.0 + 2.2 * beta
    # where (pull - bend) x + bend x^2/2 has fallen by `drop`
    slope = pull - bend
    reach = 2 * drop / (slope + np.sqrt(np.maximum(slope * slope + 2 * drop * bend, 0.0)))
    x = reach[:, None] * v
    share = np.exp(beta * np.log(1.0 - 0.5 * x) - x * (slope[:, None] + 0.5 * bend[:, None] * x)) * weight
    mass, mean, variance = _moments(share, x)
    log_j = np.log(mass) + (beta + 1.0) * np.log(reach) - math.log(beta + 1.0) + beta * math.log(2.0)
    return log_j + pull - 0.5 * bend, 1.0 - mean, variance


def _peaked(x: Doubles, d: Doubles, beta: float, reach: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    # in t = atanh y the exponent (b + 1) log(1 - y^2) - (d y - x)^2/2 is concave about its mode
    t = _mode(x, d, beta + 1.0)
    y = np.tanh(t)
    s2 = 1.0 / np.cosh(t) ** 2
    bend = s2 * (2.0 * (beta + 1.0) + d * d * s2 + 2.0 * y * d * (x - d * y))
    width = 1.0 / np.sqrt(bend)
    at = t[:, None] + width[:, None] * LOPSIDED
    nodes = np.tanh(at)
    z = d[:, None] * nodes - x[:, None]
    exponent = -2.0 * (beta + 1.0) * (np.logaddexp(at, -at) - math.log(2.0)) - 0.5 * z * z
    top = exponent.max(axis=1)
    mass, mean, variance = _moments(np.exp(exponent - top[:, None]), z)
    log_z = top + np.log(mass * width * d * 0.4) - LOG_SQRT_TWO_PI
    return log_z, mean, variance - 1.0


def _mode(x: Doubles, d: Doubles, power: float) -> Doubles:
    """Return t of the largest power log(1 - y^2) - (d y - x)^2/2: -2 power y + d (x - d y)(1 - y^2) = 0, by halving."""
    low, high = np.zeros_like(x), np.full_like(x, 20.0) + np.log1p(d * x)
    for _ in range(60):
        t = 0.5 * (low + high)
        y = np.tanh(t)
        rising = d * (x - d * y) / np.cosh(t) ** 2 > 2.0 * power * y
        low, high = np.where(rising, t, low), np.where(rising, high, t)
    return 0.5 * (low + high)
