"""The channel of any weight by quadrature that first finds where the integrand lives (`integrand`).

*Field by field*, on each piece between breakpoints, the trapezoidal rule is doubled until the moments stand still. *Rows* of
fields with one variance share their nodes. With d a field's distance from the nearest breakpoint, and x = d / sqrt(V):

* x < 20, *together*: the weight is evaluated once for the row, in the variable t of `integrand`, where t = y - exp(c - y)
  shortens the tail t -> -inf from forty units to four; the sums over nodes are a compiled loop.
* x < 3000, *alone*: the weight is smooth across the Gaussian, which the trapezoidal rule around the field follows.
* beyond, *expanded*: log Z = l + V (l'' + l'^2) / 2 + O(V^2 / d^4), l = log W.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.integrand import DROP, LogWeight, Piece, Range, cut, from_nearer_end, from_peak, locate, take
from solspace.numerics.arrays import Bools, Channel, Doubles, Reals

BLOCK = 1 << 9  # elements at a time
ELEMENTS = 1 << 16  # numbers in a temporary array, at most about
TOLERANCE = 1e-10  # of the last doubling; the error left behind is about its square
LARGEST = 1 << 15
HIGH, LOW = 1e11, 1e13  # heights whose rounding hides the integrand: far from all ends, or a weight of exp(-LOW)
ROW = 24  # fields of one variance that share their nodes; fewer are integrated one by one

# of rows
STEPS = (0.25, 0.125, 1 / 16)  # distances in y of the nodes that are shared, as tried
CHANGE = 3e-8  # largest change without every other node: the error that stays is about its square
FAR, FARTHER = 20.0, 3000.0  # distances x from which fields are integrated alone, and expanded
REACH = 12.0  # how far from the fields the nodes end, in units of sqrt(V)
TAIL = 4.0  # units of y that the tail takes
OUTSIDE = 100.0  # how far outside a short piece a field may be: exponents seen from either end round like x^2
OWN_STEP = 0.375
OWN: Doubles = OWN_STEP * np.arange(-30.0, 31.0)  # nodes around a field that is integrated alone
STENCIL = 0.02  # step of the differences that stand for derivatives, in units of d or 1, whichever is less
ENTRIES = 1 << 17  # numbers in a temporary array, at most

# log Z, E z and Var z - 1 with z = (s - omega) / sigma, shape (3, n), and which fields they are accurate for, (n,)
Judged = tuple[Doubles, Bools]


def prepare(omega: ArrayLike, variance: ArrayLike) -> tuple[Doubles, Doubles, Callable[[Reals, Reals, Reals], Channel]]:
    """Return both arguments in float64 at full shape, and what turns scaled results into those of the caller's type."""
    from solspace.numerics.power import common_precision

    dtype = common_precision(omega, variance)
    omega, variance = np.broadcast_arrays(np.asarray(omega, dtype=np.float64), np.asarray(variance, dtype=np.float64))

    def finish(log_z: Reals, gamma: Reals, curvature: Reals) -> Channel:
        values = (log_z, gamma / np.sqrt(variance), curvature / variance)
        return tuple(v.astype(dtype, copy=False)[()] for v in values)  # type: ignore[return-value]

    return omega, variance, finish


def quadrature_channel(
    log_weight: LogWeight, breakpoints: Sequence[float], omega: ArrayLike, variance: ArrayLike
) -> Channel:
    """Return (log Z, g, dg) of the weight exp(`log_weight`(s)), which is smooth between `breakpoints`.

    `log_weight` takes and returns arrays and may be -inf. The weight may jump or behave like a power at a breakpoint;
    every place where it is not smooth, or where it is much sharper than sqrt(V) with other maxima beside, must be one.
    """
    fields, variances, finish = prepare(omega, variance)
    mean, sigma = fields.ravel(), np.sqrt(variances).ravel()
    result = np.full((3, mean.size), np.nan)
    finite = np.flatnonzero(np.isfinite(mean) & (sigma > 0) & np.isfinite(sigma))
    with np.errstate(all="ignore"):
        order = finite[np.argsort(sigma[finite], kind="stable")]
        for row in np.split(order, np.flatnonzero(np.diff(sigma[order])) + 1):
            if row.size >= ROW:
                found, good = row_moments(log_weight, breakpoints, mean[row], float(sigma[row[0]]))
                result[:, row[good]] = found[:, good]
        left = finite[np.isnan(result[0, finite])]
        for start in range(0, left.size, BLOCK):
            part = left[start : start + BLOCK]
            result[:, part] = _moments(log_weight, breakpoints, mean[part], sigma[part])
    return finish(*result.reshape(3, *fields.shape))


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
        coarse = (where.height > HIGH) | (where.height < -LOW)
        for chosen, rule in (
            (heavy & coarse, _laplace),
            (heavy & ~coarse & where.inner, lambda *ends: _integrate(*from_peak(*ends))),
            (heavy & ~coarse & ~where.inner, lambda *ends: _integrate(*from_nearer_end(*ends))),
        ):
            index = np.flatnonzero(chosen)
            if index.size:
                part[:, index] = rule(take(piece, index), take(where, index))
    return _mixture(parts)


def _laplace(piece: Piece, where: Range) -> Doubles:
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
    sums = _piece_sums(piece, where, np.arange(nodes) / nodes)
    summary = _summary(piece, where, sums, nodes)
    while active.size:
        sums = sums + _piece_sums(piece, where, (np.arange(nodes) + 0.5) / nodes)
        nodes *= 2
        before, summary = summary, _summary(piece, where, sums, nodes)
        change = np.abs((summary - before) / (1.0 + np.abs(summary))).max(axis=0)
        done = change < TOLERANCE + 1e-15 * np.abs(where.height)  # the rounding of log W is no fault of the rule
        if nodes >= LARGEST and not done.all():
            _doubt(piece.log_weight, float(change.max()))
            done[:] = True
        out[:, active[done]] = summary[:, done]
        more = np.flatnonzero(~done)
        active, piece, where = active[more], take(piece, more), take(where, more)
        sums, summary = sums[:, more], summary[:, more]
    out[0] += exponent
    return out


_warned: dict[tuple[float, ...], float] = {}  # accuracies that the user has been warned of, by values of the weight


def _doubt(log_weight: LogWeight, change: float) -> None:
    """Warn that a weight is integrated to an accuracy of `change` only: once, and again where it is ten times worse."""
    probe = np.asarray(log_weight(np.linspace(-3.1, 3.1, 10)), dtype=np.float64)
    weight = tuple(np.nan_to_num(probe, neginf=-1e300).tolist())
    if not change > 10 * _warned.get(weight, 0.0):
        return
    _warned[weight] = change
    warnings.warn(
        f"the quadrature of a channel is accurate to {change:.0e} only; is a breakpoint missing? Constraints that end "
        "in a wall have potentials of their own: ss.potentials.wall(lower, upper).",
        RuntimeWarning,
        stacklevel=5,
    )


def _piece_sums(piece: Piece, where: Range, fractions: Doubles) -> Doubles:
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


def row_moments(log_weight: LogWeight, breakpoints: Sequence[float], omega: Doubles, sigma: float) -> Judged:
    """Return the moments of fields that share one sigma, and which of them are accurate."""
    result, good = np.full((3, omega.size), np.nan), np.zeros(omega.size, bool)
    points = np.array(sorted(set(map(float, breakpoints))))
    distance = np.abs(omega[:, None] - points).min(axis=1, initial=np.inf)
    x = distance / sigma
    # the largest log weight next to the breakpoints, on the scale of sqrt(V)
    steps = sigma * np.concatenate([[1e-9], np.logspace(-2, 2, 30)])
    around = (points[:, None] + np.concatenate([-steps, steps])).ravel()
    top = float(np.max(log_weight(around), initial=-np.inf)) if points.size else -np.inf
    for rule, where, nodes in (
        (_expanded, np.minimum(distance, 1.0) > FARTHER * sigma, 9),
        (_alone, x > FAR, OWN.size),
    ):
        left = np.flatnonzero(where & ~good)
        for few in np.array_split(left, -(-left.size * nodes // ENTRIES) or 1):
            found, steady = rule(log_weight, omega[few], sigma, distance[few])
            # nothing at or beyond a breakpoint may come near
            good[few] = steady & (found[0] > top - 0.5 * x[few] ** 2 + DROP)
            result[:, few] = found
    for step in STEPS if points.size else ():
        left = np.flatnonzero(~good)
        if left.size == 0:
            break
        result[:, left], good[left] = _together(log_weight, points, omega[left], sigma, step)
    return result, good


def _expanded(log_weight: LogWeight, omega: Doubles, sigma: float, distance: Doubles) -> Judged:
    """Return moments (3, n) from the derivatives of log W, and where two orders of differences agree."""
    h = STENCIL * np.minimum(distance, 1.0)
    level = np.asarray(log_weight(omega[:, None] + h[:, None] * np.arange(-4, 5)), dtype=np.float64)
    # derivatives in units of sigma: the change of log W over the Gaussian's width
    unit = (sigma / h) ** np.arange(1, 5)[:, None]
    (d1, d2, d3, d4), (e1, e2, *_) = (unit * (rows @ (level - level[:, 4:5]).T) for rows in (NINE, SEVEN))
    log_z = level[:, 4] + (d2 + d1 * d1) / 2
    mean, curvature = d1 + d3 / 2 + d1 * d2, d2 + d4 / 2 + d2 * d2 + d1 * d3
    noise = 1e-13 * np.abs(level).max(axis=1)
    steady = (np.abs(d1 - e1) < 1e-7 * np.abs(d1) + noise * unit[0]) & (
        np.abs(d2 - e2) < 1e-5 * np.abs(d2) + noise * unit[1]
    )
    return np.array([log_z, mean, curvature]), steady & (np.abs(d1) < 1e-3) & (np.abs(d2) < 1e-3)


def _differences(points: int) -> Doubles:
    # rows of weights of the derivatives 1 to 4 at the middle of nine places, from the `points` innermost
    at = np.arange(-(points // 2), points // 2 + 1)
    inverse = np.linalg.inv(np.vander(at.astype(float), increasing=True))
    weights = np.zeros((4, 9))
    weights[:, 4 + at] = inverse[1:5] * np.array([1.0, 2.0, 6.0, 24.0])[:, None]
    return weights


NINE, SEVEN = _differences(9), _differences(7)


def _alone(log_weight: LogWeight, omega: Doubles, sigma: float, distance: Doubles) -> Judged:
    """Return moments (3, n) by the trapezoidal rule around each field, and where its coarse form agrees."""
    level = np.asarray(log_weight(omega[:, None] + sigma * OWN), dtype=np.float64)
    middle = level[:, OWN.size // 2].copy()
    level -= middle[:, None]
    height = level - 0.5 * OWN**2
    flat = np.abs(level).max(axis=1) < 1.0
    peak = np.where(flat, 0.0, height.max(axis=1))
    dead = np.maximum(height[:, 0], height[:, -1]) < peak - DROP
    gauss = np.exp(-0.5 * OWN**2) / np.sqrt(2 * np.pi)
    weight = np.where(flat[:, None], np.expm1(level) * gauss, np.exp(height - peak[:, None]) / np.sqrt(2 * np.pi))
    fine, coarse = (_sums(weight[:, ::every], OWN[::every], every * OWN_STEP, flat, peak + middle) for every in (1, 2))
    size = np.where(flat, np.abs(level).max(axis=1), 1.0 + np.abs(fine).max(axis=0))
    return fine, dead & (np.abs(fine - coarse) <= CHANGE * size).all(axis=0)


def _sums(weight: Doubles, z: Doubles, step: float, flat: Bools, top: Doubles) -> Doubles:
    # where flat, `weight` is what comes on top of the Gaussian, whose own moments are 1, 0 and 1
    mass = flat + step * weight.sum(axis=1)
    mean = step * (weight @ z) / mass
    shifted = np.where(flat[:, None], z**2 - 1, (z - mean[:, None]) ** 2)
    second = step * (weight * shifted).sum(axis=1) / mass
    return np.array(
        [np.where(flat, np.log1p(mass - 1), np.log(mass)) + top, mean, second - np.where(flat, mean**2, 1.0)]
    )


def _together(log_weight: LogWeight, points: Doubles, omega: Doubles, sigma: float, step: float) -> Judged:
    """Return moments from nodes that all fields share, and where leaving out every other one changes little."""
    from solspace.numerics.kernels import row_sums

    ends = [-np.inf, *points.tolist(), np.inf]
    sides = [side for a, b in pairwise(ends) for side in _sides(log_weight, a, b, omega, sigma, step)]
    anchor, sign, u, height, stays, dead = map(list, zip(*sides))
    x = np.array(sign) * (omega[:, None] - np.array(anchor)) / sigma
    stops = np.cumsum([len(nodes) for nodes in u])
    table = np.column_stack([sign, [0, *stops[:-1]], stops, stays, dead])
    moments, change = row_sums(x, table, np.concatenate(u), np.concatenate(height), step)
    moments -= np.array([[0.5 * np.log(2.0 * np.pi)], [0.0], [1.0]])
    return moments, (change < CHANGE) & ~(x[:, np.array(dead) == 1] < -OUTSIDE).any(axis=1)


def _sides(log_weight: LogWeight, a: float, b: float, omega: Doubles, sigma: float, step: float) -> Iterator[Any]:
    # anchor, direction, distances of the nodes, log weights there, and the last two columns of `row_sums`, of each finite
    # end of the piece; the sides of a short piece meet at its middle, as parts of one rule
    length = (b - a) / sigma
    joined = length < 2 * (FAR + REACH)
    outside = (a - omega.min()) / sigma, (omega.max() - b) / sigma
    # the mass of a field at x < 0 is 1/|x| from the end: there t must still be close to y
    corners = [-4.0 - np.log1p(max(x, 0.0)) if np.isfinite(x) else -np.inf for x in outside]
    for end, sign, near, other, first in ((a, 1, *corners, 0), (b, -1, *corners[::-1], 1)):
        if np.isinf(end):
            continue
        last = length / 2 if joined else FAR + REACH
        k = np.arange(int(np.ceil((last - near + TAIL) / step)), first - 1 if joined else -1, -1)
        y = last - step * k
        start, stop = np.exp(near - y), np.exp(y - length + other)
        piece = cut(log_weight, a, b, np.array([float(end)]), np.array([sigma]))
        u, slope = (v[0] for v in piece.distance((y - start + stop)[None]))
        s = np.clip(end + sign * sigma * u, *(edge[0] for edge in piece.inside))
        height = np.asarray(log_weight(s), dtype=np.float64) + slope + np.log1p(start + stop)
        yield end, sign, u, height, k[0] % 2, 1 if joined else 3
