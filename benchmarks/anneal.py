"""Annealed Metropolis against NumPy, across sizes and cores, and beside other solvers.

    python benchmarks/anneal.py [speed] [portable] [scaling] [cores] [success] [peers]

`speed` runs NumPy (contiguous columns; as one writes it, and tuned with in-place buffers) and `solspace.anneal` on the
same problem in the same process, over a whole τ-schedule on one core, and prints nanoseconds per (proposal ×
constraint) and their ratios. `portable` repeats it with
Numba told to use nothing beyond AVX2. `peers` needs `pip install dwave-samplers highspy`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import solspace as ss


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


def clock(function, *arguments, repeats=3, timer=time.process_time, **options):
    """Return the best time of a call in seconds: processor time unless told otherwise, as other work may go on."""
    times = []
    for _ in range(repeats):
        start = timer()
        function(*arguments, **options)
        times.append(timer() - start)
    return min(times)


def speed(sizes=((1001, 101, "binary"), (10001, 11, "binary"), (10001, 11, "gaussian")), chains=16):
    print("     N  patterns sweeps  NumPy ns  tuned ns  solspace ns  ratio  to tuned  solved")
    for n, sweeps, patterns in sizes:
        problem = ss.Perceptron.random(n, 0.5, patterns=patterns, rng=0)
        work = n * problem.m * sweeps * 1e-9
        plain, tuned = (clock(f, problem, sweeps, repeats=2) / work for f in (plain_anneal, tuned_anneal))
        ss.anneal(problem, 1, 2, rng=0, n_threads=1)
        samples = ss.anneal(problem, chains, sweeps, rng=0, n_threads=1)
        fast = clock(ss.anneal, problem, chains, sweeps, rng=0, n_threads=1, repeats=5) / work / chains
        print(
            f"{n:6} {patterns:>9} {sweeps:6} {plain:9.1f} {tuned:9.1f} {fast:12.4f} {plain / fast:6.0f} "
            f"{tuned / fast:9.0f} {samples.solved.mean():7.2f}",
            flush=True,
        )


def portable():
    print("Numba restricted to AVX2:")
    features = (
        "+avx,+avx2,+bmi,+bmi2,+cmov,+cx16,+f16c,+fma,+lzcnt,+movbe,+popcnt,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3"
    )
    environment = {**os.environ, "NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": features}
    subprocess.run([sys.executable, __file__, "speed"], env=environment, check=True)


def scaling(sizes=(1001, 2001, 5001, 10001, 20001)):
    """Cost per sweep grows as N·M: nanoseconds per element at one acceptance rate, from a chain at its final stage."""
    print(f"{'N':>6} {'M':>6} {'ms/sweep':>9} {'ns/element':>10} {'acceptance':>10}")
    for n in sizes:
        problem = ss.Perceptron.random(n, 0.3, rng=0)
        sweeps = max(3, int(2e9 / (n * problem.m * 4)))
        samples = ss.anneal(problem, 4, sweeps, rng=0, n_threads=1)
        per_sweep = clock(ss.anneal, problem, 4, sweeps, rng=0, n_threads=1) / sweeps / 4
        print(
            f"{n:6} {problem.m:6} {1e3 * per_sweep:9.3f} {1e9 * per_sweep / n / problem.m:10.4f} "
            f"{samples.info['acceptance'].mean():10.3f}",
            flush=True,
        )


def _seconds(n, patterns, sweeps, n_threads):
    """Return the best wall time of 16 chains on `n_threads` threads."""
    problem = ss.Perceptron.random(n, 0.5, patterns=patterns, rng=0)
    ss.anneal(problem, 2, 2, rng=0)
    return clock(ss.anneal, problem, 16, sweeps, rng=0, n_threads=n_threads, repeats=5, timer=time.perf_counter)


def cores():
    """Two threads against one, beside what the machine itself gives: two processes that know nothing of each other."""
    print(f"{'N':>6} {'patterns':>9} {'1 thread s':>10} {'2 threads s':>11} {'gain':>5} {'2 processes':>11}")
    for case in ((1001, "binary", 1001), (10001, "binary", 50), (5001, "gaussian", 50)):
        one, two = (_seconds(*case, threads) for threads in (1, 2))
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
            apart = list(pool.map(_seconds, *zip((*case, 1), (*case, 1))))
        gain, limit = one / two, 2 * one / np.mean(apart)
        print(f"{case[0]:6} {case[1]:>9} {one:10.2f} {two:11.2f} {gain:5.2f} {limit:11.2f}", flush=True)


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


def peers(instances=5, limit=60.0):
    """Time to a solution of N = 1001 instances: τ-annealing, quadratic annealing, integer programming."""
    print(f"{'alpha':>5} {'solver':>34} {'solved':>7} {'median s':>9}")
    for alpha in (0.3, 0.5):
        problems = [ss.Perceptron.random(1001, alpha, rng=i) for i in range(instances)]
        for name, solver in (
            ("solspace tau, 100 sweeps, 1 core", tau_solver),
            ("dwave-samplers, (s - 1)^2, 1000 sweeps", dwave_solver),
            (f"HiGHS, {limit:.0f} s limit", lambda problem: highs_solver(problem, limit)),
        ):
            try:
                solver(ss.Perceptron.random(51, 0.2, rng=0))
            except ImportError as error:
                print(f"{alpha:5} {name:>34} not installed ({error.name})")
                continue
            times, solved = [], []
            for problem in problems:
                start = time.process_time()
                weights = solver(problem)
                times.append(time.process_time() - start)
                solved.append(weights is not None and bool(problem.is_solution(weights)))
            print(f"{alpha:5} {name:>34} {sum(solved):4}/{instances} {np.median(times):9.3f}", flush=True)


def tau_solver(problem):
    return ss.anneal(problem, 1, 100, mode="solve", rng=0, n_threads=1).weights[0]


def dwave_solver(problem):
    from dwave.samplers import SimulatedAnnealingSampler

    patterns = problem.patterns.astype(float)
    couplings = np.triu(2 * patterns.T @ patterns / problem.n, 1)
    rows, columns = np.nonzero(couplings)
    fields = -2 * patterns.sum(axis=0) / np.sqrt(problem.n)
    pairs = dict(zip(zip(rows.tolist(), columns.tolist()), couplings[rows, columns].tolist()))
    found = SimulatedAnnealingSampler().sample_ising(dict(enumerate(fields.tolist())), pairs, num_sweeps=1000, seed=0)
    return np.array([found.first.sample[i] for i in range(problem.n)])


def highs_solver(problem, limit):
    import highspy

    model = highspy.Highs()
    model.silent()
    model.setOptionValue("time_limit", limit)
    model.setOptionValue("threads", 1)
    n, m = problem.n, problem.m
    patterns = problem.patterns.astype(float)
    # w = 2 b - 1: Σ x w >= 1 (n odd) becomes Σ x b >= (1 + Σ x)/2
    program = highspy.HighsLp()
    program.num_col_, program.num_row_ = n, m
    program.col_cost_, program.col_lower_, program.col_upper_ = np.zeros(n), np.zeros(n), np.ones(n)
    program.row_lower_ = (1 + patterns.sum(axis=1)) / 2
    program.row_upper_ = np.full(m, highspy.kHighsInf)
    program.integrality_ = [highspy.HighsVarType.kInteger] * n
    program.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    program.a_matrix_.start_ = np.arange(m + 1) * n
    program.a_matrix_.index_ = np.tile(np.arange(n), m)
    program.a_matrix_.value_ = patterns.ravel()
    model.passModel(program)
    model.run()
    if model.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    return np.where(np.array(model.getSolution().col_value) > 0.5, 1, -1)


if __name__ == "__main__":
    parts = {f.__name__: f for f in (speed, portable, scaling, cores, success, peers)}
    for name in sys.argv[1:] or parts:
        print(f"\n{name}")
        parts[name]()
