"""Reinforced message passing: AMP for the uniform measure, its field fed back until every weight has decided.

    h ← B + r_k h + σ (1 - r_k) z,   m = tanh h,   r_k = r_0 + k δ

Feeding the field back is an external field that follows the marginals: at r = 0 they are those of all solutions together, at
r = 1 nothing is undecided. Between r = 0.25 and 0.45 the weights choose; the rate δ at which r passes there decides how far
this reaches. Where it fails the messages begin to toss about, some ten constraints unmet, and never find back: such a run
is given up at once, at half of its way. Runs of one instance differ only by what they start from, and by that alone they
mostly end alike; noise z on the field (σ = 0.2) makes them different, so that a further run is worth something. N = 1001, α =
0.74, δ = 0.002, 8 runs an instance: without noise 4 of 12 instances are solved, with it 8. State damping, a larger floor of the
variance, a margin that shrinks, and replicas in the place of the feedback made no difference there; slower rates and more runs
did.

On a band marginals leave 0 near r = 0.12 and have decided by r = 0.35. How many constraints are then unmet grows with N and
falls as the rate does, slowly: |s| <= 1, α = 1.6, N = 1937, means of 8 to 12 runs: 15.5, 9.7, 6.6, 4.8, 4.5, 3.4 at δ = 2e-3,
1e-3, 5e-4, 2.5e-4, 1.2e-4, 6e-5; N = 4901: 16.8 and 12 at 5e-4 and 2.5e-4. So large problems need slow runs, small ones many.
Tried at N = 1937, α = 1.6 and no better than plain runs of as many iterations: r steered so that |m|² grows evenly (7.0),
replicas (6.2), runs from the signs of the best at r = 0.22 (least unmet over twelve rounds 3 -> 3 and 6 -> 1), and, at N = 2001,
α = 1.55, a narrower band or `LogBand` (T = 4; lower ones blow up). Chains from those signs are frozen (N = 1025, least 4 -> 3
and 2 -> 2). To copy the runs of smallest instability over the others lowers the mean (6.8 -> 4.0) but hardly the least, as all
become one family.

Runs go side by side, as columns (`cpu`, `gpu`), at one rate; first fast ones, then slower ones and more of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import child
from solspace.problem import Perceptron
from solspace.samplers.constraints import flat, is_half_space
from solspace.samplers.marginals.gpu_channel import form
from solspace.samplers.options import choose_variances
from solspace.samplers.solving.cpu import CpuRuns
from solspace.samplers.solving.gpu import GpuRuns
from solspace.samplers.solving.search import Search

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


class Runs(Protocol):
    """Columns on some device, all at one rate."""

    def start(self, damping: float) -> None:
        """Set out from small random means."""

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations number `steps`, with `shares` of B + h fed back and this much noise added to them."""

    def moving(self) -> Array:
        """Return the columns (j,) that have neither been stopped nor begun to toss about."""
        ...

    def stop(self, lanes: Array) -> None:
        """Leave the columns `lanes` as they are."""

    def overlaps(self) -> Array:
        """Return |m|²/n of each column."""
        ...

    def size(self) -> float:
        """Return the mean size of the fields fed back."""
        ...

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding."""
        ...

    def signs(self, lanes: Array) -> Array:
        """Return the signs (j, n) of the means of the columns `lanes`."""
        ...


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
