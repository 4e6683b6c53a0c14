"""The solutions of one target from α = 0 on, and what happens to the maxima of φ_t along them.

Read backwards, the reference equation gives the load α(r̂) = r̂ / E g² that every conjugate belongs to: along
the coordinate u = log r̂ nothing needs to be solved. Where the potential is even, r = 0 at every load and the
coordinate is u = log α.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import first_root, root_between
from solspace.theory.cavity import reference_averages
from solspace.theory.edge import divergence
from solspace.theory.localization import Landscape, Localization, chebyshev_points
from solspace.theory.reference import Equilibrium, averages_at, check, equilibrium, sufficient_level
from solspace.theory.weights import free_weights, weights_of

ROUNDING = 1e-11  # share of free entropy and load that the rounding of the terms of an entropy may reach
SHARES = np.array([0.0, 0.05, 0.12, 0.2, 0.35, 0.5, 0.75, 1.0])  # of an interval: where the maxima of φ_0 are looked at


class Branch:
    """The solutions of one target from α = 0 on, along a coordinate u: log r̂, or log α where r = 0 throughout."""

    def __init__(self, target: Target) -> None:
        check(target)
        self.target = target
        self.even, self.free = target.even, free_weights(target.prior) is not None
        self.level = 0 if self.even else max(sufficient_level(target, conjugate) for conjugate in (0.3, 10.0))
        self.fails = divergence(target)[0] > target.prior.conjugate_growth  # φ_t has a maximum at q = 1 at every load
        self._seen: dict[float, Landscape] = {}

    def equilibrium(self, u: float) -> Equilibrium:
        """Return the solution at coordinate `u`."""
        if self.even:
            return equilibrium(self.target, 0.0, float(np.exp(u)))
        return equilibrium(self.target, float(np.exp(u)), level=self.level)

    def load(self, u: float | None) -> float | None:
        """Return α at coordinate `u`, None at None."""
        return None if u is None else self.equilibrium(u).alpha

    @cached_property
    def grid(self) -> tuple[Reals, Reals, Reals]:
        """Coordinates from α = 0 to the end of the branch, their loads and replicons."""
        if self.even:
            u = np.linspace(np.log(1e-3), np.log(1e4), 60)
            if self.free:
                weights, averages = averages_at(self.target, np.zeros(60), 0, np.exp(u))
                return u, np.exp(u), np.exp(u) * averages[2] * weights.susceptibility
            dg2 = float(reference_averages(self.target, [0.0], [1.0])[2][0])
            return u, np.exp(u), np.exp(u) * dg2
        u = np.linspace(np.log(1e-8), np.log(1e15), 94)
        weights, (_, g2, dg2, *_) = averages_at(self.target, np.exp(u), self.level)
        loads = np.exp(u) / g2
        # where loads fall the equation has left the branch that starts at α = 0
        falls = np.flatnonzero(~(np.diff(loads) > 0))
        stop = int(falls[0]) + 1 if len(falls) else len(u)
        return u[:stop], loads[:stop], (loads * dg2 * weights.susceptibility)[:stop]

    @cached_property
    def end(self) -> float:
        """The coordinate up to which F is looked at: where 1 - r is a few thousandths, or the grid ends."""
        u, _, _ = self.grid
        if self.free:
            states = [self.equilibrium(x) for x in u.tolist()]
            variance = np.array([state.variance / state.norm for state in states])
        else:
            variance = weights_of(self.target.prior).reference(np.exp(u) * (not self.even)).variance
        return float(u[np.flatnonzero(variance > 4e-3)[-1]])

    def landscape(self, u: float) -> Landscape:
        """Return the turning points of F at coordinate `u`."""
        if u not in self._seen:
            self._seen[u] = Landscape(Localization(self.equilibrium(u)))
        return self._seen[u]

    @cached_property
    def zero_entropy(self) -> float | None:
        """The load at which the entropy vanishes, the weights being discrete; None where it does not."""
        if not self.target.prior.discrete:
            return None
        if self.even and not self.free:  # the entropy is linear in α
            start = float(weights_of(self.target.prior).reference([0.0]).entropy[0])
            loss = self.equilibrium(0.0).law.log_weight - float(self.target.channel(0.0, 1.0)[0])
            return start / loss if loss > 0 else None
        u, _, _ = self.grid
        low = float(u[0])
        for x in u[::4].tolist():
            state = self.equilibrium(x)
            if state.entropy < -ROUNDING * (abs(state.free_entropy) + state.alpha):
                return self.load(root_between(lambda u: self.equilibrium(u).entropy, low, x))
            low = x if state.entropy >= 0 else low
        return None

    @cached_property
    def dat(self) -> float | None:
        """The coordinate at which the replicon reaches 1, None where it does not."""
        u, _, replicon = self.grid
        above = np.flatnonzero(replicon >= 1)
        if len(above) == 0 or above[0] == 0:
            return None
        return root_between(lambda x: self.equilibrium(x).replicon - 1, u[above[0] - 1], u[above[0]])

    @cached_property
    def cusp(self) -> float | None:
        """The first coordinate at which λ exceeds 1 away from q = r; None where it does not before the dAT line."""
        end = self.end if self.dat is None else self.dat
        state = self.equilibrium(end)
        if abs(state.replicon - 1) < 1e-8:
            if self.initial_slope(end) <= 0 and self._excess(end) < 1e-8:
                return None
        elif self._excess(end) <= 0:
            return None
        u, loads, _ = self.grid

        def at(share: float) -> float:
            return float(np.interp(np.log(state.alpha * share), np.log(loads), u))

        share = 0.2
        while self._excess(at(share)) > 0:
            share /= 4
            if share < 1e-12:
                return at(share)
        shares = (share, 0.4, 0.6, 0.75, 0.87, 0.95) if share == 0.2 else (share, 4 * share)
        return first_root(self._excess, [*map(at, shares), end])

    def _excess(self, u: float) -> float:
        # how far the largest instability exceeds 1
        return min(self.landscape(u).peak[1], 10.0) - 1

    def initial_slope(self, u: float) -> float:
        """Return dλ/dy at q = r, by a polynomial through exact values."""
        y = 0.2 * chebyshev_points(10)
        curve = Localization(self.equilibrium(u))
        return float(np.polynomial.Polynomial.fit(y, curve.at_depth(y).instability, 9).deriv()(0.0))

    @cached_property
    def static(self) -> tuple[float | None, float | None]:
        """Coordinates between cusp and dAT line at which, at t = 0, a second maximum appears and becomes the higher one."""
        if self.cusp is None:
            return None, None
        end = self.end if self.dat is None else self.dat - 1e-9
        dynamical = first_root(self._second, (self.cusp + (end - self.cusp) * SHARES).tolist())
        if dynamical is None:
            return None, None
        return dynamical, first_root(self._advantage, (dynamical + (end - dynamical) * SHARES).tolist())

    def _second(self, u: float) -> float:
        # how far F falls below 0 beyond its first turning point; -1 where it has none, 1 where F falls at the end
        landscape = self.landscape(u)
        return 1.0 if landscape.falls else max((-rise.low for rise in landscape.rises[1:]), default=-1.0)

    def _advantage(self, u: float) -> float:
        # by how much the highest other maximum of φ_0 exceeds the one at q = r; -1 where there is none
        _, heights = self.landscape(u).maxima(0.0)
        return float(heights[1:].max() - heights[0]) if len(heights) > 1 else -1.0
