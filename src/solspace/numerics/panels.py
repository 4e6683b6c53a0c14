"""Smooth curves on panels: Chebyshev points, the polynomial through them, and roots that a grid would miss."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from solspace.numerics.arrays import Reals


def chebyshev_points(count: int) -> Reals:
    """Return the Chebyshev points of [0, 1], ascending.

    >>> chebyshev_points(2).round(6)
    array([0.146447, 0.853553])
    """
    return (1 - np.cos(np.pi * (np.arange(count) + 0.5) / count)) / 2


@lru_cache(maxsize=8)
def interpolation(count: int, dense: int) -> Reals:
    """Return the matrix (dense, count) from values at Chebyshev points to `dense` equidistant ones from 0 on."""
    x = chebyshev_points(count)
    fine = np.arange(dense) / dense
    return np.polynomial.legendre.legvander(2 * fine - 1, count - 1) @ np.linalg.inv(
        np.polynomial.legendre.legvander(2 * x - 1, count - 1)
    )


def hidden_roots(x: Reals, y: Reals) -> list[float]:
    """Return the two roots around a local maximum that is negative at three equidistant points and positive between.

    None where the parabola through the points has its maximum, or a root, outside them.

    >>> x = np.array([-1.0, 0.0, 1.0])
    >>> hidden_roots(x, 0.1 - (x - 0.5) ** 2)[0] > 0
    True
    >>> hidden_roots(x, 0.1 - (x - 2.5) ** 2)
    []
    """
    h = x[2] - x[1]
    bend, tilt = (y[0] - 2 * y[1] + y[2]) / 2, (y[2] - y[0]) / 2
    discriminant = tilt**2 - 4 * bend * y[1]
    if bend >= 0 or discriminant <= 0:
        return []
    roots = [float(x[1] + h * (-tilt + sign * np.sqrt(discriminant)) / (2 * bend)) for sign in (1, -1)]
    return roots if x[0] <= min(roots) and max(roots) <= x[2] else []
