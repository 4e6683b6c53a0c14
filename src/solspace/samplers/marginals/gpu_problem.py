"""What a CUDA device holds of problems of one shape: their patterns, and the response of their constraints.

Patterns of ±1 are exact in bfloat16, and a float32 number is the sum of three bfloat16 numbers to its last bit but one. So the
products X m and Xᵀ g are one product each with a three times wider operand on the tensor cores, added in float32: more
accurate than a float32 product, and faster than one in TF32. Other patterns use float32 products. With few columns to a
problem ±1 patterns are kept as bits: five entries at a time are looked up in tables of sums (`kernels/cuda/signs.cu`).

Responses are read from tables. Every power law, tilted or not, and every step of the weight at the margin is a function of one
variable. A band is a function of two, the distance from the nearer wall and the variance: a plane of some megabytes,
interpolated by cubics in both. `kernels/cuda/messages.cu` has the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, Self

import numpy as np
from numpy.typing import DTypeLike

from solspace.measure import Target
from solspace.measure.potentials import Band, Errors, Hinge, Log, LogBand, LogQuadratic, Potential, Uniform, Wall
from solspace.measure.priors import Binary, Spherical
from solspace.numerics.arrays import Array
from solspace.numerics.power import gaussian_power_derivatives
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
MIDDLE, SIDE, LEFT, RIGHT = 1024, 64, -4.0, 12.0  # cells of the table's middle and sides; where the middle begins, ends
PLANE_ROWS, ROW_STEP, LEAST = 380, 0.05, -14.0  # cells of a band's plane along log V, their step, and where they begin
PLANE_FIELDS, FIELD_STEP, OUTERMOST = 580, 0.03, -8.7  # the same along asinh ξ, ξ the distance from the wall over √V
CONSTANTS = (  # of the kernels
    ("MIDDLE", MIDDLE), ("SIDE_CELLS", SIDE), ("EDGE_LEFT", f"{LEFT}f"), ("EDGE_RIGHT", f"{RIGHT}f"),
    ("PLANE_ROWS", PLANE_ROWS), ("ROW_STEP", f"{ROW_STEP}f"), ("LEAST", f"{LEAST}f"), ("PLANE_FIELDS", PLANE_FIELDS),
    ("FIELD_STEP", f"{FIELD_STEP}f"), ("OUTERMOST", f"{OUTERMOST}f"),
)  # fmt: skip


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


def supported(problem: Perceptron, full: bool, dtype: DTypeLike) -> str:
    """Return why the problem cannot run on a device; empty if it can."""
    target = problem.target
    if not isinstance(target.prior, (Binary, Spherical)):
        return f"On a device localize takes binary and spherical weights; got {target.prior}. Use device='cpu'."
    if form(target) is None:
        names = "uniform, log, LogQuadratic, band, log_band, wall, hinge and errors"
        return f"On a device localize takes the potentials {names}; got {target.potential}. Use device='cpu'."
    if full:
        return "On a device localize takes variances='scalar' only; give that, or use device='cpu'."
    if np.dtype(dtype) != np.float32:
        return "On a device localize works in float32; for float64 use device='cpu'."
    return ""


def form(target: Target) -> tuple[int, float, float, float] | None:
    """Return the weight of a constraint for the kernel: FORM, its two numbers, and the table's exponent; None if unknown.

    >>> form(Target(potential="log", temperature=0.5))
    (0, 0.0, 0.0, 2.0)
    """
    potential, beta = target.potential, target.beta
    if isinstance(potential, Log):
        return 0, 0.0, 0.0, beta
    if isinstance(potential, Uniform) or (isinstance(potential, (Hinge, Errors)) and np.isinf(beta)):
        return 0, 0.0, 0.0, 0.0
    if isinstance(potential, LogQuadratic) and potential.quadratic >= 0:
        return 1, beta * potential.linear, beta * potential.quadratic, beta
    if isinstance(potential, (Band, LogBand, Wall)) and potential.centre is not None:
        return 4, max(potential.breakpoints) - potential.centre, 0.0, 0.0
    if isinstance(potential, Wall):
        return 0 if potential.upper is None else 5, 0.0, 0.0, beta
    if isinstance(potential, Errors):
        return 2, beta, float(-np.expm1(-beta)), 0.0
    if isinstance(potential, Hinge):
        return 3, beta, 0.0, 0.0
    return None


def response_table(target: Target) -> Array:
    """Return ρ(x) and its slope, x = (ω - κ)/√V, as the device interpolates them: (cells, 2) float32.

    The middle x = -4 .. 12 on an even grid; the far left as -x (ρ + x) and slope in -1/x; the far right as x ρ and
    x² slope in 1/x. All are smooth, so that a cubic through four neighbours is exact to float32.
    """
    found = form(target)
    assert found is not None
    return _plane(target.potential, target.beta) if found[0] == 4 else _table(found[3])


@lru_cache(maxsize=4)
def _plane(potential: Potential, beta: float) -> Array:
    """Return √V g less its ramp (√(1 + ξ²) - ξ)/2, and V dg, at every V and ξ: (PLANE_ROWS + 3, PLANE_FIELDS + 3, 2) float32.

    The ramp is what a wall does far outside; without it values are small there, and smooth everywhere.
    """
    xi = np.sinh(OUTERMOST + FIELD_STEP * (np.arange(PLANE_FIELDS + 3) - 1.0))
    ramp = np.where(xi > 0, 0.5 / (np.hypot(1, xi) + np.abs(xi)), 0.5 * (np.hypot(1, xi) - xi))
    lower = min(potential.breakpoints)
    plane = np.empty((PLANE_ROWS + 3, PLANE_FIELDS + 3, 2))
    for row, variance in enumerate(np.exp(LEAST + ROW_STEP * (np.arange(PLANE_ROWS + 3) - 1.0))):
        # values past the middle by more than a cell are never read
        seen = np.minimum(xi * np.sqrt(variance), 1.2 * (max(potential.breakpoints) - lower))
        _, g, dg = potential.channel(lower + seen, np.full(len(xi), variance), beta)
        plane[row] = np.stack([np.sqrt(variance) * g - ramp, variance * dg], axis=1)
    return plane.astype(np.float32)


@lru_cache(maxsize=16)
def _table(beta: float) -> Array:
    middle = LEFT + (np.arange(MIDDLE + 3) - 1) * ((RIGHT - LEFT) / MIDDLE)
    cells = (np.arange(SIDE + 3) - 1) / SIDE
    # the outermost points stand in for x = ∓∞ and beyond, where the functions are even in 1/x to the order that counts
    left, right = (np.maximum(np.abs(cells), 1e-3) / edge for edge in (-LEFT, RIGHT))
    rows = []
    for x, side in ((middle, ""), (-1 / left, "left"), (1 / right, "right")):
        rho, slope = (part[:, 0] for part in gaussian_power_derivatives(np.ascontiguousarray(x[:, None]), 1.0, beta))
        if side == "left":
            rho = -x * (rho + x)
        elif side == "right":
            rho, slope = x * rho, x * x * slope
        rows.append(np.stack([rho, slope], axis=1))
    return np.concatenate(rows).astype(np.float32)
