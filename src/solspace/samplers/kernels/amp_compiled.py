"""The two halves of an AMP iteration, by compiled loops where the prior has them.

Samples are columns; `weight` is how far a column moves towards its new value (1 undamped, 0 frozen). A frozen column keeps
its bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from solspace.measure import Target, channels, potentials, priors
from solspace.numerics.arrays import Array
from solspace.samplers.kernels.channel_table import table_for
from solspace.system.threads import split

LANES = 16
"""Width of the rows into which few columns are folded."""


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array
) -> tuple[Array, Array]:
    """Turn the products X m/√n (m, k) into the constraints' response: the output half of an iteration.

    omega = product - V g; `new` becomes g(omega, V), `curvature` its derivative dg, and `g` moves towards the new one.
    Returns the means of dg and of dg² over the constraints, (k,) each. `product` is used up.
    """
    from solspace.samplers.kernels import amp_loops as elementwise

    margin = product.dtype.type(target.margin)
    wide = np.atleast_2d(variance)
    _by_rows(lambda s: elementwise.subtract_reaction(product[s], g[s], wide[s] if len(wide) > 1 else wide, margin), g)
    respond_into(target, product, variance, (new, curvature))
    return _means(2, elementwise.settle, g, new, curvature, weight)


def respond_into(target: Target, omega: Array, variance: Array, out: tuple[Array, Array]) -> None:
    """Write (g, dg) of `target` at `omega` (m, k), measured from the margin, and `variance` (k,) or (m, k) into `out`."""
    potential = target.potential
    if isinstance(potential, (potentials.Uniform, potentials.Log)):
        exponent = 0.0 if isinstance(potential, potentials.Uniform) else target.beta
        channels.power_derivatives(omega, variance, exponent, out)
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
    uniform = precision.ndim == 1
    if isinstance(target.prior, priors.Binary):
        return _binary(product, field, mean, spread, np.atleast_2d(precision), weight, share)
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


def _binary(
    product: Array,
    field: Array,
    mean: Array,
    spread: Array | None,
    precision: Array,
    weight: Array,
    share: Array | None,
) -> tuple[Array, Array, Array]:
    from solspace.samplers.kernels import amp_loops as elementwise

    kept = np.empty((0, 0), mean.dtype) if spread is None else spread
    if share is not None:
        return _means(3, elementwise.fed_marginals, product, field, mean, kept, precision, weight, share)
    return _means(3, elementwise.binary_marginals, product, field, mean, kept, precision, weight)


def _spherical(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """With one precision for all weights, Λ = A + t + γ = (1 + √(1 + 4b))/2, b = mean(B²): no root to find."""
    from solspace.samplers.kernels import amp_loops as elementwise

    (power,) = _means(1, elementwise.tilt, product, field, mean, precision)
    factor = (2 / (1 + np.sqrt(1 + 4 * power))).astype(mean.dtype)
    (change,) = _means(1, elementwise.scale_towards, product, mean, factor, weight)
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
