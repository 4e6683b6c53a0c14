"""Counts and log Z of random instances, computed independently by other programs (dynamic enumeration in C)."""

from __future__ import annotations

import math

import pytest

import solspace as ss

# n, alpha, seed: number of solutions, log Z of the log potential at T = 1 and at T = 0.5
VALUES = [
    (15, 0.3, 0, 1735, 6.244943, 6.311226),
    (19, 0.5, 3, 2679, 6.762512, 8.303757),
    (21, 0.5, 5, 358, -0.056460, -4.350901),
    (25, 0.3, 7, 161044, 10.125547, 10.708263),
    (27, 0.6, 2, 1178, -0.183018, -5.206101),
    (29, 0.7, 0, 12, -14.007855, -29.579944),
]


@pytest.mark.parametrize(("n", "alpha", "seed", "number", "warm", "cold"), VALUES)
def test_exact_counts_and_partition_functions(n, alpha, seed, number, warm, cold):
    problem = ss.Perceptron.random(n, alpha, rng=seed)
    found = ss.count(problem)
    assert found.exact
    assert round(math.exp(found.log)) == number
    for temperature, log_z in ((1.0, warm), (0.5, cold)):
        target = problem.target.replace(temperature=temperature)
        assert ss.count(problem, target=target, method="exact").log == pytest.approx(log_z, abs=1e-6)


def test_stabilities_of_zero_are_solutions_of_weight_zero():
    problem = ss.Perceptron.random(16, 0.5, rng=1)
    assert round(math.exp(ss.count(problem).log)) == 211
    assert ss.count(problem, target=problem.target).log == -math.inf
    strict = problem.with_target(ss.Target(potential="uniform", margin=1e-9))
    assert round(math.exp(ss.count(strict).log)) < 211


def test_millions_of_solutions():
    problem = ss.Perceptron.random(30, 0.3, rng=0)
    assert round(math.exp(ss.count(problem).log)) == 13787419


@pytest.mark.exhaustive
def test_log_partition_functions_over_millions():
    problem = ss.Perceptron.random(30, 0.3, rng=0)
    for temperature, log_z in ((1.0, 13.739177), (0.5, 15.182041)):
        assert ss.count(problem, target=problem.target.replace(temperature=temperature)).log == pytest.approx(
            log_z, abs=1e-6
        )
