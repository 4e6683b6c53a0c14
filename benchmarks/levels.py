"""What a move of a weight on levels costs beside a flip of a ±1 weight, and what a likelihood, an intercept and powers add.

python -m benchmarks levels
"""

from __future__ import annotations

import numpy as np

import solspace as ss
from benchmarks.timing import Table, Times, timed
from solspace.numerics.series import effective_size

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


def beside_pymc(n: int = 50, alpha: float = 2.0, draws: int = 100) -> Table:
    """Return effective draws a second of a ternary logistic posterior, by chains here and by PyMC."""
    import pymc
    import pytensor.tensor as pt

    target = ss.Target("ternary", "logistic(2)")
    problem = ss.Perceptron.planted(n, alpha, target, patterns="gaussian", rng=0)
    found = Table(
        "A ternary logistic posterior beside PyMC",
        f"N = {n}, α = {alpha:g}, Gaussian patterns, a draw after every sweep. Effective draws a second: of the energy and "
        "of the worst of eight random projections of the weights.",
        ("sampler", "seconds", "draws", "energy", "projections", "overlap"),
    )

    def add(name: str, seconds: float, weights: np.ndarray) -> None:
        fields = weights @ problem.patterns.T / np.sqrt(n)
        sizes = [effective_size(-target.log_weight(fields).sum(axis=-1))]
        sides = weights @ np.random.default_rng(0).standard_normal((n, 8))
        sizes.append(min(effective_size(sides[..., j]) for j in range(8)))
        means = weights.mean(axis=1)
        overlap = (np.square(means.sum(axis=0)).sum() - np.square(means).sum()) / n / len(means) / (len(means) - 1)
        rates = [f"{size / seconds:,.0f}" for size in sizes]
        found.add(name, f"{seconds:.2f}", f"{len(weights)} x {weights.shape[1]}", *rates, f"{overlap:.3f}")

    ss.anneal(problem, 4, 10, n_extra=10, rng=0)
    seconds, samples = timed(lambda: ss.anneal(problem, 4, 100, n_extra=40 * draws, thin=1, rng=1, n_threads=1))
    add("ss.anneal", seconds, samples.by_chain().astype(float))
    with pymc.Model():
        codes = pymc.Categorical("codes", p=np.ones(3) / 3, shape=n)
        fields = pt.dot(problem.patterns.astype(float), codes - 1.0) / np.sqrt(n)
        pymc.Potential("likelihood", -pt.sum(pt.softplus(-2.0 * fields)))
        step = pymc.CategoricalGibbsMetropolis([codes])
        options = {"chains": 2, "cores": 1, "step": step, "progressbar": False, "compute_convergence_checks": False}
        pymc.sample(2, tune=2, random_seed=1, **options)
        seconds, trace = timed(lambda: pymc.sample(draws, tune=draws // 4, random_seed=2, **options))
    add("PyMC, CategoricalGibbsMetropolis", seconds, trace.posterior["codes"].values - 1.0)
    return found
