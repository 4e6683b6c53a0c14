"""A call with replica exchange: pilots go through the schedule, and ladders start from what they left on their way.

Pilots are the chains that `anneal` makes without exchange. Each leaves its weights at the sweeps whose stages may become
rungs; once the rungs are chosen (`ladder`), a replica starts at every rung of a chain's ladder from what its pilot left
there (`exchange`). Both parts share one checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing import ladder
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.exchange import Exchange, Ladders
from solspace.samplers.annealing.gpu import GpuFlips
from solspace.samplers.annealing.gpu_exchange import GpuExchange
from solspace.samplers.annealing.ladder import MakeFlips
from solspace.samplers.annealing.run import BEAT, carry
from solspace.samplers.checkpoint import Checkpoint
from solspace.samples import Samples

Report = Callable[[Chains, int], None]
"""Told the chains and how many sweeps were done."""


class Course:
    """A call from its first sweep to its last: pilots through the schedule, then ladders; one state for both to store."""

    def __init__(self, make: MakeFlips, plan: Plan, key: int, n_chains: int, n_rungs: int | None, n: int) -> None:
        self.make, self.plan, self.key, self.n_chains, self.n_rungs, self.n = make, plan, key, n_chains, n_rungs, n
        self.pilot_plan = ladder.pilot_plan(plan)
        self.marks = np.flatnonzero(self.pilot_plan.draw_at >= 0)
        self.pilot_flips = make(self.pilot_plan, max(n_chains, ladder.PILOTS))
        self.pilots = Chains.start(self.pilot_flips.first_weights(), self.pilot_plan)
        self.ladders: Ladders | None = None

    @property
    def sweep(self) -> int:
        """Sweeps done."""
        return self.pilots.sweep if self.ladders is None else self.ladders.replicas.sweep

    def restore(self, stored: Mapping[str, Array] | None) -> None:
        """Go on from what `run` stored, if anything."""
        if stored is None:
            return
        state = {name.removeprefix("pilot_"): value for name, value in stored.items() if name.startswith("pilot_")}
        if len(stored["rungs"]):
            state["draws"] = self.pilots.draws
            self.ladders = Ladders.restored(stored, self.plan)
        self.pilots.restore(state)

    def run(self, store: Checkpoint, report: Report) -> None:
        """Carry everything to the end."""
        if self.ladders is None:
            carry(
                self.pilot_flips, self.pilots, self.pilot_plan, _Kept(store, self.pilot_state),
                lambda sweeps: report(self.pilots, sweeps),
            )  # fmt: skip
            chosen = ladder.choose(self.make, self.pilot_plan, self.pilots.draws, self.n_rungs)
            weights = self.pilots.draws[: self.n_chains, chosen]
            self.ladders = Ladders.start(np.ascontiguousarray(weights), self.marks[chosen], self.plan)
        self._exchange(self.ladders, store, report)

    def _exchange(self, ladders: Ladders, store: Checkpoint, report: Report) -> None:
        kind = GpuExchange if isinstance(self.pilot_flips, GpuFlips) else Exchange
        exchange = kind(self.make, ladders, self.plan, self.key)
        safe, seen, told = exchange.state(), time.perf_counter(), ladders.replicas.sweep
        try:
            while not exchange.done:
                exchange.step()
                if time.perf_counter() - seen < BEAT and not exchange.done:
                    continue
                safe, seen = exchange.state(), time.perf_counter()
                store.maybe_save(lambda state=safe: self.ladder_state(state))
                report(ladders.replicas, ladders.replicas.sweep - told)
                told = ladders.replicas.sweep
        except BaseException:
            try:
                exchange.flips.stop()
            finally:  # a lost device cannot be stopped either
                store.save(self.ladder_state(safe))
            raise
        ladders.replicas.weights[...] = safe["weights"]

    def pilot_state(self, pilots: Mapping[str, Array]) -> dict[str, Array]:
        """Return what is stored while there are no ladders."""
        none = np.zeros((self.n_chains, 0, self.n), np.int8)
        empty = Ladders.start(none, np.zeros(0, np.int64), self.plan).state(np.zeros((0, self.n), np.int8))
        return {**{f"pilot_{name}": value for name, value in pilots.items()}, **empty, "sweep": np.array(0)}

    def ladder_state(self, ladders: Mapping[str, Array]) -> dict[str, Array]:
        """Return what is stored once there are: the pilots' draws have done their work."""
        pilots = {**self.pilots.records(), **self.pilots.snapshot(), "draws": self.pilots.draws[:0]}
        return {**{f"pilot_{name}": value for name, value in pilots.items()}, **ladders}

    def state(self) -> dict[str, Array]:
        """Return what is stored at the end."""
        assert self.ladders is not None
        return self.ladder_state(self.ladders.state(self.ladders.replicas.weights))

    def samples(self, problem: Perceptron, **told: Any) -> Samples:
        """Return the samples that the ladders drew."""
        assert self.ladders is not None
        own, pilots = self.ladders, self.pilots.of(slice(0, self.n_chains))
        first = own.replicas.solved_at.reshape(self.n_chains, -1)
        later = np.where(first < 0, len(self.plan), first).min(axis=1)
        solved_at = np.where(pilots.solved_at >= 0, pilots.solved_at, np.where(later < len(self.plan), later, -1))
        chains = replace(
            pilots, draws=own.draws, accepted=np.hstack([pilots.accepted, own.accepted]),
            energy=np.hstack([pilots.energy, own.energy]), solved_at=solved_at,
        )  # fmt: skip
        tried, made = own.swaps
        told |= {"ladder": own.rungs, "swap_acceptance": made / np.maximum(tried, 1), "round_trips": own.trips}
        return chains.samples(problem, self.plan, kernel=self.pilot_flips.kernel, **told)


@dataclass(frozen=True)
class _Kept:
    """A checkpoint that stores more than it is given."""

    store: Checkpoint
    whole: Callable[[Mapping[str, Array]], Mapping[str, Array]]

    def save(self, state: Mapping[str, Array]) -> None:
        self.store.save(self.whole(state))

    def maybe_save(self, make_state: Callable[..., Mapping[str, Array]]) -> None:
        self.store.maybe_save(lambda: self.whole(make_state()))
