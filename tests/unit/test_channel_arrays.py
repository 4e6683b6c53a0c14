"""Shapes, types, output arrays and refusals of the channel functions."""

import numpy as np
import pytest

from solspace.measure.channels import (
    band_channel,
    errors_channel,
    hinge_channel,
    log_quadratic_channel,
    power_channel,
)
from solspace.measure.quadrature import quadrature_channel
from solspace.numerics.power import gaussian_power_derivatives

pytestmark = pytest.mark.slow

CHANNELS = {
    "power": lambda o, v: power_channel(o, v, 2.0),
    "uniform": lambda o, v: power_channel(o, v, 0.0),
    "band": lambda o, v: band_channel(o, v, 0.5),
    "log-quadratic": lambda o, v: log_quadratic_channel(o, v, 2.0, 1.0, 0.5),
    "errors": lambda o, v: errors_channel(o, v, 2.0),
    "hinge": lambda o, v: hinge_channel(o, v, 2.0),
    "quadrature": lambda o, v: quadrature_channel(lambda s: -(s**4), (), o, v),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_broadcasting(name):
    omega = np.linspace(-3, 3, 12).reshape(3, 4)
    for variance in (0.5, np.full(4, 0.5), np.full((3, 1), 0.5), np.full((3, 4), 0.5), np.full((2, 1, 1), 0.5)):
        results = CHANNELS[name](omega, variance)
        for result, one in zip(results, CHANNELS[name](omega[1, 2], 0.5)):
            assert result.shape == np.broadcast_shapes(omega.shape, np.shape(variance))
            np.testing.assert_allclose(result[..., 1, 2], one, rtol=1e-14)
    for result in CHANNELS[name](0.3, np.array([0.5, 1.0])):
        assert result.shape == (2,)


@pytest.mark.parametrize("name", CHANNELS)
def test_types(name):
    single = np.linspace(-1, 1, 3, dtype=np.float32)
    assert {r.dtype for r in CHANNELS[name](single, np.float32(1))} == {np.dtype(np.float32)}
    assert {r.dtype for r in CHANNELS[name](single, 1.0)} == {np.dtype(np.float32)}
    assert {r.dtype for r in CHANNELS[name](single, np.ones(3))} == {np.dtype(np.float64)}
    assert {r.dtype for r in CHANNELS[name]([1, 2], 1)} == {np.dtype(np.float64)}
    assert all(isinstance(r, np.float64) for r in CHANNELS[name](0.5, 1.0))
    assert all(isinstance(r, np.float32) for r in CHANNELS[name](np.float32(0.5), np.float32(1)))


@pytest.mark.parametrize("name", CHANNELS)
def test_empty_and_transposed(name):
    assert all(r.shape == (0, 3) for r in CHANNELS[name](np.zeros((0, 3)), 1.0))
    omega = np.linspace(-3, 3, 12).reshape(3, 4)
    for one, other in zip(CHANNELS[name](omega.T, 1.0), CHANNELS[name](omega, 1.0)):
        np.testing.assert_allclose(one, other.T, rtol=1e-14)


@pytest.mark.parametrize("beta", [0.0, 1.25, 2.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("columns", [1, 7, 64, 3000])
def test_derivatives_equal_the_channel(beta, dtype, columns, rng):
    omega = (5 * rng.standard_normal((3001 // columns + 2, columns))).astype(dtype)
    kinds = (0.7, rng.uniform(0.1, 3, columns), rng.uniform(0.1, 3, omega.shape))
    for variance in kinds:
        out = np.empty_like(omega), np.empty_like(omega)
        g, dg = gaussian_power_derivatives(omega, variance, beta, out=out)
        assert g is out[0]
        assert dg is out[1]
        _, expected_g, expected_dg = power_channel(omega.astype(np.float64), variance, beta)
        tolerance = 2e-6 if dtype == np.float32 else 1e-13
        np.testing.assert_allclose(g, expected_g, rtol=tolerance, atol=1e-36)
        np.testing.assert_allclose(dg, expected_dg, rtol=tolerance, atol=1e-35)


@pytest.mark.parametrize("beta", [0.0, 1.25])
def test_where_an_element_stands_does_not_matter(beta, rng):
    """Vector code and its remainder loop must round alike: a batch of one is a column of a batch of many."""
    omega = (4 * rng.standard_normal((501, 13))).astype(np.float32)
    whole = gaussian_power_derivatives(omega, 0.5, beta)
    for column in (0, 5, 12):
        alone = gaussian_power_derivatives(np.ascontiguousarray(omega[:, column : column + 1]), 0.5, beta)
        for one, other in zip(alone, whole):
            np.testing.assert_array_equal(one[:, 0], other[:, column])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_not_a_number_stays_where_it_is(dtype, beta):
    omega = np.array([[0.5, np.nan, -3.0, np.inf, -np.inf]], dtype=dtype)
    for g in (gaussian_power_derivatives(omega, 1.0, beta)[0], power_channel(omega, dtype(1), beta)[1]):
        assert np.isnan(g[0, 1])
        assert np.isfinite(g[0, [0, 2]]).all()
        assert g[0, 3] == 0
        assert g[0, 4] == np.inf


def test_soft_potentials_end_in_the_step():
    omega = np.linspace(-50, 30, 40)
    for channel in (errors_channel, hinge_channel):
        for one, other in zip(channel(omega, 0.4, 1e8), power_channel(omega, 0.4, 0.0)):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-300)


def test_refusals():
    with pytest.raises(ValueError, match="beta must be at least 0"):
        power_channel(0.0, 1.0, -1.0)
    transposed = (np.empty((3, 4)).T, np.empty((4, 3)))
    with pytest.raises(ValueError, match="C-contiguous"):
        gaussian_power_derivatives(np.zeros((4, 3)), 1.0, 2.0, out=transposed)


def test_quadrature_keeps_not_a_number_apart():
    log_z, g, _ = CHANNELS["quadrature"](np.array([0.0, np.nan, np.inf]), np.array([1.0, 1.0, 1.0]))
    assert np.isfinite(g[0])
    assert np.isnan(log_z[1:]).all()
