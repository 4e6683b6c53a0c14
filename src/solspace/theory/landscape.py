"""The maxima of φ_t(q) at every time, from the turning points of one curve (theory notes 3.1).

Stationary points at time t are the roots of F(q) = t, maxima where F rises. F is followed on panels in the
depth y = log((1-r)/(1-q)), where it is smooth from q = r to within 1e-20 of 1; the polynomial of each panel
finds every turning point, also two that lie closer together than the nodes. Between turning points F is
monotone, and a time has one root there.

* spinodals: a local maximum of F is the time up to which the lower maximum lives, the next local minimum the
  time from which the upper one does;
* Maxwell: the time at which the two have the same φ_t.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Reals
from solspace.numerics.roots import Index, Roots, bracketed_newton, chebyshev_points, hidden_roots, interpolation
from solspace.numerics.status import Status
from solspace.theory.edge import instability_at_one, maximum_at_one, smallest_scale
from solspace.theory.localization import Localization, Points
from solspace.theory.stability import StabilityLaw

NODES = 8  # Chebyshev points in a panel
DENSE = 128  # points in a panel at which its polynomial is read
# edges of the panels in depth; the last, where the curve is given up, is 1 - q < 1e-60
EDGES = np.concatenate([np.arange(6.0), 5 * 1.25 ** np.arange(1, 16)])
LATE = 20.0  # depth from which λ can be trusted to be on its way to a limit that it may first have passed
DEEPEST = 300.0  # depth beyond which no root is looked for: q = 1 to 130 digits
ROUNDING = 1e-12  # times below the rounding of F


class Window(NamedTuple):
    """Times between which φ_t has a lower and an upper maximum, and the time at which they are equally high.

    `low` is -inf where the upper maximum, at q = 1, exists at every time. A time within the rounding of F is 0.
    """

    low: float
    maxwell: float
    high: float

    @classmethod
    def of(cls, *times: float) -> Window:
        """Return the window with times within rounding of zero made zero."""
        return cls(*(0.0 if abs(time) < ROUNDING else float(time) for time in times))


@dataclass(frozen=True)
class Rise:
    """A stretch of depths on which F rises, and its values at the ends; `stop` is infinite for the last one."""

    start: float
    stop: float
    low: float
    high: float


class Landscape:
    """Turning points, rises and windows of one curve F; `status` tells how the searches for roots on it ended."""

    def __init__(self, curve: Localization) -> None:
        self.curve = curve
        self.status = Status.CONVERGED
        self.falls = maximum_at_one(curve.equilibrium)
        self._limit = instability_at_one(curve.equilibrium)
        self._follow()

    def _follow(self) -> None:
        # consecutive panels until the end of the curve is clear
        parts: list[Points] = []
        edges, used = EDGES[:1], 0
        least = _least_depth(self.curve)
        while True:
            used += 4 if used == 0 else 2
            edges = EDGES[: used + 1]
            new = edges[-5:] if used == 4 else edges[-3:]
            depth = (new[:-1, None] + np.diff(new)[:, None] * chebyshev_points(NODES)).ravel()
            parts.append(self.curve.at_depth(depth))
            end = parts[-1].instability[-3:]
            clear = edges[-1] >= max(least, LATE * (self._limit is not None)) and self._settled(end)
            if clear or len(edges) + 2 > len(EDGES):
                break
        # still falling where the curve is given up: the maximum beyond is at q = 1 to all digits
        self.falls = self.falls or bool(end[2] > 1)
        self.edges = edges
        self.points = Points(*(np.concatenate(columns) for columns in zip(*parts)))

    def _settled(self, end: Reals) -> bool:
        # whether λ at the last three depths is on its way to what it is at q = 1, and 1 not in between
        if self._limit is not None:
            left = end - self._limit
            return bool(left[0] > left[1] > left[2] and abs(left[2]) < abs(self._limit - 1) / 2)
        if self.falls:
            return bool(end[2] > end[1] > end[0] and end[2] > 2)
        return bool(end[2] < end[1] < end[0] and end[2] < 0.5)

    @cached_property
    def _dense(self) -> tuple[Reals, Points]:
        # the curve on a fine grid of depths, by the polynomial of each panel; the reference's own values come first
        depth = (self.edges[:-1, None] + np.diff(self.edges)[:, None] * np.arange(DENSE) / DENSE).ravel()
        fine = Points(*((column.reshape(-1, NODES) @ interpolation(NODES, DENSE).T).ravel() for column in self.points))
        reference = self.curve.equilibrium
        fine.time[0], fine.instability[0], fine.free_entropy[0] = 0.0, reference.replicon, reference.free_entropy
        return depth, fine

    @cached_property
    def peak(self) -> tuple[float, float]:
        """Depth and height of the largest instability λ on [r, 1): infinite height where F falls towards q = 1."""
        if self.falls:
            return np.inf, np.inf
        depth, dense = self._dense
        best = int(np.argmax(dense.instability))
        top, step = float(depth[best]), float(depth[min(best + 1, len(depth) - 1)] - depth[min(best, len(depth) - 2)])
        # a polynomial through exact values around the best of the interpolated ones
        start = max(top - 10 * step, 0.0)
        x = start + 20 * step * chebyshev_points(8)
        fit = np.polynomial.Polynomial.fit(x, self.curve.at_depth(x).instability, 7, domain=[x[0], x[-1]])
        fine = np.linspace(start, x[-1], 4001)
        at = float(fine[np.argmax(fit(fine))])
        value = max(float(fit(at)), self.curve.equilibrium.replicon)
        return (0.0 if value == self.curve.equilibrium.replicon else at), value

    @property
    def monotone(self) -> bool:
        """True where F rises all the way from q = r to 1."""
        return not self.falls and self.curve.equilibrium.replicon < 1 and len(self.turning[0]) == 0

    @cached_property
    def turning(self) -> tuple[Reals, Points]:
        """Depths at which F' = 0, ascending, and the curve there."""
        depth, dense = self._dense
        excess = dense.instability - 1
        crossing = np.flatnonzero((excess[:-1] < 0) != (excess[1:] < 0))
        share = excess[crossing] / (excess[crossing] - excess[crossing + 1])
        found = (depth[crossing] + share * (depth[crossing + 1] - depth[crossing])).tolist()
        below = excess[1:-1] < 0
        tops = 1 + np.flatnonzero(below & (excess[1:-1] >= excess[:-2]) & (excess[1:-1] > excess[2:]))
        if excess[0] < 0 and excess[1] < 0:  # the top may hide between q = r and the first point
            tops = np.append(tops, 1)
        for k in tops:
            found += [x for x in hidden_roots(depth[k - 1 : k + 2], excess[k - 1 : k + 2]) if x > 0]
        return self._polish(np.unique(found))

    def _polish(self, depth: Reals) -> tuple[Reals, Points]:
        # two secant steps on exact values: F is flat there, so its value is right to the square of what is left
        if len(depth) == 0:
            return depth, Points(*(np.empty(0) for _ in range(4)))
        h = 1e-5
        for _ in range(2):
            both = self.curve.at_depth(np.concatenate([depth, depth + h])).instability.reshape(2, -1)
            slope = (both[1] - both[0]) / h
            room = 0.3 * np.diff(depth, prepend=-1.0, append=depth[-1] + 1.0)
            limit = np.minimum(np.minimum(room[:-1], room[1:]), 0.03)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(slope != 0, (1 - both[0]) / slope, 0.0)
            depth = np.maximum(depth + np.clip(step, -limit, limit), 0.0)
        return depth, self.curve.at_depth(depth)

    @cached_property
    def rises(self) -> list[Rise]:
        """The rising stretches of F, from low to high overlap."""
        depth, points = self.turning
        rising = self.curve.equilibrium.replicon < 1
        ends = [(0.0, 0.0), *zip(depth.tolist(), points.time.tolist())]
        top = (np.inf, -np.inf if self.falls else np.inf)
        result = []
        for (start, low), (stop, high) in zip(ends, [*ends[1:], top]):
            if rising and high > low:
                result.append(Rise(start, stop, low, high))
            rising = not rising
        return result

    def roots(self, rise: Rise, times: ArrayLike) -> Reals:
        """Return the depths on `rise` at which F equals each of the `times`, which it must reach."""
        times = np.atleast_1d(np.asarray(times, dtype=float))
        return self._roots([rise] * len(times), times)

    def _roots(self, rises: list[Rise], times: Reals) -> Reals:
        # one root for each pair of rise and time
        low, high, guess = np.transpose([self._bracket(rise, time) for rise, time in zip(rises, times)])

        def mismatch(depth: Reals, index: Index) -> tuple[Reals, Reals]:
            points = self.curve.at_depth(depth)
            _, variance = self.curve.distances(depth)
            return points.time - times[index], points.slope * variance

        return self._found(bracketed_newton(mismatch, low, high, guess))

    def _found(self, roots: Roots) -> Reals:
        self.status = self.status.then(roots.status)
        return roots.x

    def _knots(self, rise: Rise) -> tuple[Reals, Reals]:
        depth, dense = self._dense
        inside = (depth > rise.start) & (depth < rise.stop)
        last = [(rise.stop, rise.high)] if np.isfinite(rise.stop) else []
        ends = np.array([(rise.start, rise.low), *last])
        knots = np.concatenate([ends[:1, 0], depth[inside], ends[1:, 0]])
        return knots, np.maximum.accumulate(np.concatenate([ends[:1, 1], dense.time[inside], ends[1:, 1]]))

    def _bracket(self, rise: Rise, time: float) -> tuple[float, float, float]:
        knots, values = self._knots(rise)
        if time > values[-1]:
            return self._bracket_beyond(time)
        slot = int(np.clip(np.searchsorted(values, time) - 1, 0, len(knots) - 2))
        guess = float(np.interp(time, values[slot : slot + 2], knots[slot : slot + 2]))
        # the knots are interpolated: leave room for the root on either side
        first, last = max(slot - 1, 0), min(slot + 2, len(knots) - 1)
        return float(knots[first]), float(knots[last]), guess

    def _bracket_beyond(self, time: float) -> tuple[float, float, float]:
        # past the panels F only rises: depths are tried in strides, and kept for later times
        steps = self._beyond
        while steps[-1][1] <= time and steps[-1][0] < DEEPEST:
            stop = steps[-1][0]
            stop = min(1.3 * stop + 2, stop + 40, DEEPEST)
            steps.append((stop, float(self.curve.at_depth([stop]).time[0])))
        after = next((k for k, (_, value) in enumerate(steps) if value > time), None)
        if after is None:
            return DEEPEST, DEEPEST, DEEPEST
        low, high = steps[max(after - 1, 0)][0], steps[after][0]
        return low, high, (low + high) / 2

    @cached_property
    def _beyond(self) -> list[tuple[float, float]]:
        depth, dense = self._dense
        return [(float(depth[-1]), float(dense.time[-1]))]

    def maxima(self, time: float) -> tuple[Reals, Reals]:
        """Return depth and φ_t of every maximum at `time`, from low to high overlap; a depth of inf is q = 1."""
        alive = [rise for rise in self.rises if rise.low <= time <= rise.high]
        depths = self._roots(alive, np.full(len(alive), float(time))) if alive else np.empty(0)
        heights = self._heights(depths, time)
        if self.falls:
            depths, heights = np.append(depths, np.inf), np.append(heights, time / 2 + self.top)
        return depths, heights

    def _heights(self, depths: Reals, time: float) -> Reals:
        if len(depths) == 0:
            return np.empty(0)
        gap, variance = self.curve.distances(depths)
        return self.curve.at(gap, variance).free_entropy + time * (1 - variance) / 2

    @cached_property
    def top(self) -> float:
        """φ_0 at q = 1: α E log W, the energy of one sample."""
        reference = self.curve.equilibrium
        return reference.alpha * StabilityLaw(reference.target, reference.overlap, reference.variance).log_weight

    @cached_property
    def windows(self) -> list[Window]:
        """Pairs of neighbouring maxima: the times at which both exist, and at which they are equally high."""
        found = []
        for lower, upper in zip(self.rises, self.rises[1:]):
            found.append(Window.of(upper.low, self._maxwell(lower, upper), lower.high))
        if self.falls and self.rises:
            last = self.rises[-1]
            found.append(Window.of(-np.inf, self._maxwell(last, None), last.high))
        return found

    def _maxwell(self, lower: Rise, upper: Rise | None) -> float:
        # φ_t of the upper minus that of the lower maximum rises with t, at the rate of half their difference in q
        pair = [lower] if upper is None else [lower, upper]
        first, last = max(rise.low for rise in pair), lower.high

        def advantage(time: Reals, index: Index) -> tuple[Reals, Reals]:
            depths = self._roots(pair, np.full(len(pair), time[0]))
            heights, variance = self._heights(depths, float(time[0])), self.curve.distances(depths)[1]
            if upper is None:
                return np.array([time[0] / 2 + self.top - heights[0]]), variance / 2
            return np.diff(heights), -np.diff(variance) / 2

        if last - first < 1e-9 * (1 + abs(last)):  # a window as narrow as the error of its ends
            return (first + last) / 2
        guess = self._guess_maxwell(lower, upper, first, last)
        if np.isneginf(guess):
            if advantage(np.array([first]), np.zeros(1, int))[0][0] > 0:
                return -np.inf
            guess = first
        return float(self._found(bracketed_newton(advantage, [first], [last], [guess], tolerance=1e-13))[0])

    def _guess_maxwell(self, lower: Rise, upper: Rise | None, first: float, last: float) -> float:
        # the same on the interpolated curve; -inf where the upper maximum is the higher one from the first time on
        times = np.linspace(first, last, 400)[1:-1]
        below = self._interpolated(lower, times)
        above = times / 2 + self.top if upper is None else self._interpolated(upper, times)
        ahead = np.flatnonzero(above > below)
        if len(ahead) and ahead[0] == 0:
            return -np.inf
        if len(ahead) == 0:
            return float(times[-1])
        k = ahead[0]
        return float(np.interp(0.0, (above - below)[k - 1 : k + 1], times[k - 1 : k + 1]))

    def _interpolated(self, rise: Rise, times: Reals) -> Reals:
        knots, values = self._knots(rise)
        at = np.interp(times, values, knots)
        depth, dense = self._dense
        _, variance = self.curve.distances(at)
        return np.interp(at, depth, dense.free_entropy) + times * (1 - variance) / 2


def _least_depth(curve: Localization) -> float:
    # structure of the weight on a scale l shows at 1 - q of about l²
    scale = smallest_scale(curve.equilibrium.target)
    return float(np.clip(np.log(curve.equilibrium.variance / scale**2) + 4.0, 5.0, 40.0))
