"""The record of a localization: what happened at every step, for every sample."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np

from solspace.numerics.arrays import Array


class Record:
    """Rows of (k,) values, one row a step: time, overlap |m|²/n, AMP iterations, whether they converged, λ.

    Rows of a sample that has arrived (or diverged) hold NaN, 0 iterations and True. `means()` returns where the samples
    stand now: their posterior means (k, n).

    >>> record = Record(means=lambda: np.zeros((2, 5)))
    >>> record.add(t=np.zeros(2), overlap=np.zeros(2), iterations=np.ones(2, int), converged=np.ones(2, bool),
    ...            instability=np.zeros(2))
    >>> len(record), record.t.shape
    (1, (1, 2))
    """

    TYPES: ClassVar = {"t": float, "overlap": float, "iterations": int, "converged": bool, "instability": float}
    """What is recorded, and the types of its values."""

    def __init__(self, means: Callable[[], Array]) -> None:
        self._rows: dict[str, list[Array]] = {name: [] for name in self.TYPES}
        self.means = means

    def add(self, **values: Array) -> None:
        """Append a row."""
        for name in self.TYPES:
            self._rows[name].append(np.array(values[name], self.TYPES[name]))

    def __len__(self) -> int:
        return len(self._rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in self.TYPES:
            return np.array(self._rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        """Return the record as arrays (steps, k) by name."""
        return {name: getattr(self, name) for name in self.TYPES}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take up what `arrays` returned."""
        self._rows = {name: list(arrays[name]) for name in self.TYPES}
