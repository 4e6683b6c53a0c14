"""The law of the stabilities of a typical sample (theory notes 4).

P(s) = W(s) ∫ Dγ N(s; √r γ, 1-r) / Z(√r γ, 1-r), with W the weight of the target: the cavity field at q = 1.
Formed in the log domain, since 1/Z alone overflows for r > 1/2. Averages and the distribution function come
from panels that shrink geometrically towards the potential's breakpoints, where P may behave like any power of
the distance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.polynomial.legendre import legint, legval, legvander
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.numerics.arrays import Reals, vanishing
from solspace.numerics.rules import ORDER, Layout, around, legendre
from solspace.theory.cavity import TAIL, kinks, reference_nodes

FINEST = 1e-14  # width of the panels at a breakpoint


@dataclass(frozen=True)
class StabilityLaw:
    """Density, distribution function and averages of the stabilities, at reference overlap r and `variance` 1 - r.

    >>> law = StabilityLaw(Target("binary", "uniform"), 0.32238536322, 0.67761463678)
    >>> law.density([0.5, -0.1]).round(9), round(law.mean, 9)
    (array([0.7510754, 0.       ]), 0.699012718)
    """

    target: Target
    overlap: float
    variance: float

    @cached_property
    @vanishing
    def _source(self) -> tuple[Reals, Reals]:
        # fields ω₀, and log of Gaussian weight over Z
        if self.overlap < 1e-12:
            omega, weight = np.zeros(1), np.ones(1)
        else:
            omega, weight = (rows[0] for rows in reference_nodes(kinks(self.target), self.overlap, self.variance, 1))
        keep = weight > 0
        return omega[keep], np.log(weight[keep]) - self.target.channel(omega[keep], self.variance)[0]

    @vanishing
    def density(self, s: ArrayLike) -> Reals:
        """Return P(s), of the shape of `s`."""
        s = np.asarray(s, dtype=float)
        omega, bias = self._source
        flat = s.ravel()
        log_weight = self.target.log_weight(flat)
        result = np.zeros(flat.shape)
        allowed = np.flatnonzero(log_weight > -np.inf)
        for few in np.array_split(allowed, max(1, len(allowed) * len(omega) >> 18)):
            exponent = -((flat[few, None] - omega) ** 2) / (2 * self.variance) + bias + log_weight[few, None]
            result[few] = np.exp(exponent).sum(axis=1)
        return (result / np.sqrt(2 * np.pi * self.variance)).reshape(s.shape)

    @cached_property
    @vanishing
    def _table(self) -> tuple[Reals, Reals, Reals, Reals]:
        # panels in ascending order: edges (p + 1,), nodes and weights (p, 16), density (p, 16)
        omega, _ = self._source
        points = kinks(self.target)
        _, g, _ = self.target.channel(omega, self.variance)
        mean = omega + self.variance * g
        reach = (TAIL + 1) * np.sqrt(self.variance)
        low, high = min(mean.min() - reach, points.at[0] - 1), max(mean.max() + reach, points.at[-1] + 1)
        cap = min(2.0 * np.sqrt(self.variance), 1.0)
        layout = Layout(np.array([low]), np.array([high]), points.at, np.array([FINEST]), np.array([cap]), 0.6)
        s, w = (rows[0] for rows in around(layout))
        order = np.argsort(s, kind="stable")  # panels do not overlap: their nodes stay together, and so do the panels
        s, w = s[order].reshape(-1, ORDER), w[order].reshape(-1, ORDER)
        width = w.sum(axis=1)
        edges = np.append(s[:, 0] - legendre()[0][0] * width, s[-1, -1] + legendre()[0][0] * width[-1])
        return edges, s, w, self.density(s)

    @cached_property
    def extent(self) -> tuple[float, float]:
        """Stabilities between which P(s) is seen: ends of its support, or where it falls below a thousandth of its top.

        >>> StabilityLaw(Target("binary", "band(1.0)"), 0.0, 1.0).extent
        (-1.0, 1.0)
        """
        _, s, _, density = self._table
        points = kinks(self.target)
        seen = s[density > 1e-3 * density.max()]
        low = points.at[0] if points.forbidden[0][0] else float(seen.min())
        return low, points.at[-1] if points.forbidden[-1][1] else float(seen.max())

    @cached_property
    @vanishing
    def norm(self) -> float:
        """∫ P(s) ds: one, up to the error of the quadrature."""
        _, _, w, density = self._table
        return float((w * density).sum())

    @vanishing
    def average(self, function: Reals) -> float:
        """Return the average of a function given at `self.nodes`; what is infinite where P = 0 counts nothing."""
        _, _, w, density = self._table
        weight = w * density
        return float(np.sum(weight * np.where(weight > 0, function, 0.0)))

    @property
    def nodes(self) -> Reals:
        """The stabilities (p, 16) at which averages are formed."""
        return self._table[1]

    @cached_property
    def mean(self) -> float:
        """The mean stability."""
        return self.average(self.nodes)

    @cached_property
    def log_weight(self) -> float:
        """The mean of log W(s) = -U(s - κ)/T."""
        return self.average(self.target.log_weight(self.nodes))

    @vanishing
    def cdf(self, s: ArrayLike) -> Reals:
        """Return the probability of a stability below `s`, of the shape of `s`.

        >>> law = StabilityLaw(Target("binary", "uniform"), 0.32238536322, 0.67761463678)
        >>> law.cdf([0.0, 8.0]).round(12)
        array([0., 1.])
        """
        s = np.asarray(s, dtype=float)
        edges, start, inside = self._integrals
        flat = np.clip(s.ravel(), edges[0], edges[-1])
        order = np.argsort(flat)
        flat = flat[order]
        bounds = np.searchsorted(flat, edges[1:-1])
        result = np.empty(len(flat))
        for k, (first, last) in enumerate(pairwise([0, *bounds.tolist(), len(flat)])):
            if last > first:
                width = edges[k + 1] - edges[k]
                position = 2 * (flat[first:last] - edges[k]) / width - 1 if width > 0 else np.zeros(last - first)
                result[order[first:last]] = start[k] + legval(position, inside[:, k])
        return np.clip(result / self.norm, 0.0, 1.0).reshape(s.shape)

    @cached_property
    @vanishing
    def _integrals(self) -> tuple[Reals, Reals, Reals]:
        # edges, the integral up to each panel, and the integral inside as Legendre coefficients (17, p)
        edges, _, w, density = self._table
        x = 2 * legendre()[0] - 1
        degree = np.arange(ORDER)
        projection = (2 * degree[:, None] + 1) * legvander(x, ORDER - 1).T * legendre()[1]
        inside = legint(projection @ density.T, lbnd=-1) * np.diff(edges) / 2
        return edges, np.append(0.0, np.cumsum((w * density).sum(axis=1))[:-1]), inside
