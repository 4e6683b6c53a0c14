"""The loop of stochastic localization: steps, exits, the record of what happened at each step, and the samples."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict
from enum import Enum
from typing import ClassVar

import numpy as np

from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.device import answering
from solspace.samplers.localization.finish import leave
from solspace.samplers.localization.plan import Plan
from solspace.samplers.localization.steps import INTEGRATORS, Clock
from solspace.samplers.marginals.relaxation import Effort
from solspace.samples import Samples
from solspace.system.plain import Values
from solspace.system.progress import progress as progress_bar

UNSTABLE = 10.0
"""Instability beyond which message passing cannot have been near its fixed point, whatever its residual: that takes one below
1, and near the threshold samples that are fair meet up to 4."""


class SampleStatus(Enum):
    """How a sample came about; the value states it."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    SHAKEN = "localized, but message passing was unstable (λ far above 1) at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"

    def __str__(self) -> str:
        return self.value


class Record:
    """Rows of (k,) values, one row a step: time, overlap |m|²/n, iterations, whether they converged, instability λ.

    Rows of a sample that has arrived (or diverged) hold NaN, 0 iterations and True. `means()` returns the posterior means
    (k, n) of the samples at present.

    >>> record = Record(means=lambda: np.zeros((2, 5)))
    >>> record.add(t=np.zeros(2), overlap=np.zeros(2), iterations=np.ones(2, int), converged=np.ones(2, bool),
    ...            instability=np.zeros(2))
    >>> len(record), record.t.shape
    (1, (1, 2))
    """

    TYPES: ClassVar = {"t": float, "overlap": float, "iterations": int, "converged": bool, "instability": float}

    def __init__(self, means: Callable[[], Array]) -> None:
        self._rows: dict[str, list[Array]] = {name: [] for name in self.TYPES}
        self.means = means

    def add(self, **values: Array) -> None:
        """Append a row."""
        for name, dtype in self.TYPES.items():
            self._rows[name].append(np.array(values[name], dtype))

    def __len__(self) -> int:
        return len(self._rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in self.TYPES:
            return np.array(self._rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        """Return the record as arrays (steps, k) by name."""
        return {name: np.array(rows) for name, rows in self._rows.items()}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take over what `arrays` returned."""
        self._rows = {name: list(arrays[name]) for name in self.TYPES}


class Loop:
    """All samples of a plan on their way from t = 0 until each has left.

    At each of the plan's exits samples leave with weights drawn in their field, if flips mix there; the others go on to
    the next. Where message passing diverged a sample stays where it is, and may leave all the same if the denoiser is
    `robust`: its field was sound up to there.
    """

    OWN = ("diverged", "left", "weights", "turn")

    def __init__(self, plan: Plan) -> None:
        self.plan, self.denoiser = plan, plan.denoiser()
        samples = self.denoiser.samples
        self.noise, self.bath = plan.noise(self.denoiser), plan.bath(self.denoiser)
        self.advance = INTEGRATORS[plan.settings.integrator]
        self.clock = Clock(samples.k, plan.exits[-1], plan.config.times, plan.pace, plan.slower)
        self.turn = np.array(0)
        """How many exits have passed."""
        self.diverged, self.left = np.zeros(samples.k, bool), np.zeros(samples.k, bool)
        self.weights = np.zeros((samples.k, plan.problems[0].n), np.int8)
        """Of the samples that have left."""
        self.record = Record(means=samples.means)

    @property
    def active(self) -> Array:
        """(k,) True for samples that are still on their way to the next exit."""
        return self.clock.running & ~self.diverged & ~self.left

    def run(self, store: Checkpoint, callback: Callable[[Record], object] | None, show: bool | None) -> list[Samples]:
        """Localize, from the checkpoint if there is one; return the samples of each problem."""
        began = clocks.perf_counter()
        errors = answering() if self.plan.settings.device == "gpu" else nullcontext()
        with np.errstate(all="ignore"), errors:
            self._load(store.load())
            with progress_bar(1.0, "localizing", show) as bar:
                for exit_time in self.plan.exits[int(self.turn) :]:
                    self.clock.final = exit_time
                    while self.active.any() or not len(self.record):
                        self._step()
                        bar.advance(self._progress() - bar.done, f"|m|²/n = {np.nanmean(self.record.overlap[-1]):.4f}")
                        store.maybe_save(self.state)
                        if callback is not None:
                            callback(self.record)
                    self._leave()
        return self._samples(began)

    def _step(self) -> None:
        if not len(self.record):
            self._note(self.denoiser.start(), np.ones(len(self.left), bool))
            return
        active = self.active
        steps = np.where(active, self.clock.next_steps(self.denoiser.instability), 0.0)
        lanes = np.flatnonzero(active)
        noise = self.noise.draw(lanes, self.clock.taken)
        effort = self.advance(self.denoiser, self.clock.time, steps, noise, lanes)
        self.clock.advance(steps)
        self._note(effort, active)

    def _note(self, effort: Effort, active: Array) -> None:
        """Add a row to the record; change the pace of the samples whose instability demands it."""
        instability = self.denoiser.instability
        self.diverged |= effort.blown
        self.record.add(
            t=np.where(active, self.clock.time, np.nan),
            overlap=np.where(active, self.denoiser.samples.overlaps(), np.nan),
            iterations=effort.iterations,
            converged=np.where(active, effort.converged, True),
            instability=np.where(active, instability, np.nan),
        )
        for pace, lanes in self.clock.change_pace(instability):
            self.denoiser.adopt(pace, lanes)

    def _leave(self) -> None:
        turn, lanes = int(self.turn), np.flatnonzero(~self.left & (~self.diverged | self.denoiser.robust))
        if self.bath is not None and len(lanes):
            last = turn == len(self.plan.exits) - 1
            gone, fair, weights = leave(self.bath, self.denoiser, lanes, turn, last, self.clock.careful)
            out = lanes[gone]
            self.weights[out], self.left[out] = weights, True
            self.diverged[lanes[gone & fair]] = False
        self.turn += 1

    def decoded(self) -> Array:
        """Return the weights (k, n) with which samples left, or that their means stand for."""
        if self.left.all():
            return self.weights
        decoded = self.denoiser.decoded(self.plan.problems[0].target.prior, self._direction)
        decoded[self.left] = self.weights[self.left]
        return decoded

    def _direction(self, lane: int) -> Array:
        problem, j = divmod(lane, self.plan.k)
        return generator(self.plan.seeds[problem], j, 1).standard_normal(self.weights.shape[1])

    def _progress(self) -> float:
        gone = np.log1p(self.clock.time) / np.log1p(self.plan.exits[-1])
        return float(np.mean(np.where(self.diverged | self.left, 1.0, gone)))

    def _samples(self, began: float) -> list[Samples]:
        plan, path, weights = self.plan, self.record.arrays(), self.decoded()
        stabilities = self.denoiser.samples.stabilities(weights) if weights.dtype == np.int8 else None
        results = []
        for i, problem in enumerate(plan.problems):
            rows = slice(i * plan.k, (i + 1) * plan.k)
            samples = Samples.of(problem, weights[rows], None, None if stabilities is None else stabilities[rows])
            record: Values = {name: values[:, rows] for name, values in path.items()}
            samples.info = LocalizationInfo(
                sampler="asl",
                seed=str(plan.seeds[i].entropy),
                wall_time=clocks.perf_counter() - began,
                **asdict(plan.settings),
                **record,
                damping=self.denoiser.damping[rows].copy(),
                careful=self.clock.careful[rows].copy(),
                left=np.where(self.left, self.clock.time, np.nan)[rows],
                status=_statuses(samples, record, self.diverged[rows]),
            )
            results.append(samples)
        return results

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on, on the host."""
        record = {f"path_{name}": values for name, values in self.record.arrays().items()}
        own = {name: getattr(self, name) for name in self.OWN}
        clock = {name: getattr(self.clock, name) for name in Clock.STATE}
        return {**own, **clock, **self.denoiser.state(), **record}

    def _load(self, state: dict[str, Array] | None) -> None:
        if state is None:
            return
        for name in self.OWN:
            getattr(self, name)[...] = state[name]
        for name in Clock.STATE:
            setattr(self.clock, name, state[name])
        self.denoiser.load(state)
        self.record.load({name[5:]: value for name, value in state.items() if name.startswith("path_")})


def unstable(instability: Array) -> Array:
    """Return which samples (k,) met an instability (steps, k) at which message passing cannot be trusted."""
    return np.asarray((instability > UNSTABLE).any(axis=0))


def _statuses(samples: Samples, record: Values, diverged: Array) -> list[str]:
    missed = ~samples.solved if samples.target.potential.hard else np.zeros(len(diverged), bool)
    conditions = [diverged, missed, unstable(record["instability"]), record["converged"].all(axis=0)]
    choices = [SampleStatus.DIVERGED, SampleStatus.MISSED, SampleStatus.SHAKEN, SampleStatus.FAIR]
    return [
        str(next((status for status, holds in zip(choices, own) if holds), SampleStatus.DOUBTFUL))
        for own in zip(*conditions)
    ]
