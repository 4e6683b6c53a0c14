"""The noise of localization is normal, independent between samples, steps and weights, and a function of these alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from solspace.numerics.streams import seed_sequence
from solspace.samplers.kernels.philox import Noise, cubics

N, K = 100_001, 8


@pytest.fixture(scope="module")
def drawn():
    noise = Noise(seed_sequence(1), np.zeros((N, K)))
    return np.stack([noise.draw(np.arange(K), np.full(K, step)).copy() for step in (0, 1, 5)])


def test_deviates_are_normal(drawn):
    """2.4 million of them: moments within four standard errors, and the tails as far as they reach."""
    size = drawn.size
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs((drawn**power).mean() - mean) < 4 * np.sqrt(variance / size), power
    assert stats.kstest(drawn.ravel()[::7], "norm").pvalue > 1e-3
    for edge in (3.0, 4.0, 4.7):
        expected = size * stats.norm.sf(edge)
        for tail in ((drawn > edge).sum(), (drawn < -edge).sum()):
            assert abs(tail - expected) < 4 * np.sqrt(expected) + 1


def test_samples_steps_and_weights_are_independent(drawn):
    rows = drawn.transpose(0, 2, 1).reshape(-1, N)
    correlations = np.corrcoef(rows)[np.triu_indices(len(rows), 1)]
    assert np.abs(correlations).max() < 5 / np.sqrt(N)
    for lag in (1, 2, 3, 4, 8):
        assert abs((rows[:, :-lag] * rows[:, lag:]).mean()) < 4 / np.sqrt(rows.size)


def test_only_seed_sample_step_and_weight_decide(drawn):
    noise = Noise(seed_sequence(1), np.zeros((N, K), np.float32))
    some = noise.draw(np.array([2, 7]), np.array([0, 0, 5, 0, 0, 0, 0, 1]))
    np.testing.assert_array_equal(some[:, 2], drawn[2, :, 2])
    np.testing.assert_array_equal(some[:, 7], drawn[1, :, 7])
    assert (some[:, 0] == 0).all()
    other = Noise(seed_sequence(2), np.zeros((N, 1)))
    assert abs(np.corrcoef(other.draw(np.arange(1), np.zeros(1, int))[:, 0], drawn[0, :, 0])[0, 1]) < 5 / np.sqrt(N)


def test_the_cubics_hold_the_inverse_of_the_normal_law():
    """At the ends of all cells and between them, to single precision."""
    t = np.linspace(0, 1, 9)
    octave, cell = np.divmod(np.arange(32 * 32), 32)
    p = 2.0 ** (octave[:, None] - 32) * (1 + (cell[:, None] + t) / 32)
    found = np.polynomial.polynomial.polyval(t, cubics().T.astype(float))
    np.testing.assert_allclose(found, stats.norm.isf(p / 2), atol=4e-7)
