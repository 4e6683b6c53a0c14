"""Products with the patterns: X m/√n and Xᵀ g/√n for many columns at once, and the same with squared entries.

No second copy of the patterns is ever made. Where their type is the working one, BLAS does the work; where it is not (±1
patterns are int8), compiled loops convert them in the caches as they go (`product_tiles`). At 64 columns on AVX-512 those loops
run at the speed of a large square matrix product in BLAS. Few columns only wait for the patterns to be read:
`product_vectors` takes them one or four at a time, at N = 5000 in a quarter of the time of tiles for four.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array, Precision, aligned
from solspace.problem import Perceptron
from solspace.system.threads import split

FEW = 12
"""Up to so many columns are multiplied four at a time."""


def width(k: int, dtype: Precision) -> int:
    """Return the number of columns to allocate for `k` samples: one, fours up to FEW, whole registers beyond."""
    if k <= 1:
        return k
    if k <= FEW:
        return 4 * -(-k // 4)
    from solspace.samplers.kernels.product_tiles import lanes

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
        return self._product("forward", given, out, square=False)

    def backward(self, given: Array, out: Array) -> Array:
        """Return Xᵀ given/√n, (n, k), in `out`."""
        return self._product("backward", given, out, square=False)

    def forward_squares(self, given: Array, out: Array) -> Array:
        """Return Σ_i x_μi² given_i/n, (m, k), in `out`."""
        if self.binary:
            out[...] = given.sum(axis=0, dtype=np.float64) / self.patterns.shape[1]
            return out
        return self._product("forward", given, out, square=True)

    def backward_squares(self, given: Array, out: Array) -> Array:
        """Return Σ_μ x_μi² given_μ/n, (n, k), in `out`."""
        if self.binary:
            out[...] = given.sum(axis=0, dtype=np.float64) / self.patterns.shape[1]
            return out
        return self._product("backward", given, out, square=True)

    def _product(self, way: str, given: Array, out: Array, square: bool) -> Array:
        scale = self.scale * self.scale if square else self.scale
        same, wide = self.patterns.dtype == self.dtype and not square, given.shape[1]
        if same and (wide == 1 or wide > 4):
            return self._blas(way, given, out, scale)
        if wide == 1 and not square:
            return self._one(way, given, out, scale)
        if wide <= FEW:
            return self._fours(way, given, out, square, scale)
        return self._tiles(way, given, out, square, scale)

    def _blas(self, way: str, given: Array, out: Array, scale: np.floating) -> Array:
        np.matmul(self.patterns if way == "forward" else self.patterns.T, given, out=out)
        out *= scale
        return out

    def _one(self, way: str, given: Array, out: Array, scale: np.floating) -> Array:
        from solspace.samplers.kernels import product_vectors as vectors

        kernel, column, result = getattr(vectors, way), given.reshape(-1), out.reshape(-1)
        split(lambda first, last: kernel(self.patterns, column, result, first, last, scale), len(out), 256)
        return out

    def _fours(self, way: str, given: Array, out: Array, square: bool, scale: np.floating) -> Array:
        from solspace.samplers.kernels import product_vectors as vectors

        if given.shape[1] == 1:
            four = self._fours(way, np.repeat(given, 4, axis=1), np.empty((len(out), 4), self.dtype), square, scale)
            out[...] = four[:, :1]
            return out
        for at in range(0, given.shape[1], 4):
            if way == "forward":
                four = np.ascontiguousarray(given[:, at : at + 4].T)

                def part(first: int, last: int, four: Array = four, at: int = at) -> None:
                    vectors.forward_four(self.patterns, four, out, at, first, last, scale, square)

            else:
                four = np.empty((4, len(out)), self.dtype)

                def part(first: int, last: int, four: Array = four, at: int = at) -> None:
                    vectors.backward_four(self.patterns, given, at, four, first, last, scale, square)

            split(part, len(out), 256)
            if way == "backward":
                out[:, at : at + 4] = four.T
        return out

    def _tiles(self, way: str, given: Array, out: Array, square: bool, scale: np.floating) -> Array:
        from solspace.samplers.kernels import product_tiles as tiles

        lane, ahead = tiles.lanes(self.dtype), way == "forward"
        kernel = tiles.forward if ahead else tiles.backward
        shape = (tiles.ACROSS, tiles.DEPTH) if ahead else (tiles.DEPTH_BACK, tiles.ACROSS_BACK)
        product = tiles.Product(self.patterns, given, out, scale, square, lane)

        def part(first: int, last: int) -> None:
            packed = columns(tiles.DEPTH, tiles.VECTORS * lane, self.dtype).reshape(-1)
            kernel(product, first, last, tiles.Scratch(np.empty(shape, self.dtype), packed))

        split(part, len(out), tiles.ACROSS if ahead else tiles.ACROSS_BACK)
        return out
