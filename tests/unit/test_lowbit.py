"""The low-bit classifier inside scikit-learn's tools, on bad input, and its integers in C and ONNX."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import warnings
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegressionCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from solspace.learn import BinaryPerceptronClassifier, IntegerClassifier, LowBitClassifier
from solspace.learn.posterior import Standardiser

Table = tuple[np.ndarray, np.ndarray]


@pytest.fixture(scope="module")
def made() -> Table:
    return make_classification(300, 8, n_informative=5, flip_y=0.05, random_state=0)


@pytest.fixture(scope="module")
def iris() -> Table:
    X, y = load_iris(return_X_y=True)
    return X, np.array(["setosa", "versicolor", "virginica"])[y]


@pytest.fixture(scope="module")
def fitted(made: Table) -> LowBitClassifier:
    return LowBitClassifier("3bit", random_state=0).fit(*made)


def brier(p: np.ndarray, up: np.ndarray) -> float:
    return float(((p[:, 1] - up) ** 2).mean())


def test_attributes(made: Table, fitted: LowBitClassifier) -> None:
    X, _ = made
    assert fitted.samples_.weights.shape == (fitted.samples_.scales.shape[0], 1, 8)
    assert set(np.unique(fitted.samples_.weights)) <= set(range(-3, 4))
    assert ((fitted.feature_inclusion_ >= 0) & (fitted.feature_inclusion_ <= 1)).all()
    assert fitted.coef_.shape == (1, 8)
    plane = X @ fitted.coef_[0] + fitted.intercept_
    assert np.corrcoef(plane, fitted.decision_function(X))[0, 1] > 0.98
    assert fitted.log_evidence_ < 0
    np.testing.assert_array_equal(fitted.predict(X), fitted.predict_proba(X).argmax(axis=1))
    inputs, labels = made
    shuffled = LowBitClassifier("3bit", random_state=0).fit(np.hstack([inputs, np.ones((300, 1))]), labels[::-1])
    assert shuffled.log_evidence_ < fitted.log_evidence_  # labels without signal
    assert np.isnan(shuffled.feature_inclusion_[0, -1])  # a constant column
    assert shuffled.coef_[0, -1] == 0


def test_seeds_decide_and_neither_jobs_nor_the_order_of_rows(made: Table) -> None:
    X, y = made
    order = np.random.default_rng(0).permutation(len(y))
    fits = [
        LowBitClassifier(random_state=seed, n_jobs=jobs).fit(X[rows], y[rows]).decision_function(X)
        for seed, jobs, rows in ((0, None, slice(None)), (0, 3, slice(None)), (0, None, order), (1, None, slice(None)))
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[2])
    assert not np.array_equal(fits[0], fits[3])


def test_weights_are_repetitions_and_balance_moves_the_intercept(made: Table) -> None:
    X, y = made
    s = np.random.default_rng(0).integers(0, 3, len(y))
    weighted = LowBitClassifier("ternary", random_state=0).fit(X, y, s)
    repeated = LowBitClassifier("ternary", random_state=0).fit(X.repeat(s, axis=0), y.repeat(s))
    np.testing.assert_array_equal(weighted.decision_function(X), repeated.decision_function(X))
    rare = np.concatenate([np.flatnonzero(y == 0), np.flatnonzero(y == 1)[:15]])
    shares = [
        LowBitClassifier(class_weight=weight, random_state=0).fit(X[rare], y[rare]).predict_proba(X[rare])[:, 1].mean()
        for weight in (None, "balanced", {0: 1, 1: 10})
    ]
    assert abs(shares[0] - 15 / len(rare)) < 0.02
    assert shares[0] < shares[1]
    assert shares[0] < shares[2]


def test_inside_scikit_learns_tools(made: Table, tmp_path: Path) -> None:
    X, y = made
    model = LowBitClassifier("ternary", n_chains=2, random_state=0)
    pipe = make_pipeline(StandardScaler(), model).set_output(transform="pandas")
    frame = pandas.DataFrame(X, columns=[f"column {k}" for k in range(8)])
    assert pipe.fit(frame, y).score(frame, y) > 0.7
    assert list(pipe[-1].feature_names_in_) == list(frame.columns)
    search = GridSearchCV(
        pipe, {"lowbitclassifier__levels": ["ternary", "3bit", [0, 1]]}, cv=2, scoring="neg_brier_score"
    )
    assert search.fit(frame, y).best_score_ > -0.2
    calibrated = CalibratedClassifierCV(model, cv=2).fit(X, y)
    assert calibrated.predict_proba(X).shape == (300, 2)
    assert clone(model).get_params() == model.get_params()
    own = clone(model).fit(csr_matrix(X), y)
    np.testing.assert_allclose(own.decision_function(csr_matrix(X)), clone(model).fit(X, y).decision_function(X))
    joblib.dump(own, tmp_path / "model.joblib")
    for other in (pickle.loads(pickle.dumps(own)), joblib.load(tmp_path / "model.joblib")):
        np.testing.assert_array_equal(other.decision_function(X), own.decision_function(X))


@pytest.mark.parametrize("classes", [2, 3])
def test_a_file_holds_the_model(made: Table, iris: Table, tmp_path: Path, classes: int) -> None:
    X, y = made if classes == 2 else iris
    model = LowBitClassifier(n_sweeps=60, random_state=0).fit(pandas.DataFrame(X).add_prefix("f"), y)
    model.save(tmp_path / "model.npz")
    again, frame = LowBitClassifier.load(tmp_path / "model.npz"), pandas.DataFrame(X).add_prefix("f")
    np.testing.assert_array_equal(again.predict_proba(frame), model.predict_proba(frame))
    np.testing.assert_array_equal(again.to_single().predict(frame), model.to_single().predict(frame))
    assert again.predict(frame).tolist() == model.predict(frame).tolist()
    arrays = dict(np.load(tmp_path / "model.npz"))
    for name, value in (("mean", arrays["mean"][:-1]), ("scales", arrays["scales"] * np.nan)):
        np.savez(tmp_path / "bad.npz", **{**arrays, name: value})
        with pytest.raises(ValueError, match="no file of a LowBitClassifier"):
            LowBitClassifier.load(tmp_path / "bad.npz")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"levels": "8bit"}, "unknown levels '8bit'"),
        ({"levels": [1]}, "two different integers"),
        ({"levels": [0.5, 1]}, "two different integers"),
        ({"likelihood": "probit"}, "likelihood"),
        ({"device": "gpu"}, "device"),
        ({"method": "ep"}, "method"),
        ({"n_chains": 0}, "n_chains"),
        ({"calibrate": "never"}, "calibrate"),
        ({"class_weight": "even"}, "class_weight"),
    ],
    ids=str,
)
def test_wrong_options_get_a_sentence(made: Table, change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        LowBitClassifier(**change).fit(*made)


@pytest.mark.parametrize("model", [LowBitClassifier(random_state=0), IntegerClassifier(random_state=0)], ids=str)
def test_bad_tables_get_a_sentence(made: Table, model: Any) -> None:
    X, y = made
    with pytest.raises(ValueError, match="one class"):
        model.fit(X, np.zeros(300))
    holes = np.where(np.arange(8) == 2, np.nan, X)
    with pytest.raises(ValueError, match="SimpleImputer"):
        model.fit(holes, y)
    with pytest.raises(ValueError, match="contains inf"):
        model.fit(np.where(np.arange(8) == 2, np.inf, X), y)
    with pytest.raises(ValueError, match="SimpleImputer"):
        clone(model).fit(X, y).predict(holes)


def test_hard_tables() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    rare = (X[:, 0] + rng.logistic(size=400) > 5.5).astype(int)  # four or so positives
    assert 1 <= rare.sum() <= 12
    p = LowBitClassifier(random_state=0).fit(X, rare).predict_proba(X)[:, 1]
    assert abs(p.mean() - rare.mean()) < 0.01
    wide = rng.standard_normal((40, 120))
    y = (wide[:, :10].sum(axis=1) > 0).astype(int)
    model = LowBitClassifier(random_state=0).fit(wide, y)
    assert model.score(wide, y) > 0.9
    nothing = LowBitClassifier(random_state=0).fit(np.ones((20, 2)), np.arange(20) % 4 == 0)  # constant columns alone
    np.testing.assert_allclose(nothing.predict_proba(np.ones((1, 2)))[0, 1], 0.25, atol=0.05)
    large = LowBitClassifier(random_state=0).fit(X * 1e200, X[:, 0] > 0)
    assert large.score(X * 1e200, X[:, 0] > 0) > 0.95


def test_separable_digits_are_not_timid() -> None:
    """Brier score within .001 of logistic regression, over five splits."""
    X, y = load_digits(return_X_y=True)
    X, y = X[np.isin(y, (3, 8))], y[np.isin(y, (3, 8))] == 8
    found = []
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(y))
        seen, unseen = order[:214], order[214:]
        scaler = StandardScaler().fit(X[seen])
        regression = LogisticRegressionCV(Cs=10, cv=5, scoring="neg_log_loss", max_iter=2000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            regression.fit(scaler.transform(X[seen]), y[seen])
        other = regression.predict_proba(scaler.transform(X[unseen]))
        own = LowBitClassifier(random_state=seed).fit(X[seen], y[seen]).predict_proba(X[unseen])
        found.append(brier(own, y[unseen]) - brier(other, y[unseen]))
    assert np.mean(found) < 0.001


def test_chains_that_disagree_are_said_once(made: Table) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 200)), rng.integers(0, 2, 60)
    with pytest.warns(ConvergenceWarning, match="n_sweeps=8") as record:
        LowBitClassifier("binary", n_chains=2, n_sweeps=2, calibrate=False, random_state=0).fit(X, y)
    assert len(record) == 1


@pytest.mark.parametrize("levels", ["binary", "ternary", "3bit", [0, 1, 5]], ids=str)
def test_single_networks_come_close_to_their_teacher(made: Table, fitted: LowBitClassifier, levels: Any) -> None:
    X, y = made
    single = fitted.to_single(levels)
    assert single.weights_.dtype == np.int8
    assert single.score(X, y) > fitted.score(X, y) - (0.05 if levels in ("ternary", "3bit") else 0.2)
    scores = single.quantise(X).astype(int) @ single.weights_[0].astype(int) + single.thresholds_[0]
    np.testing.assert_allclose(single.decision_function(X), single.scale_ * scores)
    plane = X @ single.coef_[0] + single.intercept_
    np.testing.assert_allclose(plane, single.decision_function(X), atol=0.05 * np.abs(plane).max())
    assert single.size_bytes == 8 + 4 + 8 * 8


def test_descent_beats_rounding(made: Table, fitted: LowBitClassifier) -> None:
    from solspace.learn.integer import descent, soft_rows
    from solspace.learn.posterior import Affine, Columns

    rows, s, goal = soft_rows(fitted)
    values, mean = np.array([-1.0, 0.0, 1.0]), np.array([[0.9, -0.4, 0.2, 0.6, 0, 0.1, -0.7, 0.3]])

    def loss(places: np.ndarray) -> float:
        z = rows @ values[places].T / np.sqrt(8)
        x = np.column_stack([np.zeros(len(z)), z])
        logs = Affine.fitted(x, goal, s, 1e-6)(x)
        return float(s @ (np.logaddexp.reduce(logs, axis=1) - (goal * logs).sum(axis=1)))

    places, _, _ = descent(Columns.of(rows, s, goal), rows, s, goal, mean, values)
    every = [loss(np.array([[a, b, *places[0, 2:]]])) for a in range(3) for b in range(3)]
    assert loss(places) <= min(every[3 * places[0, 0] :: 1][:3]) + 1e-3  # no single move is better
    assert loss(places) < loss(np.abs(mean[:, :, None] - values).argmin(axis=2))


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("classes", [2, 3])
def test_the_c_file_gives_the_same_classes(made: Table, iris: Table, tmp_path: Path, classes: int) -> None:
    X, y = made if classes == 2 else iris
    single = LowBitClassifier(random_state=0).fit(X, y).to_single("ternary")
    single.to_c(tmp_path / "net.h", name="net")
    source = '#include "net.h"\n#include <stdio.h>\nint main(void) { float x[NET_FEATURES]; int8_t q[NET_FEATURES]; for (;;) {'
    source += ' for (int j = 0; j < NET_FEATURES; j++) if (scanf("%f", x + j) != 1) return 0;'
    source += ' net_quantise(x, q); printf("%d\\n", net_predict(q)); } }\n'
    (tmp_path / "net.c").write_text(source)
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2", "-ffp-contract=off"]
    subprocess.run(["cc", *flags, "-o", str(tmp_path / "net"), str(tmp_path / "net.c")], check=True)
    inputs = np.vstack([X, 100 * X, np.zeros((1, X.shape[1]))]).astype(np.float32)
    text = "\n".join(" ".join(f"{value:.9g}" for value in row) for row in inputs)
    done = subprocess.run([str(tmp_path / "net")], input=text, capture_output=True, text=True, check=True)
    found = single.classes_[[int(word) for word in done.stdout.split()]]
    np.testing.assert_array_equal(found, single.predict(inputs))
    with pytest.raises(ValueError, match="identifier"):
        single.to_c(tmp_path / "net.h", name="my net")


@pytest.mark.skipif(find_spec("onnx") is None or find_spec("onnxruntime") is None, reason="no onnx, an extra")
@pytest.mark.parametrize("classes", [2, 3])
def test_the_onnx_file_gives_the_same_probabilities(made: Table, iris: Table, tmp_path: Path, classes: int) -> None:
    runtime = import_module("onnxruntime")
    X, y = made if classes == 2 else iris
    single = LowBitClassifier(n_sweeps=60, random_state=0).fit(X, y).to_single("ternary")
    single.to_onnx(tmp_path / "net.onnx")
    session = runtime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    label, p = session.run(None, {"features": X.astype(np.float32)})
    np.testing.assert_array_equal(single.classes_[label], single.predict(X))
    np.testing.assert_allclose(p, single.predict_proba(X), atol=1e-5)


def test_columns_are_standardised() -> None:
    X = np.random.default_rng(0).normal(3, 2, (50, 2)) * [1, 1e12]
    rows = Standardiser.learn(X, np.ones(50))(X)
    np.testing.assert_allclose(rows.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(rows.std(axis=0), 1)


def test_an_intercept_of_hard_constraints() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 60)) * np.exp(rng.standard_normal(60))
    y = np.sign((X / X.std(axis=0)) @ rng.choice([-1.0, 1.0], 60) + 8)  # a tenth of the labels differ
    model = BinaryPerceptronClassifier(intercept=True, standardise=True, random_state=0).fit(X, y)
    assert model.solved_
    plane = X @ model.coef_[0] + model.intercept_[0]
    np.testing.assert_array_equal(np.sign(plane), y)
    np.testing.assert_allclose(plane, model.decision_function(X), atol=1e-4)
    for options, words in (
        ({"intercept": True}, "standardise"),
        ({"standardise": True, "preprocess": "raw"}, "replaces"),
    ):
        with pytest.raises(ValueError, match=words):
            BinaryPerceptronClassifier(**options).fit(X, y)
