"""Message passing on planted problems beside theory, what levels cost AMP, and what calibration finds on images and a table.

python -m benchmarks amp-levels planted calibration
"""

from __future__ import annotations

import warnings

import numpy as np

import solspace as ss
from benchmarks.timing import Table, Times
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.samplers.marginals.messages import Messages

PRIORS = ("binary", "ternary", "levels(-3,-1,1,3)", "levels(-3,-2,-1,0,1,2,3)")
# q of the posterior at α = 0.5, 1, 2, from the saddle point of the Bayes-optimal posterior, by another program
OVERLAP = {
    "uniform": (0.2930890, 0.5607147, 1.0), "probit(0.5)": (0.2297381, 0.4224902, 0.7156608),
    "logistic(3)": (0.2137752, 0.3919592, 0.6632346), "flip(0.1)": (0.1838302, 0.3394015, 0.6039906),
}  # fmt: skip


def levels(n: int = 1001, alpha: float = 0.5, rounds: int = 15) -> Table:
    """Return the time of an iteration of AMP for each prior, all in turns."""
    found = Table(
        "AMP on levels",
        f"An iteration on one column, random ±1 patterns, N = {n}, α = {alpha:g}; the ratio is to ±1 weights.",
        ("columns", "precision", "weights", "time", "ratio"),
    )
    for k in (1, 16, 64):
        for dtype in ("float32", "float64"):
            runs = {}
            for prior in PRIORS:
                messages = Messages(ss.Perceptron.random(n, alpha, ss.Target(prior), rng=0), k, dtype)
                messages.field[:, :k] = np.random.default_rng(0).standard_normal((n, k))
                runs[prior] = lambda own=messages, k=k: own.iterate(np.ones(k))
            times = Times(runs, rounds)
            for prior in PRIORS:
                ratio = times[prior].median / times["binary"].median
                found.add(k, dtype, prior, times[prior].per(k), f"{ratio:.2f}")
    return found


def planted(n: int = 1001, instances: int = 20) -> Table:
    """Return the overlap of AMP's means with the teacher, and with themselves, beside theory."""
    found = Table(
        "AMP on planted problems",
        f"±1 weights, N = {n}, {instances} instances: means ± standard errors of the overlap of AMP's means with the teacher and "
        "with themselves, which theory says are equal.",
        ("likelihood", "α", "with the teacher", "with themselves", "theory"),
    )
    for potential, values in OVERLAP.items():
        for alpha, q in zip((0.5, 1.0, 2.0), values):
            seen = []
            for j in range(instances):
                problem = ss.Perceptron.planted(n, alpha, ss.Target(potential=potential), rng=generator(13, j))
                marginals = ss.amp(problem, precision="float32", tolerance=1e-7)
                seen.append((marginals.mean @ problem.teacher / n, marginals.overlap))
            mean, error = np.mean(seen, axis=0), np.std(seen, axis=0, ddof=1) / np.sqrt(instances)
            cells = (f"{value:.4f} ± {wide:.4f}" for value, wide in zip(mean, error))
            found.add(potential, alpha, *cells, f"{q:.4f}")
    return found


def calibration(quick: bool = False) -> Table:
    """Return what `calibrate` finds for AMP and EP; MNIST where it is at hand."""
    found = Table(
        "Calibration by planted teachers",
        "Overlap of two samples less that of teacher and sample, of `localize` with either denoiser.",
        ("patterns", "target", "denoiser", "problems", "difference", "verdict"),
    )
    for name, rows, target, seed, problems in _pools():
        for denoiser, count in problems.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                report = ss.calibrate(rows, target, denoiser, n_problems=10 if quick else count, rng=seed)
            verdict = f"{report.verdict.partition(':')[0]}, within {report.within:.2g}"
            found.add(name, target, denoiser, report.n_problems, report.overlap, verdict)
    return found


def _pools() -> list[tuple[str, Array, ss.Target, int, dict[str, int]]]:
    from sklearn.datasets import load_breast_cancer

    cells = load_breast_cancer().data
    cells = np.clip((cells - cells.mean(axis=0)) / cells.std(axis=0), -4, 4)[:300]
    each = {"ep": 30, "amp": 30}
    pools = [("breast cancer", cells, ss.Target(prior, "logistic(2)"), 5, each) for prior in ("binary", "ternary")]
    try:
        images, labels = ss.data.load("mnist", classes=(3, 8))
    except (OSError, ValueError, ImportError):
        return pools
    drawn = ss.Perceptron.from_data(images, labels, alpha=0.5, preprocess="centred", rng=0)
    return [*pools, ("MNIST, 3 and 8", drawn.patterns, ss.Target(potential="logistic(3)"), 7, {"ep": 8, "amp": 50})]
