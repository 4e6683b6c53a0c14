"""Stochastic localization on a CUDA device: `samplers.localize` with the fields, the means, AMP and noise on the device.

The host keeps each sample's clock and damping, and looks at the device every few iterations to see how many columns
still move; columns that have come to rest are left behind once they are many. Noise comes from the same streams as
without a device (`gpu_noise`): one seed means one path of noise everywhere, and samples agree with those of the
processor to single precision. Several problems of one shape share all launches: sample j of problem i is column
i k + j.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure.priors import Binary
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.denoisers import Denoiser
from solspace.samplers.gpu_iteration import BLOWN, CONVERGED, MOVING, Iteration
from solspace.samplers.gpu_messages import GpuMessages
from solspace.samplers.gpu_noise import GpuNoise
from solspace.samplers.integrators import Integrator
from solspace.samplers.pace import Clock, Pace
from solspace.samplers.path import Path
from solspace.samplers.relaxation import Effort, climb, settle
from solspace.samplers.walk import Walk

Array = NDArray[Any]
BURST = 2
"""Iterations between two looks at the device."""
_LEAST = 8
"""Columns to a problem in the smallest iteration."""


class GpuMessagePassing(Denoiser):
    """AMP on a device with warm starts: every call begins where the last one ended; damping climbs as on the CPU."""

    STATE = ("damping", "patience", "tolerance", "limit")

    def __init__(self, problems: Sequence[Perceptron], k: int, automatic: bool, pace: Pace) -> None:
        self.messages, self.automatic = GpuMessages(problems, k), automatic
        self.mean, self.each = self.messages.mean, k
        self.k = width = self.messages.width
        self.damping, self.patience = np.full(width, float(pace.damping)), np.ones(width)
        self.tolerance, self.limit = np.full(width, pace.tolerance), np.full(width, pace.limit)
        self.iterations: dict[tuple[int, int], Iteration] = {}
        self.kept: list[Any] = []

    @property
    def instability(self) -> Array:  # type: ignore[override]
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instability.get().astype(float)

    def widen(self, values: Array) -> Any:
        """Return `values` (k,) on the device, as (problems, 1, k)."""
        columns = np.asarray(values, np.float32).reshape(-1, 1, self.each)
        return self.messages.cupy.asarray(columns)

    def spread(self) -> Any:
        """Return the variances of the weights, for each or for all of a sample."""
        if isinstance(self.messages.target.prior, Binary):
            return self.messages.cupy.maximum(1 - self.mean * self.mean, 0)
        return self.messages.spread.reshape(-1, 1, self.each)

    def start(self, field: Any) -> Effort:
        """Relax one sample of each problem at zero field, to a tighter tolerance, and give its messages to the others."""
        first = np.arange(0, self.k, self.each)
        effort = self._relax(first, 1e-3 * self.tolerance, 10 * self.limit)
        for part in map(self.messages.by_problem, self.messages.state()):
            part[...] = part[..., :1].copy()
        everyone = np.repeat(first, self.each)
        self.damping[...], self.patience[...] = self.damping[everyone], self.patience[everyone]
        return effort.of(everyone)

    def relax(self, field: Any, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence at `field`, which is the messages' own; the norm of the weights takes care of time."""
        return self._relax(np.asarray(lanes), self.tolerance, self.limit)

    def _relax(self, lanes: Array, tolerance: Array, limit: Array) -> Effort:
        effort = Effort.none(self.k)
        effort.converged[lanes] = False
        self._keep()
        limit = limit * self.patience
        todo = lanes
        while len(todo):
            blown = self._iterate(todo, tolerance, limit, effort)
            if not len(blown):
                break
            self._restore(blown)
            todo = climb(self.damping, blown, self.automatic, effort)
        settle(self.damping, self.patience, lanes, self.automatic, effort)
        return effort

    def _keep(self) -> None:
        """Remember where the call found the messages."""
        if not self.kept:
            self.kept = [part.copy() for part in self.messages.state()]
            return
        for kept, current in zip(self.kept, self.messages.state()):
            kept[...] = current

    def _restore(self, lanes: Array) -> None:
        """Put the columns `lanes` back to where the call found them."""
        back = np.zeros(self.k, bool)
        back[lanes] = True
        where = self.messages.cupy.asarray(back.reshape(-1, self.each))
        for kept, current in zip(self.kept, self.messages.state()):
            own, old = self.messages.by_problem(current), self.messages.by_problem(kept)
            chosen = where if own.ndim == 2 else where[:, None, :]
            own[...] = self.messages.cupy.where(chosen, old, own)

    def _iterate(self, todo: Array, tolerance: Array, limit: Array, effort: Effort) -> Array:
        """Iterate until each of `todo` converges, blows up or reaches its limit; return those that blew up."""
        blown: list[int] = []
        count, best = np.zeros(self.k, int), np.full(self.k, np.inf)
        cap = limit * np.maximum(1, 0.7 / (1 - self.damping))
        numbers = (tolerance, self.damping, cap, self.patience == 1)
        while len(todo):
            going, lanes = self._arranged(todo)
            own = np.maximum(lanes, 0)
            going.begin(lanes, *(values[own] for values in (*numbers, count, best)))
            few = 0 if going.width <= 4 * _LEAST else len(todo) // 4
            moving = len(todo)
            while moving > few:
                for _ in range(BURST):
                    going.step()
                moving = going.moving()
            there = lanes >= 0
            lanes = lanes[there]
            made, outcome, lowest, residual = (part[there] for part in going.end())
            effort.iterations[lanes] += made - count[lanes]
            effort.residual[lanes] = residual
            effort.converged[lanes[outcome == CONVERGED]] = True
            blown += list(lanes[outcome == BLOWN])
            count[lanes], best[lanes] = made, lowest
            todo = lanes[outcome == MOVING]
        return np.array(blown, int)

    def _arranged(self, lanes: Array) -> tuple[Iteration, Array]:
        """Return an iteration that holds the columns `lanes`, and which of its columns holds which (-1: none)."""
        messages, number = self.messages, len(self.messages.patterns)
        owner = lanes // self.each
        counts = np.bincount(owner, minlength=number)
        k = min(self.each, max(_LEAST, _power_above(int(counts.max()))))
        problems = np.flatnonzero(counts)
        few = _power_above(len(problems))
        if 2 * few > number:
            problems, few = np.arange(number), number
        if 2 * few * k > self.k:
            layout = np.full(self.k, -1)
            layout[lanes] = lanes
            return self._iteration(number, self.each), layout
        problems = np.append(problems, np.full(few - len(problems), problems[0]))
        going = self._iteration(few, k)
        if few < number:
            going.patterns.matrix = messages.patterns.matrix[messages.cupy.asarray(problems)]
        layout = np.full((few, k), -1)
        for place, problem in enumerate(problems[: len(np.unique(problems))]):
            mine = lanes[owner == problem]
            layout[place, : len(mine)] = mine
        return going, layout.ravel()

    def _iteration(self, number: int, k: int) -> Iteration:
        if (number, k) not in self.iterations:
            patterns = self.messages.patterns
            patterns = patterns if number == len(patterns) else patterns.of(np.arange(number))
            self.iterations[number, k] = Iteration(self.messages, patterns, k)
        return self.iterations[number, k]

    def slow_down(self, lanes: Array, pace: Pace | None) -> None:
        """Take up the tolerance, the limit and at least the damping of `pace`."""
        if pace is not None:
            self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
            self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return the messages and their damping, on the host."""
        arrays = {f"messages_{i}": part.get() for i, part in enumerate(self.messages.state())}
        return {**arrays, **{name: getattr(self, name) for name in self.STATE}}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for i, part in enumerate(self.messages.state()):
            part[...] = self.messages.cupy.asarray(state[f"messages_{i}"])
        for name in self.STATE:
            getattr(self, name)[...] = state[name]


def _power_above(count: int) -> int:
    """Return the power of two at or above `count`."""
    return 1 << max(0, count - 1).bit_length()


class GpuWalk(Walk):
    """The walk of `samplers.walk` for all samples of some problems of one shape, on the device."""

    denoiser: GpuMessagePassing
    field: Any

    def __init__(
        self,
        problems: Sequence[Perceptron],
        clock: Clock,
        denoiser: GpuMessagePassing,
        advance: Integrator,
        seeds: Sequence[np.random.SeedSequence],
    ) -> None:
        self.problem, self.clock, self.denoiser, self.advance = problems[0], clock, denoiser, advance
        self.problems, self.all_seeds, self.seeds = problems, seeds, seeds[0]
        self.field = denoiser.messages.field
        self.noise: Any = GpuNoise(seeds, self.problem.n, denoiser.each)
        self.diverged = np.zeros(denoiser.k, bool)
        self.path = Path()
        self.path.means = self.means

    def _overlap(self) -> Array:
        squares = (self.denoiser.mean * self.denoiser.mean).sum(axis=1)
        return squares.get().astype(float).ravel() / self.problem.n

    def means(self) -> Array:
        """Return the means (k, n) in double precision; a random direction where a sample has none."""
        device, mean = self.denoiser.messages.cupy, self.denoiser.mean
        means = device.ascontiguousarray(mean.transpose(0, 2, 1)).get().reshape(self.denoiser.k, -1).astype(float)
        for j in self._lost():
            means[j] = self._direction(j)
        return means

    def _lost(self) -> Array:
        """Return the samples without a direction."""
        mean = self.denoiser.mean
        there = (mean - mean == 0).all(axis=1) & (mean != 0).any(axis=1)
        return np.flatnonzero(~there.get().ravel())

    def _direction(self, column: int) -> Array:
        problem, j = divmod(int(column), self.denoiser.each)
        return generator(self.all_seeds[problem], j, 1).standard_normal(self.problem.n)

    def decoded(self) -> tuple[Array, Array | None]:
        """Return the weights (k, n) and, where the device can compute them exactly, their stabilities (k, m)."""
        if not isinstance(self.problem.target.prior, Binary):
            return self.problem.target.prior.decode(self.means()), None
        device, mean = self.denoiser.messages.cupy, self.denoiser.mean
        signs = (2 * (mean >= 0) - 1).astype(np.int8)
        for j in self._lost():
            problem, column = divmod(int(j), self.denoiser.each)
            signs[problem, :, column] = device.asarray(np.where(self._direction(j) >= 0, 1, -1).astype(np.int8))
        stabilities = self.denoiser.messages.patterns.stabilities(signs)
        weights = device.ascontiguousarray(signs.transpose(0, 2, 1)).get().reshape(self.denoiser.k, -1)
        return weights, None if stabilities is None else stabilities.reshape(self.denoiser.k, -1)

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on, on the host."""
        return {**super().state(), "field": self.field.get()}

    def _load(self, state: dict[str, Array]) -> None:
        given = {**state, "field": self.denoiser.messages.cupy.asarray(state["field"])}
        super()._load(given)
