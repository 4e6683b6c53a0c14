"""Approximate message passing for a batch of fields on one problem (the paper's Algorithm 1), on the processor.

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

import numpy as np

from solspace.measure.priors import Binary
from solspace.numerics.arrays import Array, Precision
from solspace.problem import Perceptron
from solspace.samplers.kernels import amp_compiled
from solspace.samplers.kernels.products import Products, columns, narrower
from solspace.samplers.kernels.products import width as allocated
from solspace.samplers.marginals.relaxation import MOVING, Ending, Terms, judge

VARIANCE_FLOOR = 0.5
"""Least V for ±1 weights, in units of 1/n."""
TINY = 1e-12
"""Least V for all others."""


class SampleColumns:
    """Fields and means of `k` samples as columns (n, width), width >= k."""

    def __init__(self, field: Array, mean: Array, k: int) -> None:
        self.field, self.mean, self.k, self.each = field, mean, k, k

    @classmethod
    def zeros(cls, n: int, k: int, dtype: Precision) -> SampleColumns:
        """Return zero fields and means."""
        return cls(np.zeros((n, k), dtype), np.zeros((n, k), dtype), k)

    def widen(self, values: Array) -> Array:
        """Return `values` (k,) for all allocated columns, 0 beyond `k`."""
        wide = np.zeros(self.mean.shape[1], self.mean.dtype)
        wide[: self.k] = values
        return wide

    def spreads(self) -> Array:
        """Return the variances of the weights, (width,) or (n, width)."""
        return np.maximum(1 - self.mean * self.mean, 0)

    def overlaps(self) -> Array:
        """Return |m|²/n of each column, (k,)."""
        return np.einsum("ij,ij->j", self.mean, self.mean)[: self.k].astype(float) / len(self.mean)

    def means(self) -> Array:
        """Return the means (k, n) in double precision."""
        return self.mean[:, : self.k].T.astype(float)

    def fields(self) -> Array:
        """Return the fields (k, n) in double precision."""
        return self.field[:, : self.k].T.astype(float)

    def sound(self) -> Array:
        """Return (k,) True where field and means are finite."""
        return np.asarray((np.isfinite(self.field) & np.isfinite(self.mean)).all(axis=0))[: self.k]

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities (k, m) of `weights` (k, n) if they are at hand."""
        return None


class Messages(SampleColumns):
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
    field, time
        (n, width) fields h and (k,) times t, to be set before an iteration.
    mean, spread
        (n, width) means m and variances Δ of the weights; width >= k columns are allocated.
    g
        (m, width) response of the constraints.
    variance
        V, (width,) with scalar variances, (m, width) with full ones.
    instability
        (width,) λ: AMP can converge where it is below 1. With scalar variances α mean(Δ²) mean(g'²) mean(x²)²; with full
        ones its generalization to entries of uneven size, the largest eigenvalue of M Mᵀ with M_μi = g'_μ x_μi² Δ_i/n.
    width
        (width,) mean variance of the weights.
    """

    def __init__(
        self, problem: Perceptron, k: int, dtype: Precision, full: bool = False, spreads: bool = False
    ) -> None:
        n, m = problem.n, problem.m
        super().__init__(columns(n, k, dtype), columns(n, k, dtype), k)
        self.problem, self.dtype, self.full, self.time = problem, np.dtype(dtype), full, np.zeros(k)
        self.products = Products(problem, dtype)
        self.moment = second_moment(problem)
        self.floor = VARIANCE_FLOOR / n if isinstance(problem.target.prior, Binary) else TINY
        self.g = columns(m, k, dtype)
        self.spread = columns(n, k, dtype) if full or spreads else None
        wide = self.mean.shape[1]
        self.variance = columns(m, k, dtype) if full else np.zeros(wide, dtype)
        self.instability, self.width = np.zeros(wide), np.ones(wide)
        self.scratch = {name: columns(m, k, dtype) for name in ("forward", "new", "curvature")}
        self.scratch["backward"] = columns(n, k, dtype)
        if full:
            self.scratch["precision"] = columns(n, k, dtype)
        self._kept: list[Array] = []
        if self.spread is not None:
            self.spread[...] = 1
        self._set_variance(np.ones(wide), np.ones(wide, self.dtype))

    def iterate(self, weight: Array, share: Array | None = None) -> tuple[Array, Array]:
        """Move the columns of positive `weight` (k,) by one iteration, that far towards their new values.

        Where a `share` (k,) is given, so much of B + h is their field afterwards: reinforcement.
        Returns the mean squared change of the means, before damping, and its ratio to the mean variance of the weights.
        """
        target, work = self.problem.target, self.scratch
        weight, time, fed = self.widen(weight), self.widen(self.time), None if share is None else self.widen(share)
        product = self.products.forward(self.mean, out=work["forward"])
        slope, roughness = amp_compiled.respond(
            product, self.g, self.variance, weight, target, work["new"], work["curvature"]
        )
        back = self.products.backward(work["new"], out=work["backward"])
        if self.full:
            precision = self.products.backward_squares(work["curvature"], out=work["precision"])
            np.negative(precision, out=precision)
        else:
            precision = (-self.problem.alpha * self.moment * slope).astype(self.dtype)
        change, size, size2 = amp_compiled.estimate(
            back, self.field, self.mean, self.spread, precision, time, weight, target, fed
        )
        self._set_variance(size, weight)
        if not self.full:
            measured = self.problem.alpha * self.moment**2 * roughness * size2
            self.instability[...] = np.where(weight > 0, measured, self.instability)
        self.width[...] = np.where(weight > 0, size, self.width)
        return change[: self.k], (change / size)[: self.k]

    def measure_instability(self) -> None:
        """After iterations with full variances: take the Rayleigh quotient of MᵀM at ΔA, half a power iteration from 1."""
        assert self.spread is not None
        start, image = self.scratch["precision"], self.scratch["forward"]
        start *= self.spread
        size = np.einsum("ij,ij->j", start, start, dtype=np.float64)
        start *= self.spread
        self.products.forward_squares(start, out=image)
        image *= self.scratch["curvature"]
        power = np.einsum("ij,ij->j", image, image, dtype=np.float64)
        self.instability[...] = np.divide(power, size, out=np.zeros_like(size), where=size > 0)

    def _set_variance(self, size: Array, weight: Array) -> None:
        if self.full and self.spread is not None:
            new = self.products.forward_squares(self.spread, out=self.scratch["forward"])
        else:
            new = (self.moment * size).astype(self.dtype)
        new = np.maximum(new, np.asarray(self.floor, self.dtype))
        moving = weight > 0
        self.variance[..., moving] += weight[moving] * (new - self.variance)[..., moving]

    def _state(self) -> list[Array]:
        """Return the arrays that the next iteration depends on, columns last."""
        parts = [self.mean, self.g, self.variance, self.instability, self.width]
        return parts if self.spread is None else [*parts, self.spread]

    def columns(self, lanes: Array, terms: Terms) -> Batch:
        """Return the columns `lanes`, ready to iterate."""
        return Batch(self, lanes, terms)

    def keep(self) -> None:
        """Save all messages for `restore`."""
        if not self._kept:
            self._kept = [part.copy() for part in self._state()]
        for kept, current in zip(self._kept, self._state()):
            np.copyto(kept, current)

    def restore(self, lanes: Array) -> None:
        """Put the columns `lanes` back to what `keep` saved."""
        for kept, current in zip(self._kept, self._state()):
            current[..., lanes] = kept[..., lanes]

    def share(self) -> None:
        """Copy the messages of the first column to all others."""
        for part in self._state():
            part[..., : self.k] = part[..., :1]

    def take(self, lanes: Array) -> Messages:
        """Return messages of the columns `lanes` alone, a copy; scratch memory is shared."""
        few = object.__new__(Messages)
        few.__dict__.update(self.__dict__)
        few.k, few.time = len(lanes), self.time[lanes]
        for name in ("field", "mean", "g", "variance", "spread", "instability", "width"):
            given = getattr(self, name)
            setattr(few, name, given if given is None else self._part(given, lanes))
        wide = few.mean.shape[1]
        few.scratch = {
            name: part.reshape(-1)[: len(part) * wide].reshape(len(part), wide) for name, part in self.scratch.items()
        }
        return few

    def put(self, few: Messages, lanes: Array) -> None:
        """Write the columns of `few` to the columns `lanes`."""
        for own, given in zip(self._state(), few._state()):
            own[..., lanes] = given[..., : few.k]

    def _part(self, array: Array, lanes: Array) -> Array:
        """Return the columns `lanes` of `array` (rows, width) or (width,), as wide as their number asks for."""
        if array.ndim == 1:
            result = np.zeros(allocated(len(lanes), self.dtype), array.dtype)
        else:
            result = columns(len(array), len(lanes), array.dtype)
        result[..., : len(lanes)] = array[..., lanes]
        return result

    def instabilities(self) -> Array:
        """Return λ of each column, (k,)."""
        return self.instability[: self.k]

    def spreads(self) -> Array:
        """Return the variances of the weights: of each for ±1 weights, (n, width); their mean for others, (width,)."""
        if isinstance(self.problem.target.prior, Binary):
            return super().spreads()
        return self.width.astype(self.dtype)

    def state(self) -> dict[str, Array]:
        """Return fields and messages by name, for a checkpoint."""
        return {"field": self.field, **{f"messages_{i}": part for i, part in enumerate(self._state())}}

    def load(self, state: dict[str, Array]) -> None:
        """Take over what `state` returned."""
        for name, part in self.state().items():
            part[...] = state[name]


class Batch:
    """Some columns of `whole` on their way, side by side."""

    def __init__(self, whole: Messages, lanes: Array, terms: Terms) -> None:
        self.whole, self.lanes, self.terms = whole, lanes, terms
        self.messages = whole if len(lanes) == whole.k else whole.take(lanes)
        self.few = narrower(self.messages.mean.shape[1], whole.dtype)
        self.outcome, self.residual = np.full(len(lanes), MOVING), np.zeros(len(lanes))
        self.count, self.best = terms.count.copy(), terms.best.copy()

    def iterate(self) -> int:
        """Move those that move by one iteration; return how many still move."""
        moving = self.outcome == MOVING
        change, residual = self.messages.iterate(np.where(moving, 1 - self.terms.damping, 0))
        self.count += moving
        found = judge(change, residual, self.terms, self.count, self.best)
        self.outcome = np.where(moving, found, self.outcome)
        self.best = np.where(moving, np.fmin(self.best, residual), self.best)
        self.residual = np.where(moving, residual, self.residual)
        return int((self.outcome == MOVING).sum())

    def end(self) -> Ending:
        """Give the columns back to the whole."""
        if self.messages.full:
            self.messages.measure_instability()
        if self.messages is not self.whole:
            self.whole.put(self.messages, self.lanes)
        return Ending(self.outcome, self.count, self.best, self.residual)


def second_moment(problem: Perceptron) -> float:
    """Return the mean of x² over all entries of the patterns."""
    if problem.has_binary_patterns:
        return 1.0
    return sum(float((block * block).sum()) for _, block in problem.blocks()) / (problem.m * problem.n)
