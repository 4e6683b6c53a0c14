"""Compiled sums of `measure.rows`: moments of many Gaussians of one width times a weight known at shared nodes."""

from __future__ import annotations

import math

import numpy as np

from solspace.system.compiled import njit

DEEP = -45.0
"""Exponent, counted from the peak, below which nodes are left out."""
DEAD = -36.0
"""Exponent that the outermost node of a side must have fallen below."""
NEAR = 4.0
"""Fields further inside than this, and not beyond the last node, have the square of the distance as it stands."""


@njit()
def row_sums(x, sides, u, height, step):
    """Return log Z, mean and variance of z (3, n), and how much they change without every other node (n,).

    `x` (n, k) are the fields' distances from the anchors of k sides, in the direction of each side. `sides` (k, 5)
    holds for each its sign, its first node and the one after its last, which of two neighbouring nodes stays, and which
    ends are to be dead: 1 the first, 2 the last, 3 both. The change is infinite where mass is cut off, or there is none.
    """
    count = len(sides)
    result, change = np.full((3, len(x)), np.nan), np.full(len(x), np.inf)
    peak, offset, inner = np.empty(count), np.empty(count), np.empty(count, np.bool_)
    at = np.empty(count, np.int64)
    parts = np.empty((2, count, 3))
    for i in range(len(x)):
        best = -np.inf
        for k in range(count):
            field = x[i, k]
            inner[k] = NEAR < field <= u[sides[k, 2] - 1]
            offset[k] = 0.0 if inner[k] else -0.5 * field * field
            peak[k], at[k] = _peak(field, inner[k], u, height, sides[k, 1], sides[k, 2])
            best = max(best, peak[k] + offset[k])
        if not math.isfinite(best):
            continue
        cut = False
        for k in range(count):
            parts[:, k] = 0.0
            weight = math.exp(max(peak[k] + offset[k] - best, -700.0))
            if weight > 1e-20:
                cut |= _side(x[i, k], inner[k], sides[k], u, height, peak[k], at[k], parts[:, k])
                parts[:, k, 0] *= weight
        fine, coarse = _mixture(parts[0]), _mixture(parts[1])
        result[0, i] = best + math.log(fine[0] * step)
        result[1, i], result[2, i] = fine[1], fine[2]
        if cut or not coarse[0] > 0.0:
            continue
        moved = abs(math.log(2.0 * coarse[0] / fine[0]))
        for j in range(1, 3):
            moved = max(moved, abs(fine[j] - coarse[j]) / (1.0 + abs(fine[j])))
        change[i] = moved
    return result, change


@njit()
def _exponent(x, inner, u, height):
    # outside, the square of the field's own distance is taken out: it would round away what tells nodes apart
    return height - 0.5 * (u - x) * (u - x) if inner else height - u * (0.5 * u - x)


@njit()
def _peak(x, inner, u, height, first, stop):
    best, at = -np.inf, first
    for j in range(first, stop):
        value = _exponent(x, inner, u[j], height[j])
        if value > best:
            best, at = value, j
    return best, at


@njit()
def _side(x, inner, side, u, height, peak, at, parts):
    """Fill (mass, mean of z, variance of z) of the fine and the coarse rule; return whether mass is cut off."""
    sign, first, stop, stays, dead = side
    origin = u[at]
    fine0 = fine1 = fine2 = coarse0 = coarse1 = coarse2 = 0.0
    for j in range(first, stop):
        exponent = _exponent(x, inner, u[j], height[j]) - peak
        if exponent > DEEP:
            weight, distance = math.exp(exponent), u[j] - origin
            once = weight * distance
            twice = once * distance
            fine0, fine1, fine2 = fine0 + weight, fine1 + once, fine2 + twice
            if (j - first) % 2 == stays:
                coarse0, coarse1, coarse2 = coarse0 + weight, coarse1 + once, coarse2 + twice
    _moments(parts[0], sign, origin - x, fine0, fine1, fine2)
    _moments(parts[1], sign, origin - x, coarse0, coarse1, coarse2)
    cut = dead & 1 and _exponent(x, inner, u[first], height[first]) - peak > DEAD
    return cut or (dead & 2 and _exponent(x, inner, u[stop - 1], height[stop - 1]) - peak > DEAD)


@njit()
def _moments(part, sign, origin, mass, first, second):
    part[0] = mass
    if mass > 0.0:
        shift = first / mass
        part[1], part[2] = sign * (origin + shift), second / mass - shift * shift


@njit()
def _mixture(parts):
    mass = mean = variance = 0.0
    for k in range(len(parts)):
        mass += parts[k, 0]
    for k in range(len(parts)):
        mean += parts[k, 0] / mass * parts[k, 1] if mass > 0.0 else 0.0
    for k in range(len(parts)):
        distance = parts[k, 1] - mean
        variance += parts[k, 0] / mass * (parts[k, 2] + distance * distance) if mass > 0.0 else 0.0
    return mass, mean, variance
