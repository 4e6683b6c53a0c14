"""Replica exchange: chains that are stuck at the last stage borrow the freedom of earlier ones.

Each chain becomes a *ladder* of replicas, one at every rung: stages of the schedule, from one at which chains still move
freely down to the last (`ladder` finds them). All replicas make a heat-bath sweep; then neighbours a, b at stages i, j may
exchange their stages, which is accepted with probability

    min(1, exp(-Δ)),    Δ = [E_j(w_a) - E_i(w_a)] + [E_i(w_b) - E_j(w_b)],

where E are the integer energies of the kernels over kT: the product of the rungs' measures stays exactly where it is.
Pairs (0, 1), (2, 3), ... and (1, 2), (3, 4), ... take turns, so that replicas travel rather than diffuse (Okabe et al.
2001; Syed et al. 2022). Draws come from the last rung alone. Where replicas start, and the whole call: `course`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.ladder import MakeFlips
from solspace.samplers.annealing.run import Flips

UP, DOWN = 1, 2
"""Ways of a replica that has been at the last rung, and since then at the first."""


@dataclass
class Ladders:
    """C ladders of R replicas: row c R + r of `replicas` is replica r of ladder c, at whichever rung it now is."""

    rungs: Array
    """(R,) sweeps of the schedule whose stages they are."""
    replicas: Chains
    energy: Array
    """(C, sweeps) ΣU at the last rung, and"""
    accepted: Array
    """(C, sweeps) flips made there, in the sweeps after the schedule."""
    draws: Array
    """(C, draws, n)."""
    swaps: Array
    """(2, R - 1) exchanges tried and made between neighbouring rungs."""
    way: Array
    """(C R,) UP, DOWN, or 0 where a replica has not yet been at the last rung."""
    trips: Array
    """(C,) times that a replica went from the last rung to the first and back."""

    @classmethod
    def start(cls, weights: Array, rungs: Array, plan: Plan) -> Ladders:
        """Return ladders whose replicas are at `weights` (C, R, n)."""
        c, r, n = weights.shape
        extra = len(plan) - plan.n_anneal
        replicas = Chains.start(weights.reshape(c * r, n), replace(plan, draw_at=np.full(len(plan), -1)), records=1)
        replicas.stage, replicas.sweep = np.tile(np.arange(r), c), plan.n_anneal
        return cls(
            rungs, replicas, np.full((c, extra), np.nan), np.zeros((c, extra), np.int32),
            np.zeros((c, plan.n_draws, n), np.int8), np.zeros((2, max(r - 1, 0)), np.int64), np.zeros(c * r, np.int8),
            np.zeros(c, np.int64),
        )  # fmt: skip

    def places(self) -> Array:
        """Return (C, R) the row that is at each rung."""
        c, r = len(self.trips), len(self.rungs)
        return np.argsort(self.replicas.first_stage().reshape(c, r), axis=1) + r * np.arange(c)[:, None]

    def state(self, weights: Array) -> dict[str, Array]:
        """Return all that is to be stored, the replicas' current `weights` given."""
        return {
            "rungs": self.rungs, "weights": weights, "stage": self.replicas.first_stage().copy(),
            "sweep": np.array(self.replicas.sweep), "solved_at": self.replicas.solved_at.copy(), "energy": self.energy,
            "accepted": self.accepted, "draws": self.draws, "swaps": self.swaps.copy(), "way": self.way.copy(),
            "trips": self.trips.copy(),
        }  # fmt: skip

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
        own = replace(plan, ladder=[plan.stages[t] for t in ladders.rungs], draw_at=np.full(len(plan), -1))
        self.flips: Flips = make(own, len(ladders.replicas.weights))
        self.flips.place(ladders.replicas)

    @property
    def done(self) -> bool:
        """Whether all sweeps were made."""
        return self.ladders.replicas.sweep >= len(self.plan)

    def step(self) -> None:
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
        """Exchange neighbours after `sweep`; return ΣU (C,) of who is then at the last rung."""
        from solspace.samplers.kernels.philox import exponentials

        ladders, stage = self.ladders, self.ladders.replicas.first_stage()
        first, upper, lower, change, energy = self.proposed(sweep, prepared)
        luck = np.empty((len(ladders.trips), len(ladders.rungs) - 1))
        exponentials(self.key, sweep, luck)
        made = change <= luck[:, first]
        stage[upper[made]], stage[lower[made]] = stage[lower[made]], stage[upper[made]]
        ladders.swaps[:, first] += np.stack([np.full(len(first), len(made)), made.sum(axis=0)])
        places = ladders.places()
        self._count(places)
        return energy[places[:, -1]]

    def proposed(self, sweep: int, prepared: object) -> tuple[Array, Array, Array, Array, Array]:
        """Return the pairs of a sweep, the rows at their earlier and later rungs (C, pairs), and Δ of their exchange.

        And ΣU (C R,) at the last rung of those who are there or may come to be there.
        """
        ladders, stage = self.ladders, self.ladders.replicas.first_stage()
        rungs, rows = len(ladders.rungs), ladders.places()
        first = np.arange(sweep % 2, rungs - 1, 2)
        own, here = self.flips.weigh(stage, prepared)
        other, there = self.flips.weigh(self.partners(sweep)[stage], prepared)
        upper, lower = rows[:, first], rows[:, first + 1]
        change = (other[upper] - own[upper]) + (other[lower] - own[lower])
        return first, upper, lower, change, np.where(stage == rungs - 1, here, there)

    def partners(self, sweep: int) -> Array:
        """Return the rung (R,) with which each may exchange after `sweep`, itself where there is none."""
        partner = np.arange(len(self.ladders.rungs))
        first = np.arange(sweep % 2, len(partner) - 1, 2)
        partner[first], partner[first + 1] = first + 1, first
        return partner

    def _count(self, places: Array) -> None:
        """Count the replicas that came home to the last rung from the first."""
        ladders, top, bottom = self.ladders, places[:, 0], places[:, -1]
        ladders.way[top] = np.where(ladders.way[top] == UP, DOWN, ladders.way[top])
        ladders.trips += ladders.way[bottom] == DOWN
        ladders.way[bottom] = UP

    def state(self) -> dict[str, Array]:
        """Return all that is to be stored."""
        replicas = self.ladders.replicas
        return self.ladders.state(self.flips.weights_of(replicas, np.arange(len(replicas.weights))))
