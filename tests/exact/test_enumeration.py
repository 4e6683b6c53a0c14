"""The exact law of small problems, against a plain sum over all weights."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.special import logsumexp

import solspace as ss

POTENTIALS = ["uniform", "log", "hinge", "errors", "tau(0.4)", "band(1.1)", "log_quadratic(1.0, 0.5)",
              "log_band(1.1)", "wall(-0.8, 1.7)"]  # fmt: skip


def brute_force(problem):
    weights = np.array(list(itertools.product([-1, 1], repeat=problem.n)))
    s = weights @ problem.patterns.T.astype(float) / np.sqrt(problem.n)
    return weights, s, problem.target.log_weight(s).sum(axis=1)


@pytest.mark.parametrize("potential", POTENTIALS)
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_equals_a_plain_sum(potential, patterns):
    target = ss.Target(potential=potential, temperature=0.7, margin=-0.2)
    problem = ss.Perceptron.random(9, 0.5, target, patterns, rng=4)
    law, (weights, s, log_weight) = problem.enumerate(), brute_force(problem)
    p = np.exp(log_weight - logsumexp(log_weight))
    assert law.log_partition == pytest.approx(logsumexp(log_weight), abs=1e-10)
    np.testing.assert_allclose(law.marginals, p @ weights, atol=1e-12)
    assert law.n_solutions == (~target.violated(s).any(axis=1)).sum()
    overlaps, mass = law.overlap_distribution()
    gram = weights @ weights.T / 9
    for value, probability in zip(overlaps, mass):
        assert probability == pytest.approx((np.outer(p, p) * np.isclose(gram, value)).sum(), abs=1e-12)
    lattice, of_s = law.stability_distribution()
    assert of_s.sum() == pytest.approx(1)
    assert lattice @ of_s == pytest.approx(p @ s.mean(axis=1))
    positive = p[p > 0]
    assert law.entropy == pytest.approx(-(positive * np.log(positive)).sum() / 9)


def test_no_constraint_matters_at_infinite_temperature():
    problem = ss.Perceptron.random(8, 1.0, ss.Target(potential="errors", temperature=np.inf), rng=0)
    assert problem.enumerate().log_partition == pytest.approx(8 * np.log(2))


def test_twenty_weights_fit():
    law = ss.Perceptron.random(20, 0.5, rng=1).enumerate()
    assert law.probabilities.shape == (1 << 20,)
    assert law.probabilities.sum() == pytest.approx(1)
    overlaps, mass = law.overlap_distribution()
    assert overlaps @ mass == pytest.approx((law.marginals**2).mean())


def test_samples_follow_the_law():
    law = ss.Perceptron.random(6, 0.5, rng=2).enumerate()
    drawn = law.sample(40_000, rng=0)
    codes = ((drawn > 0) * (1 << np.arange(6))).sum(axis=1)
    counts = np.bincount(codes, minlength=64)
    possible = law.probabilities > 0
    assert counts[~possible].sum() == 0
    expected = 40_000 * law.probabilities[possible]
    chi2 = ((counts[possible] - expected) ** 2 / expected).sum()
    assert chi2 < possible.sum() - 1 + 5 * np.sqrt(2 * possible.sum())
    np.testing.assert_array_equal(drawn, law.sample(40_000, rng=0))


def test_the_exact_denoiser_is_the_tilted_mean(rng):
    law = ss.Perceptron.random(7, 0.5, rng=2).enumerate()
    field = rng.normal(size=(3, 7))
    for h, mean in zip(field, law.posterior_mean(field)):
        p = law.probabilities * np.exp(law.weights @ h)
        np.testing.assert_allclose(mean, p @ law.weights / p.sum(), rtol=1e-10)
    np.testing.assert_allclose(law.posterior_mean(np.zeros(7))[0], law.marginals, atol=1e-12)
