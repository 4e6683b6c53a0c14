"""ASL and τ-annealing, written apart, sample the same law on the same instance, and it is theory's.

On one instance the overlap of two samples of one sampler, of the other, and of one with the other must all be the same
number; a sampler stuck in a corner of the solution space has a larger overlap with itself than with the other.
"""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss

N, ALPHA, K = 2001, 0.3, 16


@pytest.fixture(scope="module")
def runs():
    problem = ss.Perceptron.random(N, ALPHA, rng=11)
    asl = ss.localize(problem, n_samples=K, rng=1, accuracy="careful")
    tau = ss.anneal(problem, n_chains=K, n_sweeps=600, schedule="tau", rng=2)
    return asl, tau


def cross(a, b):
    return a.weights.astype(float) @ b.weights.T.astype(float) / N


def test_overlaps_agree_with_each_other_and_with_theory(runs):
    asl, tau = runs
    assert asl.solved.all()
    assert tau.solved.all()
    r = ss.predict(ss.Target(), ALPHA).overlap
    inner = [asl.overlaps().mean(), tau.overlaps().mean()]
    between = cross(asl, tau).mean()
    # a mean over K samples of an overlap with spread ~ 0.02, and an instance's own shift of about 1/(2√N)
    assert inner[0] == pytest.approx(between, abs=0.015)
    assert inner[1] == pytest.approx(between, abs=0.015)
    assert between == pytest.approx(r, abs=3 * 0.5 / np.sqrt(N) + 0.01)


def test_stabilities_agree(runs):
    means = [samples.stabilities.mean(axis=1) for samples in runs]
    error = np.hypot(*(m.std(ddof=1) / np.sqrt(K) for m in means))
    assert means[0].mean() == pytest.approx(means[1].mean(), abs=4 * error)
    for samples in runs:
        report = ss.diagnose(samples, ss.predict(ss.Target(), ALPHA))
        assert report.fair, report


def test_a_colder_chain_is_told_apart(runs):
    asl, _ = runs
    problem = ss.Perceptron.random(N, ALPHA, ss.Target(temperature=0.4), rng=11)
    cold = ss.anneal(problem, n_chains=K, n_sweeps=600, schedule="tau", rng=2)
    means = [samples.stabilities.mean(axis=1) for samples in (asl, cold)]
    error = np.hypot(*(m.std(ddof=1) / np.sqrt(K) for m in means))
    assert abs(means[0].mean() - means[1].mean()) > 4 * error
