"""Counts by bit sets and by search equal enumeration: any patterns, levels, bands, margins, clamped and sample weights, ties."""

from __future__ import annotations

import math

import numpy as np
import pytest

import solspace as ss
from solspace.counting.exact import Free, exact, sign_parts
from solspace.system import threads

PATTERNS = {
    "signs": lambda rng, m, n: rng.choice([-1, 1], (m, n)),
    "gaussian": lambda rng, m, n: rng.standard_normal((m, n)),
    "integers": lambda rng, m, n: rng.integers(-2, 3, (m, n)),
    "thirds": lambda rng, m, n: rng.integers(0, 4, (m, n)) / 3,
}
PRIORS = {"binary": 12, "ternary": 7, "levels(-3,-1,1,3)": 5, "ternary(0.3)": 7}
POTENTIALS = ("uniform", "log", "band(1.0)", "wall(-0.5, 2)", "log_band(1.5)", "hinge", "logistic(2)")


@pytest.mark.parametrize("kind", PATTERNS)
@pytest.mark.parametrize("potential", POTENTIALS)
def test_equal_to_enumeration(kind, potential):
    rng = np.random.default_rng([*map(ord, kind + potential)])
    for trial, (prior, most) in enumerate(PRIORS.items()):
        n, m = int(rng.integers(3, most + 1)), int(rng.integers(1, 9))
        problem = ss.Perceptron(
            PATTERNS[kind](rng, m, n),
            target=ss.Target(prior=prior, potential=potential, margin=(0.0, 0.3, -0.4)[trial % 3]),
            clamped={0: 1.0} if trial % 2 else None,
            sample_weight=rng.uniform(0.5, 2, m) if trial == 3 else None,
        )
        try:
            expected = problem.enumerate().log_partition
        except ValueError:  # no weights have a probability
            expected = -math.inf
        found = exact(Free(problem))
        assert found == expected or found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("n", [1, 2, 5, 6, 7, 11, 12, 13, 17])
@pytest.mark.parametrize("margin", [0.0, 0.4, -0.7])
def test_bit_sets_of_every_size(n, margin):
    rng = np.random.default_rng(n)
    for m in (1, 7, 8, 9, 20):
        problem = ss.Perceptron(rng.choice([-1, 1], (m, n)), target=ss.Target(potential="uniform", margin=margin))
        assert exact(Free(problem)) == pytest.approx(math.log(found) if (found := solutions(problem)) else -math.inf)


def solutions(problem: ss.Perceptron) -> int:
    weights = 2 * (np.arange(2**problem.n)[:, None] >> np.arange(problem.n) & 1) - 1
    return int(problem.is_solution(weights).sum())


def test_parts_add_up():
    problem = ss.Perceptron.random(21, 0.4, rng=0)
    free = Free(problem.with_target(ss.Target(potential="uniform")))
    shares, counts = zip(*sign_parts(*free.halves[:2]))
    assert sum(shares) == pytest.approx(1)
    assert sum(counts) == round(math.exp(exact(free)))


def test_rows_of_zeros_and_clamped_rows():
    patterns = np.vstack([ss.Perceptron.random(21, 0.3, patterns="gaussian", rng=0).patterns, np.zeros((2, 21))])
    assert ss.count(ss.Perceptron(patterns)).log == ss.count(ss.Perceptron(patterns[:-2])).log
    assert ss.count(ss.Perceptron(np.zeros((2, 31)))).log == pytest.approx(31 * math.log(2))
    never = ss.Perceptron([[1.0, 0, 0], [1, 1, 1]], target=ss.Target(potential="uniform"), clamped={0: -1})
    assert ss.count(never).log == -math.inf


def test_evidence_with_an_intercept_is_that_of_enumeration():
    target = ss.Target(potential="logistic(2)")
    problem = ss.Perceptron.planted(9, 2.0, target, intercept=1.0, rng=0)
    assert ss.count(problem).log == problem.enumerate().log_partition
    assert not ss.count(problem).solutions


def test_counts_do_not_depend_on_threads(monkeypatch):
    problem, large = ss.Perceptron.random(25, 0.4, rng=0), ss.Perceptron.random(31, 0.4, patterns="gaussian", rng=0)
    found = set()
    for number in (1, 3):
        monkeypatch.setattr(threads, "_allowed", lambda number=number: number)
        found.add((ss.count(problem).log, ss.count(large, method="epar", rng=1).log))
    assert len(found) == 1
