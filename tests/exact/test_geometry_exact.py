"""Local entropy against exact counts, barriers against all ways, on problems that can be enumerated."""

from __future__ import annotations

import warnings
from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp

import solspace as ss
from solspace.geometry.local_entropy import local_entropy

N = 15
UNIFORM = ss.Target(potential="uniform")
LARGEST_MEDIAN = 0.012  # of |v - exact v| over all points; 0.0039 at n = 19 and α = 0.3


def exact_curve(problem, weights, overlaps):
    """Return min over γ of log Σ_w exp(γ⟨w, w*⟩)/n - γ p over the solutions w."""
    law = problem.with_target(UNIFORM.replace(margin=problem.target.margin, prior=problem.target.prior)).enumerate()
    products = law.weights @ weights
    curve = []
    for p in overlaps:
        found = minimize_scalar(
            lambda g, p=p: logsumexp(law.log_weights + g * products) / problem.n - g * p,
            bounds=(-9, 9),
            method="bounded",
        )
        curve.append(found.fun)
    return np.array(curve)


def median_error(margin, count=None, shift=0.0):
    errors, overlaps = [], np.array([0.4, 0.6, 0.8])
    for seed in range(12):
        # Gaussian patterns: stabilities on a lattice do not feel a margin between two of its points
        problem = ss.Perceptron.random(N, 0.34, ss.Target(margin=margin), patterns="gaussian", rng=100 + seed)
        weights = problem.enumerate().sample(1, rng=seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # EP has no fixed point in a few small problems
            found = local_entropy(problem, weights, overlaps, count)
        exact = exact_curve(problem, weights[0].astype(float), overlaps)
        errors.append(found.values[0] + shift * found.fields[0] - exact)
    assert np.isfinite(errors).mean() > 0.9
    return float(np.nanmedian(np.abs(errors)))


@pytest.mark.parametrize("margin", [0.0, 0.2])
def test_local_entropy_is_the_transform_of_exact_counts(margin):
    assert median_error(margin) < LARGEST_MEDIAN


def test_planted_errors_are_found():
    """Another measure than the one counted; a margin off by a little; a transform at an overlap off by 0.05."""
    assert median_error(0.0, count=ss.Target(temperature=1.0)) > LARGEST_MEDIAN
    assert median_error(0.2, count=UNIFORM.replace(margin=0.1)) > LARGEST_MEDIAN
    assert median_error(0.0, shift=0.05) > LARGEST_MEDIAN


@pytest.mark.parametrize("prior", ["ternary", "levels(-3,-1,1,3)"])
def test_levels_are_counted_too(prior):
    errors, uniform = [], ss.Target(prior, "uniform")
    for seed in range(6):
        problem = ss.Perceptron.random(9, 0.34, uniform, patterns="gaussian", rng=200 + seed)
        weights = problem.enumerate().sample(1, rng=seed).astype(float)
        reach = np.abs(weights).sum() / 9 * max(uniform.prior.values)
        overlaps = reach * np.array([0.3, 0.6])
        errors.append(local_entropy(problem, weights, overlaps).values[0] - exact_curve(problem, weights[0], overlaps))
    assert np.median(np.abs(errors)) < LARGEST_MEDIAN


def best_way(problem, first, last):
    """Return the fewest constraints that must be unmet at once on the way by flips of the sites that differ, each once."""
    sites = np.flatnonzero(first != last)
    worst = {frozenset(): problem.violations(first)}
    for size in range(1, len(sites) + 1):
        for chosen in combinations(sites.tolist(), size):
            weights = first.copy()
            weights[list(chosen)] *= -1
            before = min(worst[frozenset(chosen) - {site}] for site in chosen)
            worst[frozenset(chosen)] = max(before, problem.violations(weights))
    return worst[frozenset(sites.tolist())]


def test_a_barrier_is_never_below_the_best_way_and_seldom_above():
    found, best = [], []
    for seed in range(12):
        problem = ss.Perceptron.random(11, 0.6, ss.Target(), rng=seed)
        first, last = (problem.target.prior.draw(11, 2 * seed + end) for end in (0, 1))
        found.append(ss.barrier(problem, first, last).worst)
        best.append(best_way(problem, first, last))
    assert all(own >= least for own, least in zip(found, best))
    assert np.mean(np.array(found) == best) >= 0.75


@pytest.mark.parametrize("potential", ["uniform", "band(1.2)"])
def test_a_path_is_one_of_single_flips_with_the_profile_stated(potential):
    problem = ss.Perceptron.random(41, 0.4, ss.Target(potential=potential, margin=0.05), patterns="gaussian", rng=4)
    first, last = (problem.target.prior.draw(41, seed) for seed in (1, 2))
    way = ss.barrier(problem, first, last)
    assert (way.path[0] == first).all()
    assert (way.path[-1] == last).all()
    assert (np.count_nonzero(np.diff(way.path, axis=0), axis=1) == 1).all()
    assert (problem.violations(way.path) == way.profile).all()
    assert way.worst == way.profile.max()
    assert len(way.path) == np.count_nonzero(first != last) + 1


def test_the_smallest_stability_of_a_geodesic():
    problem = ss.Perceptron.random(30, 2.0, ss.Target("spherical", "uniform", margin=-1.0), patterns="gaussian", rng=0)
    for seed in range(5):
        ends = np.array([problem.target.prior.draw(30, (seed, end)[0] * 2 + end) for end in (0, 1)])
        way = ss.barrier(problem, ends[0], ends[1])
        angle = np.arccos(ends[0] @ ends[1] / 30)
        t = np.linspace(0, angle, 20001)[:, None]
        dense = (ends[0] * np.sin(angle - t) + ends[1] * np.sin(t)) / np.sin(angle)
        assert way.worst == pytest.approx(problem.stabilities(dense).min(), abs=1e-6)
        assert way.worst <= way.profile.min() + 1e-12
        assert np.square(way.path).mean(axis=1) == pytest.approx(1.0)
