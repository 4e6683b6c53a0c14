"""The classifier learns, says when it could not, and works inside scikit-learn's tools."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix, csc_matrix, csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_approximation import RBFSampler
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import solspace as ss
from solspace.learn import BinaryPerceptronClassifier, perceptron

Classifier = BinaryPerceptronClassifier


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    keep = np.isin(y, (3, 8))
    return X[keep], y[keep]


def teacher(n: int, m: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels that ±1 weights can give."""
    random = np.random.default_rng(seed)
    X = random.standard_normal((m, n))
    return X, np.sign(X @ random.choice([-1.0, 1.0], n))


@pytest.mark.parametrize("sampler", ["tau", "temperature", "asl"])
def test_solutions_make_no_training_error(sampler: str) -> None:
    X, y = teacher(101, 25, seed=1)
    model = Classifier(sampler, preprocess="raw", n_solutions=3, random_state=0).fit(X, y)
    assert model.weights_.shape == (3, 101)
    assert set(np.unique(model.weights_)) == {-1, 1}
    assert model.solved_ is True
    assert model.n_violations_ == 0
    assert model.score(X, y) == 1
    assert ss.Perceptron(X, y.astype(int)).is_solution(model.weights_).all()


@pytest.mark.parametrize("preprocess", ["centred", "raw", "binarised"])
def test_it_generalises(digits: tuple[np.ndarray, np.ndarray], preprocess: str) -> None:
    X, y = digits
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Classifier(preprocess=preprocess, n_solutions=7, random_state=0).fit(X[:40], y[:40])
    assert model.score(X[40:], y[40:]) > 0.8
    assert model.classes_.tolist() == [3, 8]


def test_a_failure_is_said_once_and_predictions_go_on() -> None:
    random = np.random.default_rng(0)
    X, y = random.standard_normal((60, 11)), random.choice([0, 1], 60)
    model = Classifier(n_solutions=5, random_state=0)
    with pytest.warns(ConvergenceWarning, match="5 of 5 solutions get up to .* of 60 training samples wrong") as record:
        model.fit(X, y)
    assert len(record) == 1
    assert model.solved_ is False
    assert model.n_violations_ == model.violations_.max() > 0
    assert set(model.predict(X)) <= {0, 1}
    single = Classifier(random_state=0)
    with pytest.warns(ConvergenceWarning, match="the solution gets"):
        single.fit(X, y)
    assert single.n_violations_ == round(60 * (1 - single.score(X, y)))


@pytest.mark.parametrize("size", [1, 2, 5])
def test_votes_are_probabilities_and_agree_with_predictions(digits: tuple[np.ndarray, np.ndarray], size: int) -> None:
    X, y = digits
    model = Classifier(n_solutions=size, random_state=1).fit(X[:30], y[:30])
    votes = model.predict_proba(X)
    np.testing.assert_allclose(votes.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[votes.argmax(axis=1)], model.predict(X))
    np.testing.assert_array_equal(votes[:, 1] > 0.5, model.decision_function(X) > 0)
    alone = np.stack([(_member(model, k).decision_function(X) > 0) for k in range(size)]).mean(axis=0)
    tie = alone == 0.5
    np.testing.assert_allclose(votes[~tie, 1], alone[~tie])
    assert np.all(np.abs(votes[tie, 1] - 0.5) <= 0.25 / size)


def _member(model: Classifier, k: int) -> Classifier:
    one = pickle.loads(pickle.dumps(model))
    one.weights_ = model.weights_[k : k + 1]
    return one


def test_the_mean_is_the_training_sets(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    model = Classifier(random_state=0).fit(X[:30], y[:30])
    np.testing.assert_allclose(model.preprocessing_.mean, X[:30].mean(axis=0))
    np.testing.assert_allclose(model.decision_function(X)[200:], model.decision_function(X[200:]))
    rows = X[200:] - X[:30].mean(axis=0)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.testing.assert_allclose(model.decision_function(X[200:]), rows @ model.weights_[0])


def test_seeds_decide_and_jobs_do_not(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    fits = [
        Classifier(n_solutions=3, random_state=seed, n_jobs=jobs).fit(X[:30], y[:30]).weights_
        for seed, jobs in ((0, None), (0, 2), (1, None), (np.random.RandomState(0), None))
    ]
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(fits[0], fits[3])
    assert not np.array_equal(fits[0], fits[2])
    assert not np.array_equal(fits[0][0], fits[0][1])


def test_pickles_and_clones(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    model = Classifier(n_solutions=2, random_state=0).fit(X[:30], y[:30])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    assert clone(model).get_params() == model.get_params()


def test_pipelines_and_searches(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    features = RBFSampler(gamma=0.003, n_components=256, random_state=0)
    pipe = make_pipeline(StandardScaler(), features, Classifier(n_sweeps=50, random_state=0))
    assert cross_val_score(pipe, X[:90], y[:90], cv=3).mean() > 0.8
    grid = {"preprocess": ["centred", "binarised"], "n_solutions": [1, 3]}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search = GridSearchCV(Classifier(n_sweeps=50, random_state=0), grid, cv=2, scoring="roc_auc").fit(
            X[:80], y[:80]
        )
    assert search.best_score_ > 0.9


def test_a_search_over_parameters_says_once_that_errors_are_left() -> None:
    """Once for all of its folds, and once for the model that it keeps."""
    random = np.random.default_rng(0)
    X, y = random.standard_normal((60, 11)), random.choice([0, 1], 60)
    search = GridSearchCV(Classifier(n_sweeps=20, random_state=0), {"n_solutions": [1, 2, 3]}, cv=4)
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert {one.category for one in record} == {ConvergenceWarning}
    assert 1 <= len(record) <= 2
    for _ in range(2):  # a fit of one's own is always reported
        with pytest.warns(ConvergenceWarning):
            search.best_estimator_.fit(X, y)


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, OneVsOneClassifier])
def test_more_classes_through_scikit_learns_wrappers(wrapper: Any) -> None:
    X, y = load_digits(n_class=4, return_X_y=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = wrapper(Classifier(n_solutions=3, n_sweeps=50, random_state=0)).fit(X[:120], y[:120])
    assert model.score(X[120:], y[120:]) > 0.8
    with pytest.raises(ValueError, match="Only binary classification"):
        Classifier().fit(X, y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sampler": "taw"}, "did you mean 'tau'"),
        ({"preprocess": "white"}, "unknown preprocess"),
        ({"n_solutions": 0}, "n_solutions must be an integer of at least 1"),
        ({"n_sweeps": 2.5}, "n_sweeps must be an integer of at least 1"),
        ({"temperature": -1}, "temperature"),
        ({"device": "tpu"}, "device"),
    ],
)
def test_wrong_options_get_a_sentence(options: dict[str, Any], message: str) -> None:
    X, y = teacher(9, 4, seed=0)
    with pytest.raises(ValueError, match=message):
        Classifier(**options).fit(X, y)


def test_degenerate_data_is_survived() -> None:
    X, y = np.zeros((6, 5)), np.array([0, 1, 0, 1, 0, 1])
    with pytest.warns(ConvergenceWarning, match="3 of 6"):
        model = Classifier(random_state=0).fit(X, y)
    assert set(np.unique(model.weights_)) <= {-1, 1}
    X, y = make_classification(40, 3, n_informative=2, n_redundant=0, random_state=0)
    X[0] = X[1:].mean(axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert Classifier(random_state=0).fit(X, y).score(X, y) > 0.6
    with pytest.raises(ValueError, match="one class"):
        Classifier().fit(X, np.ones(40))


def test_the_plane_is_what_decides(digits: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = digits
    raw = Classifier(preprocess="raw", random_state=0).fit(X[:30] - 5, y[:30])
    assert raw.coef_.shape == (1, 64)
    np.testing.assert_allclose((X - 5) @ raw.coef_[0] + raw.intercept_, raw.decision_function(X - 5))
    centred = Classifier(random_state=0).fit(X[:30], y[:30])
    plane = X @ centred.coef_[0] + centred.intercept_
    np.testing.assert_array_equal(plane > 0, centred.predict(X) == 8)
    assert centred.coef_ @ X[:30].mean(axis=0) + centred.intercept_ == pytest.approx(0)
    many = Classifier(n_solutions=5, random_state=0).fit(X[:30], y[:30])
    np.testing.assert_allclose(many.coef_[0], many.weights_.mean(axis=0) / 8)
    signs = Classifier(preprocess="binarised", random_state=0).fit(X[:30], y[:30])
    with pytest.raises(AttributeError, match="no plane lies on binarised features"):
        _ = signs.coef_
    assert not hasattr(signs, "intercept_")
    assert not hasattr(Classifier(), "coef_")


@pytest.mark.parametrize("kind", [csr_array, csc_matrix, coo_matrix])
def test_sparse_rows_are_classified_like_dense_ones(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = teacher(41, 15, seed=3)
    X[np.random.default_rng(0).random(X.shape) < 0.7] = 0
    dense, sparse = (Classifier(n_solutions=2, random_state=0).fit(rows, y) for rows in (X, kind(X)))
    np.testing.assert_array_equal(dense.weights_, sparse.weights_)
    monkeypatch.setattr(perceptron, "BLOCK", 100)  # some rows at a time
    np.testing.assert_allclose(sparse.decision_function(kind(X)), dense.decision_function(X))
    np.testing.assert_array_equal(sparse.predict_proba(kind(X)), dense.predict_proba(X))
    assert OneVsRestClassifier(Classifier(random_state=0)).fit(kind(X), y).predict(kind(X)).tolist() == y.tolist()


def test_a_margin_is_kept_and_a_margin_that_cannot_be_is_said() -> None:
    X, y = teacher(101, 20, seed=1)
    model = Classifier(margin=0.4, preprocess="raw", n_solutions=3, random_state=0).fit(X, y)
    assert model.solved_
    assert (y[:, None] * (X @ model.weights_.T) / np.sqrt(101)).min() >= 0.4
    with pytest.warns(ConvergenceWarning, match="training samples short of the margin 3"):
        far = Classifier(margin=3.0, preprocess="raw", random_state=0).fit(X, y)
    assert far.n_violations_ == (y * far.decision_function(X) < 3).sum() > 0


def test_the_potential_and_its_temperature_shape_what_is_drawn() -> None:
    X, y = teacher(101, 30, seed=1)
    least = {}
    for heat in (0.1, 10.0):
        model = Classifier(temperature=heat, preprocess="raw", n_solutions=8, random_state=0).fit(X, y)
        least[heat] = np.mean((y[:, None] * (X @ model.weights_.T)).min(axis=0))
    assert least[0.1] > 2 * least[10.0]  # the colder, the further from the training samples
    assert Classifier("asl", potential="uniform", preprocess="raw", random_state=0).fit(X[:10], y[:10]).solved_
    assert Classifier("temperature", potential="errors", preprocess="raw", random_state=0).fit(X, y).solved_
    for options, words in (
        ({"potential": "band(1)"}, "potential must allow large stabilities"),
        ({"potential": "uniform"}, "schedule 'tau' ends in the log potential"),
        ({"sampler": "temperature", "potential": "log"}, "anneals 'hinge' or 'errors'; got potential log"),
        ({"potential": "lgo"}, "did you mean 'log'"),
        ({"margin": np.nan}, "margin must be a number; got NaN"),
    ):
        with pytest.raises(ValueError, match=words):
            Classifier(**options).fit(X, y)


def test_the_closer_to_the_uniform_measure_the_truer_are_the_votes() -> None:
    """Labels come from weights like those sampled: a share of votes is then how often it is right; a cold committee is too sure.

    Over 40 seeds the share that is right less the share of votes, where this is over .8, is -.18 at T = .5 and -.05 at T = 8,
    each with a spread of .05.
    """
    off: dict[float, list[float]] = {0.5: [], 8.0: []}
    for heat, found in off.items():
        for seed in range(3):
            X, y = teacher(61, 20 + 1500, seed)
            model = Classifier(temperature=heat, n_solutions=50, n_sweeps=200, preprocess="raw", random_state=seed)
            votes = model.fit(X[:20], y[:20]).predict_proba(X[20:])[:, 1]
            sure = np.abs(votes - 0.5) > 0.3
            found.append(np.mean((votes > 0.5)[sure] == (y[20:] > 0)[sure]) - np.maximum(votes, 1 - votes)[sure].mean())
    assert np.mean(off[0.5]) < -0.1 < np.mean(off[8.0]) < 0.1


def test_solving_makes_no_training_error_at_high_loads() -> None:
    problem = ss.Perceptron.random(301, 0.65, rng=0)
    y = np.random.default_rng(0).choice([-1, 1], problem.m)
    X = problem.patterns * y[:, None]
    model = Classifier(method="solve", preprocess="raw", n_solutions=2, random_state=0).fit(X, y)
    assert model.solved_
    assert model.n_violations_ == 0
    assert ss.Perceptron(X, y).is_solution(model.weights_).all()


def test_what_cannot_be_separated_gets_the_fewest_errors_and_a_warning() -> None:
    X, y = teacher(101, 25, seed=1)
    X, y = np.vstack([X, X[:3]]), np.concatenate([y, -y[:3]])
    with pytest.warns(ConvergenceWarning, match="gets 3 of 28 training samples wrong: try more features"):
        model = Classifier(method="solve", preprocess="raw", random_state=0).fit(X, y)
    assert model.n_violations_ == 3
    assert model.solved_ is False


def test_an_unknown_method_gets_a_sentence() -> None:
    X, y = teacher(21, 5, seed=1)
    with pytest.raises(ValueError, match="unknown method 'sovle': did you mean 'solve'"):
        Classifier(method="sovle").fit(X, y)
