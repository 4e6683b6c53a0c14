"""The equations of a probe around a fair sample of a reference measure (theory notes 15), followed along the overlap p.

The sample w* belongs to the reference (weight W₁, overlap r, conjugate r̂), the solutions w around it to the probe (weight W₂).
Replica symmetric, with q the overlap of two probes, t that of a probe with another sample of the reference, and conjugates

    q̂ = α E[g₂²],   t̂ = α E[g₂ g₁],   p̂ = γ + α E[g₂ G₁],   γ = -v'(p) the field along w* that holds the probe at p.

A constraint has the fields ω₀ ~ N(0, r) of the reference, with response g₁ at variance 1 - r, and ω of the probe:

    ω = (t/r) ω₀ + √u z,   u = q - t²/r,   c = p - t,
    z with density N(z; 0, 1) Z₁(ω₀ + (c/√u) z, 1 - r - c²/u) / Z₁(ω₀, 1 - r);

G₁ is the response of this Z₁, and g₂ that of the probe at (ω, 1 - q). A weight has the field B = (t̂/r̂) b + (p̂ - t̂) w* +
√(q̂ - t̂²/r̂) y, with b its field in the reference. All derivatives of v are averages: none is taken numerically.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar

from solspace.measure import Target
from solspace.measure.priors import Binary, Spherical
from solspace.numerics.arrays import Reals, vanishing
from solspace.numerics.roots import root_between
from solspace.numerics.rules import around, gaussian_trapezoid
from solspace.theory.cavity import kinks, reference_nodes
from solspace.theory.reference import solve

REACH = 8.0  # Gaussian laws are cut at this many standard deviations
STEP, NARROW = 0.4, 3e-3  # of the reference's field in units of min(√r, √(1 - r)); 1 - r below which it needs panels
FINE, WIDEST, GROWTH = 2.0, 1.5, 0.8  # panels of the probe's field: width at a breakpoint, most width, growth
GRID, FLAT = 0.3, 40.0  # step of a weight's field, for functions with poles at ±iπ/2; field beyond which tanh is 1
NARROW_FIELD = 0.7  # width below which a field's Gaussian gets nodes of its own
TOLERANCE = 1e-10  # of log(1 - q) and t
MAX_STEPS = 50
STRIDE = 0.35  # largest step of log(1 - p) along the curve
NEAREST = 1e-7  # least 1 - p


class Weights(NamedTuple):
    """A weight in its field: q - p², t - r p, p̂, its part of the replicon, and its part of v but for α E log Z₂."""

    excess: float
    shift: float
    conjugate: float
    susceptibility: float
    entropy: float


class Around(Protocol):
    """The weights of a probe around a sample of the reference."""

    def __call__(self, distance: float, q_hat: float, t_hat: float, start: float) -> Weights:
        """Return the weights at 1 - p = `distance`; `start` is p̂ of a solution nearby."""

    def free(self, q_hat: float, t_hat: float) -> float:
        """Return the overlap p of a probe without a field along the sample."""


class BinaryAround:
    """±1 weights around those of a reference with overlap r and conjugate r̂."""

    def __init__(self, overlap: float, conjugate: float) -> None:
        self.overlap, self.conjugate = overlap, conjugate
        z, weight = gaussian_trapezoid(min(0.5, GRID / max(np.sqrt(conjugate), 1e-9)), REACH)
        self._field = np.sqrt(conjugate) * z
        self._response = np.tanh(self._field)
        self._weight = weight * (1 + self._response)  # of the field times w*: both signs of w* in one

    def _law(self, q_hat: float, t_hat: float, top: float) -> tuple[Reals, Reals, Reals]:
        # fields X = (B - (p̂ - t̂) w*) w* up to `top`, their weights, and these times tanh b w* - r
        share = t_hat / self.conjugate if self.conjugate > 0 else 0.0
        spread = np.sqrt(max(q_hat - t_hat * share, 0.0))
        shares = np.stack([self._weight, self._weight * (self._response - self.overlap)])
        if spread < NARROW_FIELD:
            y, weight = gaussian_trapezoid(0.5, REACH)
            fields = share * self._field[:, None] + spread * y
            own = shares[:, :, None] * weight
            keep = own[0] > 1e-18
            return fields[keep], own[0][keep], own[1][keep]
        reach = REACH * np.hypot(spread, share * np.sqrt(self.conjugate))
        fields = np.arange(-reach, min(reach, top), GRID)
        law = np.exp(-(((fields[:, None] - share * self._field) / spread) ** 2) / 2) @ shares.T
        law *= GRID / (np.sqrt(2 * np.pi) * spread)
        return fields, law[:, 0], law[:, 1]

    @vanishing
    def __call__(self, distance: float, q_hat: float, t_hat: float, start: float) -> Weights:
        pull = first = start - t_hat
        fields, weight, response = self._law(q_hat, t_hat, max(FLAT - first, 0.0))
        for _ in range(60):
            missing = 2 / (1 + np.exp(np.minimum(2 * (fields + pull), 700)))  # 1 - tanh
            spread = missing * (2 - missing)
            found = float(weight @ missing)
            step = np.log(found / distance) * found / float(weight @ spread)
            if abs(step) < 1e-11:
                break
            pull += float(np.clip(step, -2, 2))
            if pull < first - FLAT / 2:  # fields beyond those at hand count now
                return self(distance, q_hat, t_hat, pull + t_hat)
        excess = float(weight @ missing**2) - found**2
        shift, conjugate = -float(response @ missing), pull + t_hat
        entropy = weight @ np.logaddexp(0, -2 * (fields + pull)) + conjugate * distance
        entropy += t_hat * (shift - self.overlap * distance) - q_hat * float(weight @ spread) / 2
        return Weights(excess, shift, conjugate, float(weight @ spread**2), float(entropy))

    def free(self, q_hat: float, t_hat: float) -> float:
        fields, weight, _ = self._law(q_hat, t_hat, np.inf)
        return float(weight @ np.tanh(fields))


class SphericalAround:
    """Weights on the sphere around those of a reference with overlap r."""

    def __init__(self, overlap: float, conjugate: float) -> None:
        self.overlap = overlap

    def __call__(self, distance: float, q_hat: float, t_hat: float, start: float) -> Weights:
        width = distance * (2 - distance)  # 1 - p²
        own = max(q_hat - ((1 - self.overlap) * t_hat) ** 2, 0.0)
        rest = 2 * width / (1 + np.sqrt(1 + 4 * width * own))
        shift = t_hat * (1 - self.overlap) ** 2 * rest
        entropy = np.log(2 * np.pi * rest) / 2 + width / rest - (1 + q_hat * rest) / 2 + t_hat * shift
        return Weights(own * rest**2, shift, (1 - distance) / rest + self.overlap * t_hat, rest**2, float(entropy))

    def free(self, q_hat: float, t_hat: float) -> float:
        return 2 * t_hat * (1 - self.overlap) / (1 + np.sqrt(1 + 4 * q_hat))


AROUND: dict[type, type[BinaryAround] | type[SphericalAround]] = {Binary: BinaryAround, Spherical: SphericalAround}


class Constraint(NamedTuple):
    """Averages over a constraint: E log Z₂, E g₂², E g₂g₁, E g₂G₁, E g₂'², and the sum of the weights."""

    log_z: float
    g2: float
    with_reference: float
    with_sample: float
    dg2: float
    norm: float


class Point(NamedTuple):
    """A point of the curve: 1 - p, v, γ, q - p², t - r p, p̂, replicon, error of the integrals, whether it was solved."""

    distance: float
    value: float
    field: float
    excess: float
    shift: float
    conjugate: float
    replicon: float
    error: float
    solved: bool


class Curve:
    """The potential v(p) of `probe` around fair samples of `reference`, followed from the point without a field."""

    def __init__(self, reference: Target, probe: Target, alpha: float) -> None:
        self.alpha, self.probe, self.target = alpha, probe, reference
        self.reference, self.free = solve(reference, alpha), solve(probe, alpha)
        self.overlap, self.variance = self.reference.overlap, self.reference.variance
        self._omega, weight = self._reference_fields()
        self._log_weight = np.log(weight)
        self._log_z, self._g, _ = self._channel(reference, self._omega, self.variance)
        self.around: Around = AROUND[type(reference.prior)](self.overlap, self.reference.conjugate)
        self._jacobian: Reals | None = None

    def _reference_fields(self) -> tuple[Reals, Reals]:
        if self.overlap == 0:
            return np.zeros(1), np.ones(1)
        if self.variance < NARROW:
            omega, weight = (rows[0] for rows in reference_nodes(kinks(self.target), self.overlap, self.variance))
        else:
            z, weight = gaussian_trapezoid(STEP * min(1.0, np.sqrt(self.variance / self.overlap)), REACH)
            omega = np.sqrt(self.overlap) * z
        keep = weight > 1e-17
        return omega[keep], weight[keep]

    @vanishing
    def constraint(self, distance: float, excess: float, shift: float) -> Constraint:
        """Return the averages at 1 - p = `distance`, q - p² = `excess` and t - r p = `shift`."""
        across = shift**2 / (self.overlap * self.variance) if self.overlap > 0 else 0.0
        # the variance of ω where stability and field of w* are known, and that of ω without any
        spare, rest = max(excess - across, 1e-15 * excess, 1e-30), distance * (2 - distance) - excess
        t, gap = (1 - distance) * self.overlap + shift, (1 - distance) * self.variance - shift
        u = spare + gap**2 / self.variance
        width, slope, seen = np.sqrt(u), gap / np.sqrt(u), self.variance * spare / u
        start = (t / self.overlap if self.overlap > 0 else 0.0) * self._omega
        centres = [(at - start) / width for at in kinks(self.probe).at]
        fine = np.sqrt(rest) / width
        if abs(slope) > 1e-9:
            centres += [(at - self._omega) / slope for at in kinks(self.target).at]
            fine = min(fine, np.sqrt(seen) / abs(slope))
        mean = slope * self._g
        low, high = mean - REACH, mean + REACH
        z, weight = around(np.sort(np.clip(centres, low, high), axis=0), low, high, FINE * fine, WIDEST, GROWTH)
        log_z, response, _ = self._channel(self.target, self._omega[:, None] + slope * z, seen)
        exponent = log_z - z**2 / 2 + (self._log_weight - self._log_z)[:, None]
        weight = weight * np.exp(exponent) / np.sqrt(2 * np.pi)
        keep = weight > 1e-17
        own = np.broadcast_to(self._g[:, None], keep.shape)[keep]
        log_z, g, dg = self._channel(self.probe, (start[:, None] + width * z)[keep], rest)
        weight, response = weight[keep], response[keep]
        norm = weight.sum()
        columns = (log_z, g**2, g * own, g * response, dg**2)
        return Constraint._make([*(float(weight @ column / norm) for column in columns), float(norm)])

    @staticmethod
    def _channel(target: Target, omega: Reals, variance: float) -> tuple[Reals, Reals, Reals]:
        return target.potential.channel(omega - target.margin, variance, target.beta)

    def _evaluate(self, distance: float, y: Reals, start: float) -> tuple[Reals, Reals, Point]:
        # at y = log(q - p²), (t - r p)/√(q - p²): how far the equations move y, the same in units of 1 - p, and the point
        excess = np.exp(y[0])
        shift = y[1] * np.sqrt(excess)
        seen = self.constraint(distance, excess, shift)
        t_hat = self.alpha * seen.with_reference
        new = self.around(distance, self.alpha * seen.g2, t_hat, start)
        further = max(new.excess, 1e-300)
        moved = np.array([np.log(further / excess), new.shift / np.sqrt(further) - y[1]])
        value, field = new.entropy + self.alpha * seen.log_z, new.conjugate - self.alpha * seen.with_sample
        replicon = self.alpha * seen.dg2 * new.susceptibility
        point = Point(distance, value, field, excess, shift, new.conjugate, replicon, abs(seen.norm - 1), True)
        return moved, np.abs([further - excess, new.shift - shift]) / distance, point

    def _allowed(self, distance: float, y: Reals) -> Reals:
        most = (1 - 1e-9) * np.sqrt(self.overlap * self.variance)
        return np.array([min(y[0], np.log(0.99 * distance * (2 - distance))), np.clip(y[1], -most, most)])

    def point(self, distance: float, y: Reals, start: float) -> Point:
        """Return the solution at 1 - p = `distance`, by Broyden's method from `y`."""
        y = self._allowed(distance, y)
        moved, error, found = self._evaluate(distance, y, start)
        for step in range(MAX_STEPS):
            if error.max() < TOLERANCE:
                return found
            if self._jacobian is None or step % 20 == 19:
                self._jacobian = self._differences(distance, y, moved, found.conjugate)
            change = np.clip(np.linalg.lstsq(self._jacobian, -moved, rcond=None)[0], -0.7, 0.7)
            new = self._allowed(distance, y + change)
            change, before, last = new - y, moved, error
            y = new
            moved, error, found = self._evaluate(distance, y, found.conjugate)
            if error.max() > 2 * last.max():  # too far: half of the plain iteration is safe
                y = self._allowed(distance, y + 0.5 * moved)
                moved, error, found = self._evaluate(distance, y, found.conjugate)
                self._jacobian = None
            else:
                miss = moved - before - self._jacobian @ change
                self._jacobian = self._jacobian + np.outer(miss, change) / max(float(change @ change), 1e-300)
        return found._replace(solved=False)

    def _differences(self, distance: float, y: Reals, moved: Reals, start: float) -> Reals:
        columns = []
        for axis in range(2):
            step = np.zeros(2)
            step[axis] = -1e-4 if axis == 0 or y[1] > 0 else 1e-4
            columns.append((self._evaluate(distance, y + step, start)[0] - moved) / step[axis])
        return np.stack(columns, axis=1)

    @cached_property
    def start(self) -> Point:
        """The point without a field: p = t, q the overlap of the probe's own samples."""
        q_hat = self.free.conjugate

        def excess(p: float) -> float:
            seen = self.constraint(1 - p, self.free.overlap - p * p, p * self.variance)
            return self.around.free(q_hat, self.alpha * seen.with_reference) - p

        most = np.sqrt(self.overlap * self.free.overlap)
        p = most
        if self.overlap == 0 or self.free.overlap == 0:
            p = 0.0
        elif excess(most * (1 - 1e-9)) < -1e-9:
            p = float(brentq(excess, 0.0, most * (1 - 1e-9), xtol=1e-13))
        seen = self.constraint(1 - p, self.free.overlap - p * p, p * self.variance)
        t_hat = self.alpha * seen.with_reference
        error = abs(seen.norm - 1)
        own = (
            self.free.free_entropy,
            0.0,
            self.free.overlap - p * p,
            p * self.variance,
            t_hat,
            self.free.replicon,
            error,
            True,
        )
        return Point(1 - p, *own)

    def along(self, distances: ArrayLike) -> list[Point]:
        """Return the points at 1 - p = `distances`, each followed from the start without large steps."""
        wanted = np.asarray(distances, dtype=float)
        found: dict[float, Point] = {}
        for side in (wanted[wanted <= self.start.distance], wanted[wanted > self.start.distance]):
            trail = [self.start]
            for distance in sorted(set(side.tolist()), key=lambda d: abs(np.log(d / self.start.distance))):
                span = np.log(distance / trail[-1].distance)
                count = max(1, int(np.ceil(abs(span) / STRIDE)))
                for part in trail[-1].distance * np.exp(span * np.arange(1, count + 1) / count):
                    trail.append(self._next(trail, float(part)) if trail[-1].solved else trail[-1])
                trail[-1] = trail[-1]._replace(distance=distance)
                found[distance] = trail[-1]
        return [found[distance] for distance in wanted.tolist()]

    def _next(self, trail: list[Point], distance: float) -> Point:
        last = trail[-1]
        if distance == last.distance:
            return last
        few = trail[1:][-3:] or trail
        x = np.log([point.distance for point in few])
        excess = np.array([point.excess for point in few])
        if excess.min() < 1e-12 * last.distance**2:  # as without a field where r = 0
            return self.point(distance, np.array([np.log(0.1 * (1 - distance) ** 2), 0.0]), last.conjugate)
        y = np.stack([np.log(excess), [point.shift for point in few] / np.sqrt(excess)])
        powers = np.vander(x - np.log(distance), increasing=True)
        return self.point(distance, np.linalg.solve(powers, y.T)[0], last.conjugate)

    def first_zero(self) -> float | None:
        """Return the overlap at which v first falls below zero on the way to p = 1; None where it does not."""
        trail = self.along(np.geomspace(self.start.distance, NEAREST, 60)[1:])
        for before, after in pairwise([self.start, *trail]):
            if not after.solved:
                return None
            if after.value < 0 <= before.value:
                return 1 - self._root(before, after, lambda point: point.value)
        return None

    def _root(self, before: Point, after: Point, quantity: Callable[[Point], float]) -> float:
        # 1 - p where a quantity of the curve vanishes between two points
        def at(x: float) -> float:
            return quantity(self._next([after], float(np.exp(x))))

        return float(np.exp(root_between(at, np.log(after.distance), np.log(before.distance))))

    def depth(self) -> float:
        """Return the least v(p), as a share of its value without constraints; negative where a gap separates w* from the rest."""
        trail = self.along(np.geomspace(self.start.distance, 10 * NEAREST, 40)[1:])
        shares = [_share(point) for point in trail if point.solved]
        least = int(np.argmin(shares))
        if least in (0, len(shares) - 1):
            return shares[least]
        low, high = np.log(trail[least + 1].distance), np.log(trail[least - 1].distance)
        options = {"xatol": 1e-3}
        found = minimize_scalar(
            lambda x: _share(self._next([trail[least]], np.exp(x))),
            bounds=(low, high),
            method="bounded",
            options=options,
        )
        return min(float(found.fun), shares[least])


def _share(point: Point) -> float:
    # of the entropy of ±1 weights at the same distance, up to terms in its square
    share = point.distance / 2
    return point.value / (share * (1 - np.log(share)))
