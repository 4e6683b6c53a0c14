"""Approximate message passing on a CUDA device: `samplers.messages` for ±1 weights and scalar variances.

Patterns of ±1 are exact in bfloat16, and a float32 number is the sum of three bfloat16 numbers to its last bit but
one. So the products X m and Xᵀ g are one product each with a three times wider operand on the tensor cores, added in
float32: more accurate than a float32 product, and faster than one in TF32, which rounds to 11 bits. Other patterns use
float32 products.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure.channels import power_derivatives
from solspace.measure.potentials import Log, Uniform
from solspace.measure.priors import Binary
from solspace.problem import Perceptron
from solspace.samplers.device import cupy
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.messages import VARIANCE_FLOOR, second_moment
from solspace.samplers.relaxation import TOSSING

Array = NDArray[Any]
_ROWS, _STRIPS, _MIDDLE, _SIDE, _LEFT, _RIGHT = 64, 8, 1024, 64, -4.0, 12.0
"""Constants of `kernels/cuda/messages.cu`."""
_BFLOAT, _FLOAT, _COMPUTE = 14, 0, 68
"""What cuBLAS calls bfloat16, float32, and sums in float32."""


def supported(problem: Perceptron, full: bool, dtype: Any) -> str:
    """Return what keeps the problem from running on a device, as a sentence; empty if nothing does."""
    target = problem.target
    if not isinstance(target.prior, Binary):
        return f"On a device localize takes ±1 weights only; got {target.prior}. Use device='cpu'."
    if not isinstance(target.potential, (Log, Uniform)):
        return f"On a device localize takes the potentials log and uniform; got {target.potential}. Use device='cpu'."
    if full:
        return "On a device localize takes variances='scalar' only; give that, or use device='cpu'."
    if np.dtype(dtype) != np.float32:
        return "On a device localize works in float32; for float64 use device='cpu'."
    return ""


class GpuMessages:
    """Means (n, k), responses (m, k) and variances (k,) of `k` fields on the device, and one iteration on them."""

    def __init__(self, problem: Perceptron, k: int) -> None:
        self.cupy, self.problem, self.k = cupy(), problem, k
        self.n, self.m = problem.n, problem.m
        self.scale, self.moment = np.float32(1 / np.sqrt(problem.n)), second_moment(problem)
        self.parts = 3 if problem.has_binary_patterns and _blas() is not None else 1
        self.patterns = self._send()
        self.table = self.cupy.asarray(response_table(problem))
        zeros = self.cupy.zeros
        self.mean, self.g = zeros((self.n, k), np.float32), zeros((self.m, k), np.float32)
        self.variance = self.cupy.full(k, self.moment).astype(np.float32)
        self.instability, self.width = zeros(k, np.float32), self.cupy.full(k, 1.0).astype(np.float32)

    def _send(self) -> Any:
        if self.parts == 1:
            return self.cupy.asarray(np.ascontiguousarray(self.problem.patterns, dtype=np.float32))
        bits = np.where(self.problem.patterns > 0, np.uint16(0x3F80), np.uint16(0xBF80))
        return self.cupy.asarray(bits)

    def state(self) -> list[Any]:
        """Return the arrays that the next iteration depends on, columns last."""
        return [self.mean, self.g, self.variance, self.instability, self.width]

    def take(self, lanes: Array) -> GpuMessages:
        """Return messages of the columns `lanes` alone, a copy."""
        few = object.__new__(GpuMessages)
        few.__dict__.update(self.__dict__)
        chosen = self.cupy.asarray(lanes)
        few.k = len(lanes)
        few.mean, few.g, few.variance, few.instability, few.width = (part[..., chosen].copy() for part in self.state())
        return few

    def put(self, few: GpuMessages, lanes: Array) -> None:
        """Write the columns of `few` to the columns `lanes`."""
        chosen = self.cupy.asarray(lanes)
        for own, given in zip(self.state(), few.state()):
            own[..., chosen] = given


class Iteration:
    """A batch of messages on their way to a fixed point at `field`; nothing in `step` waits for the device."""

    def __init__(
        self, messages: GpuMessages, field: Any, tolerance: Array, damping: Array, cap: Array, count: Array, best: Array
    ) -> None:
        self.messages, self.field, device = messages, field, messages.cupy
        k, n, m, parts = messages.k, messages.n, messages.m, messages.parts
        operand = np.uint16 if parts == 3 else np.float32
        self.into, self.back = device.empty((n, parts * k), operand), device.empty((m, parts * k), operand)
        self.forward, self.backward = device.empty((m, parts * k), np.float32), device.empty((n, parts * k), np.float32)
        self.strips = -(-m // _ROWS), -(-n // _ROWS)
        self.sums = [device.empty((max(self.strips), k), np.float32) for _ in range(3)]
        self.precision, self.roughness = device.empty(k, np.float32), device.empty(k, np.float32)
        sent = device.asarray(np.array([tolerance, damping, cap, 1 - damping, best, np.zeros(k)], np.float32))
        self.tolerance, self.damping, self.cap, self.weight, self.best, self.residual = sent
        whole = device.asarray(np.array([count, np.zeros(k), np.full(k, k)], np.int32))
        self.count, self.outcome, self.moving = whole
        self._run("split", self.strips[1], messages.mean, *_ints(n, k), self.into)

    def _run(self, name: str, strips: int, *arguments: Any) -> None:
        found = kernel("messages", name, (("PARTS", self.messages.parts),))
        wide = -(-self.messages.k // 32)
        if name in ("control", "precisions"):
            found((-(-self.messages.k // 128),), (128,), arguments)
        else:
            found((wide, strips), (32, _STRIPS), arguments)

    def step(self) -> None:
        """Make one iteration of all columns that still move."""
        own, k, n, m = self.messages, self.messages.k, self.messages.n, self.messages.m
        alpha = m / n * own.moment
        self._product(self.into, self.forward, transposed=False)
        margin = np.float32(own.problem.target.margin)
        self._run("respond", self.strips[0], self.forward, own.scale, margin, own.variance, self.weight, own.table,
                  *_ints(m, k), own.g, self.back, *self.sums[:2])  # fmt: skip
        self._run("precisions", 0, *self.sums[:2], *_ints(self.strips[0]), np.float32(alpha), *_ints(m, k),
                  self.precision, self.roughness)  # fmt: skip
        self._product(self.back, self.backward, transposed=True)
        self._run("estimate", self.strips[1], self.backward, own.scale, self.field, self.precision, self.weight,
                  *_ints(n, k), own.mean, self.into, *self.sums)  # fmt: skip
        floats = (own.moment, alpha * own.moment, VARIANCE_FLOOR / n, TOSSING)
        self._run("control", 0, *self.sums, *_ints(self.strips[1], n, k), *map(np.float32, floats), self.roughness,
                  self.damping, self.tolerance, self.cap, own.variance, own.instability, own.width, self.weight,
                  self.best, self.residual, self.count, self.outcome, self.moving)  # fmt: skip

    def _product(self, given: Any, out: Any, transposed: bool) -> None:
        own, device = self.messages, self.messages.cupy
        if own.parts == 1:
            out[...] = (own.patterns.T if transposed else own.patterns) @ given
            return
        # row-major (rows, columns) is column-major (columns, rows): out' = given' · patterns', or given' · patterns
        blas, width, (m, n) = _blas(), own.parts * own.k, own.patterns.shape
        rows, inner = (n, m) if transposed else (m, n)
        blas.gemmEx(
            device.cuda.device.get_cublas_handle(), 0, int(transposed), width, rows, inner, _ONE.ctypes.data,
            given.data.ptr, _BFLOAT, width, own.patterns.data.ptr, _BFLOAT, n, _ZERO.ctypes.data,
            out.data.ptr, _FLOAT, width, _COMPUTE, 99,
        )  # fmt: skip


def _blas() -> Any:
    """Return CuPy's cuBLAS where products of bfloat16 can be had from it, else None."""
    if find_spec("cupy_backends") is None:
        return None
    from cupy_backends.cuda.libs import cublas

    return cublas if hasattr(cublas, "gemmEx") else None


_ONE, _ZERO = np.ones(1, np.float32), np.zeros(1, np.float32)


def _ints(*values: int) -> tuple[Any, ...]:
    return tuple(map(np.int32, values))


def response_table(problem: Perceptron) -> Array:
    """Return ρ(x) and its slope, x = (ω - κ)/√V, as the device interpolates them: (cells, 2) float32.

    The middle x = -4 .. 12 on an even grid; the far left as -x (ρ + x) and slope in -1/x; the far right as x ρ and
    x² slope in 1/x. All are smooth, so that a cubic through four neighbours is exact to float32.
    """
    target = problem.target
    beta = 1 / target.temperature if isinstance(target.potential, Log) else 0.0
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
