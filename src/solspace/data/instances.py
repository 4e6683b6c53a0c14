"""Problems from data: a random subset of M = αN images, turned into patterns, with labels ±1.

Every instance draws its own images and, where asked for, its own random features, from two streams of one seed: the
images are the same with and without features, and `subset` with the same seed tells which they were (the others are
held out).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from solspace.data.preprocess import Preprocessing, has_unit_rows, random_features, rescaled
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator, seed_sequence

MOST_FEATURES = 10**9
"""Most random features of a problem."""


def instance(
    X: Array,
    y: ArrayLike,
    alpha: float | None = None,
    *,
    features: int | None = None,
    preprocess: str | None = None,
    balanced: bool = False,
    rng: RNG = None,
) -> tuple[Array, Array]:
    """Return patterns (m, n) and labels ±1 (m,) of a random instance; see `Perceptron.from_data`."""
    return drawn(X, signs(y, len(X)), alpha, features=features, preprocess=preprocess, balanced=balanced, rng=rng)


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
    """Return what `instance` does, from a pool whose `labels` are ±1 already, as int8."""
    if features is not None and (
        isinstance(features, bool) or not isinstance(features, (int, np.integer)) or features < 1
    ):
        raise ValueError(f"features must be a positive integer or None; got {features!r}.")
    if features is not None and features > MOST_FEATURES:
        raise ValueError(f"features must be at most {MOST_FEATURES:.0e}.")
    n = X.shape[1] if features is None else int(features)
    seeds = seed_sequence(rng)
    chosen = subset(labels, _count(alpha, n, len(X)), balanced=balanced, rng=seeds)
    matrix = None if features is None else random_features(n, X.shape[1], generator(seeds, 1))
    if preprocess is None and X.dtype != np.uint8:
        return _as_given(X, chosen, matrix), labels[chosen]
    prepare = Preprocessing.learn(preprocess or "centred", X)
    return prepare(X[chosen], matrix), labels[chosen]


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
        raise ValueError(f"a subset of {m} rows was asked for, but there are {len(labels)}.")
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

    >>> signs([3, 8, 3], 3)
    array([-1,  1, -1], dtype=int8)
    """
    found = classes(y, m)
    labels = np.asarray(y).reshape(m)
    return labels.astype(np.int8) if found is None else np.where(labels == found[1], np.int8(1), np.int8(-1))


def classes(y: ArrayLike, m: int) -> Array | None:
    """Return the two classes among `m` labels, the smaller one first; None where all are ±1 already.

    >>> classes(["dog", "cat", "dog"], 3)
    array(['cat', 'dog'], dtype='<U3')
    """
    labels = np.asarray(y)
    if labels.shape not in ((m,), (m, 1)):
        raise ValueError(f"y must have shape ({m},), one label for each row of X; got {labels.shape}.")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ValueError("y must not contain NaN or inf.")
    given = y if isinstance(y, (list, tuple)) else labels if labels.dtype == object else ()
    if np.ma.is_masked(y) or any(_missing(label) for label in given):
        raise ValueError("y must hold a label for each row of X; some are missing (None, NaN or masked).")
    try:
        values = np.unique(labels)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in labels})
        raise ValueError(f"y must hold labels of one kind; got {' and '.join(kinds)}.") from None
    if len(values) == 1:
        raise ValueError(f"y must hold two classes; got 1: every label is {values[0]}.")
    if labels.dtype.kind in "if" and np.isin(values, (-1, 1)).all():
        return None
    if len(values) != 2:
        raise ValueError(f"y must hold two classes; got {len(values)}. Choose two of them.")
    return values


def _missing(label: object) -> bool:
    # None, and NaN and pandas.NA, which are not equal to themselves
    return (
        label is None or type(label).__name__ in ("NAType", "NaTType") or (isinstance(label, float) and label != label)
    )


def _count(alpha: float | None, n: int, available: int) -> int:
    if alpha is None:
        return available
    fine = isinstance(alpha, (int, float, np.integer, np.floating)) and not isinstance(alpha, bool)
    if not (fine and 0 < alpha < 1e200):
        raise ValueError(f"alpha must be a positive number or None; got {alpha!r}.")
    m = max(1, round(alpha * n))
    if m > available:
        raise ValueError(
            f"alpha = {alpha:g} with n = {n} needs {m:.10g} rows of data, but there are {available}: "
            f"alpha can be at most {available / n:.4g}."
        )
    return m


def _as_given(X: Array, chosen: Array, features: Array | None) -> Array:
    rows = X[chosen]
    if features is None:
        return rows
    rows = rows.astype(np.float32 if rows.dtype in (np.int8, np.float32) else np.float64)
    projected = rows @ features.T.astype(rows.dtype, copy=False)
    return rescaled(projected) if has_unit_rows(rows) else projected
