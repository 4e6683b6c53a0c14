"""The constraints alone: what a potential allows, whatever it prefers, and why no weights may be able to meet them all.

Solving asks which stabilities are allowed and nothing else. Half-spaces and bands have channels of their own; whatever a
user's own potential allows goes through quadrature, as it does in sampling.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.measure.potential import Potential
from solspace.measure.potentials import Band, Uniform
from solspace.numerics.arrays import Array, Bools, Reals
from solspace.numerics.streams import generator
from solspace.problem import Perceptron

_PROBE = np.concatenate([-np.logspace(-3, 3, 400), [0.0], np.logspace(-3, 3, 400)])
"""Stabilities, from the margin, by which constraints are told apart."""
CERTAIN = 63
"""Weights beyond which two random patterns are never opposite."""
SEPARABLE_ENTRIES = 300_000
"""Entries of patterns up to which a linear program is worth its time."""


@dataclass(frozen=True)
class Allowed(Potential):
    """U = 0 on what another potential allows, infinite elsewhere."""

    potential: Potential
    name = "allowed"

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        """Where the other is not smooth."""
        return tuple(self.potential.breakpoints)

    def log_weight(self, s: ArrayLike) -> Reals:
        """Return 0 where allowed, -inf elsewhere."""
        return np.where(self.violated(s), -np.inf, 0.0)

    def violated(self, s: ArrayLike) -> Bools:
        """Return the other's answer."""
        return np.asarray(self.potential.violated(s), dtype=bool)


@dataclass(frozen=True)
class Unmet(Potential):
    """U = 1 on what another potential does not allow, 0 elsewhere: the number of unmet constraints; soft."""

    potential: Potential
    name = "unmet"
    hard = False

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        """Where the other is not smooth."""
        return tuple(self.potential.breakpoints)

    def log_weight(self, s: ArrayLike) -> Reals:
        """Return -1 where not allowed, 0 elsewhere."""
        return np.where(self.violated(s), -1.0, 0.0)

    def violated(self, s: ArrayLike) -> Bools:
        """Return the other's answer."""
        return np.asarray(self.potential.violated(s), dtype=bool)


def flat(target: Target) -> Target:
    """Return a target that allows the same, and on which all solutions count the same.

    >>> str(flat(Target(potential="log", margin=0.2))), str(flat(Target(potential="wall(-1, 2)")))
    ('binary weights, uniform potential, margin 0.2', 'binary weights, band(1.5) potential, margin 0.5')
    """
    lower, upper = interval(target.potential)
    if lower > -np.inf and upper == np.inf:
        return Target(target.prior, Uniform(), margin=target.margin + lower)
    if np.isfinite([lower, upper]).all():
        return Target(target.prior, Band((upper - lower) / 2), margin=target.margin + (lower + upper) / 2)
    return Target(target.prior, Allowed(target.potential), margin=target.margin)


def interval(potential: Potential) -> tuple[float, float]:
    """Return the ends of what a potential allows, from the margin; both infinite where it is none that is known."""
    given = potential.parameters
    ends = [(0.0, np.inf)]
    if "width" in given:
        ends.append((-given["width"], given["width"]))
    if "lower" in given and "upper" in given:
        lower, upper = given["lower"], given["upper"]
        ends.append((-np.inf if lower is None else lower, np.inf if upper is None else upper))
    missed = potential.violated(_PROBE)
    for lower, upper in ends:
        if np.array_equal((lower > _PROBE) | (upper < _PROBE), missed):
            return lower, upper
    return -np.inf, np.inf


def is_half_space(target: Target) -> bool:
    """Return whether every constraint is a stability of at least the margin."""
    return isinstance(flat(target).potential, Uniform)


def contradiction(problem: Perceptron) -> str:
    """Return in a sentence why no ±1 weights meet every constraint, where a look at single rows and pairs tells; else ''.

    >>> contradiction(Perceptron([[1, -1, 1], [-1, 1, -1]]))
    'constraints 1 and 2 are opposite (x and -x): whatever the weights, one of them is not met.'
    """
    margin = flat(problem.target).margin
    if problem.has_binary_patterns:
        lattice = np.arange(-problem.n, problem.n + 1, 2) / np.sqrt(problem.n)
        allowed = ~problem.target.violated(lattice)
        if not allowed.any():
            return "no stability that ±1 weights can have meets a constraint: the allowed range is too narrow."
        clash = not (allowed & allowed[::-1]).any()
    elif is_half_space(problem.target):
        lengths = np.concatenate([np.abs(block).sum(axis=1) for _, block in problem.blocks()]) / np.sqrt(problem.n)
        short = np.flatnonzero(lengths < margin)
        if len(short):
            return (
                f"constraint {short[0] + 1} can reach a stability of {lengths[short[0]]:.3g} at most, which is below the "
                f"margin {margin:g}."
            )
        clash = margin >= 0
    else:
        return ""
    pair = _opposite(problem) if clash else None
    if pair is None or (margin == 0 and _can_vanish(problem.patterns[pair[0]])):
        return ""
    certain = problem.has_binary_patterns or margin > 0
    why = (
        "whatever the weights, one of them is not met"
        if certain
        else "both are met only where a stability is exactly 0"
    )
    return f"constraints {pair[0] + 1} and {pair[1] + 1} are opposite (x and -x): {why}."


def _can_vanish(row: Array) -> bool:
    """Return whether ±1 weights are known that give a stability of exactly 0: multiples of one number that add up evenly."""
    size = np.abs(row[row != 0].astype(float))
    if not size.size:
        return True
    whole = size / size.min()
    return bool((whole == np.rint(whole)).all() and whole.sum() % 2 == 0)


def _opposite(problem: Perceptron) -> tuple[int, int] | None:
    """Return two rows of which one is minus the other, None where there are none.

    One product with a random vector tells which rows may be; only these are compared.
    """
    if problem.ensemble is not None and problem.n > CERTAIN:
        return None
    along = generator(0).standard_normal(problem.n)
    seen = np.concatenate([block @ along for _, block in problem.blocks()])
    order = np.argsort(np.abs(seen))
    size = np.abs(seen)[order]
    starts = np.flatnonzero(np.append(True, np.diff(size) > 1e-9 * size[1:]))
    for first, last in zip(starts, np.append(starts[1:], len(order))):
        alike = order[first:last]
        plus, minus = alike[seen[alike] > 0], alike[seen[alike] < 0]
        if len(plus) and len(minus) and np.array_equal(problem.patterns[plus[0]], -problem.patterns[minus[0]]):
            return int(min(plus[0], minus[0])), int(max(plus[0], minus[0]))
    return None


def inseparable(problem: Perceptron, seconds: float) -> str:
    """Return in a sentence that no weights at all, ±1 or real, separate the patterns; '' where some do or it is not known.

    A linear program: the largest t with ⟨x, w⟩/√n >= κ + t for every pattern and weights from -1 to 1.
    """
    if not is_half_space(problem.target) or problem.m * problem.n > SEPARABLE_ENTRIES:
        return ""
    from scipy.optimize import linprog

    rows = problem.patterns.astype(float) / np.sqrt(problem.n)
    found = linprog(
        np.append(np.zeros(problem.n), -1.0),
        A_ub=np.hstack([-rows, np.ones((problem.m, 1))]),
        b_ub=np.full(problem.m, -flat(problem.target).margin),
        bounds=[*[(-1, 1)] * problem.n, (None, 1)],
        options={"time_limit": seconds},
    )
    best = -float(found.fun) if found.status == 0 else np.inf
    if best < -1e-9:
        return "no weights between -1 and 1, whole or not, meet every constraint (a linear program says so)."
    if best < 1e-9 and problem.has_binary_patterns and problem.n % 2 and flat(problem.target).margin == 0:
        return "no weights at all, ±1 or real, separate these patterns (a linear program says so)."
    return ""
