"""Carry chains through their plan: some sweeps at a time, the next ones prepared meanwhile, on any device.

After each launch the chains are whole: progress is seen, a checkpoint can be written, Ctrl-C is heard. How sweeps are cut
into launches changes nothing in the chains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.system import threads

BEAT = 0.25
"""Seconds of a launch."""


class Flips(Protocol):
    """What moves chains by single flips: on the processor or on a device, for ±1 patterns or any others."""

    kernel: str
    """Its arithmetic: "integer" or "fixed point"."""
    most: int
    """Sweeps that fit into memory at a time."""
    pace: float
    """Sweeps a second, as a first guess."""

    def first_weights(self) -> Array:
        """Return independent fair signs for every chain, (k, n) int8."""
        ...

    def place(self, chains: Chains) -> None:
        """Compute from the weights what the kernel caches."""

    def prepare(self, sweeps: slice) -> Any:
        """Return what these sweeps need; called from other threads."""
        ...

    def launch(self, chains: Chains, sweeps: slice, prepared: Any) -> None:
        """Start to take the chains through `sweeps`."""

    def collect(self, chains: Chains, weights: bool = True) -> None:
        """Wait for what was launched; the chains then hold its results, their `weights` where these are wanted."""

    def weigh(self, stage: Array, prepared: Any) -> tuple[Array, Array]:
        """Return the energies (k,) of the chains, each at its `stage` of those prepared: in kT, and as ΣU."""
        ...

    def weights_of(self, chains: Chains, rows: Array) -> Array:
        """Return the weights of the chains `rows`, which `collect` may have left where they were."""
        ...

    def stop(self) -> None:
        """End what is under way, at once and in mid-sweep."""

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities of the chains' `weights` (draws of a chain side by side), or None: ask the problem."""
        ...


class Keeps(Protocol):
    """What keeps the state of a run: a `Checkpoint`, or what adds something to it."""

    def save(self, state: Mapping[str, Array]) -> None:
        """Keep the state."""

    def maybe_save(self, make_state: Callable[..., Mapping[str, Array]]) -> None:
        """Keep the state that is made, if it is time to."""


def pool() -> ThreadPoolExecutor:
    """Return the threads that prepare sweeps, and take over what was recorded of some, while others run."""
    return threads.pool(8, "sweeps")


class Run:
    """Chains on their way through a plan: at most one launch under way, the next one prepared."""

    def __init__(self, flips: Flips, chains: Chains, plan: Plan) -> None:
        self.flips, self.chains, self.plan = flips, chains, plan
        flips.place(chains)
        self.count = _power_below(np.clip(BEAT * flips.pace, 1, flips.most))
        self.sweeps = slice(chains.sweep, chains.sweep)
        self._next()

    @property
    def done(self) -> bool:
        """Whether all chains have come to the end of the plan or stopped."""
        return self.chains.sweep >= len(self.plan) or bool(self.chains.stopped.all())

    def _next(self) -> None:
        first = min(self.sweeps.stop, len(self.plan) - 1)
        self.ahead = slice(first, min(first + self.count, len(self.plan)))
        self.prepared: Future[Any] = pool().submit(self.flips.prepare, self.ahead)

    def launch(self) -> None:
        """Start the next sweeps; let threads prepare those after them meanwhile."""
        self.sweeps = self.ahead
        prepared = self.prepared.result()
        self.begun = time.perf_counter()
        self.flips.launch(self.chains, self.sweeps, prepared)
        self._next()

    def collect(self, beat: float = 0.0) -> int:
        """Wait for the launch under way; return how many sweeps it made. The next ones will take some `beat` seconds."""
        self._take()
        self.chains.sweep = self.sweeps.stop
        done = self.sweeps.stop - self.sweeps.start
        pace = max(beat, BEAT) / max(time.perf_counter() - self.begun, 1e-9)
        # powers of two, so that the memory of one launch serves for the next
        self.count = _power_below(np.clip(done * pace, 1, min(self.flips.most, 8 * self.count)))
        return done

    def _take(self) -> None:
        """Wait for the launch under way and take over its results."""
        self.flips.collect(self.chains)


def _power_below(count: float) -> int:
    """Return the power of two at or below `count`."""
    return 1 << (int(count).bit_length() - 1)


def carry(flips: Flips, chains: Chains, plan: Plan, store: Keeps, report: Callable[[int], None]) -> None:
    """Carry the chains to the end of the plan; report how many sweeps were done, a few times a second.

    Whatever ends the run before its time, the state after the last launch that was collected is stored.
    """
    run = Run(flips, chains, plan)
    safe = chains.snapshot()
    try:
        while not run.done:
            run.launch()
            done = run.collect()
            safe = chains.snapshot()
            store.maybe_save(lambda state=safe: {**chains.records(), **state})
            report(done)
    except BaseException:
        try:
            flips.stop()
        finally:  # a lost device cannot be stopped either
            store.save({**chains.records(), **safe})
        raise
