"""Expectation propagation: its marginals and log Z against enumeration, and its time beside the matrix products it needs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
from scipy.linalg import blas, lapack

import solspace as ss
from benchmarks.timing import Table, Times
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.marginals.gaussian import Gaussian, Sites

KINDS = ("±1", "Gaussian", "rank 3 plus noise", "4×4 images")
TARGETS = {"β = 0": ss.Target(potential="uniform"), "β = 2": ss.Target(temperature=0.5)}
N = 16


def instance(kind: str, m: int, target: ss.Target, rng: np.random.Generator) -> ss.Perceptron:
    """Return a problem of 16 weights (15 for ±1 patterns, so that no stability is zero) and m constraints."""
    if kind == "±1":
        return ss.Perceptron(rng.choice([-1.0, 1.0], (m, N - 1)), target=target)
    if kind == "Gaussian":
        return ss.Perceptron(rng.standard_normal((m, N)), target=target)
    if kind == "rank 3 plus noise":
        rows = rng.standard_normal((m, 3)) @ rng.standard_normal((3, N)) + 0.5 * rng.standard_normal((m, N))
        return ss.Perceptron(rows * np.sqrt(N) / np.linalg.norm(rows, axis=1, keepdims=True), target=target)
    images, labels = ss.data.load("digits", classes=(3, 8))
    shrunk = images.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)).reshape(-1, N)
    return ss.Perceptron.from_data(shrunk, labels, m / N, target=target, rng=rng)


def errors(kind: str, m: int, target: ss.Target, instances: int) -> Iterator[tuple[float, float, bool]]:
    """Yield log Z's error, the marginals' rms error, and convergence, for instances that have solutions."""
    found, seed = 0, 0
    while found < instances:
        problem = instance(kind, m, target, generator(16, KINDS.index(kind), m, seed))
        seed += 1
        try:
            exact = problem.enumerate()
        except ValueError:  # no solution
            continue
        found += 1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # how many converged is a column
            made = ss.ep(problem)
        rms = np.sqrt(np.mean((made.mean - exact.marginals) ** 2))
        yield float(made.log_partition - exact.log_partition), float(rms), made.converged


def accuracy(quick: bool = False) -> Table:
    """Return medians of the errors against enumeration."""
    instances = 10 if quick else 30
    found = Table(
        "Expectation propagation against enumeration",
        f"n = {N} (15 for ±1 patterns), {instances} instances with solutions: medians of the error of log Z (in brackets its "
        "quartiles) and of the rms error of the marginals; how many converged.",
        ("patterns", "m", *(f"{what}, {name}" for name in TARGETS for what in ("log Z", "marginals", "converged"))),
    )
    for kind in KINDS:
        for m in (4, 8):
            cells: list[str] = []
            for target in TARGETS.values():
                z, rms, good = np.array(list(errors(kind, m, target, instances))).T
                low, median, high = np.nanpercentile(z, (25, 50, 75))
                cells += [f"{median:+.3f} ({low:+.3f}…{high:+.3f})", f"{np.median(rms):.3f}", f"{int(good.sum())}"]
            found.add(kind, m, *cells)
    return found


def speed(quick: bool = False) -> Table:
    """Return the time of the moments of 16 Gaussians at N = 784, M = 235, beside their BLAS-3 and LAPACK calls alone."""
    n, m, k = 784, 235, 16
    problem = ss.Perceptron.random(n, m / n, patterns="gaussian", rng=0)
    random = np.random.default_rng(0)
    sites = Sites(1 + random.random((k, n)), random.random((k, n)), random.random((k, m)) + 0.1, random.random((k, m)))
    law = Gaussian(problem)
    propagate = lambda: ss.ep(problem, np.zeros((k, n)))  # noqa: E731
    iterations = int(propagate().iterations.mean())
    times = Times(
        {"moments": lambda: law.moments(sites), "floor": lambda: _floor(law.matrix, k), "ep": propagate},
        3 if quick else 9,
    )
    found = Table(
        "Expectation propagation, N = 784, M = 235, 16 fields",
        "Double precision, an iteration and field; the floor is its calls of dsyrk, dpotrf, dtrsm and dtrtri alone.",
        ("what", "time", "rate/floor"),
    )
    floor = times["floor"].median
    found.add("BLAS-3 and LAPACK alone", times["floor"].per(k), "1")
    found.add("moments of the Gaussian", times["moments"].per(k), f"{floor / times['moments'].median:.2f}")
    each = times["ep"].per(k * iterations)
    found.add(f"a whole iteration (of {iterations})", each, f"{floor / k / each.median:.2f}")
    return found


def _floor(matrix: Array, k: int) -> None:
    for _ in range(k):
        w = matrix.copy()
        b = blas.dsyrk(1.0, w.T, trans=1, lower=1)
        b[np.diag_indices_from(b)] += 1
        lower, _info = lapack.dpotrf(b, lower=1, overwrite_a=1)
        blas.dtrsm(1.0, lower, w.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        lapack.dtrtri(lower, lower=1)
