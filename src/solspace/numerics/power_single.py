"""The power moments in single precision: small node tables and polynomials, made from the double precision table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.arrays import Doubles
from solspace.numerics.power_table import evaluate, power_table
from solspace.numerics.tails import vanishing

SPACING = 1.0 / 32.0


@dataclass(frozen=True, eq=False)
class PowerNodes:
    """What single precision needs for one exponent b > 0.

    Attributes
    ----------
    reach
        Nodes lie in [-reach, reach], a multiple of SPACING.
    nodes
        Pairs (rho, curvature) at spacing SPACING, shape (count, 2), float32.
    far
        Coefficients, constant first, of polynomials in (reach / x)^2 for abs(x) > reach, shape (4, 6), float32:
        rho x and curvature x^2 at x > 0, K abs(x) and curvature at x < 0.
    """

    reach: float
    nodes: NDArray[np.float32]
    far: NDArray[np.float32]

    @property
    def packed(self) -> NDArray[np.uint64]:
        """The nodes as one 64-bit word each, so that a compiled loop fetches both numbers at once."""
        return self.nodes.view(np.uint64)[:, 0]


@lru_cache(maxsize=64)
@vanishing
def power_nodes(beta: float) -> PowerNodes:
    """Nodes and asymptotic polynomials of exponent `beta` > 0.

    Examples
    --------
    >>> power_nodes(1.0).nodes.shape
    (641, 2)
    """
    reach = math.ceil(8.0 + 2.0 * math.sqrt(beta))
    x = np.arange(-reach, reach + 0.5 * SPACING, SPACING)
    _, rho, curvature = evaluate(x, power_table(beta))
    y = 0.5 + 0.5 * np.cos(np.pi * (np.arange(32) + 0.5) / 32)
    size = reach / np.sqrt(y)
    _, right, right_curvature = evaluate(size, power_table(beta))
    _, left, left_curvature = evaluate(-size, power_table(beta))
    mean = (beta - left_curvature) / left
    far = [_relative_fit(y, v, 5) for v in (right * size, right_curvature * size**2, mean * size, left_curvature)]
    nodes = np.stack([rho, curvature], axis=1)
    return PowerNodes(float(reach), nodes.astype(np.float32), np.array(far, dtype=np.float32))


@lru_cache(maxsize=1)
@vanishing
def normal_mean() -> tuple[float, NDArray[np.float32]]:
    """Constant c and coefficients, highest power of 2 t - 1 first, of K s at b = 0 and x <= 0.

    Here s = c + |x|, t = c / s and K is the mean of a Gaussian of mean x cut to the positive half line.

    Examples
    --------
    >>> normal_mean()[1].shape
    (13,)
    """
    scale = 3.0
    y = np.cos(np.pi * (np.arange(64) + 0.5) / 64)
    s = 2.0 * scale / (1.0 + y)
    _, rho, curvature = evaluate(scale - s, power_table(0.0))
    return scale, _relative_fit(y, -curvature / rho * s, 12)[::-1].astype(np.float32)


def _relative_fit(y: Doubles, values: Doubles, degree: int) -> Doubles:
    return np.asarray(np.polynomial.polynomial.polyfit(y, values, degree, w=1.0 / values), dtype=np.float64)
