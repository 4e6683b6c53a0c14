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


def draw(
    problems: Sequence[Perceptron],
    fields: Array,
    means: Array,
    lanes: Array,
    seeds: Sequence[np.random.SeedSequence],
    sweeps: int,
    turn: int,
    where: str = "cpu",
) -> Draw:
    """Return a draw for each of the samples `lanes`, by `sweeps` of the heat bath.

    `fields` and `means` (k, n) are those of all samples, problem by problem. Random numbers depend on the problem's seed,
    the sample's number in it and the attempt, `turn`, alone.
    """
    each = len(fields) // len(problems)
    target, n = problems[0].target, problems[0].n
    draw_at = np.full(sweeps, -1)
    draw_at[[sweeps - 1 - sweeps // 2, sweeps - 1]] = 0, 1
    plan = Plan([Stage.of(target)] * sweeps, 0, draw_at, solve=False)
    keys = [int(own.generate_state(turn + 2, np.uint64)[-1]) for own in seeds]
    flips: Flips
    if where == "gpu":
        there = np.arange(len(fields))  # chains of all problems share a launch: as many to each
        flips = lots.gpu_flips(problems, plan, keys, 2 * each)
    else:
        there = lanes
        flips = cpu.flips_for(problems[0])(problems[0], plan, keys[0], 2 * len(lanes))
    first = [_first(means[lane], seeds[lane // each], lane % each, turn) for lane in there.tolist()]
    number = (2 * (there % each)[:, None] + np.arange(2)).ravel()
    chains = Chains.start(np.concatenate(first), plan, np.repeat(fields[there], 2, axis=0), number)
    carry(flips, chains, plan, Checkpoint(None, {}), lambda done: None)
    drawn = chains.draws.reshape(-1, 2, 2, n)[np.searchsorted(there, lanes)]  # (samples, replicas, draws, n)
    signs = drawn.astype(np.float32)
    own = np.einsum("krn,krn->k", signs[:, :, 0], signs[:, :, 1]) / (2 * n)
    cross = np.einsum("kdn,kdn->k", signs[:, 0], signs[:, 1]) / (2 * n)
    weights = drawn[:, 0, 1]
    found = flips.stabilities(np.ascontiguousarray(chains.draws[:, 1]))  # where a device has the patterns, it is asked
    if found is None:
        lacking = missed(problems, lanes // each, weights)
    else:
        lacking = target.violated(found[::2][np.searchsorted(there, lanes)]).sum(axis=1)
    return Draw(weights, lacking, own - cross <= MIXED * (1 - cross))


def missed(problems: Sequence[Perceptron], numbers: Array, weights: Array) -> Array:
    """Return how many constraints `weights` (k, n) miss, each of the problem whose number (k,) is given."""
    found = np.zeros(len(weights), int)
    for number in np.unique(numbers):
        rows = numbers == number
        found[rows] = problems[number].violations(weights[rows])
    return found


def _first(mean: Array, seeds: np.random.SeedSequence, sample: int, turn: int) -> Array:
    """Return two weights (2, n), each ±1 with probability (1 ± m)/2."""
    up = generator(seeds, int(sample), 2, turn).random((2, len(mean))) < (1 + mean) / 2
    return (2 * up - 1).astype(np.int8)
