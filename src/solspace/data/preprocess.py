"""From pixels to patterns.

*centred* (the default): pixels/255, minus the mean of each pixel over the pool of images, [times random features F],
and each row rescaled to norm √N. Stabilities then have standard deviation 1 under random weights, and dead pixels
need no rule. *raw*: pixels/255 as they are, features literally F x; probably the paper's. *binarised*: ±1, the sign
of the centred pixel, +1 where it is zero.

What is learned, the mean, is learned once from a pool or a training set and applied unchanged to everything after it.

Tables of other numbers than pixels are scaled as a whole (`scale`): *none*, *centre* the features, or *norm* the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.system.names import unknown

PREPROCESSING = ("centred", "raw", "binarised")
SCALES = ("none", "centre", "norm")
OFF = 3.0
"""Factor by which stabilities may differ from order one before it is worth a word."""


@dataclass(frozen=True)
class Preprocessing:
    """A fitted preprocessing; calling it turns images (k, d) into patterns (k, n).

    Parameters
    ----------
    name : {"centred", "raw", "binarised"}
        See `load`.
    mean : ndarray, optional
        (d,) mean of each pixel, in the images' units.

    Examples
    --------
    >>> prepare = Preprocessing.learn("centred", np.array([[0, 255], [255, 255]], np.uint8))
    >>> prepare(np.array([[0, 0]], np.uint8)).round(3)
    array([[-0.632, -1.265]], dtype=float32)
    """

    name: str
    mean: Array | None = None
    """Mean of each pixel (d,), in the images' own units."""

    @classmethod
    def learn(cls, name: str, images: Array) -> Preprocessing:
        """Fit a preprocessing to a pool of images.

        Parameters
        ----------
        name : {"centred", "raw", "binarised"}
            See `load`.
        images : ndarray
            (k, d).

        Returns
        -------
        Preprocessing
            The fitted preprocessing.
        """
        if name not in PREPROCESSING:
            raise unknown("preprocess", name, PREPROCESSING)
        if name == "raw":
            return cls(name)
        return cls(name, means(images))

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


def means(rows: Array) -> Array:
    """Return the mean (d,) of each column of rows (k, d)."""
    # Clipped, because the mean of equal numbers is not always that number: a dead pixel must stay dead.
    return np.clip(rows.mean(axis=0, dtype=np.float64), rows.min(axis=0), rows.max(axis=0))


def scale(rows: Array, how: str) -> Array:
    """Return rows (k, n) as they are, with every feature centred, or with every row rescaled to norm √n.

    >>> scale(np.array([[3.0, 4.0], [5.0, 4.0]]), "centre")
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    if how not in SCALES:
        raise unknown("scale", how, SCALES)
    numbers = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
    if how == "centre":
        return numbers - means(numbers).astype(numbers.dtype)
    return rescaled(numbers) if how == "norm" else numbers


def off_scale(rows: Array) -> float:
    """Return how many times too large stabilities of random weights on rows (k, n) come out; 1 where that is no matter.

    >>> off_scale(np.full((2, 3), 100.0)), off_scale(np.ones((2, 3)))
    (100.0, 1.0)
    """
    size = float(np.sqrt(np.einsum("ij,ij->", rows, rows, dtype=np.float64) / rows.size))
    return 1.0 if 1 / OFF <= size <= OFF else size


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
    """Return a matrix of independent standard normal entries.

    Parameters
    ----------
    n : int
        Number of features.
    d : int
        Number of inputs.
    rng : int, Generator, SeedSequence or None
        Seed.

    Returns
    -------
    ndarray
        (n, d) float32.
    """
    return generator(rng).standard_normal((n, d), dtype=np.float32)


def _project(rows: Array, features: Array) -> Array:
    return rows @ features.T.astype(rows.dtype, copy=False)
