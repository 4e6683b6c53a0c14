"""The loop of stochastic localization: steps, exits, the record of what happened at each step, and the samples.

Time runs separately for every sample. At each exit time samples leave with weights drawn in their field, if single flips mix
there (`finish`); the others go on to the next exit. All leave at the last.
"""

from __future__ import annotations

import time as clocks
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from enum import Enum
from typing import ClassVar

import numpy as np

from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.device import device_errors, fetched, sent
from solspace.samplers.localization.finish import Bath, leave
from solspace.samplers.localization.steps import Denoiser, GpuNoise, Noise, Pace, integrate
from solspace.samplers.marginals.messages import Effort
from solspace.samples import Samples
from solspace.system.plain import Values
from solspace.system.progress import progress as progress_bar

# Instability beyond which message passing cannot have been near its fixed point, whatever its residual: that takes one below 1,
# and near the threshold samples that are fair meet up to 4.
UNSTABLE = 10.0
NEAR, FAR = 0.7, 0.5  # instability at which a sample goes on carefully, and at which a critical one goes fast again


class SampleStatus(Enum):
    """How a sample ended; the value is the text of `LocalizationInfo.status`."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    UNSTABLE = "localized, but message passing was unstable (λ far above 1) at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"


@dataclass(frozen=True)
class Settings:
    """The choices of a run, as `LocalizationInfo` records them."""

    device: str
    denoiser: str
    reason: str
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    finish: int


@dataclass(frozen=True)
class Plan:
    """A localization of `k` samples of each of some problems of one shape and target."""

    problems: Sequence[Perceptron]
    seeds: Sequence[np.random.SeedSequence]
    k: int
    settings: Settings
    pace: Pace
    slower: Pace | None  # of samples that near instability
    times: Array | None  # grid of times for all samples; if None, each goes at its own pace
    exits: Sequence[float]
    denoiser: Denoiser
    noise: Noise | GpuNoise
    bath: Bath | None  # if None, samples are the signs of their means, or the means on the sphere


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
        self.rows: dict[str, list[Array]] = {name: [] for name in self.TYPES}
        self.means = means

    def add(self, **values: Array) -> None:
        """Append a row."""
        for name, dtype in self.TYPES.items():
            self.rows[name].append(np.array(values[name], dtype))

    def __len__(self) -> int:
        return len(self.rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in self.TYPES:
            return np.array(self.rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        """Return the record as arrays (steps, k) by name."""
        return {name: np.array(rows) for name, rows in self.rows.items()}


class Clock:
    """The times of `k` samples on their way to `final`, the next exit."""

    STATE = ("time", "taken", "step", "longest", "careful", "slow")

    def __init__(self, k: int, plan: Plan) -> None:
        self.final, self.times, self.pace, self.slower = plan.exits[-1], plan.times, plan.pace, plan.slower
        self.time, self.taken = np.zeros(k), np.zeros(k, int)
        self.step, self.longest = np.full(k, self.pace.step), np.full(k, self.pace.longest)
        self.careful, self.slow = np.zeros(k, bool), np.zeros(k, bool)

    @property
    def running(self) -> Array:
        """(k,) True for samples that have not arrived."""
        return self.time < self.final

    def next_steps(self, instability: Array) -> Array:
        """Return the lengths of the next steps (k,), 0 for samples that have arrived."""
        if self.times is not None:
            here = np.minimum(self.taken, len(self.times) - 2)
            return np.where(self.running, self.times[here + 1] - self.times[here], 0.0)
        steps = np.minimum(self.step * (1 + self.time), self.longest) * self.pace.step_factor(instability)
        left = self.final - self.time
        # A last step much shorter than the others would cost as much as they do.
        return np.where(left < 1.2 * steps, left, steps) * self.running

    def advance(self, steps: Array) -> None:
        """Move the running samples by `steps` (k,)."""
        self.taken += steps > 0
        after = self.times[np.minimum(self.taken, len(self.times) - 1)] if self.times is not None else self.time + steps
        self.time[...] = np.where(steps > 0, np.where(after > self.final * (1 - 1e-12), self.final, after), self.time)

    def change_pace(self, instability: Array) -> list[tuple[Pace, Array]]:
        """Return which samples (k,) continue at which other pace: carefully near instability, fast again far from it."""
        if self.slower is None:
            return []
        near = ~self.slow & self.running & (instability > NEAR)
        far = self.slow & self.running & (instability < FAR) & self.pace.critical
        self.careful |= near
        changes = [(self.slower, near), (self.pace, far)]
        for pace, lanes in changes:
            self.step[lanes], self.longest[lanes], self.slow[lanes] = pace.step, pace.longest, pace is self.slower
        return changes


class Loop:
    """All samples of a plan on their way from t = 0 until each has left.

    Where message passing diverged a sample stays where it is, and may leave all the same if the denoiser is `robust`: its
    field is correct up to there.
    """

    STATE = ("diverged", "left", "weights", "turn")

    def __init__(self, plan: Plan) -> None:
        self.plan, self.denoiser = plan, plan.denoiser
        k = plan.denoiser.samples.k
        self.clock = Clock(k, plan)
        self.turn = np.array(0)  # exits that have passed
        self.diverged, self.left = np.zeros(k, bool), np.zeros(k, bool)
        self.weights = np.zeros((k, plan.problems[0].n), np.int8)  # of the samples that have left
        self.record = Record(means=plan.denoiser.samples.means)

    @property
    def active(self) -> Array:
        """(k,) True for samples that are still on their way to the next exit."""
        return self.clock.running & ~self.diverged & ~self.left

    def run(
        self, store: Checkpoint | None, callback: Callable[[Record], object] | None, progress: bool | None
    ) -> list[Samples]:
        """Localize, from the checkpoint if there is one; return the samples of each problem."""
        began = clocks.perf_counter()
        errors = device_errors() if self.plan.settings.device == "gpu" else nullcontext()
        with np.errstate(all="ignore"), errors:
            state = store.load() if store is not None else None
            if state is not None:
                self._restore(state)
            with progress_bar(1.0, "localizing", progress) as bar:
                for exit_time in self.plan.exits[int(self.turn) :]:
                    self.clock.final = exit_time
                    while self.active.any() or not len(self.record):
                        self._step()
                        path = np.log1p(self.clock.time) / np.log1p(self.plan.exits[-1])
                        done = float(np.mean(np.where(self.diverged | self.left, 1.0, path)))
                        bar.advance(done - bar.done, f"|m|²/n = {np.nanmean(self.record.rows['overlap'][-1]):.4f}")
                        if store is not None:
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
        noise = self.plan.noise.draw(lanes, self.clock.taken)
        effort = integrate(self.plan.settings.integrator, self.denoiser, self.clock.time, steps, noise, lanes)
        self.clock.advance(steps)
        self._note(effort, active)

    def _note(self, effort: Effort, active: Array) -> None:
        """Add a row to the record; change the pace of the samples whose instability demands it."""
        instability = self.denoiser.instability
        self.diverged |= effort.diverged
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
        if self.plan.bath is not None and len(lanes):
            last = turn == len(self.plan.exits) - 1
            gone, fair, weights = leave(self.plan.bath, self.denoiser, lanes, turn, last, self.clock.careful)
            out = lanes[gone]
            self.weights[out], self.left[out] = weights, True
            self.diverged[lanes[gone & fair]] = False
        self.turn += 1

    def decoded(self) -> Array:
        """Return the weights (k, n) with which samples left, or nearest to their means."""
        if self.left.all():
            return self.weights

        def random(lane: int) -> Array:
            problem, j = divmod(lane, self.plan.k)
            return generator(self.plan.seeds[problem], j, 1).standard_normal(self.weights.shape[1])

        decoded = self.denoiser.decoded(self.plan.problems[0].target.prior, random)
        decoded[self.left] = self.weights[self.left]
        return decoded

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

    def _arrays(self) -> dict[str, Array]:
        """Return the arrays themselves that the rest of the run depends on, wherever they are."""
        own = {name: getattr(self, name) for name in self.STATE}
        return {**own, **{name: getattr(self.clock, name) for name in Clock.STATE}, **self.denoiser.state()}

    def state(self) -> dict[str, Array]:
        """Return arrays on the host from which the run can be continued."""
        record = {f"path_{name}": values for name, values in self.record.arrays().items()}
        arrays = self._arrays().items()
        return {name: part if isinstance(part, np.ndarray) else fetched(part) for name, part in arrays} | record

    def _restore(self, state: dict[str, Array]) -> None:
        for name, part in self._arrays().items():
            part[...] = state[name] if isinstance(part, np.ndarray) else sent(state[name])
        self.record.rows = {name: list(state[f"path_{name}"]) for name in Record.TYPES}


def unstable(instability: Array) -> Array:
    """Return which samples (k,) met an instability (steps, k) at which message passing cannot be trusted."""
    return np.asarray((instability > UNSTABLE).any(axis=0))


def _statuses(samples: Samples, record: Values, diverged: Array) -> list[str]:
    missed = ~samples.solved if samples.target.potential.hard else np.zeros(len(diverged), bool)
    conditions = [diverged, missed, unstable(record["instability"]), record["converged"].all(axis=0)]
    choices = [SampleStatus.DIVERGED, SampleStatus.MISSED, SampleStatus.UNSTABLE, SampleStatus.FAIR]
    words: list[str] = np.select(conditions, [own.value for own in choices], SampleStatus.DOUBTFUL.value).tolist()
    return words
