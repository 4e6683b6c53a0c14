"""The record of a localization: what happened at every step, for every sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solspace.numerics.arrays import Array

NAMES = ("t", "overlap", "iterations", "converged", "instability")


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

    def __init__(self, means: Callable[[], Array]) -> None:
        self._rows: dict[str, list[Array]] = {name: [] for name in NAMES}
        self.means = means

    def add(self, **values: Array) -> None:
        """Append a row."""
        for name in NAMES:
            self._rows[name].append(np.array(values[name]))

    def __len__(self) -> int:
        return len(self._rows["t"])

    def __getattr__(self, name: str) -> Array:
        if name in NAMES:
            return np.array(self._rows[name])
        raise AttributeError(name)

    def arrays(self) -> dict[str, Array]:
        """Return the record as arrays (steps, k) by name."""
        return {name: getattr(self, name) for name in NAMES}

    def load(self, arrays: dict[str, Array]) -> None:
        """Take up what `arrays` returned."""
        self._rows = {name: list(arrays[name]) for name in NAMES}
