"""Densities of Gaussian mixtures on many grids: Σ_j exp(b_j) N(x; c_j, τ), times a factor e^{a(x)}.

With equidistant centres the Gaussians of neighbours differ by a ratio that itself shrinks by a constant factor,
so a block of them needs two exponentials at its middle and multiplications outwards. The biases b_j and factors
a(x) can be ±hundreds while what they add up to is of order one: they meet in the exponent, block by block.
Centres further apart than the Gaussians are wide would let the middle of a block vanish before its ends do:
those are summed one by one.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Reals

BLOCK = 1 << 17
"""Gaussians formed at a time where they are summed one by one."""


def mixtures(x: Reals, factor: Reals, centres: Reals, bias: Reals, variance: Reals) -> Reals:
    """Return the densities (q, n) at points `x` (q, n) of the mixtures of `variance` (q,), times exp(`factor`) (q, n).

    `centres` and `bias` (k,) are the same for all rows; centres are equidistant.

    >>> x, zero = np.array([[0.0, 1.0]]), np.zeros((1, 2))
    >>> mixtures(x, zero, np.array([0.0]), np.zeros(1), np.ones(1)).round(6)
    array([[0.398942, 0.241971]])
    """
    if len(centres) > 1 and (centres[1] - centres[0]) ** 2 <= 2 * variance.min():
        from solspace.numerics.mixture_kernels import mixture_rows

        return mixture_rows(x, factor, centres, bias, variance)
    return one_by_one(x, factor, centres, bias, variance)


def one_by_one(x: Reals, factor: Reals, centres: Reals, bias: Reals, variance: Reals) -> Reals:
    """Return what `mixtures` does, for any centres."""
    density = np.empty(x.shape)
    rows = max(1, BLOCK // len(centres))
    for k, width in enumerate(variance):
        for first in range(0, x.shape[1], rows):
            part = slice(first, first + rows)
            exponent = np.subtract.outer(x[k, part], centres)
            np.multiply(exponent, exponent, out=exponent)
            exponent *= -0.5 / width
            exponent += bias
            exponent += factor[k, part, None]
            density[k, part] = np.exp(exponent, out=exponent).sum(axis=1)
    return density / np.sqrt(2 * np.pi * variance)[:, None]
