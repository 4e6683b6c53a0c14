"""The two halves of an AMP iteration in array arithmetic: any array library, any potential, any prior.

This is what the compiled kernels are tested against, and what runs where there are none. Samples are columns; `weight`
is how far a column moves towards its new value (1 undamped, 0 frozen). A frozen column keeps its bits.
"""

from __future__ import annotations

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.samplers.kernels.channel_response import respond_into


def respond(
    product: Array, g: Array, variance: Array, weight: Array, target: Target, new: Array, curvature: Array
) -> tuple[Array, Array]:
    """Turn the products X m/√n (m, k) into the constraints' response: the output half of an iteration.

    omega = product - V g; `new` becomes g(omega, V), `curvature` its derivative dg, and `g` moves towards the new one.
    Returns the means of dg and of dg² over the constraints, (k,) each. `product` is used up.
    """
    product -= variance * g
    product -= product.dtype.type(target.margin)
    respond_into(target, product, variance, (new, curvature))
    _move(g, new, weight)
    return curvature.mean(axis=0), (curvature * curvature).mean(axis=0)


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
    product += precision * mean
    product += field
    if share is not None:
        field[:, weight > 0] = (share * product)[:, weight > 0]
    new, variance = target.prior.marginals(precision + time, product)
    change = ((new - mean) ** 2).mean(axis=0)
    _move(mean, new, weight)
    if spread is not None:
        spread[:, weight > 0] = variance[:, weight > 0]
    return change, variance.mean(axis=0), (variance * variance).mean(axis=0)


def _move(old: Array, new: Array, weight: Array) -> None:
    # By columns: a frozen column may meet a new value that overflowed, and zero times infinity must not reach it.
    moving = weight > 0
    old[:, moving] += weight[moving] * (new[:, moving] - old[:, moving])
