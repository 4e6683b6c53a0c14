"""Approximate message passing for a batch of fields on one problem (the paper's Algorithm 1).

One iteration sends the means of the weights to the constraints and the constraints' response back:

    V_μ = Σ_i x_μi² Δ_i/n            ω_μ = Σ_i x_μi m_i/√n - V_μ g_μ          (minus the Onsager reaction)
    g_μ = ∂_ω log Z(ω_μ, V_μ)        A_i = -Σ_μ x_μi² ∂_ω g_μ/n               B_i = Σ_μ x_μi g_μ/√n + A_i m_i
    m_i, Δ_i = mean and variance of the prior tilted by exp(-(A_i + t) w²/2 + (B_i + h_i) w)

With *scalar* variances the sums over x² are replaced by averages: the same marginals for i.i.d. patterns at half the matrix
products. *State damping* computes B from the undamped g and then moves m, g and V together: damping m alone counts the
Onsager reaction twice. V is floored at 0.5/n, half a weight undecided: below it, one violated constraint would pull with
an unbounded force and a run that misses a single constraint would lose a third of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.compiled import has_numba
from solspace.problem import Perceptron
from solspace.samplers.kernels import cpu, plain
from solspace.samplers.kernels.products import Products, columns

Array = NDArray[Any]
VARIANCE_FLOOR = 0.5
"""Least V, in units of 1/n."""


class Messages:
    """The state of AMP for `k` fields, samples as columns, and one iteration on it.

    Parameters
    ----------
    problem
        The problem.
    k
        How many fields.
    dtype
        float32 or float64.
    full
        Whether V and A are kept for each constraint and weight, or averaged.
    spreads
        Whether the variance of each weight is kept (always with `full`).

    Attributes
    ----------
    mean, spread
        (n, k) means m and variances Δ of the weights.
    g
        (m, k) response of the constraints.
    variance
        V, (k,) with scalar variances, (m, k) with full ones.
    instability
        (k,) λ = α mean(Δ²) mean(g'²), times the square of mean(x²): AMP can converge where it is below 1.
    """

    def __init__(self, problem: Perceptron, k: int, dtype: Any, full: bool = False, spreads: bool = False) -> None:
        self.problem, self.dtype, self.full, self.k = problem, np.dtype(dtype), full, k
        self.kernels = cpu if has_numba() else plain
        self.products = Products(problem, dtype)
        self.moment = second_moment(problem)
        n, m = problem.n, problem.m
        self.mean, self.g = columns(n, k, dtype), columns(m, k, dtype)
        self.spread = columns(n, k, dtype) if full or spreads else None
        self.variance = columns(m, k, dtype) if full else np.zeros(self.mean.shape[1], dtype)
        self.instability = np.zeros(self.mean.shape[1])
        self._forward, self._new, self._curvature = (columns(m, k, dtype) for _ in range(3))
        self._backward = columns(n, k, dtype)
        self._precision = columns(n, k, dtype) if full else None
        self.reset()

    def reset(self) -> None:
        """Forget everything: means 0, variances 1, no response."""
        self.mean[...], self.g[...] = 0, 0
        if self.spread is not None:
            self.spread[...] = 1
        self.variance[...] = 0
        self._set_variance(np.ones(self.mean.shape[1]), np.ones(self.mean.shape[1], self.dtype))

    def iterate(self, field: Array, time: Array, weight: Array) -> tuple[Array, Array]:
        """Move the columns of positive `weight` (width,) by one iteration at `field` (n, width) and `time` (width,).

        Returns the mean squared change of the means, before damping, and the mean variance of the weights.
        """
        target = self.problem.target
        product = self.products.forward(self.mean, out=self._forward)
        slope, roughness = self.kernels.respond(
            product, self.g, self.variance, weight, target, self._new, self._curvature
        )
        back = self.products.backward(self._new, out=self._backward)
        if self._precision is not None:
            precision = self.products.backward_squares(self._curvature, out=self._precision)
            np.negative(precision, out=precision)
        else:
            precision = (-self.problem.alpha * self.moment * slope).astype(self.dtype)
        change, width, width2 = self.kernels.estimate(
            back, field, self.mean, self.spread, precision, time, weight, target
        )
        self._set_variance(width, weight)
        measured = self.problem.alpha * self.moment**2 * roughness * width2
        self.instability = np.where(weight > 0, measured, self.instability)
        return change, width

    def _set_variance(self, width: Array, weight: Array) -> None:
        if self.full:
            new = self.products.forward_squares(self.spread, out=self._forward)
        else:
            new = (self.moment * width).astype(self.dtype)
        new = np.maximum(new, self.dtype.type(VARIANCE_FLOOR / self.problem.n))
        moving = weight > 0
        self.variance[..., moving] += weight[moving] * (new - self.variance)[..., moving]


def second_moment(problem: Perceptron) -> float:
    """Return the mean of x² over all entries of the patterns."""
    if problem.has_binary_patterns:
        return 1.0
    return sum(float((block * block).sum()) for _, block in problem.blocks()) / (problem.m * problem.n)
