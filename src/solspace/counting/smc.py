"""Sequential Monte Carlo from a measure whose log Z is known to the target, along the τ ladder.

The first measure, that of U_1 = 1 - s, is a product over the weights. Particles follow U_τ to τ = 0 in rungs at which the weights
of a step keep nine tenths of the sample effective, are resampled (systematically) and then move by heat-bath flips. The uniform
measure is reached at β = .1 and then along β to 0; from a larger β only solutions that hang together would be counted.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from solspace.counting.exact import Free
from solspace.measure.potentials import Log, Tau
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.constraints import is_half_space
from solspace.system.threads import split

RUNS, PARTICLES, SWEEPS = 8, 256, 4
KEPT = 0.9  # share of the particles that a step leaves effective
FLAT = 0.1  # β at which the ladder to the uniform measure goes down
MOST_RUNGS = 300  # beyond, particles are lost: the estimate is zero, which keeps the mean from being too large


def refusal(free: Free) -> str:
    """Return in a sentence why `smc` cannot count; empty if it can."""
    target, plain = free.problem.target, free.problem.plain
    tilted = isinstance(target.potential, Log) or (target.potential.athermal and is_half_space(target))
    if plain and free.integer and free.levels.values == (-1.0, 1.0) and tilted and math.isfinite(target.temperature):
        return ""
    return (
        "method 'smc' takes ±1 weights on ±1 patterns under the log or the uniform potential; take 'epar' or 'exact'."
    )


def cost(free: Free) -> float:
    """Return about how many operations all runs take, in those of EPAR."""
    m, n = free.matrix.shape
    return 3.0 * RUNS * PARTICLES * SWEEPS * n * m * 15 * math.sqrt(n)


def runs(free: Free, seeds: np.random.SeedSequence) -> Iterator[float]:
    """Yield estimates of log Z, each from particles of its own; their exponentials have mean Z."""
    for number in range(RUNS):
        yield _run(free, generator(seeds, number))


def _run(free: Free, random: np.random.Generator) -> float:
    problem, (n, root) = free.problem, (free.problem.n, math.sqrt(free.problem.n))
    target, sums = problem.target, np.arange(-n, n + 1, 2)
    uniform = target.potential.athermal
    least = free.bounds[0] if uniform else target.margin * root + 1
    if least > n:
        return -math.inf
    s = (sums - least + 1) / root  # > 0 where it is allowed, in the ladder to the uniform measure for even n too
    beta = FLAT if uniform else target.beta
    patterns = np.ascontiguousarray(free.matrix.T.astype(np.int32))  # (n, m)
    field = beta * patterns.sum(axis=1) / root
    log_z = float(np.logaddexp(field, -field).sum()) - free.matrix.shape[0] * beta * (1 + (least - 1) / root)
    weights = np.where(random.random((PARTICLES, n)) < 1 / (1 + np.exp(-2 * field)), 1, -1).astype(np.int32)
    place = ((weights @ patterns + n) // 2).astype(np.int32)  # (k, m) numbers into `sums`

    def at(level: float) -> Array:
        """Return the log weights of a constraint at a level: τ from 1 to 0, and then 1 - β/FLAT down to -1."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if level >= 0:
                return beta * Tau(level).log_weight(s) if level > 0 else beta * Log().log_weight(s)
            if level > -1:
                return beta * (1 + level) * Log().log_weight(s)
            return np.where(s > 0, 0.0, -np.inf)

    ladder, table, level, end = _Ladder(place, at), at(1.0), 1.0, -1.0 if uniform else 0.0
    for _ in range(MOST_RUNGS):
        stop = 0.0 if level > 0 else end
        level, table, step = ladder.next(table, level, stop)
        top = float(step.max())
        if math.isinf(top):
            return -math.inf
        share = np.exp(step - top)
        log_z += top + math.log(share.mean())
        positions = (random.random() + np.arange(PARTICLES)) / PARTICLES
        chosen = np.searchsorted(np.cumsum(share) / share.sum(), positions).clip(max=PARTICLES - 1)
        weights, ladder.place = weights[chosen], ladder.place[chosen]
        if level == end:
            return log_z
        _move(weights, ladder.place, patterns, table, random)
    return -math.inf


class _Ladder:
    def __init__(self, place: Array, at: object) -> None:
        self.place, self.at = place, at

    def next(self, table: Array, level: float, stop: float) -> tuple[float, Array, Array]:
        """Return the next level, its table, and the particles' log weights there: the farthest that keeps KEPT effective."""
        low, high = stop, level  # the step to `low` is too long, or the last
        for attempt in range(40):
            trial = stop if attempt == 0 else (low + high) / 2
            new, step = self._step(table, trial)
            if self._effective(step) >= KEPT:
                if trial == stop:
                    return trial, new, step
                high = trial
            else:
                low = trial
            if high - low < 0.02 * (level - high):
                break
        high = high if high < level else low + 1e-9
        return high, *self._step(table, high)

    def _step(self, table: Array, level: float) -> tuple[Array, Array]:
        new = self.at(level)  # type: ignore[operator]
        with np.errstate(invalid="ignore"):
            difference = np.where(np.isneginf(new), -np.inf, new - table)
        return new, difference[self.place].sum(axis=1)

    def _effective(self, step: Array) -> float:
        if np.isneginf(step).all():
            return 0.0
        share = np.exp(step - step.max())
        return float(share.sum() ** 2 / (share**2).sum() / len(share))


def _move(weights: Array, place: Array, patterns: Array, table: Array, random: np.random.Generator) -> None:
    from solspace.samplers.kernels.counts import heat_bath

    k, n = weights.shape
    draws = random.random((k, SWEEPS * n), dtype=np.float32)
    split(lambda start, stop: heat_bath(weights[start:stop], place[start:stop], patterns, table, draws[start:stop]), k)
