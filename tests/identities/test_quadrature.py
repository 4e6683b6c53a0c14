"""The generic quadrature equals every closed form, and finds its integrand wherever that lives."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from solspace.measure.channels import (
    band_channel,
    errors_channel,
    hinge_channel,
    log_quadratic_channel,
    power_channel,
)
from solspace.measure.quadrature import quadrature_channel

X = np.concatenate([-np.logspace(-2, 3, 12), [0.0], np.logspace(-2, np.log10(60), 10)])


def log(s):
    return np.where(s > 0, np.log(np.maximum(s, 1e-300)), -np.inf)


CASES = {
    "step": (lambda s: np.where(s > 0, 0.0, -np.inf), (0.0,), lambda o, v: power_channel(o, v, 0)),
    **{
        f"s^{b}": (lambda s, b=b: b * log(s), (0.0,), lambda o, v, b=b: power_channel(o, v, b))
        for b in (0.05, 1, 1.25, 2, 4, 20)
    },
    **{
        f"band {w}": (
            lambda s, w=w: np.where(np.abs(s) <= w, 0.0, -np.inf),
            (-w, w),
            lambda o, v, w=w: band_channel(o, v, w),
        )
        for w in (1e-5, 0.3, 2.0, 50.0)
    },
    "log-quadratic": (
        lambda s: 1.2 * (log(s) + 1.7 * s - 0.9 * s * s),
        (0.0,),
        lambda o, v: log_quadratic_channel(o, v, 1.2, 1.7, 0.9),
    ),
    "tilted back": (lambda s: 2 * (log(s) - 3 * s), (0.0,), lambda o, v: log_quadratic_channel(o, v, 2, -3, 0)),
    **{
        f"errors {b}": (lambda s, b=b: np.where(s < 0, -b, 0.0), (0.0,), lambda o, v, b=b: errors_channel(o, v, b))
        for b in (0.5, 40.0)
    },
    **{
        f"hinge {b}": (lambda s, b=b: b * np.minimum(s, 0.0), (0.0,), lambda o, v, b=b: hinge_channel(o, v, b))
        for b in (0.5, 300.0)
    },
}


@pytest.mark.parametrize("variance", [1e-6, 0.3, 1.0, 1e4])
@pytest.mark.parametrize("name", CASES)
def test_equals_the_closed_form(name, variance):
    log_weight, breakpoints, closed = CASES[name]
    omega = X * np.sqrt(variance)
    found, expected = quadrature_channel(log_weight, breakpoints, omega, variance), closed(omega, variance)
    for one, other, scale in zip(found, expected, (1.0, np.sqrt(variance), variance)):
        np.testing.assert_allclose(one * scale, other * scale, rtol=1e-10, atol=1e-10)


def test_gaussian_weights_of_any_width_and_place():
    """The product of two Gaussians is known: a weight much narrower than the field must be found all the same."""
    for width in (1e-4, 0.1, 3.0, 1e3):
        for centre in (-50.0, 0.0, 7.0):
            omega, variance = np.array([-20.0, 0.0, 3.0]), 2.0
            found = quadrature_channel(lambda s, c=centre, w=width: -((s - c) ** 2) / (2 * w * w), (), omega, variance)
            total = variance + width**2
            log_z = -((omega - centre) ** 2) / (2 * total) + np.log(width) - np.log(total) / 2
            np.testing.assert_allclose(found[0], log_z, rtol=1e-10, atol=1e-13)
            np.testing.assert_allclose(found[1], (centre - omega) / total, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(found[2], -1 / total, rtol=1e-8, atol=1e-10)


def test_two_separate_modes_and_a_kink():
    """Against SciPy's adaptive quadrature, for a weight with a kink, a jump and two wells."""

    def log_weight(s):
        return np.where(s < -1, -np.inf, -np.abs(s - 0.5) * 3 + np.where(s > 2, 4.0, 0.0))

    points = (-1.0, 0.5, 2.0)
    for omega, variance in ((-4.0, 0.5), (0.2, 1.5), (3.0, 0.1)):

        def moment(k, omega=omega, variance=variance):
            def f(s):
                return s**k * np.exp(log_weight(s) - (s - omega) ** 2 / (2 * variance))

            ends = (*points, 30.0)
            return sum(quad(f, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in pairwise(ends))

        z, first, second = (moment(k) for k in range(3))
        mean = first / z
        log_z, g, dg = quadrature_channel(log_weight, points, omega, variance)
        np.testing.assert_allclose(log_z, np.log(z / np.sqrt(2 * np.pi * variance)), rtol=1e-10)
        np.testing.assert_allclose(omega + variance * g, mean, rtol=1e-9)
        np.testing.assert_allclose(variance + variance**2 * dg, second / z - mean**2, rtol=1e-7)


def test_blocks_do_not_show(rng):
    omega = rng.standard_normal((40, 37))
    variance = rng.uniform(0.1, 2, 37)
    whole = quadrature_channel(CASES["s^1.25"][0], (0.0,), omega, variance)
    part = quadrature_channel(CASES["s^1.25"][0], (0.0,), omega[33, 5], variance[5])
    assert all(w.shape == omega.shape for w in whole)
    np.testing.assert_allclose([w[33, 5] for w in whole], part, rtol=1e-13)


@pytest.mark.parametrize("variance", [1e-30, 1e-6, 0.3, 1.0, 1e4])
@pytest.mark.parametrize("name", CASES)
def test_rows_of_one_variance_equal_the_closed_form(name, variance):
    """Many fields at once: near the breakpoints, far inside and far outside, in any order."""
    log_weight, breakpoints, closed = CASES[name]
    x = np.concatenate([-np.logspace(-2, 3, 40), np.linspace(-15, 15, 101), np.logspace(-2, 3, 60)])
    omega = np.random.default_rng(0).permutation(x) * np.sqrt(variance)
    with np.errstate(under="ignore"):
        found, expected = quadrature_channel(log_weight, breakpoints, omega, variance), closed(omega, variance)
    for one, other, scale in zip(found, expected, (1.0, np.sqrt(variance), variance)):
        np.testing.assert_allclose(one * scale, other * scale, rtol=1e-11, atol=1e-11)


def test_rows_are_vouched_for_or_searched():
    """A row must not trust shared nodes with structure that they cannot see: a narrow weight between breakpoints."""
    from solspace.measure.quadrature import row_moments

    omega = np.linspace(-3, 3, 60)
    for width in (0.3, 1e-3):

        def log_weight(s, w=width):
            return -((s - 0.71) ** 2) / (2 * w * w)

        total = 0.5 + width**2
        found = quadrature_channel(log_weight, (0.0,), omega, 0.5)
        np.testing.assert_allclose(found[1], (0.71 - omega) / total, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found[2], -1 / total, rtol=1e-7)
        _, good = row_moments(log_weight, (0.0,), omega, float(np.sqrt(0.5)))
        assert good.all() == (width > 0.1)


@pytest.mark.parametrize("variance", [1e-8, 1e-20, 1e-40])
def test_a_flat_weight_keeps_its_curvature(variance):
    """g and dg tend to the derivatives of log W, of which Var z - 1 has no digit left."""

    def log_weight(s):
        return np.where(s > 0, np.sqrt(np.maximum(s, 0.0)), s)

    omega = np.linspace(0.3, 4.0, 50)
    _, g, dg = quadrature_channel(log_weight, (0.0,), omega, variance)
    np.testing.assert_allclose(g, 0.5 * omega**-0.5, rtol=1e-7)
    np.testing.assert_allclose(dg, -0.25 * omega**-1.5, rtol=1e-6)


STEEP = [
    # power k, omega, variance; log Z, g and dg of W = exp(-1/s^k), by mpmath with 40 digits
    (1, 2.0, 1.0, -0.60144528286637251, 0.3337667166005837, -0.26952652355084543),
    (3, -3.0, 0.5, -17.852735104707396, 7.7374247934890078, -1.8688245743634865),
    (1, -1.0, 1e-6, -502004.3010135886, 1001000.2492197664, -999500.2514172205),
    (3, 0.0, 1e-6, -5149.145129562448, 78605.397351109433, -799974.10755389791),
    (3, 0.01, 1e-14, -999550.53968261003, 299640700.65063647, -119676979849.35573),
    (3, 0.0, 1e-20, -1293204644930.2712, 12457309396158385.0, -7.9999999999989695e19),
    (1, -1.0, 1e-24, -5.0000000000200004e23, 1.0000000000010001e24, -9.9999999999950008e23),
    (1, 0.0, 1e-40, -32316520350478.806, 4.6415888336128509e26, -6.666666249046786e39),
]


@pytest.mark.parametrize("many", [1, 50])
@pytest.mark.parametrize("case", STEEP, ids=str)
def test_weights_whose_derivatives_all_vanish_at_the_wall(case, many):
    power, omega, variance, *expected = case

    def log_weight(s):
        return np.where(s > 0, -1 / np.where(s > 0, s, 1.0) ** power, -np.inf)

    found = quadrature_channel(log_weight, (0.0,), np.full(many, omega), variance)
    np.testing.assert_allclose([part[0] for part in found], expected, rtol=1e-5)
    np.testing.assert_allclose(found[0][0], expected[0], rtol=1e-12)


def test_a_single_field_far_from_every_breakpoint_is_right():
    log_z, g, _ = quadrature_channel(lambda s: np.where(s > 0, -1 / np.abs(s), -np.inf), (0.0,), 0.3, 1e-30)
    np.testing.assert_allclose([log_z, g], [-1 / 0.3, 1 / 0.09], rtol=1e-9)


@pytest.mark.parametrize(
    ("log_weight", "message"),
    [
        (lambda s: np.full(s.shape, -np.inf), "nowhere positive"),
        (lambda s: s * s, "diverges"),
        (lambda s: np.full(s.shape, np.nan), "NaN"),
    ],
)
def test_bad_weights_are_refused_in_words(log_weight, message):
    with pytest.raises(ValueError, match=message):
        quadrature_channel(log_weight, (0.0,), np.zeros(3), 1.0)


def test_a_missing_breakpoint_is_reported():
    def jump(s):
        return np.where(s < 0.3, -2.0, 0.0)

    with pytest.warns(RuntimeWarning, match="breakpoint missing"):
        quadrature_channel(jump, (), 0.0, 1.0)
