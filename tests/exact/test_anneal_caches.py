"""Whatever the kernels cache equals what is computed from the weights, after any number of moves, on any processor."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import solspace as ss
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.kernels import machine_vectors as vector
from solspace.samplers.kernels.philox import first_weights, philox_words, site_orders, thresholds_of


def walk(problem, schedule, n_sweeps, n_chains, key=7):
    """Return flips and their chains after the whole schedule."""
    plan = Plan.of(stages_of(schedule, problem.target, n_sweeps)[1], 0, 1, solve=False)
    flips = cpu_flips(problem, plan, key, n_chains)
    weights = np.empty((n_chains, problem.n), np.int8)
    first_weights(np.uint64(key), 0, weights)
    chains = Chains.start(weights, plan)
    flips.place(chains)
    work = flips.prepare(slice(0, n_sweeps))
    flips.walk(work, chains, slice(0, n_chains))
    return flips, work, chains


@settings(max_examples=25)
@given(
    n=st.integers(1, 300),
    m=st.integers(1, 300),
    correlated=st.booleans(),
    schedule=st.sampled_from(["tau", "temperature"]),
    seed=st.integers(0, 2**32),
)
def test_levels_and_energy_of_binary_patterns(n, m, correlated, schedule, seed):
    """Correlated patterns carry levels far outside the window that is permuted in registers."""
    rng = np.random.default_rng(seed)
    patterns = rng.choice([-1, 1], p=(0.05, 0.95) if correlated else (0.5, 0.5), size=(m, n))
    problem = ss.Perceptron(patterns)
    flips, work, chains = walk(problem, schedule, 7, 3)
    levels = flips.levels[:, :m].astype(np.int64)
    products = chains.weights.astype(np.int64) @ patterns.T
    assert (2 * (levels + flips.lattice.base) - n - 2 == products).all()
    table = work.potentials.energies[-1].astype(np.int64)
    expected = table[levels].sum(axis=1) * work.potentials.unit[-1] + m * work.potentials.floor[-1]
    np.testing.assert_allclose(chains.energy[:, -1], expected, rtol=1e-12)
    assert chains.accepted.max() <= n


@settings(max_examples=25)
@given(
    n=st.integers(1, 200),
    m=st.integers(1, 300),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    schedule=st.sampled_from(["tau", "temperature"]),
    seed=st.integers(0, 2**32),
)
def test_stabilities_of_real_patterns(n, m, scale, schedule, seed):
    patterns = np.random.default_rng(seed).normal(0.3, scale, size=(m, n))
    problem = ss.Perceptron(patterns, target=ss.Target(margin=0.1))
    flips, _, chains = walk(problem, schedule, 7, 3)
    states = flips.states
    rounded = np.rint(patterns * 2.0**flips.fixed.bits).astype(np.int64)
    assert (states[:, :m] == chains.weights.astype(np.int64) @ rounded.T).all()
    exact = problem.stabilities(chains.weights)
    np.testing.assert_allclose(states[:, :m] * flips.fixed.unit, exact, atol=n * flips.fixed.unit)
    # finer than single precision would keep the sums
    assert n * flips.fixed.unit < 1e-6 * np.sqrt(n) * np.abs(patterns).sum(axis=1).max()


def test_more_levels_than_16_bits_tell_apart():
    """Beyond n = 65,000 the middle levels are kept, and a chain that leaves them is stopped."""
    n = 70_001
    problem = ss.Perceptron.random(n, 3 / n, rng=0)
    flips, _, chains = walk(problem, "tau", 2, 1)
    products = problem.patterns.astype(np.int64) @ chains.weights[0]
    assert (2 * (flips.levels[0, :3].astype(np.int64) + flips.lattice.base) - n - 2 == products).all()
    with pytest.raises(ValueError, match="2\\^16 lattice steps"):
        walk(ss.Perceptron(np.ones((400, n), np.int8)), "tau", 2, 1)


def test_energy_of_real_patterns_is_the_potential():
    """The recorded energy is ΣU of the weights, within the rounding that `real_forms` promises."""
    problem = ss.Perceptron.random(301, 0.4, patterns="gaussian", rng=3)
    samples = ss.anneal(problem, n_chains=4, n_sweeps=60, rng=1)
    assert samples.solved.all()
    np.testing.assert_allclose(samples.info["energy"][:, -1], -np.log(samples.stabilities).sum(axis=1), atol=2e-3)


def processors() -> dict[str, dict[str, str]]:
    """Return settings of Numba for poorer processors than this one."""
    plain = {"generic": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": ""}}
    features = vector.cpu_target.target_context.codegen().magic_tuple()[2]
    if vector.BYTES:
        plain["no byte tables"] = {"NUMBA_CPU_FEATURES": features.replace("+avx512vbmi", "-avx512vbmi")}
    return plain


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", processors())
def test_poorer_processors_make_the_same_chains(name):
    """Down to the plainest processor that Numba can compile for, without vectors to speak of."""
    script = "import sys; sys.path.insert(0, sys.argv[1]); import test_anneal_caches as t; print(t.fingerprint())"
    result = subprocess.run(
        [sys.executable, "-c", script, os.path.dirname(__file__)],
        env={**os.environ, "NUMBA_OPT": "1", **processors()[name]},
        capture_output=True,
        text=True,
    )
    assert result.stdout.strip() == fingerprint(), result.stderr


def fingerprint() -> str:
    digest = hashlib.sha256()
    for patterns in ("binary", "gaussian"):
        problem = ss.Perceptron.random(257, 0.5, patterns=patterns, rng=2)
        samples = ss.anneal(problem, n_chains=3, n_sweeps=25, rng=4, n_extra=4, thin=2)
        digest.update(samples.weights.tobytes() + samples.info["acceptance"].tobytes())
    return digest.hexdigest()


def test_philox_is_the_published_one():
    """Known answers of Random123 (kat_vectors, philox4x32 with 10 rounds)."""
    ones = 0xFFFFFFFF
    cases = {
        (0, 0, 0, 0, 0, 0): (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
        (ones, ones, ones, ones, ones, ones): (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0): (
            0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1,
        ),
    }  # fmt: skip
    for (*counter, low, high), words in cases.items():
        assert philox_words(*map(np.uint64, counter), np.uint64((high << 32) | low)) == words


def test_thresholds_are_logarithms():
    bits = np.random.default_rng(0).integers(0, 2**64, 10_000, dtype=np.uint64)
    bits[:3] = 0, 2**64 - 1, 2**63
    u = (2 * (bits >> np.uint64(12)).astype(np.int64) + 1) / 2.0**53
    out = np.empty(len(bits), np.int32)
    for bath, exact in ((False, -np.log(u)), (True, np.log1p(-u) - np.log(u))):
        thresholds_of(bits, 2.0**20, bath, out)
        assert (np.abs(out + 0.5 - exact * 2**20) <= 0.5 + 1e-8).all()


def test_orders_are_permutations():
    orders = np.empty((200, 37), np.int32)
    site_orders(np.uint64(5), 11, orders)
    assert (np.sort(orders, axis=1) == np.arange(37)).all()
    # each site is as likely at the first place: χ² with 36 degrees of freedom
    counts = np.bincount(orders[:, 0], minlength=37)
    assert ((counts - 200 / 37) ** 2 / (200 / 37)).sum() < 80
    again = np.empty((1, 37), np.int32)
    site_orders(np.uint64(5), 110, again)
    assert (again[0] == orders[99]).all()
