"""Approximate message passing on a CUDA device: as `messages.Messages` with scalar variances, for problems of one shape.

Columns that have converged are left behind once they are many and cost much: the others continue in a smaller iteration
(`GpuColumns`), whose sizes are powers of two, so that a few serve for a whole run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solspace.measure.priors import Binary, Prior
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import offset
from solspace.samplers.device import DeviceArray, Recorded, cupy, fetched, recorded, sent
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.marginals.gpu_problem import CONSTANTS, FEW, GpuPatterns, GpuSigns, form, response_table
from solspace.samplers.marginals.messages import (
    CONVERGED,
    DIVERGED,
    MOVING,
    OSCILLATING,
    SLOW,
    TINY,
    VARIANCE_FLOOR,
    SampleColumns,
)

_WIDE, _ROWS, _LINES = 32, 64, 8  # columns and rows of a block of many columns, and rows that it takes at a time
_FEW = 8  # columns to a problem up to which a block takes those of one problem
_OUTCOMES = (("MOVING", MOVING), ("CONVERGED", CONVERGED), ("SLOW", SLOW), ("BLOWN", DIVERGED))
BURST, _LONGEST = 2, 8  # iterations before the first look at the device; most between two looks, where they cost little
_PLAIN = 4  # iterations before they are recorded: it takes as long as some of them, and kernels must have been loaded
_LEAST = 8  # columns to a problem in the smallest iteration


class GpuColumns:
    """`k` columns to each problem on their way to a fixed point: those of `whole` themselves, or some of them."""

    def __init__(self, whole: GpuMessages, patterns: GpuPatterns, k: int) -> None:
        self.patterns, self.k, self.each = patterns, k, whole.each  # no reference to `whole`, which holds this one
        self.all = k == whole.each and patterns is whole.patterns
        device, n, m, parts = whole.cupy, whole.n, whole.m, patterns.parts
        number = len(patterns)
        self.width = number * k
        lines = 256 // k if k <= _FEW else _LINES
        self.block, self.rows = ((k, lines), 2 * lines) if k <= _FEW else ((_WIDE, lines), _ROWS)
        self.strips = -(-m // self.rows), -(-n // self.rows)
        self.layout = np.arange(self.width)
        # arrays of the whole, the rows that they have to a problem, and what fills columns that hold none of it
        arrays = [whole.field, whole.moment, *whole.messages()]
        sizes, fills = (n, 1, n, m, 1, 1, 1), (0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 1.0)
        shapes = [(number, rows, k) if part.ndim == 3 else (self.width,) for rows, part in zip(sizes, arrays)]
        own = arrays if self.all else [device.empty(shape, np.float32) for shape in shapes]
        self.field, self.moment, self.mean, self.g, self.variance, self.instability, self.spread = own
        operand = np.uint16 if parts == 3 else np.float32
        self.into, self.back = (device.empty((number, rows, parts * k), operand) for rows in (n, m))
        self.forward, self.backward = (device.empty((number, rows, parts * k), np.float32) for rows in (m, n))
        self.sums = [device.empty((max(self.strips), self.width), np.float32) for _ in range(3)]
        self.precision, self.roughness, self.factor = (device.empty(self.width, np.float32) for _ in range(3))
        self.floats = device.empty((6, self.width), np.float32)
        self.whole_numbers = device.empty((3, self.width), np.int32)
        self.chosen = device.empty(self.width, np.int32)
        # share of B + h that is the field of all columns after the next iteration; if negative, their field stays
        self.share = sent(np.full(1, -1, np.float32))
        constants = self._arguments(whole)
        move = kernel("messages", "move", constants)
        self.moves = [
            (move, self._grid(-(-rows // self.rows)), *columns, rows, fill)
            for *columns, rows, fill in zip(arrays, own, sizes, fills)
        ]
        self.moving = self.whole_numbers[2, :1]
        self.iterations, self.burst = 0, BURST
        self.recorded: Recorded | None = None

    def _arguments(self, own: GpuMessages) -> Sizes:
        """Prepare the launches of an iteration; return the constants of the kernels."""
        n, m, k, width = own.n, own.m, self.k, self.width
        kind, first, second, _ = form(own.target) or (0, 0.0, 0.0, 0.0)
        binary = isinstance(own.target.prior, Binary)
        scale, alpha, margin = 1 / np.sqrt(n), m / n, own.target.margin + offset(own.target.potential)
        tolerance, cap, patient, weight, best, residual = self.floats
        self.weight = weight
        count, outcome, moving = self.whole_numbers
        slopes, squares, extra = self.sums
        constants: Sizes = (
            ("PARTS", self.patterns.parts), ("FORM", kind), ("WIDE", self.block[0]), ("LINES", self.block[1]),
            ("ROWS", self.rows), *CONSTANTS, *_OUTCOMES,
        )  # fmt: skip

        def launch(name: str, strips: int, *arguments: object) -> Any:
            found = kernel("messages", name, constants)
            grid, block = self._grid(strips) if strips else ((-(-width // 128),), (128,))
            typed = tuple(map(_typed, arguments))
            return lambda: found(grid, block, typed)

        above, below = self.strips
        self.split = launch("split", below, self.mean, n, k, width, self.into)
        respond = launch(
            "respond", above, self.forward, scale, margin, first, second, self.variance, weight, own.table, m, k, width,
            self.g, self.back, slopes, squares,
        )  # fmt: skip
        precisions = launch(
            "precisions", 0, slopes, squares, above, alpha, self.moment, m, width, self.precision, self.roughness
        )
        if binary:
            estimate = [
                launch("estimate", below, self.backward, scale, self.field, self.share, self.precision, weight, n, k, width,
                       self.mean, self.into, *self.sums)
            ]  # fmt: skip
        else:
            estimate = [
                launch("tilt", below, self.backward, scale, self.field, self.precision, n, k, width, self.mean, extra),
                launch("norms", 0, extra, below, n, width, self.factor),
                launch(
                    "shrink", below, self.backward, self.factor, weight, n, k, width, self.mean, self.into, *self.sums
                ),
            ]
        floor = VARIANCE_FLOOR / n if binary else TINY
        control = launch(
            "control", 0, *self.sums, below, n, width, self.moment, alpha, floor, OSCILLATING, self.roughness, tolerance,
            cap, patient, self.variance, self.instability, self.spread, weight, best, residual, count, outcome, moving,
        )  # fmt: skip
        self.launches = (respond, precisions), (*estimate, control)
        return constants

    def _grid(self, strips: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the blocks, and the threads of each, that go through all columns and `strips` of rows."""
        return (-(-self.width // self.block[0]), strips), self.block

    def begin(self, layout: Array, columns: Array) -> None:
        """Start with the columns `layout` (width,) of the whole, -1 for none, at their PROGRESS among `columns`."""
        self.layout, self.burst = layout, BURST
        there, own = layout >= 0, columns[np.maximum(layout, 0)]
        weight = np.where(there, 1 - own["damping"], 0.0)
        numbers = [own["tolerance"], own["cap"], own["patient"], weight, own["best"], np.zeros(self.width)]
        self.floats.set(np.array(numbers, np.float32))
        moving = np.full(self.width, int(there.sum()))
        self.whole_numbers.set(np.array([own["count"], np.where(there, MOVING, CONVERGED), moving], np.int32))
        if not self.all:
            self.chosen.set(layout.astype(np.int32))
            self._move(self.moves, back=False)
        self.split()

    def _move(self, moves: list[Any], back: bool) -> None:
        for found, (grid, block), whole, part, rows, fill in moves:
            sizes = (np.int32(self.width), self.chosen, np.int32(rows), np.float32(fill), np.int32(back))
            found(grid, block, (whole, np.int32(self.each), part, np.int32(self.k), *sizes))

    def advance(self) -> None:
        self.iterations += 1
        if self.iterations == _PLAIN and self.patterns.recordable:
            self.recorded = recorded(self._advance)
        if self.recorded is None:
            self._advance()
        else:
            self.recorded.launch()

    def _advance(self) -> None:
        above, below = self.launches
        self.patterns.product(self.into, self.forward, False, self.weight)
        for launch in above:
            launch()
        self.patterns.product(self.back, self.backward, True, self.weight)
        for launch in below:
            launch()

    def iterate(self) -> int:
        """Make some iterations of all columns that still move; wait for the device and return how many do."""
        for _ in range(self.burst):
            self.advance()
        self.burst = min(self.burst + 1, _LONGEST if self.patterns.recordable else BURST)
        return int(fetched(self.moving)[0])

    def end(self, columns: Array) -> None:
        """Write the messages back to the whole, and their PROGRESS to `columns`."""
        if not self.all:
            self._move(self.moves[2:], back=True)
        there = self.layout >= 0
        lanes, (count, outcome, _) = self.layout[there], fetched(self.whole_numbers)
        best = fetched(self.floats)[4]
        columns["count"][lanes], columns["outcome"][lanes] = count[there], outcome[there]
        columns["best"][lanes] = best[there]


def _typed(value: object) -> Any:
    if isinstance(value, (int, np.integer)):
        return np.int32(value)
    return np.float32(value) if isinstance(value, (float, np.floating)) else value


class GpuMessages(SampleColumns):
    """The messages of `each` samples of each problem: sample j of problem i is column i each + j of `k`.

    Fields and means are (problems, n, each), responses (problems, m, each), variances and the rest (k,), float32.
    """

    def __init__(self, problems: Sequence[Perceptron], each: int) -> None:
        self.target, self.n, self.m = problems[0].target, problems[0].n, problems[0].m
        field, mean, self.g = (
            cupy().zeros((len(problems), rows, each), np.float32) for rows in (self.n, self.n, self.m)
        )
        super().__init__(field, mean, len(problems) * each)
        self.cupy, self.each = cupy(), each
        few = each <= FEW and all(problem.has_binary_patterns for problem in problems)
        self.patterns: GpuPatterns = GpuSigns(problems) if few else GpuPatterns(problems)
        self.table = sent(response_table(self.target))
        moments = np.repeat(self.patterns.moments, each).astype(np.float32)
        self.moment, self.variance = sent(moments), sent(moments)
        self.instability, self.spread = (sent(np.full(self.k, x, np.float32)) for x in (0.0, 1.0))
        self.time = np.zeros(self.k)  # unused: the norm of the weights takes care of time
        self._columns: dict[tuple[int, int], GpuColumns] = {}

    def messages(self) -> list[DeviceArray]:
        return [self.mean, self.g, self.variance, self.instability, self.spread]

    def columns(self, lanes: Array, columns: Array) -> GpuColumns:
        """Return an iteration of the columns `lanes`, begun at their PROGRESS among `columns`."""
        active, layout = self._arranged(lanes)
        active.begin(layout, columns)
        return active

    def advance(self, lanes: Array, columns: Array) -> None:
        """Iterate the columns `lanes` until some are at rest: the others continue in a smaller iteration in the next call."""
        active = self.columns(lanes, columns)
        few = 0 if active.width <= max(4 * _LEAST, active.patterns.slack) else len(lanes) // 4
        while active.iterate() > few:
            pass
        active.end(columns)

    def _arranged(self, lanes: Array) -> tuple[GpuColumns, Array]:
        """Return an iteration with room for the columns `lanes`, and which of its columns holds which (-1: none)."""
        number = len(self.patterns)
        owner = lanes // self.each
        counts = np.bincount(owner, minlength=number)
        k = min(self.each, max(_LEAST, _power_above(int(counts.max()))))
        problems = np.flatnonzero(counts)
        few = _power_above(len(problems))
        if 2 * few > number:
            problems, few = np.arange(number), number
        if 2 * few * k > self.k or self.k <= self.patterns.slack:
            layout = np.full(self.k, -1)
            layout[lanes] = lanes
            return self._sized(number, self.each), layout
        active = self._sized(few, k)
        if few < number:
            chosen = np.append(problems, np.full(few - len(problems), problems[0]))
            active.patterns.take(self.patterns, chosen)
        layout = np.full((few, k), -1)
        for place, problem in enumerate(problems):
            mine = lanes[owner == problem]
            layout[place, : len(mine)] = mine
        return active, layout.ravel()

    def _sized(self, number: int, k: int) -> GpuColumns:
        if (number, k) not in self._columns:
            whole = number == len(self.patterns)
            patterns = self.patterns if whole else self.patterns.of(np.arange(number))
            self._columns[number, k] = GpuColumns(self, patterns, k)
        return self._columns[number, k]

    def restore(self, lanes: Array) -> None:
        back = np.zeros(self.k, bool)
        back[lanes] = True
        for kept, current in zip(self._kept, self.messages()):
            chosen = sent(back if current.ndim == 1 else back.reshape(-1, 1, self.each))
            current[...] = self.cupy.where(chosen, kept, current)

    def broadcast(self) -> None:
        """Copy the messages of each problem's first column to its others."""
        for part in self.messages():
            columns = part.reshape(-1, self.each) if part.ndim == 1 else part
            columns[...] = columns[..., :1].copy()

    def instabilities(self) -> Array:
        return fetched(self.instability).astype(float)

    def widen(self, values: Array) -> DeviceArray:
        """Return `values` (k,) on the device, as (problems, 1, each)."""
        return sent(np.asarray(values, np.float32).reshape(-1, 1, self.each))

    def spreads(self) -> DeviceArray:
        if isinstance(self.target.prior, Binary):
            return self.cupy.maximum(1 - self.mean * self.mean, 0)
        return self.spread.reshape(-1, 1, self.each)

    def overlaps(self) -> Array:
        return fetched((self.mean * self.mean).sum(axis=1)).astype(float).ravel() / self.n

    def rows(self, columns: DeviceArray) -> Array:
        """Return columns (problems, n, each) as rows (k, n) on the host."""
        return fetched(self.cupy.ascontiguousarray(columns.transpose(0, 2, 1))).reshape(self.k, -1)

    def finite(self) -> Array:
        off = self.mean - self.mean + (self.field - self.field)
        return fetched((off == 0).all(axis=1)).ravel()

    def decoded(self, prior: Prior, random: Callable[[int], Array]) -> Array:
        if not isinstance(prior, Binary):
            return super().decoded(prior, random)
        signs = (2 * (self.mean >= 0) - 1).astype(np.int8)
        there = (self.mean - self.mean == 0).all(axis=1) & (self.mean != 0).any(axis=1)
        for lane in np.flatnonzero(~fetched(there).ravel()):
            problem, column = divmod(int(lane), self.each)
            signs[problem, :, column] = sent(np.where(random(int(lane)) >= 0, 1, -1).astype(np.int8))
        return self.rows(signs)

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities (k, m) of `weights` (k, n) of ±1, None if the host must compute them."""
        columns = sent(weights.reshape(-1, self.each, self.n)).transpose(0, 2, 1)
        found = self.patterns.stabilities(self.cupy.ascontiguousarray(columns))
        return None if found is None else found.reshape(self.k, -1)


def _power_above(count: int) -> int:
    return 1 << max(0, count - 1).bit_length()
