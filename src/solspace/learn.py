"""A perceptron with ±1 weights as a scikit-learn classifier.

Training is sampling: the classifier draws weights that classify the training set without error from the measure that
τ-annealing, localization or temperature annealing end in. One solution drawn so already generalises; several of them,
drawn independently, form a committee whose votes are probabilities: of labels that weights of the measure gave, they are
the true ones.

>>> from sklearn.datasets import load_digits
>>> X, y = load_digits(n_class=2, return_X_y=True)
>>> model = BinaryPerceptronClassifier(random_state=0).fit(X[::2], y[::2])
>>> bool(model.solved_), bool(model.score(X[1::2], y[1::2]) > 0.95)
(True, True)
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from solspace.data.preprocess import PREPROCESSING, Preprocessing
from solspace.measure import Target
from solspace.measure.potential import Potential
from solspace.numerics.arrays import Array
from solspace.problem import BLOCK, Perceptron
from solspace.samplers.registry import SAMPLERS
from solspace.samples import Samples
from solspace.system.checks import optional, whole
from solspace.system.names import unknown

METHODS = ("sample", "solve")
LARGE = 1e6
"""A stability that every classifier must be allowed to reach."""
_said: set[str] = set()
"""Advice given in a fold of a cross-validation, where once is enough: the model is not kept, and fits are many."""


class BinaryPerceptronClassifier(ClassifierMixin, BaseEstimator):
    """Two classes separated by ±1 weights, drawn fairly from those that make no training error.

    Parameters
    ----------
    sampler
        `"tau"`: τ-annealing, which finds solutions furthest. `"asl"`: stochastic localization with automatic damping.
        `"temperature"`: simulated annealing on the size of the errors.
    n_sweeps
        Sweeps of annealing; as many as there are features, at least 100, unless given. Not used by `"asl"`.
    temperature
        That of the potential for `"tau"` and `"asl"` (0.5 unless given): the higher, the less solutions keep away from the
        training samples. Where annealing starts for `"temperature"` (1 unless given).
    n_solutions
        Size of the committee.
    preprocess
        `"centred"`: the mean of each feature over the training set is subtracted and rows are rescaled. `"raw"`: rows
        as they are. `"binarised"`: the sign of the centred features.
    random_state
        Seed, `RandomState` or None.
    n_jobs
        Solutions sought side by side; None is 1, -1 all cores. The result does not depend on it.
    device
        `"cpu"` or `"gpu"`.
    method
        `"sample"`: solutions are drawn by `sampler`. `"solve"`: any solutions, by `solspace.solve`, which finds them at
        higher loads and where there are none returns the weights with the fewest errors; `sampler`, `n_sweeps` and
        `temperature` are not used.
    time_limit
        Seconds that `"solve"` may take; None: until all has been tried.
    margin
        κ, the stability that every training sample must reach, with rows rescaled to norm √n; 0: that none is wrong.
    potential
        Of the measure: `"log"` unless given, or any other that `ss.Target` takes and that allows large stabilities, as
        `"uniform"` for `"asl"`; for `"temperature"`, `"hinge"` unless given, or `"errors"`.

    Attributes
    ----------
    weights_
        (n_solutions, n_features_in_) of ±1.
    coef_, intercept_
        (1, n_features_in_) and (1,): the plane between the classes in the features as they are given, by the mean of the
        solutions. `X @ coef_.T + intercept_` has the sign of `decision_function` for a single solution, and is equal to it
        with `preprocess="raw"`. There are none with `"binarised"` features, on which no plane lies.
    solved_
        Whether every solution classifies the training set without error, and with the `margin`.
    n_violations_
        Training samples that the worst solution gets wrong, or short of the margin; `violations_` (n_solutions,) has them all.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    No intercept is learned: the plane goes through the mean of the training set, or with `"raw"` rows through the origin;
    add a constant feature there. More than two classes go through scikit-learn's `OneVsRestClassifier` or
    `OneVsOneClassifier`. `predict_proba` is the fraction of the committee's votes; a committee of one is always sure of
    itself, so take `n_solutions` > 1 for probabilities that mean something. Sparse matrices are taken, and made dense: some
    rows at a time where they are only to be classified.
    """

    def __init__(
        self,
        sampler: str = "tau",
        n_sweeps: int | None = None,
        temperature: float | None = None,
        n_solutions: int = 1,
        preprocess: str = "centred",
        random_state: Any = None,
        n_jobs: int | None = None,
        device: str = "cpu",
        method: str = "sample",
        time_limit: float | None = None,
        margin: float = 0.0,
        potential: str | Potential | None = None,
    ) -> None:
        self.sampler = sampler
        self.n_sweeps = n_sweeps
        self.temperature = temperature
        self.n_solutions = n_solutions
        self.preprocess = preprocess
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.device = device
        self.method = method
        self.time_limit = time_limit
        self.margin = margin
        self.potential = potential

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> BinaryPerceptronClassifier:
        """Draw `n_solutions` weights that classify X (m, n) without error, and return self.

        When none are found the best effort is kept and a `ConvergenceWarning` says by how much it falls short: in the folds
        of a cross-validation or of a search over parameters the first time only.
        """
        self._check()
        target = self._target()
        X, y = validate_data(self, X, y, accept_sparse="csr")
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"y must hold two classes; got one class: {self.classes_[0]!r}.")
        X = _dense(X)
        self.preprocessing_ = Preprocessing.learn(self.preprocess, X)
        rows, signs = self.preprocessing_(X), 2 * codes - 1
        self.weights_ = self._draw(rows, signs, target)
        fields = self._fields(rows)
        wrong = (fields > 0) != codes[:, None] if target.margin == 0 else target.violated(fields * signs[:, None])
        self.violations_ = wrong.sum(axis=0)
        self.n_violations_ = int(self.violations_.max())
        self.solved_ = self.n_violations_ == 0
        if not self.solved_:
            self._complain(len(rows))
        return self

    @property
    def coef_(self) -> Array:
        """(1, n_features_in_) the normal of the plane between the classes, by the mean of the solutions."""
        check_is_fitted(self)
        if self.preprocess == "binarised":
            raise AttributeError(
                "coef_ is there for preprocess 'centred' and 'raw': no plane lies on binarised features."
            )
        return self.weights_.mean(axis=0, keepdims=True) / np.sqrt(self.n_features_in_)

    @property
    def intercept_(self) -> Array:
        """(1,) where the plane lies: it goes through the mean of the training set, or through the origin."""
        normal = self.coef_
        mean = self.preprocessing_.mean
        return np.zeros(1) if mean is None else -(normal @ mean)

    def decision_function(self, X: ArrayLike) -> Array:
        """Return (k,) the side and the confidence for X (k, n), positive for `classes_[1]`.

        The stability of a single solution; the mean vote of a committee, refined by its mean stability.
        """
        return self._decide(self._fields_of(X))

    def predict(self, X: ArrayLike) -> Array:
        """Return (k,) classes for X (k, n)."""
        sides = self.decision_function(X) > 0
        return self.classes_[sides.astype(int)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return (k, 2) the fractions of the committee's votes; in a tie the mean stability has a quarter of a vote."""
        fields = self._fields_of(X)
        votes = (fields > 0).mean(axis=1)
        casting = np.sign(self._decide(fields)) / (4 * fields.shape[1])
        votes = np.where(votes == 0.5, votes + casting, votes)
        return np.column_stack([1 - votes, votes])

    def _check(self) -> None:
        fair = [name for name, one in SAMPLERS.items() if one.any_patterns and one.fair]
        if self.sampler not in fair:
            raise unknown("sampler", self.sampler, fair)
        if self.method not in METHODS:
            raise unknown("method", self.method, METHODS)
        if self.preprocess not in PREPROCESSING:
            raise unknown("preprocess", self.preprocess, PREPROCESSING)
        whole(1)("n_solutions", self.n_solutions)
        optional(whole(1))("n_sweeps", self.n_sweeps)

    def _target(self) -> Target:
        cooled = self.sampler == "temperature"
        potential = ("hinge" if cooled else "log") if self.potential is None else self.potential
        heat = 0.5 if self.temperature is None or cooled else self.temperature
        target = Target(potential=potential, temperature=heat, margin=self.margin)
        if target.potential.violated(np.array([LARGE])).any():
            raise ValueError(f"potential must allow large stabilities, for a classifier; got {target.potential}.")
        if cooled and self.method == "sample" and target.potential.name not in ("hinge", "errors"):
            raise ValueError(f"sampler 'temperature' anneals 'hinge' or 'errors'; got potential {target.potential}.")
        return target

    def _draw(self, rows: Array, signs: Array, target: Target) -> Array:
        random = check_random_state(self.random_state)
        rng = np.random.SeedSequence([int(word) for word in random.randint(0, 2**31 - 1, size=4)])
        constraints = rows.any(axis=1)  # a row of zeros says nothing about the weights
        if not constraints.any():
            return np.random.default_rng(rng).choice(np.array([-1, 1], np.int8), (self.n_solutions, rows.shape[1]))
        problem = Perceptron(rows[constraints], signs[constraints], target=target)
        if self.method == "solve":
            samples = self._solve(problem, rng)
        else:
            samples = self._localize(problem, rng) if self.sampler == "asl" else self._anneal(problem, rng)
        return np.asarray(samples.weights, dtype=np.int8)

    def _anneal(self, problem: Perceptron, rng: np.random.SeedSequence) -> Samples:
        from solspace.samplers.annealing.anneal import anneal
        from solspace.samplers.annealing.schedules import TauAnnealing, TemperatureAnnealing

        start = 1.0 if self.temperature is None else self.temperature
        return anneal(
            problem,
            n_chains=self.n_solutions,
            n_sweeps=max(100, problem.n) if self.n_sweeps is None else self.n_sweeps,
            schedule=TauAnnealing() if self.sampler == "tau" else TemperatureAnnealing(start),
            rng=rng,
            device=self.device,
            n_threads=effective_n_jobs(self.n_jobs),
            progress=False,
        )

    def _localize(self, problem: Perceptron, rng: np.random.SeedSequence) -> Samples:
        from solspace.samplers.localization.localize import localize

        with warnings.catch_warnings():  # what it would say is said by `fit`, once, in terms of training errors
            warnings.simplefilter("ignore", UserWarning)
            return localize(
                problem, n_samples=self.n_solutions, rng=rng, damping="auto", device=self.device, progress=False
            )

    def _solve(self, problem: Perceptron, rng: np.random.SeedSequence) -> Samples:
        from solspace.samplers.solving.solve import solve

        with warnings.catch_warnings():  # `fit` says it in terms of training errors
            warnings.simplefilter("ignore", UserWarning)
            return solve(problem, self.n_solutions, rng, time_limit=self.time_limit, device=self.device, progress=False)

    def _complain(self, m: int) -> None:
        ways = []
        if self.method == "sample":
            ways = ["method='solve'"] if self.sampler == "asl" else ["more n_sweeps", "method='solve'"]
        elif self.time_limit is not None:
            ways = ["a longer time_limit"]
        advice = ", ".join([*ways, "or more features, without which ±1 weights may not be able to separate the data"])
        if _in_fold():
            if advice in _said:
                return
            _said.add(advice)
        failed = int((self.violations_ > 0).sum())
        what = "the solution gets" if self.n_solutions == 1 else f"{failed} of {self.n_solutions} solutions get up to"
        short = "wrong" if self.margin == 0 else f"short of the margin {self.margin:g}"
        warnings.warn(
            f"{what} {self.n_violations_} of {m} training samples {short}: try {advice.removeprefix('or ')}.",
            ConvergenceWarning,
            stacklevel=3,
        )

    def _fields_of(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr")
        if not hasattr(X, "toarray"):
            return self._fields(self.preprocessing_(X))
        some = max(1, BLOCK // X.shape[1])
        parts = [self._fields(self.preprocessing_(_dense(X[i : i + some]))) for i in range(0, X.shape[0], some)]
        return np.concatenate(parts)

    def _fields(self, rows: Array) -> Array:
        """Return the stabilities (k, n_solutions) of rows (k, n)."""
        return rows.astype(np.float64) @ self.weights_.T.astype(np.float64) / np.sqrt(rows.shape[1])

    @staticmethod
    def _decide(fields: Array) -> Array:
        size = fields.shape[1]
        if size == 1:
            return fields[:, 0]
        votes = np.where(fields > 0, 1.0, -1.0).mean(axis=1)
        return votes + np.tanh(fields.mean(axis=1)) / (2 * size)


def _dense(X: Any) -> Array:
    return np.asarray(X.toarray()) if hasattr(X, "toarray") else X


def _in_fold() -> bool:
    """Return whether scikit-learn is fitting one fold of a cross-validation."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_fit_and_score":
        frame = frame.f_back
    return frame is not None
