"""Every channel: g and dg are derivatives of log Z, the posterior has a variance, Z obeys the heat equation."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from solspace.measure.channels import (
    band_channel,
    errors_channel,
    hinge_channel,
    log_band_channel,
    log_quadratic_channel,
    power_channel,
)
from solspace.measure.likelihoods import Flip, Probit, logistic_channel
from solspace.measure.quadrature import quadrature_channel

# Central differences of order 8: truncation about h^8 times the ninth derivative, rounding eps / h.
POINTS = np.arange(-4, 5)
FIRST = np.array([1 / 280, -4 / 105, 1 / 5, -4 / 5, 0, 4 / 5, -1 / 5, 4 / 105, -1 / 280])
STEP = 0.015


def two_wells(s):
    return -((s**2 - 1.5) ** 2) / 3


CHANNELS = {
    "uniform": lambda o, v, a, b: power_channel(o, v, 0.0),
    "power": lambda o, v, a, b: power_channel(o, v, 5 * a),
    "band": lambda o, v, a, b: band_channel(o, v, 0.05 + 3 * a),
    "log-quadratic": lambda o, v, a, b: log_quadratic_channel(o, v, 0.2 + 3 * a, 4 * b - 2, a),
    "log-band": lambda o, v, a, b: log_band_channel(o, v, 0.2 + 5 * a, 0.05 + 3 * b),
    "log-band, pushed out": lambda o, v, a, b: log_band_channel(o, v, 0.2 + 3 * a, 1 + a, -2 * b),
    "errors": lambda o, v, a, b: errors_channel(o, v, 6 * a),
    "hinge": lambda o, v, a, b: hinge_channel(o, v, 6 * a),
    "logistic": lambda o, v, a, b: logistic_channel(o, v, 0.25 + b, 0.1 + 4 * a),
    "probit": lambda o, v, a, b: Probit(0.2 + a).channel(o, v, 1.0),
    "flip": lambda o, v, a, b: Flip(0.01 + 0.48 * a).channel(o, v, 0.25 + b),
    "quadrature": lambda o, v, a, b: quadrature_channel(two_wells, (), o, v),
}

fields = st.floats(-30, 15)
variances = st.floats(0.02, 4)
unit = st.integers(0, 8).map(lambda k: k / 8)  # few exponents: each one needs its table


@pytest.mark.parametrize("name", CHANNELS)
@given(x=fields, variance=variances, a=unit, b=unit)
def test_g_and_dg_are_derivatives(name, x, variance, a, b):
    sigma = np.sqrt(variance)
    h = STEP * sigma / (1 + 6 * a * sigma) if name in ("hinge", "quadrature") else STEP * sigma
    if (
        name == "log-band, pushed out"
    ):  # between two maxima that far apart g turns over on the scale of V over the distance
        h /= 1 + 0.4 * (0.2 + 3 * a) / sigma
    omega = x * sigma + h * POINTS
    log_z, g, dg = CHANNELS[name](omega, variance, a, b)
    size = 1 + np.abs(log_z[4])
    assert abs(FIRST @ log_z / h - g[4]) * sigma < 2e-11 * size
    assert abs(FIRST @ g / h - dg[4]) * variance < 2e-11 * size


@pytest.mark.parametrize("name", CHANNELS)
@given(x=fields, variance=variances, a=unit, b=unit)
def test_heat_equation(name, x, variance, a, b):
    h = 0.01 * variance / (1 + 0.2 * abs(x))
    spread = variance + h * POINTS
    omega = x * np.sqrt(variance)
    log_z, g, dg = CHANNELS[name](omega, spread, a, b)
    rate = variance * (dg[4] + g[4] ** 2) / 2  # V d log Z / d V
    assert abs(FIRST @ log_z / h * variance - rate) < 1e-10 * (1 + np.abs(log_z[4]))


@pytest.mark.parametrize("name", CHANNELS)
@given(x=st.floats(-1000, 60), log_variance=st.floats(-12, 6), a=unit, b=unit)
def test_posterior_variance_is_positive(name, x, log_variance, a, b):
    variance = np.exp(log_variance)
    if name == "quadrature":
        x = np.clip(x, -50, 50)
    log_z, g, dg = CHANNELS[name](x * np.sqrt(variance), variance, a, b)
    assert np.isfinite([log_z, g, dg]).all()
    assert 1 + variance * dg > 0
    if name not in ("errors", "flip", "quadrature", "log-band, pushed out"):  # log-concave weights
        assert dg <= 0


@pytest.mark.parametrize(
    "name", ["power", "band", "log-band", "log-quadratic", "hinge", "errors", "uniform", "probit", "flip"]
)
@given(x=st.floats(-1000, 60), log_variance=st.floats(-12, 6), a=unit, b=unit)
def test_single_precision_follows_double(name, x, log_variance, a, b):
    variance = np.float32(np.exp(log_variance))
    omega = np.float32(x * np.sqrt(variance))
    single = CHANNELS[name](omega, variance, a, b)
    double = CHANNELS[name](np.float64(omega), np.float64(variance), a, b)
    for one, other in zip(single, double):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-37)


@given(
    x=st.floats(-300, 60),
    variance=variances,
    beta=st.sampled_from([0.0, 0.05, 1.0, 1.25, 2.0, 7.5, 20.0]),
    kappa=st.floats(-2, 2),
)
def test_margin_only_shifts(x, variance, beta, kappa):
    """A margin is a shift of the field: the weight (s - kappa)^beta by quadrature, at omega itself, gives the same."""

    def log_weight(s):
        return np.where(s > kappa, beta * np.log(np.maximum(s - kappa, 1e-300)), -np.inf)

    omega = kappa + x * np.sqrt(variance)
    by_quadrature = quadrature_channel(log_weight, (kappa,), omega, variance)
    closed = power_channel(omega - kappa, variance, beta)
    scale = [1.0, np.sqrt(variance), variance]
    for one, other, unit_ in zip(by_quadrature, closed, scale):
        # s - kappa is formed from s: in the tail it has lost the digits of kappa beside sqrt(V) / |x|
        assert abs(one - other) * unit_ < 1e-10 * max(1.0, abs(other) * unit_)
