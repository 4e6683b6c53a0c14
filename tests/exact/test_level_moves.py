"""What the kernel of level moves does, against NumPy bit for bit, and that it leaves the enumerated law where it is.

Energies of all L^n weights come out of the kernel; chances of acceptance from its own thresholds, by bisection over their bits.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from flips_twin import _cell, _power, order, philox, thresholds
from scipy.stats import kstest
from test_anneal_transitions import chance

import solspace as ss
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.levels import spacing
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels.philox import LEVEL

KEY = 20250217
CASES = [
    ("ternary(0.2)", "logistic(2)", {}),
    ("levels(-3,-1,1,3)", "log", {"margin": -0.5}),
    ("levels(0,0.5,2)", "probit(0.5)", {"margin": 0.3}),
    ("ternary", "flip(0.1)", {"temperature": 0.7}),
    ("levels(-1,0,1,2)", "tau(0.4)", {"margin": 0.2}),
    ("ternary", "uniform", {"margin": -1.0}),
]


def posed(prior, potential, more, n=3, m=4, **extras):
    rng = np.random.default_rng(5)
    target = ss.Target(prior, potential, **more)
    return ss.Perceptron(rng.normal(size=(m, n)), rng.choice([-1, 1], m), target=target, **extras)


def kernel_of(problem, weights, bath=True, field=None, time=None, orders=None):
    """Return flips, the chains before a sweep and its work; sites in the order of `orders`."""
    plan = Plan.of([Stage.of(problem.target)], 0, 1, solve=False, target=problem.target)
    plan = replace(plan, n_anneal=0 if bath else 1)
    flips = cpu_flips(problem, plan, KEY, len(weights), 1)
    intercepts = np.zeros((len(weights), 0 if problem.intercept is None else 1))
    chains = Chains.start(weights.copy(), plan, field, intercepts=intercepts, time=time)
    flips.place(chains)
    work = flips.prepare(slice(0, 1))
    return flips, chains, work if orders is None else replace(work, orders=np.array([orders], np.int32).reshape(1, -1))


def tilts(levels, kt, field=0.0, time=0.0):
    values = np.array(levels.values)
    return np.rint(kt * (levels.log_weights + field * values - time * values**2 / 2)).astype(np.int64)


@pytest.mark.parametrize("bath", [False, True])
@pytest.mark.parametrize(("prior", "potential", "more"), CASES)
def test_moves_leave_the_law_invariant(prior, potential, more, bath):
    problem = posed(prior, potential, more, sample_weight=[1.0, 0.5, 2.0, 0.7])
    law = problem.enumerate()
    flips, _, work = kernel_of(problem, law.weights)
    energy, kt = flips.integer_energies(np.zeros(len(law.weights), int), work.potentials), work.potentials.kt[0]
    levels, count = law.levels, len(law.levels.values)
    digits = np.arange(len(energy))[:, None] // count ** np.arange(problem.n) % count
    tilt = tilts(levels, kt)
    weight = tilt[digits].sum(axis=1) - energy
    rounded = np.exp((weight - weight.max()) / kt)
    rounded /= rounded.sum()
    # the law of the rounded energies is that of the problem, up to the rounding
    np.testing.assert_allclose(rounded, law.probabilities, rtol=2e-3, atol=1e-12)
    for site in range(problem.n):
        flow = np.zeros(len(energy))
        for step in range(1, count):
            new = (digits[:, site] + step) % count
            there = np.arange(len(energy)) + (new - digits[:, site]) * count**site
            rate = chance(energy[there] - energy - tilt[new] + tilt[digits[:, site]], kt, bath) / (count - 1)
            flow -= rounded * rate
            np.add.at(flow, there, rounded * rate)
        assert np.abs(flow).max() < 1e-12


@pytest.mark.parametrize("bath", [False, True])
@pytest.mark.parametrize(("prior", "potential", "more"), CASES)
def test_a_sweep_is_what_its_definition_says(prior, potential, more, bath):
    """In a field, with powers and a clamped weight; every chain, every weight, and the energy at the end.

    Under the log potential, whose products reject most moves first, without powers.
    """
    value = max(ss.Target(prior).prior.values)
    powers = None if potential == "log" else np.linspace(0.5, 2.0, 5)
    problem = posed(prior, potential, more, n=7, m=5, clamped={2: value}, sample_weight=powers)
    rng, k, levels = np.random.default_rng(1), 20, problem.target.prior
    weights = levels.draw(k * 7, rng).reshape(k, 7)
    weights[:, 2] = value
    field, time = rng.normal(size=(k, 7)), rng.uniform(0, 2, k)
    flips, chains, work = kernel_of(problem, weights, bath, field, time)
    flips.walk(work, chains, slice(0, k))
    fixed, made, kt = flips.fixed, work.potentials, work.potentials.kt[0]
    columns, (unit, whole) = fixed.columns[:, :5].astype(np.int64), spacing(np.array(levels.values))
    exact = problem.patterns.T * unit / fixed.resolution
    assert np.abs(columns - exact).max() <= 0.5
    p, down = np.ones(5, np.int64), 0
    if powers is not None:
        p, down = flips.patterns.powers[:5].astype(np.int64), flips.patterns.shift
        np.testing.assert_allclose(p / 2.0**down, powers / 0.5, rtol=1e-6)
    rule, sites = _power if flips.power else _cell, np.delete(np.arange(7), 2)[order(KEY, 0, 6)]
    for chain in range(k):
        codes = np.searchsorted(levels.array, weights[chain])

        def energy(codes):
            t = whole[codes] @ columns - made.margins[0]
            return int((rule(t, made.forms[0], made.marks[0]) * p).sum()) >> down

        words = np.stack(philox(np.arange(2), 0, chain, LEVEL, KEY), axis=1).ravel()
        choices = (words * np.uint64(len(whole) - 1) >> np.uint64(32)).astype(int)
        bars, now = thresholds(KEY, chain, 0, 6, kt, bath), energy(codes)
        for number, site in enumerate(sites):
            tilt, new = tilts(levels, kt, field[chain, site], time[chain]), choices[number]
            after = codes.copy()
            after[site] = new + (new >= codes[site])
            there = energy(after)
            if there - now - tilt[after[site]] + tilt[codes[site]] <= bars[number]:
                codes, now = after, there
        assert (chains.weights[chain] == levels.array[codes]).all()
        assert chains.energy[chain, 0] == pytest.approx(now * made.unit[0], rel=1e-12)
    assert (chains.weights[:, 2] == value).all()


@pytest.mark.parametrize("bath", [False, True])
@pytest.mark.parametrize(("prior", "potential", "more"), [*CASES[:2], *CASES[3:], ("levels(0,0.5,1,1.5)", "log", {})])
def test_steps_on_signs_are_what_their_definition_says(prior, potential, more, bath):
    """±1 patterns, where equally spaced levels go one up or down; with a field and a clamped weight."""
    target = ss.Target(prior, potential, **more)
    levels, rng, k, n = target.prior, np.random.default_rng(2), 20, 9
    if np.ptp(np.diff(levels.values)) > 0:
        return
    value = levels.values[0]
    patterns = rng.choice([-1, 1], (6, n))
    problem = ss.Perceptron(patterns, rng.choice([-1, 1], 6), target=target, clamped={2: value})
    weights = levels.draw(k * n, rng).reshape(k, n)
    weights[:, 2] = value
    field, time = rng.normal(size=(k, n)), rng.uniform(0, 2, k)
    flips, chains, work = kernel_of(problem, weights, bath, field, time)
    assert flips.kernel == "integer"
    flips.walk(work, chains, slice(0, k))
    lattice, table, kt = flips.lattice, work.potentials.energies[0].astype(np.int64), work.potentials.kt[0]
    np.testing.assert_allclose(
        lattice.stabilities[flips.levels[:, :6]], problem.stabilities(chains.weights), atol=1e-12
    )
    sites = np.delete(np.arange(n), 2)[order(KEY, 0, n - 1)]
    for chain in range(k):
        codes = np.searchsorted(levels.array, weights[chain])

        def energy(codes):
            stabilities = problem.patterns @ np.array(levels.values)[codes] / np.sqrt(n)
            return int(table[np.abs(lattice.stabilities - stabilities[:, None]).argmin(axis=1)].sum())

        words, bars = np.ravel(philox(0, 0, chain, LEVEL, KEY)), thresholds(KEY, chain, 0, n - 1, kt, bath)
        for number, site in enumerate(sites):
            after, tilt = codes.copy(), tilts(levels, kt, field[chain, site], time[chain])
            after[site] += 2 * (int(words[number // 32]) >> number % 32 & 1) - 1
            if not 0 <= after[site] < len(levels.values):
                continue
            if energy(after) - energy(codes) + tilt[codes[site]] - tilt[after[site]] <= bars[number]:
                codes = after
        assert (chains.weights[chain] == levels.array[codes]).all()
        value = energy(codes) * work.potentials.unit[0] + 6 * work.potentials.floor[0]
        assert chains.energy[chain, 0] == pytest.approx(value, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("potential", ["logistic(2)", "log", "flip(0.2)"])
def test_moves_of_an_intercept_keep_its_law(potential):
    """Chains start at quantiles of the law given the weights and stay there; a prior applied twice is found."""
    problem = posed("ternary", potential, {"margin": -0.6}, intercept=1.5)
    weights, k = np.array([1, 0, -1]), 4000
    grid = np.linspace(-9, 9, 200_001)
    fields = problem.patterns @ weights / np.sqrt(3)
    log_density = problem.log_weights(fields + grid[:, None] * problem.signs) - grid**2 / (2 * 1.5**2)
    cumulative = np.cumsum(np.exp(log_density - log_density.max()))
    cumulative /= cumulative[-1]
    start = np.interp((np.arange(k) + 0.5) / k, cumulative, grid)

    def moved(problem):
        flips, chains, work = kernel_of(problem, np.tile(weights, (k, 1)).astype(np.int8), orders=[])
        chains.intercepts[:, 0] = start
        flips.place(chains)
        flips.walk(work, chains, slice(0, k))
        stabilities = problem.stabilities(chains.weights, chains.intercepts[:, 0])
        np.testing.assert_allclose(chains.energy[:, 0], -problem.log_weights(stabilities) * problem.target.temperature,
                                   atol=2e-3)  # fmt: skip
        assert np.abs(chains.intercepts[:, 0] - start).mean() > 0.1
        return kstest(np.interp(chains.intercepts[:, 0], grid, cumulative), "uniform").pvalue

    assert moved(problem) > 1e-4
    narrow = posed("ternary", potential, {"margin": -0.6}, intercept=1.5 / np.sqrt(2))
    assert moved(narrow) < 1e-4


def test_levels_that_have_no_spacing_are_refused():
    problem = ss.Perceptron.random(11, 0.5, ss.Target(ss.priors.Levels([-1.0, 0.0, np.sqrt(2)])), rng=0)
    with pytest.raises(ValueError, match="multiples of one number"):
        ss.anneal(problem, n_chains=1, n_sweeps=5)
    many = ss.Perceptron.random(11, 0.5, ss.Target(ss.priors.Levels(np.arange(300.0))), rng=0)
    with pytest.raises(ValueError, match="256"):
        ss.anneal(many, n_chains=1, n_sweeps=5)
    assert spacing(np.array([-1 / 3, 0.0, 2 / 3]))[1].tolist() == [-1, 0, 2]
