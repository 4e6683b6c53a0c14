"""The law of the cavity field ω of a constraint, and the averages of log Z, g² and g'² that replica theory is made of.

Reference (theory notes 2): ω₀ = √r γ is Gaussian and the constraint sees it with variance 1 - r. Localized
(theory notes 3): knowing more, the field moves on to ω ~ N(ω₀, q - r), reweighted by Z(ω, 1-q)/Z(ω₀, 1-r), and the
variance left is 1 - q. The weights average to one, E_q[1] = 1: what is missing is the error of the quadrature.
Mean and variance of ω given ω₀ are ω₀ + (q-r) g₀ and (q-r) + (q-r)² g₀' for every potential.

There are three quadratures (theory notes 6), each right where the next is slow: `_near` q = r, in the `_bulk`, and for
r → 1 panels of its `_own` for every ω₀.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.measure.potentials import Own, scaled_log_weight
from solspace.numerics.arrays import Reals, vanishing
from solspace.numerics.rules import around, gaussian_trapezoid, hermite

TAIL = 9.0  # Gaussian laws are cut at this many standard deviations
NEAR = 0.3  # largest (q - r)/(1 - q) at which the field given ω₀ counts as almost Gaussian
CLOSE = 0.997  # reference overlap above which every ω₀ gets its own panels
NARROW = 0.02  # largest r/(1 - r) at which the reference field counts as narrow
STEPS = (0.45, 0.3, 0.2, 0.13, 0.09)  # steps of ω₀ that are tried, in units of min(√r, √(1 - r))
SHARP = 0.1  # half width below which a maximum of the weight gets panels of its own
BLOCK = 1 << 18  # Gaussian weights formed at a time


class Averages(NamedTuple):
    """E[log Z], E[g²], E[g'²], E_q[g²] - E_r[g²] and the sum of the weights, one entry for each overlap."""

    log_z: Reals
    g2: Reals
    dg2: Reals
    increment: Reals
    norm: Reals


class Kinks(NamedTuple):
    """Breakpoints and narrow maxima of the weight, counted from zero field, and whether left and right are forbidden."""

    at: tuple[float, ...]
    forbidden: tuple[tuple[bool, bool], ...]


def kinks(target: Target) -> Kinks:
    """Return the target's breakpoints and forbidden sides.

    >>> kinks(Target(potential="band(1.5)"))
    Kinks(at=(-1.5, 1.5), forbidden=((True, False), (False, True)))
    """
    breaks = sorted(set(target.potential.breakpoints)) or [0.0]
    points = np.array(sorted({*breaks, *_sharp_maxima(target, breaks)})) + target.margin
    middle = np.concatenate([[points[0] - 1], (points[1:] + points[:-1]) / 2, [points[-1] + 1]])
    void = np.isneginf(scaled_log_weight(target.potential, middle - target.margin, target.beta))
    return Kinks(tuple(points.tolist()), tuple(pairwise(void.tolist())))


def _sharp_maxima(target: Target, breakpoints: list[float]) -> list[float]:
    # maxima of the weight between breakpoints that are narrower than SHARP, counted from the margin
    if target.beta < 1 / SHARP and not isinstance(target.potential, Own):
        return []
    log_weight = partial(scaled_log_weight, target.potential, beta=target.beta)
    s = np.linspace(breakpoints[0] - 10, breakpoints[-1] + 10, 801)
    weight = log_weight(s)
    tops = 1 + np.flatnonzero((weight[1:-1] > weight[:-2]) & (weight[1:-1] >= weight[2:]))
    found = []
    for top in tops.tolist():
        at, width = float(s[top]), float(s[1] - s[0])
        while width > 1e-9:
            near = at + width * np.linspace(-1, 1, 9)
            at, width = float(near[np.argmax(log_weight(near))]), width / 4
        fall = float(log_weight(at)) - log_weight(np.array([at - SHARP, at + SHARP]))
        if (fall > 0.5).all() and np.abs(np.array(breakpoints) - at).min() > 1e-6:
            found.append(at)
    return found


def _widest(norm: Reals | float) -> Any:
    # panel, where stabilities have a variance of `norm`
    return 1.5 * np.maximum(np.sqrt(norm), 1.0)


@vanishing
def reference_nodes(points: Kinks, overlap: ArrayLike, variance: ArrayLike, level: int = 0) -> tuple[Reals, Reals]:
    """Return fields ω₀ and Gaussian weights (q, n), by panels fine at the breakpoints, for each overlap r and 1 - r."""
    overlap, variance = np.atleast_1d(overlap).astype(float), np.atleast_1d(variance).astype(float)
    spread = np.sqrt(np.maximum(overlap, 1e-300))
    # g² at a rare violation peaks where the Gaussian's fall and the constraint's rise balance
    reach = spread * (TAIL + 2 * spread * max(map(abs, points.at)) / (variance + 2 * overlap))
    width = 2.0**-level
    fine, cap = 2 * width * np.sqrt(variance), width * np.minimum(3 * spread, _widest(variance + overlap))
    omega, weight = around(points.at, -reach, reach, fine, cap, 0.8 * width)
    return omega, weight * np.exp(-((omega / spread[:, None]) ** 2) / 2) / (np.sqrt(2 * np.pi) * spread[:, None])


@vanishing
def reference_averages(target: Target, overlap: ArrayLike, variance: ArrayLike, level: int = 0) -> Reals:
    """Return E log Z, E g², E g'², dE g²/dr = E[g'² - 2g²g'] at r + V = 1, and E g', over ω₀ ~ N(0, r) at variance V: (5, q)."""
    overlap, variance = np.atleast_1d(overlap).astype(float), np.atleast_1d(variance).astype(float)
    result = np.empty((5, len(overlap)))
    narrow = overlap < NARROW * variance  # beside the channel's own width
    for rows in (narrow, ~narrow):
        if not rows.any():
            continue
        if rows is narrow:
            z, share = hermite(24 + 8 * level)
            omega = np.sqrt(overlap[rows, None]) * z
            weight = np.broadcast_to(share, omega.shape)
        else:
            omega, weight = reference_nodes(kinks(target), overlap[rows], variance[rows], level)
        log_z, g, dg = target.channel(omega, variance[rows, None])
        square = g**2
        columns = (log_z, square, dg**2, dg**2 - 2 * square * dg, dg)
        result[:, rows] = [np.einsum("qn,qn->q", weight, column) for column in columns]
    return result


@dataclass(frozen=True)
class CavityField:
    """The cavity field of `target` in a reference of overlap r (`variance` = Q - r, Q = 1 for ±1 and on the sphere).

    >>> field = CavityField(Target("binary", "uniform"), 0.32238536322, 0.67761463678)
    >>> field.averages([0.8 - field.overlap], [0.2]).g2.round(9)
    array([2.30984035])
    """

    target: Target
    overlap: float
    variance: float
    level: int = 0  # every level halves the panels

    @cached_property
    def _kinks(self) -> Kinks:
        return kinks(self.target)

    @property
    def _close(self) -> bool:
        return self.overlap > CLOSE * (self.overlap + self.variance)

    @cached_property
    @vanishing
    def _start(self) -> tuple[Reals, ...]:
        # ω₀ with log weights, and the channel there; the widest step that gives the reference's own averages
        exact = reference_averages(self.target, self.overlap, self.variance, self.level + 1)[:3, 0]
        for step in STEPS:
            z, weight = self._rule(step)
            omega = np.sqrt(self.overlap) * z
            log_z, g, dg = self._channel(omega, self.variance)
            found = np.array([weight @ log_z, weight @ g**2, weight @ dg**2])
            if np.all(np.abs(found - exact) <= 3e-12 * np.abs(exact)) or len(z) > 1 << 12:
                break
        with np.errstate(divide="ignore"):
            return omega, np.log(weight), log_z, g, dg

    def _channel(self, omega: Reals, variance: ArrayLike) -> tuple[Reals, Reals, Reals]:
        target = self.target
        return target.potential.channel(omega - target.margin, variance, target.beta)

    def _rule(self, step: float) -> tuple[Reals, Reals]:
        if self.overlap == 0:
            return np.zeros(1), np.ones(1)
        if self._close:
            omega, weight = reference_nodes(self._kinks, self.overlap, self.variance, self.level)
            return omega[0] / np.sqrt(self.overlap), weight[0]
        reach = min(TAIL + max(map(abs, self._kinks.at)), 37.0)
        return gaussian_trapezoid(step * min(1.0, np.sqrt(self.variance / self.overlap)) / 2**self.level, reach)

    @vanishing
    def averages(self, gap: ArrayLike, variance: ArrayLike) -> Averages:
        """Return the averages at overlaps q, given as `gap` = q - r >= 0 and `variance` = Q - q > 0, arrays (k,)."""
        gap, variance = np.atleast_1d(gap).astype(float), np.atleast_1d(variance).astype(float)
        near = gap <= NEAR * variance
        result = np.empty((5, len(gap)))
        for rows, rule in ((near, self._near), (~near, self._own if self._close else self._bulk)):
            if rows.any():
                result[:, rows] = rule(gap[rows], variance[rows])
        result[:4] /= result[4]
        return Averages(*result)

    def _near(self, gap: Reals, variance: Reals) -> Reals:
        # the field given ω₀ is almost Gaussian: Gauss–Hermite in ω about its own mean and width
        omega, log_weight, log_z, g, dg = self._start
        result = np.empty((5, len(gap)))
        order = np.select([gap <= 0.02 * variance, gap <= 0.1 * variance], [10, 16], 24)
        parts = [np.flatnonzero(order == count) for count in np.unique(order)]
        size = max(1, BLOCK // (24 * len(omega)))
        for few in chain.from_iterable(np.array_split(part, -(-len(part) // size)) for part in parts):
            u, share = hermite(int(order[few[0]]) + 8 * self.level)
            tau, v = gap[few, None], variance[few, None, None]
            width = np.sqrt(np.maximum(1 + tau * dg, 0.0))[..., None]
            z = (np.sqrt(tau) * g)[..., None] + width * u
            log_zq, gq, dgq = self._channel(omega[:, None] + np.sqrt(tau)[..., None] * z, v)
            exponent = log_zq - (log_z - log_weight)[:, None] + (u**2 - z**2) / 2
            weight = np.exp(exponent) * (width * share)
            result[:, few] = _sums(weight, log_zq, gq, dgq, gq - g[:, None])
        return result

    def _own(self, gap: Reals, variance: Reals) -> Reals:
        # ω₀ far in the forbidden region would need a dense grid
        omega, log_weight, log_z, g, dg = self._start
        points, width = self._kinks, 2.0**-self.level
        # how far inside a forbidden interval each field lies, zero where it is allowed
        at, void = np.array(points.at), np.array([points.forbidden[0][0], *(right for _, right in points.forbidden)])
        depth = np.where(void[np.searchsorted(at, omega)], np.abs(omega[:, None] - at).min(axis=1), 0.0)
        result = np.empty((5, len(gap)))
        for k, (tau, v) in enumerate(zip(gap, variance)):
            # started deep in the forbidden region the field is a narrow Gaussian, or an exponential past the region's edge
            narrow = TAIL * np.sqrt(np.maximum(tau + tau**2 * dg, 0)) + TAIL**2 / 2 * tau / np.maximum(depth, 1e-300)
            reach = np.minimum(narrow, TAIL * np.sqrt(tau))
            mean = omega + tau * g
            limit = (TAIL + 0.5) * np.sqrt(v) + depth * v / self.variance
            close = [tuple(limit if void else None for void in sides) for sides in points.forbidden]
            fine, cap = 2 * width * np.sqrt(v), width * min(3.5 * np.sqrt(tau), _widest(self.overlap + self.variance))
            field, step = around(points.at, mean - reach, mean + reach, fine, cap, 0.8 * width, close)
            log_zq, gq, dgq = self._channel(field, v)
            exponent = log_zq - log_z[:, None] - (field - omega[:, None]) ** 2 / (2 * tau) + log_weight[:, None]
            weight = np.exp(exponent) * step / np.sqrt(2 * np.pi * tau)
            result[:, k] = _sums(*(part[None] for part in (weight, log_zq, gq, dgq, gq - g[:, None])))[:, 0]
        return result

    def _bulk(self, gap: Reals, variance: Reals) -> Reals:
        from solspace.numerics.kernels import mixtures

        start, log_weight, log_z, g, _ = self._start
        result = np.empty((5, len(gap)))
        order = np.argsort(variance)
        for few in np.array_split(order, -(-len(order) // 16)):
            omega, step = self._grid(gap[few], variance[few], start, g)
            log_zq, gq, dgq = self._channel(omega, variance[few, None])
            density = mixtures(omega, log_zq, start, log_weight - log_z, gap[few])
            sums = _sums(density * step, log_zq, gq, dgq)
            result[:3, few], result[4, few] = sums[:3], sums[3]
        with np.errstate(over="ignore"):
            result[3] = result[1] - float(np.exp(log_weight) @ g**2) * result[4]
        return result

    def _grid(self, gap: Reals, variance: Reals, start: Reals, g: Reals) -> tuple[Reals, Reals]:
        # one grid of ω for all ω₀, a row for each overlap: panels of width √(1-q) at breakpoints, growing away from them;
        # forbidden sides are left as soon as no ω₀ can reach
        width, spread = 2.0**-self.level, np.sqrt(gap)
        mean = start + gap[:, None] * g
        points = self._kinks
        # g² at a rare violation peaks far out, where the Gaussian's fall and the constraint's rise balance
        share = gap / (variance + 2 * gap)
        rare = 2 * share * max(map(abs, points.at)) + TAIL * np.sqrt(share * variance)
        reach = np.maximum(TAIL * spread, rare)
        low, high = mean.min(axis=1) - reach, mean.max(axis=1) + reach
        limit = np.sqrt(variance) * (TAIL + 0.5)
        close = [
            tuple(
                limit + abs(end - point) * variance / self.variance if void else None
                for end, void in zip(start[[0, -1]], forbidden)
            )
            for point, forbidden in zip(points.at, points.forbidden)
        ]
        cap = width * np.minimum(3.5 * spread, _widest(self.overlap + self.variance))
        return around(points.at, low, high, 2 * width * np.sqrt(variance), cap, 0.8 * width, close)


def _sums(weight: Reals, log_z: Reals, *roots: Reals) -> Reals:
    # of the weight times log Z, and times the squares of g, g' and g - g₀, over all but the first axis; then of the weight.
    # g is a martingale in q: E_q[g²] - E_r[g²] = E_q[(g - g₀)²], which cancels nothing
    weight, log_z = weight.reshape(len(weight), -1), log_z.reshape(len(weight), -1)
    if not np.isfinite(log_z).all():
        log_z = np.where(weight > 0, log_z, 0.0)
    squares = [np.einsum("qn,qn,qn->q", weight, root, root) for root in (root.reshape(weight.shape) for root in roots)]
    return np.stack([np.einsum("qn,qn->q", weight, log_z), *squares, weight.sum(axis=1)])
