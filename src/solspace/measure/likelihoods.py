"""Likelihoods as potentials: U = -log P(+1|s), with P(+1|s) + P(-1|s) = 1 and P(-1|s) = P(+1|-s), at T = 1.

With the labels folded into the patterns, the measure exp(-ΣU) is the posterior of the weights of a generalised linear model.
All are soft; a violated constraint is a training error. The step likelihood is the uniform potential.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit, log_expit, log_ndtr

from solspace.measure import channels
from solspace.measure.potentials import Potential
from solspace.measure.quadrature import prepare
from solspace.numerics.arrays import Channel, Reals, vanishing
from solspace.system.checks import number

REACH = 8.6  # half width of the trapezoidal rule in units of the Gaussian's: exp(-REACH²/2) is 1e-16
BLOCK = 1 << 15  # nodes at a time


@dataclass(frozen=True)
class _Likelihood(Potential):
    hard = False
    likelihood = True
    usual_temperature = 1.0


@dataclass(frozen=True)
class Logistic(_Likelihood):
    """U = log(1 + exp(-scale s)): the logistic likelihood.

    Parameters
    ----------
    scale : float, default 1.0
        Factor a of the stability, > 0.

    Examples
    --------
    >>> Logistic(2.0).log_weight([-1.0, 0.0, 1.0]).round(4)
    array([-2.1269, -0.6931, -0.1269])
    """

    scale: float = 1.0
    name = "logistic"

    def __post_init__(self) -> None:
        number(positive=True)("scale", self.scale)

    def log_weight(self, s: ArrayLike) -> Reals:
        return log_expit(self.scale * np.asarray(s, dtype=float))

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if beta == 0:
            return channels.linear_channel(omega, variance, 0.0)
        return logistic_channel(omega, variance, beta, self.scale)


@dataclass(frozen=True)
class Probit(_Likelihood):
    """U = -log Φ(s/noise): the label is the sign of the stability plus Gaussian noise.

    Parameters
    ----------
    noise : float, default 1.0
        Standard deviation σ of the noise, > 0.

    Examples
    --------
    >>> Probit(0.5).log_weight([-1.0, 0.0, 1.0]).round(4)
    array([-3.7832, -0.6931, -0.023 ])
    """

    noise: float = 1.0
    name = "probit"

    def __post_init__(self) -> None:
        number(positive=True)("noise", self.noise)

    def log_weight(self, s: ArrayLike) -> Reals:
        return log_ndtr(np.asarray(s, dtype=float) / self.noise)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if beta != 1:
            return super().channel(omega, variance, beta)
        dtype: Any = np.float32 if np.asarray(omega).dtype == np.float32 else np.float64
        field, spread, _ = prepare(omega, variance)
        log_z, g, dg = channels.power_channel(field, spread + self.noise**2, 0.0)
        return log_z.astype(dtype)[()], g.astype(dtype)[()], dg.astype(dtype)[()]


@dataclass(frozen=True)
class Flip(_Likelihood):
    """U = -log(1 - rate) on s > 0, -log(rate) on s < 0: labels are flipped with probability `rate`.

    Parameters
    ----------
    rate : float, default 0.1
        Probability ε of a wrong label, in (0, 1/2).

    Examples
    --------
    >>> Flip(0.1).log_weight([-1.0, 1.0]).round(4)
    array([-2.3026, -0.1054])
    """

    rate: float = 0.1
    name = "flip"

    def __post_init__(self) -> None:
        if not 0 < number()("rate", self.rate) < 0.5:
            raise ValueError(f"rate must lie between 0 and 1/2; got {self.rate!r}.")

    def log_weight(self, s: ArrayLike) -> Reals:
        logs: Reals = np.log([self.rate, 1 - self.rate])
        return logs[(np.asarray(s) >= 0).astype(int)]

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if beta == 0:
            return channels.linear_channel(omega, variance, 0.0)
        log_right = float(np.log1p(-self.rate))
        log_z, g, dg = channels.errors_channel(omega, variance, beta * (log_right - float(np.log(self.rate))))
        return np.asarray(log_z + log_z.dtype.type(beta * log_right))[()], g, dg


@vanishing
def logistic_channel(omega: ArrayLike, variance: ArrayLike, beta: float, scale: float) -> Channel:
    """Return (log Z, g, dg) of the weight (1 + exp(-scale s))^-beta.

    The integrand is log-concave and analytic in a strip: the trapezoidal rule about its mode converges geometrically. With
    l = log W, g = E l' and dg = E l'' + Var l', so that neither is a difference of large numbers where the weight is almost flat.
    """
    omega, variance, finish = prepare(omega, variance)
    shape, field, sigma = omega.shape, omega.ravel(), np.sqrt(variance).ravel()
    result = np.empty((3, field.size))
    order = np.argsort(sigma, kind="stable")
    # steps follow the widest Gaussian of a group: the nearest pole is at π/(scale σ)
    groups = np.floor(np.log2(np.maximum(scale * sigma[order], 0.5)) * 2)
    for own in np.split(order, np.flatnonzero(np.diff(groups)) + 1):
        step = min(0.7, 0.5 / (scale * sigma[own].max(initial=0.5 / scale)))
        half = np.ceil(REACH / step)
        nodes = step * np.arange(-half, half + 1)
        for part in np.array_split(own, -(-own.size * nodes.size // BLOCK)):
            result[:, part] = _logistic_moments(field[part], sigma[part], beta, scale, nodes)
    return finish(*result.reshape(3, *shape))


def _logistic_moments(field: Reals, sigma: Reals, beta: float, scale: float, nodes: Reals) -> Reals:
    # log Z, g σ and dg σ², shape (3, n)
    x, tilt = scale * field, scale * sigma
    low, high = np.zeros_like(x), beta * tilt
    centre = np.clip(-x / tilt, low, high)
    for _ in range(10):  # the mode in units of σ, where z = β tilt P(-1): Newton's method between bounds
        wrong = expit(-(x + tilt * centre))
        excess = centre - beta * tilt * wrong
        low, high = np.where(excess < 0, centre, low), np.where(excess > 0, centre, high)
        centre = centre - excess / (1 + beta * tilt**2 * wrong * (1 - wrong))
        centre = np.where((centre < low) | (centre > high), (low + high) / 2, centre)
    z = centre[:, None] + nodes
    s = x[:, None] + tilt[:, None] * z
    decay = np.exp(-np.abs(s))
    share = 1 / (1 + decay)
    top = beta * np.minimum(x + tilt * centre, 0.0) - centre**2 / 2
    weight = np.exp(beta * np.minimum(s, 0.0) - z * z / 2 - top[:, None]) * (share if beta == 1 else share**beta)
    wrong = np.where(s > 0, decay, 1.0) * share
    mass = weight.sum(axis=1)
    weight /= mass[:, None]
    mean = np.einsum("ij,ij->i", weight, wrong)
    bend = np.einsum("ij,ij,ij->i", weight, wrong, 1 - wrong)
    wrong -= mean[:, None]
    spread = np.einsum("ij,ij,ij->i", weight, wrong, wrong)
    log_z = np.log(mass * (nodes[1] - nodes[0]) / np.sqrt(2 * np.pi)) + top
    inside = np.flatnonzero((log_z > -0.3) & (centre < 0.1))  # almost all of the Gaussian is allowed: log Z is small
    if inside.size:
        gauss = np.exp(-(z[inside] ** 2) / 2) * ((nodes[1] - nodes[0]) / np.sqrt(2 * np.pi))
        lost = np.minimum(s[inside], 0.0) - np.log1p(decay[inside])
        log_z[inside] = np.log1p(np.einsum("ij,ij->i", gauss, np.expm1(beta * lost)))
    tilt = beta * tilt
    return np.array([log_z, tilt * mean, tilt**2 * np.minimum(spread - bend / beta, 0.0)])
