"""Roots inside brackets, many at a time: Newton's step where it stays inside and shrinks, halving otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Index, Reals
from solspace.numerics.status import Status


class Roots(NamedTuple):
    """Roots and how the search for them ended."""

    x: Reals
    status: Status


def bracketed_newton(
    function: Callable[[Reals, Index], tuple[Reals, Reals]],
    low: ArrayLike,
    high: ArrayLike,
    start: ArrayLike | None = None,
    tolerance: float = 1e-14,
    max_steps: int = 80,
) -> Roots:
    """Return roots of an increasing-through-zero `function` between `low` and `high`, one for each entry.

    Parameters
    ----------
    function
        Called as function(x, index) with the entries still at work; returns values and derivatives.
    low, high
        Brackets (k,): the function is negative at `low` and positive at `high`.
    start
        First guesses, the midpoints unless given.
    tolerance
        Size of the last step, or of the bracket, relative to the root (or to a thousandth of its first bracket, where
        the root is closer to zero).

    >>> roots = bracketed_newton(lambda x, index: (x**2 - 2, 2 * x), [0.0], [2.0])
    >>> float(roots.x[0]), roots.status.ok
    (1.4142135623730951, True)
    """
    low, high = np.array(low, dtype=float, ndmin=1), np.array(high, dtype=float, ndmin=1)
    x = (low + high) / 2 if start is None else np.clip(np.array(start, dtype=float, ndmin=1), low, high)
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
        middle = (low[active] + high[active]) / 2
        new = np.where(value == 0, x[active], np.where(good, trial, middle))
        moved = np.abs(new - x[active])
        last[active] = np.where(good, np.abs(step), (high[active] - low[active]) / 2)
        x[active] = new
        size = np.maximum(np.abs(new), least[active])
        # a Newton step of relative size 1e-7 leaves an error of its square
        done = (
            (value == 0)
            | (good & (moved <= max(tolerance, 1e-8) * size))
            | (high[active] - low[active] <= tolerance * size)
        )
        active = active[~done]
        if len(active) == 0:
            return Roots(x, Status.CONVERGED)
    return Roots(x, Status.MAX_STEPS)
