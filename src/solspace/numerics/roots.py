"""How a computation ended, and roots inside brackets: one to machine precision, or many at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq

from solspace.numerics.arrays import Index, Reals

ACCURATE = 1e-8  # largest relative error of an integral that needs no warning


class Status(Enum):
    """The end of an iteration or an integral; its value is the sentence shown to the user."""

    CONVERGED = "converged."
    MAX_STEPS = "the iteration did not settle within its number of steps; the value is the last one reached."
    INACCURATE = (
        "the integrals did not reach their accuracy even on the finest grid: give the potential's kinks and jumps as "
        "breakpoints, and take `accuracy` as the size of the error."
    )

    @classmethod
    def of_error(cls, error: float) -> Status:
        """Return the status of an integral with this relative error, which may be NaN."""
        return cls.CONVERGED if error < ACCURATE else cls.INACCURATE

    def then(self, other: Status) -> Status:
        """Return this status, or `other` if this one is `CONVERGED`."""
        return other if self.ok else self

    @property
    def ok(self) -> bool:
        """True if the computation converged."""
        return self is Status.CONVERGED

    def __str__(self) -> str:
        return self.value


def root_between(function: Callable[[float], float], low: float, high: float) -> float:
    """Return the root of `function`, of opposite signs at `low` and `high`, to 1e-11."""
    return float(brentq(function, low, high, xtol=1e-11, rtol=1e-12, maxiter=100))


def first_root(function: Callable[[float], float], points: Iterable[float]) -> float | None:
    """Return the root below the first of ascending `points`, but the first itself, at which `function` is positive.

    None where there is none. At the first point it is taken to be negative.
    """
    for low, high in pairwise(points):
        if function(high) > 0:
            return root_between(function, low, high)
    return None


class Roots(NamedTuple):
    """Roots and how the search for them ended."""

    x: Reals
    status: Status


def bracketed_newton(
    function: Callable[[Reals, Index], tuple[Reals, Reals]],
    low: ArrayLike,
    high: ArrayLike,
    start: ArrayLike,
    tolerance: float = 1e-14,
    max_steps: int = 80,
) -> Roots:
    """Return roots of `function` between `low` and `high` (k,), where it is negative and positive, one for each entry.

    Newton's step where it stays inside the bracket and shrinks, halving otherwise. `function(x, index)` returns values and
    derivatives at the active entries. `tolerance` is the size of the last step, or of the bracket, relative to the root (or
    to a thousandth of its first bracket, where the root is closer to zero).

    >>> roots = bracketed_newton(lambda x, index: (x**2 - 2, 2 * x), [0.0], [2.0], [1.0])
    >>> float(roots.x[0]), roots.status.ok
    (1.4142135623730951, True)
    """
    low, high, start = (np.array(values, dtype=float, ndmin=1) for values in (low, high, start))
    x = np.clip(start, low, high)
    last = high - low
    least = 1e-3 * last
    active = np.arange(len(x))
    for _ in range(max_steps):
        value, slope = function(x[active], active)
        below = value < 0
        low[active] = np.where(below, x[active], low[active])
        high[active] = np.where(below, high[active], x[active])
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -value / slope
        trial = x[active] + step
        good = (trial > low[active]) & (trial < high[active]) & (np.abs(step) < 0.7 * last[active])
        new = np.where(value == 0, x[active], np.where(good, trial, (low[active] + high[active]) / 2))
        moved = np.abs(new - x[active])
        width = high[active] - low[active]
        last[active] = np.where(good, np.abs(step), width / 2)
        x[active] = new
        size = np.maximum(np.abs(new), least[active])
        # a Newton step of relative size 1e-7 leaves an error of its square
        done = (value == 0) | (good & (moved <= max(tolerance, 1e-8) * size)) | (width <= tolerance * size)
        active = active[~done]
        if len(active) == 0:
            return Roots(x, Status.CONVERGED)
    return Roots(x, Status.MAX_STEPS)
