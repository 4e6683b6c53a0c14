"""Reinforced message passing: AMP for the uniform measure, its field fed back until every weight has decided.

    h ← B + r_k h + σ (1 - r_k) z,   m = tanh h,   r_k = r_0 + k δ

Feeding the field back is an external field that follows the marginals: at r = 0 they are those of all solutions together, at
r = 1 nothing is undecided. Between r = 0.25 and 0.45 the weights choose (on a band between 0.12 and 0.35); the rate δ at which
r passes there decides how far this reaches. Where it fails the messages begin to oscillate, some ten constraints unmet: such a
run is stopped at once. The noise z makes runs of one instance different, so that a further run is worth something.

Runs go side by side, as columns, at one rate; first fast ones, then slower ones and more of them. Large problems need slow
runs, small ones many. State damping, a larger floor of the variance, a margin that shrinks, replicas in the place of the
feedback, and chains from the best signs made no difference (`docs/benchmarks.md`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import child
from solspace.problem import Perceptron
from solspace.samplers.constraints import flat, interval, is_half_space
from solspace.samplers.device import DeviceArray, fetched
from solspace.samplers.kernels.products import narrower
from solspace.samplers.localization.steps import GpuNoise, Noise
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.gpu_channel import form
from solspace.samplers.marginals.messages import DIVERGED, MOVING, Messages, Terms, judge
from solspace.samplers.options import choose_variances
from solspace.samplers.solving.search import Search

FIRST = 0.05
"""Size of the means that runs start from."""
BURST = 10
"""Iterations between two looks at the signs."""
LATE = 50
"""Iterations that a run may make after r has come to 1."""
DECIDED = 0.7
"""|m|²/n above which signs may solve."""


@dataclass(frozen=True)
class Pass:
    """Runs side by side: how many, for each solution that is still to be found, and their terms."""

    rate: float
    runs: int = 1
    damping: float = 0.0
    start: float = 0.2
    """r_0. Below 0.2 marginals of half-spaces change little; those of a band leave 0 there, and too fast from 0.2 on."""
    noise: float = 0.2
    """σ."""


PASSES = (Pass(1e-2), Pass(2e-3, 2), Pass(1e-3, 4), Pass(5e-4, 8), Pass(2.5e-4, 8), Pass(2e-4, 16))
"""For patterns that look random, one after another; the last is repeated as long as a time limit allows."""
BANDED = (
    Pass(2e-3, 4, start=0.1),
    Pass(1e-3, 8, start=0.1),
    Pass(5e-4, 8, start=0.1, noise=0.1),
    Pass(3e-4, 32, start=0.1, noise=0.1),
    Pass(1.2e-4, 32, start=0.1, noise=0.1),
)
"""For constraints that are no half-spaces, on patterns that look random."""
DAMPED = (Pass(1e-2, 2, 0.5), Pass(2e-3, 4, 0.5), Pass(1e-3, 4, 0.7))
"""For other patterns."""
MOST_RUNS = 64
"""Columns side by side at the most."""


Runs: TypeAlias = "CpuRuns | GpuRuns"
"""Columns at one rate, on the processor or a device."""


def passes_for(problem: Perceptron) -> tuple[Pass, ...]:
    """Return the passes for the patterns and the constraints of `problem`."""
    if not problem.looks_random():
        return DAMPED
    return PASSES if is_half_space(problem.target) else BANDED


def reinforce(search: Search, passes: Iterator[Pass]) -> None:
    """Search by one pass after another until all is found or there are no more."""
    for number, one in enumerate(passes):
        if not search.lacking:
            return
        _pass(search, one, number)


def _pass(search: Search, one: Pass, number: int) -> None:
    k = min(search.lacking * one.runs, max(MOST_RUNS, search.lacking))
    search.begin("reinforce", k)
    runs = _runs(search, k, number)
    runs.start(one.damping)
    last = int((1 - one.start) / one.rate) + LATE
    for first in range(1, last, BURST):
        steps = np.arange(first, first + BURST)
        shares = np.minimum(one.start + one.rate * steps, 1.0)
        runs.advance(steps, shares, one.noise * (1 - shares))
        search.go_on(BURST, runs.size)
        _collect(search, runs)
        if not search.lacking or not len(runs.moving()):
            return


def _collect(search: Search, runs: Runs) -> None:
    """Offer the signs of runs that have decided and are better than what there is; stop those that solve."""
    moving = runs.moving()
    if len(moving) and runs.overlaps()[moving].max() > DECIDED:
        unmet = runs.unmet()[moving]
        better = unmet < search.unmet.max()
        if better.any():
            search.offer(runs.signs(moving[better]), unmet[better])
        runs.stop(moving[unmet == 0])


def _runs(search: Search, k: int, number: int) -> Runs:
    problem = search.problem.with_target(flat(search.problem.target))
    seeds = child(search.seeds, 1, number)
    if search.where == "gpu" and form(problem.target) is not None:
        return GpuRuns(problem, k, seeds)
    # where patterns look random one variance for all is as good, at half the cost
    full = not problem.looks_random() and choose_variances(problem, "auto") == "full"
    return CpuRuns(problem, k, seeds, full)


class CpuRuns:
    """`k` runs of one problem, as columns; those that have ended are left behind once they are many."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence, full: bool) -> None:
        self.k, self.messages = k, Messages(problem, k, np.float32, full=full)
        self.noise = Noise(seeds, np.zeros_like(self.messages.mean))
        self.lanes, self.outcome = np.arange(k), np.full(k, MOVING)
        self.best, self.overlap, self.damping = np.full(k, np.inf), np.zeros(k), 0.0

    def start(self, damping: float) -> None:
        """Set out from small random means."""
        self.damping = damping
        self.messages.mean[...] = FIRST * self.noise.draw(self.lanes, np.zeros(self.k, int))

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations number `steps`, with `shares` of B + h fed back and this much noise added to them."""
        self._narrow()
        own = len(self.lanes)
        for step, share, size in zip(steps, shares, noise):
            moving = self.outcome[self.lanes] == MOVING
            with np.errstate(all="ignore"):
                change, residual = self.messages.iterate(np.where(moving, 1 - self.damping, 0.0), np.full(own, share))
            found = judge(change, residual, self._terms(own), np.zeros(own), self.best[self.lanes])
            self.outcome[self.lanes[moving & (found == DIVERGED)]] = DIVERGED
            self.best[self.lanes] = np.fmin(self.best[self.lanes], residual)
            if size:
                drawn = self.noise.draw(self.lanes, np.full(self.k, step))
                self.messages.field[:, :own] += np.float32(size) * drawn[:, self.lanes]
        self.overlap[self.lanes] = self.messages.overlaps()

    def _terms(self, count: int) -> Terms:
        never = np.zeros(count)
        return Terms(never - 1, never, never + np.inf, never > 0, never, never)

    def _narrow(self) -> None:
        """Go on with the columns that move, where so few of them are narrower."""
        moving = self.outcome[self.lanes] == MOVING
        if 0 < moving.sum() <= narrower(self.messages.mean.shape[1], np.float32):
            self.messages, self.lanes = self.messages.take(np.flatnonzero(moving)), self.lanes[moving]

    def moving(self) -> Array:
        """Return the columns (j,) that have neither been stopped nor begun to toss about."""
        return np.flatnonzero(self.outcome == MOVING)

    def stop(self, lanes: Array) -> None:
        """Leave the columns `lanes` as they are."""
        self.outcome[lanes] = DIVERGED

    def overlaps(self) -> Array:
        """Return |m|²/n of each column."""
        return self.overlap

    def size(self) -> float:
        """Return the mean size of the fields fed back."""
        return float(np.abs(self.messages.field[:, : len(self.lanes)]).mean())

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding; all of them where it ended."""
        messages, own = self.messages, len(self.lanes)
        signs = np.where(messages.mean >= 0, np.float32(1), np.float32(-1))
        product = messages.products.forward(signs, out=messages.scratch["forward"])[:, :own]
        missed = np.full(self.k, messages.problem.m)
        missed[self.lanes] = messages.problem.target.violated(product).sum(axis=0)
        return missed

    def signs(self, lanes: Array) -> Array:
        """Return the signs (j, n) of the means of the columns `lanes`."""
        place = np.searchsorted(self.lanes, lanes)
        return np.where(self.messages.mean[:, place].T >= 0, 1, -1).astype(np.int8)


class GpuRuns:
    """`k` runs of one problem, as columns."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence) -> None:
        self.k, self.n, self.messages = k, problem.n, GpuMessages([problem], k)
        self.noise = GpuNoise([seeds], problem.n, k)
        self.stopped = np.zeros(k, bool)
        self.every = np.arange(k)

    def start(self, damping: float) -> None:
        """Set out from small random means."""
        self.messages.mean[...] = np.float32(FIRST) * self.noise.draw(self.every, np.zeros(self.k, int))
        never = np.zeros(self.k)
        terms = Terms(never - 1, never + damping, never + np.inf, never > 0, np.zeros(self.k, int), never + np.inf)
        self.columns = self.messages.columns(self.every, terms)

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations number `steps`, with `shares` of B + h fed back and this much noise added to them."""
        self.columns.share.fill(shares[0])
        for step, size, following in zip(steps, noise, (*shares[1:], shares[-1])):
            self.columns.advance()
            self.noise.stir(self.columns.field, step, size, self.columns.share, following)

    def moving(self) -> Array:
        """Return the columns (j,) that have neither been stopped nor begun to toss about."""
        outcome = fetched(self.columns.whole_numbers)[1]
        return np.flatnonzero((outcome == MOVING) & ~self.stopped)

    def stop(self, lanes: Array) -> None:
        """Leave the columns `lanes` as they are."""
        self.stopped[lanes] = True

    def overlaps(self) -> Array:
        """Return |m|²/n of each column."""
        return self.messages.overlaps()

    def size(self) -> float:
        """Return the mean size of the fields fed back."""
        return float(fetched(abs(self.columns.field).mean()))

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding."""
        whole = self.messages
        lower, upper = (whole.target.margin + end for end in interval(whole.target.potential))
        return fetched(whole.patterns.outside(self._signs(), lower, upper)).ravel()

    def _signs(self) -> DeviceArray:
        return (2 * (self.messages.mean >= 0) - 1).astype(np.int8)

    def signs(self, lanes: Array) -> Array:
        """Return the signs (j, n) of the means of the columns `lanes`."""
        signs = self._signs()
        return fetched(self.messages.cupy.ascontiguousarray(signs.transpose(0, 2, 1))).reshape(self.k, -1)[lanes]
