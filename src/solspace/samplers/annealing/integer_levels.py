"""Potentials rounded to integers, the landscapes that the flip kernels walk on.

The kernels compare integer energies with integer thresholds. What is rounded is the potential itself, level by level,
never its differences: the walk then obeys detailed balance exactly for the rounded potential, which differs from the
given one by at most half a unit, and there are hundreds of units to one kT.

Walls. Where the weight vanishes there is no energy to round. The landscape goes on beyond a wall with a slope of WALL
= 48 kT a level, towards the nearest level that is allowed: a chain on the wrong side still finds its way, one on the
right side never leaves (no threshold exceeds 36 kT, see `kernels.philox`). Finite steps are held to the same 48 kT, or
the 16 bits of the field would be too coarse for the rest. At T = 0 (the last sweep of temperature annealing) only the
sign of a change counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Tau
from solspace.numerics.arrays import Array
from solspace.samplers.annealing.schedules import Stage

WALL = 48.0
"""Largest step between neighbouring levels, in kT."""
FINEST = float(1 << 20)
"""Most units to a kT; thresholds of 36 kT then fit 32 bits."""
LEVELS = 1 << 16
"""Most levels that 16 bits tell apart."""


@dataclass(frozen=True)
class Lattice:
    """The levels k = -n, -n + 2, ..., n of ⟨x, w⟩ for ±1 patterns, with one more at each end for the differences.

    Level number `j` has k = 2 (j + base) - n - 2; `base` is 0 unless n is so large that only middle levels are kept.

    >>> (Lattice(n=4, m=5).stabilities * 2).tolist()
    [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]
    """

    n: int
    m: int

    @property
    def size(self) -> int:
        """Number of levels."""
        return min(self.n + 3, LEVELS)

    @property
    def base(self) -> int:
        """Levels left out at the lower end."""
        return (self.n + 3 - self.size) // 2

    @property
    def stabilities(self) -> Array:
        """(size,) stability at each level."""
        return (2 * (np.arange(self.size) + self.base) - self.n - 2) / np.sqrt(self.n)

    @property
    def largest(self) -> int:
        """Largest field: it must fit 16 bits, and the sum over all constraints 32."""
        return min((1 << 15) - 1, ((1 << 31) - 1) // (128 * -(-self.m // 128)))


@dataclass(frozen=True)
class Landscapes:
    """Integer energies (k, size) int32 of the levels at each of k stages, zero at a stage's lowest level.

    At stage t, `kt[t]` units make one kT (zero at T = 0), and a level's potential is `floor[t]` + energy · `unit[t]`.
    """

    energies: Array
    kt: Array
    unit: Array
    floor: Array

    def potential(self, energy: Array, stage: Array, m: int) -> Array:
        """Return ΣU of `m` constraints from their integer `energy` at `stage`."""
        return energy * self.unit[stage] + m * self.floor[stage]


def landscapes(stages: Sequence[Stage], lattice: Lattice) -> Landscapes:
    """Return the potentials of `stages` rounded on the lattice.

    >>> from solspace.measure import Target
    >>> lattice = Lattice(n=9, m=5)
    >>> rounded = landscapes([Stage.of(Target(potential="hinge", temperature=1.0))], lattice)
    >>> error = rounded.floor + rounded.energies[0] * rounded.unit - np.maximum(0, -lattice.stabilities)
    >>> bool(abs(error).max() <= rounded.unit / 2)
    True
    """
    values = _values(stages, lattice.stabilities)
    slope = np.zeros((len(stages), lattice.size - 1))
    allowed = np.isfinite(values)
    walled = ~allowed.all(axis=1)
    for t in np.flatnonzero(walled):
        nearest = _nearest(allowed[t], stages[int(t)])
        values[t] = values[t, nearest]
        slope[t] = np.diff(np.abs(np.arange(lattice.size) - nearest))
    thermal = np.array([stage.temperature > 0 for stage in stages])
    floor = values.min(axis=1)
    values -= floor[:, None]
    largest = np.abs(np.diff(values)).max(axis=1)
    largest = np.where(thermal, np.where(walled, WALL, np.minimum(largest, WALL)), largest)
    scale = np.minimum(FINEST, (lattice.largest - 2) / 2 / np.maximum(largest, 1e-300))
    # beyond a wall the values are constant and the slope takes over; a step too high is cut, the levels behind it sink
    wall = np.floor(largest * scale)[:, None]
    climb = np.clip(np.diff(np.rint(values * scale[:, None])) + slope * wall, -wall - 1, wall + 1)
    energies = np.zeros(values.shape, np.int64)
    np.cumsum(climb, axis=1, out=energies[:, 1:], dtype=np.int64)
    energies -= energies[np.arange(len(stages)), values.argmin(axis=1)][:, None]
    heat = np.array([stage.temperature if stage.temperature > 0 else 1.0 for stage in stages])
    heat[np.isinf(heat)] = 0.0
    return Landscapes(energies.astype(np.int32), np.where(thermal, scale, 0.0), heat / scale, heat * floor)


def _values(stages: Sequence[Stage], stabilities: Array) -> Array:
    """Return U/T (or U at T = 0) of each stage at `stabilities`, (k, size).

    The stages of τ-annealing share log s; one by one they would be what a small problem spends its time on. A stage's
    values do not depend on which others are computed with it.
    """
    values = np.empty((len(stages), len(stabilities)))
    powers: dict[float, list[int]] = {}
    for t, stage in enumerate(stages):
        if isinstance(stage.potential, Tau) and stage.potential.tau > 0:
            powers.setdefault(stage.margin, []).append(t)
        else:
            values[t] = stage.energies(stabilities)
    for margin, numbers in powers.items():
        s = stabilities - margin
        tau = np.array([stages[t].potential.parameters["tau"] for t in numbers])[:, None]
        heat = np.array([stages[t].temperature or 1.0 for t in numbers])[:, None]
        right = int(np.searchsorted(s, 0.0, side="right"))
        values[numbers, :right] = (1 - s[:right]) / (tau * heat)
        values[numbers, right:] = np.expm1(tau * np.log(s[right:])) / (-tau * heat)
    return values


def _nearest(allowed: Array, stage: Stage) -> Array:
    """Return for each level the number of the nearest allowed one (the lower of two)."""
    if not allowed.any():
        raise ValueError(f"{stage} allows no stability that ±1 weights and patterns can have.")
    levels = np.arange(len(allowed))
    below = np.maximum.accumulate(np.where(allowed, levels, -1))
    above = np.minimum.accumulate(np.where(allowed, levels, 1 << 40)[::-1])[::-1]
    return np.where((below < 0) | (above - levels < levels - below), above, below)


def met_range(target: Target, stabilities: Array) -> tuple[int, int]:
    """Return the number of the first stability at which a constraint is met, and how many there are."""
    met = np.flatnonzero(~target.violated(stabilities))
    if len(met) == 0:
        raise ValueError(f"no stability of ±1 weights and patterns meets {target}.")
    if met[-1] - met[0] + 1 != len(met):
        raise ValueError(f"the stabilities that meet {target} do not form an interval; annealing needs one.")
    return int(met[0]), len(met)
