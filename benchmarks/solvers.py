"""Time to one solution: solspace beside solvers that people use, on the same instances, all on one core.

    python -m benchmarks.solvers [--quick]

Each solver gets the patterns and nothing else, as its documentation shows it, with a time limit where it has one. What it
returns is rounded to ±1 weights and checked against the patterns: only that counts as solved. Times include building the
solver's own model. A solver that solves none of the instances of a size is not tried at higher loads. Needs
`pip install -e '.[bench]'`; what is not installed is left out.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import solspace as ss
from benchmarks.timing import Spread, Table, seconds, timed
from solspace.samplers.annealing.anneal import first_solutions

Solver = Callable[[ss.Perceptron, int, float], Any]
"""(problem, seed, limit in seconds) -> weights (n,), or None."""


def dwave(problem: ss.Perceptron, seed: int, limit: float) -> Any:
    """Simulated annealing of Σ (s - 1)², the quadratic energy that such samplers can take."""
    from dwave.samplers import SimulatedAnnealingSampler

    patterns = problem.patterns.astype(float)
    couplings = np.triu(2 * patterns.T @ patterns / problem.n, 1)
    rows, columns = np.nonzero(couplings)
    fields = -2 * patterns.sum(axis=0) / np.sqrt(problem.n)
    pairs = dict(zip(zip(rows.tolist(), columns.tolist()), couplings[rows, columns].tolist()))
    found = SimulatedAnnealingSampler().sample_ising(
        dict(enumerate(fields.tolist())), pairs, num_sweeps=1000, seed=seed
    )
    return np.array([found.first.sample[i] for i in range(problem.n)])


def highs(problem: ss.Perceptron, seed: int, limit: float) -> Any:
    """Mixed-integer feasibility by HiGHS, as SciPy has it (its own wheel cannot be loaded beside OR-tools)."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    rows, least = integer_program(problem)
    found = milp(
        np.zeros(problem.n),
        constraints=LinearConstraint(rows.astype(float), least),
        integrality=np.ones(problem.n),
        bounds=Bounds(0, 1),
        options={"time_limit": limit},
    )
    return None if found.x is None else np.where(found.x > 0.5, 1, -1)


def integer_program(problem: ss.Perceptron) -> tuple[Any, Any]:
    """Return A and c of A b >= c for bits b = (1 + w)/2: Σ x w >= l reads Σ x b >= (l + Σ x)/2, l of the parity of n."""
    rows = problem.patterns.astype(int)
    least = int(np.ceil(problem.target.margin * np.sqrt(problem.n) - 1e-9))
    least += (least - problem.n) % 2
    return rows, (least + rows.sum(axis=1)) // 2


def cp_sat(problem: ss.Perceptron, seed: int, limit: float) -> Any:
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    bits = [model.new_bool_var("") for _ in range(problem.n)]
    for row, least in zip(*integer_program(problem)):
        model.add(cp_model.LinearExpr.weighted_sum(bits, row.tolist()) >= int(least))
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = limit
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return None
    return np.array([2 * solver.value(bit) - 1 for bit in bits])


def rounded_regression(problem: ss.Perceptron, seed: int, limit: float) -> Any:
    """Return the signs of the weights of a logistic regression."""
    from sklearn.linear_model import LogisticRegression

    flips = np.where(np.random.default_rng(seed).random(problem.m) < 0.5, -1, 1)  # it wants two classes
    model = LogisticRegression(fit_intercept=False, max_iter=1000)
    return np.where(model.fit(problem.patterns * flips[:, None], flips).coef_[0] >= 0, 1, -1)


SOLVERS: dict[str, Solver] = {
    "`ss.solve`": lambda p, seed, limit: ss.solve(p, rng=seed, time_limit=limit, progress=False).weights[0],
    "τ-annealing, 100 sweeps": lambda p, seed, limit: first_solutions(p, 1, 100, rng=seed, n_threads=1).weights[0],
    "τ-annealing, N sweeps": lambda p, seed, limit: first_solutions(p, 1, p.n, rng=seed, n_threads=1).weights[0],
    "ASL (fair)": lambda p, seed, limit: ss.localize(p, 1, rng=seed, progress=False).weights[0],
    "HiGHS": highs,
    "CP-SAT": cp_sat,
    "dwave-samplers": dwave,
    "logistic regression, signs": rounded_regression,
}
EXACT = ("HiGHS", "CP-SAT")


def table(quick: bool = False) -> Table:
    """Return for each size and load how many instances each solver solves, and the median time of its attempts."""
    instances, limit = (2, 3.0) if quick else (5, 10.0)
    sizes, loads = (101, 1001) if quick else (101, 501, 1001), (0.3, 0.5) if quick else (0.3, 0.5, 0.65, 0.74)
    found = Table(
        "Time to one solution",
        f"Random ±1 patterns, κ = 0: solved of {instances} instances, and the median time of all attempts, which includes "
        f"building a model and ends after {limit:.0f} s where a solver has a limit. dwave-samplers: 1000 sweeps of Σ (s − 1)². "
        "–: not installed, or none was solved at a lower load.",
        ("N", "α", *SOLVERS),
    )
    for n in sizes:
        left = {name for name in SOLVERS if installed(name)}
        for alpha in loads:
            problems = [ss.Perceptron.random(n, alpha, rng=100 + i) for i in range(instances)]
            cells = {name: attempts(SOLVERS[name], problems, limit) for name in SOLVERS if name in left}
            left = {name for name, (solved, _) in cells.items() if solved}
            shown = {
                name: f"{solved}/{instances}, {Spread.of([spent.median])}" for name, (solved, spent) in cells.items()
            }
            found.add(n, alpha, *(shown.get(name, "–") for name in SOLVERS))
    return found


def installed(name: str) -> bool:
    """Return whether a solver works on a tiny problem: the optional ones may not be installed."""
    try:
        SOLVERS[name](ss.Perceptron.random(31, 0.2, rng=0), 0, 1.0)
    except ImportError:
        return False
    return True


def attempts(solver: Solver, problems: list[ss.Perceptron], limit: float) -> tuple[int, Spread]:
    """Return how many problems are solved, and the times of all attempts."""
    solved, times = 0, []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what is not solved is counted
        for seed, problem in enumerate(problems):
            spent, weights = timed(lambda p=problem, s=seed: solver(p, s, limit))
            times.append(spent)
            solved += weights is not None and bool(problem.is_solution(weights))
    return solved, Spread.of(times)


def proofs(quick: bool = False) -> Table:
    """Return how long it takes to prove that an instance has no solution: what samplers cannot do."""
    count, limit = (2, 10.0) if quick else (5, 20.0)
    found = Table(
        "Proofs that there is no solution",
        f"Of {count} instances past the capacity, at N = 19 known to have none by enumeration; {limit:.0f} s limit.",
        ("N", "α", "solspace, enumeration", *EXACT),
    )
    for n, alpha in ((19, 1.6), (31, 1.6)):
        drawn = (ss.Perceptron.random(n, alpha, rng=i) for i in range(200))
        empty = list(itertools.islice(filter(is_empty, drawn) if n <= 20 else drawn, count))
        listed = Spread.of([seconds(lambda p=p: is_empty(p)) for p in empty]) if n <= 20 else None
        cells = ["–" if listed is None else f"{count}/{count}, {listed}"]
        for name in EXACT:
            if not installed(name):
                cells.append("–")
                continue
            spent = [timed(lambda p=p, name=name: SOLVERS[name](p, 0, limit)) for p in empty]
            proved = sum(value is None and took < 0.9 * limit for took, value in spent)
            cells.append(f"{proved}/{count}, {Spread.of([took for took, _ in spent])}")
        found.add(n, alpha, *cells)
    return found


def is_empty(problem: ss.Perceptron) -> bool:
    """Return whether none of the 2^n weights is a solution."""
    try:
        problem.enumerate()
    except ValueError:
        return True
    return False


FRESH = {
    "solspace, τ-annealing": "ss.solve(p, method='tau', rng=0).weights[0]",
    "solspace, ASL": "ss.localize(p, 1, rng=0).weights[0]",
    "HiGHS": "solvers.highs(p, 0, 60)",
    "CP-SAT": "solvers.cp_sat(p, 0, 60)",
}


def fresh(quick: bool = False) -> Table:
    """Return the wall time of a whole process that solves one small instance."""
    found = Table(
        "A fresh process",
        "Wall time of a process that imports solspace, draws an instance (N = 101, α = 0.3) and solves it, with a warm cache of "
        "compiled code; and this time without the import.",
        ("solver", "process", "without import"),
    )
    start = "import solspace as ss; from benchmarks import solvers; p = ss.Perceptron.random(101, 0.3, rng=0); "
    there = {name: start + code for name, code in FRESH.items() if name not in SOLVERS or installed(name)}
    commands = {"(import alone)": start, **there}
    walls = {name: [wall_time(code) for _ in range(2 if quick else 5)] for name, code in commands.items()}
    base = float(np.median(walls["(import alone)"]))
    for name, times in walls.items():
        beyond = Spread.of(np.array(times) - base)
        found.add(name, Spread.of(times), "" if name.startswith("(") else f"{max(beyond.median, 0):.2f} s")
    return found


def wall_time(code: str) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    for part in (table, proofs, fresh):
        print(part("--quick" in sys.argv).markdown(), flush=True)
