"""The state of annealed chains and the work laid out for them, apart from what moves them.

`Chains` is the least that the next sweep needs, and the record of the sweeps done. Random numbers are functions of
(key, chain, sweep), and cached stabilities follow from the weights, so that weights and a sweep number are all there
is to store: a run taken up again from them goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.schedules import Stage
from solspace.samples import Samples
from solspace.system.plain import Values


@dataclass(frozen=True)
class Plan:
    """The sweeps of a call: a stage for each, and which of them end in a draw.

    The first `n_anneal` sweeps follow the schedule by Metropolis' rule. Further sweeps repeat its last stage, and
    there the heat bath decides. Sites come in a fresh random order, each once a sweep and the same for all chains: a
    flip that costs nothing, which Metropolis always accepts, would be made at every sweep, find the weight as it was
    after two, and keep chains that started alike alike for ever. The heat bath makes every second of them, by each
    chain's own choice.

    Where there is a `ladder`, chains do not follow the stages but each keeps to a rung of it (`exchange`).
    """

    stages: Sequence[Stage]
    n_anneal: int
    draw_at: Array
    solve: bool
    ladder: Sequence[Stage] = ()

    @classmethod
    def of(cls, stages: Sequence[Stage], n_extra: int, thin: int, solve: bool) -> Plan:
        """Return the plan of a schedule's `stages`, then `n_extra` sweeps with a draw after every `thin` of them."""
        sweeps = np.arange(1, len(stages) + n_extra + 1)
        after = sweeps - len(stages)
        drawn = (sweeps == len(sweeps)) if n_extra == 0 else (after > 0) & (after % thin == 0)
        draw_at = np.where(drawn & (not solve), np.cumsum(drawn) - 1, -1)
        return cls([*stages, *[stages[-1]] * n_extra], len(stages), draw_at, solve)

    def __len__(self) -> int:
        return len(self.stages)

    def sampled(self, sweeps: slice) -> Sequence[Stage]:
        """Return the stages that chains may be at in these sweeps: one after another, or all rungs of the ladder."""
        return self.ladder or self.stages[sweeps]

    @property
    def stride(self) -> int:
        """Stages of `sampled` from one sweep to the next."""
        return 0 if self.ladder else 1

    @cached_property
    def target(self) -> Target:
        """The law that the last stage samples."""
        return self.stages[-1].target

    @cached_property
    def about(self) -> Values:
        """Temperatures, τ where all stages have one, and the sweeps that end in a draw."""
        about = {"draw_sweep": np.flatnonzero(self.draw_at >= 0)}
        about["temperature"] = np.array([stage.temperature for stage in self.stages])
        potentials = [stage.potential for stage in self.stages]
        taus = [getattr(one, "tau", None) for one in potentials]
        return about if None in taus else {**about, "tau": np.array(taus)}

    @property
    def n_draws(self) -> int:
        """Draws that each chain makes."""
        return int(self.draw_at.max(initial=-1)) + 1

    def bath(self, sweeps: slice) -> Array:
        """Return whether the heat bath decides in each of `sweeps`."""
        return np.arange(len(self))[sweeps] >= self.n_anneal


@dataclass
class Chains:
    """Chains after `sweep` sweeps: weights (k, n) and what was recorded of each sweep, (k, sweeps)."""

    weights: Array
    draws: Array
    accepted: Array
    energy: Array
    solved_at: Array
    stopped: Array
    sweep: int = 0
    field: Array | None = None
    """(k, n) h of the measure p(w) exp(⟨h, w⟩); None: no field."""
    number: Array | None = None
    """(k,) from which, and the call's key, a chain's random numbers are made; None: 0 … k - 1."""
    stage: Array | None = None
    """(k,) rung of the plan's ladder that each chain is at; None: all are at the stage of the sweep."""
    begun: int = 0
    """Sweep that the first record is of."""

    @classmethod
    def start(
        cls,
        weights: Array,
        plan: Plan,
        field: Array | None = None,
        number: Array | None = None,
        records: int | None = None,
    ) -> Chains:
        """Return chains at `weights` before the first sweep of `plan`, with room to record all sweeps or so many."""
        k, n = weights.shape
        records = len(plan) if records is None else records
        return cls(
            weights=weights,
            draws=np.zeros((k, plan.n_draws, n), np.int8),
            accepted=np.zeros((k, records), np.int32),
            energy=np.full((k, records), np.nan),
            solved_at=np.full(k, -1, np.int64),
            stopped=np.zeros(k, np.bool_),
            field=None if field is None else np.ascontiguousarray(field, dtype=np.float64),
            number=number,
        )

    def recorded(self, sweeps: slice) -> slice:
        """Return where `sweeps` are recorded."""
        return slice(sweeps.start - self.begun, sweeps.stop - self.begun)

    def first_stage(self) -> Array:
        """Return (k,) the stage of each chain at the first of some sweeps, counted among those sampled in them."""
        return np.zeros(len(self.weights), np.int64) if self.stage is None else self.stage

    def snapshot(self) -> dict[str, Array]:
        """Return a copy of what the next sweep overwrites."""
        return {
            "weights": self.weights.copy(),
            "solved_at": self.solved_at.copy(),
            "stopped": self.stopped.copy(),
            "sweep": np.array(self.sweep),
        }

    def records(self) -> dict[str, Array]:
        """Return what sweeps only add to."""
        return {"draws": self.draws, "accepted": self.accepted, "energy": self.energy}

    def restore(self, stored: Mapping[str, Array]) -> None:
        """Take over what `snapshot` and `records` gave."""
        for name in ("weights", "draws", "accepted", "energy", "solved_at", "stopped"):
            getattr(self, name)[...] = stored[name]
        self.sweep = int(stored["sweep"])
        # an interrupted run may have written on beyond the sweeps that count
        self.accepted[:, self.sweep :] = 0
        self.energy[:, self.sweep :] = np.nan

    def of(self, rows: slice) -> Chains:
        """Return the chains `rows`."""
        names = ("weights", "draws", "accepted", "energy", "solved_at", "stopped")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def drawn(self, plan: Plan) -> Array:
        """Return the weights that the chains drew, those of a chain side by side."""
        return self.weights if plan.solve else self.draws.reshape(-1, self.weights.shape[1])

    def samples(
        self, problem: Perceptron, plan: Plan, stabilities: Array | None = None, named: bool = True, **told: Any
    ) -> Samples:
        """Return the samples that the chains made; `stabilities` where a device computed them, `told` for their info."""
        k, n = self.weights.shape
        draws = 1 if plan.solve else plan.n_draws
        info = AnnealingInfo(
            mode="solve" if plan.solve else "sample",
            n_chains=k,
            n_draws=draws,
            n_anneal=plan.n_anneal,
            chain=np.repeat(np.arange(k), draws),
            draw=np.tile(np.arange(draws), k),
            acceptance=np.where(np.isfinite(self.energy), self.accepted / n, np.nan),
            energy=self.energy,
            solved_at=self.solved_at,
            **plan.about,
            **told,
        )
        return Samples.of(problem.with_target(plan.target), self.drawn(plan), info, stabilities, named)
