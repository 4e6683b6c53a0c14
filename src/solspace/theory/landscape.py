"""The maxima of φ_t(q) at every time, from the turning points of one curve (EQUATIONS 3.1).

Stationary points at time t are the roots of F(q) = t, maxima where F rises. F is followed on panels in the depth
y = log((1-r)/(1-q)), where it is smooth from q = r to within 1e-20 of 1; the polynomial of each panel finds every turning point,
also two that lie closer together than the nodes. Between turning points F is monotone, and a time has one root there.

* spinodals: a local maximum of F is the time up to which the lower branch lives, the next local minimum the time from which
  the upper one does;
* Maxwell: the time at which the two have the same φ_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solspace.numerics.roots import bracketed_newton
from solspace.theory.edge import maximum_at_one
from solspace.theory.localization import Localization, Points

Array = NDArray[np.float64]
NODES = 8
"""Chebyshev points in a panel of unit depth."""
DENSE = 32
DEEPEST = 120.0
"""Depth at which the curve is given up: 1 - q is below 1e-50 there."""


class Window(NamedTuple):
    """Times between which φ_t has a lower and an upper maximum, and the time at which they are equally high.

    `low` is -inf where the upper maximum, at q = 1, exists at every time.
    """

    low: float
    maxwell: float
    high: float


@dataclass(frozen=True)
class Branch:
    """A stretch of depths on which F rises, and its values at the ends; `stop` is infinite for the last one."""

    start: float
    stop: float
    low: float
    high: float


class Landscape:
    """Turning points, branches and windows of one curve F."""

    def __init__(self, curve: Localization, panel: float = 1.0) -> None:
        self.curve = curve
        self.panel = panel
        self.falls = maximum_at_one(curve.equilibrium)
        self._follow()

    def _follow(self) -> None:
        # nodes of consecutive panels until the end of the curve is clear
        x = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2
        parts: list[Points] = []
        depths: list[Array] = []
        last = 0
        least = _least_depth(self.curve)
        while True:
            count = 4 if last == 0 else 2
            depth = self.panel * (np.arange(last, last + count)[:, None] + x).ravel()
            parts.append(self.curve.at_depth(depth))
            depths.append(depth)
            last += count
            end = parts[-1].instability[-3:]
            falling, rising = end[2] < end[1] < end[0], end[2] > end[1] > end[0]
            settled = (rising and end[2] > 2) if self.falls else (falling and end[2] < 0.5)
            if (settled and depth[-1] >= least) or depth[-1] > DEEPEST:
                break
        self.depth = np.concatenate(depths)
        self.points = Points(*(np.concatenate(columns) for columns in zip(*parts)))

    @cached_property
    def _dense(self) -> tuple[Array, Array]:
        # depths and λ on a fine grid, by the polynomial of each panel; the reference's own λ comes first
        panels = self.points.instability.reshape(-1, NODES)
        start = self.panel * np.arange(len(panels))
        fine = (panels @ _interpolation().T).ravel()
        depth = (start[:, None] + self.panel * np.arange(DENSE) / DENSE).ravel()
        fine[0] = self.curve.equilibrium.replicon
        return depth, fine

    @cached_property
    def peak(self) -> tuple[float, float]:
        """Depth and height of the largest instability λ on (r, 1): infinite height where F falls towards q = 1."""
        if self.falls:
            return np.inf, np.inf
        depth, value = self._dense
        top = int(np.argmax(value))
        if top == 0 or top == len(value) - 1:
            return float(depth[top]), float(value[top])
        at = _parabola(depth[top - 1 : top + 2], value[top - 1 : top + 2])
        at = self._polished_peak(at)
        return at, float(self.curve.at_depth([at]).instability[0])

    def _polished_peak(self, at: float) -> float:
        # an even polynomial through exact values about the dense grid's guess
        h = self.panel / 8
        offset = h * np.arange(-2, 3)
        if at - 2 * h < 0:
            return at
        fit = np.polynomial.polynomial.polyfit(offset, self.curve.at_depth(at + offset).instability, 4)
        slope = np.polynomial.polynomial.polyder(fit)
        step = 0.0
        for _ in range(4):
            curvature = np.polynomial.polynomial.polyval(step, np.polynomial.polynomial.polyder(slope))
            if curvature >= 0:
                return at
            step -= np.polynomial.polynomial.polyval(step, slope) / curvature
        return at + float(step) if abs(step) < 2 * h else at

    @cached_property
    def turning(self) -> tuple[Array, Points]:
        """Depths at which F' = 0, ascending, and the curve there."""
        depth, value = self._dense
        excess = value - 1
        found = []
        for k in range(len(depth) - 1):
            if (excess[k] < 0) != (excess[k + 1] < 0):
                share = excess[k] / (excess[k] - excess[k + 1])
                found.append(depth[k] + share * (depth[k + 1] - depth[k]))
            elif k > 0 and excess[k] < 0 and excess[k] >= excess[k - 1] and excess[k] > excess[k + 1]:
                found += _hidden(depth[k - 1 : k + 2], excess[k - 1 : k + 2])
        return self._polish(np.array(sorted(found)))

    def _polish(self, depth: Array) -> tuple[Array, Points]:
        # two secant steps on exact values: F is flat there, so its value is right to the square of what is left
        if len(depth) == 0:
            return depth, Points(*(np.empty(0) for _ in range(4)))
        h = 1e-4
        for _ in range(2):
            both = self.curve.at_depth(np.concatenate([depth, depth + h])).instability.reshape(2, -1)
            slope = (both[1] - both[0]) / h
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(slope != 0, (1 - both[0]) / slope, 0.0)
            depth = np.maximum(depth + np.clip(step, -0.03, 0.03), 0.0)
        return depth, self.curve.at_depth(depth)

    @cached_property
    def branches(self) -> list[Branch]:
        """The rising stretches of F, from low to high overlap."""
        depth, points = self.turning
        rising = self.curve.equilibrium.replicon < 1
        ends = [(0.0, 0.0), *zip(depth.tolist(), points.time.tolist())]
        top = (np.inf, -np.inf if self.falls else np.inf)
        result = []
        for (start, low), (stop, high) in zip(ends, [*ends[1:], top]):
            if rising and high > low:
                result.append(Branch(start, stop, low, high))
            rising = not rising
        return result

    def roots(self, branch: Branch, times: ArrayLike) -> Array:
        """Return the depths on `branch` at which F equals each of the `times`, which it must reach."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        stop = branch.stop if np.isfinite(branch.stop) else self._reach(branch, float(times.max()))
        inside = (self.depth > branch.start) & (self.depth < stop)
        high = np.inf if np.isinf(branch.stop) else branch.high
        knots = np.concatenate([[branch.start], self.depth[inside], [stop]])
        values = np.concatenate([[branch.low], self.points.time[inside], [high]])
        values[-1] = self.curve.at_depth([stop]).time[0] if np.isinf(high) else high
        values = np.maximum.accumulate(values)
        slot = np.clip(np.searchsorted(values, times) - 1, 0, len(knots) - 2)
        low, high_knot = knots[slot], knots[slot + 1]
        span = np.maximum(values[slot + 1] - values[slot], 1e-300)
        guess = low + np.clip((times - values[slot]) / span, 0.0, 1.0) * (high_knot - low)

        def mismatch(depth: Array, index: Array) -> tuple[Array, Array]:
            points = self.curve.at_depth(depth)
            _, variance = self.curve.distances(depth)
            return points.time - times[index], points.slope * variance

        return bracketed_newton(mismatch, low, high_knot, guess).x

    def _reach(self, branch: Branch, time: float) -> float:
        stop = max(self.depth[-1], branch.start + 1)
        for _ in range(60):
            if self.curve.at_depth([stop]).time[0] > time:
                return float(stop)
            stop = min(1.3 * stop + 2, stop + 40)
        return float(stop)

    def maxima(self, time: float) -> tuple[Array, Array]:
        """Return depth and φ_t of every maximum at `time`, from low to high overlap; a depth of inf is q = 1."""
        depths = [float(self.roots(b, time)[0]) for b in self.branches if b.low <= time <= b.high]
        heights = [self._height(depth, time) for depth in depths]
        if self.falls:
            depths.append(np.inf)
            heights.append(time / 2 + self.top)
        return np.array(depths), np.array(heights)

    def _height(self, depth: float, time: float) -> float:
        gap, variance = self.curve.distances(depth)
        return float(self.curve.at(gap, variance).free_entropy[0] + time * (1 - variance[0]) / 2)

    @cached_property
    def top(self) -> float:
        """φ_0 at q = 1: α E log W, the energy of one sample."""
        from solspace.theory.stability import StabilityLaw

        reference = self.curve.equilibrium
        return reference.alpha * StabilityLaw(reference.target, reference.overlap, reference.variance).log_weight

    @cached_property
    def windows(self) -> list[Window]:
        """Pairs of neighbouring maxima: the times at which both exist, and at which they are equally high."""
        found = []
        for lower, upper in zip(self.branches, self.branches[1:]):
            found.append(Window(upper.low, self._maxwell(lower, upper), lower.high))
        if self.falls and self.branches:
            last = self.branches[-1]
            found.append(Window(-np.inf, self._maxwell(last, None), last.high))
        return found

    def _maxwell(self, lower: Branch, upper: Branch | None) -> float:
        # φ_t of the upper minus that of the lower maximum rises with t, at the rate of half their difference in q
        first, last = lower.low if upper is None else max(lower.low, upper.low), lower.high
        if upper is not None and self.curve.equilibrium.replicon < 1:
            first = max(first, lower.low)

        def advantage(time: float) -> tuple[float, float]:
            depth = float(self.roots(lower, time)[0])
            _, variance = self.curve.distances(depth)
            if upper is None:
                return time / 2 + self.top - self._height(depth, time), float(variance[0]) / 2
            above = float(self.roots(upper, time)[0])
            _, other = self.curve.distances(above)
            return self._height(above, time) - self._height(depth, time), float(variance[0] - other[0]) / 2

        if advantage(first)[0] > 0:
            return -np.inf

        def mismatch(time: Array, index: Array) -> tuple[Array, Array]:
            value, slope = advantage(float(time[0]))
            return np.array([value]), np.array([slope])

        return float(bracketed_newton(mismatch, [first], [last], tolerance=1e-12).x[0])


def _least_depth(curve: Localization) -> float:
    # structure of the weight on a scale l shows at 1 - q of about l²
    from solspace.theory.edge import smallest_scale

    scale = smallest_scale(curve.equilibrium.target)
    return float(np.clip(np.log(curve.equilibrium.variance / scale**2) + 4.0, 5.0, 40.0))


def _interpolation() -> Array:
    # from the nodes of a panel to DENSE equidistant points of it
    x = (1 - np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)) / 2
    fine = np.arange(DENSE) / DENSE
    return np.polynomial.legendre.legvander(2 * fine - 1, NODES - 1) @ np.linalg.inv(
        np.polynomial.legendre.legvander(2 * x - 1, NODES - 1)
    )


def _parabola(x: Array, y: Array) -> float:
    # the top of the parabola through three equidistant points
    bend = y[0] - 2 * y[1] + y[2]
    return float(x[1] + (x[2] - x[1]) * (y[0] - y[2]) / (2 * bend)) if bend else float(x[1])


def _hidden(x: Array, y: Array) -> list[float]:
    # a local maximum below zero on the grid may rise above it between its points: the two roots of the parabola there
    h = x[2] - x[1]
    bend, tilt = (y[0] - 2 * y[1] + y[2]) / 2, (y[2] - y[0]) / 2
    discriminant = tilt**2 - 4 * bend * y[1]
    if bend >= 0 or discriminant <= 0:
        return []
    return [float(x[1] + h * (-tilt + sign * np.sqrt(discriminant)) / (2 * bend)) for sign in (1, -1)]
