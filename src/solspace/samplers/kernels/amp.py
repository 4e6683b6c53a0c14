"""Both halves of an AMP iteration, by compiled loops where the prior has them.

Samples are columns and lie beside each other, so every inner loop runs over the samples of one row and the compiler vectorises
it. `weight` is how far a column moves towards its new value (1 undamped, 0 frozen); a frozen column keeps its bits. Sums over
rows are kept apart for pieces of PIECE rows and added up afterwards: rounding stays small in single precision, and nothing
depends on how many threads share the pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numba import types
from numba.extending import overload

from solspace.measure import Target, priors
from solspace.measure.likelihoods import Probit
from solspace.measure.potentials import Log, Uniform
from solspace.numerics.arrays import Array
from solspace.numerics.power import gaussian_power_derivatives
from solspace.samplers.kernels.responses import table_for
from solspace.system.compiled import FAST, njit
from solspace.system.threads import split

LANES = 16  # width of the rows into which few columns are folded
PIECE = 512
SMALLEST = 1e-7  # least variance of a ±1 weight; of levels, in units of the square of half their distance
# responses below this are none: as denormal numbers they would make the products ten times slower, far inside a band
NEGLIGIBLE = 1e-30
_f = np.float32


def decay(x):
    """Return exp(x) for x <= 0; in single precision by a polynomial that the compiler can vectorise."""
    return math.exp(x)


@overload(decay, inline="always")
def _decay(x):
    if x == types.float32:
        return _single_decay
    return lambda x: math.exp(x)


def _single_decay(x):
    x = max(x, _f(-87.0))
    power = np.int32(x * _f(1.442695041) - _f(0.5))
    rest = (x - power * _f(0.693359375)) + power * _f(2.12194440e-4)
    high = _f(1 / 120) + rest * (_f(1 / 720) + rest * _f(1 / 5040))
    value = _f(1) + rest * (_f(1) + rest * (_f(0.5) + rest * (_f(1 / 6) + rest * (_f(1 / 24) + rest * high))))
    return value * np.int32((power + np.int32(127)) << np.int32(23)).view(np.float32)


@njit(**FAST)
def _subtract_reaction(product, g, variance, margin):
    """Turn the products X m/√n into ω - κ: take off the Onsager reaction V g; `variance` is (1, k) or (m, k)."""
    for r in range(product.shape[0]):
        v = variance[r if variance.shape[0] > 1 else 0]
        row, old = product[r], g[r]
        for k in range(row.size):
            row[k] -= v[k] * old[k] + margin


@njit(inline="always", **FAST)
def _put(row, values):
    """Copy `values`: an assignment to a slice compiles for two seconds, as it can raise with a message."""
    for k in range(values.size):
        row[k] = values[k]


@njit(**FAST)
def _settle(g, new, curvature, weight, first, sums):
    """Move `g` towards `new`; sums[piece] gets Σ dg and Σ dg² for pieces from `first` on; what is negligible becomes 0."""
    rows, nothing, least = g.shape[0], weight.dtype.type(0), weight.dtype.type(NEGLIGIBLE)
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        total, square = np.zeros_like(weight), np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            old, fresh, slope = g[r], new[r], curvature[r]
            for k in range(weight.size):
                fresh[k] = nothing if abs(fresh[k]) < least else fresh[k]
                moved = old[k] + weight[k] * (fresh[k] - old[k])
                old[k] = moved if weight[k] > 0 else old[k]
                total[k] += slope[k]
                square[k] += slope[k] * slope[k]
        _put(sums[piece, 0], total)
        _put(sums[piece, 1], square)


@njit(**FAST)
def _binary_marginals(product, field, mean, spread, precision, weight, share, first, sums):
    """Move `mean` to tanh B, B = product + A m + h; sums[piece] gets Σ change², Σ Δ, Σ Δ².

    `spread` becomes Δ unless it is empty. Unless `share` is, that much of B becomes the field of columns that move.
    """
    rows, kind = mean.shape[0], weight.dtype.type
    one, two, four, least = kind(1), kind(2), kind(4), kind(SMALLEST)
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        moved, width, width2 = np.zeros_like(weight), np.zeros_like(weight), np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            a = precision[r if precision.shape[0] > 1 else 0]
            back, h, m = product[r], field[r], mean[r]
            for k in range(weight.size):
                back[k] = back[k] + a[k] * m[k] + h[k]
            for k in range(share.size):
                h[k] = share[k] * back[k] if weight[k] > 0 else h[k]
            for k in range(weight.size):
                b = back[k]
                e = decay(-two * abs(b))
                inverse = one / (one + e)
                t = (one - e) * inverse
                change = (t if b > 0 else -t) - m[k]
                delta = max(four * e * inverse * inverse, least)
                moved[k] += change * change
                width[k] += delta
                width2[k] += delta * delta
                back[k] = delta
                m[k] = m[k] + weight[k] * change if weight[k] > 0 else m[k]
            if spread.shape[0] > 0:
                old = spread[r]
                for k in range(weight.size):
                    old[k] = back[k] if weight[k] > 0 else old[k]
        _put(sums[piece, 0], moved)
        _put(sums[piece, 1], width)
        _put(sums[piece, 2], width2)


@njit(**FAST)
def _level_marginals(values, logs, least, product, field, mean, spread, precision, time, weight, share, first, sums):
    """As `_binary_marginals`, for `values` (L,) of log probabilities `logs` under exp(-(A + t) w²/2 + B w)."""
    rows, levels, kind = mean.shape[0], values.size, weight.dtype.type
    one, half = kind(1), kind(0.5)
    chances = np.empty((levels, weight.size), weight.dtype)
    top, total, centre, delta = np.empty((4, weight.size), weight.dtype)
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        moved, width, width2 = np.zeros_like(weight), np.zeros_like(weight), np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            a = precision[r if precision.shape[0] > 1 else 0]
            back, h, m = product[r], field[r], mean[r]
            for k in range(weight.size):
                back[k] = back[k] + a[k] * m[k] + h[k]
            for k in range(share.size):
                h[k] = share[k] * back[k] if weight[k] > 0 else h[k]
            for level in range(levels):
                v, log, chance = values[level], logs[level], chances[level]
                for k in range(weight.size):
                    chance[k] = log + v * (back[k] - (a[k] + time[k]) * (half * v))
                for k in range(weight.size):
                    top[k] = chance[k] if level == 0 else max(top[k], chance[k])
            for k in range(weight.size):
                total[k], centre[k], delta[k] = kind(0), kind(0), kind(0)
            for level in range(levels):
                v, chance = values[level], chances[level]
                for k in range(weight.size):
                    p = decay(chance[k] - top[k])
                    chance[k] = p
                    total[k] += p
                    centre[k] += p * v
            for k in range(weight.size):
                total[k] = one / total[k]
                centre[k] *= total[k]
            for level in range(levels):
                v, chance = values[level], chances[level]
                for k in range(weight.size):
                    away = v - centre[k]
                    delta[k] += chance[k] * away * away
            for k in range(weight.size):
                change, variance = centre[k] - m[k], max(delta[k] * total[k], least)
                moved[k] += change * change
                width[k] += variance
                width2[k] += variance * variance
                back[k] = variance
                m[k] = m[k] + weight[k] * change if weight[k] > 0 else m[k]
            if spread.shape[0] > 0:
                old = spread[r]
                for k in range(weight.size):
                    old[k] = back[k] if weight[k] > 0 else old[k]
        _put(sums[piece, 0], moved)
        _put(sums[piece, 1], width)
        _put(sums[piece, 2], width2)


@njit(**FAST)
def _tilt(product, field, mean, precision, first, sums):
    """Turn `product` into B = product + A m + h; sums[piece] gets Σ B²."""
    rows = mean.shape[0]
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        power = np.zeros_like(precision[0])
        for r in range(low, min(low + PIECE, rows)):
            a = precision[r if precision.shape[0] > 1 else 0]
            back, h, m = product[r], field[r], mean[r]
            for k in range(power.size):
                back[k] += a[k] * m[k] + h[k]
                power[k] += back[k] * back[k]
        _put(sums[piece, 0], power)


@njit(**FAST)
def _scale_towards(product, mean, factor, weight, first, sums):
    """Move `mean` to factor · B, `product` holding B; sums[piece] gets Σ change²."""
    rows = mean.shape[0]
    for piece in range(sums.shape[0]):
        low = (first + piece) * PIECE
        moved = np.zeros_like(weight)
        for r in range(low, min(low + PIECE, rows)):
            b, m = product[r], mean[r]
            for k in range(weight.size):
                change = factor[k] * b[k] - m[k]
                moved[k] += change * change
                m[k] = m[k] + weight[k] * change if weight[k] > 0 else m[k]
        _put(sums[piece, 0], moved)


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array,
    groups: Sequence[tuple[Target, Array | slice]] = (),
) -> tuple[Array, Array]:  # fmt: skip
    """Turn the products X m/√n (m, k) into the constraints' response: the output half of an iteration.

    omega = product - V g; `new` becomes g(omega, V), `curvature` its derivative dg, and `g` moves towards the new one.
    Returns the means of dg and of dg² over the constraints, (k,) each. `product` is used up. With `groups`, constraints of
    different sample weights have targets of their own.
    """
    margin = product.dtype.type(target.margin)
    wide = np.atleast_2d(variance)

    def subtract(first: int, last: int) -> None:
        rows = slice(first, last)
        _subtract_reaction(product[rows], g[rows], wide[rows] if len(wide) > 1 else wide, margin)

    split(subtract, len(g), max(1, (1 << 16) // g.shape[1]))
    if not groups:
        respond_into(target, product, variance, (new, curvature))
    for own, which in groups:
        found = np.empty_like(product[which]), np.empty_like(product[which])
        respond_into(own, product[which], variance if variance.ndim == 1 else variance[which], found)
        new[which], curvature[which] = found
    return _means(2, _settle, g, new, curvature, weight)


def respond_into(target: Target, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
    """Write (g, dg) of `target` at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
    potential = target.potential
    if isinstance(potential, (Uniform, Log)):
        exponent = 0.0 if isinstance(potential, Uniform) else target.beta
        gaussian_power_derivatives(omega, variance, exponent, out)
        return
    if isinstance(potential, Probit) and target.beta == 1:
        gaussian_power_derivatives(omega, variance + variance.dtype.type(potential.noise**2), 0.0, out)
        return
    table = table_for(potential, target.beta, omega, variance)
    if table is not None:
        table.respond_into(omega, variance, out)
        return
    out[0][...], out[1][...] = potential.derivatives(omega, variance, target.beta)


def estimate(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, time: Array, weight: Array,
    target: Target, share: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Turn the products Xᵀ g/√n (n, k) into new marginals: the input half of an iteration.

    B = product + A m + h; `mean` moves towards the new mean, `spread` (where wanted) becomes the variance of each
    weight. Returns the mean squared (undamped) change of `mean`, and the means of the variances and of their squares
    over the weights, (k,) each. `product` is used up. Where a `share` (k,) is given, that much of B becomes the field of
    the columns that move.
    """
    uniform = precision.ndim == 1
    if isinstance(target.prior, priors.Binary):
        kept = np.empty((0, 0), mean.dtype) if spread is None else spread
        shares = np.empty(0, mean.dtype) if share is None else share
        wide = np.atleast_2d(precision)
        return _means(3, _binary_marginals, product, field, mean, kept, wide, weight, shares)
    if isinstance(target.prior, priors.Levels):
        kept = np.empty((0, 0), mean.dtype) if spread is None else spread
        shares = np.empty(0, mean.dtype) if share is None else share
        kernel = partial(_level_marginals, *_levels(target.prior, mean.dtype))
        return _means(3, kernel, product, field, mean, kept, np.atleast_2d(precision), time, weight, shares)
    if isinstance(target.prior, priors.Spherical) and uniform:
        return _spherical(product, field, mean, spread, np.atleast_2d(precision), weight)
    return in_arrays(product, field, mean, spread, precision, time, weight, target, share)


@lru_cache(maxsize=16)
def _levels(prior: priors.Levels, dtype: np.dtype[Any]) -> tuple[Array, Array, np.floating]:
    values, least = np.array(prior.values, dtype), SMALLEST * float(np.diff(prior.values).min() / 2) ** 2
    return values, prior.log_weights.astype(dtype), dtype.type(least)


def in_arrays(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, time: Array, weight: Array,
    target: Target, share: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return what `estimate` does, for any prior."""
    product += precision * mean
    product += field
    if share is not None:
        field[:, weight > 0] = (share * product)[:, weight > 0]
    new, variance = target.prior.marginals(precision + time, product)
    change = ((new - mean) ** 2).mean(axis=0)
    # by columns: a frozen one may meet a new value that overflowed, and zero times infinity must not reach it
    moving = weight > 0
    mean[:, moving] += weight[moving] * (new[:, moving] - mean[:, moving])
    if spread is not None:
        spread[:, moving] = variance[:, moving]
    return change, variance.mean(axis=0), (variance * variance).mean(axis=0)


def _spherical(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """With one precision for all weights, Λ = A + t + γ = (1 + √(1 + 4b))/2, b = mean(B²): no root to find."""
    (power,) = _means(1, _tilt, product, field, mean, precision)
    factor = (2 / (1 + np.sqrt(1 + 4 * power))).astype(mean.dtype)
    (change,) = _means(1, _scale_towards, product, mean, factor, weight)
    if spread is not None:
        spread[:, weight > 0] = factor[weight > 0]
    width = factor.astype(np.float64)
    return change, width, width * width


def _means(count: int, kernel: Callable[..., None], *arrays: Array) -> Any:
    """Return the means over rows of what `kernel(*arrays, first, sums)` adds up, (count, k) in float64.

    Where columns are few, several rows are folded into one of LANES: what lies beside each other can be vectorised.
    """
    rows, k = arrays[0].shape
    if LANES % k:
        return _sums(count, kernel, arrays) / rows
    folded = rows - rows % (LANES // k)
    total = np.zeros((count, k))
    if folded:
        wide = [_fold(array, rows, k, folded) for array in arrays]
        total += _sums(count, kernel, wide).reshape(count, -1, k).sum(axis=1)
    if folded < rows:
        rest = [array[folded:] if array.ndim == 2 and len(array) == rows else array for array in arrays]
        total += _sums(count, kernel, rest)
    return total / rows


def _fold(array: Array, rows: int, k: int, folded: int) -> Array:
    """Return the first rows of columns (rows, k) as a view (folded k/LANES, LANES); what all rows share, repeated."""
    if array.ndim == 2 and len(array) == rows:
        return array[:folded].reshape(-1, LANES)
    return array if array.size == 0 else np.tile(array, LANES // k)


def _sums(count: int, kernel: Callable[..., None], arrays: Sequence[Array]) -> Array:
    rows, k = arrays[0].shape
    sums = np.zeros((-(-rows // PIECE), count, k))
    split(lambda first, last: kernel(*arrays, first, sums[first:last]), len(sums), max(1, (1 << 16) // (PIECE * k)))
    return sums.sum(axis=0)
