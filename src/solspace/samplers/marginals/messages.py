"""Approximate message passing (AMP, the paper's Algorithm 1) for many fields on one problem: iterations, damping, stopping.

    V_μ = Σ_i x_μi² Δ_i/n            ω_μ = Σ_i x_μi m_i/√n - V_μ g_μ          (minus the Onsager reaction)
    g_μ = ∂_ω log Z(ω_μ, V_μ)        A_i = -Σ_μ x_μi² ∂_ω g_μ/n               B_i = Σ_μ x_μi g_μ/√n + A_i m_i
    m_i, Δ_i = mean and variance of the prior tilted by exp(-(A_i + t) w²/2 + (B_i + h_i) w)

With *scalar* variances the sums over x² are replaced by averages: the same marginals for i.i.d. patterns at half the matrix
products. `Messages` iterates on the processor, `gpu.GpuMessages` on a device; `Relaxation` damps and stops either.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.priors import Binary, Gaussian, Levels, Prior
from solspace.numerics.arrays import Array, Precision, aligned
from solspace.problem import Perceptron
from solspace.samplers.marginals.factors import Factors, gap

if TYPE_CHECKING:
    from solspace.samplers.marginals.gpu import GpuMessages

# Least V. For discrete weights in units of 1/n, half a weight undecided between neighbouring values: below it one violated
# constraint would pull with an unbounded force, and a run that misses a single constraint would lose a third of them.
VARIANCE_FLOOR, TINY = 0.5, 1e-12
LADDER = (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)  # values of automatic damping
SLOW_TOP = 0.5  # strongest automatic damping of a column that is slow but does not diverge
OSCILLATING = 0.1  # mean squared change of a mean above which a column that does not settle counts as diverged
IMPATIENCE, LEAST_PATIENCE = 0.5, 0.4  # factor on the limit after a call that missed, and the least factor in all
MOVING, CONVERGED, SLOW, DIVERGED = range(4)  # outcomes of an iteration
LANES = 16  # columns are allocated in fours up to here, in multiples of it beyond


# stopping rules of a column and how far it is: `cap` is the most iterations; a column that is not `patient`, after a call that
# missed the tolerance, may stop there wherever it is; `best` is its smallest residual so far
_FIELDS = {
    "tolerance": float,
    "damping": float,
    "cap": float,
    "patient": bool,
    "count": int,
    "best": float,
    "outcome": int,
}
PROGRESS = np.dtype(list(_FIELDS.items()))


def progress(k: int, tolerance: ArrayLike, damping: ArrayLike, cap: ArrayLike, patient: ArrayLike) -> Array:
    """Return the PROGRESS (k,) of columns before their first iteration."""
    found = np.zeros(k, PROGRESS)
    found["tolerance"], found["damping"], found["cap"], found["patient"] = tolerance, damping, cap, patient
    found["best"], found["outcome"] = np.inf, MOVING
    return found


@dataclass
class Effort:
    """Iterations and outcome of a relaxation, (k,) each."""

    iterations: Array
    converged: Array
    diverged: Array  # even with the strongest damping; the column is back where it was

    @classmethod
    def none(cls, k: int) -> Effort:
        return cls(np.zeros(k, int), np.ones(k, bool), np.zeros(k, bool))

    def __add__(self, later: Effort) -> Effort:
        return Effort(
            self.iterations + later.iterations, self.converged & later.converged, self.diverged | later.diverged
        )

    def of(self, lanes: Array) -> Effort:
        return Effort(self.iterations[lanes], self.converged[lanes], self.diverged[lanes])


def judge(change: Array, residual: Array, columns: Array) -> Array:
    """Return the outcome (k,) of an iteration that changed the means of `columns` (PROGRESS) by `change`, mean squared.

    `residual` is the change over the mean variance of the weights. The CUDA kernel `control` decides the same.
    """
    done = residual < columns["tolerance"]
    late = ~done & (columns["count"] >= columns["cap"])
    lost = diverging(change, residual, columns["best"]) | (late & (change > OSCILLATING) & columns["patient"])
    return np.select([lost, done, late], [DIVERGED, CONVERGED, SLOW], MOVING)


def diverging(change: Array, residual: Array, best: Array) -> Array:
    """Return which columns (k,) are not finite, or change much more than they did before."""
    return ~np.isfinite(residual) | ((residual > 1) & (residual > 10 * best) & (change > OSCILLATING))


class Relaxation:
    """Iterates messages until every column has converged, each with the damping (k,) that it needs.

    A column has converged when the mean squared change of its means is below `tolerance` times the mean variance of its
    weights; it is frozen then, and what it does never depends on its neighbours, but for rounding. Where `automatic`, a column
    that diverges (not finite, changing more and more, or still oscillating at the iteration limit) restarts with the next
    stronger damping of LADDER. One that is merely slow, as all are near the algorithm's threshold, goes up to SLOW_TOP:
    at once, from where it is, if `persistent`, else in the next call. A column that missed gets fewer iterations (`patience`) in
    the next call.
    """

    def __init__(
        self, messages: Messages | GpuMessages, damping: float, automatic: bool, persistent: bool = False
    ) -> None:
        self.messages, self.automatic, self.persistent = messages, automatic, automatic and persistent
        self.damping, self.patience = np.full(messages.k, float(damping)), np.ones(messages.k)

    def run(self, tolerance: Array, limit: Array, lanes: Array) -> Effort:
        """Relax the columns `lanes` with `tolerance` (k,) and `limit` (k,), at their present field and time.

        The limit counts undamped iterations: from a damping of 0.3 on it grows as 1/(1 - damping).
        """
        k, damping, patient = self.messages.k, self.damping, self.patience == 1
        iterations, outcome, todo = np.zeros(k, int), np.full(k, CONVERGED), np.zeros(k, bool)
        todo[lanes] = True
        limit = limit * self.patience
        self.messages.keep()
        while todo.any():
            cap = limit * np.maximum(1, 0.7 / (1 - damping))
            columns = progress(k, tolerance, damping, cap, patient)
            while (moving := todo & (columns["outcome"] == MOVING)).any():
                self.messages.advance(np.flatnonzero(moving), columns)
            iterations[todo] += columns["count"][todo]
            outcome[todo] = columns["outcome"][todo]
            diverged, slow = todo & (outcome == DIVERGED), todo & (outcome == SLOW)
            if diverged.any():
                self.messages.restore(np.flatnonzero(diverged))
            stronger = _stronger(damping) if self.automatic else np.full(k, np.inf)
            again = diverged & np.isfinite(stronger)
            further = slow & (damping < SLOW_TOP) & patient & self.persistent
            damping[again], damping[further] = stronger[again], np.minimum(stronger, SLOW_TOP)[further]
            todo = again | further
        slow = (outcome == SLOW) & self.automatic
        damping[slow] = np.maximum(damping, np.minimum(_stronger(damping), SLOW_TOP))[slow]
        converged = outcome == CONVERGED
        less = np.maximum(self.patience * IMPATIENCE, LEAST_PATIENCE)
        self.patience[lanes] = np.where(converged, 1.0, less)[lanes]
        return Effort(iterations, converged, outcome == DIVERGED)


def _stronger(damping: Array) -> Array:
    return np.array([*LADDER, np.inf])[np.searchsorted(LADDER, damping + 1e-9, side="right")]


def allocated(k: int) -> int:
    """Return the number of columns to allocate for `k` samples."""
    step = 1 if k <= 1 else 4 if k <= LANES else LANES
    return step * -(-k // step)


def narrower(width: int) -> int:
    """Return the largest number of columns for which fewer than `width` are allocated.

    >>> narrower(1), narrower(8)
    (0, 4)
    """
    return next(k for k in range(width - 1, -1, -1) if allocated(k) < width)


def columns(rows: int, k: int, dtype: Precision) -> Array:
    """Return zeros (rows, allocated(k)) that begin on a cache line."""
    return aligned((rows, allocated(k)), dtype)


class SampleColumns:
    """Fields and means of `k` samples as columns (n, width), width >= k."""

    def __init__(self, field: Array, mean: Array, k: int) -> None:
        self.field, self.mean, self.k, self.each = field, mean, k, k
        self.times = np.zeros(k)  # (k,) t of the fields
        self.deltas: Array | None = None  # variances of the weights (n, width), where they do not follow from the means
        self._kept: list[Array] = []

    def widen(self, values: Array) -> Array:
        """Return `values` (k,) for all allocated columns, 0 beyond `k`."""
        wide = np.zeros(self.mean.shape[1], self.mean.dtype)
        wide[: self.k] = values
        return wide

    def spreads(self) -> Array:
        """Return the variances of the weights, (width,) or (n, width)."""
        return np.maximum(1 - self.mean * self.mean, 0) if self.deltas is None else self.deltas

    def overlaps(self) -> Array:
        return np.einsum("ij,ij->j", self.mean, self.mean)[: self.k].astype(float) / len(self.mean)

    def rows(self, columns: Array) -> Array:
        """Return columns (n, width) as rows (k, n) on the host."""
        return columns[:, : self.k].T

    def fields(self) -> Array:
        return self.rows(self.field).astype(float)

    def means(self) -> Array:
        return self.rows(self.mean).astype(float)

    def finite(self) -> Array:
        return np.asarray((np.isfinite(self.field) & np.isfinite(self.mean)).all(axis=0))[: self.k]

    def decoded(self, prior: Prior, random: Callable[[int], Array]) -> Array:
        """Return the weights (k, n) nearest to the means, or to `random(j)` where the mean of sample j has no direction."""
        means = self.means()
        for j in np.flatnonzero(~(np.isfinite(means).all(axis=1) & (means != 0).any(axis=1))):
            means[j] = random(int(j))
        return prior.decode(means)

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities (k, m) of `weights` (k, n) of ±1, None if they are not at hand."""
        return None

    def messages(self) -> list[Array]:
        """Return the arrays that the next iteration depends on, columns last."""
        return [self.mean] if self.deltas is None else [self.mean, self.deltas]

    def state(self) -> dict[str, Array]:
        return {"field": self.field, **{f"messages_{i}": part for i, part in enumerate(self.messages())}}

    def keep(self) -> None:
        if not self._kept:
            self._kept = [part.copy() for part in self.messages()]
        for kept, current in zip(self._kept, self.messages()):
            kept[...] = current


class Messages(SampleColumns):
    """The state of AMP for `k` fields, and one iteration on it.

    `field` (n, width) and `time` (k,) are set before an iteration; `mean` m and `spread` Δ are (n, width), `g` (m, width) the
    response of the constraints, `variance` V (width,), (m, width) where `full`, and `width` (width,) the mean of Δ. AMP can
    converge where `instability` (width,), λ, is below 1: α mean(Δ²) mean(g'²) mean(x²)² with scalar variances; with full ones
    the largest eigenvalue of M Mᵀ with M_μi = g'_μ x_μi² Δ_i/n. Δ of each weight is kept if `full` or `spreads`. Clamped weights
    have no rows: n is the number of the others.
    """

    def __init__(
        self, problem: Perceptron, k: int, dtype: Precision, full: bool = False, spreads: bool = False
    ) -> None:
        from solspace.samplers.kernels.products import Products

        if problem.intercept is not None:
            raise ValueError(
                "message passing (AMP) takes no intercept: use expectation propagation (ss.ep, denoiser='ep')."
            )
        self.factors = Factors(problem)
        problem = self.factors.reduced
        n, m = problem.n, problem.m
        super().__init__(columns(n, k, dtype), columns(n, k, dtype), k)
        self.problem, self.dtype, self.full, self.time = problem, np.dtype(dtype), full, np.zeros(k)
        self.moment, self.prior_variance = second_moment(problem), self.factors.variance
        step = gap(problem.target.prior)
        self.floor = TINY if step is None else VARIANCE_FLOOR / n * (step / 2) ** 2
        self.mean[:, :k] = self.factors.mean
        self.g = columns(m, k, dtype)
        self.spread = columns(n, k, dtype) if full or spreads else None
        wide = self.mean.shape[1]
        self.variance = columns(m, k, dtype) if full else np.zeros(wide, dtype)
        self.instability, self.width = np.zeros(wide), np.ones(wide)
        self.scratch = {name: columns(m, k, dtype) for name in ("forward", "new", "curvature")}
        self.scratch["backward"] = columns(n, k, dtype)
        if full:
            self.scratch["precision"] = columns(n, k, dtype)
        if self.spread is not None:
            self.spread[...] = self.prior_variance
        self.products = Products(problem, dtype)
        self._set_variance(np.full(wide, self.prior_variance), np.ones(wide, self.dtype))

    def iterate(self, weight: Array, share: Array | None = None) -> tuple[Array, Array]:
        """Move the columns of positive `weight` (k,) by one iteration, that far towards their new values.

        B is computed from the undamped g; then m, g and V move together: damping m alone would count the Onsager reaction
        twice. With a `share` (k,), so much of B + h is their field afterwards: reinforcement.
        Returns the mean squared change of the means, before damping, in units of the prior's variance, and its ratio to the mean
        variance of the weights.
        """
        from solspace.samplers.kernels import amp

        target, work = self.problem.target, self.scratch
        weight, time, shares = self.widen(weight), self.widen(self.time), None if share is None else self.widen(share)
        product = self.products.forward(self.mean, out=work["forward"])
        if self.factors.offset is not None:
            product += self.factors.offset[:, None].astype(self.dtype)
        groups = self.factors.groups
        powers = (groups,) if len(groups) > 1 else ()
        slope, roughness = amp.respond(
            product, self.g, self.variance, weight, groups[0][0], work["new"], work["curvature"], *powers
        )
        back = self.products.backward(work["new"], out=work["backward"])
        if self.full:
            precision = self.products.backward(work["curvature"], work["precision"], squares=True)
            np.negative(precision, out=precision)
        else:
            precision = (-self.problem.alpha * self.moment * slope).astype(self.dtype)
        change, size, size2 = amp.estimate(
            back, self.field, self.mean, self.spread, precision, time, weight, target, shares
        )
        self._set_variance(size, weight)
        if not self.full:
            measured = self.problem.alpha * self.moment**2 * roughness * size2
            self.instability[...] = np.where(weight > 0, measured, self.instability)
        self.width[...] = np.where(weight > 0, size, self.width)
        return change[: self.k] / self.prior_variance, (change / size)[: self.k]

    def measure_instability(self) -> None:
        """After iterations with full variances: take the Rayleigh quotient of MᵀM at ΔA, half a power iteration from 1."""
        assert self.spread is not None
        start, image = self.scratch["precision"], self.scratch["forward"]
        start *= self.spread
        size = np.einsum("ij,ij->j", start, start, dtype=np.float64)
        start *= self.spread
        self.products.forward(start, image, squares=True)
        image *= self.scratch["curvature"]
        power = np.einsum("ij,ij->j", image, image, dtype=np.float64)
        self.instability[...] = np.divide(power, size, out=np.zeros_like(size), where=size > 0)

    def _set_variance(self, size: Array, weight: Array) -> None:
        if self.full and self.spread is not None:
            new = self.products.forward(self.spread, self.scratch["forward"], squares=True)
        else:
            new = (self.moment * size).astype(self.dtype)
        new = np.maximum(new, np.asarray(self.floor, self.dtype))
        moving = weight > 0
        self.variance[..., moving] += weight[moving] * (new - self.variance)[..., moving]

    def messages(self) -> list[Array]:
        parts = [self.mean, self.g, self.variance, self.instability, self.width]
        return parts if self.spread is None else [*parts, self.spread]

    def advance(self, lanes: Array, columns: Array) -> None:
        """Iterate the columns `lanes` until some are at rest: the others continue in narrower arrays in the next call."""
        part = self if len(lanes) == self.k else self.take(lanes)
        own, few = columns[lanes], narrower(part.mean.shape[1])
        while (moving := own["outcome"] == MOVING).sum() > few:
            change, residual = part.iterate(np.where(moving, 1 - own["damping"], 0))
            own["count"] += moving
            own["outcome"][moving] = judge(change, residual, own)[moving]
            own["best"][moving] = np.fmin(own["best"], residual)[moving]
        columns[lanes] = own
        if self.full:
            part.measure_instability()
        if part is not self:
            for whole, few_columns in zip(self.messages(), part.messages()):
                whole[..., lanes] = few_columns[..., : part.k]

    def restore(self, lanes: Array) -> None:
        for kept, current in zip(self._kept, self.messages()):
            current[..., lanes] = kept[..., lanes]

    def broadcast(self) -> None:
        for part in self.messages():
            part[..., : self.k] = part[..., :1]

    def take(self, lanes: Array) -> Messages:
        """Return messages of the columns `lanes` alone, a copy as wide as their number needs; scratch memory is shared."""
        few = copy(self)
        few.k, few.time = len(lanes), self.time[lanes]
        wide = allocated(few.k)
        for name in ("field", "mean", "g", "variance", "spread", "instability", "width"):
            own = getattr(self, name)
            if own is not None:
                part = columns(len(own), few.k, own.dtype) if own.ndim == 2 else np.zeros(wide, own.dtype)
                part[..., : few.k] = own[..., lanes]
                setattr(few, name, part)
        few.scratch = {
            name: part.reshape(-1)[: len(part) * wide].reshape(len(part), wide) for name, part in self.scratch.items()
        }
        return few

    def instabilities(self) -> Array:
        return self.instability[: self.k]

    def spreads(self) -> Array:
        """Return the variances of the weights: of each, (n, width); on the sphere, and where none are kept, their mean."""
        prior = self.problem.target.prior
        if isinstance(prior, Binary):
            return super().spreads()
        kept = self.spread if isinstance(prior, (Levels, Gaussian)) else None
        return self.width.astype(self.dtype) if kept is None else kept


def second_moment(problem: Perceptron) -> float:
    if problem.has_binary_patterns:
        return 1.0
    return sum(float((block * block).sum()) for _, block in problem.blocks()) / (problem.m * problem.n)
