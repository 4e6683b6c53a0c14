"""Output channels: log Z, g and dg of a Gaussian stability under a constraint's weight.

    Z(omega, V) = int Ds W(omega + sqrt(V) s),   g = d log Z / d omega,   dg = d^2 log Z / d omega^2

with `omega` measured from the margin. The posterior of the stability has mean omega + V g and variance V + V^2 dg.
In the scaled field x = omega / sqrt(V) every channel is (log Z, gamma, curvature) with g = gamma / sqrt(V) and
dg = curvature / V; the closed forms below are written in x, in terms of the hazard phi / Phi of the normal law and of
the power moments, and rearranged so that no two large numbers are subtracted.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.quadrature import prepare
from solspace.numerics import power_table
from solspace.numerics.arrays import Channel, Reals, vanishing
from solspace.numerics.band_moments import band_moments, tilted_moments
from solspace.numerics.rules import legendre

LOG_SQRT_TWO_PI = np.float64(power_table.LOG_SQRT_TWO_PI)  # a double, which promotes single precision to double
STEEPEST = 60.0  # largest exponent at the walls, beside the middle of the band, that a quadratic term may reach there


def power_channel(omega: ArrayLike, variance: ArrayLike, beta: float, scaled: bool = False) -> Channel:
    """Return (log Z, g, dg) of the weight s^beta on s > 0, the step at beta = 0; see `numerics.power.gaussian_power`."""
    from solspace.numerics.power import gaussian_power  # imports Numba

    return gaussian_power(omega, variance, beta, scaled)


@vanishing
def log_quadratic_channel(
    omega: ArrayLike, variance: ArrayLike, beta: float, linear: float, quadratic: float
) -> Channel:
    """Return (log Z, g, dg) of the weight exp(-beta U) with U = -log s - `linear` s + `quadratic` s^2 on s > 0, `quadratic` >= 0.

    The tilt turns the Gaussian into one of variance V' = V / D and mean omega' = (omega + A V) / D, with
    A = beta linear, B = beta quadratic, D = 1 + 2 B V. On the far side, x' < 0, the exponents of the two Gaussians
    cancel but for -omega^2 / (2 V), and the posterior mean is small: both are used as they stand.
    """
    omega, variance, finish = prepare(omega, variance)
    a, b = beta * linear, beta * quadratic
    widening = 1.0 + 2.0 * b * variance
    sigma = np.sqrt(variance)
    x = (omega + a * variance) / (sigma * np.sqrt(widening))
    log_i, rho, curvature = power_channel(x, 1.0, beta, scaled=True)
    shifted = (omega * (a - b * omega) + 0.5 * a * a * variance) / widening
    exponent = np.where(x < 0, -0.5 * omega**2 / variance, shifted)
    log_z = log_i + exponent + 0.5 * (beta * np.log(variance) - (beta + 1.0) * np.log(widening))
    mean = np.where(x < 0, _mean(x, rho, curvature, beta), 0.0)
    far = mean / np.sqrt(widening) - omega / sigma
    near = rho / np.sqrt(widening) + sigma * (a - 2.0 * b * omega) / widening
    return finish(log_z, np.where(x < 0, far, near), (curvature - 2.0 * b * variance) / widening)


@vanishing
def errors_channel(omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
    """Return (log Z, g, dg) of the weight 1 on s > 0 and exp(-`beta`) on s < 0.

    Z = Phi(x) + exp(-beta) Phi(-x). With the hazard rho = phi / Phi and delta = exp(-beta) / ((1 - exp(-beta)) phi(x)),
    gamma = rho / (1 + rho delta) and curvature = -gamma (gamma + x).
    """
    omega, variance, finish = prepare(omega, variance)
    x = omega / np.sqrt(variance)
    log_right, rho, curvature = power_channel(x, 1.0, 0.0)
    log_wrong = power_channel(-x, 1.0, 0.0)[0]
    step = -np.expm1(-beta)
    with np.errstate(all="ignore"):
        lost = step * np.exp(log_wrong)
        log_z = np.where(lost < 0.5, np.log1p(-lost), np.logaddexp(log_right, log_wrong - beta))
        mixing = rho * np.exp(0.5 * x * x + LOG_SQRT_TWO_PI - beta) / step  # rho delta
        gamma = np.where(rho > 0, rho / (1.0 + mixing), 0.0)
        below = np.where(np.isinf(mixing), -x, rho / (1.0 / mixing + 1.0))
        shifted = np.where(x < 0, -curvature / rho - below, gamma + x)  # gamma + x
    return finish(log_z, gamma, -gamma * shifted)


@vanishing
def hinge_channel(omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
    """Return (log Z, g, dg) of the weight 1 on s > 0 and exp(`beta` s) on s < 0.

    With B = beta sqrt(V), y = x + B and the hazard rho = phi / Phi, the posterior share of s < 0 is
    p = rho(x) / (rho(x) + rho(-y)); K(x) = rho(x) + x and K(-y) = rho(-y) - y are the mean distances on either side,

        gamma = B p,   curvature = -B p (1 - p) (K(x) + K(-y)).
    """
    omega, variance, finish = prepare(omega, variance)
    tilt = beta * np.sqrt(variance)
    x = omega / np.sqrt(variance)
    y = x + tilt
    right = power_channel(x, 1.0, 0.0)
    wrong = power_channel(-y, 1.0, 0.0)
    total = right[1] + wrong[1]
    p, q = right[1] / total, wrong[1] / total
    with np.errstate(divide="ignore"):
        log_z = np.where(p < 0.5, right[0] - np.log1p(-p), tilt * (x + 0.5 * tilt) + wrong[0] - np.log(p))
    spread = _mean(x, right[1], right[2], 0.0) + _mean(-y, wrong[1], wrong[2], 0.0)
    return finish(log_z, tilt * p, -tilt * p * q * spread)


def linear_channel(omega: ArrayLike, variance: ArrayLike, slope: float, height: float = 0.0) -> Channel:
    """Return (log Z, g, dg) of the weight exp(height + `slope` s) on the whole line, free of rounding where it is 1."""
    omega, variance, finish = prepare(omega, variance)
    log_z = height + slope * (omega + 0.5 * slope * variance)
    return finish(log_z, slope * np.sqrt(variance), np.zeros_like(omega))


@vanishing
def band_channel(omega: ArrayLike, variance: ArrayLike, width: float) -> Channel:
    """Return (log Z, g, dg) of the weight 1 on abs(s) <= `width`.

    Z = Phi((w - omega) / sqrt(V)) - Phi((-w - omega) / sqrt(V)), in the form that cancels nothing.
    """
    omega, variance, finish = prepare(omega, variance)
    sigma = np.sqrt(variance)
    c = np.abs(omega / sigma).ravel()
    d = np.minimum(width / sigma.ravel(), c + 60.0)
    parts = np.empty((3, c.size))
    inside = (c <= d) & (d >= 1.0)
    tail = (c > d) & (c * d >= 3.0)
    for where, formula in ((inside, _band_inside), (tail, _band_tail), (~(inside | tail), _band_narrow)):
        if where.any():
            parts[:, where] = formula(c[where], d[where])
    log_z, gamma, curvature = parts.reshape(3, *omega.shape)
    return finish(log_z, np.where(omega < 0, gamma, -gamma), curvature)


@vanishing
def log_band_channel(
    omega: ArrayLike, variance: ArrayLike, beta: float, width: float, quadratic: float = 0.0
) -> Channel:
    """Return (log Z, g, dg) of the weight exp(-beta U) with U = -log(`width`^2 - s^2) + `quadratic` s^2 on the band.

    With y = s / width this is width^(2 beta) times the average of (1 - y^2)^beta over a Gaussian, by rules that are exact
    to rounding for every real beta (`numerics.band_moments`). The quadratic term turns the Gaussian into one of variance
    V / D and mean omega / D, D = 1 + 2 B V, B = beta quadratic; where D is small or negative, the walls hold the mass.

    >>> log_z, g, dg = log_band_channel(0.0, 1.0, 1.0, 1.0)
    >>> round(float(np.exp(log_z)), 12)
    0.483941449038
    """
    if beta == 0.0:
        return band_channel(omega, variance, width)
    omega, variance, finish = prepare(omega, variance)
    b = beta * quadratic
    if 2.0 * b * width**2 < -STEEPEST:
        raise ValueError(
            f"the quadratic term {quadratic:g} at inverse temperature {beta:g} pushes too hard against the walls at "
            f"{width:g}: take one of at least {-0.5 * STEEPEST / (beta * width**2):g}."
        )
    widening = 1.0 + 2.0 * b * variance
    size = np.abs(omega).ravel()
    parts = np.empty((3, size.size))
    narrow = widening.ravel() > 0.25
    for where, rule in ((narrow, _tilted_gaussian), (~narrow, _tilted_band)):
        if where.any():
            parts[:, where] = rule(size[where], variance.ravel()[where], beta, width, b)
    log_z, gamma, curvature = parts.reshape(3, *omega.shape)
    return finish(log_z, np.where(omega < 0, -gamma, gamma), curvature)


def _tilted_gaussian(omega: Reals, variance: Reals, beta: float, width: float, b: float) -> Channel:
    # the weight's exp(-b s^2) taken into the Gaussian; `omega` >= 0
    widening = 1.0 + 2.0 * b * variance
    sigma = np.sqrt(variance / widening)
    log_z, gamma, curvature = band_moments(omega / (widening * sigma), width / sigma, beta)
    log_z += 2.0 * beta * np.log(width) - 0.5 * np.log(widening) - b * omega**2 / widening
    gamma = np.where(omega > 0, gamma, 0.0) / np.sqrt(widening) - 2.0 * b * omega * np.sqrt(variance) / widening
    return log_z, gamma, (curvature - 2.0 * b * variance) / widening


def _tilted_band(omega: Reals, variance: Reals, beta: float, width: float, b: float) -> Channel:
    # the same where exp(-b s^2) grows faster than the Gaussian falls, or nearly: the walls alone hold the mass
    pull, bend = omega * width / variance, width**2 * (1.0 / variance + 2.0 * b)
    log_j, mean, spread = tilted_moments(pull.astype(np.float64), bend.astype(np.float64), beta)
    sigma = np.sqrt(variance)
    log_z = log_j + (2.0 * beta + 1.0) * np.log(width) - np.log(sigma) - 0.5 * omega**2 / variance - LOG_SQRT_TWO_PI
    return log_z, (width * mean - omega) / sigma, width**2 * spread / variance - 1.0


def _band_inside(c: Reals, d: Reals) -> Channel:
    # c = |omega| / sqrt(V) <= d = width / sqrt(V), d >= 1: Z = 1 - Phi(c - d) - Phi(-c - d)
    log_upper, _, _ = power_channel(c - d, 1.0, 0.0)
    log_lower, _, _ = power_channel(-c - d, 1.0, 0.0)
    outside = np.exp(log_upper) + np.exp(log_lower)
    z = 1.0 - outside
    near, far = (np.exp(-0.5 * x * x - LOG_SQRT_TWO_PI) / z for x in (d - c, d + c))
    gamma = near * -np.expm1(-2.0 * c * d)
    return np.log1p(-outside), gamma, -((d + c) * far + (d - c) * near) - gamma * gamma


def _band_tail(c: Reals, d: Reals) -> Channel:
    # one-sided tail at h = c - d, corrected by the far edge; e = exp(-2 c d) <= exp(-6)
    log_tail, near, near_curvature = power_channel(d - c, 1.0, 0.0)
    _, far, _ = power_channel(-c - d, 1.0, 0.0)
    excess = -near_curvature / near  # near - h, accurately
    e = np.exp(-2.0 * c * d)
    r = e * near / far
    gamma = near * (1.0 - e) / (1.0 - r)
    bracket = -excess - r * (c - d) - (c + d) * e * (1.0 - r) + near * e * (2.0 - e)
    return log_tail + np.log1p(-r), gamma, near * bracket / (1.0 - r) ** 2


def _band_narrow(c: Reals, d: Reals) -> Channel:
    # Gauss-Legendre in s = sqrt(V) d y; the weight exp(-d^2 y^2 / 2 + c d y) is entire and nearly flat
    nodes, share = legendre(24)
    y, p = 2.0 * nodes - 1.0, (c * d)[:, None]
    weight = 2.0 * share * np.exp(p * (y - 1.0) - 0.5 * (d[:, None] * y) ** 2)
    total = weight.sum(axis=1)
    mean = (weight @ y) / total
    spread = (weight * (y - mean[:, None]) ** 2).sum(axis=1) / total
    log_z = np.log(d * total) + c * d - 0.5 * c * c - LOG_SQRT_TWO_PI
    gamma = -np.expm1(-2.0 * c * d) * np.exp(-0.5 * d * d) / (d * total)
    return log_z, gamma, d * d * spread - 1.0


def _mean(x: Reals, rho: Reals, curvature: Reals, beta: float) -> Reals:
    # posterior mean K = rho + x of the power weight, from (log I)'' = beta - rho K where rho + x would cancel
    return np.where(x < -1.0, (beta - curvature) / np.where(x < -1.0, rho, 1.0), rho + x)
