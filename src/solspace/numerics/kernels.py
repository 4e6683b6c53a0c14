"""Compiled sums over Gaussians: densities of mixtures, and moments of many Gaussians under a weight at shared nodes."""

from __future__ import annotations

import math

import numpy as np

from solspace.system.compiled import njit

HALF = 16  # centres on either side of the middle of a block: rounding grows with the square of their number, to 3e-14
LANES = 64  # points worked on together
DEEP = -45.0  # exponent, counted from the peak, below which nodes are left out
DEAD = -36.0  # exponent below which the outermost node of a side must have fallen
NEAR = 4.0  # fields further inside, and not beyond the last node, have the square of the distance as it stands
PLAIN = {"nogil": True, "error_model": "numpy"}
ANY_ORDER = PLAIN | {"fastmath": {"contract", "nsz", "reassoc", "nnan"}}  # sums whose order does not matter


@njit(**PLAIN)
def mixtures(x, factor, centres, bias, variance):
    """Return Σ_j exp(b_j) N(x; c_j, τ) exp(factor) at points `x` (q, n), rows of variance τ (q,), centres equidistant (k,).

    Biases and factors can be ±hundreds while the sum is of order one: they meet in the exponent. Gaussians of neighbouring
    centres differ by a ratio that itself shrinks by a constant factor: a block of them needs two exponentials at its middle,
    and multiplications outwards. Where centres are further apart than the Gaussians are wide, a block is one centre.
    """
    density = np.empty(x.shape)
    count, step = len(centres), centres[min(1, len(centres) - 1)] - centres[0]
    value, ratio = np.empty(LANES), np.empty(LANES)
    middle_value, middle_ratio, total = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    weight = np.empty(2 * HALF + 1)
    steepest = 1e-300
    for j in range(count - 1):
        steepest = max(steepest, abs(bias[j + 1] - bias[j]))
    half = max(1, min(HALF, int(300.0 / steepest))) if step * step <= 2 * variance.min() else 0  # e^±300 is safe
    for row in range(x.shape[0]):
        tau = variance[row]
        norm, shrink = 1 / math.sqrt(2 * math.pi * tau), math.exp(-step * step / tau)
        for first in range(0, x.shape[1], LANES):
            lanes = min(LANES, x.shape[1] - first)
            total[:lanes] = 0.0
            for start in range(0, count, 2 * half + 1):
                stop = min(start + 2 * half + 1, count)
                middle = (start + stop) // 2
                for j in range(start, stop):
                    weight[j - start] = math.exp(bias[j] - bias[middle])
                for i in range(lanes):
                    distance = x[row, first + i] - centres[middle]
                    middle_value[i] = math.exp(bias[middle] + factor[row, first + i] - distance * distance / (2 * tau))
                    # where nothing is left there is nothing to carry on, and the ratio may overflow
                    alive = half > 0 and middle_value[i] > 0.0
                    middle_ratio[i] = math.exp(step * (distance - step / 2) / tau) if alive else 1.0
                    value[i], ratio[i] = middle_value[i], middle_ratio[i]
                    total[i] += middle_value[i]
                _outwards(range(middle + 1, stop), start, lanes, weight, value, ratio, shrink, total)
                for i in range(lanes):
                    value[i], ratio[i] = middle_value[i], shrink / middle_ratio[i]
                _outwards(range(middle - 1, start - 1, -1), start, lanes, weight, value, ratio, shrink, total)
            for i in range(lanes):
                density[row, first + i] = norm * total[i]
    return density


@njit(**PLAIN)
def _outwards(centres, start, lanes, weight, value, ratio, shrink, total):
    """Add the Gaussians of some centres of a block, each from the one before it."""
    for j in centres:
        share = weight[j - start]
        for i in range(lanes):
            value[i] *= ratio[i]
            ratio[i] *= shrink
            total[i] += share * value[i]


@njit(**PLAIN)
def row_sums(x, sides, u, height, step):
    """Return log Z, mean and variance of z (3, n), and how much they change without every other node (n,).

    `x` (n, k) are the fields' distances from the anchors of k sides, in the direction of each side. `sides` (k, 5)
    holds for each its sign, its first node and the one after its last, which of two neighbouring nodes stays, and which
    ends are to be dead: 1 the first, 2 the last, 3 both. The change is infinite where mass is cut off, or there is none.
    """
    count = len(sides)
    result, change = np.full((3, len(x)), np.nan), np.full(len(x), np.inf)
    peak, offset = np.empty(count), np.empty(count)
    exponent = np.empty(len(u))
    parts = np.empty((2, count, 3))
    for i in range(len(x)):
        best = -np.inf
        for k in range(count):
            first, stop = sides[k, 1], sides[k, 2]
            inner = NEAR < x[i, k] <= u[stop - 1]
            # elsewhere the square of the field's own distance is taken out: it would round away what tells nodes apart
            offset[k] = 0.0 if inner else -0.5 * x[i, k] * x[i, k]
            centre, tilt = (x[i, k], 0.0) if inner else (0.0, x[i, k])
            peak[k] = _exponents(centre, tilt, u[first:stop], height[first:stop], exponent[first:stop])
            best = max(best, peak[k] + offset[k])
        if not math.isfinite(best):
            continue
        cut = False
        for k in range(count):
            parts[:, k] = 0.0
            weight = math.exp(max(peak[k] + offset[k] - best, -700.0))
            if weight > 1e-20:
                sign, first, stop, stays, dead = sides[k]
                falls = exponent[first:stop]
                cut |= (dead & 1 and falls[0] - peak[k] > DEAD) or (dead & 2 and falls[-1] - peak[k] > DEAD)
                _side(x[i, k], sign, stays, u[first:stop], falls, peak[k], parts[:, k])
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


@njit(**ANY_ORDER)
def _exponents(centre, tilt, u, height, exponent):
    best = -np.inf
    for j in range(u.size):
        distance = u[j] - centre
        value = height[j] - 0.5 * distance * distance + tilt * u[j]
        exponent[j] = value
        best = value if value > best else best
    return best


@njit(**PLAIN)
def _side(x, sign, stays, u, exponent, peak, parts):
    """Fill (mass, mean of z, variance of z) of the fine and the coarse rule."""
    origin = min(max(x, 0.0), u[-1])
    fine0 = fine1 = fine2 = coarse0 = coarse1 = coarse2 = 0.0
    for j in range(u.size):
        depth = exponent[j] - peak
        if depth > DEEP:
            weight, distance = math.exp(depth), u[j] - origin
            once = weight * distance
            twice = once * distance
            fine0, fine1, fine2 = fine0 + weight, fine1 + once, fine2 + twice
            if j % 2 == stays:
                coarse0, coarse1, coarse2 = coarse0 + weight, coarse1 + once, coarse2 + twice
    _moments(parts[0], sign, origin - x, fine0, fine1, fine2)
    _moments(parts[1], sign, origin - x, coarse0, coarse1, coarse2)


@njit(**PLAIN)
def _moments(part, sign, origin, mass, first, second):
    part[0] = mass
    if mass > 0.0:
        shift = first / mass
        part[1], part[2] = sign * (origin + shift), second / mass - shift * shift


@njit(**PLAIN)
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
