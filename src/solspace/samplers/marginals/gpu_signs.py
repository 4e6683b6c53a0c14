"""Patterns of ±1 on a CUDA device as bits, for problems that have few samples each.

With few columns to a problem, reading the patterns is most of what a product costs; as bits they are a sixteenth of
bfloat16, and a device holds hundreds of problems. Five entries at a time are looked up in tables of sums
(`kernels/cuda/signs.cu`). Means and responses stay float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.packed import PackedPerceptron

FEW = 8
"""Most samples of a problem for which bits pay."""
_WORD = 30
"""Entries of a word."""
_ROWS, _SLICES = 256, 2
"""Most rows of a block, and threads that share a row."""
_RUN = {1: 8, 2: 8, 4: 4}
"""Words that a thread takes at a time, by the columns of a block."""


class GpuSigns:
    """The patterns of problems of one shape as bits, by rows and by columns, and products with them."""

    parts = 1
    slack, recordable = 512, True

    def __init__(self, problems: Sequence[Perceptron]) -> None:
        self.cupy = cupy()
        self.m, self.n = problems[0].m, problems[0].n
        self.moments = np.ones(len(problems))
        shapes = ((-(-self.n // _WORD), self.m), (-(-self.m // _WORD), self.n))
        self.rows, self.columns = (self.cupy.empty((len(problems), *shape), np.uint32) for shape in shapes)
        for problem, rows, columns in zip(problems, self.rows, self.columns):
            packed = isinstance(problem, PackedPerceptron)
            given = sent(problem.bits if isinstance(problem, PackedPerceptron) else problem.patterns)
            pack = kernel("signs", "from_bits" if packed else "from_signs", _sizes())
            for to, row_step, step, inner in ((rows, self.n, 1, self.n), (columns, 1, self.n, self.m)):
                words, count = to.shape
                sizes = map(np.int32, (count, inner, row_step, step, words))
                pack((-(-count // 128), words), (128,), (given, *sizes, to))

    def __len__(self) -> int:
        return len(self.rows)

    def of(self, numbers: Array) -> GpuSigns:
        """Return the patterns of some of the problems, a copy."""
        few = object.__new__(GpuSigns)
        few.__dict__.update(self.__dict__)
        shapes = ((len(numbers), *part.shape[1:]) for part in (self.rows, self.columns))
        few.rows, few.columns = (self.cupy.empty(shape, np.uint32) for shape in shapes)
        few.take(self, numbers)
        return few

    def take(self, other: Any, numbers: Array) -> None:
        """Take the patterns of as many problems, `numbers`, of another of this kind, to where the own ones lie."""
        chosen, self.moments = sent(numbers), other.moments[numbers]
        for own, given in ((self.rows, other.rows), (self.columns, other.columns)):
            given.take(chosen, axis=0, out=own)

    def product(self, given: DeviceArray, out: DeviceArray, transposed: bool, weight: DeviceArray) -> None:
        """Write X · given, or Xᵀ · given, to `out`, for problems with columns whose `weight` (problems k,) is positive."""
        bits, inner = (self.columns, self.m) if transposed else (self.rows, self.n)
        number, words, rows = bits.shape
        k = given.shape[2]
        together = next((size for size in _RUN if size >= k), max(_RUN))
        height = next(size for size in (32, 64, 128, _ROWS) if size >= min(rows, _ROWS))
        grid = (-(-rows // height), number * -(-k // together))
        multiply = kernel("signs", "multiply", _sizes(together, height))
        multiply(grid, (height, _SLICES), (bits, given, *map(np.int32, (rows, inner, words, k)), weight, out))

    def stabilities(self, signs: DeviceArray) -> Array:
        """Return the stabilities (problems, k, m) of weights of ±1, (problems, n, k)."""
        counted = fetched(self.cupy.ascontiguousarray(self._sums(signs).transpose(0, 2, 1))).astype(np.float64)
        counted /= np.sqrt(self.n)
        return counted

    def outside(self, signs: DeviceArray, lower: float, upper: float) -> DeviceArray:
        """Return how many stabilities of weights of ±1, (problems, n, k), are not from `lower` to `upper`: (problems, k)."""
        sums, scale = self._sums(signs), np.sqrt(self.n)
        return ((sums < np.float32(lower * scale)) | (sums > np.float32(upper * scale))).sum(axis=1)

    def _sums(self, signs: DeviceArray) -> DeviceArray:
        """Return Σ x w, (problems, m, k) on the device: integers, which float32 adds exactly."""
        out = self.cupy.empty((len(self), self.m, signs.shape[2]), np.float32)
        weight = sent(np.ones(len(self) * signs.shape[2], np.float32))
        self.product(signs.astype(np.float32), out, False, weight)
        return out


def _sizes(columns: int = 1, rows: int = _ROWS) -> Sizes:
    return ("COLUMNS", columns), ("ROWS", rows), ("SLICES", _SLICES), ("RUN", _RUN[columns])
