"""Levels, likelihoods, intercepts and planted problems, against equivalent problems and against sums over all weights."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp

import solspace as ss
from solspace.measure.potentials import as_potential

LIKELIHOODS = ["logistic(2)", "probit(0.5)", "flip(0.1)"]


@pytest.mark.parametrize(("potential", "temperature", "margin"), [
    ("log", 0.5, -0.4), ("uniform", 1.0, -0.3), ("logistic(2)", 1.0, 0.3), ("flip(0.1)", 2.0, -0.2), ("probit(0.5)", 0.7, 0.2),
])  # fmt: skip
def test_four_levels_are_two_binary_weights(potential: str, temperature: float, margin: float) -> None:
    """Levels -3, -1, 1, 3 are 2a + b with a, b = ±1, so their law on x is that of ±1 weights on (2x, x)."""
    x = np.random.default_rng(1).normal(size=(4, 5))
    levels = ss.Target("levels(-3,-1,1,3)", potential, temperature, margin)
    signs = levels.replace(prior="binary")
    law = ss.Perceptron(x, target=levels).enumerate()
    twin = ss.Perceptron(np.hstack([2 * x, x]) * np.sqrt(2), target=signs).enumerate()
    assert law.log_partition == pytest.approx(twin.log_partition, abs=1e-12)
    np.testing.assert_allclose(law.marginals, 2 * twin.marginals[:5] + twin.marginals[5:], atol=1e-12)
    assert law.n_solutions == twin.n_solutions


def test_ternary_with_half_zeros_is_the_mean_of_two_binary_weights() -> None:
    x = np.random.default_rng(2).normal(size=(3, 5))
    law = ss.Perceptron(x, target=ss.Target("ternary(0.5)", "logistic(1.5)", margin=0.2)).enumerate()
    twin = ss.Perceptron(
        np.hstack([x, x]) / np.sqrt(2), target=ss.Target("binary", "logistic(1.5)", margin=0.2)
    ).enumerate()
    assert law.log_partition - 5 * np.log(3) == pytest.approx(twin.log_partition - 5 * np.log(4), abs=1e-12)
    np.testing.assert_allclose(law.marginals, (twin.marginals[:5] + twin.marginals[5:]) / 2, atol=1e-12)


@pytest.mark.parametrize("potential", ["logistic(2)", "uniform", "log", "flip(0.2)"])
def test_an_intercept_is_integrated(potential: str) -> None:
    x, y = np.random.default_rng(3).normal(size=(4, 3)), np.array([1, -1, 1, -1])
    target = ss.Target("ternary", potential, 1.0, margin=-0.8)
    problem = ss.Perceptron(x, y, target=target, intercept=1.5)
    law = problem.enumerate()
    for code in range(0, 27, 5):
        s = problem.patterns @ law.weights[code] / np.sqrt(3)

        def density(b: float, s: np.ndarray = s) -> float:
            return float(np.exp(target.log_weight(s + y * b).sum() - b * b / 4.5) / np.sqrt(2 * np.pi) / 1.5)

        turns = sorted(np.clip((-0.8 - s) * y, -12, 12))
        exact = quad(density, -12, 12, points=turns, limit=400, epsabs=0, epsrel=1e-9)[0]
        assert np.exp(law.log_weights[code]) == pytest.approx(exact, rel=1e-7, abs=1e-300)


def test_clamped_weights_and_sample_weights() -> None:
    x = np.random.default_rng(4).normal(size=(5, 4))
    target, powers = ss.Target("levels(-1,0,2)", "logistic(1)"), [1.0, 2.0, 0.5, 3.0, 1.0]
    law = ss.Perceptron(x, target=target, clamped={1: 2, 3: -1}, sample_weight=powers).enumerate()
    np.testing.assert_allclose(law.marginals[[1, 3]], [2, -1], atol=1e-12)
    free = ss.Perceptron(np.repeat(x, [2, 4, 1, 6, 2], axis=0), target=target.replace(temperature=2.0)).enumerate()
    inside = (free.weights[:, 1] == 2) & (free.weights[:, 3] == -1)
    assert law.log_partition == pytest.approx(logsumexp(free.log_weights[inside]), abs=1e-12)


@pytest.mark.parametrize("potential", LIKELIHOODS)
def test_likelihoods_are_normalised(potential: str) -> None:
    s = np.linspace(-5.01, 5, 40)
    own = as_potential(potential)
    np.testing.assert_allclose(np.exp(own.log_weight(s)) + np.exp(own.log_weight(-s)), 1, atol=1e-14)
    z, other = (np.exp(own.channel(sign * s, 0.7, 1.0)[0]) for sign in (1, -1))
    np.testing.assert_allclose(z + other, 1, atol=1e-12)
    assert ss.Target(potential=potential).temperature == 1


@pytest.mark.parametrize("potential", ["uniform", *LIKELIHOODS])
def test_labels_of_a_teacher_have_the_likelihood(potential: str) -> None:
    """The mean log likelihood of the teacher is that of its labels, within five standard errors."""
    target = ss.Target("levels(-2,0,1)", potential)
    problem = ss.Perceptron.planted(n=101, alpha=100, target=target, patterns="gaussian", intercept=1.0, rng=5)
    fields = problem.stabilities(problem.teacher, problem.teacher_intercept) * problem.labels
    right, wrong = np.exp(target.log_weight(fields)), np.exp(target.log_weight(-fields))
    np.testing.assert_allclose(right + wrong, 1, atol=1e-12)
    sd = np.sqrt((right * wrong).sum() + 1e-9)
    assert abs((problem.labels > 0).sum() - right.sum()) < 5 * sd


def test_a_planted_problem_needs_a_likelihood() -> None:
    for target in (
        ss.Target(),
        ss.Target(potential="uniform", margin=0.1),
        ss.Target(potential="flip", temperature=2.0),
    ):
        with pytest.raises(ValueError, match="likelihood"):
            ss.Perceptron.planted(11, 1.0, target)
    with pytest.raises(ValueError, match="either"):
        ss.Perceptron.planted(11, target=ss.Target(potential="uniform"))


def test_samples_keep_intercepts(tmp_path) -> None:
    problem = ss.Perceptron.planted(n=9, alpha=2, target=ss.Target("ternary", "logistic"), intercept=2.0, rng=1)
    samples = ss.Samples.of(problem, problem.enumerate().sample(4, 0), intercepts=np.arange(4.0))
    with pytest.raises(ValueError, match="intercept"):
        problem.stabilities(samples.weights)
    samples.save(tmp_path / "samples.npz")
    both = ss.Samples.load(tmp_path / "samples.npz") + samples[:2]
    assert both.intercepts.tolist() == [0, 1, 2, 3, 0, 1]
    assert both.target == problem.target


@pytest.mark.parametrize(("prior", "match"), [
    ("ternary(1.5)", "between 0 and 1"), ("levels(1)", "two different"), ("levels(1,1)", "two different"),
    ("gaussian(-1)", "positive"), ("levls(1)", "levels"), ("binary(2)", "takes no"),
])  # fmt: skip
def test_priors_that_are_none(prior: str, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        ss.Target(prior)


@pytest.mark.parametrize(
    "prior", ["binary", "spherical", "ternary", "ternary(0.3)", "levels(-3,-1,1,3)", "gaussian(0.25)"]
)
def test_priors_come_back_from_json(prior: str) -> None:
    target = ss.Target(prior, "logistic(2)")
    assert ss.Target.from_json(target.to_json()) == target
    uneven = ss.Target(ss.priors.Levels([0, 1 / 3, 2], [0.2, 0.3, 0.5]))
    assert ss.Target.from_json(uneven.to_json()) == uneven
