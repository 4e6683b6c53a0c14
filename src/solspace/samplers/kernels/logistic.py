"""Metropolis chains for weights on a few levels under a logistic likelihood, and descent to single vectors of levels.

With t_k = a_k z_k + b_k, z_k = Σ_j v(w_kj) x_j (columns divided by √n beforehand), row weights s and labels or probabilities p,
the log-likelihood is Σ_k (a_k Σ s p_k z_k + b_k Σ s p_k) - Σ s log Σ_k exp t_k. The linear part follows from Σ s p_k x_j. Given
the other classes the last sum is Σ s log(1 + exp(t_k + o)) and a constant, with offsets o = -log Σ_{l≠k} exp t_l: the classes
are moved in turn, and two classes are one vector against a class with t = 0. A proposal costs that sum once, in single
precision on 64 lanes; sums of lanes are in double precision.
Many weights at once are moved by a quadratic form h φ - φ H φ/2 of φ = (a v(w)/√n, b) that imitates the log-likelihood: a number
of Metropolis moves for it, which cost no sum, are one proposal, accepted by what the form misses of the likelihood.
Frequencies of the levels are integrated out: under Dirichlet(1), P(w) is proportional to Π_l N_l! for N_l weights at level l.
"""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import float32, float64, int64, types, uint64
from numpy.polynomial import Chebyshev, Polynomial

from solspace.numerics.arrays import Array
from solspace.samplers.kernels.machine_vectors import operation
from solspace.samplers.kernels.philox import philox_words
from solspace.system.compiled import FAST, njit

FUSED: Any = FAST["fastmath"]
LANES = 64  # rows are padded to a multiple of it, with s = 0
FLUSH = 1024  # rows after which sums of lanes go into double precision
MOVES = 4  # moves of each of log a, b and both in a sweep
FRESH = 64  # sweeps after which z is computed anew
HOPS = 4  # moves by the quadratic form in a sweep
_MOVES, _SCALES, _LEVELS, _HOPS, _INNER = 0, 1, 2, 3, 4  # streams


def _coefficients(function, low, high, degree):
    found = Chebyshev.interpolate(function, degree, [low, high]).convert(kind=Polynomial).coef
    return tuple(np.float32(one) for one in found)


_E0, _E1, _E2, _E3, _E4, _E5 = _coefficients(np.exp2, -0.5, 0.5, 5)
_L0, _L1, _L2, _L3, _L4, _L5, _L6, _L7, _L8 = _coefficients(
    lambda e: np.log1p(np.maximum(e, 1e-9)) / np.maximum(e, 1e-9), 0, 1, 8
)
_ROUND = np.float32(12582912.0)  # 1.5 · 2²³: adding it rounds to integers, which fill the lowest bits
_LOG2E = np.float32(1.4426950408889634)
_I32 = ir.IntType(32)
# 2ᵏ from _ROUND + k
_power = operation(types.float32, types.float32)(
    lambda b, x: b.bitcast(b.add(b.shl(b.bitcast(x, _I32), _I32(23)), _I32(127 << 23)), ir.FloatType())
)


@numba.njit(inline="always", fastmath=FUSED)
def _exp(t):
    """Return eᵗ for t <= 0, right to 3e-7; at least 2⁻¹²⁰."""
    y = t * _LOG2E
    y = y if y > float32(-120.0) else float32(-120.0)
    r = y + _ROUND
    f = y - (r - _ROUND)
    return (_E0 + f * (_E1 + f * (_E2 + f * (_E3 + f * (_E4 + f * _E5))))) * _power(r)


@numba.njit(inline="always", fastmath=FUSED)
def _softplus(t):
    """Return log(1 + eᵗ), right to 1e-6."""
    e = _exp(-abs(t))
    tail = _L5 + e * (_L6 + e * (_L7 + e * _L8))
    return (t if t > float32(0.0) else float32(0.0)) + e * (
        _L0 + e * (_L1 + e * (_L2 + e * (_L3 + e * (_L4 + e * tail))))
    )


@njit(**FAST)
def partition(z: Array, o: Array, s: Array, a: Any, b: Any, x: Array, d: Any, y: Array, e: Any, lanes: Array) -> float:
    """Return Σ s log(1 + exp(a (z + d x + e y) + b + o)); with e = 0 the column y is not read."""
    total = 0.0
    a, b, d, e = float32(a), float32(b), float32(d), float32(e)
    for k in range(LANES):
        lanes[k] = float32(0.0)
    for first in range(0, z.shape[0], LANES):
        z_, o_, s_ = z[first : first + LANES], o[first : first + LANES], s[first : first + LANES]
        x_ = x[first : first + LANES]
        if e == float32(0.0):
            for k in range(LANES):
                lanes[k] += s_[k] * _softplus(a * (z_[k] + d * x_[k]) + b + o_[k])
        else:
            y_ = y[first : first + LANES]
            for k in range(LANES):
                lanes[k] += s_[k] * _softplus(a * (z_[k] + d * x_[k] + e * y_[k]) + b + o_[k])
        if first % FLUSH == 0:
            for k in range(LANES):
                total += lanes[k]
                lanes[k] = float32(0.0)
    for k in range(LANES):
        total += lanes[k]
    return total


@njit(**FAST)
def _offsets(z: Array, a: Array, b: Array, without: int, o: Array, top: Array) -> None:
    """Write o = -log Σ exp t over the classes other than `without`; `top` (rows,) is scratch."""
    top[:] = float32(-1e30)
    for k in range(len(z)):
        if k != without:
            scale, shift = float32(a[k]), float32(b[k])
            for i in range(len(o)):
                t = scale * z[k, i] + shift
                top[i] = t if t > top[i] else top[i]
    o[:] = float32(0.0)
    for k in range(len(z)):
        if k != without:
            scale, shift = float32(a[k]), float32(b[k])
            for i in range(len(o)):
                o[i] += _exp(scale * z[k, i] + shift - top[i])
    for i in range(len(o)):
        o[i] = -top[i] - math.log(o[i])


@njit(**FAST)
def _add(z: Array, x: Array, d: Any) -> None:
    d = float32(d)
    for i in range(z.shape[0]):
        z[i] += d * x[i]


@njit(**FAST)
def _recompute(z: Array, columns: Array, values: Array, w: Array) -> None:
    z[:] = float32(0.0)
    for k in range(len(w)):
        for j in range(w.shape[1]):
            _add(z[k], columns[j], values[w[k, j]])


@numba.njit(inline="always")
def _uniform(word: np.uint64) -> float:
    return (float64(word) + 0.5) * 2.0**-32


@numba.njit(inline="always")
def _below(word: np.uint64, n: int) -> Any:
    return int64((word * uint64(n)) >> uint64(32))


@numba.njit(inline="always")
def _normals(first: np.uint64, second: np.uint64) -> tuple[float, float]:
    radius, angle = math.sqrt(-2.0 * math.log(_uniform(first))), 2.0 * math.pi * _uniform(second)
    return radius * math.cos(angle), radius * math.sin(angle)


@njit(nogil=True)
def start(key: np.uint64, prior: Array, levels: int, w: Array, log_a: Array, b: Array) -> None:
    """Draw levels w (classes, n), log a (classes,) and b (classes,) from the prior; levels by Pólya's urn."""
    for k in range(len(w)):
        words = philox_words(w.shape[1], 0, k, _LEVELS, key)
        x, y = _normals(words[0], words[1])
        log_a[k], b[k] = prior[0] + prior[1] * x, prior[2] * y
        for j in range(w.shape[1]):
            pick = _below(philox_words(j, 0, k, _LEVELS, key)[0], j + levels)
            w[k, j] = w[k, pick] if pick < j else pick - j  # that of a weight before, or one of all levels


@njit(nogil=True)
def _proposal(words, j, w, levels, symmetric):
    """Return a site i and new levels of j and i; i is -1 for a single move."""
    n, old = len(w), w[j]
    kind = words[2] & uint64(7)
    if words[2] & uint64(8) or n == 1:  # single: a neighbouring level or any other one
        if kind < uint64(4) and levels > 2:
            return -1, old + (1 if kind & uint64(1) else -1), 0
        return -1, (old + 1 + _below(words[3], levels - 1)) % levels, 0
    i = (j + 1 + _below(words[3], n - 1)) % n
    if kind < uint64(4):  # one level up or down for both
        return i, old + (1 if kind & uint64(1) else -1), w[i] + (1 if kind & uint64(2) else -1)
    if kind & uint64(1) and symmetric:  # exchanged, with both signs turned
        return i, levels - 1 - w[i], levels - 1 - old
    return i, w[i], old


@njit(nogil=True)
def _prior_ratio(counts: Array, old: int, new: int, other: int, after: int) -> float:
    """Return log P(w')/P(w) for old -> new and other -> after (other < 0: none); `counts` are left as they are."""
    ratio = math.log((counts[new] + 1.0) / counts[old]) if new != old else 0.0
    if other >= 0 and other != after:
        counts[old] -= 1
        counts[new] += 1
        ratio += math.log((counts[after] + 1.0) / counts[other])
        counts[old] += 1
        counts[new] -= 1
    return ratio


@njit(**FAST)
def _likelihood(z, a, b, line, totals, s, o, top, lanes):
    """Return the log-likelihood; leaves the offsets for the first class in `o`."""
    if len(z) > 1:
        _offsets(z, a, b, 0, o, top)
    found = -partition(z[0], o, s, a[0], b[0], z[0], 0.0, z[0], 0.0, lanes)
    for i in range(len(s)):
        found += s[i] * o[i]
    for k in range(len(z)):
        found += a[k] * line[k] + b[k] * totals[k]
    return found


@njit(nogil=True)
def _inner(key, sweep, hop, moves, beta, unit, a, values, symmetric, form, slope, w, counts):
    """Make Metropolis moves of w (classes, n) for the quadratic form; return its change.

    `slope` is its gradient h - H φ, which is kept up to date, and `unit` is 1/√n.
    """
    (classes, n), count, change = w.shape, len(values), 0.0
    for p in range(moves):
        words = philox_words(p, HOPS * sweep + hop, 0, _INNER, key)
        site = _below(words[1], classes * n)
        k, j = site // n, site % n
        i, new, after = _proposal(words, j, w[k], count, symmetric)
        old, other = w[k, j], -1 if i < 0 else w[k, i]
        if new < 0 or new >= count or after < 0 or after >= count or (new == old and (i < 0 or other == after)):
            continue
        first = k * (n + 1) + j
        d = unit * a[k] * (values[new] - values[old])
        gain = d * slope[first] - 0.5 * d * d * form[first, first]
        second, e = first, 0.0
        if i >= 0:
            second, e = k * (n + 1) + i, unit * a[k] * (values[after] - values[other])
            gain += e * slope[second] - 0.5 * e * e * form[second, second] - d * e * form[first, second]
        ratio = _prior_ratio(counts[k], old, new, other, after)
        if beta * gain + ratio >= math.log(_uniform(words[0])):
            counts[k, old] -= 1
            counts[k, new] += 1
            w[k, j] = new
            if i >= 0:
                counts[k, other] -= 1
                counts[k, after] += 1
                w[k, i] = after
            for l in range(len(slope)):  # noqa: E741
                slope[l] -= d * form[first, l] + e * form[second, l]
            change += gain
    return change


@njit(nogil=True)
def run_chain(
    key: np.uint64,
    columns: Array,
    s: Array,
    linear: Array,
    totals: Array,
    form: Array,
    pull: Array,
    values: Array,
    prior: Array,
    betas: Array,
    stride: int,
    kept: Array,
    scales: Array,
    shifts: Array,
) -> float:
    """Anneal a chain from the prior along powers `betas` of the likelihood, then sample; return the log of its importance.

    columns (n, rows) float32; s (rows,); linear (classes, n) and totals (classes,): Σ s p x and Σ s p; form H and pull h of a
    quadratic form in classes (n + 1) variables, or empty; values (levels,) float32; prior: mean and width of log a, and width
    of b. Samples are left in kept (samples, classes, n) as numbers of levels, scales and shifts (samples, classes): one after
    every `stride` of the sweeps at power 1 that follow `betas`.
    """
    (classes, n), count, size = linear.shape, len(values), len(s)
    symmetric = True
    for l in range(count):  # noqa: E741
        symmetric = symmetric and values[l] == -values[count - 1 - l]
    w, log_a, b = np.empty((classes, n), np.int64), np.empty(classes), np.empty(classes)
    start(key, prior, count, w, log_a, b)
    a, line, steps = np.exp(log_a), np.zeros(classes), np.full((classes, 3), 0.5)
    z, o = np.empty((classes, size), np.float32), np.zeros(size, np.float32)
    lanes, top = np.empty(LANES, np.float32), np.empty(size, np.float32)
    counts = np.zeros((classes, count), np.int64)
    for k in range(classes):
        for j in range(n):
            counts[k, w[k, j]] += 1
    importance, beta = 0.0, 0.0
    unit, hops, moves = 1.0 / math.sqrt(max(1, n)), HOPS if len(pull) else 0, 1.0 * n
    slope, tried, new_counts = np.empty(len(pull)), np.empty_like(w), np.empty_like(counts)
    z_tried, line_tried = np.empty_like(z), np.empty_like(line)
    for sweep in range(len(betas) + stride * len(kept)):
        annealed = sweep < len(betas)
        if sweep % FRESH == 0:
            _recompute(z, columns, values, w)
            line[:] = 0.0
            for k in range(classes):
                for j in range(n):
                    line[k] += values[w[k, j]] * linear[k, j]
        if annealed:
            importance += (betas[sweep] - beta) * _likelihood(z, a, b, line, totals, s, o, top, lanes)
            beta = betas[sweep]
        for hop in range(hops):
            if hop == 0:
                here = _likelihood(z, a, b, line, totals, s, o, top, lanes)
            for l in range(len(pull)):  # noqa: E741
                slope[l] = pull[l]
                for k in range(classes):
                    slope[l] -= b[k] * form[k * (n + 1) + n, l]
                    for j in range(n):
                        slope[l] -= unit * a[k] * values[w[k, j]] * form[k * (n + 1) + j, l]
            tried[:], new_counts[:], z_tried[:], line_tried[:] = w, counts, z, line
            change = _inner(
                key, sweep, hop, int(moves), beta, unit, a, values, symmetric, form, slope, tried, new_counts
            )
            for k in range(classes):
                for j in range(n):
                    if tried[k, j] != w[k, j]:
                        d = values[tried[k, j]] - values[w[k, j]]
                        _add(z_tried[k], columns[j], d)
                        line_tried[k] += d * linear[k, j]
            there = _likelihood(z_tried, a, b, line_tried, totals, s, o, top, lanes)
            words = philox_words(hop, sweep, 0, _HOPS, key)
            accepted = beta * (there - here - change) >= math.log(_uniform(words[0]))
            if accepted:
                w[:], counts[:], z[:], line[:], here = tried, new_counts, z_tried, line_tried, there
            if annealed:
                moves = min(max(moves * (1.2 if accepted else 0.85), 2.0), 10.0 * n)
        for k in range(classes):
            if classes > 1:
                _offsets(z, a, b, k, o, top)
            cost = partition(z[k], o, s, a[k], b[k], z[k], 0.0, z[k], 0.0, lanes)
            for j in range(n):
                words = philox_words(j, sweep, k, _MOVES, key)
                i, new, after = _proposal(words, j, w[k], count, symmetric)
                old, other = w[k, j], -1 if i < 0 else w[k, i]
                if new < 0 or new >= count or after < 0 or after >= count or (new == old and (i < 0 or other == after)):
                    continue
                ratio = _prior_ratio(counts[k], old, new, other, after)
                d, e = values[new] - values[old], float32(0.0) if i < 0 else values[after] - values[other]
                gain = d * linear[k, j] + (0.0 if i < 0 else e * linear[k, i])
                found = partition(z[k], o, s, a[k], b[k], columns[j], d, columns[max(i, 0)], e, lanes)
                if beta * (a[k] * gain - found + cost) + ratio >= math.log(_uniform(words[0])):
                    counts[k, old] -= 1
                    counts[k, new] += 1
                    w[k, j] = new
                    _add(z[k], columns[j], d)
                    if i >= 0:
                        counts[k, other] -= 1
                        counts[k, after] += 1
                        w[k, i] = after
                        _add(z[k], columns[i], e)
                    line[k] += gain
                    cost = found
            for p in range(3 * MOVES):
                words = philox_words(p, sweep, k, _SCALES, key)
                kind = p % 3  # log a, b, both
                x, y = _normals(words[0], words[1])
                x = log_a[k] + (steps[k, kind] * x if kind != 1 else 0.0)
                y = b[k] + (steps[k, kind] * y if kind != 0 else 0.0)
                found = partition(z[k], o, s, math.exp(x), y, z[k], 0.0, z[k], 0.0, lanes)
                change = beta * ((math.exp(x) - a[k]) * line[k] + (y - b[k]) * totals[k] - found + cost)
                change += 0.5 * ((log_a[k] - prior[0]) ** 2 - (x - prior[0]) ** 2) / prior[1] ** 2
                change += 0.5 * (b[k] ** 2 - y**2) / prior[2] ** 2
                accepted = change >= math.log(_uniform(words[2]))
                if accepted:
                    log_a[k], a[k], b[k], cost = x, math.exp(x), y, found
                if annealed:
                    steps[k, kind] = min(steps[k, kind] * (1.1 if accepted else 0.93), 5.0)
        if not annealed and (sweep - len(betas)) % stride == stride - 1:
            at = (sweep - len(betas)) // stride
            kept[at], scales[at], shifts[at] = w, a, b
    return importance


@njit(nogil=True)
def descend(
    columns: Array, s: Array, linear: Array, values: Array, a: float, b: Array, reach: int, passes: int, w: Array
) -> float:
    """Move levels w (classes, n) down to a minimum of the cross-entropy, at a scale a of all classes and thresholds b.

    Each weight goes to its best level up to `reach` from the present one, until none moves or after `passes`. linear (classes,
    n) holds Σ s p x of probabilities p. Returns the change of the cross-entropy.
    """
    (classes, n), count, size = linear.shape, len(values), len(s)
    z, o = np.empty((classes, size), np.float32), np.zeros(size, np.float32)
    lanes, top = np.empty(LANES, np.float32), np.empty(size, np.float32)
    _recompute(z, columns, values, w)
    scales, change = np.full(classes, a), 0.0
    for _ in range(passes):
        moved = False
        for k in range(classes):
            if classes > 1:
                _offsets(z, scales, b, k, o, top)
            cost = partition(z[k], o, s, a, b[k], z[k], 0.0, z[k], 0.0, lanes)
            for j in range(n):
                old, best, lowest = w[k, j], w[k, j], -1e-6 * (1.0 + cost)
                for new in range(max(0, old - reach), min(count, old + reach + 1)):
                    if new != old:
                        d = values[new] - values[old]
                        found = partition(z[k], o, s, a, b[k], columns[j], d, z[k], 0.0, lanes)
                        found -= cost + a * d * linear[k, j]
                        if found < lowest:
                            best, lowest = new, found
                if best != old:
                    d, moved, w[k, j] = values[best] - values[old], True, best
                    _add(z[k], columns[j], d)
                    cost += lowest + a * d * linear[k, j]
                    change += lowest
        if not moved:
            break
    return change
