"""A linear classifier whose weights are small integers, drawn from their posterior: `LowBitClassifier`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from solspace.learn.posterior import (
    Affine,
    Columns,
    Draws,
    Standardiser,
    Table,
    draw,
    folded,
    merge,
    sure_log,
    sweeps_for,
)
from solspace.numerics.arrays import Array
from solspace.numerics.streams import child
from solspace.system.checks import one_of, optional, unknown, whole
from solspace.system.files import Damaged, read_npz, replacing
from solspace.system.progress import progress

if TYPE_CHECKING:
    from solspace.learn.integer import IntegerClassifier

LEVELS = {"binary": (-1, 1), "ternary": (-1, 0, 1)} | {
    f"{bits}bit": tuple(range(1 - 2 ** (bits - 1), 2 ** (bits - 1))) for bits in (2, 3, 4, 5, 6)
}
"""Named levels of the weights; "2bit" is "ternary"."""
METHODS = ("auto", "chains")
CALIBRATIONS = ("auto", "loo", "folds")
DENSE = 10  # rows for each column from which finer levels are tried as well
MANY = 3  # rows for each column from which leaving out rows by weights is accurate
APART = 0.05  # standard error of probabilities above which a fit warns
JUDGED = 5000  # training rows on which levels are compared and probabilities calibrated
REMEMBERED = 2500  # training rows kept for `to_single`


def levels_of(levels: object) -> Array:
    """Return the values of `levels`: a name, or different integers from -127 to 127.

    >>> levels_of("ternary").tolist(), levels_of([1, 0]).tolist()
    ([-1.0, 0.0, 1.0], [0.0, 1.0])
    """
    if isinstance(levels, str):
        if levels not in LEVELS:
            raise unknown("levels", levels, LEVELS)
        return np.array(LEVELS[levels], dtype=float)
    if isinstance(levels, (Sequence, np.ndarray)):
        values = np.unique(np.asarray(levels, dtype=float))
        if (
            len(values) > 1
            and len(values) == len(levels)
            and (values == np.rint(values)).all()
            and abs(values).max() < 128
        ):
            return values
    raise ValueError(f"levels must be a name or at least two different integers from -127 to 127; got {levels!r}.")


class LevelSamples(NamedTuple):
    """Samples of the posterior, for standardised columns; c is the number of classes, for two classes 1.

    Parameters
    ----------
    weights : ndarray
        (k, c, n) int8.
    scales, intercepts : ndarray
        (k, c), the factors a and the thresholds b of the logits.

    Examples
    --------
    >>> LevelSamples(np.zeros((200, 1, 30), np.int8), np.ones((200, 1)), np.zeros((200, 1))).weights.shape
    (200, 1, 30)
    """

    weights: Array
    scales: Array
    intercepts: Array


@dataclass(eq=False, repr=False)
class LowBitClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier with weights of a few bits and calibrated probabilities, averaged over their posterior.

    Parameters
    ----------
    levels : {"auto", "binary", "ternary", "3bit", "4bit", "5bit", "6bit"} or sequence of int, default "auto"
        Values of the weights: ±1; -1, 0, 1; -3 … 3; -7 … 7; -15 … 15; -31 … 31; or integers from -127 to 127. With "auto" 3 bits,
        and 5 bits on tables with many rows for each column if they predict rows that are left out better.
    likelihood : {"logistic"}, default "logistic"
        Probability of the label.
    method : {"auto", "chains"}, default "auto"
        Metropolis chains, for tables of any shape.
    n_chains : int, default 4
        Independent chains; their samples are averaged.
    n_sweeps : int, optional
        Sweeps of a chain, of which 40% are annealing; by default 150 to 500, by the size of the table, and more if there are
        less than three rows for each column.
    calibrate : {"auto", "loo", "folds"} or bool, default "auto"
        Correct slope and offset of the logits on training rows that are left out: by importance weights ("loo", at no cost), by
        five folds with a chain each ("folds"), or not (False). "auto" and True: "loo" from three rows for each column on.
    class_weight : {"balanced"} or dict, optional
        Weights of the classes, as elsewhere in scikit-learn.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int, optional
        Threads; None is 1, -1 all cores. The result does not depend on it.
    device : {"cpu"}, default "cpu"
        Where to run.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.
    coef_, intercept_ : ndarray
        (c, n_features_in_) and (c,), the calibrated mean of the planes, in the original features; c is 1 for two classes, else
        the number of classes (softmax). `decision_function` averages probabilities instead, and clips columns at four widths.
    samples_ : LevelSamples
        Samples of the weights, their scales and the intercepts, for standardised columns; 0 for constant columns.
    feature_inclusion_ : ndarray
        (c, n_features_in_), the posterior probability that a weight is not 0; nan for constant columns.
    levels_ : ndarray
        Values of the weights.
    log_evidence_ : float
        Log of the probability of the labels under the model, by annealed importance sampling, with an error of some nats; to
        compare models on the same table.

    See Also
    --------
    IntegerClassifier : One vector of integers for each class, for deployment.
    BinaryPerceptronClassifier : Hard constraints instead of a likelihood.

    Notes
    -----
    The logit is a⟨x, w⟩/√n + b on standardised columns; frequencies of the levels, a and b are sampled as well. Rows with
    missing values are refused: put `sklearn.impute.SimpleImputer` before.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LowBitClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95), model.predict_proba(X[:1]).shape
    (True, (1, 2))
    """

    levels: str | Sequence[int] = "auto"
    _: KW_ONLY
    likelihood: str = "logistic"
    method: str = "auto"
    n_chains: int = 4
    n_sweeps: int | None = None
    calibrate: str | bool = "auto"
    class_weight: Any = None
    random_state: Any = None
    n_jobs: int | None = None
    device: str = "cpu"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> LowBitClassifier:
        """Sample the posterior of the weights.

        Warns, once, if chains disagree about the probabilities.

        Parameters
        ----------
        X : array_like
            (m, n) training samples, dense or sparse.
        y : array_like
            (m,) labels of two or more classes.
        sample_weight : array_like, optional
            (m,) weights of the samples; 2 is the same as a sample that occurs twice.

        Returns
        -------
        LowBitClassifier
            The fitted estimator.
        """
        candidates = self._checked()
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        X = finite(X)
        check_classification_targets(y)
        s = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
        self.classes_, codes = np.unique(y, return_inverse=True)
        X, codes, s = merge(X, codes, s)
        totals = np.bincount(codes, s, minlength=len(self.classes_))
        if np.count_nonzero(totals) < 2:
            raise ValueError(
                f"y must hold two classes or more, with positive weights; got one class: {self.classes_[codes[:1]].tolist()}."
            )
        s *= self._class_factors(totals)[codes]
        self._standardiser = Standardiser.learn(X, s)
        table = Table(self._standardiser(X), s, codes, len(self.classes_))
        few = np.random.default_rng(0).permutation(len(s))[:REMEMBERED]
        self._rows, self._row_weights = table.rows[few].astype(np.float32), s[few]
        self._sample(table, candidates)
        return self

    @property
    def coef_(self) -> Array:
        """(c, n_features_in_), the calibrated mean of the planes in the original features."""
        return self._planes()[0]

    @property
    def intercept_(self) -> Array:
        """(c,), their offsets."""
        return self._planes()[1]

    @property
    def samples_(self) -> LevelSamples:
        """Samples of all chains."""
        check_is_fitted(self)
        weights = np.zeros((*self._draws.scales.shape, self.n_features_in_), np.int8)
        weights[:, :, self._standardiser.used] = self._draws.weights
        return LevelSamples(weights, self._draws.scales, self._draws.intercepts)

    @property
    def feature_inclusion_(self) -> Array:
        """(c, n_features_in_), the posterior probability that a weight is not 0."""
        included = (self.samples_.weights != 0).mean(axis=0)
        included[:, ~self._standardiser.used] = np.nan
        return included

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the logits of the probabilities.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k,) for two classes, positive for `classes_[1]`; else (k, c), the logits of a softmax.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        logits = self._calibration(sure_log(self._draws.probabilities(self._standardiser(finite(X)))))
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict(self, X: ArrayLike) -> Array:
        """Return the most probable classes of samples.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k,) classes.
        """
        numbers = chosen(self.decision_function(X))
        return self.classes_[numbers]

    def predict_proba(self, X: ArrayLike) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k, number of classes), in the order of `classes_`.
        """
        return normalised(self.decision_function(X))

    def to_single(self, levels: str | Sequence[int] | None = None) -> IntegerClassifier:
        """Return one vector of integers for each class whose probabilities come closest to those of the posterior.

        Parameters
        ----------
        levels : str or sequence of int, optional
            Values of the weights; by default those of this classifier.

        Returns
        -------
        IntegerClassifier
            The fitted classifier.
        """
        from solspace.learn.integer import IntegerClassifier

        check_is_fitted(self)
        chosen = self.levels_.tolist() if levels is None else levels
        return IntegerClassifier(chosen, random_state=self.random_state, n_jobs=self.n_jobs)._distil(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one `.npz` file, without pickles.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        ValueError
            If the classes are neither numbers nor words.
        """
        check_is_fitted(self)
        classes = self.classes_ if self.classes_.dtype.kind in "biuf" else self.classes_.astype(str)
        if classes.tolist() != self.classes_.tolist():
            raise ValueError(f"classes must be numbers or words in a file; got {self.classes_.tolist()[:3]}.")
        arrays = {name: getattr(self._standardiser, name) for name in ("mean", "width", "used")}
        arrays |= self._draws._asdict() | {"rows": self._rows, "row_weights": self._row_weights, "classes": classes}
        arrays |= {
            "levels": self.levels_,
            "slope": np.array(self._calibration.slope),
            "offsets": self._calibration.offsets,
        }
        if hasattr(self, "feature_names_in_"):
            arrays["names"] = self.feature_names_in_.astype(str)
        with replacing(path) as file:
            np.savez_compressed(file, solspace_classifier=np.array(1), **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LowBitClassifier:
        """Read a file of `save`; nothing in it is executed.

        Parameters
        ----------
        path : str or path-like
            The file.

        Returns
        -------
        LowBitClassifier
            The fitted classifier, with default parameters but for its levels.

        Raises
        ------
        ValueError
            If the file is damaged or of another kind.
        """
        arrays = read_npz(path)
        try:
            model = cls(arrays["levels"].tolist())
            model._draws = Draws(*(arrays[name] for name in Draws._fields))
            model._standardiser = Standardiser(arrays["mean"], arrays["width"], arrays["used"])
            model._calibration = Affine(float(arrays["slope"]), arrays["offsets"])
            model._rows, model._row_weights = arrays["rows"], arrays["row_weights"]
            model.classes_, model.levels_ = arrays["classes"], arrays["levels"]
            (k, c, n), m = model._draws.weights.shape, len(model._rows)
            shapes = [
                model._draws.scales.shape,
                model._draws.intercepts.shape,
                model._rows.shape,
                model._row_weights.shape,
            ]
            shapes += [arrays["mean"].shape, arrays["width"].shape, (arrays["used"].sum(),), arrays["offsets"].shape]
            count = len(model.classes_)
            if shapes != [(k, c), (k, c), (m, n), (m,), (n,), (n,), (n,), (count,)] or c != (
                1 if count == 2 else count
            ):
                raise ValueError("its arrays do not fit together")
            if not all(np.isfinite(one).all() for one in arrays.values() if one.dtype.kind in "iuf"):
                raise ValueError("it holds numbers that are not finite")
            model.n_features_in_, model.log_evidence_ = len(arrays["used"]), model._draws.evidence
            if "names" in arrays:
                model.feature_names_in_ = arrays["names"].astype(object)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            reason = f"it has no array {error}" if isinstance(error, KeyError) else error
            raise Damaged(path, f"it is no file of a LowBitClassifier ({reason})") from None
        return model

    def _checked(self) -> list[Array]:
        """Check the parameters and return the levels to try."""
        one_of(("logistic",))("likelihood", self.likelihood)
        one_of(METHODS)("method", self.method)
        one_of(("cpu",))("device", self.device)
        whole(1)("n_chains", self.n_chains)
        optional(whole(2))("n_sweeps", self.n_sweeps)
        if not isinstance(self.calibrate, (bool, np.bool_)):
            one_of(CALIBRATIONS)("calibrate", self.calibrate)
        names = ["3bit", "5bit"] if isinstance(self.levels, str) and self.levels == "auto" else [self.levels]
        return [levels_of(one) for one in names]

    def _class_factors(self, totals: Array) -> Array:
        if self.class_weight is None:
            return np.ones(len(totals))
        if isinstance(self.class_weight, str):
            one_of(("balanced",))("class_weight", self.class_weight)
            return totals.sum() / (np.count_nonzero(totals) * np.maximum(totals, 1e-300))
        return np.array([float(self.class_weight.get(label, 1.0)) for label in self.classes_.tolist()])

    def _sample(self, table: Table, candidates: list[Array]) -> None:
        m, n = table.rows.shape
        candidates = candidates if m >= DENSE * n else candidates[:1]
        columns = Columns.of(table.rows, table.s, table.goal)
        n_sweeps = sweeps_for(columns, len(candidates)) if self.n_sweeps is None else self.n_sweeps
        random = check_random_state(self.random_state)
        seeds = np.random.SeedSequence([int(word) for word in random.randint(0, 2**31 - 1, size=4)])
        by_folds = self.calibrate == "folds" or (self.calibrate in ("auto", True) and m < MANY * n)
        some = table.where(np.random.default_rng(1).permutation(m)[:JUDGED])
        few = self.n_chains if len(candidates) == 1 else -(-self.n_chains // 2)  # chains that choose the levels
        with progress(few * len(candidates) + self.n_chains - few + by_folds, "sampling") as bar:

            def run(k: int, chain: int) -> Any:
                own, values = child(seeds, k, chain + 1), candidates[k]
                found = folded(table, values, own, n_sweeps) if chain < 0 else draw(columns, values, own, n_sweeps)
                bar.advance()
                return found

            def sample(tasks: Sequence[tuple[int, int]]) -> list[Any]:
                return Parallel(n_jobs=self.n_jobs, prefer="threads")(delayed(run)(*task) for task in tasks)

            first = sample([(k, chain) for k in range(len(candidates)) for chain in range(few)])
            parts = [first[k * few : (k + 1) * few] for k in range(len(candidates))]
            scores = [some.score(Draws.joined(part).left_out(some)) if len(parts) > 1 else 0.0 for part in parts]
            best = int(np.argmax(scores))
            rest = sample([(best, chain) for chain in range(few, self.n_chains)] + [(best, -1)] * by_folds)
        self._draws = Draws.joined(parts[best] + rest[: self.n_chains - few])
        self.levels_, self.log_evidence_ = candidates[best].astype(int), self._draws.evidence
        if by_folds:
            some = table
        logs = sure_log(rest[-1] if by_folds else self._draws.left_out(some))
        self._calibration = Affine(1.0, np.zeros(table.classes))
        if self.calibrate is not False:
            self._calibration = Affine.fitted(logs, some.goal, some.s)
        if self._draws.spread(table.rows[:1000]) > APART:
            words = f"chains disagree about the probabilities: try n_sweeps={4 * n_sweeps}, or n_chains={2 * self.n_chains}."
            warnings.warn(words, ConvergenceWarning, stacklevel=3)

    def _planes(self) -> tuple[Array, Array]:
        samples, standard = self.samples_, self._standardiser
        slope, offsets = self._calibration
        offsets = offsets[1:] - offsets[:1] if len(offsets) == 2 else offsets
        normals = (
            slope * (samples.weights * samples.scales[:, :, None]).mean(axis=0) / np.sqrt(max(1, len(standard.mean)))
        )
        normals[:, standard.used] /= standard.width
        return normals, slope * samples.intercepts.mean(axis=0) + offsets - normals[:, standard.used] @ standard.mean


def finite(X: Any) -> Array:
    """Return X dense; ValueError if it holds NaN or infinite values."""
    X = X.toarray() if hasattr(X, "toarray") else X
    if not np.isfinite(X).all():
        what = "NaN: fill in missing values, as sklearn.impute.SimpleImputer does in a Pipeline"
        raise ValueError(
            f"X contains {what if np.isnan(X).any() else 'inf: replace infinite values or drop their rows'}."
        )
    return X


def chosen(logits: Array) -> Array:
    """Return the numbers of the most probable classes by logits (k,) or (k, c)."""
    return (logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(axis=1)


def normalised(logits: Array) -> Array:
    """Return probabilities (k, c) from logits (k,) of the second of two classes or (k, c)."""
    if logits.ndim == 1:
        return np.column_stack([expit(-logits), expit(logits)])
    return softmax(logits, axis=1)
