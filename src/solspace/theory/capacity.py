"""The load at which the constraints of a target (s >= κ, or a band) stop having solutions, whatever the potential.

*Sphere*: Gardner's α = 1 / E[dist(z, allowed)²], right where solutions form one convex set (margin >= 0). Below, with one step
of replica symmetry breaking (theory notes 7), the minimum over (m, q₀) of -S/E, itself an approximation from above,

    S = log(D)/2 + m q₀/(2D),  D = 1 + m(1 - q₀),  E = ∫Dz log ∫Du exp(-m dist(√q₀ z + √(1-q₀) u, allowed)²/2).

*Discrete weights*: the entropy of the uniform measure on the solutions reaches zero (Krauth and Mézard: 0.833 at κ = 0 for
±1); a bound from above where replica symmetry is unstable there. That of another measure vanishes earlier:
`Thresholds.zero_entropy`. *Weights of any norm*: none where zero meets the constraints, else Gardner's at the best norm.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.special import log_ndtr, ndtr

from solspace.measure import Target
from solspace.measure.potentials import Band, Potential, Uniform
from solspace.measure.priors import Gaussian, Levels, Prior
from solspace.numerics.arrays import Bools, Reals, vanishing
from solspace.theory.branch import Branch
from solspace.theory.cavity import Kinks, reference_nodes

WHOLE = (-np.inf, np.inf)
CLOSEST, STRETCHES = 25.0, (-12.0, 30.0)  # largest logit of q₀, range of log m(1 - q₀): S and E round to nothing beyond
_SEARCH = {"xatol": 1e-7, "fatol": 1e-14, "maxiter": 600}
# of the one-sided problem at some margins, log m(1 - q₀) and logit q₀: where the search starts
_MARGINS = (-6.0, -4.0, -2.5, -2.0, -1.0, -0.5, -0.1, -0.01)
_STARTS = (6.176, 4.991, 3.475, 2.704, 1.424, 0.979, 0.749, 0.69), (-10.0, -6.9, -2.27, -1.01, 0.686, 1.775, 4.46, 9.0)


def _runs(target: Target) -> tuple[tuple[float, float], ...]:
    edges = np.unique([0.0, *target.potential.breakpoints])
    middle = np.concatenate([edges[:1] - 1, (edges[1:] + edges[:-1]) / 2, edges[-1:] + 1])
    missed = np.concatenate([[True], target.potential.violated(middle), [True]])
    change = np.flatnonzero(np.diff(missed))
    ends = (np.array([-np.inf, *edges, np.inf])[change] + target.margin).tolist()
    return tuple(zip(ends[::2], ends[1::2]))


def _intervals(target: Target) -> tuple[tuple[float, float], ...]:
    runs = _runs(target)
    # patterns have no preferred sign: an interval and its mirror image are equally hard
    return tuple((low, high) if low + high >= 0 else (-high, -low) for low, high in runs) if len(runs) == 1 else runs


def _allowed(target: Target) -> tuple[float, float] | None:
    # the interval that meets the constraints; None where all stabilities do, or several intervals
    runs = _intervals(target)
    return runs[0] if len(runs) == 1 and runs[0] != WHOLE else None


def capacity(target: Target) -> float | None:
    """Return the load at which the constraints of `target` stop having solutions; None where they never do.

    None as well on the sphere where the allowed stabilities are several intervals: no formula here covers them.

    >>> round(capacity(Target(temperature=0.3)), 7), capacity(Target("spherical", "hinge"))
    (0.8330786, 2.0)
    """
    runs = _intervals(target)
    if WHOLE in runs:
        return None
    if target.prior.discrete:
        # whatever the probabilities of the levels
        return _discrete(Levels(target.prior.values) if isinstance(target.prior, Levels) else target.prior, runs)
    if isinstance(target.prior, Gaussian):
        return _any_norm(runs)
    return min((load for load in (gardner(target), one_step(target)) if load is not None), default=None)


@lru_cache(maxsize=1024)
def _discrete(prior: Prior, runs: tuple[tuple[float, float], ...]) -> float | None:
    return Branch(_uniform(prior, runs)).zero_entropy


def counting(target: Target) -> Target:
    """Return the uniform measure on the weights that meet the constraints of `target`.

    >>> str(counting(Target(temperature=0.3, margin=0.1))), str(counting(Target(potential="log_band(1)")))
    ('binary weights, uniform potential, margin 0.1', 'binary weights, band(1) potential, margin 0')
    """
    return _uniform(target.prior, _runs(target))


def _uniform(prior: Prior, runs: tuple[tuple[float, float], ...]) -> Target:
    low, high = runs[0]
    if len(runs) == 1 and np.isfinite(low) and np.isinf(high):
        return Target(prior, Uniform(), np.inf, low)
    if len(runs) == 1 and np.isfinite([low, high]).all():
        return Target(prior, Band((high - low) / 2), np.inf, (low + high) / 2)
    return Target(prior, _Union(runs), np.inf)


def _any_norm(runs: tuple[tuple[float, float], ...]) -> float | None:
    # of real weights: no weights at all meet constraints that zero meets, and any norm will do for the others
    if len(runs) != 1 or runs[0][0] < 0 < runs[0][1]:
        return None
    low, high = runs[0]
    if np.isinf(high):
        return 2.0
    loads = [
        1 / (_second_moment(low / norm) + _second_moment(-high / norm)) for norm in np.geomspace(1e-2, 1e2, 4001) * high
    ]
    return float(max(loads))


@dataclass(frozen=True)
class _Union(Potential):
    """U = 0 on several intervals, infinite elsewhere."""

    runs: tuple[tuple[float, float], ...]

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        return tuple(end for run in self.runs for end in run if np.isfinite(end))

    def log_weight(self, s: ArrayLike) -> Reals:
        inside = [(low <= np.asarray(s)) & (np.asarray(s) <= high) for low, high in self.runs]
        return np.where(np.any(inside, axis=0), 0.0, -np.inf)

    def violated(self, s: ArrayLike) -> Bools:
        return np.isneginf(self.log_weight(s))


def gardner(target: Target) -> float | None:
    """Return the replica-symmetric capacity of the sphere, None where `capacity` is, or the allowed band is even.

    >>> round(gardner(Target("spherical", "uniform", margin=-1.0)), 6)
    13.2732
    """
    allowed = _allowed(target)
    if allowed is None or allowed[0] == -allowed[1]:
        return None
    return float(1 / (_second_moment(allowed[0]) + _second_moment(-allowed[1])))


def one_step(target: Target) -> float | None:
    """Return the capacity of the sphere with one step of replica symmetry breaking.

    >>> round(one_step(Target("spherical", "uniform", margin=-2.5)), 6)
    509.706659
    """
    allowed = _allowed(target)
    if allowed is None:
        return None
    low, high = allowed
    if np.isinf(high) and low >= 0:
        return gardner(target)
    return _one_step(low, high)


def _second_moment(kappa: float) -> float:
    # E[(κ - z)₊²]; by the tail's own scale where κ is far below zero
    if kappa > -5:
        return float((1 + kappa**2) * ndtr(kappa) + kappa * np.exp(-(kappa**2) / 2) / np.sqrt(2 * np.pi))
    from solspace.numerics.power import log_power_moment

    return float(np.exp(log_power_moment(kappa, 2.0)[0]))


@lru_cache(maxsize=256)
def _one_step(low: float, high: float) -> float:
    even = low == -high

    def load(x: Reals) -> float:
        # where one step breaks nothing, q₀ → 1 gives Gardner's value: the search stops short of it
        rest = 1.0 if even else float(1 / (1 + np.exp(min(x[1], CLOSEST))))
        return float(np.log(_load(low, high, float(np.exp(np.clip(x[0], *STRETCHES))), rest)))

    start = np.array([np.interp(low, _MARGINS, values) for values in _STARTS])
    shifts = (0.0,) if np.isinf(high) else (0.0, -2.0, 2.0)
    starts = [start[: 1 if even else 2] + shift for shift in shifts]
    return float(np.exp(min(minimize(load, x, method="Nelder-Mead", options=_SEARCH).fun for x in starts)))


@vanishing
def _load(low: float, high: float, stretch: float, rest: float) -> float:
    # -S/E at m(1 - q₀) = stretch and 1 - q₀ = rest
    m, q0 = stretch / rest, 1 - rest
    d, width = 1 + stretch, np.sqrt(rest)
    entropy = np.log(d) / 2 + m * q0 / (2 * d)
    field, weight = np.zeros(1), np.ones(1)
    if q0 > 0:
        points = Kinks(tuple(end for end in (low, high) if np.isfinite(end)), ())
        field, weight = (rows[0] for rows in reference_nodes(points, q0, rest))
    terms = [_log_interval((low - field) / width, (high - field) / width)]
    for distance in (low - field, field - high):
        if np.isfinite(distance).all():
            terms.append(-np.log(d) / 2 - m * distance**2 / (2 * d) + log_ndtr(distance / (width * np.sqrt(d))))
    # the sum is close to one where all is allowed: its logarithm comes from what is missing
    missing = np.exp(log_ndtr((low - field) / width)) + np.exp(log_ndtr((field - high) / width))
    gained = sum(np.exp(term) for term in terms[1:])
    log_sum = np.where(
        missing < 0.5, np.log1p(gained - np.minimum(missing, 0.5)), np.logaddexp.reduce(np.array(terms), axis=0)
    )
    return -entropy / float(weight @ log_sum)


def _log_interval(low: Reals, high: Reals) -> Reals:
    # log of the Gaussian mass between low and high, from the side where it is not a difference of ones
    flip = low > 0
    near, far = np.where(flip, -low, high), np.where(flip, -high, low)
    with np.errstate(divide="ignore"):
        return log_ndtr(near) + np.log1p(-np.exp(np.minimum(log_ndtr(far) - log_ndtr(near), 0.0)))
