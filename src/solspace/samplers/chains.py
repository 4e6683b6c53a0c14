"""The state of annealed chains and the work laid out for them, apart from what moves them.

`Chains` is the least that the next sweep needs, and the record of the sweeps done. Random numbers are functions of
(key, chain, sweep), and cached stabilities follow from the weights, so that weights and a sweep number are all there
is to store: a run taken up again from them goes on as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure import Target
from solspace.samplers.schedules import Stage

Array = NDArray[Any]


@dataclass(frozen=True)
class Plan:
    """The sweeps of a call: a stage for each, which of them are lazy, and which end in a draw.

    The first `n_anneal` sweeps follow the schedule; further ones repeat its last stage. Those are *lazy*: one proposal
    in 32 is left out at random. Sites are visited in a fresh random order, each once a sweep; a weight whose flip
    costs nothing would otherwise flip at every sweep, and every second sweep find it as it was.
    """

    stages: Sequence[Stage]
    n_anneal: int
    draw_at: Array
    solve: bool

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

    @property
    def target(self) -> Target:
        """The law that the last stage samples."""
        return self.stages[-1].target

    @property
    def n_draws(self) -> int:
        """Draws that each chain makes."""
        return int(self.draw_at.max(initial=-1)) + 1

    def lazy(self, sweeps: slice) -> Array:
        """Return whether each of `sweeps` leaves proposals out."""
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

    @classmethod
    def start(cls, weights: Array, plan: Plan) -> Chains:
        """Return chains at `weights` before the first sweep of `plan`."""
        k, n = weights.shape
        return cls(
            weights=weights,
            draws=np.zeros((k, plan.n_draws, n), np.int8),
            accepted=np.zeros((k, len(plan)), np.int32),
            energy=np.full((k, len(plan)), np.nan),
            solved_at=np.full(k, -1, np.int64),
            stopped=np.zeros(k, np.bool_),
        )

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
