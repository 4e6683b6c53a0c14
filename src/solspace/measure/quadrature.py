"""The channel of any weight, by a quadrature that first finds where the integrand lives (`integrand`).

The line is cut at the weight's breakpoints. On each piece the range that carries mass is found in a variable in which
the integrand is smooth and falls off exponentially at both ends; there the trapezoidal rule converges exponentially,
and it is doubled until the moments stand still. The pieces are then combined like the parts of a mixture. Where many
fields have one variance they share their nodes (`rows`), and only what that cannot vouch for is searched.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.integrand import DROP, LogWeight, Piece, Range, cut, from_nearer_end, from_peak, locate
from solspace.measure.rows import NINE, STENCIL, row_moments
from solspace.numerics.arrays import Doubles, Index
from solspace.numerics.power import common_precision

BLOCK = 1 << 9  # elements at a time
ELEMENTS = 1 << 16  # numbers in a temporary array, at most about
TOLERANCE = 1e-10  # of the last doubling; the error left behind is about its square
LARGEST = 1 << 15
FAR, COARSE = 1e11, 1e13  # heights whose rounding hides the integrand: far from all ends, or a weight of exp(-COARSE)
ROW = 24  # fields of one variance that share their nodes; fewer are integrated one by one


def quadrature_channel(
    log_weight: LogWeight, breakpoints: Sequence[float], omega: ArrayLike, variance: ArrayLike
) -> tuple[Doubles, Doubles, Doubles]:
    """Return (log Z, g, dg) of the weight exp(`log_weight`(s)), which is smooth between `breakpoints`.

    `log_weight` takes and returns arrays and may be -inf. The weight may jump or behave like a power at a breakpoint;
    every place where it is not smooth, or where it is much sharper than sqrt(V) with other maxima beside, must be one.

    Examples
    --------
    >>> log_z, g, dg = quadrature_channel(lambda s: np.where(s > 0, 0.0, -np.inf), (0.0,), 0.0, 1.0)
    >>> round(float(g), 12) == round((2 / np.pi) ** 0.5, 12)
    True
    """
    dtype = common_precision(omega, variance)
    mean, var = np.broadcast_arrays(np.asarray(omega, dtype=np.float64), np.asarray(variance, dtype=np.float64))
    flat_mean, flat_sigma = mean.ravel(), np.sqrt(var).ravel()
    result = np.full((3, mean.size), np.nan)
    finite = np.flatnonzero(np.isfinite(flat_mean) & (flat_sigma > 0) & np.isfinite(flat_sigma))
    with np.errstate(all="ignore"):
        for row in _rows(flat_sigma, finite):
            found, good = row_moments(log_weight, breakpoints, flat_mean[row], float(flat_sigma[row[0]]))
            result[:, row[good]] = found[:, good]
        left = finite[np.isnan(result[0, finite])]
        for start in range(0, left.size, BLOCK):
            part = left[start : start + BLOCK]
            result[:, part] = _moments(log_weight, breakpoints, flat_mean[part], flat_sigma[part])
    log_z, gamma, curvature = result.reshape(3, *mean.shape)
    values = (log_z, gamma / np.sqrt(var), curvature / var)
    return tuple(v.astype(dtype, copy=False)[()] for v in values)


def _rows(sigma: Doubles, finite: Index) -> list[Index]:
    """Return the indices of fields that share their sigma with many others, a row for each sigma."""
    order = finite[np.argsort(sigma[finite], kind="stable")]
    ends = np.flatnonzero(np.diff(sigma[order])) + 1
    return [row for row in np.split(order, ends) if row.size >= ROW]


def _moments(log_weight: LogWeight, breakpoints: Sequence[float], omega: Doubles, sigma: Doubles) -> Doubles:
    """Return (log Z, E z, Var z - 1) with z = (s - omega) / sigma under the weighted Gaussian, shape (3, n)."""
    ends = [-np.inf, *sorted(set(map(float, breakpoints))), np.inf]
    pieces = [cut(log_weight, a, b, omega, sigma) for a, b in pairwise(ends)]
    found = [locate(piece) for piece in pieces]
    best = np.max([where.height + piece.offset for piece, where in zip(pieces, found)], axis=0)
    if np.isneginf(best).any():
        at = int(np.argmax(np.isneginf(best)))
        raise ValueError(
            f"the weight is nowhere positive within reach of omega = {omega[at]:g}, variance = {sigma[at] ** 2:g}."
        )
    parts = np.zeros((len(pieces), 3, omega.size))
    parts[:, 0] = -np.inf
    for part, piece, where in zip(parts, pieces, found):
        heavy = where.height + piece.offset >= best - DROP - 20.0
        coarse = (where.height > FAR) | (where.height < -COARSE)
        for chosen, rule in (
            (heavy & coarse, _expanded),
            (heavy & ~coarse & where.inner, lambda *ends: _integrate(*from_peak(*ends))),
            (heavy & ~coarse & ~where.inner, lambda *ends: _integrate(*from_nearer_end(*ends))),
        ):
            index = np.flatnonzero(chosen)
            if index.size:
                part[:, index] = rule(piece.take(index), where.take(index))
    return _mixture(parts)


def _expanded(piece: Piece, where: Range) -> Doubles:
    """Return (log mass, mean of z, variance of z), shape (3, n), from derivatives at the field or at the highest point."""
    distance = piece.distance(where.peak[:, None])[0][:, 0]
    far = where.height > 0
    s = np.where(far, piece.omega, piece.anchor + piece.sign * piece.sigma * distance)
    step = STENCIL * np.minimum(np.minimum(s - piece.low, piece.high - s), 1.0)
    level = np.asarray(piece.log_weight(s[:, None] + step[:, None] * np.arange(-4, 5)), dtype=np.float64)
    slope, bend = (piece.sigma / step) ** np.array([[1], [2]]) * (NINE[:2] @ (level - level[:, 4:5]).T)
    variance = 1.0 / np.maximum(1.0 - bend, 1e-9)
    log_mass = np.where(far, level[:, 4] + 0.5 * slope**2 * variance, where.height + piece.offset)
    return np.array([log_mass, np.where(far, slope * variance, piece.start + piece.sign * distance), variance])


def _mixture(parts: Doubles) -> Doubles:
    """Combine (log mass, mean, variance) of the pieces, shape (pieces, 3, n)."""
    log_z = np.logaddexp.reduce(parts[:, 0], axis=0)
    share = np.exp(parts[:, 0] - log_z)
    mean = (share * parts[:, 1]).sum(axis=0)
    variance = (share * (parts[:, 2] + (parts[:, 1] - mean) ** 2)).sum(axis=0)
    return np.array([log_z, mean, variance - 1.0])


def _integrate(piece: Piece, where: Range) -> Doubles:
    """Return (log mass, mean of z, variance of z) of a piece, shape (3, n), by doubling the trapezoidal rule."""
    out = np.empty((3, where.peak.size))
    exponent = where.height + piece.offset - 0.5 * np.log(2.0 * np.pi)
    active = np.arange(where.peak.size)
    nodes = 48
    sums = _sums(piece, where, np.arange(nodes) / nodes)
    summary = _summary(piece, where, sums, nodes)
    while active.size:
        sums = sums + _sums(piece, where, (np.arange(nodes) + 0.5) / nodes)
        nodes *= 2
        before, summary = summary, _summary(piece, where, sums, nodes)
        change = np.abs((summary - before) / (1.0 + np.abs(summary))).max(axis=0)
        done = change < TOLERANCE + 1e-15 * np.abs(where.height)  # the rounding of log W is no fault of the rule
        if nodes >= LARGEST and not done.all():
            _doubt(piece.log_weight, float(change.max()))
            done[:] = True
        out[:, active[done]] = summary[:, done]
        more = np.flatnonzero(~done)
        active, piece, where = active[more], piece.take(more), where.take(more)
        sums, summary = sums[:, more], summary[:, more]
    out[0] += exponent
    return out


_told: dict[tuple[float, ...], float] = {}
"""Weights, by their values at some places, whose accuracy the user has been told."""
_PROBE = np.array([-3.1, -1.7, -0.9, -0.4, -0.1, 0.1, 0.4, 0.9, 1.7, 3.1])


def _doubt(log_weight: LogWeight, change: float) -> None:
    """Warn that a weight is integrated to an accuracy of `change` only: once, and again where it is ten times worse."""
    weight = tuple(np.nan_to_num(np.asarray(log_weight(_PROBE), dtype=np.float64), neginf=-1e300).tolist())
    if not change > 10 * _told.get(weight, 0.0):
        return
    _told[weight] = change
    warnings.warn(
        f"the quadrature of a channel is accurate to {change:.0e} only; is a breakpoint missing? Constraints that end "
        "in a wall have potentials of their own: ss.potentials.wall(lower, upper).",
        RuntimeWarning,
        stacklevel=5,
    )


def _sums(piece: Piece, where: Range, fractions: Doubles) -> Doubles:
    """Return the sums of the integrand times 1, e, e^2, with e the distance from the peak."""
    span = (where.high - where.low)[:, None]
    reference, _ = piece.distance(where.peak[:, None])
    sums = np.zeros((3, where.peak.size))
    for part in np.array_split(fractions, max(1, fractions.size * where.peak.size // ELEMENTS)):
        h, delta = piece.height(where.low[:, None] + span * part)
        weight = np.exp(h - where.height[:, None])
        e = delta - reference
        sums += np.array([weight.sum(axis=1), (weight * e).sum(axis=1), (weight * e * e).sum(axis=1)])
    return sums


def _summary(piece: Piece, where: Range, sums: Doubles, nodes: int) -> Doubles:
    """Return (log mass relative to the peak, mean of z, variance of z) from the sums at `nodes` nodes."""
    reference, _ = piece.distance(where.peak[:, None])
    log_mass = np.log(sums[0] * (where.high - where.low) / nodes)
    shift = sums[1] / sums[0]
    mean = piece.start + piece.sign * (reference[:, 0] + shift)
    return np.array([log_mass, mean, sums[2] / sums[0] - shift * shift])
