"""The two halves of an AMP iteration by compiled loops, for the priors that have them; `amp_plain` does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from solspace.measure import Target, priors
from solspace.numerics.arrays import Array
from solspace.samplers.kernels import amp_plain as plain
from solspace.samplers.kernels.channel_response import respond_into
from solspace.system.threads import split

LANES = 16
"""Width of the rows into which few columns are folded."""


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array
) -> tuple[Array, Array]:
    """Return what `plain.respond` returns."""
    from solspace.samplers.kernels import amp_loops as elementwise

    margin = product.dtype.type(target.margin)
    wide = np.atleast_2d(variance)
    _by_rows(lambda s: elementwise.subtract_reaction(product[s], g[s], wide[s] if len(wide) > 1 else wide, margin), g)
    respond_into(target, product, variance, (new, curvature))
    return _means(2, elementwise.settle, g, new, curvature, weight)


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
    """Return what `plain.estimate` returns."""
    uniform = precision.ndim == 1
    if isinstance(target.prior, priors.Binary):
        return _binary(product, field, mean, spread, np.atleast_2d(precision), weight, share)
    if isinstance(target.prior, priors.Spherical) and uniform:
        return _spherical(product, field, mean, spread, np.atleast_2d(precision), weight)
    return plain.estimate(product, field, mean, spread, precision, time, weight, target, share)


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


def _means(count: int, kernel: Any, *arrays: Array) -> Any:
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


def _sums(count: int, kernel: Any, arrays: Any) -> Array:
    from solspace.samplers.kernels.amp_loops import PIECE

    rows, k = arrays[0].shape
    sums = np.zeros((-(-rows // PIECE), count, k))
    split(lambda first, last: kernel(*arrays, first, sums[first:last]), len(sums), max(1, (1 << 16) // (PIECE * k)))
    return sums.sum(axis=0)


def _by_rows(task: Callable[[slice], None], array: Array) -> None:
    split(lambda first, last: task(slice(first, last)), len(array), max(1, (1 << 16) // array.shape[1]))
