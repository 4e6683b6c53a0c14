"""Preprocessing and random instances: what is promised about norms, means, subsets, features and seeds."""

from __future__ import annotations

import numpy as np
import pandas
import pytest

import solspace as ss
from solspace.data import Preprocessing

PIXELS = np.random.default_rng(0).integers(0, 256, (200, 30), dtype=np.uint8)
PIXELS[:, :3] = 17
LABELS = np.where(np.arange(200) < 140, 3, 8)


def test_centred_rows_have_norm_root_n_and_the_mean_is_the_pools() -> None:
    problem = ss.Perceptron.from_data(PIXELS, LABELS, alpha=2.0, rng=0)
    assert (problem.m, problem.n) == (60, 30)
    np.testing.assert_allclose((problem.patterns.astype(float) ** 2).sum(axis=1), 30, rtol=1e-5)
    assert np.all(problem.patterns[:, :3] == 0)
    chosen = ss.data.subset(np.where(LABELS == 8, 1, -1), 60, rng=0)
    expected = PIXELS[chosen] / 255 - (PIXELS / 255).mean(axis=0)
    expected *= np.sqrt(30) / np.linalg.norm(expected, axis=1, keepdims=True)
    expected *= np.where(LABELS[chosen] == 8, 1, -1)[:, None]
    np.testing.assert_allclose(problem.patterns, expected, atol=1e-6)


def test_stabilities_of_centred_images_have_unit_variance() -> None:
    problem = ss.Perceptron.from_data(PIXELS, LABELS, preprocess="centred", rng=0)
    weights = np.random.default_rng(1).choice([-1, 1], (2000, 30))
    assert abs(problem.stabilities(weights).std() - 1) < 0.02


def test_raw_and_binarised() -> None:
    raw = ss.Perceptron.from_data(PIXELS, LABELS, alpha=1.0, preprocess="raw", rng=3)
    chosen = ss.data.subset(LABELS, 30, rng=3)
    signs = np.where(LABELS[chosen] == 8, 1, -1)[:, None]
    np.testing.assert_allclose(raw.patterns, signs * PIXELS[chosen] / 255, rtol=1e-6)
    binary = ss.Perceptron.from_data(PIXELS, LABELS, alpha=1.0, preprocess="binarised", rng=3)
    assert binary.has_binary_patterns
    np.testing.assert_array_equal(binary.patterns, signs * np.where(PIXELS[chosen] >= PIXELS.mean(axis=0), 1, -1))


def test_ties_of_binarised_images_are_counted_exactly() -> None:
    problem = ss.Perceptron(np.array([[1, 1, -1, -1], [1, 1, 1, -1]], dtype=np.int8), [1, 1])
    assert problem.violations([1, -1, 1, -1]) == 0
    assert problem.stabilities([1, 1, 1, 1]).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("preprocess", ["centred", "raw", "binarised"])
def test_features_are_random_and_linear(preprocess: str) -> None:
    one, two = (
        ss.Perceptron.from_data(PIXELS, LABELS, alpha=0.5, features=80, preprocess=preprocess, rng=rng)
        for rng in (1, 2)
    )
    assert (one.n, one.m) == (80, 40)
    assert not np.allclose(one.patterns, two.patterns)
    again = ss.Perceptron.from_data(PIXELS, LABELS, alpha=0.5, features=80, preprocess=preprocess, rng=1)
    np.testing.assert_array_equal(one.patterns, again.patterns)
    norms = np.linalg.norm(one.patterns.astype(float), axis=1) / np.sqrt(80)
    if preprocess == "raw":
        assert norms.min() > 2
        assert np.linalg.matrix_rank(one.patterns) == 28  # three dead pixels are one direction
    else:
        np.testing.assert_allclose(norms, 1, rtol=1e-5)


@pytest.mark.parametrize("features", [None, 80])
@pytest.mark.parametrize("preprocess", ["centred", "raw", "binarised"])
def test_what_load_prepared_is_taken_as_it_is(preprocess: str, features: int | None) -> None:
    prepared = Preprocessing.learn(preprocess, PIXELS)(PIXELS)
    direct = ss.Perceptron.from_data(PIXELS, LABELS, alpha=0.5, features=features, preprocess=preprocess, rng=1)
    twice = ss.Perceptron.from_data(prepared, LABELS, alpha=0.5, features=features, rng=1)
    np.testing.assert_allclose(direct.patterns, twice.patterns, rtol=2e-4, atol=2e-5)


def test_subsets_are_uniform_balanced_on_request_and_reproducible() -> None:
    counts = np.zeros(200)
    for seed in range(400):
        counts[ss.data.subset(LABELS, 50, rng=seed)] += 1
    assert abs(counts[:140].mean() - 100) < 3
    assert counts.std() == pytest.approx(np.sqrt(400 * 0.25 * 0.75), rel=0.25)
    for m in (50, 51, 120):
        chosen = ss.data.subset(LABELS, m, balanced=True, rng=m)
        assert len(np.unique(chosen)) == m
        assert (LABELS[chosen] == 3).sum() == (m + 1) // 2
    balanced = ss.Perceptron.from_data(PIXELS, LABELS, alpha=2.0, balanced=True, rng=0)
    assert balanced.m == 60
    generator = np.random.default_rng(5)
    first, second = (ss.Perceptron.from_data(PIXELS, LABELS, alpha=1.0, rng=generator) for _ in range(2))
    assert not np.array_equal(first.patterns, second.patterns)


def test_frames_stacks_targets_and_labels_of_any_kind() -> None:
    target = ss.Target(potential="hinge", temperature=1.0)
    reference = ss.Perceptron.from_data(PIXELS, LABELS, alpha=1.0, preprocess="raw", target=target, rng=0)
    assert reference.target == target
    frame = pandas.DataFrame(PIXELS)
    words = pandas.Series(np.where(LABELS == 3, "cat", "dog"))
    for X, y in ((PIXELS.reshape(200, 5, 6), LABELS), (frame, words), (PIXELS, np.where(LABELS == 3, -1, 1))):
        problem = ss.Perceptron.from_data(X, y, alpha=1.0, preprocess="raw", rng=0)
        np.testing.assert_array_equal(problem.patterns, reference.patterns)


def test_the_mean_is_learned_once() -> None:
    prepare = Preprocessing.learn("centred", PIXELS[:100])
    both, alone = prepare(PIXELS[100:]), prepare(PIXELS[150:])
    np.testing.assert_array_equal(both[50:], alone)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alpha": 0}, "alpha must be"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"alpha": "0.3"}, "alpha must be"),
        ({"alpha": 7.0}, "alpha can be at most 6.667"),
        ({"alpha": 6.0, "balanced": True}, "one class has 60"),
        ({"features": 0}, "features must be"),
        ({"features": 2.5}, "features must be"),
        ({"features": True}, "features must be"),
        ({"alpha": True}, "alpha must be"),
        ({"y": np.array(["cat"] * 199 + [None], dtype=object)}, "some are missing"),
        ({"y": np.array(["cat"] * 199 + [3], dtype=object)}, "labels of one kind"),
        ({"preprocess": "centre"}, "did you mean 'centred'"),
        ({"y": LABELS[:5]}, "one label for each row of X"),
        ({"y": np.arange(200)}, "two classes; got 200"),
        ({"y": np.full(200, 3)}, "two classes; got 1"),
        ({"y": np.ones(200)}, "two classes; got 1"),
        ({"y": np.where(LABELS == 3, np.nan, 1.0)}, "NaN"),
        ({"y": ["cat", None] * 100}, "some are missing"),
        ({"y": ["cat", float("nan")] * 100}, "some are missing"),
        ({"y": pandas.Series(["cat", pandas.NA] * 100)}, "some are missing"),
        ({"y": np.ma.masked_equal(LABELS, 3)}, "some are missing"),
        ({"y": np.array(["cat", 3] * 100, dtype=object)}, "labels of one kind; got int and str"),
        ({"alpha": 10**400}, "alpha must be"),
        ({"alpha": 1e100}, "but there are 200"),
        ({"features": 10**400}, "features must be an integer of at least 1 and at most 1000000000"),
        ({"X": np.full(PIXELS.shape, np.inf)}, "finite"),
        ({"X": PIXELS * 1j}, "array of real numbers"),
        ({"X": "nonsense"}, "array of real numbers"),
    ],
)
def test_wrong_arguments_get_a_sentence(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ss.Perceptron.from_data(**{"X": PIXELS, "y": LABELS, **arguments})  # type: ignore[arg-type]


def test_digits_are_always_there() -> None:
    X, y = ss.data.load("digits")
    assert X.shape == (357, 64)
    assert set(y.tolist()) == {-1, 1}
    everything = ss.data.load("digits", "all", "raw")
    assert len(everything.X) == 1797
    assert everything.y.max() == 9
