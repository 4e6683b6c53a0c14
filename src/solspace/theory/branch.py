"""The solutions of one target from α = 0 on, and what happens to the maxima of φ_t along them.

Read backwards, the reference equation gives the load α(r̂) = r̂ / E g² that every conjugate belongs to: along
the coordinate u = log r̂ nothing needs to be solved. Where the potential is even, r = 0 at every load and the
coordinate is u = log α.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Band, Uniform
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import root_between
from solspace.theory.cavity import reference_averages
from solspace.theory.localization import Landscape, Localization
from solspace.theory.reference import Equilibrium, averages_at, check, equilibrium, sufficient_level
from solspace.theory.weights import weights_of

ROUNDING = 1e-11  # share of free entropy and load that the rounding of the terms of an entropy may reach


class Branch:
    """The solutions of one target from α = 0 on, along a coordinate u: log r̂, or log α where r = 0 throughout."""

    def __init__(self, target: Target) -> None:
        check(target)
        self.target = target
        self.even = target.even
        self._flat = isinstance(target.potential, (Uniform, Band)) or (target.beta == 0 and target.potential.hard)
        self.level = 0 if self.even else max(sufficient_level(target, conjugate) for conjugate in (0.3, 10.0))
        self._seen: dict[float, Landscape] = {}

    def equilibrium(self, u: float) -> Equilibrium:
        """Return the solution at coordinate `u`."""
        if self.even:
            return equilibrium(self.target, 0.0, float(np.exp(u)))
        return equilibrium(self.target, float(np.exp(u)), level=self.level)

    def load(self, u: float) -> float:
        """Return α at coordinate `u`."""
        return self.equilibrium(u).alpha

    @cached_property
    def grid(self) -> tuple[Reals, Reals, Reals]:
        """Coordinates from α = 0 to the end of the branch, their loads and replicons."""
        if self.even:
            u = np.linspace(np.log(1e-3), np.log(1e4), 60)
            dg2 = float(reference_averages(self.target, [0.0], [1.0])[2][0])
            return u, np.exp(u), np.exp(u) * dg2
        u = np.linspace(np.log(1e-8), np.log(1e15), 94)
        weights, (_, g2, dg2, _) = averages_at(self.target, np.exp(u), self.level)
        loads = np.exp(u) / g2
        # where loads fall the equation has left the branch that starts at α = 0
        falls = np.flatnonzero(np.diff(loads) <= 0)
        stop = int(falls[0]) + 1 if len(falls) else len(u)
        return u[:stop], loads[:stop], (loads * dg2 * weights.susceptibility)[:stop]

    @cached_property
    def end(self) -> float:
        """The coordinate up to which F is looked at: where 1 - r is a few thousandths, or the grid ends."""
        u, _, _ = self.grid
        variance = weights_of(self.target.prior).reference(np.exp(u) * (not self.even)).variance
        return float(u[np.flatnonzero(variance > 4e-3)[-1]])

    def landscape(self, u: float) -> Landscape:
        """Return the turning points of F at coordinate `u`."""
        if u not in self._seen:
            self._seen[u] = Landscape(Localization(self.equilibrium(u)))
        return self._seen[u]

    def entropy(self, u: float) -> float:
        """Return the entropy of the measure at coordinate `u`."""
        state = self.equilibrium(u)
        if self._flat:
            return state.free_entropy
        return state.free_entropy - state.alpha * state.law.log_weight

    @cached_property
    def zero_entropy(self) -> float | None:
        """The load at which the entropy vanishes, the weights being discrete; None where it does not."""
        if not self.target.prior.discrete:
            return None
        if self.even:  # the entropy is linear in α
            start = float(weights_of(self.target.prior).reference([0.0]).entropy[0])
            loss = start - self.entropy(0.0)
            return start / loss if loss > 0 else None
        u, _, _ = self.grid
        low = float(u[0])
        for x in u[::4].tolist():
            entropy, state = self.entropy(x), self.equilibrium(x)
            if entropy < -ROUNDING * (abs(state.free_entropy) + state.alpha):
                return self.load(root_between(self.entropy, low, x))
            low = x if entropy >= 0 else low
        return None

    def peak(self, u: float) -> float:
        """Return how far the largest instability λ exceeds 1 at coordinate `u`."""
        return min(self.landscape(u).peak[1], 10.0) - 1

    def lowest(self, u: float) -> float:
        """Return the lowest F beyond its first turning point; 1 where it has none, -1 where F falls at the end."""
        landscape = self.landscape(u)
        if landscape.falls:
            return -1.0
        return min((rise.low for rise in landscape.rises[1:]), default=1.0)

    def advantage(self, u: float) -> float:
        """Return by how much the highest other maximum of φ_0 exceeds the one at q = r; -1 where there is none."""
        landscape = self.landscape(u)
        _, heights = landscape.maxima(0.0)
        return float(heights[1:].max() - heights[0]) if len(heights) > 1 else -1.0
