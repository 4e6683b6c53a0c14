"""One AMP iteration on a device after another, and the columns that take part in it.

Launches do not wait for each other, and their arguments are made once: six or eight launches of some microseconds each
to an iteration. Where all are kernels of the package they are recorded, and an iteration is one launch. The device itself
decides which columns have come to rest, as `relaxation.judge` does; the host looks every few iterations how many still
move.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solspace.measure.priors import Binary
from solspace.numerics.arrays import Array
from solspace.samplers.device import DeviceArray, Recorded, fetched, recorded, sent
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.marginals.cpu import TINY, VARIANCE_FLOOR
from solspace.samplers.marginals.gpu_channel import CONSTANTS, form, origin
from solspace.samplers.marginals.gpu_state import Patterns, State
from solspace.samplers.marginals.relaxation import BLOWN, CONVERGED, MOVING, SLOW, TOSSING, Ending, Terms

_WIDE, _ROWS, _LINES = 32, 64, 8
"""Columns and rows of a block, and how many rows it takes at a time, where columns are many."""
_FEW = 8
"""Columns to a problem up to which a block takes those of one problem."""
_OUTCOMES = (("MOVING", MOVING), ("CONVERGED", CONVERGED), ("SLOW", SLOW), ("BLOWN", BLOWN))
BURST, _LONGEST = 2, 8
"""Iterations before the first look at the device, and between two looks at the most, where those at rest cost little."""
_PLAIN = 4
"""Iterations before they are recorded: it takes as long as some of them, and kernels must have been loaded."""


class GpuColumns:
    """`k` columns to each problem on their way to a fixed point: those of `state` themselves, or some of them."""

    few = 0

    def __init__(self, state: State, patterns: Patterns, k: int) -> None:
        self.state, self.patterns, self.k = state, patterns, k
        self.whole = k == state.k and patterns is state.patterns
        device, n, m, parts = state.cupy, state.n, state.m, patterns.parts
        number = len(patterns)
        self.width = number * k
        lines = 256 // k if k <= _FEW else _LINES
        self.block, self.rows = ((k, lines), 2 * lines) if k <= _FEW else ((_WIDE, lines), _ROWS)
        self.strips = -(-m // self.rows), -(-n // self.rows)
        self.layout = np.arange(self.width)
        if self.whole:
            arrays = [state.field, state.moment, *state.messages()]
        else:
            shapes = [(number, n, k), (self.width,), (number, n, k), (number, m, k), *[(self.width,)] * 3]
            arrays = [device.empty(shape, np.float32) for shape in shapes]
        self.field, self.moment, self.mean, self.g, self.variance, self.instability, self.spread = arrays
        operand = np.uint16 if parts == 3 else np.float32
        self.into, self.back = (device.empty((number, rows, parts * k), operand) for rows in (n, m))
        self.forward, self.backward = (device.empty((number, rows, parts * k), np.float32) for rows in (m, n))
        self.sums = [device.empty((max(self.strips), self.width), np.float32) for _ in range(3)]
        self.precision, self.roughness, self.factor = (device.empty(self.width, np.float32) for _ in range(3))
        self.floats = device.empty((6, self.width), np.float32)
        self.whole_numbers = device.empty((3, self.width), np.int32)
        self.chosen = device.empty(self.width, np.int32)
        self.share = sent(np.full(1, -1, np.float32))
        """How much of B + h is the field of all columns after the next iteration; negative: their field stays."""
        self._arguments()
        self.moving = self.whole_numbers[2, :1]
        self.made, self.burst = 0, BURST
        self.recorded: Recorded | None = None

    def _arguments(self) -> None:
        """Lay out the launches of an iteration: (kernel, grid, block, arguments)."""
        own, n, m, k, width = self.state, self.state.n, self.state.m, self.k, self.width
        kind, first, second, _ = form(own.target) or (0, 0.0, 0.0, 0.0)
        binary = isinstance(own.target.prior, Binary)
        scale, alpha, margin = 1 / np.sqrt(n), m / n, origin(own.target)
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
            typed = tuple(_typed(value) for value in arguments)
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
            "control", 0, *self.sums, below, n, width, self.moment, alpha, floor, TOSSING, self.roughness, tolerance, cap,
            patient, self.variance, self.instability, self.spread, weight, best, residual, count, outcome, moving,
        )  # fmt: skip
        self.launches = (respond, precisions), (*estimate, control)
        self.moves = [
            (kernel("messages", "move", constants), self._grid(-(-rows // self.rows)), whole, part, rows, fill)
            for whole, part, rows, fill in (
                (own.field, self.field, n, 0.0), (own.moment, self.moment, 1, 1.0), (own.mean, self.mean, n, 0.0),
                (own.g, self.g, m, 0.0), (own.variance, self.variance, 1, 1.0),
                (own.instability, self.instability, 1, 0.0), (own.spread, self.spread, 1, 1.0),
            )
        ]  # fmt: skip

    def _grid(self, strips: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the blocks, and the threads of each, that go through all columns and `strips` of rows."""
        return (-(-self.width // self.block[0]), strips), self.block

    @property
    def lanes(self) -> Array:
        """Which columns of the whole are on their way here."""
        return self.layout[self.layout >= 0]

    def begin(self, layout: Array, terms: Terms) -> None:
        """Take up the columns `layout` (width,) of the whole, -1 for none, on `terms` (width,)."""
        self.layout, self.burst = layout, BURST
        there = layout >= 0
        weight = np.where(there, 1 - terms.damping, 0.0)
        numbers = [terms.tolerance, terms.cap, terms.patient, weight, terms.best, np.zeros(self.width)]
        self.floats.set(np.array(numbers, np.float32))
        moving = np.full(self.width, int(there.sum()))
        self.whole_numbers.set(np.array([terms.count, np.where(there, MOVING, CONVERGED), moving], np.int32))
        if not self.whole:
            self.chosen.set(layout.astype(np.int32))
            self._move(self.moves, back=False)
        self.split()

    def restore(self, kept: list[DeviceArray], lanes: Array) -> None:
        """Put the messages of the columns `lanes` of the whole, which this holds, back to those `kept`."""
        chosen = np.full(self.width, -1, np.int32)
        chosen[lanes] = lanes
        self.chosen.set(chosen)
        self._move([(*move[:3], part, *move[4:]) for move, part in zip(self.moves[2:], kept)], back=True)

    def _move(self, moves: list[Any], back: bool) -> None:
        for found, (grid, block), whole, part, rows, fill in moves:
            sizes = (np.int32(self.width), self.chosen, np.int32(rows), np.float32(fill), np.int32(back))
            found(grid, block, (whole, np.int32(self.state.k), part, np.int32(self.k), *sizes))

    def advance(self) -> None:
        """Launch an iteration of all columns that still move."""
        self.made += 1
        if self.made == _PLAIN and self.patterns.recordable:
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

    def end(self) -> Ending:
        """Give the columns back to the whole."""
        if not self.whole:
            self._move(self.moves[2:], back=True)
        there = self.layout >= 0
        count, outcome, _ = fetched(self.whole_numbers)
        *_, best, residual = fetched(self.floats)
        return Ending(outcome[there], count[there], best[there], residual[there])


def _typed(value: object) -> Any:
    if isinstance(value, (int, np.integer)):
        return np.int32(value)
    return np.float32(value) if isinstance(value, (float, np.floating)) else value
