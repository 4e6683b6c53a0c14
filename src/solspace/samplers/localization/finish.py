"""The end of a localization: a draw from p(w) exp(⟨h, w⟩ - t |w|²/2), the law of the weights given the field, by a chain.

At *any* time t such a draw has the law of the target. So a sample need not be localized to the end, where weights freeze one
after another and errors of the means count most: it can leave as soon as a chain in its field mixes. Weights of ±1 start with
probability (1 ± m)/2, and sweeps of the heat bath settle their correlations. Two replicas in one field show whether they mix:
each must come as far from where it was half of the sweeps ago as it is from the other.

Real weights start at their means and are moved by rotations. At t = 10³ overlaps are settled to 10⁻³ and the mean, rescaled,
would do but for what is next to a wall: a few sweeps spread the weights about it, and their overlap with it shows how far they
have come. Small problems leave earlier, where the law depends less on the means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.batches import gpu_flips
from solspace.samplers.annealing.chains import Chains, Plan, Run, run_to_end
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.gpu import GpuFlips
from solspace.samplers.annealing.gpu_flips import GpuIntegerFlips
from solspace.samplers.annealing.rotations import Rotations
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.marginals.messages import SampleColumns

SWEEPS = 32  # of the heat bath
TIMES = (3.0, 8.0)  # when samples try to leave, before the final time
MIXED = 0.5  # most of the way from 1 to the replicas' overlap that a mixing chain leaves undone in half of its sweeps
_BLOCK = 128
SMALL = 21_000  # entries of the patterns up to which real weights leave early, after many sweeps
# sweeps of rotations, and when samples try to leave before the final time, of small problems and of others
ROTATIONS, ROTATION_TIMES = (64, 4), ((10.0, 1e3), (1e3,))
MIXED_SMALL, MIXED_LARGE = 0.2, 0.8  # as MIXED, of real weights; for all samples of a small problem together


@dataclass(frozen=True)
class Draw:
    """Weights drawn in fields, how many constraints each misses, and whether its chains mix, (k,) each."""

    weights: Callable[[Array], Array]  # (k,) bool -> the weights of those samples, (len, n)
    missed: Array
    mixed: Array


@dataclass(frozen=True)
class Bath:
    """The chains of a run: `each` samples of each problem; random numbers depend on (seed, sample, `turn`) alone."""

    problems: Sequence[Perceptron]
    seeds: Sequence[np.random.SeedSequence]
    each: int
    sweeps: int

    @cached_property
    def plan(self) -> Plan:
        draw_at = np.full(self.sweeps, -1)
        draw_at[[self.sweeps - 1 - self.sweeps // 2, self.sweeps - 1]] = 0, 1
        target = self.problems[0].target
        return Plan([Stage.of(target)] * self.sweeps, 0, draw_at, solve=False, target=target)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.asarray(self.problems[0].target.prior.decode(np.ones(1))).dtype

    def keys(self, turn: int) -> list[int]:
        """Return the 64 bits for each problem from which all random numbers of a turn are made."""
        return [int(own.generate_state(turn + 2, np.uint64)[-1]) for own in self.seeds]

    def draw(self, samples: SampleColumns, lanes: Array, turn: int) -> Draw:
        from solspace.samplers.kernels.philox import tilted_weights

        (problem,), (key,), n = self.problems, self.keys(turn), self.problems[0].n
        number = (2 * lanes[:, None] + np.arange(2)).ravel()
        first = np.empty((len(number), n), np.int8)
        tilted_weights(np.uint64(key), number, np.repeat(samples.means()[lanes], 2, axis=0), first)
        chains = Chains.start(first, self.plan, np.repeat(samples.fields()[lanes], 2, axis=0), number)
        flips = cpu_flips(problem, self.plan, key, len(number))
        run_to_end(Run(flips, chains, self.plan))
        # (samples, replicas, draws, n)
        drawn = chains.draws.reshape(-1, 2, 2, n)
        signs = drawn.astype(np.float32)
        own = np.einsum("krn,krn->k", signs[:, :, 0], signs[:, :, 1]) / (2 * n)
        cross = np.einsum("kdn,kdn->k", signs[:, 0], signs[:, 1]) / (2 * n)
        weights = drawn[:, 0, 1]
        return Draw(weights.__getitem__, problem.violations(weights), _mixed(own, cross))

    def missed(self, numbers: Array, weights: Array) -> Array:
        found = np.zeros(len(weights), int)
        for number in np.unique(numbers):
            rows = numbers == number
            found[rows] = self.problems[number].violations(weights[rows])
        return found


@dataclass(frozen=True)
class GpuBath(Bath):
    """The heat bath on a device: chains of all samples of all problems in one launch; only weights that leave come back."""

    bits: DeviceArray | None = None  # patterns of ±1 as `GpuSigns` keeps them by columns, if it does

    @cached_property
    def flips(self) -> GpuFlips:
        sizes = self.problems, self.plan, self.keys(0), 2 * self.each
        return gpu_flips(*sizes) if self.bits is None else GpuIntegerFlips(*sizes, bits=self.bits)

    def draw(self, samples: SampleColumns, lanes: Array, turn: int) -> Draw:
        device, n, k = cupy(), self.problems[0].n, len(self.problems) * self.each
        self.flips.keys.set(np.array(self.keys(turn), np.uint64))
        resting = np.ones(k, np.uint8)
        resting[lanes] = 0
        self.flips.put(*self._begin(samples), sent(np.repeat(resting, 2)))
        draws = self.flips.run_plan()
        shared = device.zeros((2, k), np.int32)
        kernel("finish", "overlaps", (("REAL", "float"),))((k,), (_BLOCK,), (draws, np.int32(n), *shared))
        # of the first replica's draws, (samples, replicas, draws, n), the second
        weights = draws.reshape(4 * k, n)[sent(4 * lanes + 1)]
        missed = self.flips.unmet(weights, lanes // self.each)
        if missed is None:
            missed = self.missed(lanes // self.each, fetched(weights))
        own, cross = fetched(shared)[:, lanes] / (2 * n)
        return Draw(lambda rows: fetched(weights[sent(np.flatnonzero(rows))]), missed, _mixed(own, cross))

    def _begin(self, samples: SampleColumns) -> tuple[DeviceArray, DeviceArray]:
        """Return the first weights (2 k, n) of two replicas of each sample, and their fields (2 k, n)."""
        device, number, n = cupy(), len(self.problems), self.problems[0].n
        found = (sent(part) if isinstance(part, np.ndarray) else part for part in (samples.field, samples.mean))
        field, mean = (part.reshape(number, n, self.each) for part in found)
        k = number * self.each
        weights, fields = device.empty((2 * k, n), np.int8), device.empty((2 * k, n), np.float64)
        begin = kernel("finish", "begin", (("REAL", "float" if mean.dtype == np.float32 else "double"),))
        sizes = map(np.int32, (n, self.each, k))
        grid = (-(-n // 4), -(-k // _BLOCK))
        begin(grid, (_BLOCK,), (field, mean, self.flips.keys, *sizes, weights, fields))
        return weights, fields


@dataclass(frozen=True)
class Rotated(Bath):
    """Rotations of real weights, on the processor."""

    times: Sequence[float] = ()  # of the turns

    @property
    def small(self) -> bool:
        return self.problems[0].n * self.problems[0].m <= SMALL

    def draw(self, samples: SampleColumns, lanes: Array, turn: int) -> Draw:
        drawn, missed, mixed = [], [], []
        fields, means = samples.fields(), samples.means()
        for number in np.unique(lanes // self.each):
            here = lanes[lanes // self.each == number]
            found = self._turned(int(number), here, fields[here], means[here], turn)
            drawn.append(found[:, 0, 1])
            missed.append(self.problems[number].violations(drawn[-1]))
            mixed.append(self._mixed(found, means[here]))
        weights = np.concatenate(drawn)
        return Draw(weights.__getitem__, np.concatenate(missed), np.concatenate(mixed))

    def _turned(self, number: int, lanes: Array, fields: Array, means: Array, turn: int) -> Array:
        """Return the weights (samples, replicas, 2, n) after half of the sweeps and after all."""
        problem, replicas = self.problems[number], 2 if self.small else 1
        weights = np.repeat(problem.target.prior.decode(means), replicas, axis=0)
        number_of = (replicas * (lanes - number * self.each)[:, None] + np.arange(replicas)).ravel()
        time = np.full(len(weights), self.times[turn])
        chains = Chains.start(weights, self.plan, np.repeat(fields, replicas, axis=0), number_of, time=time)
        moves = Rotations(problem, self.plan, self.keys(turn)[number], len(weights), every=self.sweeps)
        run_to_end(Run(moves, chains, self.plan))
        return chains.draws.reshape(len(lanes), replicas, 2, problem.n)

    def _mixed(self, found: Array, means: Array) -> Array:
        n = means.shape[1]
        if self.small:
            own = np.einsum("krn,krn->k", found[:, :, 0], found[:, :, 1]) / (2 * n)
            cross = np.einsum("kdn,kdn->k", found[:, 0], found[:, 1]) / (2 * n)
            square = np.square(found).mean(axis=(1, 2, 3))
            return np.full(len(own), np.mean(own - cross) <= MIXED_SMALL * np.mean(square - cross))
        # of ⟨w, m⟩ = |m|² for fair ones; Gaussian weights start there, and each is drawn anew in a sweep
        after = found[:, 0, 1]
        own, cross = np.einsum("kn,kn->k", after, means) / n, np.square(means).mean(axis=1)
        start = np.sqrt(cross * np.square(after).mean(axis=1))
        return np.asarray(own - cross <= MIXED_LARGE * (start - cross))


def _mixed(own: Array, cross: Array) -> Array:
    """Return whether chains mix, from the overlaps (k,) of a replica's two draws and of the two replicas."""
    return np.asarray(own - cross <= MIXED * (1 - cross))


def leave(
    bath: Bath, samples: SampleColumns, lanes: Array, turn: int, last: bool, careful: Array
) -> tuple[Array, Array, Array]:
    """Return which of the samples `lanes` leave, whose draw is fair, and the weights with which they leave.

    Before the last turn a sample leaves if a chain in its field mixes, unless it is `careful`: its instability came near 1,
    where theory sees weights freeze. In the last turn all leave whose draw meets more constraints than what the
    prior has nearest to their means, or all.
    """
    ready = samples.finite()[lanes]
    if not last:
        ready &= ~careful[lanes]
    fair = np.zeros(len(lanes), bool)
    if not ready.any():
        return fair, fair, np.ones((0, bath.problems[0].n), bath.dtype)
    drawn = bath.draw(samples, lanes[ready], turn)
    missing = np.zeros(len(lanes), int)
    if bath.problems[0].target.potential.hard:
        missing[ready] = drawn.missed
    fair[ready] = drawn.mixed & (missing[ready] == 0)
    gone = fair.copy()
    if last:
        gone |= ready & (missing == 0)
        rest = np.flatnonzero(ready & ~gone)
        if len(rest):
            signs, here = bath.problems[0].target.prior.decode(samples.means()), lanes[rest]
            found = samples.stabilities(signs) if signs.dtype == np.int8 else None
            if found is None:
                by_means = bath.missed(here // bath.each, signs[here])
            else:
                by_means = bath.problems[0].target.violated(found[here]).sum(axis=1)
            gone[rest] = missing[rest] < by_means
    return gone, fair, drawn.weights(gone[ready])
