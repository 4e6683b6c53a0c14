"""One vector of small integers for each class, distilled from a posterior: `IntegerClassifier`, in Python, C and ONNX.

Coordinate descent on the cross-entropy to the posterior's probabilities, on training rows and on mixtures of pairs of them;
scale and thresholds are fitted to the same probabilities. Features are rounded to int8 as well, so that scores are integers.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from solspace.learn.lowbit import LowBitClassifier, chosen, finite, levels_of, normalised
from solspace.learn.posterior import Affine, Columns, sure_log
from solspace.numerics.arrays import Array
from solspace.system.checks import install
from solspace.system.files import replacing

UNIT = 32  # steps of a feature in one standard deviation
LARGEST = 127
MIXED = 3  # mixtures of pairs for each training row
# steps at which mean weights are rounded, in units that use all levels
STARTS = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.12)
ROUNDS, PASSES, REACH = 6, 20, 3  # fits of scale and thresholds, passes of descent between them, levels moved at a time
FLAT = 1e-6  # precision of the prior of scale and thresholds


@dataclass(eq=False, repr=False)
class IntegerClassifier(ClassifierMixin, BaseEstimator):
    """Linear classifier in integers: int8 weights and features, int32 thresholds, and one scale for probabilities.

    Parameters
    ----------
    levels : {"binary", "ternary", "3bit", "4bit", "5bit", "6bit"} or sequence of int, default "3bit"
        Values of the weights, as for `LowBitClassifier`.
    random_state : int, RandomState or None
        Seed.
    n_jobs : int, optional
        Threads of the posterior's chains; None is 1, -1 all cores.

    Attributes
    ----------
    weights_ : ndarray
        (c, n_features_in_) int8; c is 1 for two classes, else the number of classes.
    thresholds_ : ndarray
        (c,) int32, added to the sums of weights times features.
    scale_ : float
        Logit of a score of 1.
    coef_, intercept_ : ndarray
        (c, n_features_in_) and (c,), the planes in the original features, rounding of features apart.
    classes_, n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    See Also
    --------
    LowBitClassifier : The posterior, more accurate; its `to_single` makes this classifier without another fit.

    Notes
    -----
    A feature x enters as q = round(32 (x - mean)/width), kept within ±127.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = IntegerClassifier("ternary", random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.94), model.size_bytes
    (True, 274)
    """

    levels: str | Sequence[int] = "3bit"
    _: KW_ONLY
    random_state: Any = None
    n_jobs: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> IntegerClassifier:
        """Sample a posterior, and distil it.

        Parameters
        ----------
        X : array_like
            (m, n) training samples, dense or sparse.
        y : array_like
            (m,) labels of two or more classes.
        sample_weight : array_like, optional
            (m,) weights of the samples.

        Returns
        -------
        IntegerClassifier
            The fitted estimator.
        """
        levels_of(self.levels)
        validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, ensure_all_finite=False)
        teacher = LowBitClassifier(random_state=self.random_state, n_jobs=self.n_jobs)
        return self._distil(teacher.fit(X, y, sample_weight))

    def decision_function(self, X: ArrayLike) -> Array:
        """Return the logits: integer scores times `scale_`.

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
        scores = self.quantise(finite(X)).astype(np.int64) @ self.weights_.T.astype(np.int64) + self.thresholds_
        logits = self.scale_ * scores
        return logits[:, 0] if logits.shape[1] == 1 else logits

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

    def quantise(self, X: ArrayLike) -> Array:
        """Return features as the integers that enter the scores, with the rounding of the C function.

        Parameters
        ----------
        X : array_like
            (k, n) samples.

        Returns
        -------
        ndarray
            (k, n) int8.
        """
        check_is_fitted(self)
        with np.errstate(over="ignore"):  # values beyond single precision are clipped as well
            steps = (np.asarray(X).astype(np.float32) - self._centre) * self._factor
        limited = np.clip(steps, np.float32(-LARGEST), np.float32(LARGEST)) + np.float32(LARGEST + 1.5)
        return (np.floor(limited) - (LARGEST + 1)).astype(np.int8)

    @property
    def coef_(self) -> Array:
        """(c, n_features_in_), the planes in the original features."""
        check_is_fitted(self)
        return self.scale_ * self.weights_ * self._factor.astype(float)

    @property
    def intercept_(self) -> Array:
        """(c,), their offsets."""
        return self.scale_ * self.thresholds_ - self.coef_ @ self._centre.astype(float)

    @property
    def size_bytes(self) -> int:
        """Bytes of the tables in the C header: a byte a weight, four a threshold, eight to round a feature."""
        check_is_fitted(self)
        return int(self.weights_.nbytes + self.thresholds_.nbytes + self._centre.nbytes + self._factor.nbytes)

    def to_c(self, path: str | os.PathLike[str], name: str = "classifier") -> None:
        """Write a C99 header with the integers and two functions; it needs no library.

        `NAME_quantise` rounds raw features, the only place with floating-point numbers; `NAME_predict` returns the place of the
        class in `classes_` from rounded ones.

        Parameters
        ----------
        path : str or path-like
            The file.
        name : str, default "classifier"
            Prefix of all names.
        """
        if not (name.isidentifier() and name.isascii()):
            raise ValueError(f"name must be a C identifier; got {name!r}.")
        c, n = self.weights_.shape
        listed = ", ".join(f"{place} is {label!r}" for place, label in enumerate(self.classes_.tolist()))
        values = {"N": name.upper(), "name": name, "c": c, "n": n, "top": LARGEST, "mid": f"{LARGEST + 1.5}f"}
        values |= {"back": LARGEST + 1, "scale": f"{self.scale_:.9g}", "classes": listed.replace("*/", "* /")}
        values |= {
            "weights": ",\n  ".join("{" + _listed(row) + "}" for row in self.weights_),
            "thresholds": _listed(self.thresholds_),
            "centre": _listed(self._centre),
            "factor": _listed(self._factor),
            "pick": "best = score > 0;" if c == 1 else "if (k == 0 || score > top) { top = score; best = k; }",
            "top_": "" if c == 1 else "\n  int32_t top = 0;",
        }
        with replacing(path) as file:
            file.write(_HEADER.format(**values).encode("ascii", "backslashreplace"))

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model: float features in, the place of the class in `classes_` and probabilities out.

        Parameters
        ----------
        path : str or path-like
            The file.

        Raises
        ------
        ImportError
            Without the package onnx.
        """
        try:
            from onnx import TensorProto, checker, helper, numpy_helper
        except ImportError:
            raise ImportError(f"to_onnx needs onnx: {install('onnx')}.") from None
        c, n = self.weights_.shape
        parts = {
            "centre": self._centre, "factor": self._factor, "low": -LARGEST, "top": LARGEST, "half": LARGEST + 1.5,
            "back": LARGEST + 1, "weights": self.weights_.T, "thresholds": self.thresholds_, "scale": self.scale_,
        }  # fmt: skip
        if c == 1:  # a score of 0 for the first class
            parts |= {"weights": np.hstack([0 * self.weights_.T, self.weights_.T])}
            parts |= {"thresholds": np.array([0, *self.thresholds_])}
        stored = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in parts.items()]
        steps = (
            ("Sub", "features centre", "a"), ("Mul", "a factor", "b"), ("Clip", "b low top", "c"), ("Add", "c half", "d"),
            ("Floor", "d", "e"), ("Sub", "e back", "q"), ("MatMul", "q weights", "f"), ("Add", "f thresholds", "scores"),
            ("Mul", "scores scale", "logits"),
        )  # fmt: skip
        nodes = [helper.make_node(kind, inputs.split(), [output]) for kind, inputs, output in steps]
        nodes.append(helper.make_node("ArgMax", ["scores"], ["label"], axis=1, keepdims=0))
        nodes.append(helper.make_node("Softmax", ["logits"], ["probabilities"], axis=1))
        outputs = [
            helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
            helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, len(self.classes_)]),
        ]
        features = helper.make_tensor_value_info("features", TensorProto.FLOAT, [None, n])
        graph = helper.make_graph(nodes, "solspace", [features], outputs, stored)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        checker.check_model(model)
        with replacing(path) as file:
            file.write(model.SerializeToString())

    def _distil(self, teacher: LowBitClassifier) -> IntegerClassifier:
        values, standard = levels_of(self.levels), teacher._standardiser
        for name in ("classes_", "n_features_in_", "feature_names_in_"):
            if hasattr(teacher, name):
                setattr(self, name, getattr(teacher, name))
        rows, s, goal = soft_rows(teacher)
        mean = (teacher._draws.weights * teacher._draws.scales[:, :, None]).mean(axis=0)
        places, scale, offsets = descent(Columns.of(rows, s, goal), rows, s, goal, mean, values)
        n, used = self.n_features_in_, standard.used
        self.weights_ = np.zeros((len(places), n), np.int8)
        self.weights_[:, used] = values[places]
        self._centre, self._factor = np.zeros(n, np.float32), np.zeros(n, np.float32)
        self._centre[used], self._factor[used] = standard.mean, UNIT / standard.width
        self.scale_ = scale / (UNIT * np.sqrt(max(1, rows.shape[1])))
        self.thresholds_ = np.clip(np.rint(offsets / self.scale_), -(2**30), 2**30).astype(np.int32)
        return self


def soft_rows(teacher: LowBitClassifier) -> tuple[Array, Array, Array]:
    """Return rows (m, n) of the training table and mixtures of pairs of them, their weights, and the teacher's probabilities."""
    rows, s, rng = teacher._rows.astype(float), teacher._row_weights, np.random.default_rng(0)
    first, second = rng.integers(0, len(rows), (2, MIXED * len(rows)))
    share = rng.random(len(first))[:, None]
    rows = np.vstack([rows, share * rows[first] + (1 - share) * rows[second]])
    s = np.concatenate([s, (s[first] + s[second]) / 2])
    return rows, s, softmax(teacher._calibration(sure_log(teacher._draws.probabilities(rows))), axis=1)


def descent(
    columns: Columns, rows: Array, s: Array, goal: Array, mean: Array, values: Array
) -> tuple[Array, float, Array]:
    """Return places of levels (c, n), scale and offsets (c,) with the least cross-entropy that was found from several starts.

    Starts are the weights `mean` (c, n), rounded in several units.
    """
    from solspace.samplers.kernels.logistic import descend

    best: tuple[float, Array, float, Array] = (np.inf, np.empty(0), 1.0, np.empty(0))
    rows = rows / np.sqrt(max(1, rows.shape[1]))
    unit = np.abs(mean).max(initial=1e-12) / np.abs(values).max()
    for share in STARTS if len(values) > 2 else STARTS[:1]:
        places = np.abs(mean[:, :, None] / (unit * share) - values).argmin(axis=2)
        for _ in range(ROUNDS):
            z = rows @ values[places].T
            fit = Affine.fitted(np.column_stack([np.zeros(len(z)), z]) if len(mean) == 1 else z, goal, s, FLAT)
            logs = log_softmax(fit(np.column_stack([np.zeros(len(z)), z]) if len(mean) == 1 else z), axis=1)
            loss = float(-s @ (goal * logs).sum(axis=1))
            offsets = fit.offsets[1:] - fit.offsets[:1] if len(mean) == 1 else fit.offsets
            if loss < best[0]:
                best = loss, places.copy(), fit.slope, offsets
            single = values.astype(np.float32)
            if descend(columns.x, columns.s, columns.linear, single, fit.slope, offsets, REACH, PASSES, places) > -1e-4:
                break
    return best[1:]


def _listed(numbers: Array) -> str:
    """Return numbers as C writes them."""
    if numbers.dtype.kind == "i":
        return ", ".join(map(str, numbers.tolist()))
    return ", ".join(f"{one:.9e}f" for one in numbers.tolist())


_HEADER = """\
/* A linear classifier in integers, written by solspace: {n} features; classes: {classes}.
   The logit of a score is {scale} times the score. */
#ifndef {N}_H
#define {N}_H
#include <stdint.h>

enum {{ {N}_FEATURES = {n}, {N}_SCORES = {c} }};
static const int8_t {name}_weights[{c}][{n}] = {{
  {weights}
}};
static const int32_t {name}_thresholds[{c}] = {{{thresholds}}};
static const float {name}_centre[{n}] = {{{centre}}};
static const float {name}_factor[{n}] = {{{factor}}};

/* Rounds features to steps of 1/32 of their standard deviation. */
static inline void {name}_quantise(const float x[{n}], int8_t q[{n}]) {{
  for (int j = 0; j < {N}_FEATURES; j++) {{
    float step = (x[j] - {name}_centre[j]) * {name}_factor[j];
    step = step < -{top} ? -{top} : step > {top} ? {top} : step;
    q[j] = (int8_t)((int)(step + {mid}) - {back});
  }}
}}

/* Returns the number of the class. */
static inline int {name}_predict(const int8_t q[{n}]) {{
  int best = 0;{top_}
  for (int k = 0; k < {N}_SCORES; k++) {{
    int32_t score = {name}_thresholds[k];
    for (int j = 0; j < {N}_FEATURES; j++) score += {name}_weights[k][j] * q[j];
    {pick}
  }}
  return best;
}}

#endif
"""
