"""Are localized samples fair? In the paper's settings: ``python -m benchmarks.asl_fair [--size quick|full]``.

Required: stabilities within the noise of P(s); overlaps of two samples at theory's r within errors (at α = 80 on the
sphere, close to the dAT line, a bias under 0.03); |m|²/n within 1% of q(t) at every time.

An instance has an overlap of its own. It scatters about r by some 1/√n, and by much more near the dAT line, so overlaps are
given twice: against r, with the error of the mean over instances, and against the |m|²/n that AMP finds for the same
instance at t = 0, where that scatter drops out. `ks` is the mean distance of one sample's stabilities from P(s), beside
the size of pure noise; `pooled`, that of all samples of all instances together.

Below each setting, the path: |m|²/n over q(t), minus 1, in percent, with the error of the mean over instances.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import solspace as ss
from solspace.diagnostics.theory import KS_NOISE, dithered
from solspace.numerics.streams import generator

SPHERE, BINARY = ss.Target("spherical", "uniform", margin=-2.1), ss.Target("binary", "log", 0.5)
TIMES = np.array([0, 0.1, 0.2, 0.5, 1, 2, 3, 5, 10, 20])


class Case(NamedTuple):
    target: ss.Target
    n: int
    alpha: float
    instances: int
    samples: int
    method: str = "auto"


CASES = {
    "quick": [
        Case(BINARY, 5000, 0.3, 4, 8),
        Case(SPHERE, 1001, 5, 4, 8),
        Case(SPHERE, 1001, 20, 2, 8),
    ],
    "full": [
        Case(BINARY, 5000, 0.3, 16, 16),
        Case(SPHERE, 1001, 5, 32, 16),
        Case(SPHERE, 1001, 20, 16, 16),
        Case(SPHERE, 1001, 80, 8, 16, "fast"),
        Case(SPHERE, 1001, 80, 8, 16),
    ],
}


class Found(NamedTuple):
    overlap: float
    start: float
    ks: float
    path: Any
    stabilities: Any
    solved: int
    iterations: float


def measure(case: Case, prediction: Any, i: int) -> Found:
    """Return what one instance gives."""
    problem = ss.Perceptron.random(case.n, case.alpha, case.target, rng=generator(23, i))
    samples = ss.localize(problem, case.samples, rng=i, progress=False, accuracy=case.method)
    stabilities = np.sort(dithered(samples.stabilities, case.n), axis=1)
    distance = np.mean([ks(row, prediction) for row in stabilities])
    t, q = samples.info["t"], samples.info["overlap"]
    path = []
    for j in range(case.samples):
        there = np.isfinite(q[:, j])
        # their ratio hardly changes from step to step, so it can be interpolated
        ratio = q[there, j] / prediction.overlap_at(t[there, j])
        path.append(np.interp(np.log1p(TIMES), np.log1p(t[there, j]), ratio))
    iterations = samples.info["iterations"].sum() / case.samples
    start = float(q[0, 0])
    return Found(
        samples.overlaps().mean(), start, distance, np.mean(path, axis=0), stabilities.ravel(),
        int(samples.solved.sum()), iterations,
    )  # fmt: skip


def ks(ordered: Any, prediction: Any) -> float:
    cdf, steps = np.asarray(prediction.stability_cdf(ordered)), np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def mean(values: Any) -> tuple[float, float]:
    """Return the mean over instances and its standard error."""
    values = np.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))


def report(case: Case) -> None:
    prediction, r = ss.predict(case.target, case.alpha), ss.predict(case.target, case.alpha).overlap
    start = time.process_time()
    found = []
    for i in range(case.instances):
        found.append(measure(case, prediction, i))
        print(
            f"    instance {i + 1}/{case.instances}: overlap {found[-1].overlap:.4f}, |m|² {found[-1].start:.4f}",
            flush=True,
        )
    spent = (time.process_time() - start) / case.instances / case.samples
    m = round(case.alpha * case.n)
    pooled = np.sort(np.concatenate([f.stabilities for f in found]))
    total = case.instances * case.samples
    print(
        f"{case.target.prior}, N = {case.n}, α = {case.alpha}, {case.method}: {case.instances} instances × {case.samples}\n"
        f"  solved {sum(f.solved for f in found)}/{total}, "
        f"{np.mean([f.iterations for f in found]):.0f} iterations and {spent:.2f} CPU s a sample"
    )
    single, noise = mean([f.ks for f in found]), KS_NOISE / np.sqrt(m)
    print(
        f"  ks {single[0]:.4f} ± {single[1]:.4f} (noise {noise:.4f}); pooled {ks(pooled, prediction):.4f} "
        f"(noise of independent instances {noise / np.sqrt(case.instances):.4f})"
    )
    rows = {
        "overlap of two samples": ([f.overlap for f in found], r),
        "|m|²/n of AMP at t = 0": ([f.start for f in found], r),
        "overlap minus that of the instance": ([f.overlap - f.start for f in found], 0.0),
    }
    for name, (values, expected) in rows.items():
        value, error = mean(values)
        print(f"  {name:<36}{value:9.4f} ± {error:.4f}   (theory {expected:.4f}, {(value - expected) / error:+.1f} σ)")
    path = np.array([f.path for f in found]) - 1
    cells = [f"t={t:g}: {100 * a:+.2f} ± {100 * b:.2f}" for t, (a, b) in zip(TIMES, map(mean, path.T))]
    print("  path, %: " + "  ".join(cells), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(CASES), default="quick")
    parser.add_argument("--only", nargs="+", type=int, help="settings by their place in the list, from 0")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for place, case in enumerate(CASES[options.size]):
        if options.only is None or place in options.only:
            report(case)


if __name__ == "__main__":
    main()
