"""Local entropy around samples of instances agrees with the curve of theory, and with no other."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.geometry.local_entropy import local_entropy

OVERLAPS = [0.6, 0.8, 0.95]
WITHIN = 0.008  # of the mean over six instances; one at n = 501 differs by 0.005 (standard deviation)
LOG = ss.Target(margin=0.1)


@pytest.fixture(scope="module")
def measured():
    curves = []
    for seed in range(6):
        problem = ss.Perceptron.random(501, 0.3, LOG, rng=50 + seed)
        samples = ss.anneal(problem, 4, n_sweeps=300, rng=seed)
        curves.append(local_entropy(problem, samples, OVERLAPS, method="amp").values.mean(axis=0))
    return np.mean(curves, axis=0)


def difference(measured, reference, probe=None):
    return float(np.abs(measured - ss.franz_parisi(reference, 0.3, probe, OVERLAPS).values).max())


def test_instances_agree_with_theory(measured):
    assert difference(measured, LOG) < WITHIN


@pytest.mark.parametrize(
    ("reference", "probe"),
    [
        (ss.Target(potential="uniform", margin=0.1), None),  # around typical solutions
        (LOG, ss.Target(potential="uniform", margin=0.05)),  # another margin counted
        (LOG.replace(temperature=2.0), ss.Target(potential="uniform", margin=0.1)),
    ],
)
def test_other_curves_are_told_apart(measured, reference, probe):
    assert difference(measured, reference, probe) > WITHIN
