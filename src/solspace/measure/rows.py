"""The channel of any weight along a row of fields with one variance: 3 µs for a field, where one by one it is 50.

Let d be a field's distance from the nearest breakpoint, and x = d / sqrt(V).

* x < 20: *together*. On a piece between breakpoints let u be the distance from an end, in units of sqrt(V). The integrand
  is W(s) exp(-(u - x)^2 / 2), and only the Gaussian knows the field: so W is evaluated once for the row, in the variable
  t of `integrand`, in which jumps and powers at the ends are smooth, and the sums over nodes are a compiled loop.
  t = y - exp(c - y) shortens the tail t -> -inf, where only the end of the piece is left, from forty units to four.
* x < 3000: *alone*. The weight is smooth across the Gaussian, which the trapezoidal rule around the field follows. Where
  W changes little, sums are formed of W / W(omega) - 1: Var z - 1 would lose all digits otherwise.
* beyond: *expanded*. The width of the Gaussian is nothing beside the scale of log W, whose derivatives say everything:
  log Z = l + V (l'' + l'^2) / 2 + O(V^2 / d^4).

Each comes with a coarser rule of itself; what changes too much between the two, or loses mass at the last node, is not
vouched for and left to the search of `quadrature`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from solspace.measure.integrand import DROP, LogWeight, cut
from solspace.numerics.arrays import Bools, Doubles

STEPS = (0.25, 0.125, 1 / 16)
"""Distances in y of the nodes that are shared, as tried."""
CHANGE = 3e-8
"""Largest change without every other node: the error that stays is about its square."""
FAR, FARTHER = 20.0, 3000.0
"""Distances x from which fields are integrated alone, and expanded."""
REACH = 12.0
"""How far from the fields the nodes end, in units of sqrt(V)."""
TAIL = 4.0
"""Units of y that the tail takes."""
OUTSIDE = 100.0
"""How far outside a short piece a field may be: what either end sees differs by exponents that round like x^2."""
OWN_STEP = 0.375
OWN: Doubles = OWN_STEP * np.arange(-30.0, 31.0)
"""Nodes around a field that is integrated alone."""
STENCIL = 0.02
"""Step of the differences that stand for derivatives, in units of d or 1, whichever is less."""
ENTRIES = 1 << 17
"""Numbers in a temporary array, at most."""


def row_moments(
    log_weight: LogWeight, breakpoints: Sequence[float], omega: Doubles, sigma: float
) -> tuple[Doubles, Bools]:
    """Return (log Z, E z, Var z - 1), z = (s - omega) / sigma, shape (3, n), and which of them are vouched for (n,)."""
    result, good = np.full((3, omega.size), np.nan), np.zeros(omega.size, bool)
    points = np.array(sorted(set(map(float, breakpoints))))
    distance = np.abs(omega[:, None] - points).min(axis=1, initial=np.inf)
    x = distance / sigma
    top = _highest(log_weight, points, sigma)
    for rule, where, nodes in (
        (_expanded, np.minimum(distance, 1.0) > FARTHER * sigma, 9),
        (_alone, x > FAR, OWN.size),
    ):
        left = np.flatnonzero(where & ~good)
        for few in np.array_split(left, -(-left.size * nodes // ENTRIES) or 1):
            found, sound = rule(log_weight, omega[few], sigma, distance[few])
            # nothing at or beyond a breakpoint may come near
            good[few] = sound & (found[0] > top - 0.5 * x[few] ** 2 + DROP)
            result[:, few] = found
    for step in STEPS if points.size else ():
        left = np.flatnonzero(~good)
        if left.size == 0:
            break
        result[:, left], good[left] = _together(log_weight, points, omega[left], sigma, step)
    return result, good


def _highest(log_weight: LogWeight, points: Doubles, sigma: float) -> float:
    """Return the largest log weight next to the breakpoints, on the scale of sqrt(V)."""
    steps = sigma * np.concatenate([[1e-9], np.logspace(-2, 2, 30)])
    around = (points[:, None] + np.concatenate([-steps, steps])).ravel()
    return float(np.max(log_weight(around), initial=-np.inf)) if points.size else -np.inf


def _expanded(log_weight: LogWeight, omega: Doubles, sigma: float, distance: Doubles) -> tuple[Doubles, Bools]:
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


def _alone(log_weight: LogWeight, omega: Doubles, sigma: float, distance: Doubles) -> tuple[Doubles, Bools]:
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


class Side(NamedTuple):
    """Nodes counted from one end of a piece: distances `u` and log weights `height`; the rest is for `row_sums`."""

    anchor: float
    sign: int
    u: Doubles
    height: Doubles
    stays: int
    dead: int


def _together(
    log_weight: LogWeight, points: Doubles, omega: Doubles, sigma: float, step: float
) -> tuple[Doubles, Bools]:
    """Return moments (3, n) from nodes that all fields share, and where leaving out every other one changes little."""
    from solspace.numerics.row_kernels import row_sums

    ends = [-np.inf, *points.tolist(), np.inf]
    sides = [side for a, b in pairwise(ends) for side in _sides(log_weight, a, b, omega, sigma, step)]
    x = np.stack([side.sign * (omega - side.anchor) / sigma for side in sides], axis=1)
    stops = np.cumsum([len(side.u) for side in sides])
    table = [(s.sign, stop - len(s.u), stop, s.stays, s.dead) for s, stop in zip(sides, stops.tolist())]
    u, height = np.concatenate([s.u for s in sides]), np.concatenate([s.height for s in sides])
    moments, change = row_sums(x, np.array(table, dtype=np.int64), u, height, step)
    joined = [k for k, side in enumerate(sides) if side.dead == 1]
    moments -= np.array([[0.5 * np.log(2.0 * np.pi)], [0.0], [1.0]])
    return moments, (change < CHANGE) & ~(x[:, joined] < -OUTSIDE).any(axis=1)


def _sides(log_weight: LogWeight, a: float, b: float, omega: Doubles, sigma: float, step: float) -> Iterator[Side]:
    # each finite end of the piece has its side; those of a short piece meet at its middle, as parts of one rule
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
        yield Side(float(end), int(sign), u, height, int(k[0] % 2), 1 if joined else 3)
