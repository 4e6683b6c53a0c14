"""How a target's weight W(s) behaves where constraints are only just met: at the breakpoints of its potential.

A *jump* (a hard wall with U finite, a soft step), a *power* W ~ (s - b)^ν at a wall, a *cusp* log W = c + d |s
- b|^a, or nothing of the kind. It decides how E_q[g²] diverges as q → 1 (theory notes 5), and on which scale 1 - q
the curve F still has structure.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.theory.cavity import kinks

NEGLIGIBLE = 50.0
"""Fall of log W near a wall beyond which nothing is left to be seen."""


class Wall(NamedTuple):
    """How the weight behaves at a breakpoint: `kind` is "jump", "power", "cusp" or "smooth"."""

    at: float
    side: int
    kind: str
    exponent: float
    contrast: float
    """e^-contrast is the ratio of the smaller to the larger weight at a jump; infinite at a wall."""


def walls(target: Target) -> list[Wall]:
    """Return what happens at each breakpoint of the target's weight.

    >>> [(w.kind, w.exponent) for w in walls(Target(potential="log", temperature=0.5))]
    [('power', 2.0)]
    """
    found = []
    points = kinks(target)
    for at, (left, right) in zip(points.at, points.forbidden):
        if left and right:
            continue
        if left or right:
            side = 1 if left else -1
            exponent = _exponent(target, at, side)
            found.append(Wall(at, side, "jump" if exponent == 0 else "power", exponent, np.inf))
            continue
        below, above = (float(target.log_weight(at + side * 1e-13 * (1 + abs(at)))) for side in (-1, 1))
        found.append(_finite(target, at, below, above))
    return found


def _exponent(target: Target, at: float, side: int) -> float:
    # W ~ distance^ν; distances are counted from the margin, where the potential lives, so that they lose no digits
    offset = at - target.margin
    near, far = (log_weight_at(target, offset, side * h) for h in (1e-9, 1e-8))
    if np.isneginf(near):
        return np.inf
    return round(float((far - near) / np.log(10.0)), 6)


def log_weight_at(target: Target, offset: float, step: float) -> float:
    """Return log W at the distance `step` from a breakpoint `offset` counted from the margin."""
    return float(target.replace(margin=0.0).log_weight(offset + step))


def _finite(target: Target, at: float, below: float, above: float) -> Wall:
    offset = at - target.margin
    side = 1 if above >= below else -1
    if abs(above - below) > 1e-3 * (1 + abs(target.beta)):
        return Wall(at, side, "jump", 0.0, abs(above - below))
    # log W = c + d |s|^a: the exponent of its change with the distance
    for direction in (-1, 1):
        base = log_weight_at(target, offset, 0.0)
        near, far = (abs(log_weight_at(target, offset, direction * h) - base) for h in (1e-9, 1e-7))
        if near > 0 and far > 0:
            exponent = np.log(far / near) / np.log(100.0)
            if exponent < 0.5 + 1e-3:
                return Wall(at, direction, "cusp", min(round(float(exponent), 3), 0.5), 0.0)
    return Wall(at, side, "smooth", 1.0, 0.0)


def divergence(target: Target) -> tuple[float, bool]:
    """Return γ of E_q[g²] ~ (1-q)^-γ, zero where it is finite, and whether it diverges like a logarithm."""
    gamma, logarithmic = 0.0, False
    for wall in walls(target):
        if wall.kind == "jump":
            gamma = max(gamma, 0.5)
        elif wall.kind == "power":
            gamma = max(gamma, (1 - wall.exponent) / 2)
            logarithmic |= abs(wall.exponent - 1) < 1e-6
        elif wall.kind == "cusp":
            gamma = max(gamma, 0.5 - wall.exponent)
            logarithmic |= wall.exponent == 0.5
    return float(gamma), bool(logarithmic and gamma == 0)


def _exponents(weight: Reals) -> Reals:
    # of the power that W follows between distances that halve
    with np.errstate(invalid="ignore"):
        return -np.diff(weight) / np.log(2.0)


def smallest_scale(target: Target) -> float:
    """Return the smallest distance from a breakpoint at which the weight stops looking like a power of the distance.

    >>> smallest_scale(Target(potential="log"))
    1.0
    """
    steps = 2.0 ** -np.arange(60.0)
    smallest = 1.0
    points = kinks(target)
    for at, forbidden in zip(points.at, points.forbidden):
        for side, void in zip((-1, 1), forbidden):
            if void:
                continue
            offset = at - target.margin
            weight = np.array([log_weight_at(target, offset, side * h) for h in steps])
            if offset:  # distances below the rounding of the breakpoint say nothing
                weight = weight[:30]
            exponent = _exponents(weight)
            if (
                not abs(exponent[-1] - exponent[-2]) < 0.3
            ):  # no power at any distance, as exp(-1/s): look where W counts
                exponent = _exponents(weight[: 1 + np.flatnonzero(weight >= weight.max() - NEGLIGIBLE)[-1]])
            moved = np.flatnonzero(np.abs(exponent - exponent[-1:]) > 0.3)
            if len(moved):
                smallest = min(smallest, float(steps[moved[-1]]))
    return smallest
