"""Localization: what is known at overlap q with the sample that the process is heading for (theory notes 3).

Everything follows from one curve per load, F(q) = q̂(q) - α E_q[g²]: the time at which overlap q is stationary,
since dφ_t/dq = (t - F(q))/2. Its slope is F' = 1/χ - α E_q[g'²] = (1 - λ)/χ, where λ(q) = α χ E_q[g'²] is the
growth rate of an error in message passing at overlap q. F(r) = 0, and λ(r) is the replicon of the reference.

An overlap is given by both its distances, `gap` = q - r and `variance` = 1 - q: each is small somewhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Reals
from solspace.numerics.rules import legendre
from solspace.theory.cavity import CavityField
from solspace.theory.reference import Equilibrium
from solspace.theory.weights import weights_of

TOLERANCE = 1e-12  # largest |E_q[1] - 1| that is let pass without a finer grid
LEVELS = 3
CLOSE = 1e-4  # below this (q - r)/(1 - r), F is integrated up from F(r) = 0: the difference q̂ - α E_q[g²] would lose its digits


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
        target, overlap, variance = equilibrium.target, equilibrium.overlap, equilibrium.variance
        self._fields = [CavityField(target, overlap, variance, level) for level in range(LEVELS)]
        self._locate = weights_of(target.prior).localized(equilibrium.conjugate)
        self.accuracy = 0.0

    def at_overlap(self, q: ArrayLike) -> Points:
        """Return the curve at overlaps r <= q < 1, arrays (k,)."""
        q = np.atleast_1d(np.asarray(q, dtype=float))
        whole = self.equilibrium.variance
        gap, variance = np.maximum(q - self.equilibrium.overlap, 0.0), 1 - q
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
        log_z, increment, dg2 = self._averages(gap, variance)
        weights = self._locate(gap, variance)
        instability = alpha * weights.susceptibility * dg2
        time = weights.excess - alpha * increment
        close = gap < CLOSE * self.equilibrium.variance
        if close.any():
            time[close] = self._from_reference(gap[close])
        return Points(time, (1 - instability) / weights.susceptibility, instability, weights.entropy + alpha * log_z)

    def _from_reference(self, gap: Reals) -> Reals:
        x, w = legendre(2)
        inner = (gap[:, None] * x).ravel()
        variance = self.equilibrium.variance - inner
        _, _, dg2 = self._averages(inner, variance)
        slope = 1 / self._locate(inner, variance).susceptibility - self.equilibrium.alpha * dg2
        return gap * (slope.reshape(-1, 2) @ w)

    def _averages(self, gap: Reals, variance: Reals) -> tuple[Reals, Reals, Reals]:
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
        return result.log_z, result.increment, result.dg2
