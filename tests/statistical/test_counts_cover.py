"""Intervals hold exact counts, estimates have the exact value as their mean; estimators with an error fail the same tests.

Few weights are left to the exact tail here, so that most are drawn. Thresholds were fixed in advance.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import solspace as ss
from solspace.counting import epar, smc
from solspace.counting.count import prepared
from solspace.counting.exact import exact
from solspace.counting.result import interval
from solspace.numerics.streams import seed_sequence

UNIFORM = ss.Target(potential="uniform")
LIMIT = 4.0  # standard errors of the mean of many estimates


@pytest.fixture(autouse=True)
def short_tails(monkeypatch):
    monkeypatch.setattr(epar, "SIGN_TAIL", 5)
    monkeypatch.setattr(epar, "TAIL", 5)


def problems(target, loads=(0.3, 0.5, 0.6), n=19, each=3, **options):
    for load in loads:
        for seed in range(each):
            free, _ = prepared(ss.Perceptron.random(n, load, target, rng=1000 + seed, **options), target)
            if math.isfinite(value := exact(free)):
                yield free, value


def deviation(pairs):
    """Return the mean over instances of (estimate/Z - 1) over its standard error, times the root of their number."""
    return sum(difference / error for difference, error in pairs) / math.sqrt(len(pairs))


def lane_pairs(estimator, target=UNIFORM, **options):
    """Return estimate/Z - 1 and its standard error of 256 lanes on each instance."""
    found = []
    for free, value in problems(target, **options):
        logs = epar.Epar.of(free, target).lanes(np.arange(256), seed_sequence(7))
        found.append((math.expm1(estimator(logs) - value), np.exp(logs - value).std() / 16))
    return found


def ours(logs):
    return interval(logs)[0]


def alive_only(logs):
    return ours(logs[np.isfinite(logs)]) if np.isfinite(logs).any() else -math.inf


def mean_of_logs(logs):
    return float(logs[np.isfinite(logs)].mean()) if np.isfinite(logs).any() else -math.inf


@pytest.mark.parametrize("options", [{}, {"patterns": "gaussian"}, {"n": 18}])
def test_lanes_have_the_exact_mean(options):
    assert abs(deviation(lane_pairs(ours, **options))) < LIMIT


def test_lanes_of_a_tilted_measure_have_the_exact_mean():
    assert abs(deviation(lane_pairs(ours, ss.Target(temperature=1.0), loads=(0.3,)))) < LIMIT


@pytest.mark.parametrize("wrong", [alive_only, mean_of_logs])
def test_wrong_means_fail(wrong):
    assert abs(deviation(lane_pairs(wrong, loads=(0.6,)))) > LIMIT


def test_ties_left_out_fail(monkeypatch):
    """Stabilities of 0 at even n are solutions: a tail that leaves them out has another mean."""
    real = epar.SignTail.__init__

    def strict(self, free, tail):
        real(self, free, tail)
        self.least = self.least + 2

    monkeypatch.setattr(epar.SignTail, "__init__", strict)
    assert abs(deviation(lane_pairs(ours, n=18))) > LIMIT


def alike(sampler):
    """Return whether lanes that drew the same weights give their path the same probability."""
    with np.errstate(all="ignore"):
        weights, log_q, rho = sampler._paths(np.arange(512), seed_sequence(3), 4, 4)
    probability = np.exp(epar.mixture(log_q, rho))
    paths, number = np.unique(weights, axis=0, return_inverse=True)
    spread = max(np.ptp(probability[number.ravel() == path]) for path in range(len(paths)))
    return spread < 1e-12


def test_the_path_of_a_lane_has_the_probability_of_the_mixture(monkeypatch):
    """With the probability at the lane's own ρ means are right, but a path that the guide thinks impossible weighs too much."""
    free, _ = next(problems(ss.Target(temperature=0.5)))
    sampler = epar.Epar.of(free, free.problem.target)
    assert alike(sampler)
    monkeypatch.setattr(epar, "mixture", lambda log_q, rho: log_q[np.arange(len(log_q)), rho])
    assert not alike(sampler)


@pytest.mark.parametrize("target", [UNIFORM, ss.Target(temperature=0.5)])
def test_intervals_hold_exact_values(target):
    held = trusted = 0
    for free, value in problems(target, loads=(0.3, 0.6), each=4, n=17):
        found = ss.count(free.problem, target, method="epar", rng=11)
        trusted += found.trusted
        held += found.trusted and found.low <= value <= found.high
        assert found.low <= value <= found.high or found.trusted
    assert trusted >= 5
    assert trusted - held <= 1


def smc_pairs():
    found = []
    for free, value in problems(ss.Target(temperature=0.5), each=3):
        ratios = np.exp(np.array(list(smc.runs(free, seed_sequence(2)))) - value)
        found.append((ratios.mean() - 1, ratios.std(ddof=1) / math.sqrt(len(ratios))))
    return found


def test_particles_have_the_exact_mean():
    assert abs(deviation(smc_pairs())) < LIMIT


def test_particles_whose_weights_are_kept_after_resampling_fail(monkeypatch):
    real = smc._Ladder.next

    def carried(self, table, level, stop):
        level, table, step = real(self, table, level, stop)
        step = step + getattr(self, "carried", 0.0)
        self.carried = step - step.max()
        return level, table, step

    monkeypatch.setattr(smc._Ladder, "next", carried)
    assert abs(deviation(smc_pairs())) > LIMIT


def test_particles_count_the_uniform_measure_at_even_and_odd_sizes():
    for n in (18, 19):
        for free, value in problems(UNIFORM, loads=(0.3,), n=n, each=2):
            found = ss.count(free.problem, method="smc", rng=0)
            assert found.low <= value <= found.high


def test_where_there_is_no_solution_no_interval_is_stated():
    problem = ss.Perceptron(np.random.default_rng(0).standard_normal((82, 41)))
    found = ss.count(problem, method="epar", rng=0)
    assert found.low == found.log == -math.inf
    assert found.high == pytest.approx(41 * math.log(2))
    assert "there may be none" in found.status
    assert not found.trusted
    assert "nan" not in str(found).lower()


def test_all_dead_lanes_are_log_zero():
    assert interval(np.full(8, -math.inf)) == (-math.inf, -math.inf, -math.inf, 0.0)
