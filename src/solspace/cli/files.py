"""The user's own files: patterns, labels, and what labels of two classes mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from solspace.data.instances import classes
from solspace.numerics.arrays import Array
from solspace.system.arrays import TABLES, Damaged, read_arrays, read_labelled
from solspace.system.checks import unknown
from solspace.system.tables import position

PATTERNS = ("patterns", "X")
LABELS = ("labels", "y")
MANY = 20
"""Different labels beyond which they are hardly classes."""


def read_data(patterns: Path, labels: Path | None = None) -> tuple[Array, Array | None]:
    """Return patterns (m, n) and labels (m,), None where there are none.

    A .npz of patterns may bring its labels along; in it an array is told by its name, one of `PATTERNS` or `LABELS`,
    unless it is the only one. Labels in a column of words may have a title above them.
    """
    arrays = read_arrays(patterns)
    X = _one(patterns, arrays, PATTERNS)
    if X.dtype.kind in "US":
        raise Damaged(patterns, "it holds words instead of numbers")
    inside = set(LABELS) & set(arrays) and len(arrays) > 1
    if labels is None:
        return X, _titled(_one(patterns, arrays, LABELS), len(X)) if inside else None
    if inside:
        raise ValueError(f"{patterns} brings labels of its own: leave --labels out, or the labels out of the file.")
    return X, _titled(_one(labels, read_arrays(labels), LABELS), len(X))


def read_table(path: Path, label: str | None, index: str | None, labels: Path | None) -> tuple[Array, Array]:
    """Return patterns (m, n) and labels (m,) from a file with both, or from one and a file of labels.

    In a table the labels are the column `label`; in a .npz the array of that name, `LABELS` unless given; in a single
    array the column of that number.
    """
    unlabelled = ValueError(
        f"{path} needs labels: say which column holds them with --label, or which file with --labels; patterns that need "
        "none go to --patterns."
    )
    if path.name.lower().endswith(TABLES):
        if label is None and labels is None:
            raise unlabelled
        X, y = read_labelled(path, label, index)
        if labels is not None:
            y = _titled(_one(labels, read_arrays(labels), LABELS), len(X))
    elif index is not None:
        raise ValueError(f"--index names a column of a table; {path} holds arrays.")
    else:
        X, y = _from_arrays(path, label, labels)
    if y is None:
        raise unlabelled
    return X, y


def _from_arrays(path: Path, label: str | None, labels: Path | None) -> tuple[Array, Array | None]:
    if label is None:
        return read_data(path, labels)
    arrays = read_arrays(path)
    if len(arrays) > 1:
        if label not in arrays:
            raise Damaged(path, f"it has no array {label!r}; it holds {', '.join(list(arrays)[:6])}")
        return _one(path, {name: held for name, held in arrays.items() if name != label}, PATTERNS), arrays[label]
    X = _one(path, arrays, PATTERNS)
    if X.ndim != 2 or X.shape[1] < 2:
        raise Damaged(path, f"its array has the shape {X.shape}, which has no column for labels")
    at = position(path, label, None, X.shape[1])
    return np.delete(X, at, axis=1), X[:, at]


def check_two(path: str, y: Array) -> None:
    """Raise ValueError where labels `y` in the file `path` are missing or are not of two classes, and say how to choose."""
    missing = y == "" if y.dtype.kind == "U" else np.isnan(y) if y.dtype.kind == "f" else np.zeros(len(y), bool)
    if missing.any():
        first = int(np.argmax(missing)) + 1
        raise ValueError(
            f"{path} has no label in {missing.sum()} of {len(y)} rows (row {first} first): drop or fill them."
        )
    there = [_spelled(value) for value in np.unique(y)]
    if len(there) == 1:
        raise ValueError(f"{path} has labels of one class only: every one is {there[0]}. There must be two.")
    listed = ", ".join(there[:6]) + (", ..." if len(there) > 6 else "")
    if len(there) > MANY:
        raise ValueError(f"{path} has {len(there)} different labels ({listed}): there must be two classes.")
    if len(there) > 2:
        raise ValueError(
            f"{path} has {len(there)} classes ({listed}): choose two, as in --classes {there[0]},{there[1]}."
        )


def of_two(X: Array, y: Array, wanted: str) -> tuple[Array, Array, dict[str, str]]:
    """Return the rows of two of the classes among labels `y`, labels -1 and +1 in the order given, and what they mean.

    >>> of_two(np.arange(6).reshape(3, 2), np.array(["cat", "dog", "cow"]), "dog,cat")[1:]
    (array([ 1, -1], dtype=int8), {'-1': 'dog', '+1': 'cat'})
    """
    pair = [word.strip() for word in wanted.split(",")]
    if len(pair) != 2 or pair[0] == pair[1]:
        raise ValueError(f"--classes must be two different labels such as cat,dog; got {wanted!r}.")
    if y.shape != (len(X),):
        raise ValueError(f"labels must have shape ({len(X)},), one for each row of the patterns; got {y.shape}.")
    there = {_spelled(value): value for value in np.unique(y)}
    for word in pair:
        if word not in there:
            raise unknown("class", word, list(there)[:20])
    chosen = np.isin(y, [there[word] for word in pair])
    labels = np.where(y[chosen] == there[pair[1]], np.int8(1), np.int8(-1))
    return X[chosen], labels, dict(zip(("-1", "+1"), pair))


def meaning(y: Array | None) -> dict[str, str]:
    """Return which label is taken for -1 and which for +1; nothing where they are ±1 already.

    >>> meaning(np.array(["dog", "cat"]))
    {'-1': 'cat', '+1': 'dog'}
    """
    found = None if y is None else classes(y, len(y))
    if found is None:
        return {}
    return dict(zip(("-1", "+1"), map(_spelled, found)))


def _spelled(label: Any) -> str:
    return f"{label:g}" if label.dtype.kind == "f" else str(label)


def _one(path: Path, arrays: Mapping[str, Array], names: tuple[str, str]) -> Array:
    there = [name for name in names if name in arrays] or (list(arrays) if len(arrays) == 1 else [])
    if len(there) != 1:
        held = ", ".join(list(arrays)[:6]) or "nothing"
        raise Damaged(path, f"it holds several arrays or none ({held}); name one of them {names[0]!r} or {names[1]!r}")
    return arrays[there[0]]


def _titled(labels: Array, m: int) -> Array:
    """Return the labels without the title of their column."""
    return labels[1:] if labels.dtype.kind == "U" and labels.shape == (m + 1,) else labels
