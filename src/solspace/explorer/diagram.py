"""The t–α diagram of a page, computed in the background: thresholds first, then a few loads at a time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any

import numpy as np

from solspace.explorer.curves import columns, thresholds
from solspace.explorer.workers import Pool
from solspace.measure import Target
from solspace.system.plain import Values

COLUMNS = 36
"""Loads at which the lines are computed, half of them where the regimes change."""
BATCH = 4
LINES = ("first", "maxwell", "last")


class Diagram:
    """The lines t(α) known so far, of one target (as JSON) at a time.

    `asker` is the name under which the pool is asked, `schedule` runs a function in an update of the page, and `grown`
    is called whenever more is known.
    """

    def __init__(self, pool: Pool, asker: Hashable, schedule: Callable[..., None], grown: Callable[[], None]) -> None:
        self.pool, self.asker, self.schedule, self.grown = pool, asker, schedule, grown
        self.clear()

    def clear(self, target: str = "") -> None:
        """Forget the lines of another target."""
        self.target = target
        self.thresholds: Values | None = None
        self.alphas = (0.0, 1.0)
        self.lines: Values = {name: np.array([]) for name in ("alpha", *LINES)}
        self._ahead: list[float] = []

    @property
    def unstable_from(self) -> float | None:
        """The load from which replica symmetry is broken, where that comes before capacity."""
        dat = None if self.thresholds is None else self.thresholds["dat"]
        return dat if dat is not None and dat < self.alphas[1] else None

    def start(self, target: Target) -> None:
        """Compute the lines of `target`."""
        self.clear(target.to_json())
        self._ask(self._thresholds_known, thresholds, self.target)

    def _ask(self, then: Callable[[Any], None], function: Callable[..., Any], *args: Hashable) -> None:
        target = self.target

        def answered(kind: str, value: object) -> None:
            if kind == "done" and target == self.target:
                then(value)

        self.pool.ask(self.asker, partial(self.schedule, answered), function, *args)

    def _thresholds_known(self, found: Values) -> None:
        self.thresholds = found
        self.alphas, self._ahead = loads(found)
        self._next()

    def _columns_known(self, found: Values) -> None:
        joined = {name: np.concatenate([self.lines[name], found[name]]) for name in self.lines}
        order = np.argsort(joined["alpha"])
        self.lines = {name: values[order] for name, values in joined.items()}
        self._next()

    def _next(self) -> None:
        self.grown()
        if self._ahead:
            batch, self._ahead = tuple(self._ahead[:BATCH]), self._ahead[BATCH:]
            self._ask(self._columns_known, columns, self.target, batch)


def loads(thresholds: Values) -> tuple[tuple[float, float], list[float]]:
    """Return the range of α to show and the loads to compute, those between the transitions first.

    >>> span, alphas = loads({"asl": 0.65, "dat": 0.72, "dynamical": None, "condensation": 0.68, "capacity": 0.83})
    >>> span, len(alphas)
    ((0.0, 0.83), 36)
    """
    known = [value for value in thresholds.values() if value is not None]
    first = thresholds.get("asl") or 0.0
    top = max(thresholds.get("capacity") or 0.0, thresholds.get("zero_entropy") or 0.0)
    if not top or first > top:  # a soft measure, which continues past capacity
        top = 1.2 * max(known, default=1.0)
    last = thresholds.get("condensation") or thresholds.get("dat") or top
    last = min(top, last + 0.3 * (last - first)) if last > first else top
    near = np.linspace(first, last, COLUMNS // 2)
    below = first * np.array([0.01, 0.33, 0.67]) if first > 0 else np.array([])
    above = np.linspace(last, top, COLUMNS - len(near) - len(below) + 1)[1:]
    alphas = [float(alpha) for alpha in dict.fromkeys(np.concatenate([near, below, above])) if alpha > 0.001 * top]
    return (0.0, float(top)), alphas
