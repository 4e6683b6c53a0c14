"""Walls on both sides: the channel against mpmath, thresholds against values computed independently.

At integer exponents the channel is a finite sum of truncated Gaussian moments, M_k = ∫_{-K}^{K} s^k N(s; ω, V) ds with
M_{k+1} = ω M_k + k V M_{k-1} - V [s^k N]_{-K}^{K}: sixty digits can afford its cancellations. At other exponents mpmath
integrates. Thresholds come from the quietly planted formulas (theory notes 11), written out here and in no way shared with the
package.
"""

import mpmath as mp
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import ndtr

import solspace as ss
from solspace.measure.channels import log_band_channel
from solspace.numerics.band_moments import band_moments

# K, T, alpha_ASL and the overlap where it is decided
THRESHOLDS = [(1.0, 0.35, 0.773111, 0.8726), (1.0, 0.5, 0.956407, 0.8393), (1.0, 0.7, 1.139089, 0.8052)]
FIELDS = [0.0, 1e-3, 0.3, 0.97, 1.0, 1.2, 3.0, 30.0]
VARIANCES = [1e-4, 3e-3, 0.1, 1.0, 10.0]


def by_moments(omega, variance, beta, width):
    """log Z, g and dg from truncated moments, with as many digits as their cancellations eat."""
    with mp.workdps(120):
        w, v, k = mp.mpf(omega), mp.mpf(variance), mp.mpf(width)
        s = mp.sqrt(v)
        density = [mp.npdf(end, w, s) for end in (-k, k)]
        ends = sorted((mp.sign(w) or 1) * (end - w) / s for end in (-k, k))  # both small where the band is far
        moments = [mp.ncdf(ends[1]) - mp.ncdf(ends[0])]
        for power in range(2 * beta + 3):
            before = power * v * moments[power - 1] if power else 0
            ends = k**power * density[1] - (-k) ** power * density[0]
            moments.append(w * moments[power] + before - v * ends)

        def average(extra):
            terms = (mp.binomial(beta, j) * (-1) ** j * k ** (2 * (beta - j)) for j in range(beta + 1))
            return mp.fsum(term * moments[2 * j + extra] for j, term in enumerate(terms))

        z = average(0)
        mean, square = average(1) / z, average(2) / z
        return mp.log(z), (mean - w) / v, ((square - mean**2) / v - 1) / v


def close(found, exact, least=(1.0, 1e-6, 0.0)):
    for value, true, size in zip(found, exact, least):
        assert abs(float(value) - true) <= 1e-12 * max(abs(true), size), (found, exact)


@pytest.mark.parametrize("beta", [1, 2, 3, 5])
@pytest.mark.parametrize("variance", VARIANCES)
def test_integer_exponents_are_sums_of_truncated_moments(beta, variance):
    for omega in FIELDS:
        for sign in (1, -1):
            close(log_band_channel(sign * omega, variance, beta, 1.0), by_moments(sign * omega, variance, beta, 1.0))


@pytest.mark.parametrize(
    ("x", "d", "beta"),
    [
        (0.2, 0.05, 0.5), (3.0, 1.0, 10 / 7), (0.9, 9.0, 10 / 7), (8.0, 9.5, 0.05), (60.0, 30.0, 2.5), (20.0, 30.0, 12.5),
        (40.0, 41.0, 40.0), (3.0, 200.0, 200.0), (300.0, 2.0, 20 / 7), (150.0, 220.0, 10 / 3),
    ],
)  # fmt: skip
def test_real_exponents_are_integrals(x, d, beta):
    with mp.workdps(30):
        peak = minimize_scalar(
            lambda y: -beta * np.log1p(-y * y) + (d * y - x) ** 2 / 2, bounds=(-1 + 1e-12, 1 - 1e-12), method="bounded"
        ).x
        width = 1 / np.sqrt(2 * beta * (1 + peak**2) / (1 - peak**2) ** 2 + d**2)
        cuts = sorted({-1.0, 1.0, *np.clip(peak + width * np.array([-30, -12, -5, -2, 0, 2, 5, 12, 30]), -1, 1)})
        top = mp.log(1 - mp.mpf(peak) ** 2) * beta - (d * mp.mpf(peak) - x) ** 2 / 2

        def moment(k):
            return mp.quad(
                lambda y: (
                    mp.exp(beta * mp.log(1 - y * y) - (d * y - x) ** 2 / 2 - top) * (d * y - x) ** k
                    if abs(y) < 1
                    else 0
                ),
                [mp.mpf(c) for c in cuts],
            )

        mass, first, second = (moment(k) for k in range(3))
        exact = mp.log(mass * d) + top - mp.log(2 * mp.pi) / 2, first / mass, second / mass - (first / mass) ** 2 - 1
        close([part[0] for part in band_moments(np.array([x]), np.array([d]), beta)], exact)


def planted(width, beta):
    """λ(q)/α of the symmetric perceptron by direct quadrature: s = K sin θ, ω = √q x, and E sech⁴ of the planted field."""
    theta, w = np.polynomial.legendre.leggauss(160)
    theta, w = theta * np.pi / 2, w * np.pi / 2
    s, weight = width * np.sin(theta), w * width ** (2 * beta + 1) * np.cos(theta) ** (2 * beta + 1)
    z = np.linspace(-9, 9, 721)
    gauss = np.exp(-(z**2) / 2) * (z[1] - z[0]) / np.sqrt(2 * np.pi)
    z0 = weight @ np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)

    def rate(q):
        v = 1 - q
        omega, step = np.polynomial.legendre.leggauss(400)
        omega, step = omega * 9, step * 9
        exponent = -((s - omega[:, None]) ** 2) / (2 * v)
        top = exponent.max(axis=1)
        kernel = weight * np.exp(exponent - top[:, None]) / np.sqrt(2 * np.pi * v)
        mass = kernel.sum(axis=1)
        mean = kernel @ s / mass
        slope = ((kernel @ s**2) / mass - mean**2) / v**2 - 1 / v
        density = np.exp(-(omega**2) / (2 * q)) / np.sqrt(2 * np.pi * q) * np.exp(top) * mass / z0 * step
        assert abs(density.sum() - 1) < 1e-9
        low, high = 0.0, 60.0
        for _ in range(80):
            x = (low + high) / 2
            low, high = (x, high) if gauss @ np.tanh(x + np.sqrt(x) * z) ** 2 < q else (low, x)
        return (gauss @ np.cosh(x + np.sqrt(x) * z) ** -4.0) * (density @ slope**2)

    return rate


@pytest.mark.parametrize(("width", "temperature", "alpha", "overlap"), THRESHOLDS)
def test_thresholds_of_the_symmetric_perceptron(width, temperature, alpha, overlap):
    found = ss.thresholds(ss.Target(potential=ss.potentials.LogBand(width), temperature=temperature))
    assert abs(found.asl - alpha) < 1e-6
    assert found.asl_by == "cusp"
    assert abs(found.cusp_overlap - overlap) < 1e-3
    mass = 2 * ndtr(width) - 1
    assert abs(found.capacity + np.log(2) / np.log(mass)) < 1e-9


@pytest.mark.parametrize(("width", "temperature"), [(0.6, 0.5), (1.5, 0.4), (1.2, 0.6)])
def test_thresholds_are_where_the_planted_instability_touches_one(width, temperature):
    rate = planted(width, 1 / temperature)
    best = minimize_scalar(lambda q: -rate(q), bounds=(0.5, 0.97), method="bounded", options={"xatol": 1e-6})
    found = ss.thresholds(ss.Target(potential=ss.potentials.LogBand(width), temperature=temperature))
    assert abs(found.asl - min(-1 / best.fun, found.dat)) < 1e-6
    assert found.asl_by == ("dAT" if width == 1.5 else "cusp")


@pytest.mark.parametrize(("width", "beta", "alpha"), [(1.0, 2.0, 0.8), (0.7, 10 / 7, 0.6), (1.4, 1 / 0.35, 1.1)])
def test_quietly_planted_formulas(width, beta, alpha):
    """φ = log 2 + α log Z0, its entropy, and F(q) at chosen overlaps, to 1e-8 of the package's general solver."""
    theta, w = np.polynomial.legendre.leggauss(200)
    theta, w = theta * np.pi / 2, w * np.pi / 2
    s, weight = width * np.sin(theta), w * width ** (2 * beta + 1) * np.cos(theta) ** (2 * beta + 1)
    density = weight * np.exp(-(s**2) / 2) / np.sqrt(2 * np.pi)
    z0 = density.sum()
    p = ss.predict(ss.Target(potential=ss.potentials.LogBand(width), temperature=1 / beta), alpha)
    assert (p.overlap, p.conjugate) == (0, 0)
    phi = np.log(2) + alpha * np.log(z0)
    assert abs(p.free_entropy - phi) < 1e-10
    mean_log = density @ np.log(width**2 - s**2) / z0
    assert abs(p.entropy - (phi - alpha * beta * mean_log)) < 1e-8
    rate = planted(width, beta)
    for q in (0.3, 0.7, 0.9):
        assert abs(p.instability_at(q) - alpha * rate(q)) < 1e-8
