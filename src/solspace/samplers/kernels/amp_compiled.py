"""The two halves of an AMP iteration, by compiled loops where the prior has them.

Samples are columns; `weight` is how far a column moves towards its new value (1 undamped, 0 frozen). A frozen column keeps
its bits.

Responses of potentials that have no closed form are read from a table instead of integrated for every constraint: a channel
by quadrature costs some 25 to 50 µs, one with walls on both sides 1 µs. In the scaled field x = ω/√V it is smooth: γ = √V g
and c = V dg change over distances of order one near x = 0, and of order x far from it. So they are tabulated on even grids of
asinh x and log V, by rows of one V as a run needs them, and interpolated by six points either way. Every cell between two rows
is tried at random points before it is used; where a potential has structure that the grid cannot follow, and outside of the
grid, constraints are integrated as before. Fields are counted from the margin; those of a band, which is even about its
centre, inwards from the nearer of its walls.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from solspace.measure import Target, priors
from solspace.measure.potentials import Log, LogBand, Own, Potential, Tau, Uniform, Wall
from solspace.numerics.arrays import Array
from solspace.numerics.power import gaussian_power_derivatives
from solspace.system.threads import split

LANES = 16
"""Width of the rows into which few columns are folded."""
FIELD_STEP, VARIANCE_STEP = 0.02, 0.08
"""Steps of asinh x and log V."""
FIRST, LAST = -30.0, 2000.0
"""The grid's first and last x."""
REACH = 20.0
"""Largest |ω| that is read from the table."""
ACCURACY = 1e-6
"""Largest error of γ and c, relative to 1 + their size, that a cell may show."""
TRIALS = 24
WORTHWHILE = 100
"""Number of responses from which on a table pays."""


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array
) -> tuple[Array, Array]:
    """Turn the products X m/√n (m, k) into the constraints' response: the output half of an iteration.

    omega = product - V g; `new` becomes g(omega, V), `curvature` its derivative dg, and `g` moves towards the new one.
    Returns the means of dg and of dg² over the constraints, (k,) each. `product` is used up.
    """
    from solspace.samplers.kernels import amp_loops

    margin = product.dtype.type(target.margin)
    wide = np.atleast_2d(variance)
    _by_rows(lambda s: amp_loops.subtract_reaction(product[s], g[s], wide[s] if len(wide) > 1 else wide, margin), g)
    respond_into(target, product, variance, (new, curvature))
    return _means(2, amp_loops.settle, g, new, curvature, weight)


def respond_into(target: Target, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
    """Write (g, dg) of `target` at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
    potential = target.potential
    if isinstance(potential, (Uniform, Log)):
        exponent = 0.0 if isinstance(potential, Uniform) else target.beta
        gaussian_power_derivatives(omega, variance, exponent, out)
        return
    table = table_for(potential, target.beta, omega, variance)
    if table is not None:
        table.respond_into(omega, variance, out)
        return
    out[0][...], out[1][...] = potential.derivatives(omega, variance, target.beta)


def estimate(
    product: Array,
    field: Array,
    mean: Array,
    spread: Array | None,
    precision: Array,
    time: Array,
    weight: Array,
    target: Target,
    share: Array | None = None,
) -> tuple[Array, Array, Array]:
    """Turn the products Xᵀ g/√n (n, k) into new marginals: the input half of an iteration.

    B = product + A m + h; `mean` moves towards the new mean, `spread` (where wanted) becomes the variance of each
    weight. Returns the mean squared (undamped) change of `mean`, and the means of the variances and of their squares
    over the weights, (k,) each. `product` is used up. Where a `share` (k,) is given, that much of B becomes the field of
    the columns that move.
    """
    from solspace.samplers.kernels import amp_loops

    uniform = precision.ndim == 1
    if isinstance(target.prior, priors.Binary):
        kept = np.empty((0, 0), mean.dtype) if spread is None else spread
        fed = np.empty(0, mean.dtype) if share is None else share
        wide = np.atleast_2d(precision)
        return _means(3, amp_loops.binary_marginals, product, field, mean, kept, wide, weight, fed)
    if isinstance(target.prior, priors.Spherical) and uniform:
        return _spherical(product, field, mean, spread, np.atleast_2d(precision), weight)
    return in_arrays(product, field, mean, spread, precision, time, weight, target, share)


def in_arrays(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, time: Array, weight: Array,
    target: Target, share: Array | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return what `estimate` does, for any prior."""
    product += precision * mean
    product += field
    if share is not None:
        field[:, weight > 0] = (share * product)[:, weight > 0]
    new, variance = target.prior.marginals(precision + time, product)
    change = ((new - mean) ** 2).mean(axis=0)
    # by columns: a frozen one may meet a new value that overflowed, and zero times infinity must not reach it
    moving = weight > 0
    mean[:, moving] += weight[moving] * (new[:, moving] - mean[:, moving])
    if spread is not None:
        spread[:, moving] = variance[:, moving]
    return change, variance.mean(axis=0), (variance * variance).mean(axis=0)


def _spherical(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """With one precision for all weights, Λ = A + t + γ = (1 + √(1 + 4b))/2, b = mean(B²): no root to find."""
    from solspace.samplers.kernels import amp_loops

    (power,) = _means(1, amp_loops.tilt, product, field, mean, precision)
    factor = (2 / (1 + np.sqrt(1 + 4 * power))).astype(mean.dtype)
    (change,) = _means(1, amp_loops.scale_towards, product, mean, factor, weight)
    if spread is not None:
        spread[:, weight > 0] = factor[weight > 0]
    width = factor.astype(np.float64)
    return change, width, width * width


def _means(count: int, kernel: Callable[..., None], *arrays: Array) -> Any:
    """Return the means over rows of what `kernel(*arrays, first, sums)` adds up, (count, k) in float64.

    Where columns are few, several rows are folded into one of LANES: what lies beside each other can be vectorised.
    """
    rows, k = arrays[0].shape
    if LANES % k:
        return _sums(count, kernel, arrays) / rows
    folded = rows - rows % (LANES // k)
    total = np.zeros((count, k))
    if folded:
        wide = [_fold(array, rows, k, folded) for array in arrays]
        total += _sums(count, kernel, wide).reshape(count, -1, k).sum(axis=1)
    if folded < rows:
        rest = [array[folded:] if array.ndim == 2 and len(array) == rows else array for array in arrays]
        total += _sums(count, kernel, rest)
    return total / rows


def _fold(array: Array, rows: int, k: int, folded: int) -> Array:
    """Return the first rows of columns (rows, k) as a view (folded k/LANES, LANES); what all rows share, repeated."""
    if array.ndim == 2 and len(array) == rows:
        return array[:folded].reshape(-1, LANES)
    return array if array.size == 0 else np.tile(array, LANES // k)


def _sums(count: int, kernel: Callable[..., None], arrays: Sequence[Array]) -> Array:
    from solspace.samplers.kernels.amp_loops import PIECE

    rows, k = arrays[0].shape
    sums = np.zeros((-(-rows // PIECE), count, k))
    split(lambda first, last: kernel(*arrays, first, sums[first:last]), len(sums), max(1, (1 << 16) // (PIECE * k)))
    return sums.sum(axis=0)


def _by_rows(task: Callable[[slice], None], array: Array) -> None:
    split(lambda first, last: task(slice(first, last)), len(array), max(1, (1 << 16) // array.shape[1]))


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
        self.band = Fold.of(potential)
        start, end = np.arcsinh([FIRST, LAST])
        self.grid = np.sinh(start + FIELD_STEP * np.arange(round((end - start) / FIELD_STEP) + 1))
        self.rows: dict[int, Array] = {}
        self.sound: dict[int, bool] = {}

    def respond_into(self, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
        """Write (g, dg) at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
        from solspace.samplers.kernels import amp_loops

        sign, omega = self.band.fold(omega)
        depth = np.log(variance.astype(np.float64)) / VARIANCE_STEP
        cells = np.floor(depth).astype(int)
        sound = self._prepare(np.unique(cells))
        low = int(cells.min()) - 2
        stack = np.array([self.rows[i] for i in range(low, int(cells.max()) + 4) if i in self.rows])
        if variance.ndim == 1:
            weights = _lagrange(depth - cells)
            tables = np.array([w @ self._six(cell) for w, cell in zip(weights, cells)]).reshape(len(cells), 2, -1)
            _look_up(amp_loops.table_by_column, omega, variance, out, tables)
        else:
            missing = int(cells.max()) + 4 - low - len(stack)
            if missing:
                sound = dict.fromkeys(sound, False)
            else:
                _look_up(amp_loops.table_by_element, omega, variance, out, stack, low, VARIANCE_STEP)
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
        omega = self.band.unfold(x * np.sqrt(variance))
        g, dg = self.potential.derivatives(omega, np.full(len(x), variance), self.beta)
        return np.sqrt(variance) * g, variance * dg

    def _holds(self, cell: int) -> bool:
        """Return whether the table is right at random points of a cell."""
        from solspace.samplers.kernels import amp_loops

        random = np.random.default_rng(abs(cell))
        share = random.uniform(0.3, 0.7)
        width = np.exp(VARIANCE_STEP * (cell + share) / 2)
        ends = np.arcsinh(np.clip([-REACH / width, REACH / width], FIRST, LAST))
        near = [point / width + random.uniform(-4, 4, TRIALS) for point in self.band.breakpoints]
        at = np.concatenate([np.sinh(random.uniform(ends[0], ends[1], TRIALS)), *near])
        at = at[
            (at > self.grid[3]) & (at < self.grid[-4]) & (np.abs(at) * width < REACH) & (at * width <= self.band.half)
        ]
        own = (_lagrange(np.array([share]))[0] @ self._six(cell)).reshape(2, -1)
        exact = np.array(self._exact(at, width**2))
        found = amp_loops.table_along(own, at, np.arcsinh(FIRST), FIELD_STEP)
        return bool((np.abs(found - exact) <= ACCURACY * (1 + np.abs(exact))).all())

    def _six(self, cell: int) -> Array:
        return np.array([self.rows[i] for i in range(cell - 2, cell + 4)])

    def _mend(self, omega: Array, variance: Array, sound: Array, out: tuple[Array, Array]) -> None:
        """Integrate where the table has no answer."""
        wide = np.broadcast_to(variance, omega.shape)
        x = omega / np.sqrt(wide)
        outside = (x <= self.grid[3]) | (x >= self.grid[-4]) | (np.abs(omega) > REACH)
        poor = (~np.broadcast_to(sound, omega.shape) | outside) & np.isfinite(x)
        if poor.any():
            given = self.band.unfold(omega[poor].astype(float))
            exact = self.potential.derivatives(given, wide[poor].astype(float), self.beta)
            out[0][poor], out[1][poor] = exact


@dataclass(frozen=True)
class Fold:
    """Where fields are counted from: zero, or for a band of half width `half` about `centre` the nearer of its walls."""

    breakpoints: tuple[float, ...]
    centre: float = 0.0
    half: float = np.inf

    @classmethod
    def of(cls, potential: Potential) -> Fold:
        """Return the fold of `potential`.

        >>> Fold.of(Tau(0.5)).half, Fold.of(LogBand(0.8)).half
        (inf, 0.8)
        """
        if potential.centre is None:
            return cls(tuple(potential.breakpoints))
        return cls((0.0,), potential.centre, max(potential.breakpoints) - potential.centre)

    def fold(self, omega: Array) -> tuple[Array | None, Array]:
        """Return the sign of the response, None where it is always +1, and the fields as counted here."""
        if np.isinf(self.half):
            return None, omega
        offset = omega - omega.dtype.type(self.centre)
        return np.where(offset > 0, omega.dtype.type(-1), omega.dtype.type(1)), self.half - np.abs(offset)

    def unfold(self, omega: Array) -> Array:
        """Return the field below the centre that is counted as `omega`."""
        return omega if np.isinf(self.half) else omega + (self.centre - self.half)


def _look_up(
    kernel: Callable[..., None], omega: Array, variance: Array, out: tuple[Array, Array], *tables: Array | float
) -> None:
    start = np.arcsinh(FIRST)

    def part(first: int, last: int) -> None:
        rows = slice(first, last)
        own = variance if variance.ndim == 1 else variance[rows]
        kernel(omega[rows], own, *tables, start, FIELD_STEP, out[0][rows], out[1][rows])

    split(part, len(omega), max(1, (1 << 14) // omega.shape[1]))


def _lagrange(share: Array) -> Array:
    """Return the weights (k, 6) of the rows -2, …, 3 for a value at `share` (k,) of the way from row 0 to row 1."""
    nodes = np.arange(-2, 4)
    weights = np.ones((len(share), 6))
    for i, node in enumerate(nodes):
        for other in nodes[nodes != node]:
            weights[:, i] *= (share - other) / (node - other)
    return weights


def by_quadrature(potential: Potential) -> bool:
    """Return whether the channel of `potential` is integrated, having no closed form, or one that takes long."""
    if isinstance(potential, Own):
        return not hasattr(potential.model, "channel")
    if isinstance(potential, Tau):
        return potential.tau > 0
    if isinstance(potential, (LogBand, Wall)):
        return potential.centre is not None
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
