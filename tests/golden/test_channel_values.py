"""Channels against values computed independently: a published table and mpmath at 50 digits.

The table is that of the project's reference values (``channel``), computed with 60 digits from the definition
I_b(x) = int_0^inf u^b phi(u - x) du; mpmath evaluates the same as a parabolic cylinder function.
"""

import mpmath as mp
import numpy as np
import pytest

from solspace.measure.channels import (
    band_channel,
    errors_channel,
    hinge_channel,
    power_channel,
)
from solspace.numerics.power import gaussian_power_derivatives, log_power_moment
from solspace.numerics.power_table import power_table

# beta, x, log I, (log I)', (log I)''
MOMENTS = [
    (0, -1000, -500007.82669481216, 1000.000999998, -0.999999000006),
    (0, -100, -5005.524208694205, 100.00999800099926, -0.9999000599500517),
    (0, -10, -53.23128515051247, 10.098093233962512, -0.9905546221743438),
    (0, -6, -20.736768949974707, 6.158482604544599, -0.9760123632108332),
    (0, -1.999, -3.780811560999765, 2.3723298416077574, -0.8856615240087795),
    (0, 0, -0.6931471805599453, 0.7978845608028654, -0.6366197723675814),
    (0, 3, -0.0013508099647481938, 0.004437839042125664, -0.013333211541740806),
    (0, 10, -7.619853024160525e-24, 7.694598626706419e-23, -7.694598626706419e-22),
    (1, -300, -45012.32653681455, 300.00666644446176, -0.9999777799997119),
    (1, -50, -1258.744182868461, 50.03995213387265, -0.9992028666337259),
    (1, -30, -457.724653760598, 30.06644615416242, -0.997799716275543),
    (1, -5, -16.74430116266099, 5.361816241288088, -0.939992198900283),
    (1, -3, -7.869686059603029, 3.5323375176251606, -0.8803957855467996),
    (1, -2.001, -4.771463351034321, 2.680237363173457, -0.8205173592409191),
    (1, -1, -2.4851210257126413, 1.9042712333296918, -0.7219776967572937),
    (1, 1, 0.08002621884930694, 0.7766387252017393, -0.3798064346847219),
    (1, 6, 1.7917594692541146, 0.16666666649789214, -0.02777777670887246),
    (1, 30, 3.4011973816621555, 0.03333333333333333, -0.0011111111111111111),
    (2, -1000, -500020.94906318956, 1000.002999988, -0.9999970000359995),
    (2, -100, -5014.0419016408305, 100.0299880107867, -0.9997003594609306),
    (2, -10, -57.19104670357138, 10.288963830270381, -0.9731383979083446),
    (2, -6, -23.75057614043528, 6.45492837911798, -0.9365301048347974),
    (2, -1.999, -5.152360584416958, 2.9429228310919053, -0.7778920504092768),
    (2, 0, -0.6931471805599453, 1.5957691216057306, -0.5464790894703254),
    (2, 3, 2.302564749279065, 0.6000886387714623, -0.16037229069697356),
    (2, 10, 4.61512051684126, 0.19801980198019803, -0.019409861778257036),
    (2, 100, 9.210440366976515, 0.019998000199980003, -0.0001999400099986002),
    (4, -300, -45026.25996373077, 300.01666555571603, -0.9999444555528814),
    (4, -50, -1267.3069842015586, 50.09976123943009, -0.9980142763970098),
    (4, -30, -464.76341942487994, 30.165571303140315, -0.9945529506330235),
    (4, -5, -18.777968465857303, 5.836052102303836, -0.8792436292858423),
    (4, -3, -8.816306596247346, 4.153972194111463, -0.793568407116815),
    (4, -2.001, -5.051998793716012, 3.393506524797399, -0.7254799777229229),
    (4, -1, -2.004495921253557, 2.710380250520368, -0.6357808518904838),
    (4, 1, 2.2890206918370555, 1.658866065746589, -0.4107026898321561),
    (4, 6, 7.323170717943461, 0.6178217821782813, -0.08863444760363585),
    (4, 30, 13.611437748536387, 0.1328913432989577, -0.004400408092532227),
    (4 / 3, -50, -1259.8740549589631, 50.046604634448265, -0.9990703810318888),
    (4 / 3, -3, -8.130013901093326, 3.609620586015283, -0.8671656836061319),
    (4 / 3, 0, -0.878440037261163, 1.376143182943304, -0.5604367266279945),
    (4 / 3, 5, 2.1548722041909696, 0.26305491106865303, -0.05113910824726881),
    (10 / 9, -10, -55.76081075737692, 10.204974758318231, -0.980651123618819),
    (10 / 9, -1, -2.515921218478879, 1.941250528397778, -0.7160919744957631),
    (10 / 9, 1, 0.1321503761489815, 0.8200452316133634, -0.38140830239406714),
    (0.5, -50, -1256.9085043810453, 50.02997007175267, -0.9994017928345829),
    (0.5, -3, -7.351155241930105, 3.4112602221436235, -0.9029156367484926),
    (0.5, 0, -0.8889443769133637, 1.0460496200531015, -0.5942198076132383),
    (0.5, 5, 0.7994931427680959, 0.10219409133974432, -0.02141408900347754),
    (2.5, -10, -57.8521435438674, 10.335640685233631, -0.9690615219204094),
    (2.5, -1, -2.518724039298791, 2.348125115006919, -0.6655664407193373),
    (2.5, 1, 1.0135995920326042, 1.2743572115682966, -0.3983435142444214),
]

# omega, variance, margin, beta, log Z, g, dg
POINTS = [
    (0.3, 0.2, 0, 0, -0.289239921509081, 0.951248777005011, -2.33174740126105),
    (0.5, 0.7, -2.5, 0, -0.000168110882216568, 0.000770089066578668, -0.00330097475107904),
    (0.3, 0.2, 0, 2, -1.34745451699355, 2.82503700382445, -2.21838957871409),
    (-3, 0.01, 0, 2, -465.041187317743, 300.995599400872, -99.6710384285099),
    (-1.2, 0.4, 0, 1, -4.95623839161361, 4.10403733277324, -2.03101043047679),
    (-1.2, 0.4, 0, 1.25, -5.20061081038741, 4.21570761349941, -2.00006784201869),
]


@pytest.fixture(autouse=True)
def fifty_digits():
    with mp.workdps(50):
        yield


@pytest.mark.parametrize(("beta", "x", "log_i", "rho", "curvature"), MOMENTS)
def test_table_of_moments(beta, x, log_i, rho, curvature):
    found = log_power_moment(x, beta)
    np.testing.assert_allclose(found[0], log_i, rtol=1e-13, atol=1e-13 if abs(log_i) > 1e-6 else 0)
    np.testing.assert_allclose(found[1:], (rho, curvature), rtol=1e-13)


@pytest.mark.parametrize(("omega", "variance", "margin", "beta", "log_z", "g", "dg"), POINTS)
def test_table_of_channels(omega, variance, margin, beta, log_z, g, dg):
    found = power_channel(omega - margin, variance, beta)
    np.testing.assert_allclose(found, (log_z, g, dg), rtol=1e-13)


def exact_power(beta, x):
    """log I, rho and curvature with 50 digits; curvature by b - rho K, which 50 digits can afford."""
    beta, x = mp.mpf(beta), mp.mpf(x)
    if beta == 0:
        log_i = mp.log1p(-mp.ncdf(-x)) if x > 0 else mp.log(mp.ncdf(x))
        rho = mp.npdf(x) / mp.ncdf(x)
    else:
        moments = [mp.gamma(b + 1) * mp.pcfd(-b - 1, -x) for b in (beta, beta + 1)]
        log_i = mp.log(moments[0]) - x * x / 4 - mp.log(2 * mp.pi) / 2
        rho = moments[1] / moments[0] - x
    return log_i, rho, beta - rho * (rho + x)


def relative(found, exact, least):
    return float(abs(mp.mpf(float(found)) - exact) / max(abs(exact), mp.mpf(least)))


def hard_points(beta, rng):
    """Random x from -1000 to 60, and both sides of the edges of the table's cells."""
    table = power_table(beta)
    cells = table.coefficients.shape[0] // 2
    edges = table.scale * (cells / rng.integers(4, cells + 1, 4) - 1)
    spread = np.concatenate([-(10 ** rng.uniform(-3, 3, 14)), 10 ** rng.uniform(-3, np.log10(60), 10)])
    ends = [-1000.0, 0.0, -1e-300, 38.0, 60.0]
    return np.concatenate([spread, 4 * rng.standard_normal(8), ends, edges, -edges, np.nextafter(edges, np.inf)])


@pytest.mark.parametrize("beta", [0, 1, 2, 4, 1.25, 1.667, 2.5, 0.05, 0.5, 20])
@pytest.mark.parametrize(("variance", "margin"), [(1.0, 0.0), (0.37, -1.3)])
def test_double_precision(beta, variance, margin, rng):
    scaled = hard_points(float(beta), rng)
    omega = scaled * np.sqrt(variance) + margin
    log_z, g, dg = power_channel(omega - margin, variance, beta)
    tight = 1e-12 if beta in (0, 1, 2, 4) else 1e-10
    sigma = mp.sqrt(mp.mpf(variance))
    for i, field in enumerate(omega - margin):
        log_i, rho, curvature = exact_power(beta, mp.mpf(field) / sigma)
        assert relative(log_z[i], log_i + beta * mp.log(sigma), 1.0 if beta else 1e-300) < 1e-11
        assert relative(g[i], rho / sigma, 1e-300) < tight
        assert relative(dg[i], curvature / sigma**2, 1e-300) < tight


def exact_peaked(beta, x):
    """The same for a large exponent, by quadrature about the mode."""
    beta, x = mp.mpf(beta), mp.mpf(x)
    mode = (x + mp.sqrt(x * x + 4 * beta)) / 2
    ends = [mode * (1 + k / mp.sqrt(mode**2 + beta)) for k in range(-14, 20, 3)]

    def moment(k):
        return mp.quad(lambda u: u**k * mp.exp(beta * mp.log(u / mode) + (mode - x) ** 2 / 2 - (u - x) ** 2 / 2), ends)

    total, first = moment(0), moment(1)
    log_i = mp.log(total) + beta * mp.log(mode) - (mode - x) ** 2 / 2 - mp.log(2 * mp.pi) / 2
    rho = first / total - x
    return log_i, rho, beta - rho * (rho + x)


@pytest.mark.parametrize("beta", [256.0, 1e3, 1e6, 1e8])
def test_large_exponents(beta):
    for x in (-1e5, -40.0, -0.3, 0.0, 2.0, 300.0, 1e5):
        exact = exact_peaked(beta, x)
        for found, value in zip(log_power_moment(x, beta), exact):
            assert relative(found, value, 1e-300) < 2e-13


@pytest.mark.parametrize("beta", [0, 1, 2, 4, 1.25, 0.05, 20])
def test_single_precision(beta, rng):
    omega = hard_points(float(beta), rng).astype(np.float32).reshape(1, -1)
    channel = power_channel(omega, np.float32(1), beta)
    derivatives = gaussian_power_derivatives(omega, 1.0, beta)
    for i, x in enumerate(omega[0]):
        log_i, rho, curvature = exact_power(beta, float(x))
        assert relative(channel[0][0, i], log_i, 1.0) < 1e-6
        for g, dg in (channel[1:], derivatives):
            assert relative(g[0, i], rho, 1e-36) < 2e-6
            assert relative(dg[0, i], curvature, 1e-36) < 2e-6


def close(found, exact, sigma, tolerance=1e-11):
    scale = (1.0, sigma, sigma**2)
    return all(relative(f * s, e * s, 1.0) < tolerance for f, e, s in zip(found, exact, scale))


@pytest.mark.parametrize("width", [1e-6, 0.05, 1.0, 7.0])
@pytest.mark.parametrize("variance", [1e-4, 1.0, 30.0])
def test_band(width, variance):
    sigma = mp.sqrt(mp.mpf(variance))
    for x in (-1000.0, -40.0, -6.0, -1.0, -1e-9, 0.0, 0.3, 2.0, 10.0, 300.0):
        omega = x * float(sigma)
        low, high = (-width - mp.mpf(omega)) / sigma, (width - mp.mpf(omega)) / sigma
        with mp.workdps(100):
            z = mp.ncdf(high) - mp.ncdf(low) if low < 0 else mp.ncdf(-low) - mp.ncdf(-high)
            gamma = (mp.npdf(low) - mp.npdf(high)) / z
            curvature = (low * mp.npdf(low) - high * mp.npdf(high)) / z - gamma**2
            exact = (mp.log(z), gamma / sigma, curvature / sigma**2)
        assert close(band_channel(omega, variance, width), exact, float(sigma)), x


@pytest.mark.parametrize("beta", [0.0, 0.3, 4.0, 200.0, 1e4])
@pytest.mark.parametrize("variance", [1e-4, 1.0, 9.0])
def test_soft_potentials(beta, variance):
    sigma = mp.sqrt(mp.mpf(variance))
    for x in (-300.0, -30.0, -3.0, -0.1, 0.0, 1.0, 8.0, 60.0):
        omega = x * float(sigma)
        field = mp.mpf(omega) / sigma
        with mp.workdps(80):
            step = 1 - mp.exp(-beta)
            z = mp.ncdf(field) * step + mp.exp(-beta)
            gamma = step * mp.npdf(field) / z
            errors = (mp.log(z), gamma / sigma, -gamma * (gamma + field) / sigma**2)
            tilt = beta * sigma
            wrong = mp.exp(tilt * (field + tilt / 2)) * mp.ncdf(-field - tilt)
            z = mp.ncdf(field) + wrong
            gamma = tilt * wrong / z
            curvature = tilt * (tilt * wrong - mp.npdf(field)) / z - gamma**2
            hinge = (mp.log(z), gamma / sigma, curvature / sigma**2)
        assert close(errors_channel(omega, variance, beta), errors, float(sigma)), x
        assert close(hinge_channel(omega, variance, beta), hinge, float(sigma)), x
