"""The end of localization, q → 1: does φ_t keep a maximum at q = 1? (theory notes 5)

With ε = 1 - q, 2 dφ_t/dq = t - q̂ + α E_q[g²]. The prior's term q̂ grows like 1/ε (sphere) or 2 log 1/ε (±1 weights); the
constraints' term depends on how the weight W(s) behaves where constraints are only just met:

* W jumps: dG_E/dq = C ε^(-1/2), C = Σ P(b⁺) J/2 over the jumps, J = ∫φ²/Φ for a wall;
* W ~ (s - b)^ν at a wall: ε^((ν-1)/2) for ν < 1, log 1/ε for ν = 1, and a finite limit for ν > 1;
* log W ~ |s - b|^a at a cusp with a < 1/2: ε^(a - 1/2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

from solspace.measure import Target
from solspace.measure.potentials import scaled_log_weight
from solspace.measure.priors import Levels
from solspace.numerics.power import log_power_moment
from solspace.system.plain import Record, Values
from solspace.theory.cavity import kinks
from solspace.theory.reference import Equilibrium

CLOSE = 1e-6  # distance from a wall below which the log weight's slope is that of the power alone
NEGLIGIBLE = 50.0  # fall of log W near a wall beyond which the weight counts as zero


class Wall(NamedTuple):
    """The weight W(s) at a breakpoint `at`, with the larger weight on its `side`."""

    at: float
    side: int
    kind: str  # "jump" (hard wall with U finite, soft step), "power" (W ~ (s - b)^ν), "cusp" (log W = c + d |s - b|^a), "smooth"
    exponent: float
    contrast: float  # e^-contrast is the ratio of the smaller to the larger weight at a jump; infinite at a wall

    @property
    def divergence(self) -> float:
        """γ of what the wall adds to E_q[g²] ~ (1-q)^-γ: 0 stands for a logarithm, less for what is finite."""
        return {"jump": 0.5, "power": (1 - self.exponent) / 2, "cusp": 0.5 - self.exponent}.get(self.kind, -np.inf)


def walls(target: Target) -> list[Wall]:
    """Return what happens at each breakpoint of the target's weight."""
    found = []
    points = kinks(target)
    for at, (left, right) in zip(points.at, points.forbidden):
        if not (left or right):
            found.append(_between_allowed(target, at))
        elif not (left and right):  # W ~ distance^ν
            side = 1 if left else -1
            near, far = (_log_weight(target, at, side * h) for h in (1e-9, 1e-8))
            exponent = np.inf if np.isneginf(near) else round(float((far - near) / np.log(10.0)), 6)
            found.append(Wall(at, side, "jump" if exponent == 0 else "power", exponent, np.inf))
    return found


def _log_weight(target: Target, at: float, step: float) -> float:
    # at the distance `step` from a breakpoint, counted from the margin, where the potential lives: it loses no digits
    return float(scaled_log_weight(target.potential, at - target.margin + step, target.beta))


def _between_allowed(target: Target, at: float) -> Wall:
    below, above = (float(target.log_weight(at + side * 1e-13 * (1 + abs(at)))) for side in (-1, 1))
    side = 1 if above >= below else -1
    if abs(above - below) > 1e-3 * (1 + abs(target.beta)):
        return Wall(at, side, "jump", 0.0, abs(above - below))
    # log W = c + d |s|^a: the exponent of its change with the distance
    for direction in (-1, 1):
        base = _log_weight(target, at, 0.0)
        near, far = (abs(_log_weight(target, at, direction * h) - base) for h in (1e-9, 1e-7))
        if near > 0 and far > 0:
            exponent = np.log(far / near) / np.log(100.0)
            if exponent < 0.5 + 1e-3:
                return Wall(at, direction, "cusp", min(round(float(exponent), 3), 0.5), 0.0)
    return Wall(at, side, "smooth", 1.0, 0.0)


def divergence(target: Target) -> tuple[float, bool]:
    """Return γ of E_q[g²] ~ (1-q)^-γ, zero where it is finite, and whether it diverges like a logarithm."""
    powers = [wall.divergence for wall in walls(target)]
    gamma = max([0.0, *powers])
    return gamma, gamma == 0 and 0.0 in powers


def smallest_scale(target: Target) -> float:
    """Return the smallest distance from a breakpoint at which the weight stops looking like a power of the distance."""
    steps = 2.0 ** -np.arange(60.0)
    smallest = 1.0
    points = kinks(target)
    for at, forbidden in zip(points.at, points.forbidden):
        for side, void in zip((-1, 1), forbidden):
            if void:
                continue
            # smaller distances than 2^-30 are below the rounding of a breakpoint that is not zero
            weight = np.array([_log_weight(target, at, side * h) for h in steps[: 30 if at != target.margin else None]])
            with np.errstate(invalid="ignore"):  # of the power that W follows between distances that halve
                exponent = -np.diff(weight) / np.log(2.0)
            if not abs(exponent[-1] - exponent[-2]) < 0.3:
                # no power at any distance, as exp(-1/s): look where W counts
                exponent = exponent[: np.flatnonzero(weight >= weight.max() - NEGLIGIBLE)[-1]]
            moved = np.flatnonzero(np.abs(exponent - exponent[-1:]) > 0.3)
            smallest = min([smallest, *steps[moved[-1:]].tolist()])
    return smallest


@dataclass(frozen=True)
class Edge(Record):
    """The behaviour of φ_t at q → 1.

    Attributes
    ----------
    maximum_at_one : bool
        Whether φ_t rises towards q = 1.
    divergence : float
        γ in dG_E/dq = `constant` (1-q)^-γ; 0 with `logarithmic`: constant · log 1/(1-q).
    constant : float or None
        The constant of a divergence.
    limit : float or None
        dG_E/dq at q = 1 where it is finite.
    logarithmic : bool
        Whether dG_E/dq diverges like a logarithm.
    conjugate_growth : float
        Power of 1/(1-q) with which the weights' own term diverges; 0 stands for 2 log 1/(1-q).
    words : str
        The same in a sentence.
    """

    maximum_at_one: bool
    divergence: float
    constant: float | None
    limit: float | None
    logarithmic: bool
    conjugate_growth: float
    words: str

    @property
    def slope_sign(self) -> int:
        """The sign of dφ_t/dq as q → 1."""
        return 1 if self.maximum_at_one else -1

    def _values(self) -> Values:
        return super()._values() | {"slope_sign": self.slope_sign}

    def __str__(self) -> str:
        return self.words


def maximum_at_one(equilibrium: Equilibrium) -> bool:
    """Return whether φ_t rises towards q = 1, at every t."""
    limit = instability_at_one(equilibrium)
    if limit is not None:
        return limit > 1
    return bool(divergence(equilibrium.target)[0] > equilibrium.target.prior.conjugate_growth)


def instability_at_one(equilibrium: Equilibrium) -> float | None:
    """Return λ as q → 1 where it is neither 0 nor infinite: ±1 weights, and a divergence like a logarithm.

    α E_q[g²] = α p log(1/ε)/2 stands against q̂ = 2 log(1/ε), or 8/δ² log(1/ε) of levels δ apart; λ is the ratio of their
    slopes, to a relative 1/log(1/ε).
    """
    if not equilibrium.target.prior.discrete or not divergence(equilibrium.target)[1]:
        return None
    return equilibrium.alpha * (_constant(equilibrium) or 0.0) * _gap(equilibrium.target) ** 2 / 4


def _gap(target: Target) -> float:
    # smallest distance of two levels: q̂ grows like 8/gap² log 1/(Q - q)
    return float(np.diff(target.prior.values).min()) if isinstance(target.prior, Levels) else 2.0


def edge(equilibrium: Equilibrium) -> Edge:
    """Return the behaviour of `equilibrium` at q → 1.

    >>> from solspace.measure import Target
    >>> from solspace.theory.reference import solve
    >>> round(edge(solve(Target("binary", "uniform"), 0.5)).constant, 11)
    0.46585946876
    """
    gamma, logarithmic = divergence(equilibrium.target)
    constant = _constant(equilibrium)
    limit = None if gamma > 0 or logarithmic else _limit(equilibrium)
    growth = equilibrium.target.prior.conjugate_growth
    found = Edge(maximum_at_one(equilibrium), gamma, constant, limit, logarithmic, growth, "")
    words = _words(found, equilibrium.target)
    if equilibrium.norm != 1:
        words = words.replace("q → 1", "q → Q").replace("q = 1", "q = Q").replace("1-q", "Q-q")
    return replace(found, words=words)


def _constant(equilibrium: Equilibrium) -> float | None:
    # of dG_E/dq = E_q[g²]/2 where it diverges; None too at cusps steeper than a square root
    gamma, logarithmic = divergence(equilibrium.target)
    leading = [wall for wall in walls(equilibrium.target) if wall.divergence == gamma]
    if not leading or (gamma > 0 and any(wall.kind == "cusp" for wall in leading)):
        return None
    return float(sum(_rate(equilibrium, wall) for wall in leading)) / (4 if logarithmic else 2)


def _rate(equilibrium: Equilibrium, wall: Wall) -> float:
    # p in E_q[g²] = p ε^-γ, or p log(1/ε)/2 where γ = 0
    from scipy.integrate import quad

    h = 1e-12 * (1 + abs(wall.at)) if wall.kind == "jump" else 1e-7 if wall.divergence > 0 else 1e-6
    density = float(equilibrium.law.density(np.array([wall.at + wall.side * h]))[0])
    if wall.kind == "cusp":  # log W = c + d (s - b)^½: p = P(b) d²/4
        here, near = (_log_weight(equilibrium.target, wall.at, step) for step in (0.0, wall.side * h))
        return density * (near - here) ** 2 / h / 4
    if wall.kind == "power":  # P(s) = p' (s - b)^ν: p = p' ∫ I_ν ρ_ν² dx, or p' where ν = 1
        nu, far = wall.exponent, 1e3
        if wall.divergence == 0:
            return density / h

        def moment(x: float) -> float:
            log_i, rho, _ = log_power_moment(x, nu)
            return float(np.exp(log_i) * rho**2)

        tail = nu**2 * far ** (nu - 1) / (1 - nu)
        return density / h**nu * (quad(moment, -12, 20, limit=200)[0] + quad(moment, 20, far, limit=200)[0] + tail)
    ratio = np.exp(-wall.contrast)

    def jump(x: float) -> float:
        return float(np.exp(-(x**2)) / (2 * np.pi) / (ndtr(x) + ratio * ndtr(-x)))

    return density * (1 - ratio) ** 2 * quad(jump, -12, 12, limit=200, epsabs=1e-13, epsrel=1e-12)[0]


def _limit(equilibrium: Equilibrium) -> float:
    # dG_E/dq → E[(d log W/ds)²]/2
    law, target = equilibrium.law, equilibrium.target
    s = law.nodes
    distance = np.abs(s[..., None] - np.array(kinks(target).at)).min(axis=-1)
    h = 1e-4 * np.minimum(distance, 1.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        w = [scaled_log_weight(target.potential, s - target.margin + k * h, target.beta) for k in (-2, -1, 1, 2)]
        slope = (w[0] - 8 * w[1] + 8 * w[2] - w[3]) / (12 * h)
    for wall in walls(target):
        # so close to a wall away from zero, differences of s are rounding; W is a power of the distance there
        close = (np.abs(s - wall.at) < CLOSE) & (wall.kind == "power")
        slope[close] = wall.exponent / np.maximum(np.abs(s[close] - wall.at), 1e-100)
    return law.average(np.where(np.isfinite(slope), slope, 0.0) ** 2) / 2


def _words(edge: Edge, target: Target) -> str:
    own = f"(1-q)^-{edge.conjugate_growth:g}" if edge.conjugate_growth else f"{8 / _gap(target) ** 2:g} log 1/(1-q)"
    if edge.limit is not None:
        energy = f"dG_E/dq tends to {edge.limit:.6g} and"
    else:
        constant = "C" if edge.constant is None else f"{edge.constant:.6g}"
        energy = f"dG_E/dq = {constant} {'log 1/(1-q)' if edge.logarithmic else f'(1-q)^-{edge.divergence:g}'}"
    if not edge.maximum_at_one:
        return f"As q → 1, {energy} stays below the weights' own term {own}: φ_t falls towards q = 1 and has no maximum there."
    place = "the margin (U = -log s at T < 1)"
    if sum(wall.kind in ("jump", "power") for wall in walls(target)) > 1:
        place = "every wall (on a band U = -log(K² - s²) at T < 1, the potential log_band)"
    return (
        f"As q → 1, {energy} grows faster than the weights' own term {own}: φ_t rises towards q = 1 and has a "
        "maximum there at every t, which the sampler cannot see; fair sampling by localization is impossible. "
        f"A weight that vanishes faster than linearly at {place} removes it."
    )
