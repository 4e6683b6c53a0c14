"""Localized samples of random problems against replica theory: one prior, one threshold; planted bugs must fail it.

Twenty instances at n = 801, eight samples each. The overlap between samples must agree with r to 0.014, and so must |m|²/n at
t = 0; the mean stability to 0.03. Errors of the means are about 0.003 and 0.008; a temperature off by 10% moves r by 0.03.
"""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.kernels import amp as cpu

OVERLAP, STABILITY = 0.014, 0.03
BINARY = ss.Target("binary", "log", 0.5, margin=-0.3), 0.5
SPHERICAL = ss.Target("spherical", "log", 0.5, margin=-0.5), 0.5


def misfit(sampled, target, alpha, instances=20, **options):
    """Return the largest deviation from theory, in units of what is allowed, of samples of `sampled` judged by `target`."""
    prediction = ss.predict(target, alpha)
    rows = []
    for j in range(instances):
        problem = ss.Perceptron.random(801, alpha, sampled, rng=generator(11, j))
        samples = ss.localize(problem, 8, rng=j, progress=False, **options)
        stability = problem.stabilities(samples.weights).mean()
        rows.append((samples.overlaps().mean(), samples.info["overlap"][0, 0], stability))
    overlap, start, stability = np.mean(rows, axis=0)
    return max(
        abs(overlap - prediction.overlap) / OVERLAP,
        abs(start - prediction.overlap) / OVERLAP,
        abs(stability - prediction.mean_stability) / STABILITY,
    )


@pytest.mark.filterwarnings("ignore:1 of 8 samples miss constraints")  # one sample of 160
@pytest.mark.parametrize("case", [BINARY, SPHERICAL], ids=["binary", "spherical"])
def test_samples_agree_with_theory(case):
    assert misfit(case[0], *case) < 1


@pytest.mark.filterwarnings("ignore:1 of 8 samples miss constraints")
def test_a_wrong_temperature_fails():
    assert misfit(BINARY[0].replace(temperature=0.5 / 1.1), *BINARY) > 1


@pytest.mark.filterwarnings("ignore:.*Try")
def test_a_wrong_sign_of_the_margin_fails():
    wrong = BINARY[0].replace(margin=0.3)
    assert misfit(wrong, *BINARY, instances=3, accuracy="fast", max_iterations=20, damping=0.0) > 1


@pytest.mark.filterwarnings("ignore:.*Try")
def test_without_the_onsager_reaction_it_fails(monkeypatch):
    respond = cpu.respond
    monkeypatch.setattr(cpu, "respond", lambda product, g, *rest: respond(product, np.zeros_like(g), *rest))
    assert misfit(BINARY[0], *BINARY, instances=4, accuracy="fast", max_iterations=20) > 1
