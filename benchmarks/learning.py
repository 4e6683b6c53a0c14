"""Held-out accuracy of ±1 weights beside scikit-learn's linear classifiers: ``python -m benchmarks.learning``."""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression, Perceptron

import solspace as ss
from benchmarks.timing import Spread, Table, seconds
from solspace.learn import BinaryPerceptronClassifier


class Rounded:
    """A linear classifier of which only the signs of its weights are kept."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, X: Any, y: Any) -> Rounded:
        self.weights = np.where(self.model.fit(X, y).coef_[0] >= 0, 1.0, -1.0)
        return self

    def score(self, X: Any, y: Any) -> float:
        return float(np.mean(np.where(X @ self.weights >= 0, 1, -1) == y))


def models(seed: int) -> dict[str, Any]:
    """Return the classifiers by name; none has an intercept, as images are centred."""
    own = {"preprocess": "raw", "random_state": seed}
    logistic = {"fit_intercept": False, "max_iter": 2000}
    return {
        "one ±1 solution": BinaryPerceptronClassifier(**own),
        "vote of 11 ±1 solutions": BinaryPerceptronClassifier(n_solutions=11, **own),
        "Perceptron, signs": Rounded(Perceptron(fit_intercept=False, random_state=seed)),
        "LogisticRegression, signs": Rounded(LogisticRegression(**logistic)),
        "Perceptron": Perceptron(fit_intercept=False, random_state=seed),
        "LogisticRegression": LogisticRegression(**logistic),
    }


def table(quick: bool = False) -> Table:
    """Return accuracies on held-out images, and times of training."""
    splits = 3 if quick else 10
    columns: dict[str, dict[str, str]] = {}
    for title, name, train in (
        ("digits, 8 × 8, 60 for training", "digits", 60),
        ("MNIST, 314 for training", "mnist", 314),
    ):
        with contextlib.suppress(FileNotFoundError):
            columns[title] = outcomes(*ss.data.load(name, (3, 8), download=False), train, splits)
    found = Table(
        "±1 weights as a classifier",
        f"Images of 3 against 8, centred, default settings, {splits} random splits: accuracy on held-out images (mean ± "
        "standard error), training sets learned without error, median time of training. *Signs*: of the real weights.",
        ("classifier", *columns),
    )
    for classifier in models(0):
        found.add(classifier, *(column[classifier] for column in columns.values()))
    return found


def outcomes(X: Any, y: Any, train: int, splits: int) -> dict[str, str]:
    """Return the outcome of each classifier over random splits with `train` images for training."""
    found: dict[str, list[tuple[bool, float, float]]] = {}
    for seed in range(-1, splits):  # the first compiles, and does not count
        order = np.random.default_rng(seed + 1).permutation(len(y))
        for classifier, model in models(seed + 1).items():
            row = trial(model, (X[order[:train]], y[order[:train]]), (X[order[train:]], y[order[train:]]))
            found.setdefault(classifier, []).extend([row] if seed >= 0 else [])
    cells = {}
    for classifier, rows in found.items():
        learned, accuracy, times = (np.array(column, dtype=float) for column in zip(*rows))
        error = accuracy.std(ddof=1) / np.sqrt(splits)
        spent = Spread.of([np.median(times)])
        cells[classifier] = f"{accuracy.mean():.3f} ± {error:.3f}, {learned.sum():.0f}/{splits}, {spent}"
    return cells


def trial(model: Any, seen: tuple[Any, Any], unseen: tuple[Any, Any]) -> tuple[bool, float, float]:
    """Return whether training left no error, the accuracy on unseen images, and the seconds of training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was not learned is counted
        spent = seconds(lambda: model.fit(*seen))
    return model.score(*seen) == 1, float(model.score(*unseen)), spent


if __name__ == "__main__":
    print(table("--quick" in sys.argv).markdown())
