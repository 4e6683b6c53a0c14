"""Products with the patterns: X m/√n and Xᵀ g/√n for many columns at once, and the same with squared entries.

No second copy of the patterns is ever made. Where their type is the working one, BLAS does the work; where it is not (±1
patterns are int8), compiled loops convert them in the caches as they go (`product_loops`): four columns at a time up to FEW, in
tiles beyond.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array, Precision, aligned
from solspace.problem import Perceptron
from solspace.system.threads import split

FEW = 16
"""Up to so many columns are multiplied four at a time."""


def width(k: int, dtype: Precision) -> int:
    """Return the number of columns to allocate for `k` samples: one, fours up to FEW, whole registers beyond."""
    if k <= 1:
        return k
    if k <= FEW:
        return 4 * -(-k // 4)
    from solspace.samplers.kernels.product_loops import lanes

    lane = lanes(dtype)
    return lane * -(-k // lane)


def narrower(wide: int, dtype: Precision) -> int:
    """Return the largest number of columns for which fewer than `wide` are allocated.

    >>> narrower(1, np.float32), narrower(8, np.float32)
    (0, 4)
    """
    return next(k for k in range(wide - 1, -1, -1) if width(k, dtype) < wide)


def columns(rows: int, k: int, dtype: Precision) -> Array:
    """Return zeros (rows, width(k)) that begin on a cache line."""
    return aligned((rows, width(k, dtype)), dtype)


class Products:
    """The four products of AMP for columns (n, k) or (m, k) of type `dtype`, as `columns` makes them."""

    def __init__(self, problem: Perceptron, dtype: Precision) -> None:
        self.patterns = problem.patterns
        self.dtype = np.dtype(dtype)
        self.scale = self.dtype.type(1 / np.sqrt(problem.n))
        self.binary = problem.has_binary_patterns

    def forward(self, given: Array, out: Array) -> Array:
        """Return X given/√n, (m, k), in `out`."""
        return self._product(True, given, out, square=False)

    def backward(self, given: Array, out: Array) -> Array:
        """Return Xᵀ given/√n, (n, k), in `out`."""
        return self._product(False, given, out, square=False)

    def forward_squares(self, given: Array, out: Array) -> Array:
        """Return Σ_i x_μi² given_i/n, (m, k), in `out`."""
        return self._product(True, given, out, square=True)

    def backward_squares(self, given: Array, out: Array) -> Array:
        """Return Σ_μ x_μi² given_μ/n, (n, k), in `out`."""
        return self._product(False, given, out, square=True)

    def _product(self, ahead: bool, given: Array, out: Array, square: bool) -> Array:
        if square and self.binary:
            out[...] = given.sum(axis=0, dtype=np.float64) / self.patterns.shape[1]
            return out
        scale = self.scale * self.scale if square else self.scale
        wide = given.shape[1]
        if self.patterns.dtype == self.dtype and not square and (wide == 1 or wide > 4):
            np.matmul(self.patterns if ahead else self.patterns.T, given, out=out)
            out *= scale
            return out
        return (self._fours if wide <= FEW else self._tiles)(ahead, given, out, square, scale)

    def _fours(self, ahead: bool, given: Array, out: Array, square: bool, scale: np.floating) -> Array:
        from solspace.samplers.kernels import product_loops as loops

        squared = True if square else None
        for at in range(0, given.shape[1], 4):
            own = slice(at, at + 4)
            if ahead:
                few = np.ascontiguousarray(given[:, own].T)

                def part(first: int, last: int, few: Array = few, at: int = at) -> None:
                    loops.forward_few(self.patterns, few, out, at, first, last, scale, squared)

            else:
                few = np.zeros((min(4, given.shape[1]), len(out)), self.dtype)

                def part(first: int, last: int, few: Array = few, at: int = at) -> None:
                    loops.backward_few(self.patterns, given, at, few, first, last, scale, squared)

            split(part, len(out), 256)
            if not ahead:
                out[:, own] = few.T
        return out

    def _tiles(self, ahead: bool, given: Array, out: Array, square: bool, scale: np.floating) -> Array:
        from solspace.samplers.kernels import product_loops as loops

        lane = loops.lanes(self.dtype)
        kernel = loops.forward if ahead else loops.backward
        shape = (loops.ACROSS, loops.DEPTH) if ahead else (loops.DEPTH_BACK, loops.ACROSS_BACK)
        product = loops.Product(self.patterns, given, out, scale, square, lane)

        def part(first: int, last: int) -> None:
            packed = columns(loops.DEPTH, loops.VECTORS * lane, self.dtype).reshape(-1)
            kernel(product, first, last, loops.Scratch(np.empty(shape, self.dtype), packed))

        split(part, len(out), loops.ACROSS if ahead else loops.ACROSS_BACK)
        return out
