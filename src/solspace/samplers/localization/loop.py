"""The loop of stochastic localization: steps, the record of what happened at each, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from solspace.measure.priors import Prior
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.localization.denoisers import Denoiser
from solspace.samplers.localization.integrators import Integrator
from solspace.samplers.localization.noise import GpuNoise, Noise
from solspace.samplers.localization.pace import Clock
from solspace.samplers.marginals.relaxation import Effort
from solspace.system.progress import progress as progress_bar

Leave = Callable[[int, Array], tuple[Array, Array, Array]]
"""(turn, lanes) -> which of the samples leave, whose draw is a fair one, (len(lanes),) each, and the weights of those gone."""


class Record:
    """Rows of (k,) values, one row a step: time, overlap |m|²/n, AMP iterations, whether they converged, λ.

    Rows of a sample that has arrived (or diverged) hold NaN, 0 iterations and True. `means()` returns where the samples
    stand now: their posterior means (k, n).

    >>> record = Record(means=lambda: np.zeros((2, 5)))
    >>> record.add(t=np.zeros(2), overlap=np.zeros(2), iterations=np.ones(2, int), converged=np.ones(2, bool),
    ...            instability=np.zeros(2))
    >>> len(record), record.t.shape
    (1, (1, 2))
    """

    TYPES: ClassVar = {"t": float, "overlap": float, "iterations": int, "converged": bool, "instability": float}
    """What is recorded, and the types of its values."""

    def __init__(self, means: Callable[[], Array]) -> None:
        self._rows: dict[str, list[Array]] = {name: [] for name in self.TYPES}
        self.means = means

    def add(self, **values: Array) -> None:
        """Append a row."""
        for name in self.TYPES:
            self._rows[name].append(np.array(values[name], self.TYPES[name]))

    def __len__(self) -> int:
        return len(self._rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in self.TYPES:
            return np.array(self._rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        """Return the record as arrays (steps, k) by name."""
        return {name: getattr(self, name) for name in self.TYPES}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take up what `arrays` returned."""
        self._rows = {name: list(arrays[name]) for name in self.TYPES}


class Loop:
    """All samples on their way from t = 0 to the final time, and the record of it.

    `seeds` holds one seed for each problem, `noise` the streams of all samples. At each of the times `ends` samples are
    asked whether they can `leave`, with weights drawn in their field; those that cannot go on to the next. Where message
    passing diverged a sample stays where it is, and may leave all the same if the denoiser is `robust`: its field was sound
    up to there, and if flips mix in it the draw is as good as any.
    """

    def __init__(
        self,
        denoiser: Denoiser,
        clock: Clock,
        advance: Integrator,
        noise: Noise | GpuNoise,
        seeds: Sequence[np.random.SeedSequence],
        ends: Sequence[float],
        leave: Leave | None = None,
    ) -> None:
        self.denoiser, self.clock, self.advance, self.noise, self.seeds = denoiser, clock, advance, noise, seeds
        self.ends, self.leave, self.turn = ends, leave, np.array(0)
        self.diverged, self.left = np.zeros(denoiser.k, bool), np.zeros(denoiser.k, bool)
        self.weights = np.zeros((denoiser.k, noise.n), np.int8)
        """Of the samples that have left."""
        self.record = Record(means=denoiser.means)

    @property
    def alive(self) -> Array:
        """(k,) True for samples that are still on their way."""
        return self.clock.running & ~self.diverged & ~self.left

    def go(self, store: Checkpoint, callback: Callable[[Record], object] | None, show: bool | None) -> None:
        """Go to the end, from the checkpoint where there is one."""
        state = store.load()
        if state is not None:
            self._load(state)
        with progress_bar(1.0, "localizing", show) as bar:
            while int(self.turn) < len(self.ends):
                self.clock.final = self.ends[int(self.turn)]
                while self.alive.any() or not len(self.record):
                    if len(self.record):
                        self._step()
                    else:
                        self._note(self.denoiser.start(), np.ones(self.denoiser.k, bool))
                    bar.advance(self._progress() - bar.done, f"|m|²/n = {np.nanmean(self.record.overlap[-1]):.4f}")
                    store.maybe_save(self.state)
                    if callback is not None:
                        callback(self.record)
                self._let_go()

    def _let_go(self) -> None:
        """Let samples leave that can."""
        lanes = np.flatnonzero(~self.left & (~self.diverged | self.denoiser.robust))
        if self.leave is not None and len(lanes):
            gone, fair, weights = self.leave(int(self.turn), lanes)
            out = lanes[gone]
            self.weights[out], self.left[out] = weights, True
            self.diverged[lanes[gone & fair]] = False
        self.turn += 1

    def _step(self) -> None:
        alive = self.alive
        steps = np.where(alive, self.clock.next_steps(self.denoiser.instability), 0.0)
        lanes = np.flatnonzero(alive)
        noise = self.noise.draw(lanes, self.clock.taken)
        effort = self.advance(self.denoiser, self.clock.time, steps, noise, lanes)
        self.clock.advance(steps)
        self._note(effort, alive)

    def _note(self, effort: Effort, alive: Array) -> None:
        """Add a row to the record; let each sample go on at the pace that its instability asks for."""
        instability = self.denoiser.instability
        self.diverged |= effort.blown
        self.record.add(
            t=np.where(alive, self.clock.time, np.nan),
            overlap=np.where(alive, self.denoiser.overlaps(), np.nan),
            iterations=effort.iterations,
            converged=np.where(alive, effort.converged, True),
            instability=np.where(alive, instability, np.nan),
        )
        for pace, lanes in self.clock.change_pace(instability):
            self.denoiser.adopt(pace, lanes)

    def decoded(self, prior: Prior) -> Array:
        """Return the weights (k, n) with which samples left, or that their means stand for."""
        if self.left.all():
            return self.weights
        decoded = self.denoiser.decoded(prior, self._direction)
        decoded[self.left] = self.weights[self.left]
        return decoded

    def _direction(self, lane: int) -> Array:
        problem, j = divmod(lane, self.denoiser.each)
        return generator(self.seeds[problem], j, 1).standard_normal(self.noise.n)

    def _progress(self) -> float:
        gone = np.log1p(self.clock.time) / np.log1p(self.ends[-1])
        return float(np.mean(np.where(self.diverged | self.left, 1.0, gone)))

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on, on the host."""
        record = {f"path_{name}": values for name, values in self.record.arrays().items()}
        own = {"diverged": self.diverged, "left": self.left, "weights": self.weights, "turn": self.turn}
        return {**own, **self.clock.state(), **self.denoiser.state(), **record}

    def _load(self, state: dict[str, Array]) -> None:
        for name in ("diverged", "left", "weights", "turn"):
            getattr(self, name)[...] = state[name]
        self.clock.load(state)
        self.denoiser.load(state)
        self.record.load({name[5:]: value for name, value in state.items() if name.startswith("path_")})
