"""Approximate message passing for a batch of fields on one problem (the paper's Algorithm 1).

One iteration sends the means of the weights to the constraints and the constraints' response back:

    V_μ = Σ_i x_μi² Δ_i/n            ω_μ = Σ_i x_μi m_i/√n - V_μ g_μ          (minus the Onsager reaction)
    g_μ = ∂_ω log Z(ω_μ, V_μ)        A_i = -Σ_μ x_μi² ∂_ω g_μ/n               B_i = Σ_μ x_μi g_μ/√n + A_i m_i
    m_i, Δ_i = mean and variance of the prior tilted by exp(-(A_i + t) w²/2 + (B_i + h_i) w)

With *scalar* variances the sums over x² are replaced by averages: the same marginals for i.i.d. patterns at half the
matrix products. *State damping* computes B from the undamped g and then moves m, g and V together: damping m alone
counts the Onsager reaction twice. For ±1 weights V is floored at 0.5/n, half a weight undecided: below it, one violated
constraint would pull with an unbounded force and a run that misses a single constraint would lose a third of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure.priors import Binary
from solspace.problem import Perceptron
from solspace.samplers.kernels import amp_compiled as cpu
from solspace.samplers.kernels import amp_plain as plain
from solspace.samplers.kernels.products import Products, columns
from solspace.samplers.kernels.products import width as allocated
from solspace.system.compiled import has_numba

Array = NDArray[Any]
VARIANCE_FLOOR = 0.5
"""Least V for ±1 weights, in units of 1/n."""
TINY = 1e-12
"""Least V for all others."""


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
        (width,) λ = α mean(Δ²) mean(g'²), times the square of mean(x²): AMP can converge where it is below 1.
    width
        (width,) mean variance of the weights.
    """

    def __init__(self, problem: Perceptron, k: int, dtype: Any, full: bool = False, spreads: bool = False) -> None:
        self.problem, self.dtype, self.full, self.k = problem, np.dtype(dtype), full, k
        self.kernels = cpu if has_numba() else plain
        self.products = Products(problem, dtype)
        self.moment = second_moment(problem)
        self.floor = VARIANCE_FLOOR / problem.n if isinstance(problem.target.prior, Binary) else TINY
        n, m = problem.n, problem.m
        self.mean, self.g = columns(n, k, dtype), columns(m, k, dtype)
        self.spread = columns(n, k, dtype) if full or spreads else None
        self.variance = columns(m, k, dtype) if full else np.zeros(self.mean.shape[1], dtype)
        self.instability, self.width = np.zeros(self.mean.shape[1]), np.ones(self.mean.shape[1])
        self._scratch = {name: columns(m, k, dtype) for name in ("forward", "new", "curvature")}
        self._scratch["backward"] = columns(n, k, dtype)
        if full:
            self._scratch["precision"] = columns(n, k, dtype)
        self.reset()

    def reset(self) -> None:
        """Forget everything: means 0, variances 1, no response."""
        every = np.ones(self.mean.shape[1], self.dtype)
        for part in (self.mean, self.g, self.variance):
            part[...] = 0
        if self.spread is not None:
            self.spread[...] = 1
        self._set_variance(np.ones(len(every)), every)

    def iterate(self, field: Array, time: Array, weight: Array) -> tuple[Array, Array]:
        """Move the columns of positive `weight` (k,) by one iteration at `field` (n, width) and `time` (k,).

        Returns the mean squared change of the means, before damping, and its ratio to the mean variance of the weights.
        """
        target, work = self.problem.target, self._scratch
        weight, time = self._widen(weight), self._widen(time)
        product = self.products.forward(self.mean, out=work["forward"])
        slope, roughness = self.kernels.respond(
            product, self.g, self.variance, weight, target, work["new"], work["curvature"]
        )
        back = self.products.backward(work["new"], out=work["backward"])
        if self.full:
            precision = self.products.backward_squares(work["curvature"], out=work["precision"])
            np.negative(precision, out=precision)
        else:
            precision = (-self.problem.alpha * self.moment * slope).astype(self.dtype)
        change, size, size2 = self.kernels.estimate(
            back, field, self.mean, self.spread, precision, time, weight, target
        )
        self._set_variance(size, weight)
        measured = self.problem.alpha * self.moment**2 * roughness * size2
        self.instability[...] = np.where(weight > 0, measured, self.instability)
        self.width[...] = np.where(weight > 0, size, self.width)
        return change[: self.k], (change / size)[: self.k]

    def _set_variance(self, size: Array, weight: Array) -> None:
        if self.full and self.spread is not None:
            new = self.products.forward_squares(self.spread, out=self._scratch["forward"])
        else:
            new = (self.moment * size).astype(self.dtype)
        new = np.maximum(new, self.dtype.type(self.floor))
        moving = weight > 0
        self.variance[..., moving] += weight[moving] * (new - self.variance)[..., moving]

    def _widen(self, values: Array) -> Array:
        """Return `values` (k,) for all allocated columns, 0 beyond `k`."""
        wide = np.zeros(self.mean.shape[1], self.dtype)
        wide[: self.k] = values
        return wide

    def state(self, copy: bool = True) -> list[Array]:
        """Return the arrays that the next iteration depends on, columns last."""
        parts = [self.mean, self.g, self.variance, self.instability, self.width]
        if self.spread is not None:
            parts.append(self.spread)
        return [part.copy() for part in parts] if copy else parts

    def take(self, lanes: Array) -> Messages:
        """Return messages of the columns `lanes` alone, a copy; scratch memory is shared."""
        few = object.__new__(Messages)
        few.__dict__.update(self.__dict__)
        few.k = len(lanes)
        for name in ("mean", "g", "variance", "spread"):
            given = getattr(self, name)
            setattr(few, name, given if given is None else self.part(given, lanes))
        few.instability, few.width = self.part(self.instability, lanes), self.part(self.width, lanes)
        wide = few.mean.shape[1]
        few._scratch = {
            name: part.reshape(-1)[: len(part) * wide].reshape(len(part), wide) for name, part in self._scratch.items()
        }
        return few

    def put(self, few: Messages, lanes: Array) -> None:
        """Write the columns of `few` to the columns `lanes`."""
        for own, given in zip(self.state(copy=False), few.state(copy=False)):
            own[..., lanes] = given[..., : few.k]

    def part(self, array: Array, lanes: Array) -> Array:
        """Return the columns `lanes` of `array` (rows, width) or (width,), as wide as their number asks for."""
        if array.ndim == 1:
            result = np.zeros(allocated(len(lanes), self.dtype), array.dtype)
        else:
            result = columns(len(array), len(lanes), array.dtype)
        result[..., : len(lanes)] = array[..., lanes]
        return result


def second_moment(problem: Perceptron) -> float:
    """Return the mean of x² over all entries of the patterns."""
    if problem.has_binary_patterns:
        return 1.0
    return sum(float((block * block).sum()) for _, block in problem.blocks()) / (problem.m * problem.n)
