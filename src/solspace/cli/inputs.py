"""The user's own patterns and labels, from files to a problem."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solspace.cli.data import image_problem
from solspace.cli.rules import Rule
from solspace.data.instances import classes, signs
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.system.arrays import Damaged, read_arrays

PATTERNS = ("patterns", "X")
LABELS = ("labels", "y")
RULES = (
    Rule("data", lambda o: o.patterns is None, "cannot stand beside --patterns: give one of them"),
    Rule("labels", lambda o: o.patterns is not None, "needs --patterns"),
    Rule("classes", lambda o: o.data is not None, "needs --data"),
    Rule("features preprocess", lambda o: o.data or o.patterns, "needs --data or --patterns"),
    Rule(
        "n ensemble", lambda o: not (o.data or o.patterns), "belongs to random instances, not to --data or --patterns"
    ),
)
"""Of the options that state a problem, for every verb that takes one."""


@dataclass(frozen=True)
class Stated:
    """A problem as the options of a verb state it."""

    n: int
    load: float
    """Of a random instance where `alpha` is not given."""
    alpha: float | None
    ensemble: str
    patterns: Path | None
    labels: Path | None
    data: str | None
    classes: str | None
    features: int | None
    preprocess: str | None

    def problem(self, target: Target, rng: RNG) -> tuple[Perceptron, dict[str, str]]:
        """Return the problem, and which labels of the user's own are taken for -1 and +1."""
        if self.data is not None:
            load, how = 0.4 if self.alpha is None else self.alpha, self.preprocess or "centred"
            images = self.data, self.classes, load, target
            return image_problem(*images, features=self.features, preprocess=how, rng=rng), {}
        if self.patterns is not None:
            X, y = read_data(self.patterns, self.labels)
            drawn = own_problem(
                X, y, target, alpha=self.alpha, features=self.features, preprocess=self.preprocess, rng=rng
            )
            return drawn, meaning(y)
        load = self.load if self.alpha is None else self.alpha
        return Perceptron.random(self.n, load, target, self.ensemble, rng=rng), {}


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


def own_problem(
    X: Array,
    y: Array | None,
    target: Target,
    *,
    alpha: float | None = None,
    features: int | None = None,
    preprocess: str | None = None,
    rng: RNG = None,
) -> Perceptron:
    """Return the problem of patterns (m, n) with labels of two classes, as they are or as a pool to draw from."""
    folded = None if y is None else signs(y, len(X))
    if (alpha, features, preprocess) == (None, None, None):
        return Perceptron(X, folded, target=target)
    pool = np.ones(len(X), np.int8) if folded is None else folded
    return Perceptron.from_data(X, pool, alpha, features, preprocess, target, rng)


def meaning(y: Array | None) -> dict[str, str]:
    """Return which label is taken for -1 and which for +1; nothing where they are ±1 already.

    >>> meaning(np.array(["dog", "cat"]))
    {'-1': 'cat', '+1': 'dog'}
    """
    found = None if y is None else classes(y, len(y))
    if found is None:
        return {}
    return {sign: f"{value:g}" if value.dtype.kind == "f" else str(value) for sign, value in zip(("-1", "+1"), found)}


def _one(path: Path, arrays: Mapping[str, Array], names: tuple[str, str]) -> Array:
    there = [name for name in names if name in arrays] or (list(arrays) if len(arrays) == 1 else [])
    if len(there) != 1:
        held = ", ".join(list(arrays)[:6]) or "nothing"
        raise Damaged(path, f"it holds several arrays or none ({held}); name one of them {names[0]!r} or {names[1]!r}")
    return arrays[there[0]]


def _titled(labels: Array, m: int) -> Array:
    """Return the labels without the title of their column."""
    return labels[1:] if labels.dtype.kind == "U" and labels.shape == (m + 1,) else labels
