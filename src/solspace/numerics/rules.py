"""Quadrature rules as nodes and weights; above all Gauss–Legendre panels, fine near given points and growing away.

A function with a feature of size `fine` at a point c, and smooth on the scale of the distance from c elsewhere,
needs panels of width w(d) = min(max(fine, growth d), cap) at distance d: edges at equal steps of N(d) = ∫ dd'/w(d').
All functions work on a batch, one row of nodes for each member, so that an integrand is called once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Reals

ORDER = 16  # nodes in a panel


@lru_cache(maxsize=8)
def legendre(order: int = ORDER) -> tuple[Reals, Reals]:
    """Return the Gauss–Legendre nodes and weights on [0, 1]."""
    x, w = np.polynomial.legendre.leggauss(order)
    return (x + 1) / 2, w / 2


@lru_cache(maxsize=8)
def hermite(order: int) -> tuple[Reals, Reals]:
    """Return nodes and weights for the average over a standard Gaussian."""
    x, w = np.polynomial.hermite_e.hermegauss(order)
    return x, w / w.sum()


def graded(start: ArrayLike, stop: ArrayLike, fine: ArrayLike, cap: ArrayLike, growth: float) -> Reals:
    """Return panel edges (q, p + 1) from `start` to `stop`, of width min(max(fine, growth d), cap) or less.

    Members with stop <= start get panels of width zero.

    >>> graded(0.0, 10.0, 1.0, 4.0, 0.5).round(3)
    array([[ 0.   ,  0.879,  1.758,  2.749,  4.266,  6.62 , 10.   ]])
    """
    rows = np.broadcast_arrays(*(np.atleast_1d(np.asarray(a, dtype=float)) for a in (start, stop, fine, cap)))
    first_d, last_d, narrow, wide = (row[:, None] for row in rows)
    first_d = np.maximum(first_d, 0.0)
    last_d, narrow = np.maximum(last_d, first_d), np.minimum(narrow, wide)
    near, far = narrow / growth, wide / growth
    at_near, at_far = 1 / growth, 1 / growth + np.log(wide / narrow) / growth

    def count(d: Reals) -> Reals:
        middle = at_near + np.log(np.maximum(d, near) / near) / growth
        return np.where(d < near, d / narrow, np.where(d < far, middle, at_far + (d - far) / wide))

    first, last = count(first_d), count(last_d)
    steps = max(int(np.ceil((last - first).max() - 1e-9)), 1)
    at = first + (last - first) * np.linspace(0, 1, steps + 1)
    middle = near * np.exp(growth * np.clip(at - at_near, 0, at_far - at_near))
    edges = np.where(at < at_near, at * narrow, np.where(at < at_far, middle, far + (at - at_far) * wide))
    edges[:, 0], edges[:, -1] = first_d[:, 0], last_d[:, 0]
    return edges


def nodes(edges: Reals) -> tuple[Reals, Reals]:
    """Return nodes and weights (q, 16 p) of the panels between `edges` (q, p + 1)."""
    x, w = legendre()
    width = np.diff(edges, axis=-1)[..., None]
    shape = (*edges.shape[:-1], -1)
    return (edges[..., :-1, None] + width * x).reshape(shape), (width * w).reshape(shape)


def around(
    centres: Sequence[float] | Reals,
    low: Reals | float,
    high: Reals | float,
    fine: Reals | float,
    cap: Reals | float,
    growth: float,
    close: Sequence[Sequence[Reals | None]] | None = None,
) -> tuple[Reals, Reals]:
    """Return nodes and weights (q, n) of panels in the windows [low, high] (q,), graded on both sides of each centre.

    `centres` are ascending, for all windows or (c, q) for each. `close` has for each centre how far its left and its right
    side reach at most (q,), in panels of width `fine`; None: up to halfway to the next centre, in growing panels.

    >>> x, w = around([0.0], -1.0, 2.0, 0.1, 1.0, 0.5)
    >>> bool(abs((w * np.abs(x)).sum() - 2.5) < 1e-14)
    True
    """
    middle = (np.array(centres[1:]) + np.array(centres[:-1])) / 2
    points, weights = [], []
    for index, (centre, left, right) in enumerate(zip(centres, [-np.inf, *middle], [*middle, np.inf])):
        for sign, end, edge, other in ((-1, left, low, high), (1, right, high, low)):
            limit = close[index][(sign + 1) // 2] if close else None
            start = np.maximum(sign * (other - centre), 0.0)
            stop, widest = np.minimum(sign * (edge - centre), sign * (end - centre)), cap
            if limit is not None:
                stop, widest = np.minimum(stop, limit), np.minimum(fine, cap)
            x, w = nodes(graded(start, stop, fine, widest, growth))
            points.append(np.atleast_1d(centre)[:, None] + sign * x)
            weights.append(w)
    return np.concatenate(points, axis=1), np.concatenate(weights, axis=1)


def gaussian_trapezoid(step: float, reach: float) -> tuple[Reals, Reals]:
    """Return nodes and weights for the average over a standard Gaussian, equidistant from -reach to reach."""
    count = int(np.ceil(reach / step))
    z = step * np.arange(-count, count + 1)
    return z, step * np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
