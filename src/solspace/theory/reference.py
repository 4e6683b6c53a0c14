"""The reference system: replica-symmetric equilibrium of a target at load α (theory notes 2), and its stabilities (4).

One equation for one unknown, the conjugate r̂: r̂ = α E[g(√r γ, 1-r)²] with r = r(r̂) given by the prior. As a function of
log r̂ the mismatch log r̂ - log α E g² rises through zero at a solution; the smallest one is taken, the one that message
passing reaches from no knowledge. Where the potential is even about zero field, r = 0 solves it at every load.

The same equation read backwards, α(r̂) = r̂ / E g², gives every load of the branch without solving anything:
thresholds use it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial.legendre import legint, legval, legvander
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.numerics.arrays import Index, Reals, vanishing
from solspace.numerics.roots import Status, bracketed_newton, root_between
from solspace.numerics.rules import ORDER, around, legendre
from solspace.theory.cavity import TAIL, kinks, reference_averages, reference_nodes
from solspace.theory.weights import Reference, free_weights, weights_of

LARGEST = 1e17  # conjugate at which the search for a solution ends: 1 - r is about 3e-9 there
STRIDE = 2.5  # factor between the conjugates tried on the way up; four of them are tried at a time
ACCURACY = 1e-11
LEVELS = 3
DOUBLINGS = 24  # of the precision, until the equation for the norm has a solution below
FARTHEST = 1e4  # conjugate up to which equations are iterated
VANISHED = 1e-60  # variance of weights that are all zero
COLDEST = 1e-4  # lowest temperature: the free entropy grows like 1/T, and below it its rounding would drown the entropy's digits
FINEST = 1e-14  # width of the panels at a breakpoint, where P(s) may behave like any power of the distance


@dataclass(frozen=True)
class Equilibrium:
    """A solution of the reference equation: order parameters and what follows from them at once.

    `accuracy` is the error of the integrals, `status` how the search for the conjugate ended.
    """

    target: Target
    alpha: float
    conjugate: float
    overlap: float
    variance: float
    norm_conjugate: float | None
    free_entropy: float
    replicon: float
    accuracy: float = 0.0
    status: Status = Status.CONVERGED
    norm: float = 1.0  # Q
    log_prior: float = 0.0
    origin: float = 0.0  # F(r) = r̂ - α E_r[g²]: 0 in equilibrium
    start: float | None = None  # overlap from which the law of the cavity field starts: r unless there is one

    @property
    def field(self) -> tuple[float, float]:
        """Overlap from which the law of the cavity field starts, and the variance left there."""
        return (self.overlap, self.variance) if self.start is None else (self.start, self.norm - self.start)

    @cached_property
    def law(self) -> StabilityLaw:
        """The law of the stabilities."""
        return StabilityLaw(self.target, *self.field)

    @property
    def entropy(self) -> float:
        """The entropy of the measure per weight."""
        return self.free_entropy - self.alpha * self.law.log_weight - self.log_prior


def solve(target: Target, alpha: float) -> Equilibrium:
    """Return the equilibrium of `target` at load `alpha`.

    >>> round(solve(Target("spherical", "uniform"), 1.0).overlap, 11)
    0.58531185179
    """
    if not (alpha > 0 and np.isfinite(alpha)):
        raise ValueError(f"alpha must be a positive, finite number; got {alpha!r}.")
    check(target)
    precision = None
    try:
        conjugate, root = (0.0, Status.CONVERGED) if target.even else _conjugate(target, alpha, 0)
    except ValueError:
        if free_weights(target.prior) is None or (pair := _iterated(target, alpha)) is None:
            raise
        (conjugate, precision), root = pair, Status.CONVERGED
    for level in range(LEVELS):
        error = _error(target, conjugate, level, alpha, precision)
        if error < ACCURACY:
            break
        if conjugate > 0 and precision is None and level + 1 < LEVELS:
            conjugate, root = _conjugate(target, alpha, level + 1)
    found = equilibrium(target, conjugate, alpha, level, precision)
    return replace(found, accuracy=error, status=root.then(Status.of_error(error)))


def check(target: Target) -> None:
    """Raise ValueError where theory cannot follow: it stops at T = 1e-4, unless the potential does not feel T."""
    if not isinstance(target, Target):
        raise ValueError(f"target must be a solspace.Target; got {target!r}.")
    if target.temperature < COLDEST and not target.potential.athermal:
        raise ValueError(
            f"temperature must be at least {COLDEST:g} for replica theory; got {target.temperature:g}. Overlaps have "
            "reached their limit T → 0 there, but for terms of the order of T."
        )


def equilibrium(
    target: Target, conjugate: float, alpha: float | None = None, level: int = 0, precision: float | None = None
) -> Equilibrium:
    """Return the equilibrium with this `conjugate`; its load follows from the equation unless `alpha` is given."""
    weights, averages = averages_at(target, [conjugate], level, None if alpha is None else [alpha], precision)
    overlap, variance, susceptibility, entropy = (
        float(column[0]) for column in (weights.overlap, weights.variance, weights.susceptibility, weights.entropy)
    )
    log_z, g2, dg2 = averages[:3, 0].tolist()
    load = conjugate / g2 if alpha is None else float(alpha)
    return Equilibrium(
        target=target,
        alpha=load,
        conjugate=float(conjugate),
        overlap=overlap,
        variance=variance,
        norm_conjugate=None if weights.norm_conjugate is None else float(weights.norm_conjugate[0]),
        free_entropy=entropy + load * log_z,
        replicon=load * dg2 * susceptibility,
        norm=1.0 if free_weights(target.prior) is None else overlap + variance,
        log_prior=float(np.ravel(weights.log_prior)[0]),
    )


def averages_at(
    target: Target,
    conjugate: ArrayLike,
    level: int = 0,
    alpha: ArrayLike | None = None,
    precision: ArrayLike | None = None,
) -> tuple[Reference, Reals]:
    """Return the weights, and the averages (5, k) of `reference_averages`, at each conjugate (k,).

    The load follows from the conjugate unless `alpha` (k,) is given: it matters where the norm is free and r̂ = 0. The averages
    are NaN at a conjugate at which there is no norm. The `precision` of weights of a free norm is solved for unless given.
    """
    free = free_weights(target.prior)
    if free is None:
        weights = weights_of(target.prior).reference(conjugate)
    else:
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        if precision is None:
            precision = _precision(target, conjugate, level, alpha)
        precision = np.broadcast_to(precision, conjugate.shape)
        weights = free.reference(conjugate, np.where(np.isnan(precision), 0.0, precision))
        averages = reference_averages(target, weights.overlap, weights.variance, level)
        averages[:, np.isnan(precision)] = np.nan
        return weights, averages
    return weights, reference_averages(target, weights.overlap, weights.variance, level)


def _precision(target: Target, conjugate: Reals, level: int, alpha: ArrayLike | None) -> Reals:
    # A = -α E g' at each conjugate (k,), with α = r̂/E g² unless r̂ = 0: the root that is continuous with the prior, A = 0, or
    # NaN where there is none
    weights = free_weights(target.prior)
    farthest = max(map(abs, kinks(target).at))
    loads = np.broadcast_to(np.nan if alpha is None else np.asarray(alpha, dtype=float), conjugate.shape)

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def residual(precision: Reals, index: Index) -> Reals:
        own, result = conjugate[index], np.full(len(index), np.nan)
        state = weights.reference(own, precision)
        # the precision may be so large that no weight is left, and margins are out of reach
        there = (state.variance > VANISHED) & (state.variance + 2 * state.overlap > farthest**2 / 1e3)
        _, g2, _, _, bend = reference_averages(target, state.overlap[there], state.variance[there], level)
        load = np.where(own[there] > 0, own[there] / g2, loads[index][there])
        result[there] = precision[there] + load * bend
        return result

    def mismatch(x: Reals, index: Index) -> tuple[Reals, Reals]:
        step = 1e-6 * scale[index]
        value = residual(sign[index] * x, index)
        return sign[index] * value, (
            sign[index] * residual(sign[index] * (x + step), index) - sign[index] * value
        ) / step

    index = np.arange(len(conjugate))
    start = -residual(np.zeros(len(conjugate)), index)
    sign, scale = np.where(start < 0, -1.0, 1.0), np.maximum(np.abs(start), 1e-300)
    low, high, left = np.zeros(len(conjugate)), scale / 4, np.flatnonzero(np.isfinite(start))
    for _ in range(DOUBLINGS):
        value = sign[left] * residual(sign[left] * high[left], left)
        high[left[~np.isfinite(value)]] = np.nan
        left = left[np.isfinite(value) & (value < 0)]
        if len(left) == 0:
            break
        low[left], high[left] = high[left], 2 * high[left]
    high[left] = np.nan
    solved = np.flatnonzero(np.isfinite(high))
    found = bracketed_newton(
        lambda x, few: mismatch(x, solved[few]), low[solved], high[solved], (low[solved] + high[solved]) / 2
    )
    high[solved] = sign[solved] * found.x
    return high


def _conjugate(target: Target, alpha: float, level: int) -> tuple[float, Status]:
    # α E g² grows with the overlap, so its value without any is a lower bound: climb from there
    low = _lowest(target, alpha)
    highest = 0.0
    while low < LARGEST:
        tried = low * STRIDE ** np.arange(1, 5)
        with np.errstate(divide="ignore"):
            reached = tried / averages_at(target, tried, level)[1][1]
        above = np.flatnonzero(~(reached <= alpha))  # NaN is beyond the last load of the branch
        if len(above):
            high = tried[above[0]]
            low = max(low, high / STRIDE)
            break
        low, highest = tried[-1], max(highest, float(reached.max()))
    else:
        raise ValueError(
            f"no replica-symmetric solution at alpha = {alpha:g} for {target}: the loads of the equations end at about "
            f"{highest:.6g}, where the overlap reaches 1 and no solution is left. Take a smaller alpha."
        )

    def mismatch(x: Reals, index: Index) -> tuple[Reals, Reals]:
        conjugate = np.exp(x)
        weights, (_, g2, _, slope, _) = averages_at(target, conjugate, level)
        assert weights.slope is not None
        return x - np.log(alpha * g2), 1 - conjugate * weights.slope * slope / g2

    if free_weights(target.prior) is not None:
        return _conjugate_of_free(target, alpha, level, float(low), float(high)), Status.CONVERGED
    start = np.log(high) - np.log(reached[above[0]] / alpha) / 2
    found = bracketed_newton(mismatch, [np.log(low) - 1e-9], [np.log(high)], [start])
    return float(np.exp(found.x[0])), found.status


def _conjugate_of_free(target: Target, alpha: float, level: int, low: float, high: float) -> float:
    def excess(x: float) -> float:
        return float(x - np.log(alpha * averages_at(target, np.exp([x]), level)[1][1, 0]))

    first, last = np.log(low), np.log(high)
    value = excess(last)
    for _ in range(30):  # the branch may end between
        if value >= 0:
            return float(np.exp(root_between(excess, first, last)))
        middle = (first + last) / 2
        value = excess(middle)
        first, last = (middle, last) if value < 0 else (first, middle)
    raise ValueError(
        f"no replica-symmetric solution at alpha = {alpha:g} for {target}: the branch that starts at alpha = 0 ends before, at "
        "the capacity of the constraints or where weights begin to vanish. Take a smaller alpha."
    )


def _iterated(target: Target, alpha: float) -> tuple[float, float] | None:
    # (r̂, A) by iterating their equations from no knowledge: where a load belongs to the smaller of two A at one r̂ no more
    from scipy.optimize import root

    weights = free_weights(target.prior)

    def step(x: Reals) -> Reals:
        state = weights.reference(np.maximum(x[:1], 0.0), x[1:])
        if not (state.variance > VANISHED).all():
            return np.full(2, np.nan)
        _, g2, _, _, bend = reference_averages(target, state.overlap, state.variance)[:, 0]
        return alpha * np.array([g2, -bend])

    x = np.zeros(2)
    for _ in range(500):
        new = step(x)
        if not (np.isfinite(new).all() and np.abs(new).max() < FARTHEST):
            return None
        done = np.abs(new - x).max() <= 1e-6 * np.abs(new).max()
        x = (x + new) / 2
        if done:
            break
    found = root(lambda y: step(y) - y, x, tol=1e-13)
    near = np.abs(found.x - x).max() <= 0.05 * np.abs(x).max() and np.abs(found.fun).max() <= 1e-9 * np.abs(x).max()
    return (float(found.x[0]), float(found.x[1])) if near else None


def _lowest(target: Target, alpha: float) -> float:
    # a lower bound of the conjugate
    if free_weights(target.prior) is None:
        return alpha * float(target.channel(0.0, 1.0)[1]) ** 2
    # of a free norm, which falls or grows with the load: one at which the load is smaller
    zero = np.zeros(1)
    prior = free_weights(target.prior).reference(zero, zero)
    low = alpha * float(target.channel(zero, prior.overlap + prior.variance)[1][0]) ** 2 or alpha * 1e-3
    for _ in range(60):
        if low / averages_at(target, [low])[1][1, 0] < alpha:
            return low
        low /= 8
    raise ValueError(f"no replica-symmetric solution at alpha = {alpha:g} for {target}.")


def sufficient_level(target: Target, conjugate: float) -> int:
    """Return the first refinement at which halving every panel once more changes nothing, or the last one there is."""
    return next((level for level in range(LEVELS) if _error(target, conjugate, level) < ACCURACY), LEVELS - 1)


def _error(
    target: Target, conjugate: float, level: int, alpha: float | None = None, precision: float | None = None
) -> float:
    # relative change of the integrals when every panel is halved
    loads = None if alpha is None else [alpha]
    found, (log_z, g2, dg2) = (
        averages_at(target, [conjugate], n, loads, precision)[1][:3, 0].tolist() for n in (level, level + 1)
    )
    # where log W is linear g' is rounding only, and its digits say nothing
    scales = (abs(log_z), g2, max(dg2, 1e-12 * g2**2))
    return max(abs(c - f) / scale if scale else 0.0 for c, f, scale in zip(found, (log_z, g2, dg2), scales))


@dataclass(frozen=True)
class StabilityLaw:
    """The stabilities of a typical sample, at reference overlap r and `variance` 1 - r (theory notes 4).

    P(s) = W(s) ∫ Dγ N(s; √r γ, 1-r) / Z(√r γ, 1-r), with W the weight of the target: the cavity field at q = 1. Formed in
    the log domain, since 1/Z alone overflows for r > 1/2.

    >>> law = StabilityLaw(Target("binary", "uniform"), 0.32238536322, 0.67761463678)
    >>> law.density([0.5, -0.1]).round(9), round(law.mean, 9)
    (array([0.7510754, 0.       ]), 0.699012718)
    """

    target: Target
    overlap: float
    variance: float

    @cached_property
    @vanishing
    def _source(self) -> tuple[Reals, Reals]:
        # fields ω₀, and log of Gaussian weight over Z
        if self.overlap < 1e-12:
            omega, weight = np.zeros(1), np.ones(1)
        else:
            omega, weight = (rows[0] for rows in reference_nodes(kinks(self.target), self.overlap, self.variance, 1))
        keep = weight > 0
        return omega[keep], np.log(weight[keep]) - self.target.channel(omega[keep], self.variance)[0]

    @vanishing
    def density(self, s: ArrayLike) -> Reals:
        """Return P(s), of the shape of `s`."""
        s = np.asarray(s, dtype=float)
        omega, bias = self._source
        flat = s.ravel()
        log_weight = self.target.log_weight(flat)
        result = np.zeros(flat.shape)
        allowed = np.flatnonzero(log_weight > -np.inf)
        for few in np.array_split(allowed, max(1, len(allowed) * len(omega) >> 18)):
            exponent = -((flat[few, None] - omega) ** 2) / (2 * self.variance) + bias + log_weight[few, None]
            result[few] = np.exp(exponent).sum(axis=1)
        return (result / np.sqrt(2 * np.pi * self.variance)).reshape(s.shape)

    @cached_property
    @vanishing
    def _table(self) -> tuple[Reals, Reals, Reals, Reals]:
        # panels in ascending order: edges (p + 1,), nodes (p, 16), density there (p, 16), density times weight (p, 16)
        omega, points = self._source[0], kinks(self.target)
        _, g, _ = self.target.channel(omega, self.variance)
        mean = omega + self.variance * g
        reach = (TAIL + 1) * np.sqrt(self.variance)
        low, high = min(mean.min() - reach, points.at[0] - 1), max(mean.max() + reach, points.at[-1] + 1)
        cap = min(2.0 * np.sqrt(self.variance), 1.0)
        s, w = (rows[0] for rows in around(points.at, low, high, FINEST, cap, 0.6))
        order = np.argsort(s, kind="stable")  # panels do not overlap: their nodes stay together, and so do the panels
        s, w = s[order].reshape(-1, ORDER), w[order].reshape(-1, ORDER)
        width = w.sum(axis=1)
        edges = np.append(s[:, 0] - legendre()[0][0] * width, s[-1, -1] + legendre()[0][0] * width[-1])
        density = self.density(s)
        return edges, s, density, w * density

    @cached_property
    def extent(self) -> tuple[float, float]:
        """Stabilities between which P(s) is seen: ends of its support, or where it falls below a thousandth of its top."""
        _, s, density, _ = self._table
        points = kinks(self.target)
        seen = s[density > 1e-3 * density.max()]
        low = points.at[0] if points.forbidden[0][0] else float(seen.min())
        return low, points.at[-1] if points.forbidden[-1][1] else float(seen.max())

    @cached_property
    @vanishing
    def norm(self) -> float:
        """∫ P(s) ds: one, up to the error of the quadrature."""
        return float(self._table[3].sum())

    @vanishing
    def average(self, function: Reals) -> float:
        """Return the average of a function given at `self.nodes`; what is infinite where P = 0 counts nothing."""
        weight = self._table[3]
        return float(np.sum(weight * np.where(weight > 0, function, 0.0)))

    @property
    def nodes(self) -> Reals:
        """The stabilities (p, 16) at which averages are formed."""
        return self._table[1]

    @cached_property
    def mean(self) -> float:
        """The mean stability."""
        return self.average(self.nodes)

    @cached_property
    def log_weight(self) -> float:
        """The mean of log W(s) = -U(s - κ)/T."""
        if self.target.potential.athermal or self.target.beta == 0:
            return 0.0
        return self.average(self.target.log_weight(self.nodes))

    @vanishing
    def cdf(self, s: ArrayLike) -> Reals:
        """Return the probability of a stability below `s`, of the shape of `s`.

        >>> law = StabilityLaw(Target("binary", "uniform"), 0.32238536322, 0.67761463678)
        >>> law.cdf([0.0, 8.0]).round(12)
        array([0., 1.])
        """
        s = np.asarray(s, dtype=float)
        edges, start, inside = self._integrals
        flat = np.clip(s, edges[0], edges[-1])
        panel = np.clip(np.searchsorted(edges, flat, side="right") - 1, 0, len(start) - 1)
        position = 2 * (flat - edges[panel]) / np.maximum(np.diff(edges), 1e-300)[panel] - 1
        return np.clip((start[panel] + legval(position, inside[:, panel], tensor=False)) / self.norm, 0.0, 1.0)

    @cached_property
    @vanishing
    def _integrals(self) -> tuple[Reals, Reals, Reals]:
        # edges, the integral up to each panel, and the integral inside as Legendre coefficients (17, p)
        edges, _, density, mass = self._table
        x = 2 * legendre()[0] - 1
        degree = np.arange(ORDER)
        projection = (2 * degree[:, None] + 1) * legvander(x, ORDER - 1).T * legendre()[1]
        inside = legint(projection @ density.T, lbnd=-1) * np.diff(edges) / 2
        return edges, np.append(0.0, np.cumsum(mass.sum(axis=1))[:-1]), inside
