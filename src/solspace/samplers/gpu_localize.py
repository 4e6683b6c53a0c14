"""Stochastic localization on a CUDA device: `samplers.localize` with the fields, the means and AMP on the device.

The host keeps each sample's clock and damping, and looks at the device every few iterations to see how many columns
still move; columns that have come to rest are left behind once they are many. Noise is drawn on the host, from the
same streams as without a device and by as many threads as there are cores, for several steps at a time: one seed means
one path of noise everywhere, and samples agree with those of the processor to single precision.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samplers.denoisers import Denoiser
from solspace.samplers.gpu_messages import GpuMessages, Iteration
from solspace.samplers.integrators import Integrator
from solspace.samplers.pace import Clock, Pace
from solspace.samplers.path import Path
from solspace.samplers.relaxation import SLOW_TOP, Effort, _rung_above
from solspace.samplers.walk import Walk

Array = NDArray[Any]
BURST = 3
"""Iterations between two looks at the device."""
AHEAD, _ROOM = 8, 1 << 29
"""Steps for which noise is drawn together, and the bytes it may fill."""
CONVERGED, SLOW, BLOWN = 1, 2, 3
"""What `control` in `kernels/cuda/messages.cu` says of a column."""


class GpuMessagePassing(Denoiser):
    """AMP on a device with warm starts: every call begins where the last one ended; damping climbs as on the CPU."""

    def __init__(self, problem: Perceptron, k: int, automatic: bool, pace: Pace) -> None:
        self.messages, self.k, self.automatic = GpuMessages(problem, k), k, automatic
        self.mean = self.messages.mean
        self.damping = np.full(k, float(pace.damping))
        self.tolerance, self.limit = np.full(k, pace.tolerance), np.full(k, pace.limit)

    @property
    def instability(self) -> Array:  # type: ignore[override]
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instability.get().astype(float)

    def widen(self, values: Array) -> Any:
        """Return `values` (k,) on the device."""
        return self.messages.cupy.asarray(np.asarray(values, np.float32))

    def spread(self) -> Any:
        """Return 1 - m²."""
        return self.messages.cupy.maximum(1 - self.mean * self.mean, 0)

    def start(self, field: Any) -> Effort:
        """Relax one sample at zero field, to a tighter tolerance, and give its messages to all others."""
        effort = self._relax(field, np.array([0]), 1e-3 * self.tolerance, 10 * self.limit)
        for part in self.messages.state():
            part[...] = part[..., :1].copy()
        self.damping[...] = self.damping[0]
        return effort.of(np.zeros(self.k, int))

    def relax(self, field: Any, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence; ±1 weights have a fixed norm, so that the time does not enter."""
        return self._relax(field, lanes, self.tolerance, self.limit)

    def _relax(self, field: Any, lanes: Array, tolerance: Array, limit: Array) -> Effort:
        k = self.k
        effort = Effort(np.zeros(k, int), np.zeros(k, bool), np.zeros(k, bool), np.full(k, np.nan))
        before = [part.copy() for part in self.messages.state()]
        todo = np.asarray(lanes)
        while len(todo):
            blown = self._iterate(field, todo, tolerance, limit, effort)
            if not len(blown):
                break
            chosen = self.messages.cupy.asarray(blown)
            for kept, current in zip(before, self.messages.state()):
                current[..., chosen] = kept[..., chosen]
            rungs = np.array([_rung_above(d) if self.automatic else np.inf for d in self.damping[blown]])
            effort.blown[blown[np.isinf(rungs)]] = True
            todo = blown[np.isfinite(rungs)]
            self.damping[todo] = rungs[np.isfinite(rungs)]
        if self.automatic:
            slow = [j for j in lanes if not (effort.converged[j] or effort.blown[j])]
            self.damping[slow] = [max(d, min(_rung_above(d), SLOW_TOP)) for d in self.damping[slow]]
        return effort

    def _iterate(self, field: Any, lanes: Array, tolerance: Array, limit: Array, effort: Effort) -> Array:
        """Iterate until each of `lanes` converges, blows up or reaches its limit; return those that blew up."""
        blown: list[int] = []
        count, best = np.zeros(len(lanes), int), np.full(len(lanes), np.inf)
        while len(lanes):
            whole = len(lanes) == self.k
            batch = self.messages if whole else self.messages.take(lanes)
            h = field if whole else field[:, self.messages.cupy.asarray(lanes)].copy()
            damping = self.damping[lanes]
            cap = limit[lanes] * np.maximum(1, 0.7 / (1 - damping))
            going = Iteration(batch, h, tolerance[lanes], damping, cap, count, best)
            few = max(32, len(lanes) // 4) if len(lanes) > 32 else 0
            moving = len(lanes)
            while moving > few or (moving and not few):
                for _ in range(BURST):
                    going.step()
                moving = int(going.moving.get()[0])
            outcome, made = going.outcome.get(), going.count.get()
            if not whole:
                self.messages.put(batch, lanes)
            effort.residual[lanes] = going.residual.get()
            effort.iterations[lanes] += made - count
            effort.converged[lanes[outcome == CONVERGED]] = True
            blown += list(lanes[outcome == BLOWN])
            still = outcome == 0
            lanes, count, best = lanes[still], made[still], going.best.get()[still]
        return np.array(blown, int)

    def slow_down(self, lanes: Array, pace: Pace | None) -> None:
        """Take up the tolerance, the limit and at least the damping of `pace`."""
        if pace is not None:
            self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
            self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return the messages and their damping, on the host."""
        arrays = {f"messages_{i}": part.get() for i, part in enumerate(self.messages.state())}
        return {**arrays, "damping": self.damping, "tolerance": self.tolerance, "limit": self.limit}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for i, part in enumerate(self.messages.state()):
            part[...] = self.messages.cupy.asarray(state[f"messages_{i}"])
        for name in ("damping", "tolerance", "limit"):
            getattr(self, name)[...] = state[name]


class GpuWalk(Walk):
    """The walk of `samplers.walk`, its fields and noise on the device."""

    denoiser: GpuMessagePassing
    field: Any

    def __init__(
        self,
        problem: Perceptron,
        clock: Clock,
        denoiser: GpuMessagePassing,
        advance: Integrator,
        seeds: np.random.SeedSequence,
    ) -> None:
        self.problem, self.clock, self.denoiser, self.advance, self.seeds = problem, clock, denoiser, advance, seeds
        self.field = denoiser.messages.cupy.zeros(denoiser.mean.shape, np.float32)
        self.noise: Any = GpuNoise(seeds, problem.n, denoiser)
        self.diverged = np.zeros(denoiser.k, bool)
        self.path = Path()

    def _overlap(self) -> Array:
        squares = (self.denoiser.mean * self.denoiser.mean).sum(axis=0)
        return squares.get().astype(float) / self.problem.n

    def means(self) -> Array:
        """Return the signs (k, n) of the means, which is what decodes ±1 weights; random where a sample has none."""
        device, mean = self.denoiser.messages.cupy, self.denoiser.mean
        signs = device.ascontiguousarray((2 * (mean >= 0) - 1).astype(np.int8).T).get()
        there = (mean - mean == 0).all(axis=0).get() & (mean != 0).any(axis=0).get()
        for j in np.flatnonzero(~there):
            signs[j] = np.sign(generator(self.seeds, int(j), 1).standard_normal(self.problem.n))
        return signs

    def _state(self) -> dict[str, Array]:
        return {**super()._state(), "field": self.field.get()}

    def _load(self, state: dict[str, Array]) -> None:
        given = {**state, "field": self.denoiser.messages.cupy.asarray(state["field"])}
        super()._load(given)


class GpuNoise:
    """The deviates of `samplers.walk.Noise`, drawn by threads for several steps at a time and kept on the device."""

    def __init__(self, seeds: np.random.SeedSequence, n: int, denoiser: GpuMessagePassing) -> None:
        k, self.device = denoiser.k, denoiser.messages.cupy
        self.ahead = max(1, min(AHEAD, _ROOM // (4 * k * n)))
        self.rows = _pinned((k, self.ahead, n))
        self.sent = self.device.zeros((k, self.ahead, n), np.float32)
        self.streams = [generator(seeds, j, 0) for j in range(k)]
        self.used = np.full(k, self.ahead)
        self.workers = os.cpu_count() or 1
        self.pool = ThreadPoolExecutor(self.workers)
        self.filling: list[Future[None]] = []
        self.ready = np.zeros(k, bool)

    def draw(self, lanes: Array) -> Any:
        """Return an array (n, k) on the device with the next deviates of the samples `lanes`."""
        empty = lanes[self.used[lanes] == self.ahead]
        if len(empty):
            self._order(empty[~self.ready[empty]])
            for task in self.filling:
                task.result()
            self.filling = []
            if len(empty) == len(self.used):
                self.sent = self.device.asarray(self.rows)
                self.device.cuda.Device().synchronize()  # the copy must be over before the rows are filled again
            else:
                self.sent[self.device.asarray(empty)] = self.device.asarray(self.rows[empty])
            self.used[empty], self.ready[empty] = 0, False
            self._order(empty)
        place = self.device.asarray(np.minimum(self.used, self.ahead - 1))
        columns = self.device.ascontiguousarray(self.sent[self.device.asarray(np.arange(len(self.used))), place].T)
        self.used[lanes] += 1
        return columns

    def _order(self, lanes: Array) -> None:
        """Let threads draw the next deviates of these samples."""
        self.filling += [
            self.pool.submit(self._fill, part) for part in np.array_split(lanes, self.workers) if len(part)
        ]
        self.ready[lanes] = True

    def _fill(self, lanes: Array) -> None:
        for j in lanes:
            self.streams[j].standard_normal(dtype=np.float32, out=self.rows[j])

    def replay(self, taken: Array) -> None:
        """Draw and forget what `taken[j]` steps of each sample used."""
        row = np.empty(self.rows.shape[2], np.float32)
        for stream, steps in zip(self.streams, taken):
            for _ in range(int(steps)):
                stream.standard_normal(dtype=np.float32, out=row)


def _pinned(shape: tuple[int, ...]) -> Array:
    """Return zeros in memory that the device copies from directly, where CuPy can provide it."""
    try:
        from cupyx import zeros_pinned
    except ImportError:
        return np.zeros(shape, np.float32)
    return zeros_pinned(shape, np.float32)
