"""EPAR: weights drawn one after another by expectation propagation, importance weights, and an exact sum over the last ones.

Lanes draw the weights in blocks, the most polarised first, from the marginals of a Gaussian that EP keeps up to date for every
lane, given what the lane has drawn. Lanes draw with ρ times the log probabilities, ρ = 1, .8 or .5, and the probability of a
path is that of this mixture: otherwise a lane on a path that the guide thinks nearly impossible would weigh too much.
The mean of (sum over the tail)/(probability of the path) is Z, whatever the guide; dead lanes count as zeros.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from solspace.counting.exact import Free, Search
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import child, generator
from solspace.system.threads import one_blas_thread, split

RHO, SHARES = (1.0, 0.8, 0.5), (0.7, 0.2, 0.1)
UPDATES, STEP = 4, 0.6  # of EP before a block is drawn
# bits of the last weights that are summed over: by sets of bits, by search, and where nothing is forbidden
SIGN_TAIL, TAIL, SOFT_TAIL = 26, 18, 12
BLOCK = 4  # weights drawn together; 16 of many
HEATS, PILOT, ENOUGH = (
    (8.0, 4.0, 2.0),
    64,
    0.2,
)  # temperatures of guides over the target's, lanes that try them, effective share
GRAIN = 16  # lanes that are computed together
LEAST_PRECISION, LEAST_VARIANCE = 1e-6, 1e-9
TOLERANCE, ATTEMPTS, LIMIT = 1e-8, (0.6, 0.2, 0.06), 400  # of EP before anything is drawn


class Lanes:
    """Expectation propagation for k lanes, with some weights drawn: sites of the others and of the constraints."""

    def __init__(self, free: Free, guide: Target, order: Array, k: int) -> None:
        self.root = math.sqrt(free.problem.n)
        self.guide, self.values, self.log_prior = guide, np.array(free.levels.values), free.levels.log_weights
        self.matrix = free.matrix[:, order] / self.root
        m, r = self.matrix.shape
        self.offset = np.tile(free.offset / self.root, (k, 1))
        spread = free.levels.second_moment
        self.gamma, self.c = np.full((k, r), 1 / spread), np.zeros((k, r))
        self.lam, self.b = np.full((k, m), 0.1), np.full((k, m), 0.1)

    def copy_of(self, one: Lanes) -> None:
        """Take the sites of a single lane over which all weights are still free."""
        for name in ("gamma", "c", "lam", "b"):
            getattr(self, name)[...] = getattr(one, name)

    def moments(self, block: int = 0) -> tuple[Array, Array, Array, Array, Array]:
        """Return means and variances of the weights (k, r) and stabilities (k, m), and the covariance of the first `block`."""
        f, (m, r) = self.matrix, self.matrix.shape
        linear = self.c + (self.b - self.lam * self.offset) @ f
        if m < r:
            root = 1 / np.sqrt(self.gamma)
            w = np.sqrt(self.lam)[:, :, None] * f * root[:, None, :]
            inverse = w @ w.transpose(0, 2, 1)
            inverse[:, np.arange(m), np.arange(m)] += 1
            inverse = np.linalg.inv(inverse)
            solved = inverse @ w
            tilted = root * linear
            along = (solved @ tilted[:, :, None])[:, :, 0]
            mean = root * (tilted - (w.transpose(0, 2, 1) @ along[:, :, None])[:, :, 0])
            variance = (1 - np.einsum("kmr,kmr->kr", w, solved)) / self.gamma
            seen = (1 - np.einsum("kmm->km", inverse)) / self.lam
            own = -(w[:, :, :block].transpose(0, 2, 1) @ solved[:, :, :block])
            own[:, np.arange(block), np.arange(block)] += 1
            own *= root[:, :block, None] * root[:, None, :block]
        else:
            precision = f.T @ (self.lam[:, :, None] * f)
            precision[:, np.arange(r), np.arange(r)] += self.gamma
            covariance = np.linalg.inv(precision)
            mean = (covariance @ linear[:, :, None])[:, :, 0]
            variance = np.einsum("krr->kr", covariance)
            seen = np.einsum("kmr,mr->km", f @ covariance, f)
            own = covariance[:, :block, :block].copy()
        return mean, np.maximum(variance, LEAST_VARIANCE), mean @ f.T + self.offset, seen, own

    def tilted(self, mean: Array, variance: Array, gamma: Array, c: Array) -> tuple[Array, Array, Array]:
        """Return log probabilities (..., levels) of weights, and precision and field of their cavities."""
        a, r = 1 / variance - gamma, mean / variance - c
        logits = self.log_prior - a[..., None] * (self.values**2 / 2) + r[..., None] * self.values
        return logits - logsumexp(logits, axis=-1, keepdims=True), a, r

    def update(self, step: float) -> Array:
        """Move all sites by a share of the way to their new values; return the lanes' residuals (k,)."""
        mu, d, z, v, _ = self.moments()
        cavity = 1 / np.maximum(v, 1e-12) - self.lam
        proper = (cavity > 1e-10) & (v > 1e-12)
        width = 1 / np.where(proper, cavity, 1.0)
        omega = np.clip(width * (z / np.maximum(v, 1e-12) - self.b), -1e8, 1e8)
        _, g, dg = self.guide.channel(omega, width)
        new_lam = -dg / np.maximum(1 + width * dg, 1e-12)
        new_lam = np.where(proper & np.isfinite(new_lam), np.clip(new_lam, LEAST_PRECISION, 1e10), self.lam)
        new_b = np.where(proper & np.isfinite(g), g + new_lam * (omega + width * g), self.b)
        log_p, a, r = self.tilted(mu, d, self.gamma, self.c)
        share = np.exp(log_p)
        mean = share @ self.values
        spread = np.maximum((share * (self.values - mean[..., None]) ** 2).sum(axis=-1), LEAST_VARIANCE)
        new_gamma = np.maximum(1 / spread - a, LEAST_PRECISION)
        new_c = mean / spread - r + (new_gamma - (1 / spread - a)) * mean
        for own, new in ((self.gamma, new_gamma), (self.c, new_c), (self.lam, new_lam), (self.b, new_b)):
            own += step * (new - own)
        return ((mean - mu) ** 2).mean(axis=1) / spread.mean(axis=1)

    def draw(self, block: int, rho: Array, uniforms: Array) -> tuple[Array, Array]:
        """Draw the first `block` weights; return them (k, block) and their log probabilities at each of RHO, (k, 3)."""
        mean, _, _, _, covariance = self.moments(block)
        mean = mean[:, :block].copy()
        k, powers = len(mean), np.array(RHO)
        weights, log_q = np.empty((k, block)), np.zeros((k, len(RHO)))
        for i in range(block):
            own = np.maximum(covariance[:, i, i], LEAST_VARIANCE)
            log_p, _, _ = self.tilted(mean[:, i], own, self.gamma[:, i], self.c[:, i])
            heated = powers[:, None] * log_p[:, None, :]
            heated -= logsumexp(heated, axis=-1, keepdims=True)
            ladder = np.cumsum(np.exp(heated[np.arange(k), rho]), axis=-1)
            level = np.minimum((uniforms[:, i, None] > ladder).sum(axis=-1), len(self.values) - 1)
            weights[:, i] = self.values[level]
            log_q += heated[np.arange(k), :, level]
            along = covariance[:, :, i] / own[:, None]
            mean += along * (weights[:, i] - mean[:, i])[:, None]
            covariance = covariance - along[:, :, None] * covariance[:, None, i, :]
        self.offset += weights @ self.matrix[:, :block].T
        self.matrix = np.ascontiguousarray(self.matrix[:, block:])
        self.gamma, self.c = self.gamma[:, block:].copy(), self.c[:, block:].copy()
        return weights, log_q


def converge(lanes: Lanes) -> bool:
    """Run EP of a single lane; return whether it converged."""
    start = [getattr(lanes, name).copy() for name in ("gamma", "c", "lam", "b")]
    for step in ATTEMPTS:
        for name, value in zip(("gamma", "c", "lam", "b"), start):
            setattr(lanes, name, value.copy())
        for _ in range(LIMIT):
            residual = float(lanes.update(step)[0])
            if not math.isfinite(residual):
                break
            if residual < TOLERANCE:
                return True
    return False


@dataclass
class Epar:
    """A guide that has converged or not, the order of the weights, and log weights of lanes drawn so far."""

    free: Free
    guide: Target
    order: Array
    one: Lanes
    converged: bool

    @classmethod
    def of(cls, free: Free, guide: Target) -> Epar:
        every = np.arange(len(free.columns))
        with np.errstate(all="ignore"):
            one = Lanes(free, guide, every, 1)
            converged = converge(one)
            mean, variance, _, _, _ = one.moments()
        order = np.argsort(-(np.abs(mean[0]) / np.sqrt(variance[0])), kind="stable")
        one.gamma, one.c, one.matrix = one.gamma[:, order], one.c[:, order], one.matrix[:, order]
        return cls(free, guide, order, one, converged)

    @classmethod
    def chosen(cls, free: Free, seeds: np.random.SeedSequence) -> Epar:
        """Return the sampler with the hottest guide that is good enough in a pilot run; the target itself if nothing is tilted.

        EP of the target may settle on some of the solutions, and then all lanes draw these: their weights agree, and the rest
        is missed without a trace. A hotter guide finds the others; it is too wide where there are many weights.
        """
        target = free.problem.target
        if target.potential.hard and not target.potential.athermal:
            for number, factor in enumerate(HEATS):
                sampler = cls.of(free, target.replace(temperature=factor * target.temperature))
                if (
                    sampler.converged
                    and _effective(sampler.lanes(np.arange(PILOT), child(seeds, number))) >= ENOUGH * PILOT
                ):
                    return sampler
        return cls.of(free, target)

    def lanes(self, numbers: Array, seeds: np.random.SeedSequence) -> Array:
        """Return the log weights of the lanes of these `numbers`, each from its own stream."""
        r, n = len(self.order), self.free.problem.n
        signs = tail_signs(self.free)
        bits = SIGN_TAIL if signs else TAIL if np.isfinite(self.free.bounds).any() else SOFT_TAIL
        tail = min(r, int(bits / math.log2(len(self.free.levels.values)) + 1e-9))
        block = BLOCK if n < 500 else 16
        found = np.empty(len(numbers))
        summed = SignTail(self.free, self.order[r - tail :]) if signs else SearchTail(self.free, self.order[r - tail :])

        def some(start: int, stop: int) -> None:
            for at in range(start, stop, GRAIN):
                own = slice(at, min(at + GRAIN, stop))
                with np.errstate(all="ignore"):
                    drawn, log_q, rho = self._paths(numbers[own], seeds, r - tail, block)
                for j, weights in enumerate(drawn):
                    found[at + j] = summed(self.order[: r - tail], weights)
                found[own] -= mixture(log_q, rho)

        with one_blas_thread():
            split(some, len(numbers), GRAIN)
        return found + self.free.constant

    def _paths(
        self, numbers: Array, seeds: np.random.SeedSequence, upto: int, block: int
    ) -> tuple[Array, Array, Array]:
        """Return the first weights (k, upto) of the lanes, their log probabilities at each of RHO, (k, 3), and their own ρ."""
        lanes = Lanes(self.free, self.guide, self.order, len(numbers))
        lanes.copy_of(self.one)
        draws = np.array([generator(seeds, int(number)).random(upto + 1) for number in numbers])
        rho = np.searchsorted(np.cumsum(SHARES)[:-1], draws[:, -1])
        weights, log_q = np.empty((len(numbers), upto)), np.zeros((len(numbers), len(RHO)))
        for first in range(0, upto, block):
            size = min(block, upto - first)
            for _ in range(UPDATES if first else 0):
                lanes.update(STEP)
            part = slice(first, first + size)
            weights[:, part], more = lanes.draw(size, rho, draws[:, part])
            log_q += more
        return weights, log_q, rho


def mixture(log_q: Array, rho: Array) -> Array:
    """Return the log probabilities (k,) of paths, whatever the ρ (numbers `rho`) that they were drawn at."""
    return logsumexp(log_q + np.log(SHARES), axis=1)


def _effective(logs: Array) -> float:
    weights = np.exp(logs - logs.max()) if np.isfinite(logs).any() else np.zeros(len(logs))
    return float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 0.0


def tail_signs(free: Free) -> bool:
    return free.integer and free.levels.values == (-1.0, 1.0) and free.decided


class SignTail:
    """The log number of ±1 weights of the tail, given the others, by sets of bits."""

    def __init__(self, free: Free, tail: Array) -> None:
        from solspace.samplers.kernels.counts import sign_tables

        self.rows, self.least, _ = free.halves
        self.tail = tail
        self.tables = sign_tables(self.rows[:, tail], np.zeros(len(self.rows), np.uint8))
        words = self.tables.slack.size
        penalties = self.tables.penalties
        self.penalties = penalties if len(penalties) else np.zeros((0, words, 32), np.uint64)

    def __call__(self, columns: Array, weights: Array) -> float:
        from solspace.samplers.kernels.counts import signs

        need = self.least - self.rows[:, columns] @ weights
        slack = np.floor((len(self.tail) - need) / 2)
        if (slack < 0).any():
            return -math.inf
        guarded = np.full(8 * self.tables.slack.size, 255, np.uint8)
        guarded[: len(slack)] = 128 + np.minimum(slack, 127).astype(np.uint8)
        count = signs(
            guarded.view("<u8").astype(np.uint64)[None], 0, self.penalties, self.tables.sets, self.tables.bits
        )
        return math.log(count) if count else -math.inf


class SearchTail:
    """The log of the sum of weights over the tail, given the others, by search."""

    def __init__(self, free: Free, tail: Array) -> None:
        self.free, self.search = free, Search(free, tail)
        self.rows = free.halves[0]

    def __call__(self, columns: Array, weights: Array) -> float:
        free, order = self.free, self.search.order
        fixed = free.offset + free.matrix[:, columns] @ weights
        prior = 0.0
        if free.levels.log_weights.any():
            prior = float(free.levels.log_weights[np.searchsorted(free.levels.values, weights)].sum())
        total, certain, counted = -math.inf, 0, free.decided
        for codes, more in self.search.choices(np.zeros(0, int), self.rows[:, columns] @ weights, not counted):
            certain += more
            if len(codes):
                own = self.search.values[codes]
                found = free.log_weights_of(own @ free.matrix[:, order].T + fixed)
                found += free.levels.log_weights[codes].sum(axis=1)
                total = float(np.logaddexp(total, logsumexp(found)))
        total = float(np.logaddexp(total, math.log(certain))) if certain else total
        return total + prior
