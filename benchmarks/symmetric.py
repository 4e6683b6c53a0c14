"""How far the symmetric perceptron is sampled: ``python -m benchmarks.symmetric --part PART [--device gpu]``.

Constraints abs(s) <= 1, ±1 weights and patterns, U = -log(1 - s²). Parts:

* `localize-1001`, `localize-10001`: `ss.localize` as it comes against the load, T = 0.5 and 0.7, 50 instances of one sample
  each: samples inside the band, calls of message passing that did not converge, and the largest instability λ beside
  theory's;
* `tau-1001`, `tau-10001`: τ-annealing at T = 0.5 and 0.7 with 10, 100, 1000 and N sweeps (N = 10001: up to 1000);
* `fair`: one instance a load, N = 2001, 32 samples by localization and 32 by τ-annealing: overlap² of two samples beside
  1/(N (1 - λ(0))), and the distance of stabilities from P(s);
* `accuracy`: E s² over 16 samples of each instance at T = 0.7, by localization on several terms and by τ-annealing, beside
  theory's; τ-annealing is good for the true value at loads where it mixes;
* `rates`: how many constraints single runs of `solve`'s reinforced message passing leave unmet, by the rate of the feedback
  (one instance a point, 8 runs; N such that abs(s) <= 1 is exactly as wide for ±1 patterns).

A line of JSON for each point, as it is done, and what was asked for first; `--instances`, `--loads`, `--n` make it smaller.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.packed import PackedPerceptron
from solspace.samplers.solving.cpu import CpuRuns
from solspace.samplers.solving.reinforce import BURST, DECIDED, LATE

TEMPERATURES = (0.5, 0.7)
LOADS = {0.5: (0.8, 0.9, 0.95, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5), 0.7: (0.9, 1.0, 1.1, 1.15, 1.2, 1.3, 1.4, 1.5, 1.6)}
"""Up to and past the thresholds 0.956 and 1.139; at N = 10001 the first six of each."""
FAIR = (0.5, 0.8, 0.9)


def target(temperature: float) -> ss.Target:
    return ss.Target(potential="log_band(1)", temperature=temperature)


def problems(n: int, alpha: float, temperature: float, count: int) -> list[ss.Perceptron]:
    m = round(alpha * n)
    return [PackedPerceptron(n, m, target(temperature), rng=generator(1, i)) for i in range(count)]


def localized(n: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the success of localization, a point at a time."""
    for temperature, alpha in points(given):
        runs = ss.localize(
            problems(n, alpha, temperature, given.instances), 1, rng=range(given.instances), device=given.device,
            progress=False,
        )  # fmt: skip
        peaks = [float(np.nanmax(run.info["instability"])) for run in runs]
        prediction = ss.predict(target(temperature), alpha)
        yield {
            "n": n, "temperature": temperature, "alpha": alpha, "instances": len(runs),
            "solved": sum(int(run.solved.all()) for run in runs),
            "unconverged": float(np.mean([1 - np.mean(run.info["converged"]) for run in runs])),
            "iterations": float(np.mean([np.sum(run.info["iterations"]) for run in runs])),
            "instability": float(np.median(peaks)),
            "instability_theory": float(prediction.instability_at(np.linspace(0, 0.999, 400)).max()),
        }  # fmt: skip


def annealed(n: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the success of τ-annealing, a point at a time."""
    for sweeps in (10, 100, 1000, n) if n <= 2001 else (10, 100, 1000):
        for temperature, alpha in points(given):
            runs = ss.anneal(
                problems(n, alpha, temperature, given.instances), 1, sweeps, rng=range(given.instances),
                device=given.device, progress=False,
            )  # fmt: skip
            yield {
                "n": n, "temperature": temperature, "alpha": alpha, "sweeps": sweeps, "instances": len(runs),
                "solved": sum(int(run.solved.all()) for run in runs),
            }  # fmt: skip


def fair(n: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield what theory says of samples of one instance, by both samplers."""
    for alpha in given.loads or FAIR:
        problem = ss.Perceptron.random(n, alpha, target(0.7), rng=generator(2, 0))
        prediction = ss.predict(problem.target, problem.alpha)
        samplers: dict[str, Callable[[], ss.Samples]] = {
            "asl": lambda p=problem: ss.localize(p, 32, rng=3, device=given.device, progress=False),
            "tau": lambda p=problem: ss.anneal(p, 32, 2000, rng=3, device=given.device, progress=False),
        }
        for name, draw in samplers.items():
            samples = draw()
            report = ss.diagnose(samples, prediction)
            square = report.overlap_square
            yield {
                "n": n, "alpha": alpha, "sampler": name, "solved": int(samples.solved.sum()), "samples": len(samples),
                "overlap_square": None if square is None else [square.value, square.error, square.theory],
                "ks": None if report.ks_pooled is None else [report.ks_pooled.value, report.ks_pooled.noise],
                "verdict": report.verdict,
            }  # fmt: skip


TERMS: dict[str, dict[str, Any]] = {
    "localize": {},
    "localize, tolerance 1e-3": {"tolerance": 1e-3},
    "localize, tolerance 1e-3, finish=0": {"tolerance": 1e-3, "finish": 0},
    "localize, careful, tolerance 1e-3, finish=0": {"tolerance": 1e-3, "finish": 0, "accuracy": "careful"},
    "tau, 300 sweeps": {"n_sweeps": 300},
    "tau, 3000 sweeps": {"n_sweeps": 3000},
}


def accuracy(n: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield E s² by each sampler, with its error over instances, beside theory's."""
    for alpha in given.loads or (0.5, 0.9):
        s = np.linspace(-1, 1, 4001)
        theory = float(np.trapezoid(s**2 * ss.predict(target(0.7), alpha).stability_density(s), s))
        for name, terms in TERMS.items():
            draw = ss.anneal if "n_sweeps" in terms else ss.localize
            found = []
            for i in range(given.instances):
                problem = ss.Perceptron.random(n, alpha, target(0.7), rng=generator(3, i))
                samples = draw(problem, 16, rng=i, device=given.device, progress=False, **terms)
                found.append(float((samples.stabilities**2).mean()))
            error = float(np.std(found, ddof=1) / np.sqrt(len(found))) if len(found) > 1 else None
            yield {
                "n": n,
                "alpha": alpha,
                "sampler": name,
                "square": float(np.mean(found)),
                "error": error,
                "theory": theory,
            }


def rates(n: int, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the least number of unmet constraints that runs at one rate come to."""
    for alpha in given.loads or (1.5, 1.55, 1.6):
        problem = ss.Perceptron.random(n, alpha, ss.Target(potential="band(1)"), rng=generator(4, 0))
        for rate in (1e-3, 5e-4, 2.5e-4):
            runs = CpuRuns(problem, 8, np.random.SeedSequence(5), full=False)
            runs.start(0.0)
            unmet = np.full(8, problem.m)
            for first in range(1, int(0.9 / rate) + LATE, BURST):
                steps = np.arange(first, first + BURST)
                shares = np.minimum(0.1 + rate * steps, 1.0)
                runs.advance(steps, shares, 0.1 * (1 - shares))
                if runs.overlaps().max() > DECIDED:
                    unmet = np.minimum(unmet, runs.unmet())
                if not len(runs.moving()) or not unmet.any():
                    break
            yield {
                "n": n,
                "alpha": alpha,
                "rate": rate,
                "unmet": float(unmet.mean()),
                "solved": int((unmet == 0).sum()),
            }


PARTS = {
    "localize-1001": (localized, 1001), "localize-10001": (localized, 10001), "tau-1001": (annealed, 1001),
    "tau-10001": (annealed, 10001), "fair": (fair, 2001), "accuracy": (accuracy, 1001), "rates": (rates, 1937),
}  # fmt: skip


def points(given: argparse.Namespace) -> list[tuple[float, float]]:
    """Return temperatures and loads."""
    heats = given.temperatures or TEMPERATURES
    most = 6 if given.part.endswith("10001") else None
    return [(heat, alpha) for heat in heats for alpha in given.loads or LOADS.get(heat, LOADS[0.7])[:most]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=list(PARTS), required=True)
    parser.add_argument("--device", default="cpu", choices=["cpu", "gpu", "auto"])
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--temperatures", type=float, nargs="+", help="instead of 0.5 and 0.7")
    parser.add_argument("--loads", type=float, nargs="+", help="instead of the table's own")
    parser.add_argument("--n", type=int, help="instead of the part's own number of weights")
    given = parser.parse_args()
    rule, n = PARTS[given.part]
    print(json.dumps({"part": given.part} | vars(given)), flush=True)
    begun = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # missed constraints are what is counted
        for point in rule(given.n or n, given):
            print(json.dumps(point | {"seconds": round(time.perf_counter() - begun, 1)}), flush=True)


if __name__ == "__main__":
    main()
