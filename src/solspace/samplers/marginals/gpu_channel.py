"""The constraints' response on a CUDA device: the targets that are supported, and the tables that it is read from.

Every power law, tilted or not, and every step of the weight at the margin is a function of one variable, tabulated once. A
band is a function of two, the distance from the nearer wall and the variance: a plane of some megabytes, interpolated by
cubics in both. `kernels/cuda/messages.cu` has the formulas.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import DTypeLike

from solspace.measure import Target
from solspace.measure.potentials import Band, Errors, Hinge, Log, LogBand, LogQuadratic, Potential, Uniform, Wall
from solspace.measure.priors import Binary, Spherical
from solspace.numerics.arrays import Array
from solspace.numerics.power import gaussian_power_derivatives
from solspace.problem import Perceptron

MIDDLE, SIDE, LEFT, RIGHT = 1024, 64, -4.0, 12.0  # cells of the table's middle and sides; where the middle begins, ends
ROWS, ROW_STEP, LEAST = 380, 0.05, -14.0  # cells of a band's plane along log V, their step, and where they begin
FIELDS, FIELD_STEP, OUTERMOST = 580, 0.03, -8.7  # the same along asinh ξ, ξ the distance from the wall in units of √V
CONSTANTS = (  # of the kernels
    ("MIDDLE", MIDDLE), ("SIDE_CELLS", SIDE), ("EDGE_LEFT", f"{LEFT}f"), ("EDGE_RIGHT", f"{RIGHT}f"),
    ("PLANE_ROWS", ROWS), ("ROW_STEP", f"{ROW_STEP}f"), ("LEAST", f"{LEAST}f"), ("PLANE_FIELDS", FIELDS),
    ("FIELD_STEP", f"{FIELD_STEP}f"), ("OUTERMOST", f"{OUTERMOST}f"),
)  # fmt: skip


def supported(problem: Perceptron, full: bool, dtype: DTypeLike) -> str:
    """Return why the problem cannot run on a device; empty if it can."""
    target = problem.target
    if not isinstance(target.prior, (Binary, Spherical)):
        return f"On a device localize takes binary and spherical weights; got {target.prior}. Use device='cpu'."
    if form(target) is None:
        names = "uniform, log, LogQuadratic, band, log_band, wall, hinge and errors"
        return f"On a device localize takes the potentials {names}; got {target.potential}. Use device='cpu'."
    if full:
        return "On a device localize takes variances='scalar' only; give that, or use device='cpu'."
    if np.dtype(dtype) != np.float32:
        return "On a device localize works in float32; for float64 use device='cpu'."
    return ""


def form(target: Target) -> tuple[int, float, float, float] | None:
    """Return the weight of a constraint for the kernel: FORM, its two numbers, and the table's exponent; None if unknown.

    >>> form(Target(potential="log", temperature=0.5))
    (0, 0.0, 0.0, 2.0)
    """
    potential, beta = target.potential, target.beta
    if isinstance(potential, Log):
        return 0, 0.0, 0.0, beta
    if isinstance(potential, Uniform) or (isinstance(potential, (Hinge, Errors)) and np.isinf(beta)):
        return 0, 0.0, 0.0, 0.0
    if isinstance(potential, LogQuadratic) and potential.quadratic >= 0:
        return 1, beta * potential.linear, beta * potential.quadratic, beta
    if isinstance(potential, (Band, LogBand, Wall)) and potential.centre is not None:
        return 4, max(potential.breakpoints) - potential.centre, 0.0, 0.0
    if isinstance(potential, Wall):
        return 0 if potential.upper is None else 5, 0.0, 0.0, beta
    if isinstance(potential, Errors):
        return 2, beta, float(-np.expm1(-beta)), 0.0
    if isinstance(potential, Hinge):
        return 3, beta, 0.0, 0.0
    return None


def response_table(target: Target) -> Array:
    """Return ρ(x) and its slope, x = (ω - κ)/√V, as the device interpolates them: (cells, 2) float32.

    The middle x = -4 .. 12 on an even grid; the far left as -x (ρ + x) and slope in -1/x; the far right as x ρ and
    x² slope in 1/x. All are smooth, so that a cubic through four neighbours is exact to float32.
    """
    found = form(target)
    assert found is not None
    return _plane(target.potential, target.beta) if found[0] == 4 else _table(found[3])


@lru_cache(maxsize=4)
def _plane(potential: Potential, beta: float) -> Array:
    """Return √V g less its ramp (√(1 + ξ²) - ξ)/2, and V dg, at every V and ξ: (ROWS + 3, FIELDS + 3, 2) float32.

    The ramp is what a wall does far outside; without it values are small there, and smooth everywhere.
    """
    xi = np.sinh(OUTERMOST + FIELD_STEP * (np.arange(FIELDS + 3) - 1.0))
    ramp = np.where(xi > 0, 0.5 / (np.hypot(1, xi) + np.abs(xi)), 0.5 * (np.hypot(1, xi) - xi))
    lower = min(potential.breakpoints)
    plane = np.empty((ROWS + 3, FIELDS + 3, 2))
    for row, variance in enumerate(np.exp(LEAST + ROW_STEP * (np.arange(ROWS + 3) - 1.0))):
        # values past the middle by more than a cell are never read
        seen = np.minimum(xi * np.sqrt(variance), 1.2 * (max(potential.breakpoints) - lower))
        _, g, dg = potential.channel(lower + seen, np.full(len(xi), variance), beta)
        plane[row] = np.stack([np.sqrt(variance) * g - ramp, variance * dg], axis=1)
    return plane.astype(np.float32)


@lru_cache(maxsize=16)
def _table(beta: float) -> Array:
    middle = LEFT + (np.arange(MIDDLE + 3) - 1) * ((RIGHT - LEFT) / MIDDLE)
    cells = (np.arange(SIDE + 3) - 1) / SIDE
    # the outermost points stand in for x = ∓∞ and beyond, where the functions are even in 1/x to the order that counts
    left, right = (np.maximum(np.abs(cells), 1e-3) / edge for edge in (-LEFT, RIGHT))
    rows = []
    for x, side in ((middle, ""), (-1 / left, "left"), (1 / right, "right")):
        rho, slope = (part[:, 0] for part in gaussian_power_derivatives(np.ascontiguousarray(x[:, None]), 1.0, beta))
        if side == "left":
            rho = -x * (rho + x)
        elif side == "right":
            rho, slope = x * rho, x * x * slope
        rows.append(np.stack([rho, slope], axis=1))
    return np.concatenate(rows).astype(np.float32)
