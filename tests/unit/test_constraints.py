"""Problems that no weights have a positive probability under: refused in a sentence, and no others are."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.constraints import check_measure


@pytest.mark.parametrize("prior", ["binary", "spherical"])
def test_a_constraint_of_zeros_is_told(prior):
    """The log potential gives the stability 0 no weight: samples would have infinite energies."""
    patterns = np.vstack([np.random.default_rng(0).standard_normal((3, 12)), np.zeros((1, 12))])
    problem = ss.Perceptron(patterns, target=ss.Target(prior))
    uses = [lambda p: ss.localize(p, 2, rng=0), lambda p: ss.localize([p], 2, rng=0), ss.amp]
    if prior == "binary":
        uses += [lambda p: ss.anneal(p, 2, 10, rng=0), lambda p: ss.anneal([p], 2, 10, rng=0), ss.ep]
    for use in uses:
        with pytest.raises(ValueError, match="constraint 4 is all zero"):
            use(problem)
    uniform = problem.with_target(ss.Target(prior, "uniform"))
    assert ss.localize(uniform, 2, rng=0, denoiser="amp").solved.all()
    if prior == "binary":
        with pytest.raises(ValueError, match="constraint 4 is all zero"):
            ss.ep(uniform)
        assert ss.solve(problem, 2, rng=0, method="tau").solved.all()


SPHERE = {
    "one weight": [[1.0], [-1.0]],
    "one weight, uneven": [[0.2], [0.5], [-0.1]],
    "opposite rows": [[0.3, 1.0, -0.7], [1.0, 0.0, 0.0], [-0.3, -1.0, 0.7]],
    "three ways": [[1.0, 0.0], [-0.5, 0.9], [-0.5, -0.9]],
}


@pytest.mark.parametrize("rows", SPHERE.values(), ids=SPHERE.keys())
@pytest.mark.parametrize(("potential", "margin"), [("log", 0.0), ("uniform", 0.0), ("uniform", 0.4)])
def test_contradicting_constraints_on_the_sphere_are_told(rows, potential, margin):
    problem = ss.Perceptron(rows, target=ss.Target("spherical", potential, margin=margin))
    with pytest.raises(ValueError, match="no weights have a positive probability"):
        ss.localize(problem, 2, rng=0)


def test_constraints_that_can_be_met_on_the_sphere_are_not_refused():
    random = np.random.default_rng(0)
    teacher = random.standard_normal(8)
    for margin in (-0.5, 0.0):
        for _ in range(30):
            rows = random.standard_normal((12, 8))
            check_measure(
                ss.Perceptron(rows * np.sign(rows @ teacher)[:, None], target=ss.Target("spherical", margin=margin))
            )
    check_measure(ss.Perceptron([[1.0, 0.0], [-1.0, 0.0]], target=ss.Target("spherical", "hinge")))
    check_measure(ss.Perceptron([[1.0, 0.0], [-1.0, 0.0]], target=ss.Target("spherical", "band(1)")))


@pytest.mark.parametrize("seed", range(20))
def test_a_margin_that_some_weights_exceed_is_never_said_to_be_impossible(seed):
    """Weights on the sphere are known that exceed the margin; no weights reach further than the longest pattern."""
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 40, 2)
    w = rng.normal(size=n)
    w *= np.sqrt(n) / np.linalg.norm(w)
    x = rng.normal(size=(m, n)) + w
    x *= np.sign(x @ w)[:, None]
    check_measure(ss.Perceptron(x, target=ss.Target("spherical", margin=0.99 * (x @ w).min() / np.sqrt(n))))
    with pytest.raises(ValueError, match="no weights"):
        check_measure(ss.Perceptron(x, target=ss.Target("spherical", margin=1.01 * np.linalg.norm(x, axis=1).max())))
