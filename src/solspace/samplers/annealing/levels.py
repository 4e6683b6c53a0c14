"""Weights on levels, ±1 among them, with an intercept, clamped weights and powers of constraints, on the processor.

Levels must be multiples of one number, so that stabilities in fixed point (`real_forms`) move by whole multiples of a column.
Powers p are divided by the smallest one, as is 1/T: no wall becomes lower than where all are 1. They are rounded to 24 bits
below the largest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solspace.measure.priors import Levels, Prior
from solspace.numerics.arrays import Array, aligned
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import CACHE, CpuFlips, IntegerFlips, Lattice, Work
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels.flips import Rows, Sweeps

REACH = 8.5  # widths of its prior within which an intercept moves
SPREAD = 1000  # most units between zero and a level
FINEST = 256  # most units in the smallest difference of two levels
MOVES, EACH = 8, 16  # of the intercept in a sweep: most, and proposals of weights for each
POWERS = 24  # bits of the largest power
_BLOCK = 1024  # constraints multiplied at a time


def spacing(values: Array) -> tuple[float, Array]:
    """Return a number and the whole multiples of it that `values` (L,) are.

    >>> spacing(np.array([-3.0, -1.0, 1.0, 3.0])), spacing(np.array([0.0, 0.1, 0.25]))[1]
    ((1.0, array([-3, -1,  1,  3])), array([0, 2, 5]))
    """
    sizes = np.abs(np.concatenate([values, np.diff(np.sort(values))]))
    least, largest = sizes[sizes > 0].min(), sizes.max()
    for parts in range(1, FINEST + 1):
        multiples = values * parts / least
        whole = np.rint(multiples)
        if np.abs(whole).max() <= SPREAD and np.allclose(multiples, whole, rtol=0, atol=1e-9 * parts * largest / least):
            # the common divisor of all, so that columns are as fine as they can be
            common = int(np.gcd.reduce(whole.astype(np.int64)))
            return float(least / parts * common), whole.astype(np.int64) // common
    raise ValueError(
        f"annealing needs levels that are multiples of one number, of at most {SPREAD} of it, such as -3, -1, 1, 3 or 0, 0.25, "
        f"1; got {', '.join(f'{value:.6g}' for value in values)}."
    )


class FixedLevels(real_forms.FixedPoint):
    """The patterns of a problem in fixed point, in units of the spacing of levels.

    >>> fixed = FixedLevels(Perceptron([[0.5, -1.5], [2.0, 1.0]]), Levels([-0.5, 0.5, 1.0]))
    >>> fixed.multiples.tolist(), (fixed.columns[:, :2] * fixed.resolution).tolist()
    ([-1, 1, 2], [[0.25, 1.0], [-0.75, 0.5]])
    """

    def __init__(self, problem: Perceptron, levels: Levels, margin: float = 0.0) -> None:
        unit, self.multiples = spacing(np.array(levels.values))
        self.problem, self.n, self.m = problem, problem.n, problem.m
        most, largest, root = int(np.abs(self.multiples).max()), max(map(abs, levels.values)), np.sqrt(problem.n)
        sums = max(float(np.abs(block).sum(axis=1).max()) for _, block in problem.blocks())
        reach = max(sums * largest + (margin + REACH * (problem.intercept or 0.0)) * root, 1e-200)
        slack = self.n * most + 2
        self.bits = int(np.floor(np.log2(((1 << 30) - slack) / reach)))
        self.resolution = 2.0**-self.bits
        self.unit = self.resolution / root
        self.reach = int(reach / self.resolution) + slack
        self.columns = aligned((self.n, real_forms._PAD * -(-self.m // real_forms._PAD)), np.int32)
        for rows, block in problem.blocks():
            self.columns[:, rows] = np.rint(block.T * (unit * 2.0**self.bits))
        least = np.diff(np.sort(self.multiples)).min()
        square = np.square(self.columns, dtype=np.float64).sum() / (self.n * self.m)
        self.step = max(float(least * np.sqrt(square)), 1.0)

    def states_of(self, codes: Array, intercepts: Array, pad: int) -> Array:
        """Return Σ x w + y b for numbers of levels (k, n) and intercepts (k, 0 or 1), exactly, (k, size) int32."""
        states = aligned((len(codes), self.columns.shape[1]), np.int32)
        weights = self.multiples[codes].astype(np.float64)
        for first in range(0, self.m, _BLOCK):  # whole numbers below 2^31, whose sums are exact in double precision
            part = slice(first, first + _BLOCK)
            states[:, part] = weights @ self.columns[:, part]
        if intercepts.shape[1]:
            if np.abs(intercepts).max() > REACH * (self.problem.intercept or 0.0):
                raise ValueError(
                    f"an intercept is more than {REACH:g} widths of its prior from 0; start chains elsewhere."
                )
            states[:, : self.m] += np.rint(intercepts / self.unit).astype(np.int32) * self.problem.signs
        states[:, self.m :] = pad
        return states


class LevelFlips(CpuFlips[real_forms.Forms]):
    """Chains of weights on levels, on patterns of any values (`kernels.level_moves`)."""

    kernel = "levels"

    def __init__(self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> None:
        from solspace.samplers.kernels import level_moves

        self.kernels = level_moves
        prior = problem.target.prior
        self.levels = prior if isinstance(prior, Levels) else Levels((-1.0, 1.0))
        self.fixed = FixedLevels(problem, self.levels, real_forms.reach_of(plan.stages))
        powers = np.ones(1) if problem.sample_weight is None else problem.sample_weight
        self.least = float(powers.min())
        self.power = all(real_forms.is_power(stage) for stage in plan.stages)
        breadth = len(self.potentials(plan.stages[:1]).forms[0])
        super().__init__(problem, plan, key, n_chains, breadth, n_threads)
        size, shift = self.fixed.columns.shape[1], POWERS - int(np.ceil(np.log2(powers.max() / self.least)))
        if shift < 0:
            raise ValueError(
                f"sample_weight spans a factor of {powers.max() / self.least:.3g}; annealing takes 2^{POWERS} at most."
            )
        signs, rounded = aligned(0 if problem.intercept is None else size, np.int32), aligned(0, np.int32)
        if problem.intercept is not None:
            signs[: problem.m] = problem.signs
        if problem.sample_weight is not None:
            rounded = aligned(size, np.int32)
            rounded[: problem.m] = np.rint(powers / self.least * 2.0**shift)
        allowed = self.fixed.met_range(plan.target)
        self.patterns = level_moves.Patterns(self.fixed.columns.reshape(-1), signs, rounded, shift, problem.m, allowed)
        width = float(problem.intercept or 0.0)
        self.prior = level_moves.Prior(
            multiples=self.fixed.multiples,
            values=np.array(self.levels.values),
            logs=self.levels.log_weights,
            width=width,
            unit=self.fixed.unit,
            limit=REACH * width,
            moves=int(np.clip(problem.n // EACH, 1, MOVES)),
        )

    def first_weights(self) -> Array:
        return first_weights(self, self.levels)

    def first_intercepts(self) -> Array:
        found = np.zeros((self.n_chains, 0 if self.problem.intercept is None else 1))
        self.kernels.first_intercepts(self.key, self.prior.width, found.reshape(-1))
        return found

    def place(self, chains: Chains) -> None:
        first, last = self.patterns.allowed
        self.codes = np.searchsorted(self.levels.array, chains.weights).astype(np.uint8)
        pad = first + min(int(self.fixed.step) + 1, (last - first) // 2)
        self.states = self.fixed.states_of(self.codes, chains.intercepts, pad)

    def potentials(self, stages: Sequence[Stage]) -> real_forms.Forms:
        if self.least == 1:
            return real_forms.forms(stages, [self.fixed], self.power).of(0)
        scaled = [replace(stage, temperature=stage.temperature / self.least) for stage in stages]
        found = real_forms.forms(scaled, [self.fixed], self.power).of(0)
        return replace(found, unit=found.unit * self.least)

    def integer_energies(self, stage: Array, potentials: real_forms.Forms) -> Array:
        energy = np.empty(len(stage), np.int64)
        self.kernels.weigh(self.patterns, self._sampled(potentials), stage, self.states, energy)
        return energy

    def walk(self, work: Work[real_forms.Forms], chains: Chains, rows: slice) -> None:
        potentials = self._sampled(work.potentials)
        together = max(1, CACHE // (4 * self.states.shape[1]))
        for first in range(rows.start, rows.stop, together):
            some = slice(first, min(first + together, rows.stop))
            sweeps, given = _numbered(*self._arguments(work, chains, some), self.codes[some])
            shifts = np.empty((*given.draws.shape[:2], chains.intercepts.shape[1]))
            own = self.kernels.Own(_times(chains, some), chains.intercepts[some], shifts)
            self.kernels.run_chains(
                self.patterns, potentials, self.prior, sweeps, given, own, self.states[some], self._halt
            )
            new = _store(chains, some, self.plan.draw_at[work.sweeps], self.levels, given)
            chains.shifts[some, new] = shifts
            self._record(work, chains, some, given.energy)

    def _sampled(self, potentials: real_forms.Forms) -> Any:
        return self.kernels.Potentials(potentials.forms, potentials.marks, potentials.margins, potentials.logarithm)


class StepFlips(IntegerFlips):
    """Chains of weights on equally spaced levels, which go one up or down, on ±1 patterns."""

    def __init__(self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> None:
        prior = problem.target.prior
        assert isinstance(prior, Levels)
        values, self.prior = np.array(prior.values), prior
        lattice = Lattice(problem.n, problem.m, float(values[1] - values[0]), float(np.abs(values).max()))
        super().__init__(problem, plan, key, n_chains, n_threads, lattice)

    def first_weights(self) -> Array:
        return first_weights(self, self.prior)

    def place(self, chains: Chains) -> None:
        lattice, problem = self.lattice, self.problem
        self.codes = np.searchsorted(self.prior.array, chains.weights).astype(np.uint8)
        self.levels = aligned((len(self.codes), 32 * self.blocks), np.uint16)
        halves = np.rint(2 * np.array(self.prior.values) / lattice.step)  # in steps, doubled: whole numbers
        exact = np.float32 if problem.n * np.abs(halves).max() < 1 << 24 else np.float64
        shift, weights = round(2 * problem.n * lattice.most / lattice.step), halves[self.codes].astype(exact)
        # behind the last constraint bits are 0, as those of a pattern of -1
        self.levels[...] = (shift - weights.sum(axis=1, keepdims=True).astype(np.int64)) // 2 + 1 - lattice.base
        for rows, block in problem.blocks(exact):
            self.levels[:, rows] = ((weights @ block.T).astype(np.int64) + shift) // 2 + 1 - lattice.base

    def run(self, chains: Chains, rows: slice, *arguments: Any) -> bool:
        patterns, energies, sweeps, own, *rest = arguments
        sweeps, given = _numbered(sweeps, own, self.codes[rows])
        prior = self.kernels.Prior(np.array(self.prior.values), self.prior.log_weights, _times(chains, rows))
        done = self.kernels.run_chains(patterns, energies, sweeps, given, *rest, prior)
        _store(chains, rows, self.plan.draw_at[sweeps.first : sweeps.first + len(sweeps.orders)], self.prior, given)
        return bool(done)


def level_flips(
    problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None
) -> LevelFlips | StepFlips:
    prior = problem.target.prior
    if isinstance(prior, Levels) and len(prior.values) > 256:
        raise ValueError(f"annealing takes at most 256 levels; got {len(prior.values)}.")
    alone = problem.has_binary_patterns and problem.intercept is None and problem.sample_weight is None
    return (StepFlips if alone and _even(prior) else LevelFlips)(problem, plan, key, n_chains, n_threads)


def _even(prior: Prior) -> bool:
    """Return whether levels are equally spaced, and in half steps from zero: ⟨x, w⟩ then lies on one lattice."""
    if not isinstance(prior, Levels):
        return False
    steps = np.diff(prior.values)
    halves = 2 * np.array(prior.values) / steps[0]
    return bool(np.allclose(steps, steps[0], rtol=1e-9) and np.allclose(halves, np.rint(halves), rtol=0, atol=1e-9))


def first_weights(flips: CpuFlips[Any], levels: Levels) -> Array:
    """Return weights drawn from the prior, clamped ones at their values."""
    from solspace.samplers.kernels.philox import first_levels

    codes = np.empty((flips.n_chains, flips.problem.n), np.uint8)
    shares = levels.probabilities or [1 / len(levels.values)] * len(levels.values)
    first_levels(flips.key, np.cumsum(shares), codes)
    return flips.clamp(levels.array[codes])


def _numbered(sweeps: Sweeps, own: Rows, codes: Array) -> tuple[Sweeps, Rows]:
    """Return sweeps and rows with numbers of levels for weights, and room for the draws of these sweeps alone."""
    drawn = sweeps.draw_at >= 0
    draws = np.empty((len(codes), int(drawn.sum()), codes.shape[1]), np.uint8)
    return sweeps._replace(draw_at=np.where(drawn, np.cumsum(drawn) - 1, -1)), own._replace(weights=codes, draws=draws)


def _store(chains: Chains, rows: slice, draw_at: Array, levels: Levels, given: Rows) -> Array:
    """Write weights and draws of numbered rows to the chains; return the numbers of these draws."""
    new = draw_at[draw_at >= 0]
    chains.weights[rows], chains.draws[rows, new] = levels.array[given.weights], levels.array[given.draws]
    return new


def _times(chains: Chains, rows: slice) -> Array:
    return np.zeros(rows.stop - rows.start) if chains.time is None else chains.time[rows]
