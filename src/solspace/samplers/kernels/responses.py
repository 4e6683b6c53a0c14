"""Responses (g, dg) of constraints from a table, where the channel has no closed form and would be integrated one by one.

In the scaled field x = ω/√V the channel is smooth: γ = √V g and c = V dg change over distances of order one near x = 0, and of
order x far from it. So they are tabulated on even grids of asinh x and log V, by rows of one V as a run needs them, and
interpolated by six points either way. Every cell between two rows is tried at random points before it is used; where a potential
has structure that the grid cannot follow, and outside of the grid, constraints are integrated. Fields are counted from the
margin; those of a band, which is even about its centre, inwards from the nearer of its walls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np

from solspace.measure.likelihoods import Logistic, Probit
from solspace.measure.potentials import LogBand, Own, Potential, Tau, Wall
from solspace.numerics.arrays import Array
from solspace.system.compiled import FAST, njit
from solspace.system.threads import split

FIELD_STEP, VARIANCE_STEP = 0.02, 0.08  # steps of asinh x and log V
FIRST, LAST = -30.0, 2000.0  # first and last x
START = np.arcsinh(FIRST)
REACH = 20.0  # largest |ω| that is read from the table
ACCURACY = 1e-6  # largest error of γ and c, relative to 1 + their size, that a cell may show
TRIALS = 24
WORTHWHILE = 100  # number of responses from which on a table pays


class ResponseTable:
    """γ and c of `potential` at inverse temperature `beta`; rows are added as variances ask for them.

    >>> table, omega = ResponseTable(Tau(0.5), 2.0), np.array([[0.3], [1.1]], np.float32)
    >>> g, dg = np.empty_like(omega), np.empty_like(omega)
    >>> table.respond_into(omega, np.array([0.2], np.float32), (g, dg))
    >>> exact, _ = Tau(0.5).derivatives(omega.astype(float), 0.2, 2.0)
    >>> bool(np.abs(g - exact).max() < 1e-5)
    True
    """

    def __init__(self, potential: Potential, beta: float) -> None:
        self.potential, self.beta = potential, beta
        # a band is folded: its fields are counted from the nearer wall, `half` its half width
        band = potential.centre is not None
        self.centre = potential.centre or 0.0
        self.half = max(potential.breakpoints) - self.centre if band else np.inf
        self.breakpoints = (0.0,) if band else tuple(potential.breakpoints)
        self.grid = np.sinh(START + FIELD_STEP * np.arange(round((np.arcsinh(LAST) - START) / FIELD_STEP) + 1))
        self.rows: dict[int, Array] = {}
        self.sound: dict[int, bool] = {}

    def respond_into(self, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
        """Write (g, dg) at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
        sign = None
        if np.isfinite(self.half):
            offset = omega - omega.dtype.type(self.centre)
            sign, omega = np.where(offset > 0, offset.dtype.type(-1), offset.dtype.type(1)), self.half - np.abs(offset)
        depth = np.log(variance.astype(np.float64)) / VARIANCE_STEP
        cells = np.floor(depth).astype(int)
        sound = self._prepare(np.unique(cells))
        low = int(cells.min()) - 2
        stack = np.array([self.rows[i] for i in range(low, int(cells.max()) + 4) if i in self.rows])
        if variance.ndim == 1:
            weights = _lagrange(depth - cells)
            tables = np.array([w @ self._six(cell) for w, cell in zip(weights, cells)]).reshape(len(cells), 2, -1)
            _look_up(_table_by_column, omega, variance, out, tables)
        elif len(stack) < int(cells.max()) + 4 - low:  # rows in between are missing
            sound = dict.fromkeys(sound, False)
        else:
            _look_up(_table_by_element, omega, variance, out, stack, low)
        trusted = all(sound.values()) or np.isin(cells, [cell for cell, right in sound.items() if right])
        self._mend(omega, variance, np.asarray(trusted), out)
        if sign is not None:
            np.multiply(out[0], sign, out=out[0])

    def _prepare(self, cells: Array) -> dict[int, bool]:
        """Add the rows that `cells` need, try the new ones, and return which can be trusted."""
        for cell in cells:
            if cell not in self.sound:
                for i in range(cell - 2, cell + 4):
                    if i not in self.rows:
                        self.rows[i] = np.array(self._exact(self.grid, np.exp(VARIANCE_STEP * i))).reshape(-1)
                self.sound[cell] = self._holds(int(cell))
        return {int(cell): self.sound[cell] for cell in cells}

    def _exact(self, x: Array, variance: float) -> tuple[Array, Array]:
        omega = self._unfolded(x * np.sqrt(variance))
        g, dg = self.potential.derivatives(omega, np.full(len(x), variance), self.beta)
        return np.sqrt(variance) * g, variance * dg

    def _holds(self, cell: int) -> bool:
        """Return whether the table is right at random points of a cell."""
        random = np.random.default_rng(abs(cell))
        share = random.uniform(0.3, 0.7)
        width = np.exp(VARIANCE_STEP * (cell + share) / 2)
        ends = np.arcsinh(np.clip([-REACH / width, REACH / width], FIRST, LAST))
        near = [point / width + random.uniform(-4, 4, TRIALS) for point in self.breakpoints]
        x = np.concatenate([np.sinh(random.uniform(ends[0], ends[1], TRIALS)), *near])
        x = x[(x > self.grid[3]) & (x < self.grid[-4]) & (np.abs(x) * width < REACH) & (x * width <= self.half)]
        own = (_lagrange(np.array([share]))[0] @ self._six(cell)).reshape(1, 2, -1)
        exact, found = np.array(self._exact(x, width**2)), np.empty((2, len(x), 1))
        _table_by_column(x[:, None], np.ones(1), own, found[0], found[1])
        return bool((np.abs(found[..., 0] - exact) <= ACCURACY * (1 + np.abs(exact))).all())

    def _unfolded(self, omega: Array) -> Array:
        """Return the field below the centre that is counted as `omega`."""
        return omega if np.isinf(self.half) else omega + (self.centre - self.half)

    def _six(self, cell: int) -> Array:
        return np.array([self.rows[i] for i in range(cell - 2, cell + 4)])

    def _mend(self, omega: Array, variance: Array, sound: Array, out: tuple[Array, Array]) -> None:
        """Integrate where the table has no answer."""
        wide = np.broadcast_to(variance, omega.shape)
        x = omega / np.sqrt(wide)
        outside = (x <= self.grid[3]) | (x >= self.grid[-4]) | (np.abs(omega) > REACH)
        poor = (~np.broadcast_to(sound, omega.shape) | outside) & np.isfinite(x)
        if poor.any():
            fields = self._unfolded(omega[poor].astype(float))
            exact = self.potential.derivatives(fields, wide[poor].astype(float), self.beta)
            out[0][poor], out[1][poor] = exact


def _look_up(
    kernel: Callable[..., None], omega: Array, variance: Array, out: tuple[Array, Array], *tables: Array | int
) -> None:
    def part(first: int, last: int) -> None:
        rows = slice(first, last)
        kernel(omega[rows], variance if variance.ndim == 1 else variance[rows], *tables, out[0][rows], out[1][rows])

    split(part, len(omega), max(1, (1 << 14) // omega.shape[1]))


def _lagrange(share: Array) -> Array:
    """Return the weights (k, 6) of the rows -2, …, 3 for a value at `share` (k,) of the way from row 0 to row 1."""
    return np.array(_weights.py_func(share)).T


def by_quadrature(potential: Potential) -> bool:
    """Return whether the channel of `potential` is integrated, having no closed form, or one that takes long."""
    if isinstance(potential, Own):
        return not hasattr(potential.model, "channel")
    if isinstance(potential, Tau):
        return potential.tau > 0
    if isinstance(potential, (LogBand, Wall)):
        return potential.centre is not None
    if isinstance(potential, (Logistic, Probit)):
        return True
    return type(potential).channel is Potential.channel


def table_for(potential: Potential, beta: float, omega: Array, variance: Array) -> ResponseTable | None:
    """Return the table to read (g, dg) from, None where they are better computed."""
    if omega.dtype != np.float32 or omega.size < WORTHWHILE or not by_quadrature(potential):
        return None
    if not (np.isfinite(variance).all() and (variance > 0).all()):
        return None
    try:
        return _table(potential, beta)
    except TypeError:  # an object that cannot be hashed
        return None


@lru_cache(maxsize=4)
def _table(potential: Potential, beta: float) -> ResponseTable:
    return ResponseTable(potential, beta)


@njit(inline="always", **FAST)
def _place(x, size):
    """Return the node of a table to the left of asinh x, kept inside, and how far behind it x is."""
    magnitude = abs(x)
    depth = math.log(magnitude + math.sqrt(magnitude * magnitude + 1.0))
    at = ((depth if x >= 0 else -depth) - START) / FIELD_STEP
    node = min(max(int(at), 2), size - 4) if abs(at) < 1e9 else 2
    return node, at - node


@njit(inline="always", **FAST)
def _weights(s):
    """Return the weights of the nodes -2, …, 3 at a share `s` of the way from node 0 to node 1."""
    left, right, middle = (s + 2) * (s + 1), (s - 2) * (s - 3), s * (s - 1)
    return (
        -(s + 1) * middle * right / 120,
        (s + 2) * middle * right / 24,
        -left * (s - 1) * right / 12,
        left * s * right / 12,
        -left * middle * (s - 3) / 24,
        left * middle * (s - 2) / 120,
    )


@njit(inline="always", **FAST)
def _read(row, node, w):
    return (
        w[0] * row[node - 2]
        + w[1] * row[node - 1]
        + w[2] * row[node]
        + w[3] * row[node + 1]
        + w[4] * row[node + 2]
        + w[5] * row[node + 3]
    )


@njit(**FAST)
def _table_by_column(omega, variance, tables, g, dg):
    """Fill g and dg (m, k) from a table for every column, (k, 2, size)."""
    for r in range(omega.shape[0]):
        for k in range(omega.shape[1]):
            inverse = 1.0 / math.sqrt(variance[k])
            node, share = _place(omega[r, k] * inverse, tables.shape[2])
            w = _weights(share)
            g[r, k] = _read(tables[k, 0], node, w) * inverse
            dg[r, k] = _read(tables[k, 1], node, w) * inverse * inverse


@njit(**FAST)
def _table_by_element(omega, variance, stack, low, g, dg):
    """Fill g and dg (m, k), each at its own variance, from `stack` (rows, 2 size) whose first row is number `low`."""
    size = stack.shape[1] // 2
    for r in range(omega.shape[0]):
        for k in range(omega.shape[1]):
            inverse = 1.0 / math.sqrt(variance[r, k])
            depth = math.log(variance[r, k]) / VARIANCE_STEP
            cell = math.floor(depth)
            v = _weights(depth - cell)
            node, share = _place(omega[r, k] * inverse, size)
            w = _weights(share)
            value, slope = 0.0, 0.0
            for i in range(6):
                row = stack[cell - 2 - low + i]
                value += v[i] * _read(row, node, w)
                slope += v[i] * _read(row, size + node, w)
            g[r, k], dg[r, k] = value * inverse, slope * inverse * inverse
