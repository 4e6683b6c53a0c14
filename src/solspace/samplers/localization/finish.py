"""The end of a localization: a draw from p(w) exp(⟨h, w⟩), the law of the weights given the field, by heat bath.

At *any* time t such a draw has the law of the target. So a sample need not be localized to the end, where weights freeze one
after another and errors of the means count most: it can leave as soon as single flips in its field mix. Weights start at ±1
with probability (1 ± m)/2, and sweeps of the heat bath settle what the means do not tell, the correlations. Two replicas in
one field tell whether they mix: each must come as far from where it was half of the sweeps ago as it is from the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.annealing import cpu, lots
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.run import Flips, carry
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
    """Weights (k, n) drawn in fields, how many constraints each misses, and whether its chains mix, (k,) each."""

    weights: Array
    missed: Array
    mixed: Array


@dataclass(frozen=True)
class Bath:
    """The heat bath of a run: of which problems, with which seeds, for how many sweeps, and on which device."""

    problems: Sequence[Perceptron]
    seeds: Sequence[np.random.SeedSequence]
    sweeps: int
    where: str = "cpu"

    def draw(self, fields: Array, means: Array, lanes: Array, turn: int) -> Draw:
        """Return a draw for each of the samples `lanes`.

        `fields` and `means` (k, n) are those of all samples, problem by problem. Random numbers depend on the problem's
        seed, the sample's number in it and the attempt, `turn`, alone.
        """
        problem, each = self.problems[0], len(fields) // len(self.problems)
        draw_at = np.full(self.sweeps, -1)
        draw_at[[self.sweeps - 1 - self.sweeps // 2, self.sweeps - 1]] = 0, 1
        plan = Plan([Stage.of(problem.target)] * self.sweeps, 0, draw_at, solve=False)
        keys = [int(own.generate_state(turn + 2, np.uint64)[-1]) for own in self.seeds]
        flips: Flips
        if self.where == "gpu":
            there = np.arange(len(fields))  # chains of all problems share a launch: as many to each
            flips = lots.gpu_flips(self.problems, plan, keys, 2 * each)
        else:
            there = lanes
            flips = cpu.flips_for(problem)(problem, plan, keys[0], 2 * len(lanes))
        first = [_first(means[lane], self.seeds[lane // each], lane % each, turn) for lane in there.tolist()]
        number = (2 * (there % each)[:, None] + np.arange(2)).ravel()
        chains = Chains.start(np.concatenate(first), plan, np.repeat(fields[there], 2, axis=0), number)
        carry(flips, chains, plan, Checkpoint(None, {}), lambda done: None)
        # (samples, replicas, draws, n)
        drawn = chains.draws.reshape(-1, 2, 2, problem.n)[np.searchsorted(there, lanes)]
        signs = drawn.astype(np.float32)
        own = np.einsum("krn,krn->k", signs[:, :, 0], signs[:, :, 1]) / (2 * problem.n)
        cross = np.einsum("kdn,kdn->k", signs[:, 0], signs[:, 1]) / (2 * problem.n)
        weights = drawn[:, 0, 1]
        # where a device has the patterns, it is asked
        found = flips.stabilities(np.ascontiguousarray(chains.draws[:, 1]))
        if found is None:
            lacking = self.missed(lanes // each, weights)
        else:
            lacking = problem.target.violated(found[::2][np.searchsorted(there, lanes)]).sum(axis=1)
        return Draw(weights, lacking, own - cross <= MIXED * (1 - cross))

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
        """Return weights drawn in the fields of the samples `lanes`, who may leave with them, and whose draw is fair.

        Before the last turn a sample leaves if flips in its field mix; and not if its instability came near 1, where theory
        sees weights freeze. In the last turn all leave whose draw meets more constraints than the signs of their means, or
        all.
        """
        last, means, fields = turn == self.turns - 1, self.denoiser.means(), self.denoiser.fields()
        asking = np.isfinite(fields[lanes]).all(axis=1) & np.isfinite(means[lanes]).all(axis=1)
        if not last:
            asking &= ~self.clock.careful[lanes]
        weights, fair = np.ones((len(lanes), means.shape[1]), np.int8), np.zeros(len(lanes), bool)
        if not asking.any():
            return weights, fair, fair
        drawn = self.bath.draw(fields, means, lanes[asking], turn)
        weights[asking] = drawn.weights
        missing = np.zeros(len(lanes), int)
        if self.bath.problems[0].target.potential.hard:
            missing[asking] = drawn.missed
        fair[asking] = drawn.mixed & (missing[asking] == 0)
        gone = fair.copy()
        if last:
            gone |= asking & (missing == 0)
            rest = np.flatnonzero(asking & ~gone)
            if len(rest):
                gone[rest] = missing[rest] < self._missed(means, lanes[rest])
        return weights, gone, fair

    def _missed(self, means: Array, lanes: Array) -> Array:
        """Return how many constraints the signs of the means of the samples `lanes` miss; a device that has them counts."""
        signs = np.where(means >= 0, np.int8(1), np.int8(-1))
        found = self.denoiser.stabilities(signs)
        if found is None:
            return self.bath.missed(lanes // self.denoiser.each, signs[lanes])
        return self.bath.problems[0].target.violated(found[lanes]).sum(axis=1)


def _first(mean: Array, seeds: np.random.SeedSequence, sample: int, turn: int) -> Array:
    """Return two weights (2, n), each ±1 with probability (1 ± m)/2."""
    up = generator(seeds, int(sample), 2, turn).random((2, len(mean))) < (1 + mean) / 2
    return (2 * up - 1).astype(np.int8)
