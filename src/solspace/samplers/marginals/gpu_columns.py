"""One AMP iteration on a device after another, and the columns that take part in it.

Nothing in `Iteration.step` waits for the device, and its arguments are made once: six or eight launches of some
microseconds each. The device itself decides which columns have come to rest. Where most have, the others go on in a
smaller iteration with arrays of its own; sizes are powers of two, so that a few serve for a whole run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure.priors import Binary
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.marginals.cpu import TINY, VARIANCE_FLOOR
from solspace.samplers.marginals.gpu import GpuMessages, GpuPatterns, form
from solspace.samplers.marginals.relaxation import TOSSING

Array = NDArray[Any]
_ROWS, _STRIPS = 64, 8
"""Constants of `kernels/cuda/messages.cu`."""
MOVING, CONVERGED, SLOW, BLOWN = range(4)
"""What its `control` says of a column."""


class Iteration:
    """`k` columns to each problem on their way to a fixed point: those of `messages` themselves, or some of them."""

    def __init__(self, messages: GpuMessages, patterns: GpuPatterns, k: int) -> None:
        self.messages, self.patterns, self.k = messages, patterns, k
        self.whole = k == messages.k and patterns is messages.patterns
        device, n, m, parts = messages.cupy, messages.n, messages.m, patterns.parts
        number = len(patterns)
        self.width = number * k
        self.strips = -(-m // _ROWS), -(-n // _ROWS)
        self.lanes = np.arange(self.width)
        if self.whole:
            arrays = [messages.field, messages.moment, *messages.state()]
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
        self._arguments()

    def _arguments(self) -> None:
        """Lay out the launches of an iteration: (kernel, grid, block, arguments)."""
        own, n, m, k, width = self.messages, self.messages.n, self.messages.m, self.k, self.width
        kind, first, second, _ = form(own.target) or (0, 0.0, 0.0, 0.0)
        binary = isinstance(own.target.prior, Binary)
        scale, alpha, margin = 1 / np.sqrt(n), m / n, own.target.margin
        tolerance, cap, patient, weight, best, residual = self.floats
        count, outcome, moving = self.whole_numbers
        slopes, squares, extra = self.sums
        constants = (("PARTS", self.patterns.parts), ("FORM", kind))

        def launch(name: str, strips: int, *arguments: Any) -> Any:
            found = kernel("messages", name, constants)
            grid, block = ((-(-width // 32), strips), (32, _STRIPS)) if strips else ((-(-width // 128),), (128,))
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
                launch("estimate", below, self.backward, scale, self.field, self.precision, weight, n, k, width, self.mean,
                       self.into, *self.sums)
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
            (kernel("messages", "move", constants), (-(-width // 32), -(-rows // _ROWS)), whole, part, rows, fill)
            for whole, part, rows, fill in (
                (own.field, self.field, n, 0.0), (own.moment, self.moment, 1, 1.0), (own.mean, self.mean, n, 0.0),
                (own.g, self.g, m, 0.0), (own.variance, self.variance, 1, 1.0),
                (own.instability, self.instability, 1, 0.0), (own.spread, self.spread, 1, 1.0),
            )
        ]  # fmt: skip

    def begin(
        self, lanes: Array, tolerance: Array, damping: Array, cap: Array, patient: Array, count: Array, best: Array
    ) -> None:
        """Take up columns: `lanes` (width,) of the whole, -1 for none, with their numbers (width,)."""
        self.lanes = lanes
        there = lanes >= 0
        weight = np.where(there, 1 - damping, 0.0)
        self.floats.set(np.array([tolerance, cap, patient, weight, best, np.zeros(self.width)], np.float32))
        moving = np.full(self.width, int(there.sum()))
        self.whole_numbers.set(np.array([count, np.where(there, MOVING, CONVERGED), moving], np.int32))
        if not self.whole:
            self.chosen.set(lanes.astype(np.int32))
            self._move(self.moves, back=False)
        self.split()

    def _move(self, moves: Any, back: bool) -> None:
        for found, grid, whole, part, rows, fill in moves:
            sizes = (np.int32(self.width), self.chosen, np.int32(rows), np.float32(fill), np.int32(back))
            found(grid, (32, _STRIPS), (whole, np.int32(self.messages.k), part, np.int32(self.k), *sizes))

    def step(self) -> None:
        """Make one iteration of all columns that still move."""
        above, below = self.launches
        self.patterns.product(self.into, self.forward, transposed=False)
        for launch in above:
            launch()
        self.patterns.product(self.back, self.backward, transposed=True)
        for launch in below:
            launch()

    def moving(self) -> int:
        """Wait for the device; return how many columns still move."""
        return int(self.whole_numbers[2, :1].get()[0])

    def end(self) -> tuple[Array, Array, Array, Array]:
        """Give the columns back; return iterations, outcome, best and last residual of each."""
        if not self.whole:
            self._move(self.moves[2:], back=True)
        count, outcome, _ = self.whole_numbers.get()
        *_, best, residual = self.floats.get()
        return count, outcome, best, residual


def _typed(value: Any) -> Any:
    if isinstance(value, (int, np.integer)):
        return np.int32(value)
    return np.float32(value) if isinstance(value, (float, np.floating)) else value
