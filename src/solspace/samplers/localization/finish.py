"""The end of a localization: a draw from p(w) exp(⟨h, w⟩), the law of the weights given the field, by heat bath.

At *any* time t such a draw has the law of the target. So a sample need not be localized to the end, where weights freeze one
after another and errors of the means count most: it can leave as soon as single flips in its field mix. Weights start at ±1
with probability (1 ± m)/2, and sweeps of the heat bath settle what the means do not tell, the correlations. Two replicas in
one field tell whether they mix: each must come as far from where it was half of the sweeps ago as it is from the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing import cpu
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.run import carry
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.localization.denoisers import Denoiser
from solspace.samplers.localization.pace import Clock

SWEEPS = 32
"""Sweeps of the heat bath."""
TIMES = (3.0, 8.0)
"""When samples try to leave, before the final time."""
MIXED = 0.5
"""Share of the way from 1 to the replicas' overlap that a mixing chain leaves undone in half of its sweeps, at most."""


@dataclass(frozen=True)
class Draw:
    """Weights drawn in fields, how many constraints each misses, and whether its chains mix, (k,) each."""

    weights: Callable[[Array], Array]
    """(k,) of True -> the weights of those samples, (len, n) int8."""
    missed: Array
    mixed: Array


@dataclass(frozen=True)
class Bath:
    """The heat bath of a run: of which problems, with which seeds, how many samples of `each`, for how many sweeps.

    Random numbers depend on a problem's seed, the sample's number in it and the attempt, `turn`, alone.
    """

    problems: Sequence[Perceptron]
    seeds: Sequence[np.random.SeedSequence]
    each: int
    sweeps: int

    @cached_property
    def plan(self) -> Plan:
        """The sweeps of a turn; draws come half-way and at the end."""
        draw_at = np.full(self.sweeps, -1)
        draw_at[[self.sweeps - 1 - self.sweeps // 2, self.sweeps - 1]] = 0, 1
        return Plan([Stage.of(self.problems[0].target)] * self.sweeps, 0, draw_at, solve=False)

    def keys(self, turn: int) -> list[int]:
        """Return the 64 bits for each problem from which all random numbers of a turn are made."""
        return [int(own.generate_state(turn + 2, np.uint64)[-1]) for own in self.seeds]

    def leave(self, denoiser: Denoiser, lanes: Array, turn: int) -> Draw:
        """Return a draw for each of the samples `lanes` in the fields of `denoiser`."""
        return self.draw(denoiser.fields(), denoiser.means(), lanes, turn)

    def draw(self, fields: Array, means: Array, lanes: Array, turn: int) -> Draw:
        """Return a draw for each of the samples `lanes` of one problem, whose `fields` and `means` (k, n) are given."""
        from solspace.samplers.kernels.philox import tilted_weights

        (problem,), (key,), n = self.problems, self.keys(turn), self.problems[0].n
        number = (2 * lanes[:, None] + np.arange(2)).ravel()
        first = np.empty((len(number), n), np.int8)
        tilted_weights(np.uint64(key), number, np.repeat(means[lanes], 2, axis=0), first)
        chains = Chains.start(first, self.plan, np.repeat(fields[lanes], 2, axis=0), number)
        flips = cpu.flips_for(problem)(problem, self.plan, key, len(number))
        carry(flips, chains, self.plan, Checkpoint(None, {}), lambda done: None)
        # (samples, replicas, draws, n)
        drawn = chains.draws.reshape(-1, 2, 2, n)
        signs = drawn.astype(np.float32)
        own = np.einsum("krn,krn->k", signs[:, :, 0], signs[:, :, 1]) / (2 * n)
        cross = np.einsum("kdn,kdn->k", signs[:, 0], signs[:, 1]) / (2 * n)
        weights = drawn[:, 0, 1]
        return Draw(weights.__getitem__, problem.violations(weights), self.mixed(own, cross))

    @staticmethod
    def mixed(own: Array, cross: Array) -> Array:
        """Return whether chains mix, from the overlaps (k,) of a replica's two draws and of the two replicas."""
        return np.asarray(own - cross <= MIXED * (1 - cross))

    def missed(self, numbers: Array, weights: Array) -> Array:
        """Return how many constraints `weights` (k, n) miss, each of the problem whose number (k,) is given."""
        found = np.zeros(len(weights), int)
        for number in np.unique(numbers):
            rows = numbers == number
            found[rows] = self.problems[number].violations(weights[rows])
        return found


@dataclass(frozen=True)
class Exit:
    """Where samples leave, in one of some `turns`."""

    bath: Bath
    denoiser: Denoiser
    clock: Clock
    turns: int

    def __call__(self, turn: int, lanes: Array) -> tuple[Array, Array, Array]:
        """Return which of the samples `lanes` leave, whose draw is fair, and the weights with which they leave.

        Before the last turn a sample leaves if flips in its field mix; and not if its instability came near 1, where theory
        sees weights freeze. In the last turn all leave whose draw meets more constraints than the signs of their means, or
        all.
        """
        last, asking = turn == self.turns - 1, self.denoiser.sound()[lanes]
        if not last:
            asking &= ~self.clock.careful[lanes]
        fair = np.zeros(len(lanes), bool)
        if not asking.any():
            return fair, fair, np.ones((0, self.bath.problems[0].n), np.int8)
        drawn = self.bath.leave(self.denoiser, lanes[asking], turn)
        missing = np.zeros(len(lanes), int)
        if self.bath.problems[0].target.potential.hard:
            missing[asking] = drawn.missed
        fair[asking] = drawn.mixed & (missing[asking] == 0)
        gone = fair.copy()
        if last:
            gone |= asking & (missing == 0)
            rest = np.flatnonzero(asking & ~gone)
            if len(rest):
                gone[rest] = missing[rest] < self._missed(lanes[rest])
        return gone, fair, drawn.weights(gone[asking])

    def _missed(self, lanes: Array) -> Array:
        """Return how many constraints the signs of the means of the samples `lanes` miss; a device that has them counts."""
        signs = np.where(self.denoiser.means() >= 0, np.int8(1), np.int8(-1))
        found = self.denoiser.stabilities(signs)
        if found is None:
            return self.bath.missed(lanes // self.denoiser.each, signs[lanes])
        return self.bath.problems[0].target.violated(found[lanes]).sum(axis=1)
