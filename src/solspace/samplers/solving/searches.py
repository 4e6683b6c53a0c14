"""The searches for solutions: reinforced message passing, and annealed chains.

Reinforced message passing feeds the field back until every weight has decided:

    h ← B + r_k h + σ (1 - r_k) z,   m = tanh h,   r_k = r_0 + k δ

At r = 0 the marginals are those of all solutions together, at r = 1 nothing is undecided. Between r = 0.25 and 0.45 the
weights choose (on a band between 0.12 and 0.35); the rate δ at which r passes there decides how far this reaches. A run whose
messages begin to oscillate has failed and is stopped; the noise z makes runs of one instance different. Runs go side by side,
as columns, at one rate: first fast ones, then slower ones and more of them (alternatives: `docs/benchmarks.md`). Where AMP's
averages do not hold, `reinforce_sites` feeds the fields of expectation propagation back.

Chains: `tau` is τ-annealing that stops at the first solution, for half-spaces and bands, and any patterns; `fewest` anneals the
number of unmet constraints from T = 1 to 0, for other constraints, and data that cannot be solved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Band, Log, LogBand, Uniform
from solspace.numerics.arrays import Array
from solspace.numerics.streams import child, generator
from solspace.problem import Perceptron
from solspace.samplers.annealing.anneal import first_solutions
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.annealing.schedules import Stage, TauAnnealing
from solspace.samplers.constraints import Unmet, choose_variances, flat, interval, is_half_space, nonzero
from solspace.samplers.device import fetched
from solspace.samplers.marginals.ep import propagation
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.gpu_problem import form
from solspace.samplers.marginals.messages import MOVING, Messages, diverging, narrower, progress

if TYPE_CHECKING:
    from solspace.samplers.solving.solve import Search

FIRST = 0.05  # size of the means that runs start from
BURST = 10  # iterations between two looks at the signs
LATE = 50  # iterations that a run may make after r has come to 1
DECIDED = 0.7  # |m|²/n above which signs may solve
MOST_RUNS = 64  # most columns side by side
SITE_RATES = (0.02, 0.005, 0.002)  # rates δ of one pass of `reinforce_sites` after another
SITE_NOISE = 0.2  # σ there
LARGEST = 6.0  # largest field there: beyond it a weight has decided, and the Gaussian's variances would vanish
SITES_DECIDED = 0.9999  # |m|²/n from which on no sign changes there
HEAT = 1.0  # temperature, in constraints, at which annealing the number of unmet ones begins
SWEEPS = (100, 1000, 4000)  # sweeps of one attempt of chains after another
FEWEST_SWEEPS = 1000
CHAINS = 4  # chains side by side, for each solution that is still to be found


@dataclass(frozen=True)
class Pass:
    """Runs side by side: their number for each solution that is still to be found, and δ, damping, r_0 and σ."""

    rate: float
    runs: int = 1
    damping: float = 0.0
    start: float = 0.2  # below, marginals of half-spaces change little; those of a band leave 0 there, too fast above
    noise: float = 0.2


# For patterns that look random, one after another; the last is repeated as long as a time limit allows.
PASSES = (Pass(1e-2), Pass(2e-3, 2), Pass(1e-3, 4), Pass(5e-4, 8), Pass(2.5e-4, 8), Pass(2e-4, 16))
BANDED = (  # for constraints that are no half-spaces, on patterns that look random
    Pass(2e-3, 4, start=0.1),
    Pass(1e-3, 8, start=0.1),
    Pass(5e-4, 8, start=0.1, noise=0.1),
    Pass(3e-4, 32, start=0.1, noise=0.1),
    Pass(1.2e-4, 32, start=0.1, noise=0.1),
)
DAMPED = (Pass(1e-2, 2, 0.5), Pass(2e-3, 4, 0.5), Pass(1e-3, 4, 0.7))  # for other patterns


def passes_for(problem: Perceptron) -> tuple[Pass, ...]:
    if not problem.looks_random():
        return DAMPED
    return PASSES if is_half_space(problem.target) else BANDED


def reinforce(search: Search, passes: Iterable[Pass]) -> None:
    """Search by one pass of AMP after another until all is found or there are no more."""
    for number, one in enumerate(passes):
        if not search.lacking:
            return
        _amp_pass(search, one, number)


def _amp_pass(search: Search, one: Pass, number: int) -> None:
    k = min(search.lacking * one.runs, max(MOST_RUNS, search.lacking))
    search.begin("reinforce", k)
    problem = search.problem.with_target(flat(search.problem.target))
    on_device = search.where == "gpu" and form(problem.target) is not None
    runs = (GpuRuns if on_device else CpuRuns)(problem, k, child(search.seeds, 1, number), one.damping)
    last = int((1 - one.start) / one.rate) + LATE
    for first in range(1, last, BURST):
        steps = np.arange(first, first + BURST)
        shares = np.minimum(one.start + one.rate * steps, 1.0)
        runs.advance(steps, shares, one.noise * (1 - shares))
        search.advance(BURST, runs.field_size)
        moving = runs.moving()
        if len(moving) and runs.overlap[moving].max() > DECIDED:
            unmet = runs.unmet()[moving]
            better = unmet < search.unmet.max()
            if better.any():
                search.offer(runs.signs(moving[better]), unmet[better])
            runs.stopped[moving[unmet == 0]] = True
        if not search.lacking or not len(runs.moving()):
            return


def reinforce_sites(search: Search) -> None:
    for number, rate in enumerate(SITE_RATES):
        if search.lacking:
            _ep_pass(search, rate, number)


def _ep_pass(search: Search, rate: float, number: int) -> None:
    """Feed the field that each weight feels, cavity and own, back after every sweep of updates."""
    k = search.lacking
    search.begin("ep", k)
    problem = nonzero(search.problem).with_target(flat(search.problem.target))
    sites = propagation(problem, k, where=search.where)
    random = generator(child(search.seeds, 3, number))
    sites.field[...] = SITE_NOISE * random.standard_normal((k, problem.n))
    every, at_once, moving = np.full(k, np.inf), np.ones(k, int), np.arange(k)
    for step in range(1, int(1 / rate) + 20):
        try:
            with np.errstate(all="ignore"):
                sites.run(every, at_once, moving)  # any change will do: one sweep of updates
        except (ValueError, np.linalg.LinAlgError):
            return  # sites ran away, as they do where weights decide against a constraint
        felt = np.arctanh(np.clip(sites.mean, -np.tanh(LARGEST), np.tanh(LARGEST)))
        share = min(rate * step, 1.0)
        sites.field[...] = share * felt + SITE_NOISE * (1 - share) * random.standard_normal((k, problem.n))
        search.advance(1, lambda: float(np.abs(sites.field).mean()))
        missed = search.offer(np.where(sites.mean[moving] >= 0, 1, -1))
        moving = moving[(missed > 0) & ((sites.mean[moving] ** 2).mean(axis=1) < SITES_DECIDED)]
        if not search.lacking or not len(moving):
            return


class CpuRuns:
    """`k` runs of one problem on the processor, as columns; those that have ended are left behind once they are many."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence, damping: float) -> None:
        from solspace.samplers.kernels.philox import Noise

        # where patterns look random one variance for all is as good, at half the cost
        full = not problem.looks_random() and choose_variances(problem, "auto") == "full"
        self.k, self.damping, self.messages = k, damping, Messages(problem, k, np.float32, full=full)
        self.noise = Noise(seeds, np.zeros_like(self.messages.mean))
        self.lanes, self.stopped = np.arange(k), np.zeros(k, bool)
        self.best, self.overlap = np.full(k, np.inf), np.zeros(k)
        self.messages.mean[...] = FIRST * self.noise.draw(self.lanes, np.zeros(k, int))

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations `steps`, each followed by fields of `shares` of B + h and so much noise."""
        moving = ~self.stopped[self.lanes]
        if 0 < moving.sum() <= narrower(self.messages.mean.shape[1]):
            self.messages, self.lanes = self.messages.take(np.flatnonzero(moving)), self.lanes[moving]
        own = len(self.lanes)
        for step, share, size in zip(steps, shares, noise):
            weight = np.where(self.stopped[self.lanes], 0.0, 1 - self.damping)
            with np.errstate(all="ignore"):
                change, residual = self.messages.iterate(weight, np.full(own, share))
            self.stopped[self.lanes] |= diverging(change, residual, self.best[self.lanes])
            self.best[self.lanes] = np.fmin(self.best[self.lanes], residual)
            if size:
                drawn = self.noise.draw(self.lanes, np.full(self.k, step))
                self.messages.field[:, :own] += np.float32(size) * drawn[:, self.lanes]
        self.overlap[self.lanes] = self.messages.overlaps()

    def moving(self) -> Array:
        return np.flatnonzero(~self.stopped)

    def field_size(self) -> float:
        return float(np.abs(self.messages.field[:, : len(self.lanes)]).mean())

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding; m for those left behind."""
        messages, own = self.messages, len(self.lanes)
        signs = np.where(messages.mean >= 0, np.float32(1), np.float32(-1))
        product = messages.products.forward(signs, out=messages.scratch["forward"])[:, :own]
        missed = np.full(self.k, messages.problem.m)
        missed[self.lanes] = messages.problem.target.violated(product).sum(axis=0)
        return missed

    def signs(self, lanes: Array) -> Array:
        place = np.searchsorted(self.lanes, lanes)
        return np.where(self.messages.mean[:, place].T >= 0, 1, -1).astype(np.int8)


class GpuRuns:
    """`k` runs of one problem on a device, as columns."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence, damping: float) -> None:
        from solspace.samplers.kernels.philox import GpuNoise

        self.k, self.stopped, self.messages = k, np.zeros(k, bool), GpuMessages([problem], k)
        self.noise = GpuNoise([seeds], problem.n, k)
        every = np.arange(k)
        self.messages.mean[...] = np.float32(FIRST) * self.noise.draw(every, np.zeros(k, int))
        self.columns = self.messages.columns(every, progress(k, -1.0, damping, np.inf, False))

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        self.columns.share.fill(shares[0])
        for step, size, following in zip(steps, noise, (*shares[1:], shares[-1])):
            self.columns.advance()
            self.noise.stir(self.columns.field, step, size, self.columns.share, following)

    def moving(self) -> Array:
        outcome = fetched(self.columns.whole_numbers)[1]
        return np.flatnonzero((outcome == MOVING) & ~self.stopped)

    @property
    def overlap(self) -> Array:
        return self.messages.overlaps()

    def field_size(self) -> float:
        return float(fetched(abs(self.columns.field).mean()))

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding."""
        target, signs = self.messages.target, (2 * (self.messages.mean >= 0) - 1).astype(np.int8)
        lower, upper = (target.margin + end for end in interval(target.potential))
        return fetched(self.messages.patterns.outside(signs, lower, upper)).ravel()

    def signs(self, lanes: Array) -> Array:
        return np.where(self.messages.means()[lanes] >= 0, 1, -1).astype(np.int8)


def tau(search: Search, sweeps: Sequence[int] = SWEEPS) -> None:
    for number, count in enumerate(sweeps):
        if not search.lacking:
            return
        _anneal(search, "tau", count, number)


def fewest(search: Search) -> None:
    """Lower the number of unmet constraints: first by τ-annealing, which leaves fewer except on the smallest problems."""
    if search.lacking and "tau" not in search.tried:
        tau(search, (FEWEST_SWEEPS,))
    if search.lacking:
        _anneal(search, "fewest", FEWEST_SWEEPS, len(SWEEPS))


def _anneal(search: Search, method: str, sweeps: int, number: int) -> None:
    n_chains = CHAINS * search.lacking
    search.begin(method, n_chains)
    target = flat(search.problem.target)
    heats, unmet = np.linspace(HEAT, 0.0, sweeps).tolist(), Unmet(target.potential)
    schedule: object = [Stage(unmet, heat, target.margin) for heat in heats]
    if method == "tau" and isinstance(target.potential, (Uniform, Band)):
        walls = Log() if isinstance(target.potential, Uniform) else LogBand(target.potential.width)
        target, schedule = Target(target.prior, walls, margin=target.margin), TauAnnealing()
    problem, seeds, best, done = search.problem.with_target(target), child(search.seeds, 2, number), None, 0

    def look(chains: Chains) -> None:
        nonlocal best, done
        best, steps, done = chains.weights, chains.sweep - done, chains.sweep
        search.advance(steps)

    try:
        best = first_solutions(
            problem, n_chains, sweeps, schedule, seeds, device=search.where, progress=False, callback=look
        ).weights
    finally:  # also after the time limit and Ctrl-C
        if best is not None:
            search.offer(best)
