"""How far localization reaches: ``python -m benchmarks.asl_success [--size quick|full]``.

±1 weights, log potential, T = 0.5, `ss.localize` as it comes. A row is a size and a load: how many samples meet all
constraints, with the binomial error; what is required of ±1 patterns; AMP iterations and processor time a sample; calls of
message passing that did not converge; samples that `auto` slowed down; the largest instability λ on the way, beside the
largest of theory; and the overlap of two samples of an instance beside r. Below it, λ where a fraction 1 - q of the weights
is open, as measured on the way and as theory has it: message passing converges where it is below 1, so that λ and the
unconverged calls, not the solved samples, measure the threshold.

Rows come as they are done. `quick` takes minutes; `full` some hours on one core, most of them at N = 10001. `--method`,
`--step` and `--no-finish` try other settings on the same instances.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import solspace as ss
from solspace.numerics.streams import generator


class Case(NamedTuple):
    n: int
    alpha: float
    instances: int
    samples: int
    need: float | None


SMALL = [(0.3, 1.0), (0.4, 1.0), (0.5, 0.99), (0.55, 0.97), (0.6, 0.93)]
CASES = {
    "quick": [Case(1001, alpha, 10, 4, need) for alpha, need in SMALL],
    "full": [
        *[Case(1001, alpha, 50, 4, need) for alpha, need in SMALL],
        Case(2001, 0.6, 50, 4, 0.95),
        Case(10001, 0.64, 1, 32, 30 / 32),
        Case(10001, 0.66, 1, 32, 26 / 32),
    ],
}
OPEN = np.array([0.3, 0.2, 0.1, 0.05, 0.03, 0.02, 0.01, 0.003])
"""1 - q at which λ is compared with theory."""
HEAD = (
    "     N  patterns  alpha   solved           rate    need  iterations  CPU s  unconverged  careful"
    "   largest λ (theory)     overlap (r)"
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=list(CASES), default="quick")
    parser.add_argument("--patterns", nargs="+", default=["binary", "gaussian"])
    parser.add_argument("--sizes", nargs="+", type=int, help="only these N")
    parser.add_argument("--loads", nargs="+", type=float, help="only these alpha")
    parser.add_argument("--instances", type=int, help="instead of the table's own number")
    parser.add_argument("--method", default="auto")
    parser.add_argument("--step", type=float)
    parser.add_argument(
        "--no-finish", action="store_true", help="go to the end, without the sweeps that end a run sooner"
    )
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for patterns in options.patterns:  # compiles
        sample(Case(101, 0.2, 1, 4, None), patterns, 0, 0)
    print(HEAD, flush=True)
    for patterns in options.patterns:
        for case in CASES[options.size]:
            if case.n not in (options.sizes or [case.n]) or case.alpha not in (options.loads or [case.alpha]):
                continue
            if options.instances is not None:
                case = case._replace(instances=options.instances)
            finish = 0 if options.no_finish else "auto"
            report(case, patterns, options.seed, accuracy=options.method, step=options.step, finish=finish)


def report(case: Case, patterns: str, seed: int, **settings: Any) -> None:
    """Print the rows of one case."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runs = [sample(case, patterns, seed, i, **settings) for i in range(case.instances)]
    spent = time.process_time() - start
    prediction = ss.predict(ss.Target(), case.alpha)
    total = case.instances * case.samples
    solved = sum(int(run.solved.sum()) for run in runs)
    rate = solved / total
    error = np.sqrt(max(rate * (1 - rate), 1 / total) / total)
    iterations = sum(run.info["iterations"].sum() for run in runs) / total
    missed = np.mean([1 - run.info["converged"].mean() for run in runs])
    careful = np.mean([run.info["careful"].mean() for run in runs])
    peak = np.concatenate([np.nanmax(run.info["instability"], axis=0) for run in runs])
    q = 1 - np.geomspace(1 - prediction.overlap, 1e-5, 200)
    overlap = np.mean([run.overlaps().mean() for run in runs])
    need = "" if case.need is None or patterns != "binary" else f"{case.need:.2f}"
    verdict = "" if not need or rate >= case.need - 1e-9 else "  MISSED"
    print(
        f"{case.n:6}  {patterns:8}  {case.alpha:5}  {solved:3}/{total:3}  {rate:.3f} ± {error:.3f}  {need:>6}"
        f"  {iterations:10.0f}  {spent / total:5.2f}  {missed:10.1%}  {careful:7.1%}"
        f"   {peak.mean():.2f} ({prediction.instability_at(q).max():.2f})"
        f"          {overlap:.4f} ({prediction.overlap:.4f}){verdict}",
        flush=True,
    )
    there = OPEN[prediction.overlap < 1 - OPEN]
    met = along(runs, there)
    cells = [f"{o:g}: {x:.2f} ({y:.2f})" for o, x, y in zip(there, met, prediction.instability_at(1 - there))]
    print("        λ at 1 - q (theory) " + "  ".join(cells), flush=True)


def sample(case: Case, patterns: str, seed: int, i: int, **settings: Any) -> ss.Samples:
    problem = ss.Perceptron.random(case.n, case.alpha, patterns=patterns, rng=generator(seed, i))
    return ss.localize(problem, case.samples, rng=i, progress=False, **settings)


def along(runs: list[ss.Samples], levels: Any) -> Any:
    """Return the mean λ of all samples where 1 - |m|²/n passes each of `levels`."""
    found = []
    for run in runs:
        for q, rate in zip(run.info["overlap"].T, run.info["instability"].T):
            known = np.isfinite(q) & np.isfinite(rate)
            depth = -np.log(np.maximum(1 - q[known], 1e-9))
            found.append(np.interp(-np.log(levels), np.maximum.accumulate(depth), rate[known]))
    return np.mean(found, axis=0)


if __name__ == "__main__":
    main()
