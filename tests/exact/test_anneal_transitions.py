"""Small n: what the flip kernels do to every one of the 2^n weights leaves the enumerated law where it is, to 1e-12.

Energies come out of the kernels themselves: all 2^n weights are chains, and a sweep of one proposal that cannot be
refused gives the energy after each flip. The chance of acceptance comes from the kernels' own threshold, by bisection
over its random bits; that decisions follow "change <= threshold" is checked on its own. The law is that of the rounded
potential, and how far it is from the given one is bounded separately.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.special import logsumexp

import solspace as ss
from solspace.enumeration import decode
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels.philox import thresholds, thresholds_of

KEY = 20250216
HOT = 5e7
"""kT in units, so large that few flips of these problems are refused."""


@dataclass(frozen=True)
class Ramp:
    """A potential of a user: soft, with a jump and a kink."""

    breakpoints = (0.0, 0.5)

    def log_weight(self, s):
        return -np.where(s < 0.5, 1.0 + 0.3 * (0.5 - s), 0.0) - 0.1 * s**2


POTENTIALS = [
    "uniform",
    "log",
    "hinge",
    "errors",
    "tau(0.3)",
    "tau(0.01)",
    "band(1.2)",
    "log_quadratic(1, 0.5)",
    "log_band(1.1)",
    "wall(lower=-0.3)",
    "wall(-0.8, 1.7)",
    "tau_wall(-0.8, 1.7, 0.3)",
    Ramp(),
]
CASES = [("binary", 9, 0.0), ("binary", 8, 0.3), ("gaussian", 8, 0.0), ("gaussian", 7, -0.4)]


class Kernel:
    """A problem's kernel, with every weight a chain."""

    def __init__(self, problem: ss.Perceptron, stage: Stage) -> None:
        self.plan = Plan.of([stage], 0, 1, solve=False)
        self.flips = cpu_flips(problem, self.plan, KEY, 1 << problem.n)
        self.problem, self.n = problem, problem.n

    def walk(self, sites: list[int], kt: float | None = None, bath: bool = False) -> Chains:
        chains = Chains.start(decode(np.arange(1 << self.n), self.n), self.plan)
        self.flips.place(chains)
        work = self.flips.prepare(slice(0, 1))
        if kt is not None:
            work = replace(work, potentials=replace(work.potentials, kt=np.array([kt])))
        work = replace(work, orders=np.array([sites], np.int32).reshape(1, -1))
        self.flips.plan = replace(self.plan, n_anneal=0 if bath else 1)
        self.flips.walk(work, chains, slice(0, 1 << self.n))
        self.potentials = work.potentials
        return chains

    def integers(self, chains: Chains) -> np.ndarray:
        """Return the integer energies that the kernel recorded."""
        floor = self.problem.m * getattr(self.potentials, "floor", np.zeros(1))[0]
        return np.rint((chains.energy[:, 0] - floor) / self.potentials.unit[0]).astype(np.int64)

    def energies(self) -> np.ndarray:
        """Return the integer energies of all weights."""
        return self.integers(self.walk([]))

    def changes(self, site: int) -> np.ndarray:
        """Return the changes of energy of all weights when `site` flips, checked against what the kernel makes."""
        start, codes = self.energies(), np.arange(1 << self.n)
        flipped = start[codes ^ (1 << site)]
        chains = self.walk([site], HOT)
        moved = chains.accepted[:, 0] == 1
        assert moved.mean() > 0.8
        assert (self.integers(chains) == np.where(moved, flipped, start)).all(), (
            "cached energy is not the recomputed one"
        )
        return flipped - start

    @property
    def kt(self) -> float:
        return float(self.flips.prepare(slice(0, 1)).potentials.kt[0])


def chance(change: np.ndarray, kt: float, bath: bool) -> np.ndarray:
    """Return the exact probability that a change of energy passes the kernels' threshold, which falls with the bits."""
    values, where = np.unique(change, return_inverse=True)
    low, high = np.zeros(len(values), np.int64), np.full(len(values), 1 << 52)  # so many k pass, at least and at most
    threshold = np.empty(len(values), np.int32)
    while (high > low).any():
        middle = (low + high) // 2
        thresholds_of(middle.astype(np.uint64) << np.uint64(12), kt, bath, threshold)
        passes = threshold >= values
        low, high = np.where(passes & (high > low), middle + 1, low), np.where(passes, high, middle)
    return (low / 2.0**52)[where].reshape(change.shape)


def residual(kernel: Kernel, law: np.ndarray, kt: float, bath: bool = False) -> float:
    """Return how far the proposals of any site, accepted at `kt`, move the law."""
    codes, worst = np.arange(1 << kernel.n), 0.0
    for site in range(kernel.n):
        flow = law * chance(kernel.changes(site), kt, bath)
        worst = max(worst, np.abs(flow[codes ^ (1 << site)] - flow).sum())
    return worst


def rounded_law(energies: np.ndarray, kt: float) -> np.ndarray:
    return np.exp(-energies / kt - logsumexp(-energies / kt))


@pytest.mark.parametrize(("patterns", "n", "margin"), CASES)
@pytest.mark.parametrize("potential", POTENTIALS, ids=str)
def test_law_is_invariant(potential, patterns, n, margin):
    target = ss.Target(potential=potential, temperature=0.6, margin=margin)
    problem = ss.Perceptron.random(n, 0.5, target, patterns, rng=6)
    kernel = Kernel(problem, Stage.of(target))
    law = rounded_law(kernel.energies(), kernel.kt)
    assert residual(kernel, law, kernel.kt) < 1e-12
    assert residual(kernel, law, kernel.kt, bath=True) < 1e-12
    # the rounded law is the given one, up to what rounding the potential may do
    exact = problem.enumerate().probabilities
    assert np.abs(law - exact).sum() < (2e-3 if patterns == "binary" else 5e-5)


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_planted_bugs_are_caught(patterns):
    target = ss.Target(potential="tau(0.3)", temperature=0.6)
    problem = ss.Perceptron.random(8, 0.6, target, patterns, rng=5)
    kernel = Kernel(problem, Stage.of(target))
    energies = kernel.energies()
    law = rounded_law(energies, kernel.kt)
    assert residual(kernel, law, 1.1 * kernel.kt) > 1e-3  # temperature off by a tenth
    assert residual(kernel, rounded_law(-energies, kernel.kt), kernel.kt) > 1e-3  # sign
    other = Kernel(problem.with_target(target.replace(margin=0.1)), Stage.of(target.replace(margin=0.1)))
    assert residual(other, law, kernel.kt) > 1e-3  # margin forgotten
    # differences rounded instead of the potential: balance is lost in the fourth digit, far above what is demanded
    s = problem.stabilities(decode(np.arange(256), 8))
    exact = -np.stack([target.log_weight(s[np.arange(256) ^ (1 << i)]) - target.log_weight(s) for i in range(8)])
    change = np.rint(exact * 10).sum(axis=2)
    flow = np.exp(-np.maximum(change, 0) / 10) * law
    assert max(np.abs(flow[i, np.arange(256) ^ (1 << i)] - flow[i]).sum() for i in range(8)) > 1e-4


@pytest.mark.parametrize("bath", [False, True])
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_decisions_follow_the_threshold(patterns, bath):
    target = ss.Target(potential="tau(0.3)", temperature=0.6)
    problem = ss.Perceptron.random(9, 0.6, target, patterns, rng=5)
    kernel = Kernel(problem, Stage.of(target))
    first = decode(np.arange(512), 9)
    threshold = np.empty((512, 2), np.int32)
    for chain in range(512):
        thresholds(np.uint64(KEY), chain, 0, 0, kernel.kt, bath, np.empty(2, np.uint64), threshold[chain])
    for site in range(9):
        moved = (kernel.walk([site], bath=bath).weights != first).any(axis=1)
        assert (moved == (kernel.changes(site) <= threshold[:, 0])).all()
        assert 0.2 < moved.mean() < 1


@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
@pytest.mark.parametrize("potential", ["hinge", "errors"])
def test_zero_temperature_never_climbs(potential, patterns):
    target = ss.Target(potential=potential)
    problem = ss.Perceptron.random(9, 0.9, target, patterns, rng=6)
    kernel = Kernel(problem, Stage(target.potential, 0.0))
    first = decode(np.arange(512), 9)
    assert kernel.kt == 0
    for site in range(9):
        change = kernel.changes(site)
        moved = (kernel.walk([site]).weights != first).any(axis=1)
        assert (moved == (change <= 0)).all()
        assert 0 < moved.mean() < 1
        moved = (kernel.walk([site], bath=True).weights != first).any(axis=1)
        assert moved[change < 0].all()
        assert not moved[change > 0].any()
        free = moved[change == 0]
        assert len(free) < 50 or 0.3 < free.mean() < 0.7


def test_chances():
    """Both rules, against their formulas."""
    change = np.array([-3000, -100, -1, 0, 1, 50, 1000, 4000])
    exact = np.exp(-change / 100.0)
    np.testing.assert_allclose(chance(change, 100.0, bath=False), np.minimum(1, exact), atol=3e-16)
    np.testing.assert_allclose(chance(change, 100.0, bath=True), exact / (1 + exact), atol=3e-16)
    assert chance(np.array([-1, 0, 1]), 0.0, bath=False).tolist() == [1, 1, 0]
    assert chance(np.array([-1, 0, 1]), 0.0, bath=True).tolist() == [1, 0.5, 0]
