"""Roots inside brackets, many at a time, and smooth curves on panels with roots that a grid would miss."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.polynomial.legendre import legvander
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
    """Return roots of `function` between `low` and `high` (k,), where it is negative and positive, one for each entry.

    Newton's step where it stays inside the bracket and shrinks, halving otherwise. `function(x, index)` returns values and
    derivatives at the active entries. `start` defaults to the midpoints. `tolerance` is the size of the last step, or of
    the bracket, relative to the root (or to a thousandth of its first bracket, where the root is closer to zero).

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


def chebyshev_points(count: int) -> Reals:
    """Return the Chebyshev points of [0, 1], ascending.

    >>> chebyshev_points(2).round(6)
    array([0.146447, 0.853553])
    """
    return (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2


@lru_cache(maxsize=8)
def interpolation(count: int, dense: int) -> Reals:
    """Return the matrix (dense, count) from values at Chebyshev points to `dense` equidistant ones from 0 on."""
    x, fine = chebyshev_points(count), np.arange(dense) / dense
    return legvander(2 * fine - 1, count - 1) @ np.linalg.inv(legvander(2 * x - 1, count - 1))


def hidden_roots(x: Reals, y: Reals) -> list[float]:
    """Return the two roots around a local maximum that is negative at three equidistant points and positive between.

    None where the parabola through the points has its maximum, or a root, outside them.

    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> hidden_roots(x, 0.1 - (x - 0.5) ** 2)[0] > 0, hidden_roots(x, 0.1 - (x - 2.5) ** 2)
    (True, [])
    """
    h = x[2] - x[1]
    bend, tilt = (y[0] - 2 * y[1] + y[2]) / 2, (y[2] - y[0]) / 2
    discriminant = tilt**2 - 4 * bend * y[1]
    if bend >= 0 or discriminant <= 0:
        return []
    roots = [float(x[1] + h * (-tilt + sign * np.sqrt(discriminant)) / (2 * bend)) for sign in (1, -1)]
    return roots if x[0] <= min(roots) and max(roots) <= x[2] else []
