"""The two halves of an AMP iteration by compiled loops, for the priors that have them; `plain` does the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure import Target, priors
from solspace.numerics.threads import split
from solspace.samplers.kernels import plain
from solspace.samplers.kernels.products import Products
from solspace.samplers.kernels.response import respond_into

Array = NDArray[Any]
products = Products


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array
) -> tuple[Array, Array]:
    """Return what `plain.respond` returns."""
    from solspace.samplers.kernels import elementwise

    margin = product.dtype.type(target.margin)
    wide = np.atleast_2d(variance)
    _by_rows(lambda s: elementwise.subtract_reaction(product[s], g[s], wide[s] if len(wide) > 1 else wide, margin), g)
    respond_into(target, product, variance, (new, curvature))
    return _sums(2, len(g), weight, lambda first, sums: elementwise.settle(g, new, curvature, weight, first, sums))


def estimate(
    product: Array,
    field: Array,
    mean: Array,
    spread: Array | None,
    precision: Array,
    time: Array,
    weight: Array,
    target: Target,
) -> tuple[Array, Array, Array]:
    """Return what `plain.estimate` returns."""
    uniform = precision.ndim == 1
    if isinstance(target.prior, priors.Binary):
        return _binary(product, field, mean, spread, np.atleast_2d(precision), weight)
    if isinstance(target.prior, priors.Spherical) and uniform:
        return _spherical(product, field, mean, spread, np.atleast_2d(precision), weight)
    return plain.estimate(product, field, mean, spread, precision, time, weight, target)


def _binary(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, weight: Array
) -> tuple[Array, Array, Array]:
    from solspace.samplers.kernels import elementwise

    kept = np.empty((0, 0), mean.dtype) if spread is None else spread

    def piece(first: int, sums: Array) -> None:
        elementwise.binary_marginals(product, field, mean, kept, precision, weight, first, sums)

    return _sums(3, len(mean), weight, piece)


def _spherical(
    product: Array, field: Array, mean: Array, spread: Array | None, precision: Array, weight: Array
) -> tuple[Array, Array, Array]:
    """With one precision for all weights, Λ = A + t + γ = (1 + √(1 + 4b))/2, b = mean(B²): no root to find."""
    from solspace.samplers.kernels import elementwise

    rows = len(mean)
    (power,) = _sums(
        1, rows, weight, lambda first, sums: elementwise.tilt(product, field, mean, precision, first, sums)
    )
    factor = (2 / (1 + np.sqrt(1 + 4 * power))).astype(mean.dtype)
    (change,) = _sums(
        1, rows, weight, lambda first, sums: elementwise.scale_towards(product, mean, factor, weight, first, sums)
    )
    if spread is not None:
        spread[:, weight > 0] = factor[weight > 0]
    width = factor.astype(np.float64)
    return change, width, width * width


def _sums(count: int, rows: int, weight: Array, piece: Callable[[int, Array], None]) -> Any:
    """Return the means over `rows` of what `piece(first, sums)` adds up, (count, k) in float64."""
    from solspace.samplers.kernels.elementwise import PIECE

    sums = np.zeros((-(-rows // PIECE), count, weight.size))
    split(lambda first, last: piece(first, sums[first:last]), len(sums), max(1, (1 << 16) // (PIECE * weight.size)))
    return sums.sum(axis=0) / rows


def _by_rows(task: Callable[[slice], None], array: Array) -> None:
    split(lambda first, last: task(slice(first, last)), len(array), max(1, (1 << 16) // array.shape[1]))
