"""Iterate messages until every column stands still, each with the damping it needs.

A column has converged when the mean squared change of its means falls below `tolerance` times the mean variance of its
weights. Converged columns are frozen, and when a register's worth of them has gathered the others go on alone, so that
one slow column does not stall a batch. What a column does never depends on its neighbours, but for rounding.

Automatic damping climbs a ladder. A column that *blows up* (not finite, changing more and more, or still tossing about
at the iteration limit) goes back to where the call found it and tries again one rung higher; one that is merely slow,
as all are near the algorithm's threshold, goes up to a half and no further. Rungs are kept from call to call. Near the
threshold many calls do not converge whatever one does, so a column that has just missed gets fewer iterations the next
time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.samplers.kernels.products import width
from solspace.samplers.marginals.cpu import Messages

Array = NDArray[Any]
LADDER = (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
SLOW_TOP = 0.5
"""Highest rung for a column that is slow but does not blow up."""
TOSSING = 0.1
"""Mean squared change of a mean above which a column that does not settle counts as blown up."""
IMPATIENCE, LEAST_PATIENCE = 0.5, 0.4
"""Factor on the iteration limit after a call that missed, and the least it comes to; one that converges restores it."""


@dataclass
class Effort:
    """What a relaxation took, for each column (k,)."""

    iterations: Array
    converged: Array
    blown: Array
    """True where even the strongest damping did not help: the column is back where it was."""
    residual: Array
    """Last mean squared change of the means over the mean variance of the weights."""

    @classmethod
    def none(cls, k: int) -> Effort:
        """Return the effort of `k` columns that need none."""
        return cls(np.zeros(k, int), np.ones(k, bool), np.zeros(k, bool), np.zeros(k))

    def __add__(self, later: Effort) -> Effort:
        return Effort(
            self.iterations + later.iterations,
            self.converged & later.converged,
            self.blown | later.blown,
            later.residual,
        )

    def of(self, lanes: Array) -> Effort:
        """Return the effort of the columns `lanes`."""
        return Effort(self.iterations[lanes], self.converged[lanes], self.blown[lanes], self.residual[lanes])


class Relaxation:
    """Messages with a damping (k,) and a patience (k,) for each column; where `automatic` the damping climbs."""

    def __init__(self, messages: Messages, damping: Any, automatic: bool) -> None:
        self.messages, self.automatic = messages, automatic
        self.damping = np.broadcast_to(damping, messages.k).astype(float)
        self.patience = np.ones(messages.k)
        self._start = messages.state()

    def run(self, field: Array, time: Array, tolerance: Array, limit: Array, lanes: Array) -> Effort:
        """Relax the columns `lanes` at `field` (n, width) and `time` (k,), with `tolerance` (k,) and `limit` (k,).

        The limit counts undamped iterations: from a damping of 0.3 on it grows as 1/(1 - damping).
        """
        k = self.messages.k
        effort = Effort.none(k)
        effort.converged[lanes] = False
        for kept, current in zip(self._start, self.messages.state(copy=False)):
            np.copyto(kept, current)
        todo = lanes = np.asarray(lanes)
        limit = limit * self.patience
        while len(todo):
            blown = self._relax(field, time, tolerance, limit, todo, effort)
            for kept, current in zip(self._start, self.messages.state(copy=False)):
                current[..., blown] = kept[..., blown]
            todo = climb(self.damping, blown, self.automatic, effort)
        settle(self.damping, self.patience, lanes, self.automatic, effort)
        return effort

    def _relax(self, field: Array, time: Array, tolerance: Array, limit: Array, lanes: Array, effort: Effort) -> Array:
        """Iterate until each of `lanes` converges, blows up or reaches its limit; return those that blew up."""
        whole = self.messages
        batch, h = whole, field
        if len(lanes) < whole.k:
            batch, h = whole.take(lanes), whole.part(field, lanes)
        moving = np.ones(len(lanes), bool)
        count, best = np.zeros(len(lanes), int), np.full(len(lanes), np.inf)
        blown: list[int] = []
        while moving.any():
            if width(int(moving.sum()), whole.dtype) < batch.mean.shape[1]:
                keep = np.flatnonzero(moving)
                if batch is not whole:
                    whole.put(batch, lanes)
                lanes, count, best, moving = lanes[keep], count[keep], best[keep], moving[keep]
                batch, h = batch.take(keep), batch.part(h, keep)
            weight = np.where(moving, 1 - self.damping[lanes], 0)
            change, residual = batch.iterate(h, time[lanes], weight)
            count += moving
            cap = limit[lanes] * np.maximum(1, 0.7 / (1 - self.damping[lanes]))
            done = moving & (residual < tolerance[lanes])
            late = moving & ~done & (count >= cap)
            worse = (residual > 1) & (residual > 10 * best) & (change > TOSSING)
            tossing = late & (change > TOSSING) & (self.patience[lanes] == 1)
            lost = moving & (~np.isfinite(residual) | worse | tossing)
            best = np.fmin(best, residual)
            effort.residual[lanes] = np.where(moving, residual, effort.residual[lanes])
            effort.iterations[lanes] += moving
            effort.converged[lanes[done]] = True
            blown += list(lanes[lost])
            moving &= ~(done | late | lost)
        if batch is not whole:
            whole.put(batch, lanes)
        return np.array(blown, int)


def climb(damping: Array, blown: Array, automatic: bool, effort: Effort) -> Array:
    """Damp the columns `blown` one rung more and return those to try again; the others are given up."""
    rungs = np.array([_rung_above(d) if automatic else np.inf for d in damping[blown]])
    effort.blown[blown[np.isinf(rungs)]] = True
    todo = blown[np.isfinite(rungs)]
    damping[todo] = rungs[np.isfinite(rungs)]
    return todo


def settle(damping: Array, patience: Array, lanes: Array, automatic: bool, effort: Effort) -> None:
    """After a call: damp the slow among `lanes` more, and spend less on those that did not converge next time."""
    if automatic:
        slow = lanes[~(effort.converged | effort.blown)[lanes]]
        damping[slow] = [max(d, min(_rung_above(d), SLOW_TOP)) for d in damping[slow]]
    less = np.maximum(patience[lanes] * IMPATIENCE, LEAST_PATIENCE)
    patience[lanes] = np.where(effort.converged[lanes], 1.0, less)


def _rung_above(damping: float) -> float:
    return next((rung for rung in LADDER if rung > damping + 1e-9), np.inf)
