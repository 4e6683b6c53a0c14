"""What a move of a weight on levels costs beside a flip of a ±1 weight, and what a likelihood, an intercept and powers add.

python -m benchmarks levels
"""

from __future__ import annotations

import numpy as np

import solspace as ss
from benchmarks.timing import Table, Times

CASES = (
    ("±1", "binary", {}),
    ("ternary", "ternary", {}),
    ("3 bits, -3…3", "levels(-3,-2,-1,0,1,2,3)", {}),
    ("±1, intercept", "binary", {"intercept": 2.0}),
    ("ternary, powers", "ternary", {"sample_weight": True}),
)
POTENTIALS = ("log", "logistic(2)")


def speed(n: int = 1001, alpha: float = 0.5, sweeps: int = 60, chains: int = 8, rounds: int = 5) -> Table:
    """Return nanoseconds for a proposal and constraint along the default schedule, all cases of one kind taken in turns."""
    found = Table(
        "Moves of weights on levels",
        f"Nanoseconds for one proposal and constraint along the default schedule, N = {n}, α = {alpha:g}, {chains} chains: "
        "τ-annealing for log, tempering for logistic(2). The ratio is to ±1 weights on the same patterns under that potential.",
        ("patterns", "potential", "weights", "ns", "ratio", "acceptance"),
    )
    for patterns in ("binary", "gaussian"):
        for potential in POTENTIALS:
            problems = {name: posed(n, alpha, prior, potential, patterns, **more) for name, prior, more in CASES}
            runs = {
                name: (lambda p=problem: ss.anneal(p, chains, sweeps, rng=0, n_threads=1))
                for name, problem in problems.items()
            }
            times = Times(runs, rounds)
            costs = {name: times[name].per(chains * sweeps * n * problems[name].m) for name in runs}
            for name, cost in costs.items():
                spread = f"{1e9 * cost.median:.3g} ({1e9 * cost.low:.3g}–{1e9 * cost.high:.3g})"
                ratio = cost.median / costs["±1"].median
                found.add(
                    patterns, potential, name, spread, f"{ratio:.2f}", f"{runs[name]().info.acceptance.mean():.2f}"
                )
    return found


def posed(
    n: int, alpha: float, prior: str, potential: str, patterns: str, intercept: float | None = None,
    sample_weight: bool = False,
) -> ss.Perceptron:  # fmt: skip
    """Return a random problem, with powers from 0.5 to 1.5 of its constraints if `sample_weight`."""
    drawn = ss.Perceptron.random(n, alpha, ss.Target(prior, potential), patterns, rng=0)
    powers = np.linspace(0.5, 1.5, drawn.m) if sample_weight else None
    labels = np.random.default_rng(1).choice([-1, 1], drawn.m)
    return ss.Perceptron(drawn.patterns, labels, target=drawn.target, intercept=intercept, sample_weight=powers)
