"""Panels, mixtures and roots: pure numerics."""

import numpy as np
import pytest

from solspace.numerics.kernels import mixtures
from solspace.numerics.roots import Status, bracketed_newton
from solspace.numerics.rules import around, gaussian_trapezoid, graded, hermite, legendre, nodes


def test_panels_have_the_widths_asked_for(rng):
    edges = graded(0.0, [100.0, 3.0], [0.01, 0.1], [5.0, 1.0], 0.5)
    width = np.diff(edges)
    allowed = np.minimum(np.maximum(np.array([[0.01], [0.1]]), 0.5 * edges[:, 1:]), np.array([[5.0], [1.0]]))
    assert (width <= allowed * 1.0001).all()
    assert edges[:, 0].tolist() == [0, 0]
    assert edges[:, -1].tolist() == [100, 3]


def test_empty_panels_weigh_nothing():
    _, w = nodes(graded(0.0, [-1.0, 2.0], 0.1, 1.0, 0.5))
    assert w[0].sum() == 0
    assert abs(w[1].sum() - 2) < 1e-14


def test_features_are_resolved():
    """A step of width 1e-6 on a Gaussian: wrong by percents on any plain grid."""
    eps, centre = 1e-6, 0.3
    one = np.array([1.0])
    x, w = around((centre,), -9 * one, 9 * one, eps * one, 1.5 * one, 0.8)
    from scipy.special import ndtr

    value = (w * ndtr((x - centre) / eps) * np.exp(-(x**2) / 2) / np.sqrt(2 * np.pi)).sum()
    assert abs(value - ndtr(-centre / np.sqrt(1 + eps**2))) < 1e-14


def test_rules_are_gaussian():
    for z, w in (hermite(24), gaussian_trapezoid(0.5, 9.0)):
        assert abs(w.sum() - 1) < 1e-14
        assert abs(w @ z**8 - 105) < 1e-9
    x, w = legendre(5)
    assert abs(w @ x**9 - 0.1) < 1e-15


@pytest.mark.parametrize(("steep", "variance"), [(1.0, (0.3, 0.01)), (40.0, (0.012, 0.009)), (1.0, (0.3, 1e-4))])
def test_compiled_mixture_equals_the_plain_one(rng, steep, variance):
    centres = np.linspace(-5, 5, 83)
    bias = steep * centres**2 - 0.5 * centres
    variance = np.array(variance)  # the last is too narrow for the recurrence
    x = np.sort(rng.uniform(-6, 6, (2, 130)), axis=1)
    factor = -steep * x**2
    fast = mixtures(x, factor, centres, bias, variance)
    width = variance[:, None, None]
    exponent = bias - (x[:, :, None] - centres) ** 2 / (2 * width) + factor[:, :, None]
    plain = (np.exp(exponent) / np.sqrt(2 * np.pi * width)).sum(axis=2)
    np.testing.assert_allclose(fast, plain, rtol=1e-11, atol=1e-120)


def test_roots_of_many():
    target = np.array([0.1, 2.0, 700.0])
    found = bracketed_newton(lambda x, k: (np.exp(x) - target[k], np.exp(x)), [-9.0] * 3, [9.0] * 3, [0.0] * 3)
    assert found.status is Status.CONVERGED
    np.testing.assert_allclose(found.x, np.log(target), rtol=1e-14)


def test_a_bad_derivative_only_costs_time():
    found = bracketed_newton(lambda x, k: (x - 0.7, np.full_like(x, -3.0)), [0.0], [1.0], [0.5])
    assert abs(found.x[0] - 0.7) < 1e-13


def test_steps_are_counted():
    found = bracketed_newton(lambda x, k: (x - np.pi, np.zeros_like(x)), [0.0], [4.0], [2.0], max_steps=5)
    assert found.status is Status.MAX_STEPS
    assert not found.status.ok
    assert "did not settle" in str(found.status)
