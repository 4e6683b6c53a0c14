"""The constraints alone: what a potential allows, why no weights may meet them all, and what variances the patterns need."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.measure.potentials import Band, Potential, TauWall, Uniform, Wall
from solspace.measure.priors import Spherical
from solspace.numerics.arrays import Array, Bools, Reals
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.system.checks import choice

# stabilities, from the margin, by which constraints are told apart
_PROBE = np.concatenate([-np.logspace(-3, 3, 400), [0.0], np.logspace(-3, 3, 400)])
_CERTAIN = 63  # weights beyond which two random patterns are never opposite
# entries of patterns up to which a linear program is worth its time: after a search, and before one
SEPARABLE_ENTRIES, SMALL_ENTRIES = 300_000, 10_000


@dataclass(frozen=True)
class Allowed(Potential):
    """U = 0 on what another potential allows, infinite elsewhere."""

    potential: Potential
    name = "allowed"

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        return tuple(self.potential.breakpoints)

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -np.inf, 0.0)

    def violated(self, s: ArrayLike) -> Bools:
        return np.asarray(self.potential.violated(s), dtype=bool)


@dataclass(frozen=True)
class Unmet(Allowed):
    """U = 1 on what another potential does not allow, 0 elsewhere: the number of unmet constraints; soft."""

    name = "unmet"
    hard = False

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -1.0, 0.0)


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


def offset(potential: Potential) -> float:
    """Return where a potential is best resolved, from the margin: at a wall beside it, at the middle of a band, or at 0.

    >>> offset(Wall(lower=0.5)), offset(Wall(-1.0, 2.0)), offset(Uniform())
    (0.5, 0.5, 0.0)
    """
    if potential.centre is not None:
        return float(potential.centre)
    return float(potential.breakpoints[0]) if isinstance(potential, (Wall, TauWall)) else 0.0


def is_half_space(target: Target) -> bool:
    """Return whether every constraint is a stability of at least the margin."""
    return isinstance(flat(target).potential, Uniform)


def contradiction(problem: Perceptron) -> str:
    """Return in a sentence why no ±1 weights meet every constraint, where a look at single rows and pairs tells; else ''.

    >>> contradiction(Perceptron([[1, -1, 1], [-1, 1, -1]]))
    'constraints 1 and 2 are opposite (x and -x): whatever the weights, one of them is not met.'
    """
    if problem.has_binary_patterns:
        allowed = ~problem.target.violated(_lattice(problem.n))
        if not allowed.any():
            return "no stability that ±1 weights can have meets a constraint: the allowed range is too narrow."
        pair = None if (allowed & allowed[::-1]).any() else _opposite(problem)
    else:
        zero = zero_rows(problem)
        if len(zero) and problem.target.violated(0.0):
            return f"constraint {zero[0] + 1} is all zero, and a stability of 0 does not meet it."
        if not is_half_space(problem.target):
            return ""
        ends = np.zeros((2, problem.m))
        ends[0] = np.concatenate([np.abs(block).sum(axis=1) for _, block in problem.blocks()]) / np.sqrt(problem.n)
        problem._settle(ends, np.sqrt(problem.n))
        (short,) = np.nonzero(problem.target.violated(ends[0]))
        if len(short):
            return (
                f"constraint {short[0] + 1} can reach a stability of {ends[0, short[0]]:.3g} at most, which is below the "
                f"margin {flat(problem.target).margin:g}."
            )
        pair = _opposite(problem) if flat(problem.target).margin >= 0 else None
        if pair is not None and not problem.target.violated(ends[1, pair[0]]):
            pair = pair if _parity(problem.patterns[pair[0]]) == 1 else None
    return "" if pair is None else f"{_names(pair)}: whatever the weights, one of them is not met."


def tie(problem: Perceptron) -> tuple[str, bool]:
    """Return in words which two constraints only an exact tie can meet, '' where there are none, and whether one is likely.

    >>> tie(Perceptron([[3, 1, 2], [-3, -1, -2]]))[0]
    'constraints 1 and 2 are opposite (x and -x): only weights that give them a stability of exactly 0 meet both'
    """
    pair = _opposite(problem) if is_half_space(problem.target) and flat(problem.target).margin == 0 else None
    if pair is None:
        return "", False
    why = f"{_names(pair)}: only weights that give them a stability of exactly 0 meet both"
    return why, _parity(problem.patterns[pair[0]]) == 0


def _names(pair: tuple[int, int]) -> str:
    return f"constraints {pair[0] + 1} and {pair[1] + 1} are opposite (x and -x)"


def _lattice(n: int) -> Array:
    return np.arange(-n, n + 1, 2) / np.sqrt(n)


def _parity(row: Array) -> int | None:
    """Return whether the entries of `row` add up to an odd multiple of their unit (1) or not (0); None where there is none."""
    size = np.abs(row[row != 0].astype(float))
    for scale in (1.0, 10.0, 100.0, 1000.0, 1 / size.min()):
        whole = np.rint(size * scale)
        if whole.sum() < 1e6 and (np.abs(whole - size * scale) <= 1e-12 * whole).all():
            return int(whole.sum() / np.gcd.reduce(whole.astype(int))) % 2
    return None


def _opposite(problem: Perceptron) -> tuple[int, int] | None:
    """Return two rows of which one is minus the other, None where there are none; rows of zeros do not count.

    One product with a random vector tells which rows may be; only these are compared.
    """
    if problem.ensemble is not None and problem.n > _CERTAIN:
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
    """Return in a sentence that no ±1 weights meet every constraint, where a linear program proves it; else ''.

    Shares y >= 0 of the constraints with Σ y = 1 prove it where the weights' largest Σ y s = |Xᵀy|_1/√n is below the least
    stability that is allowed.
    """
    if not is_half_space(problem.target) or problem.m * problem.n > SEPARABLE_ENTRIES:
        return ""
    least = flat(problem.target).margin
    if problem.has_binary_patterns:
        lattice = _lattice(problem.n)
        least = lattice[~problem.target.violated(lattice)].min(initial=np.inf)
    most = np.abs(_mixture(problem, 1.0, least, seconds)).sum()
    if most < least - (2 + problem.m / problem.n) * problem._rounding(np.sqrt(problem.n)).max():
        return "no ±1 weights meet every constraint (a linear program says so)."
    return ""


def _mixture(problem: Perceptron, size: float, least: float, seconds: float) -> Array:
    """Return the mixture Xᵀy/√n of the constraints that weights from -`size` to `size` meet worst; infinite where unknown.

    The dual of the largest t with ⟨x, w⟩/√n >= least + t for every pattern.
    """
    from scipy.optimize import linprog

    rows = problem.patterns.astype(float) / np.sqrt(problem.n)
    scale = np.abs(rows).max() or 1.0  # the tolerances of the solver are absolute
    found = linprog(
        np.append(np.zeros(problem.n), -1.0),
        A_ub=np.hstack([-rows / scale, np.ones((problem.m, 1))]),
        b_ub=np.full(problem.m, -least / scale),
        bounds=[*[(-size, size)] * problem.n, (None, None)],
        options={"time_limit": seconds},
    )
    if found.status != 0:
        return np.full(problem.n, np.inf)
    shares = np.maximum(-found.ineqlin.marginals, 0)
    return np.asarray(shares @ rows) / shares.sum()


def check_measure(problem: Perceptron) -> None:
    """Raise ValueError if rows alone tell that no weights have a positive probability under the target.

    >>> check_measure(Perceptron([[0.5, 1.0], [0.0, 0.0]]))
    Traceback (most recent call last):
    ValueError: constraint 2 is all zero, ...; drop such rows (1 of 2).
    """
    target = problem.target
    tied = problem.ensemble is None and problem.intercept is None
    if tied and np.isneginf(target.log_weight(0.0)) and len(zero := zero_rows(problem)):
        raise ValueError(
            f"constraint {zero[0] + 1} is all zero, so that its stability is 0 whatever the weights, and the target "
            f"({target}) gives that the probability 0; {without(zero, problem.m)}."
        )
    if target.prior.name == "spherical" and target.potential.hard and (why := nowhere_on_the_sphere(problem)):
        raise ValueError(f"no weights have a positive probability under the target ({target}): {why}.")


def zero_rows(problem: Perceptron) -> Array:
    return np.flatnonzero([] if problem.has_binary_patterns else ~problem.patterns.any(axis=1))


def without(zero: Array, m: int) -> str:
    """Return what to do about the constraints `zero` of `m`, whose patterns are all zero."""
    if len(zero) == m:
        return "so are all others: these data hold nothing to learn"
    return f"drop such rows ({len(zero)} of {m})"


def nonzero(problem: Perceptron) -> Perceptron:
    zero = zero_rows(problem)
    return Perceptron(np.delete(problem.patterns, zero, axis=0), target=problem.target) if len(zero) else problem


def nowhere_on_the_sphere(problem: Perceptron) -> str:
    """Return in words why no weights on the sphere meet every constraint, where a linear program tells; else ''."""
    if len(zero_rows(problem)) == problem.m:
        return ""
    problem, margin = nonzero(problem), flat(problem.target).margin
    if not is_half_space(problem.target) or margin < 0:
        return ""
    if (pair := _opposite(problem)) is not None:
        return _names(pair)
    if problem.m * problem.n > SMALL_ENTRIES:
        return ""
    size = np.sqrt(problem.n)
    most = size * np.linalg.norm(_mixture(problem, size, margin, 1.0))  # |w| = √n
    rounding = (2 + problem.m / problem.n) * problem._rounding(size).max()
    return "a linear program says that they cannot be met together" if most <= margin + rounding else ""


VARIANCES = ("auto", "scalar", "full")  # of message passing


def variances_option() -> Any:
    return choice("auto", VARIANCES, "scalar, full (one for every constraint and weight), or auto: by the data")


def choose_variances(problem: Perceptron, variances: str) -> str:
    """Return "scalar" or "full": `variances`, or for "auto" what the patterns need.

    Patterns of ±1 have x² = 1: both forms are the same and the scalar one is cheaper. On the sphere the same holds to order
    1/√n where the x² of all rows and columns differ by chance alone. Otherwise, and for ±1 weights, full variances are
    taken: late in a run few weights are undecided, and a constraint depends on a sum over these few alone.
    """
    if variances != "auto":
        return variances
    even = problem.has_binary_patterns or (isinstance(problem.target.prior, Spherical) and _even_entries(problem))
    return "scalar" if even else "full"


def _even_entries(problem: Perceptron) -> bool:
    """Return whether sums of x² over rows and columns vary no more than those of independent entries of one law."""
    if problem.ensemble is not None:
        return True
    rows, columns, fourth = np.empty(problem.m), np.zeros(problem.n), 0.0
    for part, block in problem.blocks():
        square = block * block
        rows[part] = square.mean(axis=1)
        columns += square.sum(axis=0) / problem.m
        fourth += float(np.square(square).sum()) / (problem.m * problem.n)
    mean = rows.mean()
    excess = fourth - mean**2  # the variance of x²
    chance = 2.0 * excess + 1e-9 * mean**2  # twice what is expected of independent entries, and rounding
    return bool(excess <= 3.0 * mean**2 and rows.var() * problem.n <= chance and columns.var() * problem.m <= chance)
