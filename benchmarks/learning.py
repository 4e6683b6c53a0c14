"""Held-out accuracy of ±1 weights beside scikit-learn's linear classifiers: ``python -m benchmarks.learning``."""

from __future__ import annotations

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
        "solspace, one ±1 solution": BinaryPerceptronClassifier(**own),
        "solspace, 11 ±1 solutions vote": BinaryPerceptronClassifier(n_solutions=11, **own),
        "Perceptron, signs of its weights": Rounded(Perceptron(fit_intercept=False, random_state=seed)),
        "LogisticRegression, signs of its weights": Rounded(LogisticRegression(**logistic)),
        "Perceptron, real weights": Perceptron(fit_intercept=False, random_state=seed),
        "LogisticRegression, real weights": LogisticRegression(**logistic),
    }


def table(quick: bool = False) -> Table:
    """Return accuracies on images that were not seen, and what training took."""
    splits = 3 if quick else 10
    found = Table(
        "±1 weights as a classifier",
        f"Two classes of images (3 against 8), centred; {splits} random training sets, the rest held out; accuracy as mean ± "
        "standard error over the sets. All with their default settings, one core; real weights have 32 times as many bits.",
        ("images", "classifier", "trained without error", "held-out accuracy", "training"),
    )
    for words, name, train in (
        ("digits (8 × 8), 60 for training", "digits", 60),
        ("MNIST (28 × 28), 314 for training", "mnist", 314),
    ):
        try:
            X, y = ss.data.load(name, (3, 8), download=False)
        except FileNotFoundError:
            continue
        outcome: dict[str, list[tuple[bool, float, float]]] = {}
        for seed in range(-1, splits):  # the first compiles, and does not count
            order = np.random.default_rng(seed + 1).permutation(len(y))
            for classifier, model in models(seed + 1).items():
                row = trial(model, (X[order[:train]], y[order[:train]]), (X[order[train:]], y[order[train:]]))
                outcome.setdefault(classifier, []).extend([row] if seed >= 0 else [])
        for classifier, rows in outcome.items():
            learned, accuracy, times = (np.array(column, dtype=float) for column in zip(*rows))
            error = accuracy.std(ddof=1) / np.sqrt(len(accuracy))
            perfect = f"{learned.sum():.0f}/{len(rows)}"
            found.add(words, classifier, perfect, f"{accuracy.mean():.3f} ± {error:.3f}", Spread.of(times))
    return found


def trial(model: Any, seen: tuple[Any, Any], unseen: tuple[Any, Any]) -> tuple[bool, float, float]:
    """Return whether training left no error, the accuracy on unseen images, and the seconds of training."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what was not learned is counted
        spent = seconds(lambda: model.fit(*seen))
    return model.score(*seen) == 1, float(model.score(*unseen)), spent


if __name__ == "__main__":
    print(table("--quick" in sys.argv).markdown())
