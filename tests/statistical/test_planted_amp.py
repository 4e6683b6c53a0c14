"""AMP's means overlap with the teacher as replica theory says, on 20 planted instances of 1001 weights.

q of the Bayes-optimal posterior was computed by another program. The threshold is four standard errors of the 20 instances, fixed
in advance; with the wrong noise AMP misses it.
"""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator

N, INSTANCES, LIMIT = 1001, 20, 4.0
OVERLAP = {
    "uniform": {0.5: 0.2930890, 1.0: 0.5607147, 2.0: 1.0},
    "probit(0.5)": {0.5: 0.2297381, 1.0: 0.4224902, 2.0: 0.7156608},
    "logistic(3)": {0.5: 0.2137752, 1.0: 0.3919592, 2.0: 0.6632346},
    "flip(0.1)": {0.5: 0.1838302, 1.0: 0.3394015, 2.0: 0.6039906},
}


def overlaps(potential, alpha, assumed=None):
    """Return the overlaps of AMP's means with the teacher and with themselves, (INSTANCES, 2)."""
    found = []
    for j in range(INSTANCES):
        problem = ss.Perceptron.planted(N, alpha, ss.Target(potential=potential), rng=generator(21, j))
        seen = problem if assumed is None else problem.with_target(ss.Target(potential=assumed))
        marginals = ss.amp(seen, precision="float32", tolerance=1e-7)
        found.append((marginals.mean @ problem.teacher / N, marginals.overlap))
    return np.array(found)


def deviations(found, q):
    return np.abs(found.mean(axis=0) - q) / np.maximum(found.std(axis=0, ddof=1) / np.sqrt(INSTANCES), 1e-4)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("potential", OVERLAP)
def test_the_teacher_is_found_as_far_as_theory_says(potential, alpha):
    assert (deviations(overlaps(potential, alpha), OVERLAP[potential][alpha]) < LIMIT).all()


@pytest.mark.parametrize(("potential", "assumed"), [("probit(0.5)", "probit(1)"), ("flip(0.1)", "flip(0.2)")])
def test_another_noise_fails(potential, assumed):
    """Off the Nishimori line the overlap with the teacher is no longer that of the means with themselves."""
    found = overlaps(potential, 1.0, assumed)
    assert (deviations(found, OVERLAP[potential][1.0]) > LIMIT).any()


def test_in_the_hard_region_it_stays_with_the_means_that_know_less():
    """Step teacher, 1.245 < α < 1.493: the posterior is at the teacher, AMP converges elsewhere."""
    problem = ss.Perceptron.planted(2001, 1.3, ss.Target(potential="uniform"), rng=5)
    found = ss.amp(problem, precision="float32", tolerance=1e-7)
    assert found.converged
    assert 0.6 < found.overlap < 0.85
    assert problem.is_solution(problem.teacher)


def test_expectation_propagation_tells_that_it_lost_the_teacher():
    """log Z of these means is below the weight of the teacher alone, which no law has; below the transition it is not."""
    easy, hard = (
        ss.Perceptron.planted(401, alpha, ss.Target(potential="uniform"), patterns="gaussian", rng=5)
        for alpha in (0.7, 1.3)
    )
    assert ss.ep(easy, variances="scalar").converged  # a warning would fail
    with pytest.warns(UserWarning, match="know less of the teacher"):
        ss.ep(hard, variances="scalar")
