"""Replica exchange: chains that are stuck at the last stage borrow the freedom of earlier ones.

Each chain becomes a *ladder* of replicas, one at every rung: stages of the schedule, from one at which chains still move freely
down to the last. All replicas make a heat-bath sweep; then neighbours a, b at stages i, j may exchange their stages, which is
accepted with probability min(1, exp(-Δ)), Δ = [E_j(w_a) - E_i(w_a)] + [E_i(w_b) - E_j(w_b)], E being the integer energies of
the kernels over kT: the product of the rungs' measures stays exactly where it is. Pairs (0, 1), (2, 3), ... and (1, 2), (3, 4),
... take turns, so that replicas travel rather than diffuse (Okabe et al. 2001; Syed et al. 2022). The last rung makes draws.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import erfcinv

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import BEAT, Chains, Flips, Plan, Run, run_to_end
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.checkpoint import Checkpoint
from solspace.samples import Samples

UP, DOWN = 1, 2  # ways of a replica that has been at the last rung, and since then at the first
START = (
    0.75  # where in the schedule the first rung is: at τ = 0.25 chains on images forget where they were in fifty sweeps
)
ACCEPTED = 0.35  # share of the exchanges that should be accepted
MOST = 48  # rungs at most, by default
PILOTS = 16  # least number of chains from which a ladder is found
_MARKS = 96  # most marks, the sweeps at which pilots leave their weights
MakeFlips = Callable[[Plan, int], Flips]  # (plan, number of chains) -> what moves them


@dataclass
class Ladders:
    """C ladders of R replicas: row c R + r of `replicas` is replica r of ladder c, at whichever rung it now is."""

    rungs: Array  # (R,) sweeps of the schedule whose stages they are
    replicas: Chains
    energy: Array  # (C, sweeps) ΣU at the last rung, in the sweeps after the schedule
    accepted: Array  # (C, sweeps) flips made there
    draws: Array  # (C, draws, n)
    swaps: Array  # (2, R - 1) exchanges tried and made between neighbouring rungs
    way: Array  # (C R,) UP, DOWN, or 0 where a replica has not yet been at the last rung
    trips: Array  # (C,) times that a replica went from the last rung to the first and back

    @classmethod
    def start(cls, weights: Array, rungs: Array, plan: Plan) -> Ladders:
        """Return ladders whose replicas are at `weights` (C, R, n)."""
        c, r, n = weights.shape
        extra = len(plan) - plan.n_anneal
        replicas = Chains.start(weights.reshape(c * r, n), _without_draws(plan), records=1)
        replicas.stage, replicas.sweep = np.tile(np.arange(r), c), plan.n_anneal
        return cls(
            rungs=rungs,
            replicas=replicas,
            energy=np.full((c, extra), np.nan),
            accepted=np.zeros((c, extra), np.int32),
            draws=np.zeros((c, plan.n_draws, n), np.int8),
            swaps=np.zeros((2, max(r - 1, 0)), np.int64),
            way=np.zeros(c * r, np.int8),
            trips=np.zeros(c, np.int64),
        )

    def places(self) -> Array:
        """Return (C, R) the row that is at each rung."""
        c, r = len(self.trips), len(self.rungs)
        return np.argsort(self.replicas.stage.reshape(c, r), axis=1) + r * np.arange(c)[:, None]

    def state(self, weights: Array) -> dict[str, Array]:
        """Return what `restored` needs, from the replicas' current `weights`."""
        replicas = self.replicas
        return {
            **{
                name: getattr(self, name) for name in ("rungs", "energy", "accepted", "draws")
            },  # sweeps only add to these
            **{name: getattr(self, name).copy() for name in ("swaps", "way", "trips")},
            **{name: getattr(replicas, name).copy() for name in ("stage", "solved_at")},
            "weights": weights,
            "sweep": np.array(replicas.sweep),
        }

    @classmethod
    def restored(cls, state: Mapping[str, Array], plan: Plan) -> Ladders:
        """Return the ladders that `state` was of."""
        c, r = len(state["trips"]), len(state["rungs"])
        found = cls.start(state["weights"].reshape(c, r, -1), state["rungs"], plan)
        found.replicas.stage, found.replicas.sweep = state["stage"], int(state["sweep"])
        found.replicas.solved_at[...] = state["solved_at"]
        done = found.replicas.sweep - plan.n_anneal
        found.energy[:, :done], found.accepted[:, :done] = state["energy"][:, :done], state["accepted"][:, :done]
        for name in ("draws", "swaps", "way", "trips"):
            getattr(found, name)[...] = state[name]
        return found


class Exchange:
    """Ladders on their way through the sweeps after the schedule."""

    def __init__(self, make: MakeFlips, ladders: Ladders, plan: Plan, key: int) -> None:
        self.ladders, self.plan, self.key = ladders, plan, np.uint64(key)
        rungs = [plan.stages[t] for t in ladders.rungs]
        self.flips: Flips = make(_without_draws(plan, rungs), len(ladders.replicas.weights))
        self.flips.place(ladders.replicas)

    @property
    def chains(self) -> Chains:
        return self.ladders.replicas

    @property
    def done(self) -> bool:
        return self.chains.sweep >= len(self.plan)

    def step(self) -> None:
        """Make sweeps for a while."""
        begun = time.perf_counter()
        while not self.done:
            self.sweep()
            if time.perf_counter() - begun >= BEAT:
                break

    def sweep(self) -> None:
        """Make a sweep of all replicas, exchange, and draw where the plan says so."""
        ladders, replicas = self.ladders, self.ladders.replicas
        now = replicas.begun = replicas.sweep
        sweeps, kept = slice(now, now + 1), now - self.plan.n_anneal
        prepared = self.flips.prepare(sweeps)
        self.flips.launch(replicas, sweeps, prepared)
        self.flips.collect(replicas, weights=False)
        ladders.accepted[:, kept] = replicas.accepted[ladders.places()[:, -1], 0]
        replicas.accepted[...] = 0
        ladders.energy[:, kept] = self.exchange(now, prepared)
        if self.plan.draw_at[now] >= 0:
            ladders.draws[:, self.plan.draw_at[now]] = self.flips.weights_of(replicas, ladders.places()[:, -1])
        replicas.sweep += 1

    def exchange(self, sweep: int, prepared: object) -> Array:
        """Exchange neighbours after `sweep`; return ΣU (C,) of the replicas that are then at the last rung."""
        from solspace.samplers.kernels.philox import exponentials

        ladders, stage = self.ladders, self.ladders.replicas.stage
        first, upper, lower, change, energy = self.proposed(sweep, prepared)
        luck = np.empty((len(ladders.trips), len(ladders.rungs) - 1))
        exponentials(self.key, sweep, luck)
        made = change <= luck[:, first]
        stage[upper[made]], stage[lower[made]] = stage[lower[made]], stage[upper[made]]
        ladders.swaps[:, first] += np.stack([np.full(len(first), len(made)), made.sum(axis=0)])
        places = ladders.places()
        top, bottom = places[:, 0], places[:, -1]
        ladders.way[top] = np.where(ladders.way[top] == UP, DOWN, ladders.way[top])
        ladders.trips += ladders.way[bottom] == DOWN
        ladders.way[bottom] = UP
        return energy[bottom]

    def proposed(self, sweep: int, prepared: object) -> tuple[Array, Array, Array, Array, Array]:
        """Return the pairs of a sweep, the rows at their earlier and later rungs (C, pairs), and Δ of their exchange.

        And ΣU (C R,) at the last rung of those that are there or may come to be there.
        """
        ladders, stage = self.ladders, self.ladders.replicas.stage
        rungs, rows = len(ladders.rungs), ladders.places()
        first = np.arange(sweep % 2, rungs - 1, 2)
        own, here = self.flips.energies_at(stage, prepared)
        other, there = self.flips.energies_at(self.partners(sweep)[stage], prepared)
        upper, lower = rows[:, first], rows[:, first + 1]
        change = (other[upper] - own[upper]) + (other[lower] - own[lower])
        return first, upper, lower, change, np.where(stage == rungs - 1, here, there)

    def partners(self, sweep: int) -> Array:
        """Return the rung (R,) with which each may exchange after `sweep`, itself where there is none."""
        partner = np.arange(len(self.ladders.rungs))
        first = np.arange(sweep % 2, len(partner) - 1, 2)
        partner[first], partner[first + 1] = first + 1, first
        return partner

    def state(self) -> dict[str, Array]:
        replicas = self.ladders.replicas
        return self.ladders.state(self.flips.weights_of(replicas, np.arange(len(replicas.weights))))

    def stop(self) -> None:
        self.flips.stop()


class ExchangeRun:
    """A call with exchange: pilots through the schedule, then ladders that start from their weights; one state for both."""

    def __init__(self, make: MakeFlips, plan: Plan, key: int, n_chains: int, n_rungs: int | None) -> None:
        self.make, self.plan, self.key, self.n_chains, self.n_rungs = make, plan, key, n_chains, n_rungs
        self.pilot_plan = _pilot_plan(plan)
        self.pilot_flips = make(self.pilot_plan, max(n_chains, PILOTS))
        self.pilots = Chains.start(self.pilot_flips.first_weights(), self.pilot_plan)
        self.ladders: Ladders | None = None

    @property
    def sweep(self) -> int:
        """Sweeps done."""
        return self.pilots.sweep if self.ladders is None else self.ladders.replicas.sweep

    def restore(self, stored: Mapping[str, Array]) -> None:
        """Go on from a stored state."""
        state = {name.removeprefix("pilot_"): value for name, value in stored.items() if name.startswith("pilot_")}
        if len(stored["rungs"]):
            state["draws"] = self.pilots.draws
            self.ladders = Ladders.restored(stored, self.plan)
        self.pilots.restore(state)

    def run(self, store: Checkpoint | None, report: Callable[[Chains], None]) -> None:
        """Make all sweeps; `report` is called with the chains."""
        from solspace.samplers.annealing.gpu import GpuExchange, GpuFlips

        if self.ladders is None:
            pilots, plan = self.pilots, self.pilot_plan
            run_to_end(Run(self.pilot_flips, pilots, plan), report, store, self._pilot_state)
            chosen = _choose_rungs(self.make, plan, pilots.draws, self.n_rungs)
            marks = np.flatnonzero(plan.draw_at >= 0)
            weights = np.ascontiguousarray(pilots.draws[: self.n_chains, chosen])
            self.ladders = Ladders.start(weights, marks[chosen], self.plan)
        kind = GpuExchange if isinstance(self.pilot_flips, GpuFlips) else Exchange
        run_to_end(kind(self.make, self.ladders, self.plan, self.key), report, store, self._ladder_state)

    def _pilot_state(self, pilots: Mapping[str, Array]) -> dict[str, Array]:
        """Return what is stored while there are no ladders."""
        n = self.pilots.weights.shape[1]
        none = Ladders.start(np.zeros((self.n_chains, 0, n), np.int8), np.zeros(0, np.int64), self.plan)
        stored = {f"pilot_{name}": value for name, value in pilots.items()}
        return {**stored, **none.state(np.zeros((0, n), np.int8)), "sweep": np.array(0)}

    def _ladder_state(self, ladders: Mapping[str, Array]) -> dict[str, Array]:
        """Return what is stored once there are ladders, which need the pilots' draws no more."""
        pilots = {**self.pilots.state(), "draws": self.pilots.draws[:0]}
        return {**{f"pilot_{name}": value for name, value in pilots.items()}, **ladders}

    def samples(self, problem: Perceptron, **record: Any) -> Samples:
        """Return the samples that the ladders drew."""
        assert self.ladders is not None
        own, pilots = self.ladders, self.pilots.of(slice(0, self.n_chains))
        first = own.replicas.solved_at.reshape(self.n_chains, -1)
        later = np.where(first < 0, len(self.plan), first).min(axis=1)
        chains = replace(
            pilots,
            draws=own.draws,
            accepted=np.hstack([pilots.accepted, own.accepted]),
            energy=np.hstack([pilots.energy, own.energy]),
            solved_at=np.where(pilots.solved_at >= 0, pilots.solved_at, np.where(later < len(self.plan), later, -1)),
        )
        tried, made = own.swaps
        record |= {"ladder": own.rungs, "swap_acceptance": made / np.maximum(tried, 1), "round_trips": own.trips}
        return chains.samples(problem, self.plan, kernel=self.pilot_flips.kernel, **record)


def _without_draws(plan: Plan, ladder: list[Stage] | None = None) -> Plan:
    return replace(plan, ladder=ladder or plan.ladder, draw_at=np.full(len(plan), -1))


def _pilot_plan(plan: Plan) -> Plan:
    """Return the schedule of `plan` alone, with draws at the marks."""
    if plan.n_anneal < 2:
        raise ValueError("exchange needs a schedule of at least two sweeps, whose stages replicas can be at.")
    if any(stage.temperature == 0 for stage in plan.stages):
        raise ValueError("exchange needs a positive temperature at every stage; this schedule has one at T = 0.")
    first = min(int(START * (plan.n_anneal - 1)), plan.n_anneal - 2)
    marks = np.unique(np.rint(np.linspace(first, plan.n_anneal - 1, _MARKS)).astype(int))
    draw_at = np.full(plan.n_anneal, -1)
    draw_at[marks] = np.arange(len(marks))
    return replace(plan, stages=plan.stages[: plan.n_anneal], draw_at=draw_at)


def _choose_rungs(make: MakeFlips, pilot: Plan, weights: Array, n_rungs: int | None) -> Array:
    """Return the marks, the last among them, that become rungs, (rungs,); `weights` (pilots, marks, n) were left at them.

    With these as samples of two neighbouring stages, the mean chance of an exchange is erfc(d/2), as Δ is nearly Gaussian with
    mean d² and variance 2 d²; d adds up along the schedule (the Fisher-Rao length). Rungs at equal lengths have equal chances.
    """
    marks = weights.shape[1]
    if n_rungs is not None and n_rungs > marks:
        raise ValueError(f"n_rungs must be at most {marks}, the stages of this schedule to choose from; got {n_rungs}.")
    along = np.append(0.0, np.cumsum(_lengths(make, pilot, weights)))
    enough = int(np.ceil(along[-1] / (2 * erfcinv(ACCEPTED)))) + 1
    count = n_rungs or min(max(enough, 2), MOST, marks)
    # pilots that fall behind the schedule differ too little in its middle and too much at its end: half of the rungs are
    # spread evenly instead
    even = np.linspace(0, 1, marks)
    return _spread((along / max(along[-1], 1e-300) + even) / 2, count)


def _lengths(make: MakeFlips, pilot: Plan, weights: Array) -> Array:
    """Return the length d between neighbouring marks, (marks - 1,)."""
    at = np.flatnonzero(pilot.draw_at >= 0)
    ladder = _without_draws(pilot, [pilot.stages[int(t)] for t in at])
    flips = make(ladder, len(weights))
    prepared = flips.prepare(slice(0, 1))
    rises = np.zeros((len(at), 2, len(weights)))
    for mark in range(len(at)):
        flips.place(Chains.start(np.ascontiguousarray(weights[:, mark]), ladder, records=0))
        here, before, behind = (
            flips.energies_at(np.full(len(weights), np.clip(mark + step, 0, len(at) - 1)), prepared)[0]
            for step in (0, -1, 1)
        )
        rises[mark] = before - here, behind - here
    change = rises[:-1, 1, :, None] + rises[1:, 0, None, :]
    chance = np.exp(-np.maximum(change, 0)).mean(axis=(1, 2))
    return 2 * erfcinv(np.clip(chance, 1e-6, 1.0))


def _spread(along: Array, count: int) -> Array:
    """Return `count` places of the rising sequence `along`, at about equal steps of it, its ends among them.

    >>> _spread(np.array([0.0, 1.0, 2.0, 2.5, 3.0, 4.0]), 3)
    array([0, 2, 5])
    """
    wanted = np.linspace(along[0], along[-1], count)
    places = np.searchsorted(along, wanted - 1e-12)
    # no place twice, and room for those to come
    for k in range(1, count):
        places[k] = max(places[k], places[k - 1] + 1)
    for k in range(count):
        places[k] = min(places[k], len(along) - count + k)
    places[0] = 0
    return places
