"""From pixels to patterns.

*centred* (the default): pixels/255, minus the mean of each pixel over the pool of images, [times random features F],
and each row rescaled to norm √N. Stabilities then have standard deviation 1 under random weights, and dead pixels
need no rule. *raw*: pixels/255 as they are, features literally F x; probably the paper's. *binarised*: ±1, the sign
of the centred pixel, +1 where it is zero.

What is learned, the mean, is learned once from a pool or a training set and applied unchanged to everything after it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.system.names import unknown

PREPROCESSING = ("centred", "raw", "binarised")


@dataclass(frozen=True)
class Preprocessing:
    """A preprocessing with what it learned: calling it turns images (k, d) into patterns (k, n).

    >>> prepare = Preprocessing.learn("centred", np.array([[0, 255], [255, 255]], np.uint8))
    >>> prepare(np.array([[0, 0]], np.uint8)).round(3)
    array([[-0.632, -1.265]], dtype=float32)
    """

    name: str
    mean: Array | None = None
    """Mean of each pixel (d,), in the images' own units."""

    @classmethod
    def learn(cls, name: str, images: Array) -> Preprocessing:
        """Return the preprocessing called `name`, learned from a pool of images (k, d)."""
        if name not in PREPROCESSING:
            raise unknown("preprocess", name, PREPROCESSING)
        if name == "raw":
            return cls(name)
        # Clipped, because the mean of equal numbers is not always that number: a dead pixel must stay dead.
        mean = np.clip(images.mean(axis=0, dtype=np.float64), images.min(axis=0), images.max(axis=0))
        return cls(name, mean)

    def __call__(self, images: Array, features: Array | None = None) -> Array:
        """Return the patterns (k, n) of images (k, d): n = d, or the number of rows of `features` (n, d)."""
        if self.name == "binarised":
            signs = np.where(images >= self.mean, np.int8(1), np.int8(-1))
            return signs if features is None else rescaled(_project(signs.astype(np.float32), features))
        pixels = scaled(images)
        if self.name == "raw":
            return pixels if features is None else _project(pixels, features)
        assert self.mean is not None
        mean = self.mean / 255 if images.dtype == np.uint8 else self.mean
        pixels = pixels - mean.astype(pixels.dtype)
        return rescaled(pixels if features is None else _project(pixels, features))


def scaled(images: Array) -> Array:
    """Return bytes as float32 in [0, 1], and other numbers as floating point, unchanged."""
    if images.dtype == np.uint8:
        return images.astype(np.float32) / np.float32(255)
    return images if images.dtype in (np.float32, np.float64) else images.astype(np.float64)


def rescaled(rows: Array) -> Array:
    """Return rows (k, n) rescaled to norm √n; a row that is zero up to rounding becomes zero.

    >>> rescaled(np.array([[3.0, 4.0], [0.0, 0.0]])).round(3)
    array([[0.849, 1.131],
           [0.   , 0.   ]])
    """
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    size = np.sqrt(rows.shape[1])
    floor = np.finfo(rows.dtype).eps * size * np.abs(rows).max(initial=0.0)
    factor = np.divide(size, norm, out=np.zeros_like(norm), where=norm > floor)
    return rows * factor[:, None].astype(rows.dtype)


def has_unit_rows(rows: Array) -> bool:
    """Return whether every row has norm √n, as `"centred"` and `"binarised"` leave them."""
    norm = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / rows.shape[1]
    return bool(np.all((np.abs(norm - 1) < 1e-3) | (norm == 0)))


def random_features(n: int, d: int, rng: RNG = None) -> Array:
    """Return F (n, d) with independent standard Gaussian entries, float32."""
    return generator(rng).standard_normal((n, d), dtype=np.float32)


def _project(rows: Array, features: Array) -> Array:
    return rows @ features.T.astype(rows.dtype, copy=False)
