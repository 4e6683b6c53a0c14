"""The t–α diagram of a page, grown in the background: thresholds first, then a few loads at a time.

What is asked for depends on the target alone, so pages that look at the same measure share every answer.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from solspace.explorer.pool import Pool
from solspace.measure import Target
from solspace.system.plain import Values

COLUMNS = 36
"""Loads at which the lines are computed, half of them where the regimes change."""
BATCH = 4
LINES = ("first", "maxwell", "last")


class Diagram:
    """The lines t(α) known so far."""

    def __init__(
        self, pool: Pool, asker: Hashable, later: Callable[[Callable[[], None]], None], grown: Callable[[Diagram], None]
    ) -> None:
        self.pool, self.asker, self.later, self.grown = pool, asker, later, grown
        self.target = ""
        self.thresholds: Values | None = None
        self.alphas = (0.0, 1.0)
        self.lines: Values = {name: np.array([]) for name in ("alpha", *LINES)}
        self._ahead: list[float] = []

    @property
    def frontier(self) -> float | None:
        """The load where ASL stops, once known."""
        return None if self.thresholds is None else self.thresholds["asl"]

    @property
    def unstable_from(self) -> float | None:
        """The load from which replica symmetry is broken, where that comes before capacity."""
        dat = None if self.thresholds is None else self.thresholds["dat"]
        return dat if dat is not None and dat < self.alphas[1] else None

    def follow(self, target: Target) -> None:
        """Start anew for another target."""
        self.target, self.thresholds = target.to_json(), None
        self.lines = {name: np.array([]) for name in self.lines}
        self._ahead = []
        self._ask("thresholds", (self.target,), self._thresholds_came)

    def _ask(self, job: str, args: tuple[object, ...], then: Callable[[Any], None]) -> None:
        target = self.target

        def arrived(kind: str, value: object) -> None:
            if kind == "done" and target == self.target:
                then(value)

        self.pool.ask(self.asker, job, args, lambda kind, value: self.later(partial(arrived, kind, value)))

    def _thresholds_came(self, thresholds: Values) -> None:
        self.thresholds = thresholds
        self.alphas, self._ahead = loads(thresholds)
        self.grown(self)
        self._next()

    def _next(self) -> None:
        if self._ahead:
            batch, self._ahead = tuple(self._ahead[:BATCH]), self._ahead[BATCH:]
            self._ask("columns", (self.target, batch), self._columns_came)

    def _columns_came(self, columns: Values) -> None:
        joined = {name: np.concatenate([self.lines[name], columns[name]]) for name in self.lines}
        order = np.argsort(joined["alpha"])
        self.lines = {name: values[order] for name, values in joined.items()}
        self.grown(self)
        self._next()


def loads(thresholds: Values) -> tuple[tuple[float, float], list[float]]:
    """Return the range of α to show and the loads to compute, the interesting ones first.

    >>> span, alphas = loads({"asl": 0.65, "dat": 0.72, "dynamical": None, "condensation": 0.68, "capacity": 0.83})
    >>> span, len(alphas)
    ((0.0, 0.83), 36)
    """
    known = [value for value in thresholds.values() if value is not None]
    top = max(thresholds.get("capacity") or 0.0, thresholds.get("zero_entropy") or 0.0)
    if not top or (thresholds.get("asl") or 0.0) > top:  # a soft measure, which goes on past capacity
        top = 1.2 * max(known, default=1.0)
    first = thresholds.get("asl") or 0.0
    last = thresholds.get("condensation") or thresholds.get("dat") or top
    last = min(top, last + 0.3 * (last - first)) if last > first else top
    near = np.linspace(first, last, COLUMNS // 2)
    below = first * np.array([0.01, 0.33, 0.67]) if first > 0 else np.array([])
    above = np.linspace(last, top, COLUMNS - len(near) - len(below) + 1)[1:]
    alphas = [float(alpha) for alpha in dict.fromkeys(np.concatenate([near, below, above])) if alpha > 0.001 * top]
    return (0.0, float(top)), alphas
