"""A bias as large as the `within` of fair samples is found: true bias = within, 200 repetitions, at least 90% found.

Samples are drawn from laws whose overlaps are known: weights that agree with hidden ones with a probability of their own, and
stabilities from P(s). Repetitions without a bias are called biased in at most 2%.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import solspace as ss
from solspace.diagnostics import comparison
from solspace.diagnostics.report import Report
from solspace.numerics.streams import generator

REPETITIONS, FOUND, FALSE = 200, 0.9, 0.02
TARGET = ss.Target("binary", "log", 0.5)


def weights(random, k, n, overlap):
    """Return ±1 weights (k, n) any two of which overlap by `overlap` in mean."""
    hidden = random.choice(np.array([-1, 1], np.int8), n)
    return np.where(random.random((k, n)) < (1 + np.sqrt(overlap)) / 2, hidden, -hidden)


@pytest.mark.parametrize(
    ("n", "k"),
    [pytest.param(501, 4, marks=pytest.mark.exhaustive), (201, 8), pytest.param(501, 16, marks=pytest.mark.exhaustive)],
)
def test_what_theory_judges(n, k):
    prediction = ss.predict(TARGET, 0.3)
    grid = np.linspace(0, 6, 2001)
    cdf, m = prediction.stability_cdf(grid), round(0.3 * n)

    def judged(i, bias):
        random = generator(101, n, k, i)
        overlap = prediction.overlap + random.normal(0, 0.5 / np.sqrt(n)) + bias
        stabilities = np.interp(random.random((k, m)), cdf, grid)
        found = ss.Samples(weights(random, k, n, overlap), stabilities, np.ones(k, bool), TARGET)
        return ss.diagnose(found, prediction)

    fair = [judged(i, 0.0) for i in range(REPETITIONS)]
    within = np.median([report.within or np.inf for report in fair])
    assert np.mean([report.fair is False for report in fair]) <= FALSE
    for bias in (-within, within):
        assert np.mean([judged(i, bias).fair is False for i in range(REPETITIONS)]) >= FOUND


@pytest.mark.parametrize(("k", "others"), [(6, 16), (16, 16)])
def test_what_a_reference_judges(k, others):
    n, r = 401, 0.5

    def judged(i, bias):
        random = generator(102, k, i)
        hidden = random.choice(np.array([-1, 1], np.int8), n)
        sides = []
        for count, overlap in ((k, r + bias), (others, r)):
            agree = random.random((count, n)) < (1 + np.sqrt(overlap)) / 2
            sides.append(np.where(agree, hidden, -hidden))
        own, other = (ss.Samples(w, np.ones((len(w), 40)), np.ones(len(w), bool), TARGET) for w in sides)
        return comparison.judge_by_reference(comparison.agreement(own, other), Report(k, k, fair=True, within=0.0))

    fair = [judged(i, 0.0) for i in range(REPETITIONS)]
    within = np.median([own or np.inf for _, _, own in fair])
    assert np.mean([verdict is False for verdict, _, _ in fair]) <= FALSE
    for bias in (-within, within):
        assert np.mean([judged(i, bias)[0] is False for i in range(REPETITIONS)]) >= FOUND


@pytest.mark.parametrize("chains", [8, 16])
def test_what_chains_judge(chains):
    """Each chain sits in a region of its own, whose overlap with itself exceeds that of two regions by the bias."""
    n, draws = 201, 40
    problem = ss.Perceptron.random(n, 0.1, TARGET, rng=0)
    run = ss.anneal(problem, chains, 20, n_extra=draws, thin=1, rng=0, progress=False)

    def judged(i, bias):
        random = generator(103, chains, i)
        means = np.sqrt(0.3) + np.sqrt(bias) * random.choice([-1, 1], (chains, 1, n))
        own = np.where(random.random((chains, draws, n)) < (1 + means) / 2, 1, -1).astype(np.int8).reshape(-1, n)
        info = replace(run.info, energy=random.normal(size=run.info.energy.shape))
        return ss.diagnose(ss.Samples(own, run.stabilities, np.ones(len(own), bool), TARGET, info))

    fair = [judged(i, 0.0) for i in range(REPETITIONS)]
    within = np.median([report.within or np.inf for report in fair])
    assert np.mean([report.fair is False for report in fair]) <= FALSE
    assert np.mean([judged(i, within).fair is False for i in range(REPETITIONS)]) >= FOUND
