"""Discrete levels and Gaussian weights in replica theory: their norm Q = E w² is an order parameter (theory notes 14).

Alone, a weight has the measure P(w) exp(-A w²/2 + b w) with b ~ N(0, r̂); the precision A = r̂ - Q̂ = -α E g' follows from the
constraints. Localized at d = q̂ - r̂ beyond, which includes the term -t w²/2, it has precision A + d and field B = b + d w* + √d z,

    (b, B) ~ N(b; 0, r̂) N(B; b, d) z(A + d, B) / z(A, b),   z(A, b) = Σ_k p_k exp(-A v_k²/2 + b v_k).

The averages needed, Q - q = E Var(w | B) among them, come from fields at which two levels are about equally probable: panels
are fine at these `ties`. As functions of d the averages are smooth: tabulated once on Chebyshev points.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legval, legvander

from solspace.measure.priors import Gaussian, Levels
from solspace.numerics.arrays import Reals, vanishing
from solspace.numerics.rules import around, hermite
from solspace.theory.cavity import TAIL
from solspace.theory.weights import Localized, Reference

NARROW = 0.48  # variances of the field below this over the range of the levels squared are integrated by Gauss–Hermite
NEAR = 0.5  # d below this over the range squared: B given b is almost Gaussian
STEP = 0.4  # of fields, over the range: averages are analytic in a strip of half width π/range
MOST = 6000  # fields on an equidistant grid
WINDOW = 80.0  # distance from a tie, over the gap, beyond which one level is certain
NODES = 14  # Chebyshev points in a panel of d


class _Moments(NamedTuple):
    log_z: Reals
    mean: Reals
    variance: Reals
    entropy: Reals  # of the probabilities of the levels
    log_prior: Reals


@dataclass(frozen=True)
class LevelWeights:
    """Weights from a finite set of values.

    >>> state = LevelWeights(Levels((-1.0, 1.0))).reference(np.array([1.0]), np.array([0.3]))
    >>> state.overlap
    array([0.39429449])
    """

    prior: Levels
    free = True  # the norm follows from the constraints

    @cached_property
    def values(self) -> Reals:
        """(L,) the levels, ascending."""
        return np.array(self.prior.values)

    @property
    def range(self) -> float:
        """Largest distance of two levels."""
        return float(self.values[-1] - self.values[0])

    @property
    def gap(self) -> float:
        """Smallest distance of two levels: q̂ grows like 8/gap² log 1/(Q - q)."""
        return float(np.diff(self.values).min())

    @vanishing
    def moments(self, precision: Reals | float, field: Reals) -> _Moments:
        """Return averages over the levels under P(w) exp(-A w²/2 + B w), without cancellation where one of them dominates."""
        tilted = self.prior._log_tilted(np.asarray(precision, dtype=float), field)
        best = tilted.argmax(axis=-1)[..., None]
        top = np.take_along_axis(tilted, best, -1)
        share = np.exp(tilted - top)
        others = np.log1p(np.where(np.arange(len(self.values)) == best, 0.0, share).sum(axis=-1))
        share *= np.exp(-others)[..., None]
        surprise = others[..., None] - (tilted - top)
        pairs = combinations(range(len(self.values)), 2)
        variance = sum((self.values[j] - self.values[i]) ** 2 * share[..., i] * share[..., j] for i, j in pairs)
        entropy, log_prior = (share * surprise).sum(axis=-1), share @ self.prior.log_weights
        return _Moments(top[..., 0] + others, share @ self.values, np.asarray(variance), entropy, log_prior)

    def ties(self, precision: Reals, least: float | None = None) -> Reals:
        """Return the fields, ascending, at which two levels are equally probable, (ties, k) for each precision (k,).

        They are those of neighbours. Where the precision, or the `least` one to be compared with, is negative, or the prior makes
        a level between others improbable, they are those of all pairs, or of the outermost.
        """
        v, level = self.values, self.prior.log_weights
        pairs = [(k, k + 1) for k in range(len(v) - 1)]
        steps = np.diff(level) / np.diff(v)
        if (np.diff(steps) > 0).any() or (np.min(precision) if least is None else least) < 0:
            pairs = list(combinations(range(len(v)), 2)) if len(v) < 6 else [*pairs, (0, len(v) - 1)]
        i, j = np.transpose(pairs)
        offset = (level[j] - level[i]) / (v[j] - v[i])
        return np.sort(
            np.multiply.outer((v[i] + v[j]) / 2, precision) - offset.reshape(-1, *np.ndim(precision) * (1,)), axis=0
        )

    def nodes(self, conjugate: Reals, precision: Reals, widest: float = np.inf) -> tuple[Reals, Reals]:
        """Return fields b and Gaussian weights (k, n) for each r̂ and A (k,)."""
        spread = np.sqrt(conjugate)
        cap = np.minimum(np.maximum(3 * spread, 1e-300), widest)
        b, step = around(
            self.ties(precision), -TAIL * spread, TAIL * spread, np.full_like(cap, 4 / self.range), cap, 0.8
        )
        return b, step * np.exp(-((b / spread[:, None]) ** 2) / 2) / (np.sqrt(2 * np.pi) * spread[:, None])

    @vanishing
    def reference(self, conjugate: Reals, precision: Reals) -> Reference:
        """Return averages over b ~ N(0, r̂) at precision A, both (k,)."""
        conjugate, precision = np.broadcast_arrays(np.atleast_1d(conjugate).astype(float), precision)
        result = np.empty((5, len(conjugate)))
        narrow = conjugate * self.range**2 < NARROW
        for rows in (narrow, ~narrow):
            if not rows.any():
                continue
            if rows is narrow:
                z, share = hermite(32)
                b, weight = np.sqrt(conjugate[rows, None]) * z, np.broadcast_to(share, (int(rows.sum()), len(z)))
            else:
                b, weight = self.nodes(conjugate[rows], precision[rows])
            _, mean, variance, entropy, log_prior = self.moments(precision[rows, None], b)
            columns = (mean**2, variance, variance**2, entropy, log_prior)
            result[:, rows] = [np.einsum("kn,kn->k", weight, column) for column in columns]
        overlap, variance, susceptibility, entropy, log_prior = result
        if self.prior.symmetric:
            overlap[conjugate == 0] = 0.0
        total = entropy + log_prior + conjugate * variance / 2
        return Reference(overlap, variance, None, susceptibility, total, conjugate - precision, log_prior)

    def localized(self, conjugate: float, precision: float) -> LevelLaw:
        """Return the planted law's inverse, d from Q - q."""
        return LevelLaw(self, float(conjugate), float(precision))


@dataclass(frozen=True)
class LevelLaw:
    """The field of a weight beside a planted one, at reference conjugate r̂ and precision A.

    >>> law = LevelLaw(LevelWeights(Levels((-1.0, 1.0))), 1.0, 0.2)
    >>> variance = law.averages([0.0, 7.0])[0]
    >>> variance[:1].round(12), law(None, variance).excess.round(9)  # 1 - r; and d again
    (array([0.60570551]), array([0., 7.]))
    """

    weights: LevelWeights
    conjugate: float
    precision: float

    def averages(self, excess: Iterable[float]) -> Reals:
        """Return Q - q, dq/dq̂ = E Var² and the entropy of the weight given B, at each d = q̂ - r̂ >= 0, shape (3, k)."""
        near = NEAR / self.weights.range**2
        return np.transpose([self._near(d) if d < near else self._far(d) for d in excess])

    def _source(self, widest: float) -> tuple[Reals, Reals]:
        if self.conjugate * self.weights.range**2 < NARROW:
            z, weight = hermite(32 if self.conjugate > 0 else 1)
            return np.sqrt(self.conjugate) * z, weight
        b, weight = self.weights.nodes(np.array([self.conjugate]), np.array([self.precision]), widest)
        keep = weight[0] > 0
        return b[0][keep], weight[0][keep]

    @vanishing
    def _near(self, d: float) -> Reals:
        b, weight = self._source(np.inf)
        start = self.weights.moments(self.precision, b)
        u, share = hermite(32)
        width = np.sqrt(1 + d * start.variance)[:, None]
        z = (np.sqrt(d) * start.mean)[:, None] + width * u
        found = self.weights.moments(self.precision + d, b[:, None] + np.sqrt(d) * z)
        joint = np.exp(found.log_z - start.log_z[:, None] + (u**2 - z**2) / 2) * width * share * weight[:, None]
        return np.array([np.sum(joint * x) for x in (found.variance, found.variance**2, found.entropy)])

    @cached_property
    def _grid(self) -> tuple[int, Reals, Reals] | None:
        # count, fields b on an equidistant grid, and log of N(b; 0, r̂) / z(A, b); None where it would be too coarse or long
        step = STEP / self.weights.range
        count = int(TAIL * np.sqrt(self.conjugate) / step) + 1
        if self.conjugate * self.weights.range**2 < NARROW or count > MOST:
            return None
        b = step * np.arange(-count, count + 1)
        log_z = self.weights.moments(self.precision, b).log_z
        return count, b, -(b**2) / (2 * self.conjugate) - np.log(2 * np.pi * self.conjugate) / 2 - log_z

    @vanishing
    def _far(self, d: float) -> Reals:
        # b and B on one grid: around each tie a correlation with the Gaussian of B - b
        if self._grid is None:
            return self._by_panels(d)
        count, b, bias = self._grid
        weights, total, step = self.weights, np.zeros(3), STEP / self.weights.range
        start, ties = (weights.ties(np.array(self.precision + more), self.precision) for more in (0.0, d))
        reach, ends = WINDOW / weights.gap, [-np.inf, *((ties[1:] + ties[:-1]) / 2), np.inf]
        for tie, shift, left, right in zip(ties, ties - start, ends, ends[1:]):
            first, last = (int(np.floor(end / step)) for end in (max(left, tie - reach), min(right, tie + reach)))
            field = step * np.arange(first + 1, last + 1)
            if len(field) == 0:  # ties closer than the grid
                continue
            found = weights.moments(self.precision + d, field)
            # B - b is about `shift`: what the Gaussian is there goes into both factors
            lift = bias + shift * b / d
            kernel = np.exp(-((step * np.arange(first + 1 - count, last + count + 1) - shift) ** 2) / (2 * d))
            joint = np.convolve(np.exp(lift - lift.max()), kernel, "valid")
            density = joint * np.exp(found.log_z + lift.max() - shift * (field - shift / 2) / d)
            total += np.stack([found.variance, found.variance**2, found.entropy]) @ density
        return total * step**2 / np.sqrt(2 * np.pi * d)

    @vanishing
    def _by_panels(self, d: float) -> Reals:
        weights, spread = self.weights, np.sqrt(d)
        b, weight = self._source(3.5 * spread)
        low, high = b[0] if len(b) == 1 else b.min(), b[0] if len(b) == 1 else b.max()
        low, high = low + d * weights.values[0] - TAIL * spread, high + d * weights.values[-1] + TAIL * spread
        one = np.ones(1)
        field, step = around(
            weights.ties((self.precision + d) * one), low * one, high * one, 4 / weights.range * one,
            3.5 * spread * one, 0.8
        )  # fmt: skip
        found = weights.moments(self.precision + d, field[0])
        start = weights.moments(self.precision, b).log_z
        exponent = found.log_z - start[:, None] - (field - b[:, None]) ** 2 / (2 * d)
        density = (weight @ np.exp(exponent)) * step[0] / np.sqrt(2 * np.pi * d)
        return np.stack([found.variance, found.variance**2, found.entropy]) @ density

    @cached_property
    def _log_prior(self) -> float:
        here = self.weights.reference(np.array([self.conjugate]), np.array([self.precision]))
        return float(np.ravel(here.log_prior)[0])

    @cached_property
    def _table(self) -> list[tuple[float, float, Reals]]:
        # start and end of each panel of d, and Legendre coefficients (NODES, 3) of the logs of the averages; grows
        return []

    def _extend(self) -> None:
        count, unit = len(self._table), (2 / self.weights.range) ** 2
        start, stop = (unit * (2.0 ** (k - 3) if k else 0.0) for k in (count, count + 1))
        x = -np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
        values = np.log(self.averages(start + (stop - start) * (x + 1) / 2))
        self._table.append((start, stop, np.linalg.solve(legvander(x, NODES - 1), values.T)))

    def __call__(self, gap: Reals | None, variance: Reals) -> Localized:
        """Return the weights at Q - q = `variance`, by Newton's method on log(Q - q) as a function of d."""
        wanted = np.log(np.atleast_1d(variance))
        result = np.empty((3, len(wanted)))
        left, k = np.ones(len(wanted), bool), 0
        while left.any():
            if k == len(self._table):
                self._extend()
            start, stop, fit = self._table[k]
            here = left & ((wanted >= legval(1.0, fit[:, 0])) | (k > 60))
            result[:, here] = self._solve(start, stop, fit, wanted[here])
            left, k = left & ~here, k + 1
        d, susceptibility, entropy = result
        return Localized(d, susceptibility, entropy + self._log_prior + (self.conjugate + d) * np.exp(wanted) / 2)

    @staticmethod
    def _solve(start: float, stop: float, fit: Reals, wanted: Reals) -> Reals:
        x = np.interp(-wanted, -legval(np.linspace(-1, 1, 33), fit[:, 0]), np.linspace(-1, 1, 33))
        half = (stop - start) / 2
        for _ in range(6):
            found, susceptibility, entropy = legval(x, fit)
            step = (found - wanted) * np.exp(found - susceptibility) / half
            x = np.clip(x + step, -1 - 1e-12, 1.0)
        # the last step is not in the averages; the entropy given the field falls at the rate (Q - q)/2
        return np.array([np.maximum(start + half * (x + 1), 0.0), np.exp(susceptibility), np.exp(entropy)])


@dataclass(frozen=True)
class GaussianWeights:
    """Independent weights w ~ N(0, v)."""

    prior: Gaussian
    free = True

    def reference(self, conjugate: Reals, precision: Reals) -> Reference:
        """Return the closed form: Q - r = 1/(A + 1/v), r = r̂ (Q - r)².

        >>> state = GaussianWeights(Gaussian()).reference(np.array([2.0]), np.array([1.0]))
        >>> state.overlap, state.variance
        (array([0.5]), array([0.5]))
        """
        conjugate, v = np.atleast_1d(conjugate).astype(float), self.prior.variance
        variance = 1 / (precision + 1 / v)
        overlap = conjugate * variance**2
        conjugate_of_norm = conjugate - precision
        entropy = (overlap * conjugate - conjugate_of_norm * (overlap + variance) + np.log(variance / v)) / 2
        log_prior = -(overlap + variance) / (2 * v) - np.log(2 * np.pi * v) / 2
        total = entropy + conjugate * variance / 2
        return Reference(overlap, variance, None, variance**2, total, conjugate_of_norm, log_prior)

    def localized(self, conjugate: float, precision: float) -> GaussianLaw:
        """Return the closed form: q̂ - r̂ = 1/(Q-q) - 1/(Q-r), χ = (Q-q)²."""
        return GaussianLaw(self.reference(np.array([conjugate]), np.array([precision])))


@dataclass(frozen=True)
class GaussianLaw:
    """Gaussian weights beside planted ones."""

    reference: Reference

    def averages(self, excess: Iterable[float]) -> Reals:
        """Return Q - q and dq/dq̂ at each d = q̂ - r̂ >= 0."""
        variance = 1 / (1 / self.reference.variance + np.asarray(excess))
        return np.array([variance, variance**2])

    def __call__(self, gap: Reals, variance: Reals) -> Localized:
        """Return the weights at Q - q = `variance`, q - r = `gap`."""
        whole, norm = self.reference.variance, self.reference.norm_conjugate
        assert norm is not None
        # S' = -q̂/2 with q̂ = 1/(Q-q) + r̂ - 1/(Q-r)
        conjugate = self.reference.overlap / whole**2
        entropy = self.reference.entropy + (np.log(variance / whole) - (conjugate - 1 / whole) * gap) / 2
        return Localized(gap / (variance * whole), variance**2, entropy)
