"""Problems: built from what users have, measured in blocks, refused in words."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse

import solspace as ss
from solspace import problem as module
from solspace.enumeration import decode, fewest_missed
from solspace.samplers.packed import PackedPerceptron

SPHERE = ss.Target("spherical", "uniform", margin=-0.5)


def test_arrays_lists_frames_and_sparse_say_the_same(rng):
    matrix, labels = rng.normal(size=(6, 5)), np.array([1, -1, 1, 1, -1, 1])
    expected = matrix * labels[:, None]
    for patterns in (matrix, matrix.tolist(), pd.DataFrame(matrix), scipy.sparse.csr_matrix(matrix)):
        for given in (labels, labels.tolist(), pd.Series(labels), labels[:, None], labels.astype(float)):
            np.testing.assert_array_equal(ss.Perceptron(patterns, given).patterns, expected)


def test_signs_are_recognised_and_kept_small(rng):
    signs = rng.choice([-1.0, 1.0], size=(8, 5))
    problem = ss.Perceptron(signs, -np.ones(8))
    assert problem.has_binary_patterns
    np.testing.assert_array_equal(problem.patterns, -signs)
    assert not ss.Perceptron(signs * 0.5).has_binary_patterns
    assert not ss.Perceptron(np.ones((2, 3), bool) & False).has_binary_patterns


@pytest.mark.parametrize("dtype", [np.int8, np.float32, np.float64])
@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[::2], np.asfortranarray, pd.DataFrame])
def test_the_callers_array_stays_the_callers(rng, dtype, view):
    matrix = rng.choice([-1, 1], size=(8, 6)).astype(dtype)
    if dtype != np.int8:
        matrix *= 0.5
    given = view(matrix)
    problem = ss.Perceptron(given)
    before = problem.patterns.copy()
    assert matrix.flags.writeable
    matrix[:] = 0
    np.testing.assert_array_equal(problem.patterns, before)
    with pytest.raises(ValueError, match="read-only"):
        problem.patterns[0, 0] = 1


def test_what_nobody_can_write_is_shared(rng, tmp_path):
    matrix = rng.normal(size=(8, 5))
    only_a_view = matrix.view()
    only_a_view.flags.writeable = False
    assert not np.shares_memory(ss.Perceptron(only_a_view).patterns, matrix)
    np.save(tmp_path / "patterns.npy", matrix)
    matrix.flags.writeable = False
    assert np.shares_memory(ss.Perceptron(matrix).patterns, matrix)
    mapped = np.load(tmp_path / "patterns.npy", mmap_mode="r")
    assert np.shares_memory(ss.Perceptron(mapped).patterns, mapped)
    assert np.shares_memory(ss.Perceptron(ss.Perceptron(mapped).patterns).patterns, mapped)


@pytest.mark.parametrize("kind", ["binary", "gaussian"])
def test_stabilities_in_blocks_equal_the_plain_product(monkeypatch, kind):
    problem = ss.Perceptron.random(31, 2.0, SPHERE, kind, rng=3)
    weights = np.random.default_rng(0).normal(size=(4, 31))
    weights *= np.sqrt(31) / np.linalg.norm(weights, axis=1, keepdims=True)
    plain = weights @ problem.patterns.astype(float).T / np.sqrt(31)
    monkeypatch.setattr(module, "BLOCK", 100)
    np.testing.assert_allclose(problem.stabilities(weights), plain, rtol=1e-12)
    np.testing.assert_allclose(problem.stabilities(weights[1]), plain[1], rtol=1e-12)
    np.testing.assert_array_equal(problem.violations(weights), (plain < -0.5).sum(axis=1))
    assert isinstance(problem.violations(weights[0]), int)
    np.testing.assert_array_equal(problem.is_solution(weights), (plain >= -0.5).all(axis=1))


def test_weights_off_the_prior_are_no_solution():
    problem = ss.Perceptron([[1, 1, 1]])
    assert problem.is_solution([1, 1, 1]) is True
    assert problem.is_solution([1, 0, 1]) is False
    assert problem.is_solution([-1, -1, -1]) is False


def test_a_stability_on_the_margin_counts_as_met():
    problem = ss.Perceptron([[1, -1]], target=ss.Target(potential="uniform"))
    assert problem.is_solution([1, 1])
    assert ss.Perceptron([[1, -1]]).is_solution([1, 1])


def test_band_counts_both_sides():
    problem = ss.Perceptron(np.ones((1, 4), int), target=ss.Target(potential="band(1.0)"))
    np.testing.assert_array_equal(
        problem.violations([[1, 1, 1, 1], [-1] * 4, [1, 1, 1, -1], [1, 1, -1, -1]]), [1, 1, 0, 0]
    )


def test_large_problems_need_no_second_copy():
    problem = ss.Perceptron.random(1000, 20, SPHERE, rng=0)  # 20 MB of int8
    weights = np.ones((2, 1000))
    tracemalloc.start()
    problem.is_solution(weights)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * (module.BLOCK + 4 * problem.m) * 1.2  # one float64 block and the stabilities


def test_random_problems_repeat():
    first, again = (ss.Perceptron.random(21, 0.5, rng=5) for _ in range(2))
    np.testing.assert_array_equal(first.patterns, again.patterns)
    assert (first.n, first.m) == (21, 10)
    assert abs(first.patterns.mean()) < 0.3
    assert not np.array_equal(first.patterns, ss.Perceptron.random(21, 0.5, rng=6).patterns)


def test_long_doubles_and_unmasked_arrays_are_taken():
    np.testing.assert_array_equal(ss.Perceptron(np.array([[0.5, 2.0]], np.longdouble)).patterns, [[0.5, 2.0]])
    np.testing.assert_array_equal(ss.Perceptron(np.ma.array([[0.5, 2.0]])).patterns, [[0.5, 2.0]])
    assert not ss.Perceptron(np.zeros((3, 4))).looks_random()


def test_large_sparse_warns():
    with pytest.warns(UserWarning, match="made dense"):
        ss.Perceptron(scipy.sparse.eye_array(4200, 4000, format="csr", dtype=np.float32))


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ss.Perceptron([[1.0, np.nan]]), "without NaN or inf"),
        (lambda: ss.Perceptron([[1.0, np.inf]]), "without NaN or inf"),
        (lambda: ss.Perceptron([1.0, 2.0]), "shape"),
        (lambda: ss.Perceptron(np.ones((0, 3))), "shape"),
        (lambda: ss.Perceptron([[1, 2], [3]]), "rectangular array of real numbers"),
        (lambda: ss.Perceptron([["a", "b"]]), "rectangular array of real numbers"),
        (lambda: ss.Perceptron([[1.0, 2j]]), "array of real numbers; got ..1.0, 2j"),
        (lambda: ss.Perceptron(np.ma.masked_less([[1.0, -2.0]], 0)), "no masked entries; fill them first"),
        (lambda: ss.Perceptron(np.array([["1e4000", "1"]], np.longdouble)), "without NaN or inf"),
        (lambda: ss.Perceptron([[10**400, 1]]), "rectangular array of real numbers"),
        (lambda: ss.Perceptron([[1e150, 1.0]]), "at most 1e.15 in size; the largest is 1e.150"),
        (lambda: ss.Perceptron(np.array([[-(2**63), 1]])), "at most 1e.15 in size"),
        (lambda: ss.Perceptron([[1, 1]], [0]), "labels must be .1 or -1; got .0.. Perceptron.from_data"),
        (lambda: ss.Perceptron([[1, 1], [1, -1]], [0, 1]), "got .0, 1.. Perceptron.from_data"),
        (lambda: ss.Perceptron([[1, 1], [1, -1]], [True, False]), "got .True, False.. Perceptron.from_data"),
        (lambda: ss.Perceptron([[1, 1]] * 3, list("abc")), "got .'a', 'b', 'c'.. Perceptron.from_data"),
        (lambda: ss.Perceptron([[1, 1]], np.ma.masked_less([-1], 0)), "labels must have no masked entries"),
        (lambda: ss.Perceptron([[1, 1]], [1, 1]), "labels must have shape"),
        (lambda: ss.Perceptron([[1, 1]], target="log"), "target must be a solspace.Target"),
        (lambda: ss.Perceptron.random(0, 0.5), "n must be"),
        (lambda: ss.Perceptron.random(10.5, 0.5), "n must be"),
        (lambda: ss.Perceptron.random(True, 0.5), "n must be"),
        (lambda: ss.Perceptron.random(10**400, 0.5), "n must be"),
        (lambda: ss.Perceptron.random(np.int64(2**62), 0.5), "n must be"),
        (lambda: ss.Perceptron.random(10, 10**400), "alpha must be"),
        (lambda: ss.Perceptron.random(10, 1e300), "GB of memory; take smaller ones"),
        (lambda: ss.Perceptron.random(10, 0), "alpha must be"),
        (lambda: ss.Perceptron.random(10, -1), "alpha must be"),
        (lambda: ss.Perceptron.random(10, np.nan), "alpha must be"),
        (lambda: ss.Perceptron.random(10, 0.5, patterns="gausian"), "did you mean 'gaussian'"),
        (lambda: ss.Perceptron.random(10, 0.5, rng="seed"), "rng must be"),
        (lambda: ss.Perceptron.random(10, 0.5, rng=0).stabilities(np.ones(9)), "weights must have shape"),
        (lambda: ss.Perceptron.random(21, 0.1, rng=0).enumerate(), "at most"),
        (lambda: ss.Perceptron.random(5, 1, SPHERE, rng=0).enumerate(), "finitely many values"),
        (lambda: ss.Perceptron([[1, 1, 1], [-1, -1, -1]]).enumerate(), "has no solution"),
    ],
)
def test_nonsense_is_refused_in_words(build, words):
    with pytest.raises(ValueError, match=words):
        build()


@pytest.mark.parametrize(("n", "m"), [(11, 6), (13, 1), (1001, 500), (301, 5000)])
def test_packed_patterns_are_named_as_others_are_and_stay_packed(n, m):
    """A device's results are made of thousands of problems whose patterns are not read."""
    packed, plain = PackedPerceptron(n, m, ss.Target(), rng=3), ss.Perceptron.random(n, m / n, rng=3)
    assert packed.digest == plain.digest
    assert "patterns" not in vars(packed)
    np.testing.assert_array_equal(packed.patterns, plain.patterns)
    rng = [np.random.default_rng(7) for _ in range(2)]
    mine = PackedPerceptron(n, m, ss.Target(), rng=rng[0])
    np.testing.assert_array_equal(mine.patterns, ss.Perceptron.random(n, m / n, rng=rng[1]).patterns)
    assert rng[0].integers(1 << 30) == rng[1].integers(1 << 30)


TENTHS = ["uniform", "log", "hinge", "band(0.3)", "wall(-0.2, 0.4)"]


@pytest.mark.parametrize("potential", TENTHS)
@pytest.mark.parametrize("margin", [0.0, 0.1])
def test_ties_are_met_however_they_are_summed(potential, margin):
    """Entries k/10 on n = 9 weights: a sum in thirtieths is exactly at the margin or an edge again and again."""
    target, ties = ss.Target(potential=potential, margin=margin), 0
    for seed in range(40):
        random = np.random.default_rng(seed)
        whole, weights = random.integers(-9, 10, (4, 9)), random.choice([-1, 1], (64, 9))
        problem = ss.Perceptron(whole / 10, target=target)
        got = problem.is_solution(weights)
        # 30 times the stability, an integer: what is allowed is from 0, -9 or -6 to 9 or 12, counted from the margin
        exact = weights @ whole.T - round(30 * margin)
        low, high = {"band(0.3)": (-9, 9), "wall(-0.2, 0.4)": (-6, 12)}.get(potential, (0, np.inf))
        np.testing.assert_array_equal(got, ((exact >= low) & (exact <= high)).all(axis=1))
        ties += int(np.isin(exact, (low, high)).sum())
        np.testing.assert_array_equal(got, [problem.is_solution(w) for w in weights])
        np.testing.assert_array_equal(got, problem.is_solution(np.asfortranarray(weights, dtype=float)))
        np.testing.assert_array_equal(got, ss.Samples.of(problem, weights).solved)
        turned = ss.Perceptron(np.asfortranarray(whole[:, ::-1] / 10), target=target)
        np.testing.assert_array_equal(got, turned.is_solution(weights[:, ::-1]))
        if margin == 0 and potential in ("uniform", "log", "hinge"):
            for scale in (3.0, 1 / 7, 1e-9, 1e9):
                rows = scale * (1 + np.arange(4))[:, None] * whole / 10
                np.testing.assert_array_equal(got, ss.Perceptron(rows, target=target).is_solution(weights))
    assert ties > 100


def test_what_enumeration_counts_are_the_solutions():
    every = decode(np.arange(1 << 10), 10)
    for seed in range(40):
        whole = np.random.default_rng(seed).integers(-9, 10, (4, 10))
        whole[0, :2] = 3, 6 - whole[0, 2:].sum() % 2
        problem = ss.Perceptron(whole / 10, target=ss.Target(potential="uniform"))
        solved = problem.is_solution(every)
        missed, found = fewest_missed(problem)
        if not solved.any():
            assert missed
            continue
        np.testing.assert_array_equal(found, every[solved])
        np.testing.assert_array_equal(problem.enumerate().probabilities > 0, solved)
        samples = ss.solve(problem, len(found), method="exact", rng=0, progress=False)
        assert samples.solved.all()


def test_patterns_in_single_precision_are_known_to_single_precision():
    patterns = np.array([[0.1, 0.2, 0.3], [0.3, 0.3, 0.6], [0.7, 0.1, 0.8]], np.float32)
    assert ss.Perceptron(patterns).is_solution([1, 1, -1])
    assert not ss.Perceptron(patterns - np.float32(1e-5)).is_solution([1, 1, -1])


def test_what_is_beyond_rounding_is_not_met():
    assert not ss.Perceptron([[0.3, 0.1, 0.2 + 1e-14]]).is_solution([1, -1, -1])
    margin = 0.1 + 1e-14
    assert not ss.Perceptron([[0.3, 0.1, 0.1]], target=ss.Target(margin=margin / np.sqrt(3))).is_solution([1, -1, -1])


def test_solutions_without_weight_are_told_from_none():
    """A row and its opposite, of even sum: solutions are ties, to which the log potential gives the weight zero."""
    tied = ss.Perceptron([[3, 1, 2], [-3, -1, -2]])
    with pytest.raises(ValueError, match="weight zero to all 2 solutions"):
        tied.enumerate()
    assert tied.with_target(ss.Target(potential="uniform")).enumerate().n_solutions == 2


def test_centred_columns_are_not_said_to_have_means():
    """What has a mean is the product with the labels, which go with the columns."""
    random = np.random.default_rng(0)
    labels = np.repeat([1, -1], 100)
    columns = random.normal(size=(200, 60)) + 0.5 * labels[:, None]
    problem = ss.Perceptron.from_data(columns - columns.mean(axis=0), labels, preprocess="centred")
    assert "times the labels" in problem.structure()
