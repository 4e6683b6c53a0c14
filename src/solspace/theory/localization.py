"""Localization: what is known at overlap q with the sample that the process is heading for (theory notes 3).

Everything follows from one curve per load, F(q) = q̂(q) - α E_q[g²]: the time at which overlap q is stationary, since
dφ_t/dq = (t - F(q))/2. Its slope is F' = 1/χ - α E_q[g'²] = (1 - λ)/χ, where λ(q) = α χ E_q[g'²] is the growth rate of an
error in message passing at overlap q. F(r) = 0, and λ(r) is the replicon of the reference.

Maxima of φ_t at time t are the roots of F(q) = t where F rises (`Landscape`). F is followed on panels in the depth
y = log((1-r)/(1-q)), where it is smooth from q = r to within 1e-20 of 1.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Index, Reals
from solspace.numerics.roots import Roots, Status, bracketed_newton
from solspace.numerics.rules import legendre
from solspace.theory.cavity import CavityField
from solspace.theory.edge import instability_at_one, maximum_at_one, smallest_scale
from solspace.theory.reference import Equilibrium
from solspace.theory.weights import Locator, free_weights, weights_of

TOLERANCE = 1e-12  # largest |E_q[1] - 1| that is let pass without a finer grid
LEVELS = 3
CLOSE = 1e-4  # below this (q - r)/(1 - r), F is integrated up from F(r) = 0: the difference q̂ - α E_q[g²] would lose its digits

NODES = 8  # Chebyshev points in a panel
DENSE = 128  # points in a panel at which its polynomial is read
# edges of the panels in depth; the curve ends at 1 - q < 1e-60
EDGES = np.concatenate([np.arange(6.0), 5 * 1.25 ** np.arange(1, 16)])
LATE = 20.0  # depth from which λ can be trusted to be on its way to a limit that it may first have passed
DEEPEST = 300.0  # depth beyond which no root is looked for: q = 1 to 130 digits
ROUNDING = 1e-12  # times below the rounding of F


class Points(NamedTuple):
    """The curve at given overlaps: F, its slope, the instability λ, and φ_0."""

    time: Reals
    slope: Reals
    instability: Reals
    free_entropy: Reals


class Localization:
    """The curve F of one equilibrium.

    `accuracy` is the largest |E_q[1] - 1| met so far on the finest grid used.

    >>> from solspace.measure import Target
    >>> from solspace.theory.reference import solve
    >>> curve = Localization(solve(Target("binary", "uniform"), 0.5))
    >>> curve.at_overlap([0.9]).time.round(9)
    array([1.99031595])
    """

    def __init__(self, equilibrium: Equilibrium) -> None:
        self.equilibrium = equilibrium
        self._fields = [CavityField(equilibrium.target, *equilibrium.field, level) for level in range(LEVELS)]
        self._shift = equilibrium.overlap - equilibrium.field[0]
        self.accuracy = 0.0

    @cached_property
    def locate(self) -> Locator:
        """The weights at an overlap given by its two distances."""
        equilibrium = self.equilibrium
        free = free_weights(equilibrium.target.prior)
        if free is None:
            return weights_of(equilibrium.target.prior).localized(equilibrium.conjugate)
        assert equilibrium.norm_conjugate is not None
        return free.localized(equilibrium.conjugate, equilibrium.conjugate - equilibrium.norm_conjugate)

    def at_overlap(self, q: ArrayLike) -> Points:
        """Return the curve at overlaps r <= q < Q, arrays (k,)."""
        q = np.atleast_1d(np.asarray(q, dtype=float))
        whole = self.equilibrium.variance
        gap, variance = np.maximum(q - self.equilibrium.overlap, 0.0), self.equilibrium.norm - q
        # the smaller of the two distances as it is, the other so that both add up to 1 - r: exponents of size
        # 1/(1 - r) would show what is missing
        near = gap < variance
        return self.at(np.where(near, gap, whole - variance), np.where(near, whole - gap, variance))

    def at_depth(self, depth: ArrayLike) -> Points:
        """Return the curve at y = log((1-r)/(1-q)) >= 0: the logarithmic depth at which F is a smooth curve."""
        return self.at(*self.distances(depth))

    def distances(self, depth: ArrayLike) -> tuple[Reals, Reals]:
        """Return (q - r, 1 - q) at each depth y."""
        depth = np.atleast_1d(np.asarray(depth, dtype=float))
        return -self.equilibrium.variance * np.expm1(-depth), self.equilibrium.variance * np.exp(-depth)

    def at(self, gap: Reals, variance: Reals) -> Points:
        """Return the curve at overlaps given by their two distances, arrays (k,)."""
        alpha = self.equilibrium.alpha
        log_z, increment, dg2 = self.averages(gap, variance)
        weights = self.locate(gap, variance)
        instability = alpha * weights.susceptibility * dg2
        time = weights.excess - alpha * increment + self.equilibrium.origin
        close = gap < CLOSE * self.equilibrium.variance
        if close.any():
            time[close] = self._from_reference(gap[close])
        return Points(time, (1 - instability) / weights.susceptibility, instability, weights.entropy + alpha * log_z)

    def _from_reference(self, gap: Reals) -> Reals:
        x, w = legendre(2)
        inner = (gap[:, None] * x).ravel()
        variance = self.equilibrium.variance - inner
        _, _, dg2 = self.averages(inner, variance)
        slope = 1 / self.locate(inner, variance).susceptibility - self.equilibrium.alpha * dg2
        return gap * (slope.reshape(-1, 2) @ w) + self.equilibrium.origin

    def averages(self, gap: Reals, variance: Reals) -> tuple[Reals, Reals, Reals]:
        """Return E_q[log Z], E_q[g²] - E_r[g²] and E_q[g'²] at overlaps given by their two distances, arrays (k,)."""
        gap = gap + self._shift
        result = self._fields[0].averages(gap, variance)
        # exponents of size 1/(1 - r) are summed: their rounding is an error that no grid removes
        tolerance = TOLERANCE + 1e-14 / self.equilibrium.variance
        error = np.abs(result.norm - 1)
        poor = np.flatnonzero(~(error < tolerance))
        for field in self._fields[1:]:
            if len(poor) == 0:
                break
            for column, finer in zip(result, field.averages(gap[poor], variance[poor])):
                column[poor] = finer
            before, error = error, np.abs(result.norm - 1)
            # what halving the panels did not help, halving them again will not
            poor = poor[~(error[poor] < tolerance) & ~(error[poor] > before[poor] / 4)]
        self.accuracy = max(self.accuracy, float(np.max(error, initial=0.0)) if np.isfinite(error).all() else np.inf)
        increment = result.increment - self._first if self._shift else result.increment
        return result.log_z, increment, result.dg2

    @cached_property
    def _first(self) -> float:
        return float(self._fields[0].averages([self._shift], [self.equilibrium.variance]).increment[0])


class Window(NamedTuple):
    """Times between which φ_t has a lower and an upper maximum (spinodals), and at which they are equally high (Maxwell).

    `low` is -inf where the upper maximum, at q = 1, exists at every time. A time within the rounding of F is 0.
    """

    low: float
    maxwell: float
    high: float


class Rise(NamedTuple):
    """A stretch on which F rises from `low` to `high`, which may be infinite; `depths` and values of F along it."""

    low: float
    high: float
    depths: Reals
    values: Reals


class Landscape:
    """Turning points, rises and windows of one curve F; `status` records how the searches for roots ended."""

    def __init__(self, curve: Localization) -> None:
        self.curve = curve
        self.status = Status.CONVERGED
        self.norm = curve.equilibrium.norm
        self.falls = maximum_at_one(curve.equilibrium)
        self._limit = instability_at_one(curve.equilibrium)
        least = least_depth(curve.equilibrium)
        least = least if self._limit is None else max(least, LATE)
        # consecutive panels to a depth of at least this, until the end of the curve is clear
        parts: list[Points] = []
        for first, last in pairwise([0, *range(4, len(EDGES), 2)]):
            self.edges = EDGES[: last + 1]
            new = EDGES[first : last + 1]
            depth = (new[:-1, None] + np.diff(new)[:, None] * chebyshev_points(NODES)).ravel()
            parts.append(self.curve.at_depth(depth))
            end = parts[-1].instability[-3:]
            if self.edges[-1] >= least and self._settled(end):
                break
        # still falling at the last panel: the maximum beyond is at q = 1 to all digits
        self.falls = self.falls or bool(end[2] > 1)
        self.points = Points(*(np.concatenate(columns) for columns in zip(*parts)))

    def _settled(self, end: Reals) -> bool:
        # whether λ at the last three depths is on its way to what it is at q = 1, and 1 not in between
        if self._limit is None and self.falls:
            return bool(end[0] < end[1] < end[2] and end[2] > 2)
        near = end[2] < 0.5 if self._limit is None else abs(end[2] - self._limit) < abs(self._limit - 1) / 2
        return bool(end[0] > end[1] > end[2] and near)

    @cached_property
    def _dense(self) -> tuple[Reals, Points]:
        # the curve on a fine grid of depths, by the polynomial of each panel; the reference's own values come first
        depth = (self.edges[:-1, None] + np.diff(self.edges)[:, None] * np.arange(DENSE) / DENSE).ravel()
        fine = Points(*((column.reshape(-1, NODES) @ INTERPOLATION.T).ravel() for column in self.points))
        reference = self.curve.equilibrium
        fine.time[0], fine.instability[0] = reference.origin, reference.replicon
        fine.free_entropy[0] = reference.free_entropy
        return depth, fine

    @cached_property
    def peak(self) -> tuple[float, float]:
        """Depth and height of the largest instability λ on [r, 1): infinite height where F falls towards q = 1."""
        if self.falls:
            return np.inf, np.inf
        depth, dense = self._dense
        best = int(np.argmax(dense.instability))
        top, step = float(depth[best]), float(np.diff(depth)[min(best, len(depth) - 2)])
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
        """Whether F rises all the way from q = r to 1."""
        return not self.falls and self.curve.equilibrium.replicon < 1 and len(self.turning[0]) == 0

    @cached_property
    def turning(self) -> tuple[Reals, Reals]:
        """Depths at which F' = 0, ascending, and F there."""
        depth, dense = self._dense
        excess = dense.instability - 1
        crossing = np.flatnonzero((excess[:-1] < 0) != (excess[1:] < 0))
        share = excess[crossing] / (excess[crossing] - excess[crossing + 1])
        found = (depth[crossing] + share * (depth[crossing + 1] - depth[crossing])).tolist()
        below = excess[1:-1] < 0
        tops = 1 + np.flatnonzero(below & (excess[1:-1] >= excess[:-2]) & (excess[1:-1] > excess[2:]))
        if excess[0] < 0 and excess[1] < 0:  # the top may hide between q = r and the first point
            tops = np.append(tops, 1)
        for k in tops:  # both roots of the parabola through three points, if they lie between these
            before, here, after = excess[k - 1 : k + 2]
            bend = (before - 2 * here + after) / 2
            steps = np.roots([bend, (after - before) / 2, here])
            if bend < 0 and np.isreal(steps).all() and (np.abs(steps) <= 1).all():
                found += [x for x in (depth[k] + (depth[k + 1] - depth[k]) * steps.real).tolist() if x > 0]
        return self._polish(np.unique(found))

    def _polish(self, depth: Reals) -> tuple[Reals, Reals]:
        # two secant steps on exact values: F is flat there, so its value is right to the square of what is left
        if len(depth) == 0:
            return depth, depth
        h = 1e-5
        for _ in range(2):
            both = self.curve.at_depth(np.concatenate([depth, depth + h])).instability.reshape(2, -1)
            slope = (both[1] - both[0]) / h
            room = 0.3 * np.diff(depth, prepend=-1.0, append=depth[-1] + 1.0)
            limit = np.minimum(np.minimum(room[:-1], room[1:]), 0.03)
            with np.errstate(divide="ignore", invalid="ignore"):
                step = np.where(slope != 0, (1 - both[0]) / slope, 0.0)
            depth = np.maximum(depth + np.clip(step, -limit, limit), 0.0)
        return depth, self.curve.at_depth(depth).time

    @cached_property
    def rises(self) -> list[Rise]:
        """The rising stretches of F, from low to high overlap."""
        depth, dense = self._dense
        rising = self.curve.equilibrium.replicon < 1
        ends = [
            (0.0, self.curve.equilibrium.origin),
            *np.transpose(self.turning).tolist(),
            (np.inf, -np.inf if self.falls else np.inf),
        ]
        result = []
        for (start, low), (stop, high) in pairwise(ends):
            if rising and high > low:
                inside, finite = (depth > start) & (depth < stop), slice(None if np.isfinite(stop) else -1)
                depths = np.concatenate([[start], depth[inside], [stop]])[finite]
                values = np.concatenate([[low], dense.time[inside], [high]])[finite]
                result.append(Rise(low, high, depths, np.maximum.accumulate(values)))
            rising = not rising
        return result

    def roots(self, rises: list[Rise], times: Reals) -> Reals:
        """Return the depths at which F equals each of the `times` (k,), which it must reach on each of the `rises`."""
        low, high, guess = np.transpose([self._bracket(rise, time) for rise, time in zip(rises, times)])

        def mismatch(depth: Reals, index: Index) -> tuple[Reals, Reals]:
            points = self.curve.at_depth(depth)
            _, variance = self.curve.distances(depth)
            return points.time - times[index], points.slope * variance

        return self._found(bracketed_newton(mismatch, low, high, guess))

    def _found(self, roots: Roots) -> Reals:
        self.status = self.status.then(roots.status)
        return roots.x

    def _bracket(self, rise: Rise, time: float) -> tuple[float, float, float]:
        _, _, knots, values = rise
        if time > values[-1]:  # past the panels F grows like the weights' own term: exponentially or in proportion
            growth = self.curve.equilibrium.target.prior.conjugate_growth
            slope = (values[-1] - values[-2]) / (knots[-1] - knots[-2])
            guess = float(knots[-1] + (np.log(time / values[-1]) / growth if growth else (time - values[-1]) / slope))
            return (float(knots[-1]), DEEPEST, guess) if guess < DEEPEST else (DEEPEST, DEEPEST, DEEPEST)
        slot = int(np.clip(np.searchsorted(values, time) - 1, 0, len(knots) - 2))
        guess = float(np.interp(time, values[slot : slot + 2], knots[slot : slot + 2]))
        # the knots are interpolated: leave room for the root on either side
        first, last = max(slot - 1, 0), min(slot + 2, len(knots) - 1)
        return float(knots[first]), float(knots[last]), guess

    def maxima(self, time: float) -> tuple[Reals, Reals]:
        """Return depth and φ_t of every maximum at `time`, from low to high overlap; a depth of inf is q = 1."""
        alive = [rise for rise in self.rises if rise.low <= time <= rise.high]
        depths = self.roots(alive, np.full(len(alive), float(time))) if alive else np.empty(0)
        heights = self._heights(depths, time) if alive else np.empty(0)
        if self.falls:
            depths, heights = np.append(depths, np.inf), np.append(heights, time * self.norm / 2 + self.top)
        return depths, heights

    def _heights(self, depths: Reals, time: float) -> Reals:
        gap, variance = self.curve.distances(depths)
        return self.curve.at(gap, variance).free_entropy + time * (self.norm - variance) / 2

    @cached_property
    def top(self) -> float:
        """φ_0 at q = Q: α E log W, the energy of one sample, and its prior."""
        equilibrium = self.curve.equilibrium
        return equilibrium.alpha * equilibrium.law.log_weight + equilibrium.log_prior

    @cached_property
    def windows(self) -> list[Window]:
        """Pairs of neighbouring maxima: the times at which both exist, and at which they are equally high."""
        found = [(upper.low, self._maxwell(lower, upper), lower.high) for lower, upper in pairwise(self.rises)]
        if self.falls and self.rises:
            last = self.rises[-1]
            found.append((-np.inf, self._maxwell(last, None), last.high))
        return [Window(*(0.0 if abs(time) < ROUNDING else float(time) for time in times)) for times in found]

    def _maxwell(self, lower: Rise, upper: Rise | None) -> float:
        # φ_t of the upper (None: at q = 1) minus that of the lower maximum rises with t, at half their difference in q
        pair = [lower] if upper is None else [lower, upper]
        first, last = max(rise.low for rise in pair), lower.high

        def advantage(time: Reals, index: Index) -> tuple[Reals, Reals]:
            depths = self.roots(pair, np.full(len(pair), time[0]))
            heights, variance = self._heights(depths, float(time[0])), self.curve.distances(depths)[1]
            if upper is None:
                return np.array([time[0] * self.norm / 2 + self.top - heights[0]]), variance / 2
            return np.diff(heights), -np.diff(variance) / 2

        if last - first < 1e-9 * (1 + abs(last)):  # a window as narrow as the error of its ends
            return (first + last) / 2
        times = np.linspace(first, last, 400)[1:-1]  # the same on the interpolated curve
        above = times * self.norm / 2 + self.top if upper is None else self._interpolated(upper, times)
        ahead = above - self._interpolated(lower, times)
        if ahead[0] > 0 and advantage(np.array([first]), np.zeros(1, int))[0][0] > 0:
            return -np.inf
        guess = np.interp(0.0, ahead, times)
        return float(self._found(bracketed_newton(advantage, [first], [last], [guess], tolerance=1e-13))[0])

    def _interpolated(self, rise: Rise, times: Reals) -> Reals:
        at = np.interp(times, rise.values, rise.depths)
        depth, dense = self._dense
        _, variance = self.curve.distances(at)
        return np.interp(at, depth, dense.free_entropy) + times * (self.norm - variance) / 2


def least_depth(equilibrium: Equilibrium) -> float:
    """Return the depth to which the curve is followed at least: structure of the weight on a scale l shows at 1 - q of l²."""
    scale = smallest_scale(equilibrium.target)
    return float(np.clip(np.log(equilibrium.variance / scale**2) + 4.0, 5.0, 40.0))


def chebyshev_points(count: int) -> Reals:
    """Return the Chebyshev points of [0, 1], ascending."""
    return (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2


# the matrix (DENSE, NODES) from values at Chebyshev points to equidistant ones from 0 on
INTERPOLATION = legvander(2 * (np.arange(DENSE) / DENSE) - 1, NODES - 1) @ np.linalg.inv(
    legvander(2 * chebyshev_points(NODES) - 1, NODES - 1)
)
