"""AMP's marginals at t = 0 approach the enumerated ones as n grows; without the Onsager reaction they do not."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.kernels import amp as cpu

TARGET = ss.Target("binary", "log", 0.5, margin=-0.4)
SIZES, INSTANCES = (6, 9, 13, 17), 25


def errors():
    """Return the mean squared error of the marginals, over the mean squared marginal, for each size."""
    found = []
    for n in SIZES:
        wrong, size = 0.0, 0.0
        for j in range(INSTANCES):
            problem = ss.Perceptron.random(n, 0.35, TARGET, patterns="gaussian", rng=generator(5, n, j))
            exact = problem.enumerate().marginals
            marginals = ss.amp(problem, tolerance=1e-8, max_iterations=200, variances="full")
            wrong += np.mean((marginals.mean - exact) ** 2)
            size += np.mean(exact**2)
        found.append(wrong / size)
    return np.array(found)


def test_marginals_approach_the_exact_ones():
    found = errors()
    assert found[-1] < 0.5 * found[0]
    assert found[-1] < 0.003


@pytest.mark.filterwarnings("ignore:.*message passing")
def test_without_the_onsager_reaction_they_do_not(monkeypatch):
    respond = cpu.respond
    monkeypatch.setattr(cpu, "respond", lambda product, g, *rest: respond(product, np.zeros_like(g), *rest))
    assert errors()[-1] > 0.03
