"""Annealed chains against exact laws, theory, and known success rates; planted bugs fail the same tests."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import chi2

import solspace as ss
from solspace.numerics.series import autocorrelation_time

OVERLAP, MEAN_STABILITY = 0.51104684966, 1.16747
"""Replica theory for binary weights, log potential, T = 0.5, alpha = 0.3 (theory_reference.json; P(s) as in theory notes 4)."""


def chi_squared(weights, probabilities):
    """Return the p-value of the draws' counts against the law, cells of fewer than 5 expected draws pooled."""
    codes = (weights > 0) @ (1 << np.arange(weights.shape[1]))
    counts = np.bincount(codes, minlength=len(probabilities))
    expected = probabilities * len(weights)
    small = expected < 5
    seen = np.append(counts[~small], counts[small].sum())
    awaited = np.append(expected[~small], max(expected[small].sum(), 1e-9))
    return chi2.sf(((seen - awaited) ** 2 / awaited).sum(), len(awaited) - 1)


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
@pytest.mark.parametrize(
    ("potential", "margin"), [("tau(0.4)", 0.0), ("hinge", 0.3), ("errors", -0.2)], ids=["tau", "hinge", "errors"]
)
def test_final_weights_follow_the_enumerated_law(potential, margin, patterns):
    """Independent chains, one draw each: no thinning to get wrong. One threshold, which a wrong T must not pass."""
    target = ss.Target(potential=potential, temperature=0.6, margin=margin)
    problem = ss.Perceptron.random(8, 0.7, target, patterns, rng=3)
    law = problem.enumerate().probabilities
    samples = ss.anneal(problem, n_chains=15_000, schedule=[target] * 25, rng=11)
    assert chi_squared(samples.weights, law) > 1e-5
    wrong = target.replace(temperature=0.66)
    planted = ss.anneal(problem, n_chains=15_000, schedule=[wrong] * 25, rng=11)
    assert chi_squared(planted.weights, law) < 1e-5


@cache
def ensemble(temperature, patterns):
    """Return chains' overlaps and stabilities of 8 instances at N = 2001, alpha = 0.3."""
    found = []
    for seed in range(8):
        problem = ss.Perceptron.random(2001, 0.3, ss.Target(temperature=temperature), patterns, rng=seed)
        found.append(ss.anneal(problem, n_chains=8, n_sweeps=150, rng=seed))
    assert all(samples.solved.all() for samples in found)
    return np.mean([samples.overlaps().mean() for samples in found]), np.concatenate([s.stabilities for s in found])


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_overlaps_and_stabilities_agree_with_theory(patterns):
    """Eight instances: the overlap scatters by 0.006 from one to the next, its mean by 0.0025."""
    overlap, stabilities = ensemble(0.5, patterns)
    assert overlap == pytest.approx(OVERLAP, abs=0.01)
    assert stabilities.mean() == pytest.approx(MEAN_STABILITY, abs=0.03)
    assert kolmogorov(stabilities, patterns) < 0.012


def test_a_wrong_temperature_disagrees_with_theory():
    overlap, stabilities = ensemble(0.55, "binary")
    assert abs(overlap - OVERLAP) > 0.01
    assert kolmogorov(stabilities, "binary") > 0.012


def kolmogorov(stabilities, patterns):
    """Return the distance between the stabilities' distribution and theory's; ±1 patterns are dithered."""
    s = stabilities.ravel()
    if patterns == "binary":
        s = s + np.random.default_rng(0).uniform(-1, 1, s.shape) / np.sqrt(2001)
    grid = np.linspace(1e-6, 6, 1201)
    z, weight = np.polynomial.hermite_e.hermegauss(80)
    omega, v = np.sqrt(OVERLAP) * z, 1 - OVERLAP
    x = omega / np.sqrt(v)
    partition = v * ((1 + x**2) * ndtr(x) + x * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi))
    kernel = np.exp(-((grid[:, None] - omega) ** 2) / (2 * v)) / np.sqrt(2 * np.pi * v)
    density = grid**2 * ((kernel / partition) @ weight) / np.sqrt(2 * np.pi)
    cumulative = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
    assert cumulative[-1] == pytest.approx(1, abs=1e-4)
    empirical = np.searchsorted(np.sort(s), grid) / len(s)
    return np.abs(empirical - cumulative).max()


def solved(n, n_sweeps, alpha, instances, schedule="tau", patterns="binary"):
    problems = (ss.Perceptron.random(n, alpha, patterns=patterns, rng=500 + i) for i in range(instances))
    return np.mean([ss.anneal(problem, 1, n_sweeps, schedule, rng=i).solved[0] for i, problem in enumerate(problems)])


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_success_in_100_sweeps(patterns):
    """N = 1001, T = 0.5, up to 100 instances: τ-annealing solves where temperature annealing on hinge does not."""
    instances = 100 if patterns == "binary" else 40
    assert solved(1001, 100, 0.4, instances, patterns=patterns) == 1
    assert solved(1001, 100, 0.5, instances, patterns=patterns) >= 0.95
    assert solved(1001, 100, 0.3, 20, "temperature", patterns) <= 0.2
    assert solved(1001, 100, 0.4, 20, "temperature", patterns) <= 0.1


def test_success_in_n_sweeps():
    assert solved(2001, 2001, 0.55, 10) >= 0.9


def test_the_chain_diffuses_through_the_dense_cluster():
    """After annealing a chain forgets where it was, down to the overlap between chains, within tens of sweeps."""
    problem = ss.Perceptron.random(501, 0.4, rng=4)
    found = ss.anneal(problem, n_chains=6, n_sweeps=200, n_extra=1500, thin=5, rng=5)
    assert found.solved.all()
    mixed = ss.diagnose(found).mixing
    assert mixed.lag == 750
    assert mixed.self_overlap.value == pytest.approx(mixed.cross_overlap.value, abs=0.02)
    assert 5 <= mixed.time["weights"] < 40
    assert 100 < mixed.effective["energy"] <= 3000
    # honest by default: too short a chain gives no time
    few = ss.anneal(problem, n_chains=4, n_sweeps=100, n_extra=40, thin=5, rng=5)
    assert np.isnan(ss.diagnose(few).mixing.time["weights"])
    assert "too short to tell" in str(ss.diagnose(few))


def test_autocorrelation_time_of_a_known_process():
    rng, rho = np.random.default_rng(1), 0.8
    series = np.zeros((8, 4000))
    for t in range(1, 4000):
        series[:, t] = rho * series[:, t - 1] + rng.normal(size=8)
    assert autocorrelation_time(series) == pytest.approx((1 + rho) / (1 - rho), rel=0.15)
    assert np.isnan(autocorrelation_time(series[:, :100]))
