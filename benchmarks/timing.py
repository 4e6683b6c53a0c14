"""Timing and tables: calls timed in turns, medians with their range, tables in Markdown.

Times are processor times of this process, one thread each: the machine may be shared. Calls that are compared are timed in
turns within one run, so that what slows the machine down slows them all.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

Call = Callable[[], Any]
UNITS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))


def figures(value: float) -> str:
    """Return `value` to three figures."""
    return f"{value:.3g}" if value < 1000 else f"{value:,.0f}"


class Spread(NamedTuple):
    """The median of some times in seconds, and the shortest and longest of them."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Any) -> Spread:
        return cls(float(np.median(values)), float(np.min(values)), float(np.max(values)))

    def __str__(self) -> str:
        scale, unit = next(((s, u) for s, u in UNITS if self.median >= 0.999 * s), UNITS[-1])
        median, low, high = (figures(value / scale) for value in self)
        return f"{median} {unit}" if low == high else f"{median} {unit} ({low}–{high})"

    def per(self, count: float) -> Spread:
        """Return the times of one of `count` parts."""
        return Spread(*(value / count for value in self))


def seconds(call: Call) -> float:
    """Return the processor time of one call."""
    start = time.process_time()
    call()
    return time.process_time() - start


def timed(call: Call) -> tuple[float, Any]:
    """Return the processor time of one call, and what it returned."""
    start = time.process_time()
    value = call()
    return time.process_time() - start, value


class Times:
    """Times of several calls, taken in turns after a warm-up."""

    def __init__(self, calls: Mapping[str, Call], rounds: int) -> None:
        for call in calls.values():
            call()
        self.rounds = {name: np.empty(rounds) for name in calls}
        for k in range(rounds):
            for name, call in calls.items():
                self.rounds[name][k] = seconds(call)

    def __getitem__(self, name: str) -> Spread:
        return Spread.of(self.rounds[name])

    def ratio(self, above: str, below: str) -> float:
        """Return the median of the rounds' ratios."""
        return float(np.median(self.rounds[above] / self.rounds[below]))


@dataclass
class Table:
    """A table of figures, with a sentence or two on how they were taken."""

    title: str
    about: str
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]] = field(default_factory=list)

    def add(self, *cells: Any) -> None:
        """Add a row."""
        self.rows.append(tuple(str(cell) for cell in cells))

    def markdown(self) -> str:
        """Return the table in Markdown, under a heading."""
        lines = [self.columns, ("---",) * len(self.columns), *self.rows]
        table = "\n".join(f"| {' | '.join(cell.replace('|', '∣') for cell in line)} |" for line in lines)
        return f"### {self.title}\n\n{self.about}\n\n{table}\n"
