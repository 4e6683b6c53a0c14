"""The channel of any weight, by a quadrature that first finds where the integrand lives.

The line is cut at the weight's breakpoints. On a piece the distance from one of its ends, in units of sqrt(V), is

    delta(t) = softplus(t) - softplus(t - L),   L the length of the piece:

linear in the middle and exponentially close to either end at large |t|, so that a jump or a power s^beta at an end becomes
a smooth exponential tail. A scan in t finds the peak of h(t) = log W - (s - omega)^2 / (2 V) + log delta'(t), a zoom
sharpens it, bisection finds where h has fallen by 42 on either side, and the trapezoidal rule on that range, which
converges exponentially, is doubled until the moments stand still. Distances are counted from the end of the piece
next to omega: at x = -1000 the mass sits 10^-3 from it and (s - omega)^2 taken as it stands would lose six digits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
LogWeight = Callable[[Array], ArrayLike]

BLOCK = 1 << 9  # elements at a time
ELEMENTS = 1 << 16  # numbers in a temporary array, at most about
DROP = 42.0  # the integrand is followed down to exp(-42) of its peak
TOLERANCE = 1e-10  # of the last doubling; the error left behind is about its square
LARGEST = 1 << 15


def quadrature_channel(
    log_weight: LogWeight, breakpoints: Sequence[float], omega: ArrayLike, variance: ArrayLike
) -> tuple[Any, Any, Any]:
    """Return (log Z, g, dg) of the weight exp(`log_weight`(s)), which is smooth between `breakpoints`.

    `log_weight` takes and returns arrays and may be -inf. The weight may jump or behave like a power at a breakpoint;
    every place where it is not smooth, or where it is much sharper than sqrt(V) with other maxima beside, must be one.

    Examples
    --------
    >>> log_z, g, dg = quadrature_channel(lambda s: np.where(s > 0, 0.0, -np.inf), (0.0,), 0.0, 1.0)
    >>> round(float(g), 12) == round((2 / np.pi) ** 0.5, 12)
    True
    """
    dtype = np.float32 if np.result_type(omega, variance) == np.float32 else np.float64
    mean, var = np.broadcast_arrays(np.asarray(omega, dtype=np.float64), np.asarray(variance, dtype=np.float64))
    flat_mean, flat_sigma = mean.ravel(), np.sqrt(var).ravel()
    result = np.empty((3, mean.size))
    with np.errstate(all="ignore"):
        for start in range(0, mean.size, BLOCK):
            part = slice(start, start + BLOCK)
            result[:, part] = _moments(log_weight, breakpoints, flat_mean[part], flat_sigma[part])
    log_z, gamma, curvature = result.reshape(3, *mean.shape)
    values = (log_z, gamma / np.sqrt(var), curvature / var)
    return tuple(v.astype(dtype, copy=False)[()] for v in values)  # type: ignore[return-value]


def _moments(log_weight: LogWeight, breakpoints: Sequence[float], omega: Array, sigma: Array) -> Array:
    """Return (log Z, E z, Var z - 1) with z = (s - omega) / sigma under the weighted Gaussian, shape (3, n)."""
    ends = [-np.inf, *sorted(set(map(float, breakpoints))), np.inf]
    pieces = [_piece(log_weight, a, b, omega, sigma) for a, b in pairwise(ends)]
    found = [_locate(piece) for piece in pieces]
    best = np.max([where.height + piece.offset for piece, where in zip(pieces, found)], axis=0)
    if np.isneginf(best).any():
        at = int(np.argmax(np.isneginf(best)))
        raise ValueError(
            f"the weight is nowhere positive within reach of omega = {omega[at]:g}, variance = {sigma[at] ** 2:g}."
        )
    parts = np.zeros((len(pieces), 3, omega.size))
    parts[:, 0] = -np.inf
    for part, piece, where in zip(parts, pieces, found):
        heavy = where.height + piece.offset > best - DROP - 20.0
        for chosen, view in ((heavy & where.inner, _from_peak), (heavy & ~where.inner, _from_nearer_end)):
            index = np.flatnonzero(chosen)
            if index.size:
                part[:, index] = _integrate(*view(piece.take(index), where.take(index)))
    return _mixture(parts)


def _mixture(parts: Array) -> Array:
    """Combine (log mass, mean, variance) of the pieces, shape (pieces, 3, n)."""
    log_z = np.logaddexp.reduce(parts[:, 0], axis=0)
    share = np.exp(parts[:, 0] - log_z)
    mean = (share * parts[:, 1]).sum(axis=0)
    variance = (share * (parts[:, 2] + (parts[:, 1] - mean) ** 2)).sum(axis=0)
    return np.array([log_z, mean, variance - 1.0])


@dataclass
class _Piece:
    """An interval on which the weight is smooth, seen from a point of it; one entry per element."""

    log_weight: LogWeight
    low: Array
    high: Array
    omega: Array
    sigma: Array
    anchor: Array  # where distances are counted from: one of the ends, or a point inside
    sign: Array  # +1 when s grows with the distance, -1 otherwise
    linear: bool  # whether t itself is the distance: the ends are out of reach

    def __post_init__(self) -> None:
        self.start = (self.anchor - self.omega) / self.sigma
        self.length = (self.high - self.low) / self.sigma
        self.inside = np.nextafter(self.low, np.inf)[:, None], np.nextafter(self.high, -np.inf)[:, None]

    @property
    def offset(self) -> Array:
        """The part of the exponent left out of `height`."""
        return -0.5 * self.start**2

    def take(self, keep: NDArray[np.intp]) -> _Piece:
        names = ("low", "high", "omega", "sigma", "anchor", "sign")
        return _Piece(self.log_weight, *(getattr(self, name)[keep] for name in names), self.linear)

    def distance(self, t: Array) -> tuple[Array, Array]:
        """Return delta(t) and log delta'(t) for t of shape (n, nodes)."""
        if self.linear:
            return t, np.zeros_like(t)
        rise, log_slope = _softplus(t)
        if np.isinf(self.length[0]):
            return rise, log_slope
        length = self.length[:, None]
        fall, _ = _softplus(t - length)
        short = np.log1p(-np.expm1(-length) / (np.exp(-t) + np.exp(-length)))
        return np.where(length < 30.0, short, rise - fall), log_slope - fall + np.log(-np.expm1(-length))

    def height(self, t: Array) -> tuple[Array, Array]:
        """Return h(t), without `offset`, and delta(t)."""
        delta, log_jacobian = self.distance(t)
        signed = self.sign[:, None] * delta
        s = np.clip(self.anchor[:, None] + self.sigma[:, None] * signed, *self.inside)
        log_w = np.asarray(self.log_weight(s), dtype=np.float64)
        if np.isnan(log_w).any():
            raise ValueError("log_weight returned NaN; use -inf where s is forbidden.")
        return log_w - signed * (self.start[:, None] + 0.5 * signed) + log_jacobian, delta


def _softplus(t: Array) -> tuple[Array, Array]:
    """Return log(1 + exp(t)) and the log of its derivative, with one logarithm for both."""
    e = np.exp(-np.abs(t))
    w = 1.0 + e
    both = np.log(w) - ((w - 1.0) - e) / w
    return np.maximum(t, 0.0) + both, np.minimum(t, 0.0) - both


def _piece(log_weight: LogWeight, a: float, b: float, omega: Array, sigma: Array) -> _Piece:
    low, high = np.full_like(omega, a), np.full_like(omega, b)
    if np.isinf(a) and np.isinf(b):
        return _Piece(log_weight, low, high, omega, sigma, omega, np.ones_like(omega), True)
    left = np.abs(a - omega) <= np.abs(b - omega)
    return _Piece(log_weight, low, high, omega, sigma, np.where(left, a, b), np.where(left, 1.0, -1.0), False)


@dataclass
class _Range:
    """Where a piece's integrand lives: its peak, the height there, and the ends of the range in t."""

    peak: Array
    height: Array
    low: Array
    high: Array
    inner: NDArray[np.bool_]  # whether the range stays clear of the piece's ends

    def take(self, keep: NDArray[np.intp]) -> _Range:
        return _Range(*(getattr(self, field.name)[keep] for field in fields(self)))


def _scan_points(piece: _Piece) -> Array:
    """Sorted t at which h is first looked at: both exponential ends, the Gaussian's neighbourhood, and far beyond."""
    centre = -piece.sign * piece.start
    tail = np.arange(3.0, 93.0, 3.0)
    steps = np.linspace(0.0, 1.0, 9)
    far = 2.0 ** np.arange(5.0, 14.0)
    around = np.concatenate([-far[::-1], np.arange(-15.0, 15.5), far])
    if piece.linear:
        return np.broadcast_to(around, (centre.size, around.size))
    columns = [
        np.broadcast_to(-tail, (centre.size, tail.size)),
        centre[:, None] + around,
        steps * np.minimum(np.abs(centre), piece.length)[:, None],
    ]
    top = np.maximum(centre, 0.0) + far[-1]
    if np.isfinite(piece.length[0]):
        top = piece.length + tail[-1]
        columns += [piece.length[:, None] + tail, steps * piece.length[:, None]]
    return np.sort(np.clip(np.concatenate(columns, axis=1), -tail[-1], top[:, None]), axis=1)


def _locate(piece: _Piece) -> _Range:
    rows = np.arange(piece.anchor.size)
    t = _scan_points(piece)
    h, _ = piece.height(t)
    at = np.argmax(h, axis=1)
    peak, height = t[rows, at], h[rows, at]
    left, right = t[rows, np.maximum(at - 1, 0)], t[rows, np.minimum(at + 1, t.shape[1] - 1)]
    for _ in range(60):
        grid = left[:, None] + (right - left)[:, None] * np.linspace(0.0, 1.0, 9)
        fine, _ = piece.height(grid)
        at = np.argmax(fine, axis=1)
        gain = fine[rows, at] - height
        better = gain > 0
        peak, height = np.where(better, grid[rows, at], peak), np.where(better, fine[rows, at], height)
        left, right = grid[rows, np.maximum(at - 1, 0)], grid[rows, np.minimum(at + 1, 8)]
        if not (gain > 0.2).any():
            break
    above = h > (height - DROP)[:, None]
    if np.isinf(piece.length[0]) and (above[:, -1] & np.isfinite(height)).any():
        raise ValueError("the weight grows too fast: its average over the Gaussian field diverges.")
    low, high = _edges(piece, t, above, peak, height - DROP)
    inner = (low > 2.0) & (high < piece.length - 2.0) | piece.linear
    return _Range(peak, height, low, high, inner)


def _from_peak(piece: _Piece, where: _Range) -> tuple[_Piece, _Range]:
    """Count distances from the peak itself, in units of sigma."""
    to_peak, low, high = (piece.distance(t[:, None])[0][:, 0] for t in (where.peak, where.low, where.high))
    anchor = piece.anchor + piece.sign * piece.sigma * to_peak
    piece = replace(piece, anchor=anchor, linear=True)
    peak = np.zeros_like(anchor)
    height = piece.height(peak[:, None])[0][:, 0]
    return piece, _Range(peak, height, low - to_peak, high - to_peak, where.inner)


def _from_nearer_end(piece: _Piece, where: _Range) -> tuple[_Piece, _Range]:
    """Count distances from the end of the piece next to the peak; the map is symmetric under t -> L - t."""
    turn = where.peak > 0.5 * piece.length
    if not turn.any():
        return piece, where
    anchor = np.where(turn, np.where(piece.sign > 0, piece.high, piece.low), piece.anchor)
    piece = replace(piece, anchor=anchor, sign=np.where(turn, -piece.sign, piece.sign))
    peak, low, high = (np.where(turn, piece.length - t, t) for t in (where.peak, where.low, where.high))
    height = piece.height(peak[:, None])[0][:, 0]
    return piece, _Range(peak, height, np.minimum(low, high), np.maximum(low, high), where.inner)


def _edges(piece: _Piece, t: Array, above: NDArray[np.bool_], peak: Array, floor: Array) -> tuple[Array, Array]:
    """Ends of the range where h exceeds `floor`, each bisected between a point inside and one outside."""
    last = t.shape[1] - 1
    any_above = above.any(axis=1)
    first = np.where(any_above, np.argmax(above, axis=1), np.sum(t < peak[:, None], axis=1))
    final = np.where(any_above, last - np.argmax(above[:, ::-1], axis=1), np.sum(t <= peak[:, None], axis=1) - 1)
    rows = np.arange(t.shape[0])
    inner_low = np.where(any_above, np.minimum(t[rows, np.minimum(first, last)], peak), peak)
    inner_high = np.where(any_above, np.maximum(t[rows, np.maximum(final, 0)], peak), peak)
    outer_low, outer_high = t[rows, np.maximum(first - 1, 0)], t[rows, np.minimum(final + 1, last)]
    nowhere = np.isneginf(floor)
    outer_low[nowhere], outer_high[nowhere] = inner_low[nowhere], inner_high[nowhere]
    for _ in range(40):
        slack = np.maximum(inner_low - outer_low, outer_high - inner_high)
        if not (slack > 0.1 * (inner_high - inner_low)).any():
            break
        middle = 0.5 * np.stack([inner_low + outer_low, inner_high + outer_high], axis=1)
        h, _ = piece.height(middle)
        inside = h > floor[:, None]
        inner_low, outer_low = (
            np.where(inside[:, 0], middle[:, 0], inner_low),
            np.where(inside[:, 0], outer_low, middle[:, 0]),
        )
        inner_high, outer_high = (
            np.where(inside[:, 1], middle[:, 1], inner_high),
            np.where(inside[:, 1], outer_high, middle[:, 1]),
        )
    return outer_low, outer_high


def _integrate(piece: _Piece, where: _Range) -> Array:
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
        done = change < TOLERANCE
        if nodes >= LARGEST and not done.all():
            warnings.warn(
                f"the quadrature of a channel is accurate to {change.max():.0e} only; is a breakpoint missing?",
                RuntimeWarning,
                stacklevel=4,
            )
            done[:] = True
        out[:, active[done]] = summary[:, done]
        more = np.flatnonzero(~done)
        active, piece, where = active[more], piece.take(more), where.take(more)
        sums, summary = sums[:, more], summary[:, more]
    out[0] += exponent
    return out


def _sums(piece: _Piece, where: _Range, fractions: Array) -> Array:
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


def _summary(piece: _Piece, where: _Range, sums: Array, nodes: int) -> Array:
    """Return (log mass relative to the peak, mean of z, variance of z) from the sums at `nodes` nodes."""
    reference, _ = piece.distance(where.peak[:, None])
    log_mass = np.log(sums[0] * (where.high - where.low) / nodes)
    shift = sums[1] / sums[0]
    mean = piece.start + piece.sign * (reference[:, 0] + shift)
    return np.array([log_mass, mean, sums[2] / sums[0] - shift * shift])
