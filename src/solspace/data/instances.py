"""From pixels to patterns, and from a pool of images to random problems.

Preprocessing *centred* (the default): pixels/255, minus the mean of each pixel over the pool, [times random features F], and each
row rescaled to norm √n. *raw*: pixels/255, features literally F x; probably the paper's. *binarised*: ±1, the sign of the
centred pixel, +1 where it is zero.

Every instance draws m = αn images and, if requested, its own random features from two streams of one seed: the images are the
same with and without features, and `subset` with the same seed returns which they were (the others are held out).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator, seed_sequence
from solspace.system.checks import number, one_of, optional, whole

PREPROCESSING = ("centred", "raw", "binarised")
SCALES = ("none", "centre", "norm")


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
        one_of(PREPROCESSING)("preprocess", name)
        return cls(name, None if name == "raw" else _means(images))

    def __call__(self, images: Array, features: Array | None = None) -> Array:
        """Return the patterns (k, n) of images (k, d): n = d, or the number of rows of `features` (n, d)."""
        if self.name == "binarised":
            signs = np.where(images >= self.mean, np.int8(1), np.int8(-1))
            return signs if features is None else _rescaled(_project(signs.astype(np.float32), features))
        are_bytes = images.dtype == np.uint8
        pixels = images.astype(np.float32) / np.float32(255) if are_bytes else _floating(images)
        if self.mean is None:
            return _project(pixels, features)
        mean = self.mean / 255 if are_bytes else self.mean
        return _rescaled(_project(pixels - mean.astype(pixels.dtype), features))


def scale(rows: Array, how: str) -> Array:
    """Return rows (k, n) as they are, with every feature centred, or with every row rescaled to norm √n.

    >>> scale(np.array([[3.0, 4.0], [5.0, 4.0]]), "centre")
    array([[-1.,  0.],
           [ 1.,  0.]])
    """
    one_of(SCALES)("scale", how)
    numbers = _floating(rows)
    if how == "centre":
        return numbers - _means(numbers).astype(numbers.dtype)
    return _rescaled(numbers) if how == "norm" else numbers


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

    Examples
    --------
    >>> images = np.ones((5, 64), np.float32)
    >>> (images @ random_features(101, 64, rng=0).T).shape
    (5, 101)
    """
    return generator(rng).standard_normal((n, d), dtype=np.float32)


def _means(rows: Array) -> Array:
    # Clipped, because the mean of equal numbers is not always that number: a dead pixel must stay dead.
    return np.clip(rows.mean(axis=0, dtype=np.float64), rows.min(axis=0), rows.max(axis=0))


def _floating(rows: Array) -> Array:
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _rescaled(rows: Array) -> Array:
    """Return rows (k, n) rescaled to norm √n; a row that is zero up to rounding becomes zero."""
    norm = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))
    size = np.sqrt(rows.shape[1])
    floor = np.finfo(rows.dtype).eps * size * np.abs(rows).max(initial=0.0)
    factor = np.divide(size, norm, out=np.zeros_like(norm), where=norm > floor)
    return rows * factor[:, None].astype(rows.dtype)


def _project(rows: Array, features: Array | None) -> Array:
    return rows if features is None else rows @ features.T.astype(rows.dtype, copy=False)


def drawn(
    X: Array,
    labels: Array,
    alpha: float | None = None,
    *,
    features: int | None = None,
    preprocess: str | None = None,
    balanced: bool = False,
    rng: RNG = None,
) -> tuple[Array, Array]:
    """Return patterns (m, n) and labels (m,) of a random instance from a pool with `labels` ±1; see `Perceptron.from_data`."""
    features = optional(whole(1, 10**9))("features", features)
    n = X.shape[1] if features is None else features
    m = len(X) if alpha is None else max(1, round(number(positive=True, most=1e200)("alpha", alpha) * n))
    if m > len(X):
        raise ValueError(
            f"alpha = {alpha:g} with n = {n} needs {m:.10g} rows of data, but there are {len(X)}: "
            f"alpha can be at most {len(X) / n:.4g}."
        )
    seeds = seed_sequence(rng)
    chosen = subset(labels, m, balanced=balanced, rng=seeds)
    matrix = None if features is None else random_features(n, X.shape[1], generator(seeds, 1))
    if preprocess is None and X.dtype != np.uint8:
        return _unprepared(X[chosen], matrix), labels[chosen]
    prepare = Preprocessing.learn(preprocess or "centred", X)
    return prepare(X[chosen], matrix), labels[chosen]


def _unprepared(rows: Array, features: Array | None) -> Array:
    """Return rows that are patterns already, or their features, rescaled if the rows have norm √n."""
    if features is None:
        return rows
    rows = rows.astype(np.float32 if rows.dtype in (np.int8, np.float32) else np.float64)
    norm = np.einsum("ij,ij->i", rows, rows, dtype=np.float64) / rows.shape[1]
    projected = _project(rows, features)
    return _rescaled(projected) if np.all((np.abs(norm - 1) < 1e-3) | (norm == 0)) else projected


def subset(y: ArrayLike, m: int, *, balanced: bool = False, rng: RNG = None) -> Array:
    """Return the indices of a random subset of labels, in increasing order.

    Parameters
    ----------
    y : array_like
        Labels.
    m : int
        Size of the subset.
    balanced : bool, default False
        Whether both labels come equally often (one once more for odd `m`).
    rng : int, Generator, SeedSequence or None
        Seed.

    Returns
    -------
    ndarray
        (m,).

    Examples
    --------
    >>> y = [-1, -1, -1, -1, 1, 1]
    >>> np.asarray(y)[subset(y, 4, balanced=True, rng=0)]
    array([-1, -1,  1,  1])
    """
    labels = np.asarray(y)
    if not 1 <= m <= len(labels):
        raise ValueError(f"m must be from 1 to the number of labels, {len(labels)}; got {m}.")
    random = generator(seed_sequence(rng), 0)
    if not balanced:
        return np.sort(random.permutation(len(labels))[:m])
    groups = sorted((np.flatnonzero(labels == label) for label in np.unique(labels)), key=len, reverse=True)
    sizes = [m // len(groups) + (i < m % len(groups)) for i in range(len(groups))]
    if sizes[-1] > len(groups[-1]):
        raise ValueError(
            f"a balanced subset of {m} needs {sizes[-1]} rows of each class; one class has {len(groups[-1])}."
        )
    return np.sort(np.concatenate([random.permutation(group)[:size] for group, size in zip(groups, sizes)]))


def signs(y: ArrayLike, m: int) -> Array:
    """Return labels ±1 (m,) of two classes, the smaller one -1.

    >>> signs(["dog", "cat", "dog"], 3)
    array([ 1, -1,  1], dtype=int8)
    """
    labels = np.asarray(y)
    if labels.shape not in ((m,), (m, 1)):
        raise ValueError(f"y must have shape ({m},), one label for each row of X; got {labels.shape}.")
    if np.ma.is_masked(y) or any(map(_is_missing, np.asarray(y, dtype=object).flat)):
        raise ValueError("y must hold a label for each row of X; some are missing (None, NaN or masked).")
    try:
        values = np.unique(labels)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels.flat})
        raise ValueError(f"y must hold labels of one kind; got {' and '.join(kinds)}.") from None
    if len(values) != 2:
        raise ValueError(f"y must hold two classes; got {len(values)}: {', '.join(map(str, values[:5]))}.")
    return np.where(labels.reshape(m) == values[1], np.int8(1), np.int8(-1))


def _is_missing(label: object) -> bool:
    missing = label is None or type(label).__name__ in ("NAType", "NaTType")  # pandas.NA is neither true nor false
    return missing or (isinstance(label, float) and label != label)
