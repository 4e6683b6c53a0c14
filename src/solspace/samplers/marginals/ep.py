"""Expectation propagation (EP, adaptive TAP): message passing that assumes nothing of the patterns.

Gaussian sites match the moments of each weight and constraint in the presence of all others. A sweep of updates, cavities
being the Gaussian (`gaussian`) without a site:

    constraint μ   1/V = 1/v - Λ, ω = V (z/v - b);  g, dg of the channel at (ω, V);  Λ' = -dg/(1 + V dg),  b' = g + Λ' (ω + V g)
    weight i       a = 1/d - Γ, r = μ/d - c;  m, s² of P(w) exp(-(a + t) w²/2 + (h + r) w);    Γ' = 1/s² - a,  c' = m/s² - r

with v, z variance and mean of the stability and d, μ those of the weight. *Scalar* variances average d, v, s² and dg (VAMP).
Weights are in units of their prior's deviation. An intercept, in units of its width, is the last weight; its site and those of
weights with a Gaussian prior are permanent, Γ = 1 + t and c = h. A likelihood that is not log-concave can have Λ < 0.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.priors import Binary, Levels, Prior
from solspace.measure.priors import Gaussian as Normal
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import VARIANCES, check_measure, without, zero_rows
from solspace.samplers.device import device_option, resolve
from solspace.samplers.marginals.amp import Marginals, failures, rows_of, statuses, times_of
from solspace.samplers.marginals.factors import Factors
from solspace.samplers.marginals.gaussian import Gaussian, GpuGaussian, Moments, ScalarGaussian, Sites, put
from solspace.samplers.marginals.messages import Effort
from solspace.system.checks import Config, choice, count, instance, number, option

LARGE = 2e10  # operations of an iteration, m² n or n² m, above which one variance a site costs too much
CAPS = (0.9, 0.3, 0.1, 0.03)  # longest steps of one attempt after another, as a share of the way
FIRST_STEP, SHORTEST = 0.5, 1e-3  # the first step of an attempt, and the least that is worth making
STALL = 0.2  # share of the iteration limit after which an attempt that came no nearer is given up
NEAR, LOST = 10.0, 1.0  # a residual, in tolerances, that is not worth another attempt, and one of which nothing is kept
SMALLEST = 1e-12  # least variance of a weight, and least 1 + V dg, the share of its variance that a constraint leaves
SLACK = 3.0  # error of log Z that is no sign of a wrong fixed point
NARROWEST = 1e-12  # least precision and least variance of a cavity; a site without such a cavity is not updated


@dataclass(frozen=True, kw_only=True)
class EPConfig(Config):
    """Options of `ep`, which documents them: defaults and checks."""

    tolerance: float = option(1e-10, number(positive=True), "mean squared difference of the two means at which to stop")
    max_iterations: int = count(300, "limit of iterations in one attempt")
    variances: str = choice(
        "auto", VARIANCES, "full (one a site), scalar (one for all), or auto: full where it is affordable"
    )
    device: str = device_option()


def ep(
    problem: Perceptron,
    field: ArrayLike | None = None,
    time: ArrayLike = 0.0,
    *,
    tolerance: float = 1e-10,
    max_iterations: int = 300,
    variances: str = "auto",
    device: str = "cpu",
) -> Marginals:
    """Compute the marginals of a target tilted by exp(⟨h, w⟩ - t |w|²/2), by expectation propagation: any patterns.

    Parameters
    ----------
    problem : Perceptron
        Patterns and target: binary, levels or Gaussian weights, with intercept, clamped and sample weights.
    field : array_like, optional
        h, (n,) or (k, n); zero by default.
    time : array_like, default 0.0
        t, a number or (k,).
    tolerance : float, default 1e-10
        Stop when the mean squared difference between the moments of sites and Gaussian is below `tolerance` times the mean
        variance of the weights.
    max_iterations : int, default 300
        Limit of one attempt; a field that does not converge is retried with smaller steps, four times in all.
    variances : {"auto", "full", "scalar"}, default "auto"
        One variance for each site (2 m² n operations an iteration for m < n); one for all weights and one for all
        constraints; or full where it is affordable, and with an intercept.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to compute; on a GPU in double precision, all fields in one batch.

    Returns
    -------
    Marginals
        With `log_partition`, NaN where the iteration did not converge, and `intercept` where there is one.

    Raises
    ------
    ValueError
        If the prior is spherical, a constraint is all zero, or an intercept meets scalar variances.

    Warns
    -----
    UserWarning
        If a field did not converge, or log Z of a planted problem is below the weight of its teacher alone.

    Examples
    --------
    >>> problem = Perceptron.random(n=13, alpha=0.4, rng=2)
    >>> found, exact = ep(problem), problem.enumerate()
    >>> bool(abs(found.mean - exact.marginals).max() < 0.1), bool(abs(found.log_partition - exact.log_partition) < 0.01)
    (True, True)
    """
    check_measure(instance(Perceptron)("problem", problem))
    config = EPConfig(tolerance=tolerance, max_iterations=max_iterations, variances=variances, device=device)
    rows, single = rows_of(problem, field)
    times = times_of(time, len(rows))
    sites = propagation(problem, len(rows), config.variances, resolve(device))
    sites.field[...], sites.time[...] = rows[:, sites.factors.free], times
    every = np.arange(len(rows))
    with np.errstate(all="ignore"):
        effort = sites.run(np.full(len(rows), config.tolerance), np.full(len(rows), config.max_iterations), every)
    if failed := failures("expectation propagation", effort):
        cure = "a lower load or margin, more max_iterations, or ss.anneal, which needs no convergence"
        warnings.warn(f"{failed}. Try {cure}.", stacklevel=2)
    log_partition = sites.log_partition + sites.factors.log_constant(rows, times)
    if (lost := np.sum(effort.converged & (log_partition < _of_teacher(problem, rows, times) - SLACK))) > 0:
        warnings.warn(
            f"expectation propagation: log Z is below the weight of the teacher alone in {lost} of {len(rows)} fields: the means "
            "know less of the teacher than the labels do. ss.predict(target, alpha, ensemble='planted') tells where this is so.",
            stacklevel=2,
        )
    shift = {"intercept": sites.intercept[0], "intercept_variance": sites.intercept[1]}
    found = Marginals(
        mean=sites.factors.whole(sites.mean),
        variance=sites.factors.whole(sites.spread, fill=False),
        status=statuses(effort),
        iterations=effort.iterations,
        variances="scalar" if sites.scalar else "full",
        log_partition=np.where(effort.converged, log_partition, np.nan),
        **(shift if problem.intercept is not None else {}),
    )
    return found.of(0) if single else found


def _of_teacher(problem: Perceptron, field: Array, time: Array) -> Array:
    """Return the log weight (k,) of the teacher of a planted problem, a lower bound of log Z; -inf where there is none."""
    prior, teacher = problem.target.prior, problem.teacher
    if teacher is None or problem.intercept is not None or not isinstance(prior, (Binary, Levels)):
        return np.full(len(field), -np.inf)
    if not problem.supports(teacher):
        return np.full(len(field), -np.inf)
    own = float(problem.log_weights(problem.stabilities(teacher)))
    if isinstance(prior, Levels):
        own += float(prior.log_weights[np.searchsorted(prior.values, teacher)].sum())
    return own + field @ teacher.astype(float) - time * float(np.square(teacher, dtype=float).sum()) / 2


def site_variances(problem: Perceptron, variances: str = "auto") -> str:
    """Return "scalar" or "full": `variances`, or for "auto" what is affordable."""
    if variances != "auto" or problem.intercept is not None:
        return "full" if variances == "auto" else variances
    few, many = sorted((problem.m, problem.n))
    return "scalar" if float(few) ** 2 * many > LARGE else "full"


def propagation(problem: Perceptron, k: int, variances: str = "auto", where: str = "cpu") -> Propagation:
    if not isinstance(problem.target.prior, (Binary, Levels, Normal)):
        raise ValueError(f"ep takes binary, levels and gaussian weights; for {problem.target.prior} ones use amp.")
    if problem.intercept is None and len(zero := zero_rows(Factors(problem).reduced)):
        raise ValueError(
            f"constraint {zero[0] + 1} is all zero, which says nothing about the weights and which expectation propagation "
            f"cannot take; {without(zero, problem.m)}."
        )
    if problem.intercept is not None and variances == "scalar":
        raise ValueError("an intercept has a variance of its own: with it ep takes variances='full' alone.")
    if site_variances(problem, variances) == "scalar":
        return Propagation(problem, k, ScalarGaussian(problem))
    return Propagation(problem, k, GpuGaussian(problem) if where == "gpu" else Gaussian(problem))


class Update(NamedTuple):
    """New sites, means and variances of the weights, log Z and residual of each sample after a sweep of updates."""

    sites: Sites
    mean: Array
    spread: Array
    log_partition: Array
    residual: Array  # mean squared difference of the means of sites and Gaussian, over the mean variance of the weights


class Propagation:
    """EP for `k` fields on the n free weights of one problem, samples as rows.

    Set `field` (k, n) and `time` (k,) before a call; `mean` and `spread` (k, n) are the marginals after it, `log_partition`
    (k,) is log Z of the tilted measure, `intercept` (2, k) mean and variance of the intercept. All sites of a sample move by
    one share of the way, which grows while the residual falls and is halved when it grows or when the Gaussian would not be
    one. A sample that does not converge, or comes no nearer for a while, starts again in smaller steps. At hard loads every
    attempt may come close to a fixed point and drift away again: the best is kept then, but until the sample converges its
    calls start from the beginning, with one attempt if that comes anywhere.
    """

    def __init__(self, problem: Perceptron, k: int, law: Gaussian | GpuGaussian | ScalarGaussian) -> None:
        self.problem, self.k, self.law, self.factors = problem, k, law, Factors(problem)
        self.scalar = isinstance(law, ScalarGaussian)
        self.n, unit, prior = self.factors.reduced.n, self.factors.deviation, problem.target.prior
        # the prior in its own units, and which of the sites are permanent
        self.prior: Prior = prior
        if isinstance(prior, Levels):
            self.prior = Levels(tuple(value / unit for value in prior.values), prior.probabilities)
        elif isinstance(prior, Normal):
            self.prior = Normal()
        self.permanent = slice(0 if isinstance(prior, Normal) else self.n, None)
        self.field, self.time = np.zeros((k, self.n)), np.zeros(k)
        self.sites = self._beginning(k)
        self.mean, self.spread = np.full((k, self.n), self.factors.mean), np.full((k, self.n), unit**2)
        self.intercept = np.zeros((2, k))
        self.log_partition = np.full(k, np.nan)
        self.step, self.residual = np.full(k, FIRST_STEP), np.zeros(k)
        self.missed = np.zeros(k, bool)  # whose last call did not converge

    def run(self, tolerance: Array, limit: Array, lanes: Array) -> Effort:
        """Iterate the samples `lanes` until their residual is below `tolerance` (k,), `limit` (k,) sweeps at most.

        Where that fails, sites and marginals are those with the smallest residual that was met, if it is below LOST.
        """
        effort = Effort.none(self.k)
        effort.converged[lanes], self.residual[lanes] = False, np.inf
        todo, first = np.asarray(lanes), self.sites.of(lanes)
        afresh = np.flatnonzero(self.missed[todo])
        put(first, afresh, self._beginning(len(afresh)))
        for cap in CAPS:
            self._attempt(todo, first, cap, tolerance, limit, effort)
            enough = np.where(self.missed, LOST, NEAR * tolerance)
            todo = todo[~(effort.converged | (self.residual < enough))[todo]]
            if not len(todo):
                break
            first = self._beginning(len(todo))
        lost = np.asarray(lanes)[~effort.converged[lanes]]
        effort.diverged[lost] = np.isinf(self.residual[lost])
        self.missed[lanes], self.step[lost] = ~effort.converged[lanes], FIRST_STEP
        return effort

    def _beginning(self, k: int) -> Sites:
        """Return the first sites of `k` samples; all zeros would be a fixed point that ignores the constraints."""
        m, n = self.law.matrix.shape
        return Sites(np.ones((k, n)), np.zeros((k, n)), np.full((k, m), 0.1), np.full((k, m), 0.1))

    def broadcast(self) -> None:
        for part in (*self.sites, self.mean, self.spread, self.log_partition, self.step, self.missed):
            part[...] = part[:1]
        self.intercept[...] = self.intercept[:, :1]

    def _attempt(self, lanes: Array, sites: Sites, cap: float, tolerance: Array, limit: Array, effort: Effort) -> None:
        """Iterate the samples `lanes` from `sites` on; keep what has their smallest residual in this call."""
        step = np.minimum(self.step[lanes], cap)
        for part, own in ((sites.weight_precision, 1 + self._times(lanes)), (sites.weight_linear, self._fields(lanes))):
            part[:, self.permanent] = own[:, self.permanent]
        update = self._update(lanes, sites, self.law.moments(sites))
        residual, nearest = update.residual, np.full(len(lanes), np.inf)
        moving = np.ones(len(lanes), bool)
        count, nearest_at = np.zeros(len(lanes), int), np.zeros(len(lanes), int)
        while moving.any():
            here = np.flatnonzero(moving)
            new, after = self._stepped(sites.of(here), update.sites.of(here), step, here)
            found = self._update(lanes[here], new, after)
            now = np.where(after.proper & np.isfinite(found.residual), found.residual, np.inf)
            better = now <= residual[here]
            step[here] = np.where(better, np.minimum(1.1 * step[here], cap), np.maximum(0.5 * step[here], 0.02))
            put(sites, here, new)
            put(update.sites, here, found.sites)
            residual[here] = now
            count[here] += 1
            nearest_at[here] = np.where(now < nearest[here], count[here], nearest_at[here])
            nearest[here] = np.minimum(now, nearest[here])
            best = now < np.minimum(self.residual[lanes[here]], LOST)
            own = lanes[here[best]]
            put(self.sites, own, new.of(best))
            unit, n = self.factors.deviation, self.n
            self.mean[own], self.spread[own] = unit * found.mean[best, :n], unit**2 * found.spread[best, :n]
            if (width := self.problem.intercept) is not None:
                self.intercept[:, own] = width * found.mean[best, n], width**2 * found.spread[best, n]
            self.log_partition[own], self.residual[own] = found.log_partition[best], now[best]
            done = now < tolerance[lanes[here]]
            effort.converged[lanes[here[done]]] = True
            most = limit[lanes[here]]
            stalled = count[here] - nearest_at[here] >= np.maximum(STALL * most, 1)
            moving[here] = ~(done | stalled | np.isinf(now) | (count[here] >= most))
        self.step[lanes] = np.where(effort.converged[lanes], np.maximum(step, 0.8 * cap), cap)
        effort.iterations[lanes] += count

    def _stepped(self, old: Sites, new: Sites, step: Array, lanes: Array) -> tuple[Sites, Moments]:
        """Return the sites a step (of `step` at `lanes`) further and their moments; halve steps to improper ones."""
        sites = old.moved(new, step[lanes])
        moments = self.law.moments(sites)
        improper = np.flatnonzero(~moments.proper)
        while len(improper):
            step[lanes[improper]] *= 0.5
            again = old.of(improper).moved(new.of(improper), step[lanes[improper]])
            found = self.law.moments(again)
            put(sites, improper, again)
            put(moments, improper, found)
            improper = improper[~found.proper & (step[lanes[improper]] > SHORTEST)]
        return sites, moments

    def _update(self, lanes: Array, sites: Sites, moments: Moments) -> Update:
        """Return the updates of the module's docstring for the samples `lanes`."""
        gamma, c, lam, b = sites
        d, mu, v, z = moments.variance, moments.mean, moments.stability_variance, moments.stability_mean
        cavity = 1 / v - lam
        proper = (cavity > NARROWEST) & (cavity < 1 / NARROWEST)
        width = 1 / np.where(proper, cavity, 1.0)
        omega = np.clip(width * (z / v - b), -1e8, 1e8)
        log_z, g, dg = self.factors.channel(omega, width)
        if self.scalar:
            dg = np.broadcast_to(dg.mean(axis=1, keepdims=True), dg.shape)
        new_lam = -dg / np.maximum(1 + width * dg, SMALLEST)
        new_b = g + new_lam * (omega + width * g)
        a, r = 1 / d - gamma, mu / d - c
        own, mean, spread = self._tilted(a + self._times(lanes), self._fields(lanes) + r)
        spread = np.maximum(spread, SMALLEST)
        s2 = np.broadcast_to(spread.mean(axis=1, keepdims=True), spread.shape) if self.scalar else spread
        fresh = Sites(1 / s2 - a, mean / s2 - r, np.where(proper, new_lam, lam), np.where(proper, new_b, b))
        linear = ((c * mu).sum(axis=1) + (b * z).sum(axis=1)) / 2
        weights = own - (np.log(2 * np.pi * d) + mu**2 / d) / 2
        constraints = (np.log(width / v) + omega**2 / width - z**2 / v) / 2 + log_z
        n = gamma.shape[1]
        total = n * np.log(2 * np.pi) / 2 - moments.log_determinant / 2 + linear
        unseen = np.where(proper, omega + width * g - z, 0.0)
        residual = (((mean - mu) ** 2).mean(axis=1) + (unseen**2).mean(axis=1)) / spread.mean(axis=1)
        return Update(fresh, mean, spread, total + weights.sum(axis=1) + constraints.sum(axis=1), residual)

    def _fields(self, lanes: Array) -> Array:
        """Return the fields in units of the weights, none on an intercept, as wide as the sites."""
        field = self.factors.deviation * self.field[lanes]
        return field if self.law.matrix.shape[1] == self.n else np.hstack([field, np.zeros((len(field), 1))])

    def _times(self, lanes: Array) -> Array:
        """Return t in units of the weights, none of an intercept, as wide as the sites."""
        width = self.law.matrix.shape[1]
        return self.factors.variance * self.time[lanes, None] * (np.arange(width) < self.n)

    def _tilted(self, precision: Array, field: Array) -> tuple[Array, Array, Array]:
        """Return log Z, mean and variance of each weight and of an intercept under P(w) exp(-a w²/2 + x w)."""
        parts = [_moments(self.prior, precision[:, : self.n], field[:, : self.n])]
        if precision.shape[1] > self.n:
            parts.append(_moments(Normal(), precision[:, self.n :], field[:, self.n :]))
        log_z, mean, variance = (np.hstack(part) for part in zip(*parts))
        return log_z, mean, variance


def _moments(prior: Prior, precision: Array, field: Array) -> tuple[Array, Array, Array]:
    mean, variance = prior.marginals(precision, field)
    if isinstance(prior, (Levels, Normal)):
        return prior.log_partition(precision, field), mean, variance
    return np.logaddexp(field, -field) - precision / 2, mean, variance
