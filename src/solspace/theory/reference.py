"""The reference system: replica-symmetric equilibrium of a target at load α (theory notes 2).

One equation for one unknown, the conjugate r̂: r̂ = α E[g(√r γ, 1-r)²] with r = r(r̂) given by the prior. As a function of
log r̂ the mismatch log r̂ - log α E g² rises through zero at a solution; the smallest one is taken, the one that message
passing reaches from no knowledge. Where the potential is even about zero field, r = 0 solves it at every load.

The same equation read backwards, α(r̂) = r̂ / E g², gives every load of the branch without solving anything:
thresholds use it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Band, Uniform
from solspace.numerics.arrays import Reals
from solspace.numerics.roots import Index, bracketed_newton
from solspace.numerics.status import Status
from solspace.theory.cavity import reference_averages
from solspace.theory.weights import weights_of

LARGEST = 1e17  # conjugate at which the search for a solution ends: 1 - r is about 3e-9 there
STRIDE = 2.5  # factor between the conjugates tried on the way up; four of them are tried at a time
ACCURACY = 1e-11
LEVELS = 3
COLDEST = 1e-4  # lowest temperature: the free entropy grows like 1/T, and below it its rounding would drown the entropy's digits


@dataclass(frozen=True)
class Equilibrium:
    """A solution of the reference equation: order parameters and what follows from them at once."""

    target: Target
    alpha: float
    conjugate: float
    overlap: float
    variance: float
    norm_conjugate: float | None
    free_entropy: float
    replicon: float
    accuracy: float
    status: Status
    level: int


def solve(target: Target, alpha: float) -> Equilibrium:
    """Return the equilibrium of `target` at load `alpha`.

    >>> round(solve(Target("spherical", "uniform"), 1.0).overlap, 11)
    0.58531185179
    """
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha must be a positive, finite number; got {alpha!r}.")
    check(target)
    conjugate, root = (0.0, Status.CONVERGED) if target.even else _conjugate(target, alpha, 0)
    for level in range(LEVELS):
        error = _error(target, conjugate, level)
        if error < ACCURACY:
            break
        if conjugate > 0 and level + 1 < LEVELS:
            conjugate, root = _conjugate(target, alpha, level + 1)
    return equilibrium(target, conjugate, alpha, level, error, root)


def check(target: Target) -> None:
    """Raise ValueError where theory cannot follow: it stops at T = 1e-4, unless the potential does not feel T."""
    flat = isinstance(target.potential, (Uniform, Band))
    if target.temperature < COLDEST and not flat:
        raise ValueError(
            f"temperature must be at least {COLDEST:g} for replica theory; got {target.temperature:g}. Overlaps have "
            "reached their limit T → 0 there, but for terms of the order of T."
        )


def equilibrium(
    target: Target,
    conjugate: float,
    alpha: float | None = None,
    level: int = 0,
    accuracy: float = 0.0,
    root: Status = Status.CONVERGED,
) -> Equilibrium:
    """Return the equilibrium with this `conjugate`; its load follows from the equation unless `alpha` is given.

    `accuracy` and `root` say how well the conjugate is known: the error of the integrals, and how its search ended.
    """
    weights = weights_of(target.prior).reference([conjugate])
    log_z, g2, dg2, _ = (float(a[0]) for a in reference_averages(target, weights.overlap, weights.variance, level))
    load = conjugate / g2 if alpha is None else float(alpha)
    norm = None if weights.norm_conjugate is None else float(weights.norm_conjugate[0])
    return Equilibrium(
        target,
        load,
        float(conjugate),
        float(weights.overlap[0]),
        float(weights.variance[0]),
        norm,
        float(weights.entropy[0]) + load * log_z,
        load * dg2 * float(weights.susceptibility[0]),
        accuracy,
        root.then(Status.of_error(accuracy)),
        level,
    )


def loads(target: Target, conjugate: Reals, level: int = 0) -> Reals:
    """Return the load α(r̂) = r̂ / E g² that each conjugate belongs to.

    >>> loads(Target("spherical", "uniform"), np.array([3.4036435455])).round(9)
    array([1.])
    """
    weights = weights_of(target.prior).reference(conjugate)
    g2 = reference_averages(target, weights.overlap, weights.variance, level)[1]
    with np.errstate(divide="ignore"):
        return conjugate / g2


def _conjugate(target: Target, alpha: float, level: int) -> tuple[float, Status]:
    # α E g² grows with the overlap, so its value without any is a lower bound: climb from there
    low = alpha * float(target.channel(0.0, 1.0)[1]) ** 2
    highest = 0.0
    while low < LARGEST:
        tried = low * STRIDE ** np.arange(1, 5)
        reached = loads(target, tried, level)
        above = np.flatnonzero(reached > alpha)
        if len(above):
            high = tried[above[0]]
            low = max(low, high / STRIDE)
            break
        low, highest = tried[-1], max(highest, float(reached.max()))
    else:
        raise ValueError(
            f"no replica-symmetric solution at alpha = {alpha:g} for {target}: the loads of the equations end at about "
            f"{highest:.6g}, where the overlap reaches 1 and no solution is left. Take a smaller alpha."
        )

    def mismatch(x: Reals, index: Index) -> tuple[Reals, Reals]:
        conjugate = np.exp(x)
        weights = weights_of(target.prior).reference(conjugate)
        _, g2, _, slope = reference_averages(target, weights.overlap, weights.variance, level)
        return x - np.log(alpha * g2), 1 - conjugate * weights.slope * slope / g2

    start = np.log(high) - np.log(reached[above[0]] / alpha) / 2
    found = bracketed_newton(mismatch, [np.log(low) - 1e-9], [np.log(high)], [start])
    return float(np.exp(found.x[0])), found.status


def sufficient_level(target: Target, conjugate: float) -> int:
    """Return the first refinement at which halving every panel once more changes nothing, or the last one there is."""
    return next((level for level in range(LEVELS) if _error(target, conjugate, level) < ACCURACY), LEVELS - 1)


def _error(target: Target, conjugate: float, level: int) -> float:
    # how much the integrals move when every panel is halved
    weights = weights_of(target.prior).reference([conjugate])
    coarse, fine = (reference_averages(target, weights.overlap, weights.variance, n) for n in (level, level + 1))
    (log_z, g2, dg2), found = fine[:3, 0].tolist(), coarse[:3, 0].tolist()
    # where log W is linear g' is rounding only, and its digits say nothing
    scales = (abs(log_z), g2, max(dg2, 1e-12 * g2**2))
    return max(abs(c - f) / scale if scale else 0.0 for c, f, scale in zip(found, (log_z, g2, dg2), scales))
