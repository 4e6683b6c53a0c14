"""Real weights on the processor: slice-sampled rotations on the sphere, or of independent Gaussian weights (`kernels.rotations`).

Every move is exact at every stage, so there is no rule of acceptance: the recorded acceptance is the share of the angles tried
that were taken. An intercept is one more Gaussian weight, whose column holds the labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.measure import Target
from solspace.measure.priors import Gaussian, Spherical
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import CACHE, CpuFlips, Work
from solspace.samplers.annealing.schedules import Stage, heats
from solspace.samplers.constraints import Allowed

REACH = 12.0  # widths 1/√t of the law in a field that a pair on the sphere may move at once
TRIES = 4.0  # evaluations of a column in a sweep, about, for each weight and constraint


def is_real(target: Target) -> bool:
    """Return whether the weights are real numbers."""
    return isinstance(target.prior, (Spherical, Gaussian))


@dataclass(frozen=True)
class Laid:
    """The log weights of stages as the kernel takes them."""

    forms: Any  # `densities.Forms` of the stages, distances from what each allows, and the distance from what the target allows
    kt: Array  # (stages,) 0 at T = 0
    heat: Array  # (stages,) what -log weight is multiplied with to make U


class Rotations(CpuFlips[Any]):
    """Chains of real weights, on patterns of any values."""

    kernel = "slice"

    def __init__(
        self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None, every: int = 1
    ) -> None:
        from solspace.samplers.kernels import densities, rotations

        self.kernels, self.densities, self.every = rotations, densities, every
        prior = problem.target.prior
        self.sphere = problem.n if isinstance(prior, Spherical) else 0
        if self.sphere == 1:
            raise ValueError("a single weight on the sphere cannot be turned; chains need n >= 2.")
        super().__init__(problem, plan, key, n_chains, len(densities.forms(plan.stages[:1]).cells), n_threads)
        self.pace /= TRIES
        self.columns = np.ascontiguousarray(problem.patterns.T)
        self.variance = np.full(problem.n, getattr(prior, "variance", 1.0))
        if problem.intercept is not None:
            row = np.sqrt(problem.n) * problem.signs[None]
            self.columns = np.concatenate([self.columns, row.astype(np.result_type(self.columns.dtype, np.float32))])
            self.variance = np.append(self.variance, problem.intercept**2)
        self.powers = np.empty(0) if problem.sample_weight is None else problem.sample_weight
        target = plan.target
        self.met = Stage(Allowed(target.potential), 1.0, target.margin)

    def first_weights(self) -> Array:
        weights = np.empty((self.n_chains, self.problem.n))
        self.kernels.first_weights(self.key, np.arange(self.n_chains), weights)
        weights *= np.sqrt(self.variance[: self.problem.n])
        return self.problem.target.prior.decode(self.clamp(weights))

    def first_intercepts(self) -> Array:
        return np.zeros((self.n_chains, 0 if self.problem.intercept is None else 1))

    def place(self, chains: Chains) -> None:
        self.states = np.empty((len(chains.weights), self.problem.m))
        for state, weights in zip(self.states, self._together(chains, slice(None))):
            self.kernels.find_states(self.columns, 1 / np.sqrt(self.problem.n), weights, state)

    def prepare(self, sweeps: slice) -> Work[Any]:
        work = super().prepare(sweeps)
        if self.problem.intercept is None:
            return work
        last = np.full((len(work.orders), 1), self.problem.n, np.int32)
        return Work(work.sweeps, work.potentials, np.concatenate([work.orders, last], axis=1))

    def potentials(self, stages: Sequence[Stage]) -> Laid:
        thermal, heat = heats(stages)
        forms = self.densities.forms(stages, [*stages, self.met])
        return Laid(forms, thermal.astype(float), heat)

    def energies_at(self, stage: Array, prepared: Work[Any]) -> tuple[Array, Array]:
        energy = np.empty(len(stage))
        self.kernels.weigh(self._sampled(prepared.potentials), stage, self.states, energy)
        return energy, energy * prepared.potentials.heat[stage]

    def walk(self, work: Work[Any], chains: Chains, rows: slice) -> None:
        together = max(1, CACHE // (16 * self.problem.m))
        for first in range(rows.start, rows.stop, together):
            self._walk(work, chains, slice(first, min(first + together, rows.stop)))

    def _walk(self, work: Work[Any], chains: Chains, rows: slice) -> None:
        sweeps, own = self._arguments(work, chains, rows)
        weights, draws = self._together(chains, rows), own.draws
        if self.problem.intercept is not None:
            draws = np.empty((*draws.shape[:2], len(self.columns)))
        own = own._replace(weights=weights, draws=draws, energy=np.full(own.energy.shape, np.nan))
        sampled, prior = self._sampled(work.potentials), self._prior(chains, rows)
        self.kernels.run_chains(sampled, prior, sweeps, own, self.states[rows], self._halt)
        chains.energy[rows, chains.recorded(work.sweeps)] = own.energy
        if self.problem.intercept is not None:
            chains.weights[rows], chains.intercepts[rows] = weights[:, :-1], weights[:, -1:]
            made = self.plan.draw_at[work.sweeps]
            made = made[made >= 0]
            chains.draws[rows, made], chains.shifts[rows, made] = draws[:, made, :-1], draws[:, made, -1:]

    def _together(self, chains: Chains, rows: slice) -> Array:
        """Return the weights of some chains, an intercept behind them; without one the array itself."""
        if self.problem.intercept is None:
            return chains.weights[rows]
        return np.concatenate([chains.weights[rows], chains.intercepts[rows]], axis=1)

    def _prior(self, chains: Chains, rows: slice) -> Any:
        """Return the law of some chains' weights, given the field."""
        time = np.zeros(len(chains.weights[rows])) if chains.time is None else chains.time[rows]
        with np.errstate(divide="ignore"):
            reach = REACH / np.sqrt(time)
        if self.sphere and self.problem.intercept is None:
            return self.kernels.Prior(self.sphere, reach, np.empty((0, 0)), np.empty((0, 0)))
        variance = 1 / (1 / self.variance + time[:, None])
        mean = np.zeros(variance.shape)
        if chains.field is not None:
            mean[:, : chains.field.shape[1]] = chains.field[rows]
        return self.kernels.Prior(self.sphere, reach, variance * mean, np.sqrt(variance))

    def _sampled(self, laid: Laid) -> Any:
        scale = 1 / np.sqrt(self.problem.n)
        return self.kernels.Problem(self.columns, scale, self.powers, laid.forms, laid.heat, self.every)
