"""Iterate messages until every column stands still, each with the damping it needs.

A column has converged when the mean squared change of its means falls below `tolerance` times the mean variance of its
weights. Columns at rest are frozen, and when enough of them have gathered the others go on alone, so that one slow
column does not stall a batch. What a column does never depends on its neighbours, but for rounding.

Automatic damping climbs a ladder. A column that *blows up* (not finite, changing more and more, or still tossing about
at the iteration limit) goes back to where the call found it and tries again one rung higher. One that is merely slow,
as all are near the algorithm's threshold, goes up to a half and no further: at once, from where it is, if the
relaxation is `persistent`, else in the next call. Rungs are kept from call to call. Near the threshold many calls do
not converge whatever one does, so a column that has just missed gets fewer iterations the next time, and no more.

All of this is here, once, and knows no device. A backend (`cpu.Messages`, `gpu.GpuMessages`) holds the messages and does
what `Backend` below asks for: take some columns through iterations, keep them, put them back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from solspace.numerics.arrays import Array

LADDER = (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
SLOW_TOP = 0.5
"""Highest rung for a column that is slow but does not blow up."""
TOSSING = 0.1
"""Mean squared change of a mean above which a column that does not settle counts as blown up."""
IMPATIENCE, LEAST_PATIENCE = 0.5, 0.4
"""Factor on the iteration limit after a call that missed, and the least it comes to; one that converges restores it."""
MOVING, CONVERGED, SLOW, BLOWN = range(4)
"""What an iteration finds of a column."""


@dataclass(frozen=True)
class Terms:
    """On what terms columns iterate, (k,) each."""

    tolerance: Array
    damping: Array
    cap: Array
    """Most iterations."""
    patient: Array
    """False for a column that missed its tolerance in the last call: it may stop at its cap wherever it is."""
    count: Array
    """Iterations made so far, and"""
    best: Array
    """the smallest residual met in them."""

    def of(self, lanes: Array) -> Terms:
        """Return the terms of the columns `lanes`."""
        return Terms(*(values[lanes] for values in vars(self).values()))


class Ending(NamedTuple):
    """What became of columns, (k,) each: MOVING … BLOWN, iterations so far, smallest and last residual."""

    outcome: Array
    iterations: Array
    best: Array
    residual: Array


class Columns(Protocol):
    """Some columns on their way, side by side."""

    few: int
    """When no more than so many move, these are better arranged anew."""

    @property
    def lanes(self) -> Array:
        """Which columns of the whole they are."""
        ...

    def iterate(self) -> int:
        """Move those that move by some iterations, freeze each that `judge` finds at rest; return how many still move."""
        ...

    def end(self) -> Ending:
        """Give the columns back to the whole."""
        ...


class Backend(Protocol):
    """The messages of `k` columns, wherever they are kept."""

    @property
    def k(self) -> int:
        """How many columns."""
        ...

    def columns(self, lanes: Array, terms: Terms) -> Columns:
        """Return the columns `lanes`, ready to iterate on `terms` (theirs, in their order)."""
        ...

    def keep(self) -> None:
        """Remember all messages as they are."""

    def restore(self, lanes: Array) -> None:
        """Put the columns `lanes` back to where `keep` found them."""


def judge(change: Array, residual: Array, terms: Terms, count: Array, best: Array) -> Array:
    """Return the outcome (k,) of iteration number `count` that changed the means by `change`, mean squared.

    `residual` is the change over the mean variance of the weights, `best` the smallest one before. A device decides the
    same in its kernel `control`.
    """
    done = residual < terms.tolerance
    late = ~done & (count >= terms.cap)
    worse = (residual > 1) & (residual > 10 * best) & (change > TOSSING)
    lost = ~np.isfinite(residual) | worse | (late & (change > TOSSING) & terms.patient)
    return np.select([lost, done, late], [BLOWN, CONVERGED, SLOW], MOVING)


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
    """Messages with a damping (k,) and a patience (k,) for each column; where `automatic` the damping climbs.

    One that is `persistent` gives a slow column its limit again on each rung that it climbs.
    """

    def __init__(self, messages: Backend, damping: float, automatic: bool, persistent: bool = False) -> None:
        self.messages, self.automatic, self.persistent = messages, automatic, automatic and persistent
        self.damping, self.patience = np.full(messages.k, float(damping)), np.ones(messages.k)

    def run(self, tolerance: Array, limit: Array, lanes: Array) -> Effort:
        """Relax the columns `lanes` with `tolerance` (k,) and `limit` (k,), where their field and time stand.

        The limit counts undamped iterations: from a damping of 0.3 on it grows as 1/(1 - damping).
        """
        effort = Effort.none(self.messages.k)
        effort.converged[lanes] = False
        self.messages.keep()
        limit = limit * self.patience
        todo = np.asarray(lanes)
        while len(todo):
            blown = self._iterate(todo, tolerance, limit, effort)
            if len(blown):
                self.messages.restore(blown)
            slow = np.setdiff1d(todo, blown)
            todo = np.union1d(self._climb(blown, effort), self._go_on(slow[~effort.converged[slow]]))
        self._settle(np.asarray(lanes), effort)
        return effort

    def _iterate(self, todo: Array, tolerance: Array, limit: Array, effort: Effort) -> Array:
        """Iterate until each of `todo` converges, blows up or reaches its limit; return those that blew up."""
        k = self.messages.k
        cap = limit * np.maximum(1, 0.7 / (1 - self.damping))
        terms = Terms(tolerance, self.damping, cap, self.patience == 1, np.zeros(k, int), np.full(k, np.inf))
        blown: list[Array] = []
        while len(todo):
            columns = self.messages.columns(todo, terms.of(todo))
            while columns.iterate() > columns.few:
                pass
            lanes, ending = columns.lanes, columns.end()
            effort.iterations[lanes] += ending.iterations - terms.count[lanes]
            effort.residual[lanes] = ending.residual
            effort.converged[lanes[ending.outcome == CONVERGED]] = True
            terms.count[lanes], terms.best[lanes] = ending.iterations, ending.best
            blown.append(lanes[ending.outcome == BLOWN])
            todo = lanes[ending.outcome == MOVING]
        return np.concatenate(blown)

    def _climb(self, blown: Array, effort: Effort) -> Array:
        """Damp the columns `blown` one rung more and return those to try again; the others are given up."""
        rungs = np.array([_rung_above(d) if self.automatic else np.inf for d in self.damping[blown]])
        effort.blown[blown[np.isinf(rungs)]] = True
        todo = blown[np.isfinite(rungs)]
        self.damping[todo] = rungs[np.isfinite(rungs)]
        return todo

    def _go_on(self, slow: Array) -> Array:
        """Damp the columns `slow` one rung more and return those to go on with: not those that missed the last time too."""
        going = slow[self.persistent & (self.damping[slow] < SLOW_TOP) & (self.patience[slow] == 1)]
        self.damping[going] = [min(_rung_above(d), SLOW_TOP) for d in self.damping[going]]
        return going

    def _settle(self, lanes: Array, effort: Effort) -> None:
        """After a call: damp the slow among `lanes` more, and spend less on those that did not converge next time."""
        if self.automatic:
            slow = lanes[~(effort.converged | effort.blown)[lanes]]
            self.damping[slow] = [max(d, min(_rung_above(d), SLOW_TOP)) for d in self.damping[slow]]
        less = np.maximum(self.patience[lanes] * IMPATIENCE, LEAST_PATIENCE)
        self.patience[lanes] = np.where(effort.converged[lanes], 1.0, less)


def _rung_above(damping: float) -> float:
    return next((rung for rung in LADDER if rung > damping + 1e-9), np.inf)
