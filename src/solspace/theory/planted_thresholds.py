"""The loads at which a planted problem changes (theory notes 13).

Neither x(q) nor E_q[g²] depends on the load: α(q) = x(q)/E_q[g²] reads the equation at t = 0 backwards, and thresholds are where
it turns. Where α(q) falls an error of message passing grows, λ = α(q) χ E_q[g'²] > 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import root_between
from solspace.system.plain import Record, html_table
from solspace.theory.edge import maximum_at_one
from solspace.theory.localization import (
    DENSE,
    EDGES,
    INTERPOLATION,
    NODES,
    Localization,
    chebyshev_points,
    least_depth,
)
from solspace.theory.planted import check, uninformed


@dataclass(frozen=True)
class PlantedThresholds(Record):
    """The loads at which a planted problem changes; None where there is no such load.

    Attributes
    ----------
    target : Target
        The posterior.
    information : float or None
        From here on the posterior is the branch around the teacher; AMP does not find it yet.
    spinodal : float or None
        From here on AMP finds it from no knowledge: between the two loads the problem is hard.
    localization : float or None
        From here on, and below `spinodal`, localization fails to sample the posterior, since φ_t has two maxima at some t > 0.
        It is 0 where the likelihood jumps and weights are discrete: φ_t then has a maximum at q = Q at every load.
    cusp_time : float or None
        t at which the second maximum is born at the load `localization`.

    Examples
    --------
    >>> found = thresholds(Target(potential="uniform"))
    >>> round(found.information, 5), round(found.spinodal, 4), found.localization
    (1.24468, 1.4926, 0.0)
    """

    target: Target
    information: float | None
    spinodal: float | None
    localization: float | None
    cusp_time: float | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the thresholds as rows of a table.

        Returns
        -------
        list of tuple of str
            Name, load, and explanation.
        """
        rows = [
            ("information", self.information, "the teacher's branch takes over"),
            ("spinodal", self.spinodal, "AMP finds it"),
            ("localization", self.localization, "fails from here to the spinodal"),
        ]
        return [(name, f"{load:.9g}", why) if load is not None else (name, "none", "") for name, load, why in rows]

    def __repr__(self) -> str:
        lines = [f"  {name:<15} {load} {f'({why})' if why else ''}".rstrip() for name, load, why in self.rows()]
        return "\n".join([f"Thresholds (loads alpha) of a planted problem, {self.target}:", *lines])

    def _repr_html_(self) -> str:
        return html_table(f"Thresholds of a planted problem, {self.target}", self.rows(), ("threshold", "load α", ""))


def thresholds(target: Target) -> PlantedThresholds:
    """Return the loads at which a planted problem changes."""
    check(target)
    turns = _Turns(target)
    if turns.first is None:
        return PlantedThresholds(target, None, None, None)
    return PlantedThresholds(target, turns.information, turns.load(turns.first), *turns.localization)


class _Turns:
    """The load α(q) = x(q)/E_q[g²] at which overlap q is stationary, where it turns, along the depth of q."""

    def __init__(self, target: Target) -> None:
        self.curve = Localization(uninformed(target, 1.0))
        self.falls = maximum_at_one(self.curve.equilibrium)
        least = least_depth(self.curve.equilibrium)
        rows: list[Reals] = []
        for start, stop in pairwise(EDGES):
            at = start + (stop - start) * chebyshev_points(NODES)
            rows.append(np.array(self._growth(at)))
            end = rows[-1][0, -3:]
            rising, still = bool(end[0] < end[1] < end[2]), abs(end[2] - end[0]) < 1e-3
            if stop >= least and (
                rising and end[2] > 1 if self.falls else not rising and end[2] < (0.9 if still else 0.5)
            ):
                break
        edges = EDGES[: len(rows) + 1]
        self.depth = (edges[:-1, None] + np.diff(edges)[:, None] * np.arange(DENSE) / DENSE).ravel()
        product, self.growth = np.concatenate([row @ INTERPOLATION.T for row in rows], axis=1)
        crossing = np.flatnonzero((product[:-1] < 1) != (product[1:] < 1)).tolist()
        turning = [self._turn(k) for k in crossing]
        self.first = turning[0] if turning else None
        self.second = turning[1] if len(turning) > 1 else None

    def parts(self, depth: Reals) -> tuple[Reals, ...]:
        """Return x, E_q[g²], χ E_q[g'²], and what weights and constraints give to φ, at each depth."""
        gap, variance = self.curve.distances(depth)
        log_z, increment, dg2 = self.curve.averages(gap, variance)
        weights = self.curve.locate(gap, variance)
        g2 = increment - self.curve.equilibrium.origin
        return weights.excess, g2, weights.susceptibility * dg2, weights.entropy, log_z

    def _growth(self, depth: Reals) -> tuple[Reals, Reals]:
        # of an error at the load at which q is stationary, λ = α(q) χ E_q[g'²]: above 1 where α(q) falls; and λ/α
        signal, g2, growth, *_ = self.parts(depth)
        return signal / g2 * growth, growth

    def _turn(self, k: int) -> float:
        return root_between(lambda y: float(self._growth(np.array([y]))[0][0]) - 1, self.depth[k], self.depth[k + 1])

    def load(self, depth: float) -> float:
        """Return the load at which the overlap at this depth is stationary."""
        signal, g2, *_ = self.parts(np.array([depth]))
        return float(signal[0] / g2[0])

    def height(self, depth: float, load: float) -> float:
        """Return φ at this depth."""
        *_, entropy, log_z = self.parts(np.array([depth]))
        return float(entropy[0] + load * log_z[0])

    @property
    def information(self) -> float:
        """The load at which the branch around the teacher is as high as the one from no knowledge."""
        assert self.first is not None
        first, second, state = self.first, self.second, self.curve.equilibrium

        def depth_at(load: float, low: float, high: float) -> float:
            return root_between(lambda y: self.load(y) - load, low, high)

        def advantage(load: float) -> float:
            low = self.height(depth_at(load, 1e-9, first), load)
            if second is None:
                return load * state.law.log_weight + state.log_prior - low
            return self.height(depth_at(load, second, last), load) - low

        top = self.load(first) * (1 - 1e-9)
        bottom, last = 1e-3 * top, np.inf
        if second is not None:
            bottom, last = self.load(second) * (1 + 1e-9), second + 1
            while self.load(last) < top:
                last += 1
        return root_between(advantage, bottom, top)

    @property
    def localization(self) -> tuple[float, float | None]:
        """The smallest load at which λ exceeds 1 at an overlap that a time t >= 0 makes stationary; and t."""
        if self.falls:
            return 0.0, None
        inside = np.flatnonzero((self.depth >= (self.first or 0)) & (self.depth <= (self.second or np.inf)))
        best = self.depth[inside[np.argmax(self.growth[inside])]]
        step = float(self.depth[1] - self.depth[0]) * 8
        fine = np.clip(best + step * (2 * chebyshev_points(10) - 1), self.first, self.second)
        fit = np.polynomial.Polynomial.fit(fine, self._growth(fine)[1], 9)
        at = np.linspace(fine[0], fine[-1], 4001)
        top = at[np.argmax(fit(at))]
        load = float(1 / fit(top))
        signal, g2, *_ = self.parts(np.array([top]))
        return load, float(signal[0] - load * g2[0])
