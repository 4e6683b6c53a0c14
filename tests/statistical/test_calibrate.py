"""Simulation-based calibration: exact samplers pass, one whose temperature is off by 10% fails, and so do other planted bugs.

A fair sampler is called biased with probability .0027 (all tests together): of the 40 calibrations here two or more with
probability .006, which is the threshold.
"""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.diagnostics.calibrate import FALSE_ALARM, uniformity
from solspace.numerics.streams import generator

N = 200
LONELY = np.repeat(np.eye(N), 3, axis=0) * np.sqrt(N)
"""Three patterns for each weight alone: the posterior of each is known, so that large problems can be drawn from exactly."""
LOGISTIC = ss.Target(potential="logistic(1)")


def alone(temperature=1.0, sign=1, lazy=False):
    """Return an exact sampler of problems on LONELY, or one with a planted bug."""
    target = LOGISTIC.replace(temperature=temperature)

    def draw(problem, k, seed):
        rows = sign * problem.patterns.sum(axis=1) / np.sqrt(problem.n)
        up, down = (target.log_weight(s * rows).reshape(-1, 3).sum(axis=1) for s in (1, -1))
        random = generator(seed)
        weights = np.where(random.random((k, problem.n)) < 1 / (1 + np.exp(down - up)), 1, -1).astype(np.int8)
        return np.where(random.random(weights.shape) < 0.3, weights[:1], weights) if lazy else weights

    return draw


def enumerated(problem, k, seed):
    return problem.enumerate().sample(k, seed)


def test_exact_samplers_pass():
    failed = [not ss.calibrate(LONELY, LOGISTIC, alone(), 40, rng=seed).fair for seed in range(20)]
    for prior, potential, n in (("binary", "uniform", 9), ("ternary", "probit(0.5)", 6), ("binary", "flip(0.1)", 9)):
        target = ss.Target(prior, potential)
        problem = ss.Perceptron.random(n, 1.0, target, "gaussian", rng=0)
        failed += [ss.calibrate(problem, None, enumerated, 40, 6, rng=seed).fair is False for seed in range(6)]
    failed += [
        ss.calibrate(ss.Perceptron.random(9, 2.0, LOGISTIC), None, "exact", 40, rng=seed).fair is False
        for seed in (0, 1)
    ]
    assert len(failed) == 40
    assert sum(failed) <= 1


@pytest.mark.parametrize("bug", [{"temperature": 1.1}, {"temperature": 0.9}, {"sign": -1}, {"lazy": True}])
def test_planted_bugs_fail(bug):
    for seed in range(4):
        report = ss.calibrate(LONELY, LOGISTIC, alone(**bug), n_problems=100, rng=seed)
        assert report.fair is False
        assert "biased" in report.verdict


def test_with_an_intercept_its_ranks_are_uniform_too():
    """By localization with the enumerated means; an intercept drawn from half its variance stands out."""
    x = generator(5).standard_normal((6, 4))
    problem = ss.Perceptron(x, target=ss.Target("ternary", "logistic(3)"), intercept=1.5)

    def sample(problem, k, seed, wrong=1.0):
        law = problem.enumerate()
        found = ss.localize(problem, k, seed, denoiser=law.posterior_mean, progress=False)
        found.intercepts = wrong * found.intercepts
        return found

    right = ss.calibrate(problem, None, sample, 30, rng=1)
    assert right.fair is not False
    assert set(right.ranks) == {"overlap", "projection", "energy", "intercept"}
    wrong = ss.calibrate(problem, None, sample, 60, rng=1, wrong=0.2)
    assert wrong.p_values["intercept"] < 1e-3


def test_ranks_of_chance_are_uniform_with_few_teachers():
    p = np.array([uniformity(generator(1, i).random(17), 3) for i in range(300)])
    assert (p < 0.05).mean() < 0.08
    assert abs(p.mean() - 0.5) < 0.08


def test_a_report_tells_what_it_found(tmp_path):
    problem = ss.Perceptron.random(9, 2.0, LOGISTIC, rng=0)
    report = ss.calibrate(problem, None, "exact", 20, 5, rng=3)
    again = ss.calibrate(problem, None, "exact", 30, 5, rng=3)
    assert all(np.array_equal(report.ranks[name], again.ranks[name][:20]) for name in report.ranks)
    assert report.verdict in str(report)
    assert report.verdict.partition(":")[0] in report._repr_html_()
    assert len(report.plot()) == len(report.ranks) == 3
    assert report.to_dict()["overlap"]["df"] == 19
    assert report.to_arviz().prior_sbc["energy"].shape == (1, 20)
    assert 0 < report.within < np.inf
    assert ss.calibrate(problem, None, "exact", 4, 2, rng=3).fair is None
    assert FALSE_ALARM / len(report.p_values) > 1 / 20_001


def test_what_cannot_be_calibrated_gets_a_sentence():
    target = ss.Target("ternary", "flip(0.1)")
    clamped = ss.Perceptron.random(9, 2.0, LOGISTIC, rng=0)
    clamped = ss.Perceptron(clamped.patterns, target=LOGISTIC, clamped={0: 1})
    for call, words in (
        (lambda: ss.calibrate(ss.Perceptron.random(9, 1.0)), "likelihood"),
        (lambda: ss.calibrate(LONELY, LOGISTIC, "solve"), "unknown sampler"),
        (lambda: ss.calibrate(clamped), "without clamped"),
        (lambda: ss.calibrate(np.ones((50, 4)), target, enumerated, rng=0), "stability of exactly 0"),
        (
            lambda: ss.calibrate(LONELY, LOGISTIC, lambda problem, k, seed: np.ones((3, N)), rng=0),
            "must return 8 samples",
        ),
    ):
        with pytest.raises(ValueError, match=words):
            call()
