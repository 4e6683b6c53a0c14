"""The loop of stochastic localization: steps, records, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint, Entry, among, anything, within
from solspace.samplers.denoisers import Denoiser
from solspace.samplers.integrators import Integrator
from solspace.samplers.pace import Clock
from solspace.samplers.path import Path
from solspace.samplers.relaxation import LADDER, Effort
from solspace.system.progress import progress as progress_bar

Array = NDArray[Any]
PACED = ("step", "longest", "tolerance", "limit")
"""What of a sample's state its pace says."""


class Walk:
    """Fields (n, width) of all samples on their way from t = 0 to the final time, and the record of it."""

    def __init__(
        self, problem: Perceptron, clock: Clock, denoiser: Denoiser, advance: Integrator, seeds: np.random.SeedSequence
    ) -> None:
        self.problem, self.clock, self.denoiser, self.advance, self.seeds = problem, clock, denoiser, advance, seeds
        self.field = np.zeros_like(denoiser.mean)
        self.noise = Noise(seeds, np.zeros_like(denoiser.mean))
        self.diverged = np.zeros(denoiser.k, bool)
        self.path = Path()
        self.path.means = self.means

    @property
    def alive(self) -> Array:
        """(k,) True for samples that are still on their way."""
        return self.clock.running & ~self.diverged

    def go(self, store: Checkpoint, callback: Callable[[Path], Any] | None, show: bool | None) -> None:
        """Walk to the end, from the checkpoint where there is one."""
        state = store.load(self._entries, self._sound)
        if state is not None:
            self._load(state)
        with progress_bar(1.0, "localizing", show) as bar:
            while self.alive.any() or not len(self.path):
                if len(self.path):
                    self._step()
                else:
                    self._record(self.denoiser.start(self.field), np.ones(self.denoiser.k, bool))
                bar.advance(self._progress() - bar.done, f"|m|²/n = {np.nanmean(self.path.overlap[-1]):.4f}")
                store.maybe_save(self.state)
                if callback is not None:
                    callback(self.path)

    def _step(self) -> None:
        alive = self.alive
        steps = np.where(alive, self.clock.next_steps(self.denoiser.instability), 0.0)
        lanes = np.flatnonzero(alive)
        noise = self.noise.draw(lanes)
        effort = self.advance(self.field, self.denoiser, self.clock.time, steps, noise, lanes)
        self.clock.advance(steps)
        self._record(effort, alive)

    def _record(self, effort: Effort, alive: Array) -> None:
        denoiser = self.denoiser
        self.diverged |= effort.blown
        overlap = self._overlap()
        self.path.add(
            t=np.where(alive, self.clock.time, np.nan),
            overlap=np.where(alive, overlap, np.nan),
            iterations=effort.iterations,
            converged=np.where(alive, effort.converged, True),
            instability=np.where(alive, denoiser.instability, np.nan),
        )
        denoiser.slow_down(self.clock.slow_down(denoiser.instability), self.clock.slower)
        denoiser.slow_down(self.clock.speed_up(denoiser.instability), self.clock.pace)

    def _overlap(self) -> Array:
        mean = self.denoiser.mean
        return np.einsum("ij,ij->j", mean, mean)[: self.denoiser.k].astype(float) / self.problem.n

    def means(self) -> Array:
        """Return the means (k, n) at the end, in double precision.

        A sample that diverged before its first step has no direction: it gets a random one, so that it can be decoded.
        """
        means = self.denoiser.mean[:, : self.denoiser.k].T.astype(float)
        for j in np.flatnonzero(~(np.isfinite(means).all(axis=1) & (means != 0).any(axis=1))):
            means[j] = generator(self.seeds, int(j), 1).standard_normal(self.problem.n)
        return means

    def decoded(self) -> tuple[Array, Array | None]:
        """Return the weights (k, n) that the means stand for, and their stabilities where they are known already."""
        return self.problem.target.prior.decode(self.means()), None

    def _progress(self) -> float:
        gone = np.log1p(self.clock.time) / np.log1p(self.clock.final)
        return float(np.mean(np.where(self.diverged, 1.0, gone)))

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on."""
        clock = {name: getattr(self.clock, name) for name in Clock.STATE}
        own = {"field": self.field, "diverged": self.diverged}
        return {**own, **clock, **self.denoiser.state(), **{f"path_{n}": v for n, v in self.path.arrays().items()}}

    def _entries(self) -> dict[str, Entry]:
        """Return what the arrays of `state` may be."""
        paces = [pace for pace in (self.clock.pace, self.clock.slower) if pace is not None]
        allowed = {name: among([getattr(pace, name) for pace in paces]) for name in PACED}
        allowed |= {"time": within(0, self.clock.final), "taken": within(0, np.inf), "patience": within(0, 1)}
        allowed["damping"] = within(0, max(LADDER[-1], *(pace.damping for pace in paces)))
        own = {name: array for name, array in self.state().items() if not name.startswith("path_")}
        entries = {name: Entry.like(array, allowed.get(name, anything)) for name, array in own.items()}
        rows = {f"path_{name}": Entry(dtype, (None, self.denoiser.k)) for name, dtype in Path.TYPES.items()}
        return {**entries, **rows}

    def _sound(self, state: Mapping[str, Array]) -> bool:
        """Return whether the record has as many rows for everything, and no sample took more steps than it has."""
        rows = {len(state[f"path_{name}"]) for name in Path.TYPES}
        return len(rows) == 1 and bool((state["taken"] < rows.pop()).all())

    def _load(self, state: dict[str, Array]) -> None:
        self.field[...], self.diverged[...] = state["field"], state["diverged"]
        for name in Clock.STATE:
            setattr(self.clock, name, state[name])
        self.denoiser.load(state)
        self.noise.replay(self.clock.taken)
        self.path.load({name[5:]: value for name, value in state.items() if name.startswith("path_")})


class Noise:
    """Normal deviates for every step, a stream for each sample: sample j sees the same whatever runs beside it.

    They are drawn in single precision at every working precision, so that one seed means one path of noise.
    """

    def __init__(self, seeds: np.random.SeedSequence, columns: Array) -> None:
        self.seeds, self.columns = seeds, columns
        self.streams: dict[int, np.random.Generator] = {}

    def draw(self, lanes: Array) -> Array:
        """Return an array (n, width) with the next deviates of the samples `lanes`; it is written over by the next
        call.
        """
        rows = np.empty((len(lanes), len(self.columns)), np.float32)
        for row, j in zip(rows, lanes):
            self._stream(int(j)).standard_normal(dtype=np.float32, out=row)
        self.columns[:, lanes] = rows.T
        return self.columns

    def replay(self, taken: Array) -> None:
        """Draw and forget what `taken[j]` steps of each sample used."""
        row = np.empty(len(self.columns), np.float32)
        for j, steps in enumerate(taken):
            for _ in range(int(steps)):
                self._stream(j).standard_normal(dtype=np.float32, out=row)

    def _stream(self, j: int) -> np.random.Generator:
        if j not in self.streams:
            self.streams[j] = generator(self.seeds, j, 0)
        return self.streams[j]
