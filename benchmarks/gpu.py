"""Annealing on a CUDA device: constraint evaluations a second (proposals × constraints) over whole τ-schedules.

    python benchmarks/gpu.py [--large]

Beside each figure stands its floor: the rate at which the multiprocessors could issue the instructions that no version
of the algorithm does without (±1 patterns: one mask and one dp2a for two constraints of a proposal, ten for two
constraints of a move; real-valued patterns: eighteen for an evaluation). `--large` solves N = 100,001 at α = 0.5.
"""

from __future__ import annotations

import statistics
import sys
import time

import numpy as np

import solspace as ss
from solspace.samplers.device import cupy
from solspace.samplers.gpu_anneal import anneal_many

TARGET = ss.Target(temperature=0.5)


def issue_rate() -> float:
    """Return lane-instructions a second of the whole device."""
    device = cupy().cuda.Device()
    return 128 * device.attributes["MultiProcessorCount"] * (device.attributes.get("ClockRate") or 1_980_000) * 1e3


def once(problems, n_chains, n_sweeps, seed):
    begun = time.perf_counter()
    samples = anneal_many(problems, n_chains, n_sweeps, rng=range(seed, seed + len(problems)), device="gpu")
    return samples, time.perf_counter() - begun


def measure(label, patterns, n, n_chains, n_sweeps, n_problems=1, alpha=0.5):
    problems = [
        ss.Perceptron.random(n=n, alpha=alpha, target=TARGET, patterns=patterns, rng=k) for k in range(n_problems)
    ]
    once(problems, n_chains, 1, 0)
    runs = [once(problems, n_chains, n_sweeps, seed) for seed in (0, 100, 200)]
    wall = statistics.median(samples[0].info["wall_time"] for samples, _ in runs)
    whole = statistics.median(seconds for _, seconds in runs)
    acceptance = float(np.mean([s.info["acceptance"].mean() for s in runs[0][0]]))
    solved = float(np.mean([s.solved.mean() for samples, _ in runs for s in samples]))
    evaluations = n_problems * n_chains * n_sweeps * n * float(problems[0].m)
    per_evaluation = 1 + 5 * acceptance if patterns == "binary" else 18
    floor = issue_rate() / per_evaluation
    print(
        f"{label:34s} {evaluations / wall:9.2e}/s (floor {floor:8.2e}) {wall:8.3f} s, {whole:7.3f} s with problems "
        f"sent and samples checked; acceptance {acceptance:.3f}, solved {solved:.4f}",
        flush=True,
    )


def large():
    begun = time.perf_counter()
    problem = ss.Perceptron.random(n=100_001, alpha=0.5, target=TARGET, rng=0)
    print(f"N = 100,001, α = 0.5 drawn in {time.perf_counter() - begun:.1f} s", flush=True)
    begun = time.perf_counter()
    samples = ss.anneal(problem, 132, 400, rng=1, mode="solve", device="gpu")
    taken = np.sort(samples.info["solved_at"][samples.solved])
    print(
        f"solved by {int(samples.solved.sum())} of 132 chains, first after {taken[:1] + 1} sweeps, median "
        f"{np.median(taken) + 1 if len(taken) else np.nan} of 400; {samples.info['wall_time']:.1f} s of annealing, "
        f"{time.perf_counter() - begun:.1f} s in all"
    )


if __name__ == "__main__":
    measure("±1, N = 1001, 4224 chains", "binary", 1001, 4224, 100)
    measure("±1, N = 1001, 8448 chains", "binary", 1001, 8448, 100)
    measure("±1, N = 10001, 1056 chains", "binary", 10001, 1056, 50)
    measure("±1, N = 1001, 100 problems × 1", "binary", 1001, 1, 1001, 100)
    measure("±1, N = 5001, 100 problems × 1", "binary", 5001, 1, 100, 100)
    measure("real, N = 1001, 4224 chains", "gaussian", 1001, 4224, 100)
    measure("real, N = 10001, 528 chains", "gaussian", 10001, 528, 10)
    if "--large" in sys.argv:
        large()
