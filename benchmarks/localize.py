"""Localization beside what one writes in an afternoon with NumPy, and how its cost grows: ``python -m benchmarks.localize``.

The plain versions are those of `benchmarks.asl`, which measures the parts of an iteration one by one.
"""

from __future__ import annotations

import sys

import numpy as np

import solspace as ss
from benchmarks.asl import Algorithm1, Scalar, euler, messages_of
from benchmarks.timing import Spread, Table, Times, timed


def table(quick: bool = False) -> Table:
    """Return the cost of an iteration of message passing, and of a whole sample."""
    n, k = (1001, 16) if quick else (2001, 32)
    problem = ss.Perceptron.random(n, 0.3, rng=0)
    field = np.random.default_rng(0).standard_normal((n, k)).astype(np.float32)
    averaged, printed = Scalar(problem.patterns, k), Algorithm1(problem.patterns, k)
    found = Table(
        "Localization beside NumPy",
        f"±1 weights and patterns, N = {n}, α = 0.3, {k} samples at a time; times for one of them. NumPy: BLAS products and "
        "whole-array formulas; samples by Euler steps of 0.05 to t = 15.",
        ("program", "time", "ratio", "iterations", "solved"),
    )
    times = Times(
        {
            "own": messages_of(problem, k),
            "averaged": lambda: averaged.iterate(field),
            "printed": lambda: printed.iterate(field),
        },
        3 if quick else 7,
    )
    names = {"own": "solspace", "averaged": "NumPy, averaged variances", "printed": "NumPy, Algorithm 1 as printed"}
    for name, program in names.items():
        found.add(f"an iteration: {program}", times[name].per(k), f"{times.ratio(name, 'own'):.1f}", "", "")
    ss.localize(problem, 4, rng=0, progress=False)
    runs = [
        timed(lambda seed=seed: ss.localize(problem, k, rng=seed, progress=False)) for seed in range(1 if quick else 3)
    ]
    own = Spread.of([spent / k for spent, _ in runs])
    iterations = np.mean([samples.info["iterations"].sum() / k for _, samples in runs])
    solved = sum(int(problem.is_solution(samples.weights).sum()) for _, samples in runs)
    found.add("a sample: solspace", own, "1.0", f"{iterations:.0f}", f"{solved}/{k * len(runs)}")
    real = ss.Perceptron.random(n, 0.3, patterns="gaussian", rng=0)
    ss.localize(real, 4, rng=0, progress=False)
    runs = [
        timed(lambda seed=seed: ss.localize(real, k, rng=seed, progress=False)) for seed in range(1 if quick else 3)
    ]
    other = Spread.of([spent / k for spent, _ in runs])
    iterations = np.mean([samples.info.iterations.sum() / k for _, samples in runs])
    solved = sum(int(samples.solved.sum()) for _, samples in runs)
    ratio = f"{other.median / own.median:.1f}"
    found.add("a sample, Gaussian patterns: solspace", other, ratio, f"{iterations:.0f}", f"{solved}/{k * len(runs)}")
    spent, (weights, count) = timed(lambda: euler(Scalar(problem.patterns, k)))
    solved = int(problem.is_solution(weights.astype(np.int8)).sum())
    plain = Spread.of([spent / k])
    found.add("a sample: NumPy, averaged variances", plain, f"{plain.median / own.median:.1f}", count, f"{solved}/{k}")
    return found


def scaling(quick: bool = False) -> Table:
    """Return the cost of a sample against N: products of a matrix with vectors, so N·M times a slowly growing count."""
    found = Table(
        "How localization grows with N",
        "±1 weights and patterns, α = 0.3, 16 samples at a time: one sample, and picoseconds for one iteration and entry of the "
        "patterns, which should not grow.",
        ("N", "a sample", "iterations", "ps", "solved"),
    )
    k = 16
    for n in (501, 1001, 2001) if quick else (501, 1001, 2001, 5001, 10001):
        problem = ss.Perceptron.random(n, 0.3, rng=0)
        runs = [timed(lambda p=problem, s=seed: ss.localize(p, k, rng=s, progress=False)) for seed in range(3)]
        cost = Spread.of([spent / k for spent, _ in runs])
        iterations = np.mean([samples.info["iterations"].sum() / k for _, samples in runs])
        solved = sum(int(problem.is_solution(samples.weights).sum()) for _, samples in runs)
        each = 1e12 * cost.median / iterations / n / problem.m
        found.add(n, cost, f"{iterations:.0f}", f"{each:.0f}", f"{solved}/{k * len(runs)}")
    return found


if __name__ == "__main__":
    for part in (table, scaling):
        print(part("--quick" in sys.argv).markdown(), flush=True)
