"""Approximate message passing on a CUDA device: `samplers.messages` with scalar variances, for problems of one shape.

Patterns of ±1 are exact in bfloat16, and a float32 number is the sum of three bfloat16 numbers to its last bit but
one. So the products X m and Xᵀ g are one product each with a three times wider operand on the tensor cores, added in
float32: more accurate than a float32 product, and faster than one in TF32, which rounds to 11 bits. Other patterns use
float32 products. The constraints' response is read from a table of one variable (`response_table`), to which every
power law, tilted or not, and every step of the weight at the margin comes down.

Arrays are (problems, rows, k): k columns, samples, to a problem.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure import Target
from solspace.measure.channels import power_derivatives
from solspace.measure.potentials import Errors, Hinge, Log, LogQuadratic, Uniform
from solspace.measure.priors import Binary, Spherical
from solspace.problem import Perceptron
from solspace.samplers.device import cupy
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.marginals.cpu import second_moment
from solspace.samplers.packed import PackedPerceptron

Array = NDArray[Any]
_MIDDLE, _SIDE, _LEFT, _RIGHT = 1024, 64, -4.0, 12.0
"""Constants of `kernels/cuda/messages.cu`."""
_BFLOAT, _FLOAT, _COMPUTE = 14, 0, 68
"""What cuBLAS calls bfloat16, float32, and sums in float32."""


def supported(problem: Perceptron, full: bool, dtype: Any) -> str:
    """Return what keeps the problem from running on a device, as a sentence; empty if nothing does."""
    target = problem.target
    if not isinstance(target.prior, (Binary, Spherical)):
        return f"On a device localize takes binary and spherical weights; got {target.prior}. Use device='cpu'."
    if form(target) is None:
        names = "uniform, log, LogQuadratic, hinge and errors"
        return f"On a device localize takes the potentials {names}; got {target.potential}. Use device='cpu'."
    if full:
        return "On a device localize takes variances='scalar' only; give that, or use device='cpu'."
    if np.dtype(dtype) != np.float32:
        return "On a device localize works in float32; for float64 use device='cpu'."
    return ""


def form(target: Target) -> tuple[int, float, float, float] | None:
    """Return the weight of a constraint as the kernel takes it: FORM, its two numbers, and the table's exponent.

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
    if isinstance(potential, Errors):
        return 2, beta, float(-np.expm1(-beta)), 0.0
    if isinstance(potential, Hinge):
        return 3, beta, 0.0, 0.0
    return None


class GpuPatterns:
    """The patterns of problems of one shape on the device, and products with them."""

    def __init__(self, problems: Sequence[Perceptron]) -> None:
        self.cupy = cupy()
        self.m, self.n = problems[0].m, problems[0].n
        self.parts = 3 if all(p.has_binary_patterns for p in problems) and _blas() is not None else 1
        self.moments = np.array([second_moment(problem) for problem in problems])
        kind = np.uint16 if self.parts == 3 else np.float32
        self.matrix = self.cupy.empty((len(problems), self.m, self.n), kind)
        for number, problem in enumerate(problems):
            self._send(problem, self.matrix[number])

    def __len__(self) -> int:
        return len(self.matrix)

    def _send(self, problem: Perceptron, to: Any) -> None:
        if self.parts == 1:
            to[...] = self.cupy.asarray(np.ascontiguousarray(problem.patterns, dtype=np.float32))
            return
        packed = isinstance(problem, PackedPerceptron)
        given = self.cupy.asarray(problem.bits if isinstance(problem, PackedPerceptron) else problem.patterns)
        signs = kernel("patterns", "from_bits" if packed else "from_signs")
        signs((-(-to.size // 256),), (256,), (given, np.int64(to.size), to))

    def of(self, numbers: Array) -> GpuPatterns:
        """Return the patterns of some of the problems, a copy."""
        few = object.__new__(GpuPatterns)
        few.__dict__.update(self.__dict__)
        few.matrix, few.moments = self.matrix[self.cupy.asarray(numbers)], self.moments[numbers]
        return few

    def product(self, given: Any, out: Any, transposed: bool) -> None:
        """Write X · given, or Xᵀ · given, to `out`: float32 operands, or bfloat16 for patterns of ±1."""
        if self.parts == 1:
            left = self.matrix.transpose(0, 2, 1) if transposed else self.matrix
            out[...] = left @ given
            return
        # row-major (rows, columns) is column-major (columns, rows): out' = given' · patterns', or given' · patterns
        width, rows, inner = given.shape[2], out.shape[1], given.shape[1]
        _blas().gemmStridedBatchedEx(
            self.cupy.cuda.device.get_cublas_handle(), 0, int(transposed), width, rows, inner, _ONE.ctypes.data,
            given.data.ptr, _BFLOAT, width, width * inner, self.matrix.data.ptr, _BFLOAT, self.n, self.m * self.n,
            _ZERO.ctypes.data, out.data.ptr, _FLOAT, width, width * rows, len(self), _COMPUTE, 99,
        )  # fmt: skip

    def stabilities(self, signs: Any) -> Array | None:
        """Return the stabilities (problems, k, m) of weights of ±1, (problems, n, k); None where the host must do it."""
        if self.parts == 1:
            return None
        out = self.cupy.empty((len(self), self.m, signs.shape[2]), np.float32)
        self.product((signs < 0).astype(np.uint16) * np.uint16(0x8000) + np.uint16(0x3F80), out, False)
        counted = self.cupy.ascontiguousarray(out.transpose(0, 2, 1)).get().astype(np.float64)
        counted /= np.sqrt(self.n)
        return counted


class GpuMessages:
    """Means (problems, n, k), responses (problems, m, k), variances and the rest (width,) of all columns."""

    def __init__(self, problems: Sequence[Perceptron], k: int) -> None:
        self.cupy, self.k = cupy(), k
        self.target, self.n, self.m = problems[0].target, problems[0].n, problems[0].m
        self.patterns = GpuPatterns(problems)
        self.width = len(problems) * k
        self.table = self.cupy.asarray(response_table(self.target))
        zeros = self.cupy.zeros
        self.field, self.mean = (zeros((len(problems), self.n, k), np.float32) for _ in range(2))
        self.g = zeros((len(problems), self.m, k), np.float32)
        moments = np.repeat(self.patterns.moments, k).astype(np.float32)
        self.moment, self.variance = self.cupy.asarray(moments), self.cupy.asarray(moments)
        self.instability, self.spread = (self.cupy.asarray(np.full(self.width, x, np.float32)) for x in (0.0, 1.0))

    def state(self) -> list[Any]:
        """Return the arrays that the next iteration depends on, columns last."""
        return [self.mean, self.g, self.variance, self.instability, self.spread]

    def by_problem(self, part: Any) -> Any:
        """Return an array with its columns as (problems, ..., k)."""
        return part.reshape(len(self.patterns), self.k) if part.ndim == 1 else part


def _blas() -> Any:
    """Return CuPy's cuBLAS where products of bfloat16 can be had from it, else None."""
    if find_spec("cupy_backends") is None:
        return None
    from cupy_backends.cuda.libs import cublas

    return cublas if hasattr(cublas, "gemmStridedBatchedEx") else None


_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)


def response_table(target: Target) -> Array:
    """Return ρ(x) and its slope, x = (ω - κ)/√V, as the device interpolates them: (cells, 2) float32.

    The middle x = -4 .. 12 on an even grid; the far left as -x (ρ + x) and slope in -1/x; the far right as x ρ and
    x² slope in 1/x. All are smooth, so that a cubic through four neighbours is exact to float32.
    """
    found = form(target)
    assert found is not None
    return _table(found[3])


@lru_cache(maxsize=16)
def _table(beta: float) -> Array:
    middle = _LEFT + (np.arange(_MIDDLE + 3) - 1) * ((_RIGHT - _LEFT) / _MIDDLE)
    cells = (np.arange(_SIDE + 3) - 1) / _SIDE
    # the outermost points stand in for x = ∓∞ and beyond, where the functions are even in 1/x to the order that counts
    left, right = (np.maximum(np.abs(cells), 1e-3) / edge for edge in (-_LEFT, _RIGHT))
    rows = []
    for x, rule in ((middle, None), (-1 / left, "left"), (1 / right, "right")):
        rho, slope = power_derivatives(np.ascontiguousarray(x[:, None], dtype=np.float64), 1.0, beta)
        rho, slope = rho[:, 0], slope[:, 0]
        if rule == "left":
            rho = -x * (rho + x)
        elif rule == "right":
            rho, slope = x * rho, x * x * slope
        rows.append(np.stack([rho, slope], axis=1))
    return np.concatenate(rows).astype(np.float32)
