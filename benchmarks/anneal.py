"""Annealed Metropolis against NumPy, across sizes and cores, and beside other solvers.

    python -m benchmarks.anneal [speed] [scaling] [cores] [success]

`speed` runs NumPy (contiguous columns; as one writes it, and tuned with in-place buffers) and `solspace.anneal` on the
same problem in the same process, over a whole τ-schedule on one core, and prints nanoseconds per (proposal ×
constraint) and their ratios. Processors without AVX-512 are in `benchmarks.laptop`, other solvers in `benchmarks.solvers`.
"""

from __future__ import annotations

import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import solspace as ss
from benchmarks.timing import Spread, Table, Times


def plain_anneal(problem, n_sweeps, rng=0):
    """Return weights after τ-annealing in NumPy as one writes it, with contiguous columns; the last τ is not quite 0."""
    rng = np.random.default_rng(rng)
    n, temperature = problem.n, problem.target.temperature
    columns = np.ascontiguousarray(problem.patterns.T, dtype=float) / np.sqrt(n)
    weights = rng.choice([-1, 1], n)
    s = weights @ columns
    for tau in np.linspace(1, 1 / n_sweeps, n_sweeps):
        energy = np.where(s > 0, (1 - np.abs(s) ** tau) / tau, (1 - s) / tau).sum()
        for i in rng.permutation(n):
            trial = s - 2 * weights[i] * columns[i]
            proposed = np.where(trial > 0, (1 - np.abs(trial) ** tau) / tau, (1 - trial) / tau).sum()
            if rng.random() < np.exp(min(0.0, (energy - proposed) / temperature)):
                s, energy, weights[i] = trial, proposed, -weights[i]
    return weights


def tuned_anneal(problem, n_sweeps, rng=0):
    """The same with in-place buffers, half the passes over memory, and random numbers drawn by the sweep."""
    rng = np.random.default_rng(rng)
    n, m, beta = problem.n, problem.m, 1 / problem.target.temperature
    columns = np.ascontiguousarray(problem.patterns.T, dtype=float) * (2 / np.sqrt(n))
    weights = rng.choice([-1, 1], n)
    s = weights @ columns / 2
    trial, power = np.empty_like(s), np.empty_like(s)

    def energy(s, tau):
        if tau == 0:
            return -np.log(s).sum() if (s > 0).all() else np.inf
        np.maximum(s, 0, out=power)
        np.power(power, tau, out=power)
        return (m - power.sum() - np.minimum(s, 0).sum()) / tau

    for tau in np.linspace(1, 0, n_sweeps):
        current = energy(s, tau)
        for i, u in zip(rng.permutation(n), rng.random(n)):
            np.multiply(columns[i], weights[i], out=trial)
            np.subtract(s, trial, out=trial)
            proposed = energy(trial, tau)
            if proposed <= current or u < np.exp(-beta * (proposed - current)):
                s, trial, current = trial, s, proposed
                weights[i] = -weights[i]
    return weights


SIZES = ((1001, 101, "binary"), (5001, 11, "binary"), (5001, 11, "gaussian"))


def speed(sizes: tuple[tuple[int, int, str], ...] = SIZES, chains: int = 16, rounds: int = 2) -> Table:
    """Return the cost of a whole τ-schedule in NumPy and in solspace, taken in turns."""
    found = Table(
        "Annealing beside NumPy",
        "Nanoseconds for one proposal and constraint over a τ-schedule at α = 0.5. NumPy: contiguous columns, one chain; tuned: "
        "with buffers in place; solspace: 16 chains.",
        ("N", "patterns", "sweeps", "NumPy", "tuned", "solspace", "ratio", "ratio to tuned"),
    )
    for n, sweeps, patterns in sizes:
        problem = ss.Perceptron.random(n, 0.5, patterns=patterns, rng=0)
        calls = {
            "plain": lambda p=problem, k=sweeps: plain_anneal(p, k),
            "tuned": lambda p=problem, k=sweeps: tuned_anneal(p, k),
            "own": lambda p=problem, k=sweeps: ss.anneal(p, chains, k, rng=0, n_threads=1),
        }
        times, work = Times(calls, rounds), n * problem.m * sweeps
        own = times["own"].per(chains * work)
        plain, tuned = (times[name].per(work) for name in ("plain", "tuned"))
        ratios = [f"{other.median / own.median:.0f}" for other in (plain, tuned)]
        found.add(n, patterns, sweeps, *map(nanoseconds, (plain, tuned, own)), *ratios)
    return found


def nanoseconds(cost: Spread) -> str:
    return f"{1e9 * cost.median:.3g} ({1e9 * cost.low:.3g}–{1e9 * cost.high:.3g})"


def scaling(sizes: tuple[int, ...] = (1001, 2001, 5001, 10001, 20001), rounds: int = 3) -> Table:
    """Return the cost of a sweep against N: it grows as N·M."""
    found = Table(
        "How annealing grows with N",
        "τ-annealing at α = 0.3, four chains side by side: a sweep of one chain, and nanoseconds for one proposal and "
        "constraint, which should not grow.",
        ("N", "a sweep", "ns", "acceptance"),
    )
    for n in sizes:
        problem = ss.Perceptron.random(n, 0.3, rng=0)
        sweeps = max(10, int(2e9 / (n * problem.m * 4)))
        call = lambda p=problem, k=sweeps: ss.anneal(p, 4, k, rng=0, n_threads=1)  # noqa: E731
        cost = Times({"own": call}, rounds)["own"].per(4 * sweeps)
        acceptance = call().info["acceptance"].mean()
        found.add(n, cost, f"{1e9 * cost.median / n / problem.m:.4f}", f"{acceptance:.3f}")
    return found


def _seconds(n, patterns, sweeps, n_threads):
    """Return the best wall time of 16 chains on `n_threads` threads."""
    problem = ss.Perceptron.random(n, 0.5, patterns=patterns, rng=0)
    ss.anneal(problem, 2, 2, rng=0)
    times = []
    for _ in range(5):
        start = time.perf_counter()
        ss.anneal(problem, 16, sweeps, rng=0, n_threads=n_threads)
        times.append(time.perf_counter() - start)
    return min(times)


def cores() -> Table:
    """Return two threads against one, beside what the machine itself gives: two processes that know nothing of each other."""
    found = Table(
        "Cores", "Wall times, best of five.", ("N", "patterns", "1 thread, s", "2 threads, s", "gain", "2 processes")
    )
    for case in ((1001, "binary", 1001), (10001, "binary", 50), (5001, "gaussian", 50)):
        one, two = (_seconds(*case, threads) for threads in (1, 2))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            apart = list(pool.map(_seconds, *zip((*case, 1), (*case, 1))))
        found.add(*case[:2], f"{one:.2f}", f"{two:.2f}", f"{one / two:.2f}", f"{2 * one / np.mean(apart):.2f}")
    return found


def success(instances=100):
    """The tables of the paper's figures, at T = 0.5."""
    cases = (
        (1001, 100, "tau", "binary", (0.2, 0.3, 0.4, 0.5)),
        (1001, 100, "tau", "gaussian", (0.2, 0.3, 0.4, 0.5)),
        (1001, 100, "temperature", "binary", (0.2, 0.3, 0.4, 0.5)),
        (2001, 2001, "tau", "binary", (0.5, 0.55)),
    )
    for n, sweeps, schedule, patterns, alphas in cases:
        rates = []
        for alpha in alphas:
            problems = (ss.Perceptron.random(n, alpha, patterns=patterns, rng=i) for i in range(instances))
            rates.append(np.mean([ss.anneal(p, 1, sweeps, schedule, rng=i).solved[0] for i, p in enumerate(problems)]))
        print(f"N = {n}, {sweeps} sweeps, {schedule}, {patterns}: alpha {alphas} solved {rates}", flush=True)


if __name__ == "__main__":
    parts = {f.__name__: f for f in (speed, scaling, cores, success)}
    for name in sys.argv[1:] or parts:
        made = parts[name]()
        if isinstance(made, Table):
            print(made.markdown(), flush=True)
