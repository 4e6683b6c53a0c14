"""A perceptron with ±1 weights as a scikit-learn classifier.

Training is sampling: the classifier draws weights that make no training error from the measure that τ-annealing, localization
or temperature annealing end in. One such solution generalises; several independent ones form a committee, whose votes estimate
the probabilities of the labels.
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from solspace.data.instances import PREPROCESSING, Preprocessing
from solspace.learn.posterior import Standardiser
from solspace.measure import Target
from solspace.measure.potentials import Potential
from solspace.numerics.arrays import Array
from solspace.problem import BLOCK, Perceptron
from solspace.samplers.annealing.schedules import TemperatureAnnealing
from solspace.samplers.registry import SAMPLERS
from solspace.system.checks import flag, one_of, optional, whole

__all__ = ["BinaryPerceptronClassifier"]
LARGE = 1e6  # a stability that every classifier must be able to reach
_reported: set[str] = set()  # warnings in folds of a cross-validation, which are shown once


@dataclass(eq=False, repr=False)
class BinaryPerceptronClassifier(ClassifierMixin, BaseEstimator):
    """Two classes separated by ±1 weights, drawn fairly from those that make no training error.

    Parameters
    ----------
    sampler : {"tau", "asl", "temperature"}, default "tau"
        τ-annealing, which finds solutions at the highest loads; stochastic localization; or simulated annealing on the size
        of the errors.
    n_sweeps : int, optional
        Sweeps of annealing; by default the number of features, at least 100. Not used by "asl".
    temperature : float, optional
        For "tau" and "asl" the temperature of the potential, by default 0.5: the higher, the closer to the training samples
        solutions may come. For "temperature" the temperature at the start, by default 1.
    n_solutions : int, default 1
        Size of the committee.
    preprocess : {"centred", "raw", "binarised"}, default "centred"
        Subtract the mean of each feature over the training set and rescale rows, take rows as they are, or take the sign of the
        centred features.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores. The result does not depend on it.
    device : {"cpu", "gpu"}, default "cpu"
        Where to run.
    method : {"sample", "solve"}, default "sample"
        Draw solutions by `sampler`, or take any solutions found by `solspace.solve`, which works at higher loads and without a
        solution returns the weights with the fewest errors; `sampler`, `n_sweeps` and `temperature` are then not used.
    time_limit : float, optional
        Seconds for "solve"; by default until all methods were tried.
    margin : float, default 0
        κ, the stability that every training sample must reach, rows being rescaled to norm √n; 0: no errors.
    potential : str or Potential, optional
        Potential of the measure: by default "log", for "temperature" "hinge". It must allow large stabilities.
    intercept : bool, default False
        Add ⌈√n⌉ constant features of 1, whose weights make up an intercept. Needs `standardise` or `preprocess="raw"`: the others
        rescale rows, which planes off their mean do not survive.
    standardise : bool, default False
        Bring features to mean 0 and variance 1 instead of rescaling rows, as tables with columns in different units need.

    Attributes
    ----------
    weights_ : ndarray
        (n_solutions, n_features_in_) of ±1.
    coef_, intercept_ : ndarray
        (1, n_features_in_) and (1,), the plane between the classes in the original features, by the mean of the solutions. For a
        single solution `X @ coef_.T + intercept_` has the sign of `decision_function`. Not for "binarised" features.
    solved_ : bool
        Whether every solution classifies the training set without error, and with the `margin`.
    violations_, n_violations_ : ndarray, int
        Training samples that each solution gets wrong or short of the margin, (n_solutions,), and their maximum.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Notes
    -----
    This is the estimator for hard constraints and their physics: weights without training errors, if there are any. For noisy
    tables, probabilities, and more than two classes take `LowBitClassifier`; or scikit-learn's `OneVsRestClassifier` around this
    one. Without `intercept` the plane goes through the mean of the training set, or for "raw" rows through the origin.
    Probabilities are fractions of the committee's votes: take `n_solutions` > 1 for them. Sparse matrices are made dense, for
    predictions some rows at a time.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> X, y = load_digits(n_class=2, return_X_y=True)
    >>> model = BinaryPerceptronClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.solved_), bool(model.score(X[1::2], y[1::2]) > 0.95)
    (True, True)
    """

    sampler: str = "tau"
    _: KW_ONLY
    n_sweeps: int | None = None
    temperature: float | None = None
    n_solutions: int = 1
    preprocess: str = "centred"
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "cpu"
    method: str = "sample"
    time_limit: float | None = None
    margin: float = 0.0
    potential: str | Potential | None = None
    intercept: bool = False
    standardise: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike) -> BinaryPerceptronClassifier:
        """Draw `n_solutions` weights that classify the training set without error.

        If none are found the best are kept, with a `ConvergenceWarning`; in the folds of a cross-validation or search only once.

        Parameters
        ----------
        X : array_like
            (m, n) training samples, dense or sparse.
        y : array_like
            (m,) labels of two classes.

        Returns
        -------
        BinaryPerceptronClassifier
            The fitted estimator.
        """
        fair = [name for name, one in SAMPLERS.items() if one.any_patterns and one.fair]
        for name, allowed in {"sampler": fair, "method": ("sample", "solve"), "preprocess": PREPROCESSING}.items():
            one_of(allowed)(name, getattr(self, name))
        whole(1)("n_solutions", self.n_solutions)
        if flag("standardise", self.standardise) and self.preprocess != "centred":
            raise ValueError(f"standardise replaces the default preprocess; got {self.preprocess!r} beside it.")
        if flag("intercept", self.intercept) and not self.standardise and self.preprocess != "raw":
            raise ValueError(f"intercept needs standardise=True or preprocess='raw'; got {self.preprocess!r}.")
        optional(whole(1))("n_sweeps", self.n_sweeps)
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
        learned = Standardiser.learn(X, np.ones(len(X))) if self.standardise else None
        self.preprocessing_ = _Standard.of(learned) if learned else Preprocessing.learn(self.preprocess, X)
        rows, signs = self.preprocessing_(X), 2 * codes - 1
        constants = int(np.ceil(np.sqrt(X.shape[1]))) if self.intercept else 0
        weights = self._draw(np.column_stack([rows, np.ones((len(rows), constants), rows.dtype)]), signs, target)
        self.weights_, ends = weights[:, : X.shape[1]], weights[:, X.shape[1] :]
        self._size, self._shifts = weights.shape[1], ends.sum(axis=1, dtype=float)
        fields = self._fields(rows)
        wrong = (fields > 0) != codes[:, None] if target.margin == 0 else target.violated(fields * signs[:, None])
        self.violations_ = wrong.sum(axis=0)
        self.n_violations_ = int(self.violations_.max())
        self.solved_ = self.n_violations_ == 0
        if not self.solved_:
            self._warn_of_errors(len(rows))
        return self

    @property
    def coef_(self) -> Array:
        """(1, n_features_in_) normal of the plane between the classes, by the mean of the solutions."""
        check_is_fitted(self)
        if self.preprocess == "binarised":
            raise AttributeError("coef_ needs preprocess 'centred' or 'raw': no plane lies on binarised features.")
        width = getattr(self.preprocessing_, "width", 1.0)
        return self.weights_.mean(axis=0, keepdims=True) / np.sqrt(self._size) / width

    @property
    def intercept_(self) -> Array:
        """(1,) offset of the plane, which goes through the mean of the training set, or through the origin."""
        normal, mean = self.coef_, self.preprocessing_.mean
        shift = np.full(1, self._shifts.mean() / np.sqrt(self._size))
        return shift if mean is None else shift - normal @ mean

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the signed confidence: the stability of one solution, or the mean vote of a committee.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k,), positive for `classes_[1]`.
        """
        return self._decide(self._fields_of(X))

    def predict(self, X: ArrayLike) -> Array:
        """Return the classes of samples.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k,) classes.
        """
        sides = self.decision_function(X) > 0
        return self.classes_[sides.astype(int)]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the fractions of the committee's votes; in a tie the mean stability has a quarter of a vote.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k, 2) probabilities of `classes_`.
        """
        fields = self._fields_of(X)
        votes = (fields > 0).mean(axis=1)
        casting = np.sign(self._decide(fields)) / (4 * fields.shape[1])
        votes = np.where(votes == 0.5, votes + casting, votes)
        return np.column_stack([1 - votes, votes])

    def _target(self) -> Target:
        cooled = self.sampler == "temperature"
        potential = ("hinge" if cooled else "log") if self.potential is None else self.potential
        temperature = 0.5 if self.temperature is None or cooled else self.temperature
        target = Target(potential=potential, temperature=temperature, margin=self.margin)
        if target.potential.violated(np.array([LARGE])).any():
            raise ValueError(f"potential must allow large stabilities, for a classifier; got {target.potential}.")
        if cooled and self.method == "sample" and target.potential.name not in ("hinge", "errors"):
            raise ValueError(f"sampler 'temperature' anneals 'hinge' or 'errors'; got potential {target.potential}.")
        return target

    def _draw(self, rows: Array, signs: Array, target: Target) -> Array:
        random = check_random_state(self.random_state)
        rng = np.random.SeedSequence([int(word) for word in random.randint(0, 2**31 - 1, size=4)])
        constraints = rows.any(axis=1)  # rows of zeros constrain nothing
        if not constraints.any():
            return np.random.default_rng(rng).choice(np.array([-1, 1], np.int8), (self.n_solutions, rows.shape[1]))
        problem = Perceptron(rows[constraints], signs[constraints], target=target)
        name = "solve" if self.method == "solve" else self.sampler
        options: dict[str, Any] = {"device": self.device, "progress": False}
        if name == "solve":
            options["time_limit"] = self.time_limit
        elif name != "asl":
            options["n_sweeps"] = max(100, problem.n) if self.n_sweeps is None else self.n_sweeps
            options["n_threads"] = effective_n_jobs(self.n_jobs)
        if name == "temperature":
            options["schedule"] = TemperatureAnnealing(1.0 if self.temperature is None else self.temperature)
        with warnings.catch_warnings():  # `fit` reports training errors instead
            warnings.simplefilter("ignore", UserWarning)
            samples = SAMPLERS[name].draw(problem, self.n_solutions, rng=rng, **options)
        return np.asarray(samples.weights, dtype=np.int8)

    def _warn_of_errors(self, m: int) -> None:
        remedies = []
        if self.method == "sample":
            remedies = ["more n_sweeps"] * (self.sampler != "asl") + ["method='solve'"]
        elif self.time_limit is not None:
            remedies = ["a longer time_limit"]
        last = "more features, without which ±1 weights may not be able to separate the data"
        advice = f"{', '.join(remedies)} or {last}" if remedies else last
        if any(frame.function == "_fit_and_score" for frame in inspect.stack(0)):  # in a fold of a cross-validation
            if advice in _reported:
                return
            _reported.add(advice)
        failed = int((self.violations_ > 0).sum())
        what = "the solution gets" if self.n_solutions == 1 else f"{failed} of {self.n_solutions} solutions get up to"
        short = "wrong" if self.margin == 0 else f"short of the margin {self.margin:g}"
        words = f"{what} {self.n_violations_} of {m} training samples {short}: try {advice}."
        warnings.warn(words, ConvergenceWarning, stacklevel=3)

    def _fields_of(self, X: Any) -> Array:
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr")
        rows = max(1, BLOCK // X.shape[1]) if issparse(X) else X.shape[0]
        parts = (_dense(X[i : i + rows]) for i in range(0, X.shape[0], rows))
        return np.concatenate([self._fields(self.preprocessing_(part)) for part in parts])

    def _fields(self, rows: Array) -> Array:
        """Return the stabilities (k, n_solutions) of rows (k, n)."""
        return (rows.astype(np.float64) @ self.weights_.T.astype(np.float64) + self._shifts) / np.sqrt(self._size)

    @staticmethod
    def _decide(fields: Array) -> Array:
        size = fields.shape[1]
        if size == 1:
            return fields[:, 0]
        votes = np.where(fields > 0, 1.0, -1.0).mean(axis=1)
        return votes + np.tanh(fields.mean(axis=1)) / (2 * size)


@dataclass(frozen=True)
class _Standard:
    """Features to mean 0 and variance 1; constant ones to 0."""

    mean: Array
    width: Array

    @classmethod
    def of(cls, found: Standardiser) -> _Standard:
        mean, width = np.zeros(len(found.used)), np.full(len(found.used), np.inf)
        mean[found.used], width[found.used] = found.mean, found.width
        return cls(mean, width)

    def __call__(self, X: Array) -> Array:
        return ((X - self.mean) / self.width).astype(np.float32)


def _dense(X: Any) -> Array:
    return X.toarray() if issparse(X) else X
