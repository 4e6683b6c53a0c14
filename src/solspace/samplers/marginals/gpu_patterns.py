"""Patterns of problems of one shape on a CUDA device, and products with them.

Patterns of ±1 are exact in bfloat16, and a float32 number is the sum of three bfloat16 numbers to its last bit but one. So the
products X m and Xᵀ g are one product each with a three times wider operand on the tensor cores, added in float32: more
accurate than a float32 product, and faster than one in TF32. Other patterns use float32 products. With few columns to a
problem ±1 patterns are kept as bits: five entries at a time are looked up in tables of sums (`kernels/cuda/signs.cu`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from importlib.util import find_spec
from typing import Any, Self

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.marginals.messages import second_moment
from solspace.samplers.packed import PackedPerceptron

_BFLOAT, _FLOAT, _COMPUTE = 14, 0, 68  # cuBLAS' numbers of bfloat16, float32, and sums in float32
_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)
FEW = 8  # most samples of a problem for which bits pay
_WORD = 30  # entries of a word
_ROWS, _SLICES = 256, 2  # most rows of a block, and threads that share a row
_RUN = {1: 8, 2: 8, 4: 4}  # words that a thread takes at a time, by the columns of a block


class GpuPatterns:
    """The patterns of problems of one shape on the device, and products with them."""

    ARRAYS: tuple[str, ...] = ("matrix",)  # names of the arrays that hold the patterns, problems first
    slack = 0  # columns in all among which those at rest cost next to nothing
    recordable = False  # whether products are launches of kernels with the same arguments every time

    def __init__(self, problems: Sequence[Perceptron]) -> None:
        self.cupy = cupy()
        self.m, self.n = problems[0].m, problems[0].n
        self.parts = 3 if all(p.has_binary_patterns for p in problems) and _blas() is not None else 1
        self.exact = self.parts == 3  # whether products with weights of ±1 are integers, which float32 adds exactly
        self.moments = np.array([second_moment(problem) for problem in problems])
        kind = np.uint16 if self.parts == 3 else np.float32
        self.matrix = self.cupy.empty((len(problems), self.m, self.n), kind)
        for number, problem in enumerate(problems):
            self._send(problem, self.matrix[number])

    def __len__(self) -> int:
        return len(self.moments)

    def _send(self, problem: Perceptron, to: DeviceArray) -> None:
        if self.parts == 1:
            to[...] = sent(np.ascontiguousarray(problem.patterns, dtype=np.float32))
            return
        name, entries = _entries(problem)
        kernel("patterns", name)((-(-to.size // 256),), (256,), (entries, np.int64(to.size), to))

    def of(self, numbers: Array) -> Self:
        few = copy(self)
        for name in self.ARRAYS:
            part = getattr(self, name)
            setattr(few, name, self.cupy.empty((len(numbers), *part.shape[1:]), part.dtype))
        few.take(self, numbers)
        return few

    def take(self, other: Self, numbers: Array) -> None:
        """Overwrite the patterns by those of as many problems `numbers` of `other`."""
        chosen, self.moments = sent(numbers), other.moments[numbers]
        for name in self.ARRAYS:
            getattr(other, name).take(chosen, axis=0, out=getattr(self, name))

    def product(self, operand: DeviceArray, out: DeviceArray, transposed: bool, weight: DeviceArray = None) -> None:
        """Write X · operand, or Xᵀ · operand, to `out`: float32 operands, or bfloat16 for patterns of ±1.

        All columns are multiplied, whatever their `weight`: in a matrix product some cost as much as all.
        """
        if self.parts == 1:
            left = self.matrix.transpose(0, 2, 1) if transposed else self.matrix
            out[...] = left @ operand
            return
        # row-major (rows, columns) is column-major (columns, rows): out' = operand' · patterns', or operand' · patterns
        width, rows, inner = operand.shape[2], out.shape[1], operand.shape[1]
        _blas().gemmStridedBatchedEx(
            self.cupy.cuda.device.get_cublas_handle(), 0, int(transposed), width, rows, inner, _ONE.ctypes.data,
            operand.data.ptr, _BFLOAT, width, width * inner, self.matrix.data.ptr, _BFLOAT, self.n, self.m * self.n,
            _ZERO.ctypes.data, out.data.ptr, _FLOAT, width, width * rows, len(self), _COMPUTE, 99,
        )  # fmt: skip

    def stabilities(self, signs: DeviceArray) -> Array | None:
        """Return the stabilities (problems, k, m) of weights of ±1, (problems, n, k); None where the host must do it."""
        if not self.exact:
            return None
        counted = fetched(self.cupy.ascontiguousarray(self._sums(signs).transpose(0, 2, 1))).astype(np.float64)
        counted /= np.sqrt(self.n)
        return counted

    def outside(self, signs: DeviceArray, lower: float, upper: float) -> DeviceArray:
        """Return how many stabilities of weights of ±1, (problems, n, k), are outside `lower` to `upper`, up to rounding."""
        sums, scale = self._sums(signs), np.sqrt(self.n)
        return ((sums < np.float32(lower * scale)) | (sums > np.float32(upper * scale))).sum(axis=1)

    def _sums(self, signs: DeviceArray) -> DeviceArray:
        out = self.cupy.empty((len(self), self.m, signs.shape[2]), np.float32)
        bfloat = (signs < 0).astype(np.uint16) * np.uint16(0x8000) + np.uint16(0x3F80)
        weight = sent(np.ones(len(self) * signs.shape[2], np.float32))
        self.product(bfloat if self.parts == 3 else signs.astype(np.float32), out, False, weight)
        return out


def _entries(problem: Perceptron) -> tuple[str, DeviceArray]:
    if isinstance(problem, PackedPerceptron):
        return "from_bits", sent(problem.bits)
    return "from_signs", sent(problem.patterns)


def _blas() -> Any:
    """Return CuPy's cuBLAS where products of bfloat16 can be had from it, else None."""
    if find_spec("cupy_backends") is None:
        return None
    from cupy_backends.cuda.libs import cublas

    return cublas if hasattr(cublas, "gemmStridedBatchedEx") else None


class GpuSigns(GpuPatterns):
    """The patterns of problems of one shape as bits, by rows and by columns, and products with them."""

    ARRAYS = ("rows", "columns")
    parts, exact = 1, True
    slack, recordable = 512, True

    def __init__(self, problems: Sequence[Perceptron]) -> None:
        self.cupy = cupy()
        self.m, self.n = problems[0].m, problems[0].n
        self.moments = np.ones(len(problems))
        shapes = ((-(-self.n // _WORD), self.m), (-(-self.m // _WORD), self.n))
        self.rows, self.columns = (self.cupy.empty((len(problems), *shape), np.uint32) for shape in shapes)
        for problem, rows, columns in zip(problems, self.rows, self.columns):
            name, entries = _entries(problem)
            pack = kernel("signs", name, _sizes())
            for to, row_step, step, inner in ((rows, self.n, 1, self.n), (columns, 1, self.n, self.m)):
                words, count = to.shape
                sizes = map(np.int32, (count, inner, row_step, step, words))
                pack((-(-count // 128), words), (128,), (entries, *sizes, to))

    def product(self, operand: DeviceArray, out: DeviceArray, transposed: bool, weight: DeviceArray = None) -> None:
        """Write X · operand, or Xᵀ · operand, to `out`, for problems with columns whose `weight` (problems k,) is positive."""
        bits, inner = (self.columns, self.m) if transposed else (self.rows, self.n)
        number, words, rows = bits.shape
        k = operand.shape[2]
        together = next((size for size in _RUN if size >= k), max(_RUN))
        height = next(size for size in (32, 64, 128, _ROWS) if size >= min(rows, _ROWS))
        grid = (-(-rows // height), number * -(-k // together))
        multiply = kernel("signs", "multiply", _sizes(together, height))
        multiply(grid, (height, _SLICES), (bits, operand, *map(np.int32, (rows, inner, words, k)), weight, out))


def _sizes(columns: int = 1, rows: int = _ROWS) -> Sizes:
    return ("COLUMNS", columns), ("ROWS", rows), ("SLICES", _SLICES), ("RUN", _RUN[columns])
