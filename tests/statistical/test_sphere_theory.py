"""Localized samples and chains on the sphere against theory: P(s), the layer at the wall on its own, and overlaps."""

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

import solspace as ss
from solspace.diagnostics import comparison

LARGE = pytest.mark.exhaustive
LAYER = 0.02  # of which the share is compared as well


def spherical(margin):
    return ss.Target("spherical", "uniform", margin=margin)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("margin", "alpha", "n", "k"),
    [
        (0.0, 0.5, 1001, 16),
        (-1.5, 8.0, 301, 16),
        pytest.param(-1.5, 8.0, 1001, 32, marks=LARGE),
        pytest.param(-2.1, 20.0, 1001, 16, marks=LARGE),
        pytest.param(-2.1, 74.0, 1001, 8, marks=LARGE),  # .9 of the dAT line
    ],
)
def test_localized_samples_agree_with_theory(margin, alpha, n, k):
    problem = ss.Perceptron.random(n, alpha, spherical(margin), rng=0)
    samples = ss.localize(problem, k, rng=1)
    prediction = ss.predict(problem.target, alpha)
    report = ss.diagnose(samples, prediction)
    assert samples.solved.all()
    assert report.fair is True, report.verdict
    expected = float(prediction.stability_cdf(margin + LAYER))
    share = float((samples.stabilities < margin + LAYER).mean())
    error = np.sqrt(expected / samples.stabilities.size + expected**2 / problem.m)
    assert abs(share - expected) < 3 * error


@pytest.mark.slow
def test_chains_agree_with_theory():
    problem = ss.Perceptron.random(301, 0.5, spherical(0.0), rng=0)
    chains = ss.anneal(problem, 32, 100, "temperature", n_extra=600, thin=30, rng=1, n_threads=1)
    report = ss.diagnose(chains, ss.predict(spherical(0.0), problem.alpha))
    assert report.fair is True, report.verdict
    assert abs(report.layer.sigmas) < 3
    assert report.mixing is not None


@pytest.mark.slow
@pytest.mark.parametrize(("margin", "alpha"), [(0.0, 0.5), (-1.0, 3.0)])
def test_rescaled_means_are_biased_near_the_margin(margin, alpha):
    problem = ss.Perceptron.random(701, alpha, spherical(margin), rng=2)
    samples = ss.localize(problem, 16, rng=3, finish=0)
    report = ss.diagnose(samples, ss.predict(problem.target, problem.alpha))
    assert report.fair is False
    assert "near the margin" in report.verdict
    assert 'finish="auto"' in report.verdict


def test_fair_layers_raise_no_alarm():
    """Stabilities by the cavity's law, each constraint with a field of its own: at most 2% of sets are called biased."""
    target, alarms, sets, k, m = spherical(-0.5), 0, 300, 8, 602
    prediction = ss.predict(target, 2.0)
    r = prediction.overlap
    for i in range(sets):
        random = np.random.default_rng([7, i])
        field = np.sqrt(r) * random.standard_normal(m)
        allowed = ndtr((field + 0.5) / np.sqrt(1 - r))
        stabilities = field - np.sqrt(1 - r) * ndtri(random.random((k, m)) * allowed)
        alarms += comparison._layer(stabilities, np.arange(k), target, prediction).biased
    assert alarms <= 0.02 * sets


def test_no_layer_without_walls():
    problem = ss.Perceptron.random(51, 2.0, ss.Target("spherical", "hinge"), rng=0)
    samples = ss.anneal(problem, 8, schedule=[problem.target] * 20, rng=0, n_threads=1)
    assert ss.diagnose(samples, ss.predict(problem.target, problem.alpha)).layer is None
    band, near = ss.Target("spherical", "band(1)"), np.array([[-0.999, 0.0, 1.0], [0.5, 0.5, -1.0]])
    assert comparison.shares_at_walls(near, band).tolist() == [2 / 3, 1 / 3]
