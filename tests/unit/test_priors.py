"""Marginals of a prior under a Gaussian tilt, against integration and enumeration."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import solspace as ss


@given(st.floats(-50, 50))
def test_binary_marginals_are_those_of_two_states(field):
    mean, variance = ss.priors.Binary().marginals(0.0, np.array([field]))
    p = 1 / (1 + np.exp(-2 * abs(field)))
    np.testing.assert_allclose(mean, np.sign(field) * (2 * p - 1), atol=1e-15)
    np.testing.assert_allclose(variance, 1 / np.cosh(field) ** 2, rtol=1e-12)
    assert variance > 0


def test_binary_variance_does_not_vanish_in_float32():
    _, variance = ss.priors.Binary().marginals(0.0, np.array([15.0], np.float32))
    assert variance.dtype == np.float32
    np.testing.assert_allclose(variance, 4 * np.exp(-30.0), rtol=1e-5)


@pytest.mark.parametrize("uneven", [False, True])
def test_spherical_marginals_meet_the_norm(rng, uneven):
    field = rng.normal(size=(200, 3)) * [0.1, 1.0, 30.0]
    precision = rng.uniform(0.5, 40, size=(200, 3)) if uneven else rng.uniform(0.5, 4, size=3)
    mean, variance = ss.priors.Spherical().marginals(precision, field)
    np.testing.assert_allclose((mean**2 + variance).mean(axis=0), 1, rtol=1e-12)
    total = precision + ss.priors.Spherical().norm_multiplier(precision, field)
    assert (total > 0).all()
    np.testing.assert_allclose(mean, field / total, rtol=1e-12)


@pytest.mark.parametrize("size", [1e-4, 1.0, 1e8])
def test_the_multiplier_of_uneven_precisions_is_the_root(rng, size):
    precision, field = size * rng.lognormal(0, 3, size=(60, 50)), size * rng.normal(size=(60, 50))
    total = precision + ss.priors.Spherical().norm_multiplier(precision, field)
    assert (total > 0).all()
    np.testing.assert_allclose((field**2 / total**2 + 1 / total).mean(axis=0), 1, rtol=1e-12)


def test_the_closed_multiplier_is_the_root(rng):
    field = rng.normal(size=(500, 2)) * 3
    even = ss.priors.Spherical().norm_multiplier(np.array([2.0, 3.0]), field)
    root = ss.priors.Spherical().norm_multiplier(np.broadcast_to([2.0, 3.0], field.shape), field)
    np.testing.assert_allclose(even, root, rtol=1e-11)


def test_decoding(rng):
    mean = rng.normal(size=(3, 50))
    binary = ss.priors.Binary().decode(mean)
    assert binary.dtype == np.int8
    assert ss.priors.Binary().contains(binary).all()
    sphere = ss.priors.Spherical().decode(mean)
    assert ss.priors.Spherical().contains(sphere).all()
    assert not ss.priors.Spherical().contains(mean).any()
