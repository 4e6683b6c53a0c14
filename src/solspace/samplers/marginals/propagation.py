"""Expectation propagation (EP): message passing for any patterns, with Gaussian sites that match the moments of the weights
and of the constraints, each in the presence of all others (adaptive TAP).

A sweep of updates at the moments of the Gaussian (`gaussian`), cavities being what is left of it without a site:

    constraint μ   1/V = 1/v - Λ, ω = V (z/v - b);  g, dg of the channel at (ω, V);  Λ' = -dg/(1 + V dg),  b' = g + Λ' (ω + V g)
    weight i       a = 1/d - Γ, r = μ/d - c;  m = tanh(h + r), s² = 1 - m²;          Γ' = 1/s² - a,        c' = m/s² - r

with v, z variance and mean of the stability and d, μ those of the weight. Nothing is assumed of the patterns, where AMP assumes
that they are random: EP keeps the correlations that AMP replaces by their averages. With *scalar* variances d, v, s² and dg
are averaged over weights and constraints: one decomposition of the patterns serves for all iterations (VAMP, OAMP), exact for
patterns whose singular vectors are random.

All sites of a sample move by one share of the way, which grows while |m - μ| falls and is halved when it grows or when the
Gaussian would not be one. A sample that does not settle, or comes no nearer for a while, tries again from the beginning and in
smaller steps. At hard loads there may be no fixed point to settle at: every attempt comes close to one and drifts away again,
in steps however small. The best of what was met is kept then. It is no place to go on from: until the sample converges, its
calls begin from the beginning too, and make no second attempt if the first comes anywhere.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.marginals.gaussian import Gaussian, Moments, Sites
from solspace.samplers.marginals.relaxation import Effort

CAPS = (0.9, 0.3, 0.1, 0.03)
"""Longest steps, as a share of the way, that one attempt after another allows itself."""
FIRST_STEP = 0.5
"""The first of a sample that knows of no better."""
STALL = 0.2
"""Share of the iteration limit after which an attempt that came no nearer is given up."""
NEAR = 10.0
"""A residual of so many tolerances is not worth another attempt."""
LOST = 1.0
"""A residual that says nothing any more."""
SHORTEST = 1e-3
"""A share of the way that is not worth going."""
SMALLEST = 1e-12
"""Least variance of a weight, and least 1 + V dg, the share of a constraint's variance that its weight leaves."""


NARROWEST = 1e-12
"""Least precision and least variance that a cavity may have; a site without a proper one waits."""


class Law(Protocol):
    """What gives moments for sites, on any device."""

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites (k, n) and (k, m)."""
        ...


class Update(NamedTuple):
    """What one sweep of updates finds, for each sample: new sites, means and variances of the weights, log Z.

    `residual` (k,) is the mean squared difference between the means of sites and Gaussian, of weights and of stabilities,
    over the mean variance of the weights.
    """

    sites: Sites
    mean: Array
    spread: Array
    log_partition: Array
    residual: Array


class Propagation:
    """EP for `k` fields on one problem of ±1 weights, samples as rows.

    `field` (k, n) is for whoever uses it to set; `mean` and `spread` (k, n) are the marginals as of the last call,
    `log_partition` (k,) is log Z of the tilted measure.
    """

    def __init__(self, problem: Perceptron, k: int, law: Law | None = None, scalar: bool = False) -> None:
        self.problem, self.k, self.scalar = problem, k, scalar
        self.law = law or (ScalarGaussian(problem) if scalar else Gaussian(problem))
        n = problem.n
        self.field = np.zeros((k, n))
        self.sites = self._beginning(k)
        self.mean, self.spread = np.zeros((k, n)), np.ones((k, n))
        self.log_partition = np.full(k, np.nan)
        self.step = np.full(k, FIRST_STEP)
        self.missed = np.zeros(k, bool)
        """Whose last call did not converge."""

    def run(self, tolerance: Array, limit: Array, lanes: Array) -> Effort:
        """Iterate the samples `lanes` until their residual is below `tolerance` (k,), `limit` (k,) sweeps at most.

        Where that fails, sites and marginals are those with the smallest residual that was met, if it is below LOST.
        """
        effort = Effort.none(self.k)
        effort.converged[lanes], effort.residual[lanes] = False, np.inf
        todo, first = np.asarray(lanes), self.sites.of(lanes)
        afresh = np.flatnonzero(self.missed[todo])
        first.put(afresh, self._beginning(len(afresh)))
        for cap in CAPS:
            self._attempt(todo, first, cap, tolerance, limit, effort)
            enough = np.where(self.missed, LOST, NEAR * tolerance)
            todo = todo[~(effort.converged | (effort.residual < enough))[todo]]
            if not len(todo):
                break
            first = self._beginning(len(todo))
        lost = np.asarray(lanes)[~effort.converged[lanes]]
        effort.blown[lost] = np.isinf(effort.residual[lost])
        self.missed[lanes], self.step[lost] = ~effort.converged[lanes], FIRST_STEP
        return effort

    def _beginning(self, k: int) -> Sites:
        """Return the sites of `k` samples to begin with; all zeros would be a fixed point that never saw a constraint."""
        n, m = self.problem.n, self.problem.m
        return Sites(np.ones((k, n)), np.zeros((k, n)), np.full((k, m), 0.1), np.full((k, m), 0.1))

    def share(self) -> None:
        """Give the sites and marginals of the first sample to all others."""
        for part in (*self.sites, self.mean, self.spread, self.log_partition, self.step, self.missed):
            part[...] = part[:1]

    def _attempt(self, lanes: Array, sites: Sites, cap: float, tolerance: Array, limit: Array, effort: Effort) -> None:
        """Iterate the samples `lanes` from `sites` on; keep what has a smaller residual than `effort` knows of."""
        step = np.minimum(self.step[lanes], cap)
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
            sites.put(here, new)
            update.sites.put(here, found.sites)
            residual[here] = now
            count[here] += 1
            nearest_at[here] = np.where(now < nearest[here], count[here], nearest_at[here])
            nearest[here] = np.minimum(now, nearest[here])
            self._keep(lanes[here], new, found, now, effort)
            done = now < tolerance[lanes[here]]
            effort.converged[lanes[here[done]]] = True
            most = limit[lanes[here]]
            stalled = count[here] - nearest_at[here] >= np.maximum(STALL * most, 1)
            moving[here] = ~(done | stalled | np.isinf(now) | (count[here] >= most))
        self.step[lanes] = np.where(effort.converged[lanes], np.maximum(step, 0.8 * cap), cap)
        effort.iterations[lanes] += count

    def _stepped(self, old: Sites, new: Sites, step: Array, lanes: Array) -> tuple[Sites, Moments]:
        """Return the sites a step (of `step` at `lanes`) further and their moments; halve steps that leave the proper."""
        sites = old.moved(new, step[lanes])
        moments = self.law.moments(sites)
        improper = np.flatnonzero(~moments.proper)
        while len(improper):
            step[lanes[improper]] *= 0.5
            again = old.of(improper).moved(new.of(improper), step[lanes[improper]])
            found = self.law.moments(again)
            sites.put(improper, again)
            moments.put(improper, found)
            improper = improper[~found.proper & (step[lanes[improper]] > SHORTEST)]
        return sites, moments

    def _update(self, lanes: Array, sites: Sites, moments: Moments) -> Update:
        """Return what the updates of the module's docstring give for the samples `lanes`."""
        target = self.problem.target
        gamma, c, lam, b = sites
        d, mu, v, z = moments.variance, moments.mean, moments.stability_variance, moments.stability_mean
        cavity = 1 / v - lam
        proper = (cavity > NARROWEST) & (cavity < 1 / NARROWEST)
        width = 1 / np.where(proper, cavity, 1.0)
        omega = np.clip(width * (z / v - b), -1e8, 1e8)
        log_z, g, dg = target.channel(omega, width)
        if self.scalar:
            dg = np.broadcast_to(dg.mean(axis=1, keepdims=True), dg.shape)
        new_lam = -dg / np.maximum(1 + width * dg, SMALLEST)
        new_b = g + new_lam * (omega + width * g)
        a, r = 1 / d - gamma, mu / d - c
        x = self.field[lanes] + r
        mean, decay = np.tanh(x), np.exp(-2 * np.abs(x))
        spread = np.maximum(4 * decay / (1 + decay) ** 2, SMALLEST)
        s2 = np.broadcast_to(spread.mean(axis=1, keepdims=True), spread.shape) if self.scalar else spread
        fresh = Sites(1 / s2 - a, mean / s2 - r, np.where(proper, new_lam, lam), np.where(proper, new_b, b))
        linear = ((c * mu).sum(axis=1) + (b * z).sum(axis=1)) / 2
        weights = np.logaddexp(x, -x) - a / 2 - (np.log(2 * np.pi * d) + mu**2 / d) / 2
        constraints = (np.log(width / v) + omega**2 / width - z**2 / v) / 2 + log_z
        n = gamma.shape[1]
        total = n * np.log(2 * np.pi) / 2 - moments.log_determinant / 2 + linear
        unseen = np.where(proper, omega + width * g - z, 0.0)
        apart = ((mean - mu) ** 2).mean(axis=1) + (unseen**2).mean(axis=1)
        return Update(
            fresh, mean, spread, total + weights.sum(axis=1) + constraints.sum(axis=1), apart / spread.mean(axis=1)
        )

    def _keep(self, lanes: Array, sites: Sites, update: Update, residual: Array, effort: Effort) -> None:
        """Take over sites and marginals of those samples `lanes` whose `residual` is the smallest that they met."""
        best = residual < np.minimum(effort.residual[lanes], LOST)
        own = lanes[best]
        self.sites.put(own, sites.of(best))
        self.mean[own], self.spread[own] = update.mean[best], update.spread[best]
        self.log_partition[own], effort.residual[own] = update.log_partition[best], residual[best]


class ScalarGaussian:
    """Moments where all weights share one precision, and all constraints another: from singular values, once."""

    def __init__(self, problem: Perceptron) -> None:
        self.matrix = problem.patterns.astype(np.float64) / np.sqrt(problem.n)
        _, values, self.right = np.linalg.svd(self.matrix, full_matrices=False)
        self.squares = values**2

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites whose precisions (k, n) and (k, m) are constant along their rows."""
        gamma, c, lam, b = sites
        m, n = self.matrix.shape
        one, other = gamma[:, :1], lam[:, :1]
        precision = one + other * self.squares
        proper = (one[:, 0] > 0) & (precision > 0).all(axis=1)
        one, precision = np.where(proper[:, None], one, 1.0), np.where(proper[:, None], precision, 1.0)
        linear = c + b @ self.matrix
        along = linear @ self.right.T
        mean = linear / one + (along * (1 / precision - 1 / one)) @ self.right
        rest = (n - len(self.squares)) / one
        variance = ((1 / precision).sum(axis=1, keepdims=True) + rest) / n
        seen = (self.squares / precision).sum(axis=1, keepdims=True) / m
        determinant = np.log(precision).sum(axis=1) + (n - len(self.squares)) * np.log(one[:, 0])
        return Moments(
            mean, np.broadcast_to(variance, c.shape).copy(), mean @ self.matrix.T,
            np.broadcast_to(seen, b.shape).copy(), determinant, proper,
        )  # fmt: skip
