"""Approximate message passing on a CUDA device: `cpu.Messages` with scalar variances, for problems of one shape.

Columns that have come to rest are left behind once they are many and cost much: the others go on in a smaller iteration
(`gpu_columns`), whose sizes are powers of two, so that a few serve for a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from solspace.measure.priors import Binary
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, fetched, sent
from solspace.samplers.marginals.gpu_columns import GpuColumns
from solspace.samplers.marginals.gpu_state import State
from solspace.samplers.marginals.relaxation import Terms
from solspace.system.plain import Values

_LEAST = 8
"""Columns to a problem in the smallest iteration."""


class GpuMessages:
    """The messages of `each` samples of each problem: sample j of problem i is column i each + j."""

    def __init__(self, problems: Sequence[Perceptron], each: int) -> None:
        self.whole, self.each = State(problems, each), each
        self.cupy, self.k = self.whole.cupy, self.whole.width
        self.field, self.mean = self.whole.field, self.whole.mean
        self.time = np.zeros(self.k)
        """The norm of the weights takes care of time: nothing here depends on it."""
        self._kept: list[DeviceArray] = []
        self._columns: dict[tuple[int, int], GpuColumns] = {}

    def columns(self, lanes: Array, terms: Terms) -> GpuColumns:
        """Return the columns `lanes`, ready to iterate on `terms`."""
        going, layout = self._arranged(lanes)
        place = np.full(self.k, -1)
        place[lanes] = np.arange(len(lanes))
        going.begin(layout, terms.of(place[np.maximum(layout, 0)]))
        going.few = 0 if going.width <= max(4 * _LEAST, going.patterns.slack) else len(lanes) // 4
        return going

    def _arranged(self, lanes: Array) -> tuple[GpuColumns, Array]:
        """Return what holds the columns `lanes`, and which of its columns holds which (-1: none)."""
        number = len(self.whole.patterns)
        owner = lanes // self.each
        counts = np.bincount(owner, minlength=number)
        k = min(self.each, max(_LEAST, _power_above(int(counts.max()))))
        problems = np.flatnonzero(counts)
        few = _power_above(len(problems))
        if 2 * few > number:
            problems, few = np.arange(number), number
        if 2 * few * k > self.k or self.k <= self.whole.patterns.slack:
            layout = np.full(self.k, -1)
            layout[lanes] = lanes
            return self._sized(number, self.each), layout
        going = self._sized(few, k)
        if few < number:
            chosen = np.append(problems, np.full(few - len(problems), problems[0]))
            going.patterns.take(self.whole.patterns, chosen)
        layout = np.full((few, k), -1)
        for place, problem in enumerate(problems):
            mine = lanes[owner == problem]
            layout[place, : len(mine)] = mine
        return going, layout.ravel()

    def _sized(self, number: int, k: int) -> GpuColumns:
        if (number, k) not in self._columns:
            patterns = self.whole.patterns
            patterns = patterns if number == len(patterns) else patterns.of(np.arange(number))
            self._columns[number, k] = GpuColumns(self.whole, patterns, k)
        return self._columns[number, k]

    def keep(self) -> None:
        """Remember all messages as they are."""
        if not self._kept:
            self._kept = [part.copy() for part in self.whole.messages()]
            return
        for kept, current in zip(self._kept, self.whole.messages()):
            kept[...] = current

    def restore(self, lanes: Array) -> None:
        """Put the columns `lanes` back to where `keep` found them."""
        self._sized(len(self.whole.patterns), self.each).restore(self._kept, lanes)

    def share(self) -> None:
        """Give the messages of each problem's first column to its others."""
        for part in map(self.whole.by_problem, self.whole.messages()):
            part[...] = part[..., :1].copy()

    def instabilities(self) -> Array:
        """Return λ of each column, (k,)."""
        return fetched(self.whole.instability).astype(float)

    def widen(self, values: Array) -> DeviceArray:
        """Return `values` (k,) on the device, as (problems, 1, each)."""
        return sent(np.asarray(values, np.float32).reshape(-1, 1, self.each))

    def spreads(self) -> DeviceArray:
        """Return the variances of the weights, for each or for all of a sample."""
        if isinstance(self.whole.target.prior, Binary):
            return self.cupy.maximum(1 - self.mean * self.mean, 0)
        return self.whole.spread.reshape(-1, 1, self.each)

    def overlaps(self) -> Array:
        """Return |m|²/n of each column, (k,)."""
        return fetched((self.mean * self.mean).sum(axis=1)).astype(float).ravel() / self.whole.n

    def means(self) -> Array:
        """Return the means (k, n) in double precision."""
        return self._rows(self.mean).astype(float)

    def fields(self) -> Array:
        """Return the fields (k, n) in double precision."""
        return self._rows(self.field).astype(float)

    def sound(self) -> Array:
        """Return (k,) True where field and means are finite."""
        off = self.mean - self.mean + (self.field - self.field)
        return fetched((off == 0).all(axis=1)).ravel()

    def signs(self, random: Callable[[int], Array]) -> Array:
        """Return the signs (k, n) of the means; a column without a direction is given that of `random(column)`."""
        signs = (2 * (self.mean >= 0) - 1).astype(np.int8)
        there = (self.mean - self.mean == 0).all(axis=1) & (self.mean != 0).any(axis=1)
        for lane in np.flatnonzero(~fetched(there).ravel()):
            problem, column = divmod(int(lane), self.each)
            signs[problem, :, column] = sent(np.where(random(int(lane)) >= 0, 1, -1).astype(np.int8))
        return self._rows(signs)

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities (k, m) of `weights` (k, n) of ±1, None where the host must compute them."""
        columns = sent(weights.reshape(-1, self.each, self.whole.n)).transpose(0, 2, 1)
        found = self.whole.patterns.stabilities(self.cupy.ascontiguousarray(columns))
        return None if found is None else found.reshape(self.k, -1)

    def _rows(self, columns: DeviceArray) -> Array:
        """Return columns (problems, n, each) as rows (k, n) on the host."""
        return fetched(self.cupy.ascontiguousarray(columns.transpose(0, 2, 1))).reshape(self.k, -1)

    def state(self) -> dict[str, Array]:
        """Return fields and messages by name, on the host."""
        return {name: fetched(part) for name, part in self._parts().items()}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for name, part in self._parts().items():
            part[...] = sent(state[name])

    def _parts(self) -> Values:
        return {"field": self.field, **{f"messages_{i}": part for i, part in enumerate(self.whole.messages())}}


def _power_above(count: int) -> int:
    """Return the power of two at or above `count`."""
    return 1 << max(0, count - 1).bit_length()
