"""Where the integrand of a channel lives: the pieces between breakpoints, and the range of each that carries mass.

On a piece the distance from one of its ends, in units of sqrt(V), is delta(t) = softplus(t) - softplus(t - L), L the length
of the piece: a jump or a power s^beta at an end becomes a smooth exponential tail. A scan in t finds the highest point of

    h(t) = log W(s) - (s - omega)^2 / (2 V) + log delta'(t),

a zoom sharpens it, and bisection finds where h has fallen by 42 on either side. Then distances are counted anew, from
the peak or the nearer end: at x = -1000 the mass sits 10^-3 from the end, and (s - omega)^2 would lose six digits.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Bools, Doubles, Index

LogWeight = Callable[[Doubles], ArrayLike]

DROP = 42.0  # the integrand is followed down to exp(-42) of its peak
FARTHEST = (13, 60, 200)  # log2 of the distance searched: at a small variance exp(-1/s) has its mass far from its wall


@dataclass
class Piece:
    """An interval on which the weight is smooth, seen from a point of it; one entry per element."""

    log_weight: LogWeight
    low: Doubles
    high: Doubles
    omega: Doubles
    sigma: Doubles
    anchor: Doubles  # where distances are counted from: one of the ends, or a point inside
    sign: Doubles  # +1 when s grows with the distance, -1 otherwise
    linear: bool  # whether t itself is the distance: the ends are out of reach

    def __post_init__(self) -> None:
        self.start = (self.anchor - self.omega) / self.sigma
        self.offset = -0.5 * self.start**2  # the part of the exponent left out of `height`
        self.length = (self.high - self.low) / self.sigma
        self.inside = np.nextafter(self.low, np.inf)[:, None], np.nextafter(self.high, -np.inf)[:, None]

    def distance(self, t: Doubles) -> tuple[Doubles, Doubles]:
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

    def height(self, t: Doubles) -> tuple[Doubles, Doubles]:
        """Return h(t), without `offset`, and delta(t)."""
        delta, log_jacobian = self.distance(t)
        signed = self.sign[:, None] * delta
        s = np.clip(self.anchor[:, None] + self.sigma[:, None] * signed, *self.inside)
        log_w = np.asarray(self.log_weight(s), dtype=np.float64)
        if np.isnan(log_w).any():
            raise ValueError("log_weight returned NaN; use -inf where s is forbidden.")
        return log_w - signed * (self.start[:, None] + 0.5 * signed) + log_jacobian, delta


def _softplus(t: Doubles) -> tuple[Doubles, Doubles]:
    # log(1 + exp(t)) and the log of its derivative, with one logarithm for both
    e = np.exp(-np.abs(t))
    w = 1.0 + e
    both = np.log(w) - ((w - 1.0) - e) / w
    return np.maximum(t, 0.0) + both, np.minimum(t, 0.0) - both


def cut(log_weight: LogWeight, a: float, b: float, omega: Doubles, sigma: Doubles) -> Piece:
    """Return the piece between `a` and `b`, seen from its end next to omega; the whole line is seen from omega."""
    low, high = np.full_like(omega, a), np.full_like(omega, b)
    if np.isinf(a) and np.isinf(b):
        return Piece(log_weight, low, high, omega, sigma, omega, np.ones_like(omega), True)
    left = np.abs(a - omega) <= np.abs(b - omega)
    return Piece(log_weight, low, high, omega, sigma, np.where(left, a, b), np.where(left, 1.0, -1.0), False)


@dataclass
class Range:
    """Where a piece's integrand lives: its peak, the height there, and the ends of the range in t."""

    peak: Doubles
    height: Doubles
    low: Doubles
    high: Doubles
    inner: Bools  # whether the range stays clear of the piece's ends


def take(part: Any, keep: Index) -> Any:
    """Return a piece or a range for some of the elements."""
    values = {field.name: getattr(part, field.name) for field in fields(part)}
    return replace(part, **{name: value[keep] for name, value in values.items() if isinstance(value, np.ndarray)})


def _scan_points(piece: Piece, farthest: int) -> Doubles:
    """Sorted t at which h is first looked at: both exponential ends, the Gaussian's neighbourhood, up to 2^farthest."""
    centre = -piece.sign * piece.start
    tail = np.arange(3.0, 93.0, 3.0)
    steps = np.linspace(0.0, 1.0, 9)
    far = 2.0 ** np.arange(5.0, 1.0 + farthest)
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


def locate(piece: Piece) -> Range:
    """Find the peak of h and the range in t around it, and around any other maximum the scan has met."""
    for farthest in FARTHEST:
        t = _scan_points(piece, farthest)
        h, _ = piece.height(t)
        peak, height, width = _climb(piece, t, h)
        above = h >= (height - DROP)[:, None]
        outermost = above[:, -1] | (above[:, 0] & piece.linear) | np.isposinf(height)
        if np.isfinite(piece.length[0]) or not (outermost & ~np.isneginf(height)).any():
            break
    else:
        raise ValueError("the weight grows too fast: its average over the Gaussian field diverges.")
    if (above.sum(axis=1) < 4)[np.isfinite(height)].any():  # narrower than the scan: look around the peak more closely
        steps = 1.6 ** np.arange(24.0)
        close = peak[:, None] + width[:, None] * np.concatenate([-steps, [0.0], steps])
        t = np.sort(np.concatenate([t, np.clip(close, t[:, :1], t[:, -1:])], axis=1), axis=1)
        above = piece.height(t)[0] >= (height - DROP)[:, None]
    low, high = _edges(piece, t, above, peak, height - DROP)
    inner = (low > 2.0) & (high < piece.length - 2.0) | piece.linear
    return Range(peak, height, low, high, inner)


def _climb(piece: Piece, t: Doubles, h: Doubles) -> tuple[Doubles, Doubles, Doubles]:
    """Zoom in on the highest point of a scan until its neighbours are less than one below: peak, height and spacing."""
    rows = np.arange(t.shape[0])
    at = np.argmax(h, axis=1)
    peak, height = t[rows, at], h[rows, at]
    # the next points on either side that are not the same one met twice
    apart = 1e-6 * (1.0 + np.abs(peak))
    left = np.maximum((t < (peak - apart)[:, None]).sum(axis=1) - 1, 0)
    right = np.minimum((t <= (peak + apart)[:, None]).sum(axis=1), t.shape[1] - 1)
    drop = height - np.minimum(h[rows, left], h[rows, right])
    low, high = t[rows, left], t[rows, right]
    quarters = np.arange(4) / 4.0
    for _ in range(60):
        active = np.flatnonzero((drop > 1.0) & np.isfinite(height))
        if not active.size:
            break
        lower, middle, upper = (v[active, None] for v in (low, peak, high))
        grid = np.concatenate(
            [lower + (middle - lower) * quarters, middle + (upper - middle) * quarters, upper], axis=1
        )
        fine, _ = take(piece, active).height(grid)
        at, row = np.argmax(fine, axis=1), np.arange(active.size)
        left, right = np.maximum(at - 1, 0), np.minimum(at + 1, 8)
        peak[active], height[active] = grid[row, at], fine[row, at]
        drop[active] = height[active] - np.minimum(fine[row, left], fine[row, right])
        low[active], high[active] = grid[row, left], grid[row, right]
    return peak, height, np.maximum(high - low, 1e-12)


def from_peak(piece: Piece, where: Range) -> tuple[Piece, Range]:
    """Count distances from the peak itself, in units of sigma."""
    to_peak, low, high = (piece.distance(t[:, None])[0][:, 0] for t in (where.peak, where.low, where.high))
    anchor = piece.anchor + piece.sign * piece.sigma * to_peak
    piece = replace(piece, anchor=anchor, linear=True)
    peak = np.zeros_like(anchor)
    height = piece.height(peak[:, None])[0][:, 0]
    return piece, Range(peak, height, low - to_peak, high - to_peak, where.inner)


def from_nearer_end(piece: Piece, where: Range) -> tuple[Piece, Range]:
    """Count distances from the end of the piece next to the peak; the map is symmetric under t -> L - t."""
    turn = where.peak > 0.5 * piece.length
    if not turn.any():
        return piece, where
    anchor = np.where(turn, np.where(piece.sign > 0, piece.high, piece.low), piece.anchor)
    piece = replace(piece, anchor=anchor, sign=np.where(turn, -piece.sign, piece.sign))
    peak, low, high = (np.where(turn, piece.length - t, t) for t in (where.peak, where.low, where.high))
    height = piece.height(peak[:, None])[0][:, 0]
    return piece, Range(peak, height, np.minimum(low, high), np.maximum(low, high), where.inner)


def _edges(piece: Piece, t: Doubles, above: Bools, peak: Doubles, floor: Doubles) -> tuple[Doubles, Doubles]:
    """Ends of the range where h exceeds `floor`, each bisected between a point inside and one outside."""
    last = t.shape[1] - 1
    any_above = above.any(axis=1)
    first = np.where(any_above, np.argmax(above, axis=1), np.sum(t < peak[:, None], axis=1))
    final = np.where(any_above, last - np.argmax(above[:, ::-1], axis=1), np.sum(t <= peak[:, None], axis=1) - 1)
    rows = np.arange(t.shape[0])
    ends = np.minimum(t[rows, np.minimum(first, last)], peak), np.maximum(t[rows, np.maximum(final, 0)], peak)
    inner = np.where(any_above, ends, peak)
    outer = np.stack([t[rows, np.maximum(first - 1, 0)], t[rows, np.minimum(final + 1, last)]])
    outer = np.where(np.isneginf(floor), inner, outer)
    for _ in range(40):
        slack = np.maximum(inner[0] - outer[0], outer[1] - inner[1])
        if not (slack > 0.1 * (inner[1] - inner[0])).any():
            break
        middle = 0.5 * (inner + outer)
        inside = floor < piece.height(middle.T)[0].T
        inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
    return outer[0], outer[1]
