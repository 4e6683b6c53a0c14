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
from dataclasses import replace

import numpy as np
from scipy.special import erfcinv

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.chains import BEAT, Chains, Flips, Plan, Report, Run, run_to_end
from solspace.samplers.checkpoint import Checkpoint
from solspace.system.plain import Values

UP, DOWN = 1, 2  # ways of a replica that has been at the last rung, and since then at the first
# where in the schedule the first rung is: at τ = 0.25 chains on images forget where they were in fifty sweeps
START = 0.75
ACCEPTED = 0.35  # share of the exchanges that should be accepted
MOST = 48  # rungs at most, by default
PILOTS = 16  # least number of chains from which a ladder is found
_MARKS = 96  # most marks, the sweeps at which pilots leave their weights
MakeFlips = Callable[[Plan, int], Flips]  # (plan, number of chains) -> what moves them
State = Mapping[str, Array]
_COUNTS = ("swaps", "way", "trips")


class Exchange:
    """C ladders of R replicas on their way through the sweeps after the schedule, from `weights` (C, R, n) or a `stored` state.

    Row c R + r of `chains` is replica r of ladder c, at whichever rung it now is; `rungs` (R,) are sweeps of the schedule.
    """

    def __init__(
        self, make: MakeFlips, plan: Plan, key: int, weights: Array, rungs: Array, stored: State | None = None,
        intercepts: Array | None = None,
    ) -> None:  # fmt: skip
        c, r, n = weights.shape
        extra = len(plan) - plan.n_anneal
        self.plan, self.key, self.rungs, self.n_ladders = plan, np.uint64(key), rungs, c
        ladder = _on_ladder(plan, rungs)
        found = np.empty((c, r, 0)) if intercepts is None else intercepts
        shifts = np.ascontiguousarray(found).reshape(c * r, found.shape[2])
        self.chains = Chains.start(
            np.ascontiguousarray(weights).reshape(c * r, n), ladder, records=1, intercepts=shifts
        )
        self.chains.stage, self.chains.sweep = np.tile(np.arange(r), c), plan.n_anneal
        self.energy = np.full((c, extra), np.nan)  # ΣU at the last rung
        self.accepted = np.zeros((c, extra), np.int32)  # flips made there
        self.draws = np.zeros((c, plan.n_draws, n), weights.dtype)
        self.shifts = np.zeros((c, plan.n_draws, shifts.shape[1]))
        self.swaps = np.zeros((2, r - 1), np.int64)  # exchanges tried and made between neighbouring rungs
        self.way = np.zeros(c * r, np.int8)  # UP, DOWN, or 0 where a replica has not yet been at the last rung
        self.trips = np.zeros(c, np.int64)  # times that a replica went from the last rung to the first and back
        if stored is not None:
            self._restore(stored)
        self.flips: Flips = make(ladder, c * r)
        self.flips.place(self.chains)

    def state(self) -> dict[str, Array]:
        chains = self.chains
        records = {
            name: getattr(self, name) for name in ("rungs", "energy", "accepted", "draws", "shifts")
        }  # only added to
        overwritten = {name: getattr(self, name).copy() for name in _COUNTS}
        overwritten |= {name: getattr(chains, name).copy() for name in ("stage", "solved_at", "intercepts")}
        weights = self.flips.weights_of(chains, np.arange(len(chains.weights)))
        return {**records, **overwritten, "weights": weights, "sweep": np.array(chains.sweep)}

    def _restore(self, stored: State) -> None:
        self.chains.stage, self.chains.sweep = stored["stage"], int(stored["sweep"])
        self.chains.solved_at[...] = stored["solved_at"]
        done = self.chains.sweep - self.plan.n_anneal
        self.energy[:, :done], self.accepted[:, :done] = stored["energy"][:, :done], stored["accepted"][:, :done]
        for name in ("draws", "shifts", *_COUNTS):
            getattr(self, name)[...] = stored[name]

    @property
    def done(self) -> bool:
        return self.chains.sweep >= len(self.plan)

    def places(self) -> Array:
        """Return (C, R) the row that is at each rung."""
        c, r = self.n_ladders, len(self.rungs)
        return np.argsort(self.chains.stage.reshape(c, r), axis=1) + r * np.arange(c)[:, None]

    def thresholds(self, sweep: int) -> Array:
        """Return what decides the exchanges after a sweep, -log u (C, R - 1)."""
        from solspace.samplers.kernels.philox import exponentials

        thresholds = np.empty((self.n_ladders, len(self.rungs) - 1))
        exponentials(self.key, sweep, thresholds)
        return thresholds

    def step(self) -> None:
        begun = time.perf_counter()
        while not self.done:
            self.sweep()
            if time.perf_counter() - begun >= BEAT:
                break

    def sweep(self) -> None:
        chains, plan = self.chains, self.plan
        now = chains.begun = chains.sweep
        sweeps, kept = slice(now, now + 1), now - plan.n_anneal
        prepared = self.flips.prepare(sweeps)
        self.flips.launch(chains, sweeps, prepared)
        self.flips.collect(chains)
        self.accepted[:, kept] = chains.accepted[self.places()[:, -1], 0]
        chains.accepted[...] = 0
        self.energy[:, kept] = self.exchange(now, prepared)
        if plan.draw_at[now] >= 0:
            self.draws[:, plan.draw_at[now]] = self.flips.weights_of(chains, self.places()[:, -1])
            self.shifts[:, plan.draw_at[now]] = chains.intercepts[self.places()[:, -1]]
        chains.sweep += 1

    def exchange(self, sweep: int, prepared: object) -> Array:
        """Exchange neighbours after `sweep`; return ΣU (C,) of the replicas that are then at the last rung."""
        stage = self.chains.stage
        first, upper, lower, change, energy = self.proposed(sweep, prepared)
        made = change <= self.thresholds(sweep)[:, first]
        stage[upper[made]], stage[lower[made]] = stage[lower[made]], stage[upper[made]]
        self.swaps[:, first] += np.stack([np.full(len(first), len(made)), made.sum(axis=0)])
        places = self.places()
        top, bottom = places[:, 0], places[:, -1]
        self.way[top] = np.where(self.way[top] == UP, DOWN, self.way[top])
        self.trips += self.way[bottom] == DOWN
        self.way[bottom] = UP
        return energy[bottom]

    def proposed(self, sweep: int, prepared: object) -> tuple[Array, Array, Array, Array, Array]:
        """Return the pairs of a sweep, the rows at their earlier and later rungs (C, pairs), and Δ of their exchange.

        And ΣU (C R,) at the last rung of those that are there or may come to be there.
        """
        stage, rungs, rows = self.chains.stage, len(self.rungs), self.places()
        first = np.arange(sweep % 2, rungs - 1, 2)
        own, here = self.flips.energies_at(stage, prepared)
        other, there = self.flips.energies_at(self.partners(sweep)[stage], prepared)
        upper, lower = rows[:, first], rows[:, first + 1]
        change = (other[upper] - own[upper]) + (other[lower] - own[lower])
        return first, upper, lower, change, np.where(stage == rungs - 1, here, there)

    def partners(self, sweep: int) -> Array:
        """Return the rung (R,) with which each may exchange after `sweep`, itself where there is none."""
        partner = np.arange(len(self.rungs))
        first = np.arange(sweep % 2, len(partner) - 1, 2)
        partner[first], partner[first + 1] = first + 1, first
        return partner

    def stop(self) -> None:
        self.flips.stop()


def run_exchange(
    make: MakeFlips, plan: Plan, key: int, n_chains: int, n_rungs: int | None, store: Checkpoint | None, report: Report
) -> tuple[Chains, Values]:
    """Run pilots through the schedule, then ladders that start from their weights; return the chains and their record."""
    from solspace.samplers.annealing.gpu import GpuExchange, GpuFlips

    before = _pilot_plan(plan)
    flips = make(before, max(n_chains, PILOTS))
    kind = GpuExchange if isinstance(flips, GpuFlips) else Exchange
    pilots = Chains.start(flips.first_weights(), before, intercepts=flips.first_intercepts())
    exchange = None

    def named(state: State) -> dict[str, Array]:
        return {f"pilot_{name}": value for name, value in state.items()}

    if store and (stored := store.load()) is not None:
        state = {name.removeprefix("pilot_"): value for name, value in stored.items() if name.startswith("pilot_")}
        if "rungs" in stored:  # the pilots' draws are no longer needed
            weights = stored["weights"].reshape(n_chains, len(stored["rungs"]), -1)
            shifts = stored["intercepts"].reshape(*weights.shape[:2], stored["intercepts"].shape[1])
            exchange = kind(make, plan, key, weights, stored["rungs"], stored, shifts)
            state |= {"draws": pilots.draws, "shifts": pilots.shifts}
        pilots.restore(state)
    if exchange is None:
        run_to_end(Run(flips, pilots, before), report, store, named)
        chosen = _choose_rungs(make, before, pilots.draws, pilots.shifts, n_rungs)
        marks = np.flatnonzero(before.draw_at >= 0)
        drawn, shifts = pilots.draws[:n_chains, chosen], pilots.shifts[:n_chains, chosen]
        exchange = kind(make, plan, key, drawn, marks[chosen], None, shifts)
    done = named({**pilots.state(), "draws": pilots.draws[:0], "shifts": pilots.shifts[:0]})
    run_to_end(exchange, report, store, lambda ladders: {**done, **ladders})
    first, pilots = exchange.chains.solved_at.reshape(n_chains, -1), pilots.of(slice(0, n_chains))
    later = np.where(first < 0, len(plan), first).min(axis=1)
    chains = replace(
        pilots,
        draws=exchange.draws,
        shifts=exchange.shifts,
        accepted=np.hstack([pilots.accepted, exchange.accepted]),
        energy=np.hstack([pilots.energy, exchange.energy]),
        solved_at=np.where(pilots.solved_at >= 0, pilots.solved_at, np.where(later < len(plan), later, -1)),
    )
    tried, made = exchange.swaps
    swaps = {"swap_acceptance": made / np.maximum(tried, 1), "round_trips": exchange.trips}
    return chains, {"kernel": flips.kernel, "ladder": exchange.rungs, **swaps}


def _on_ladder(plan: Plan, rungs: Array) -> Plan:
    """Return the plan without draws of chains that stay at the stages of the sweeps `rungs`."""
    return replace(plan, ladder=[plan.stages[int(t)] for t in rungs], draw_at=np.full(len(plan), -1))


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


def _choose_rungs(make: MakeFlips, pilot: Plan, weights: Array, shifts: Array, n_rungs: int | None) -> Array:
    """Return the marks, the last among them, that become rungs, (rungs,); `weights` (pilots, marks, n) were left at them.

    With these as samples of two neighbouring stages, the mean chance of an exchange is erfc(d/2), as Δ is nearly Gaussian with
    mean d² and variance 2 d²; d adds up along the schedule (the Fisher-Rao length). Rungs at equal lengths have equal chances.
    """
    marks = weights.shape[1]
    if n_rungs is not None and n_rungs > marks:
        raise ValueError(f"n_rungs must be at most {marks}, the stages of this schedule to choose from; got {n_rungs}.")
    along = np.append(0.0, np.cumsum(_lengths(make, pilot, weights, shifts)))
    enough = int(np.ceil(along[-1] / (2 * erfcinv(ACCEPTED)))) + 1
    count = n_rungs or min(max(enough, 2), MOST, marks)
    # pilots that fall behind the schedule differ too little in its middle and too much at its end: half of the rungs are
    # spread evenly instead
    even = np.linspace(0, 1, marks)
    return _spread((along / max(along[-1], 1e-300) + even) / 2, count)


def _lengths(make: MakeFlips, pilot: Plan, weights: Array, shifts: Array) -> Array:
    """Return the length d between neighbouring marks, (marks - 1,)."""
    at = np.flatnonzero(pilot.draw_at >= 0)
    ladder = _on_ladder(pilot, at)
    flips = make(ladder, len(weights))
    prepared = flips.prepare(slice(0, 1))
    rises = np.zeros((len(at), 2, len(weights)))
    for mark in range(len(at)):
        left = np.ascontiguousarray(weights[:, mark]), np.ascontiguousarray(shifts[:, mark])
        flips.place(Chains.start(left[0], ladder, records=0, intercepts=left[1]))
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
    step = np.arange(count)
    places = np.searchsorted(along, np.linspace(along[0], along[-1], count) - 1e-12)
    # no place twice, and room for those to come
    places = np.minimum(np.maximum.accumulate(places - step) + step, len(along) - count + step)
    places[0] = 0
    return places
