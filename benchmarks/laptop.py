"""The kernels on processors without AVX-512, as far as this machine can play them: ``python -m benchmarks laptop``.

Numba compiles for the processor that is set. Each kind below runs in a process of its own, with a compilation cache of
its own, and BLAS has the same setting: a laptop with AVX2; registers of 128 bits with fused multiply-adds, which is what ARM's
NEON has; and any x86-64 at all, which lacks even those. A kind runs where the machine itself is at least that. Processes
take turns, and a figure is the median over rounds.

What this cannot play: another clock, other caches and memory, and the instructions that an ARM really has.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import solspace as ss
from benchmarks.asl import messages_of
from benchmarks.timing import Spread, Table, seconds

FUSED = "+avx,+cmov,+cx16,+f16c,+fma,+lzcnt,+popcnt,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3"
KINDS: dict[str, dict[str, str]] = {
    "this processor": {},
    "AVX2": {
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": f"{FUSED},+avx2,+bmi,+bmi2,+movbe",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "128 bits, fused": {
        "NUMBA_CPU_NAME": "ivybridge",
        "NUMBA_CPU_FEATURES": f"{FUSED},+prefer-128-bit",
        "OPENBLAS_CORETYPE": "Sandybridge",
    },
    "plain x86-64": {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "OPENBLAS_CORETYPE": "Prescott"},
}
"""What each kind of processor adds to the environment."""


def kinds() -> list[str]:
    """Return the kinds that this machine can play: itself, and those that have nothing which it lacks."""
    from llvmlite.binding import get_host_cpu_features

    here = {f"+{name}" for name, has in get_host_cpu_features().items() if has} | {"+prefer-128-bit", ""}
    fit = [name for name, variables in KINDS.items() if set(variables.get("NUMBA_CPU_FEATURES", "").split(",")) <= here]
    return fit if platform.machine().lower() in ("x86_64", "amd64") else fit[:1]


def _flips(patterns: str) -> tuple[Callable[[], Any], float]:
    problem, chains, sweeps = ss.Perceptron.random(1001, 0.5, patterns=patterns, rng=0), 16, 31
    call = lambda: ss.anneal(problem, chains, sweeps, rng=0, n_threads=1, progress=False)  # noqa: E731
    return call, problem.n * problem.m * chains * sweeps


def _iteration(patterns: str) -> tuple[Callable[[], Any], float]:
    problem, samples = ss.Perceptron.random(2001, 0.3, patterns=patterns, rng=0), 16
    return messages_of(problem, samples), problem.n * problem.m * samples


def _sample() -> tuple[Callable[[], Any], float]:
    problem, samples = ss.Perceptron.random(1001, 0.3, rng=0), 16
    return lambda: ss.localize(problem, samples, rng=0, progress=False), samples


WORK: dict[str, tuple[str, Callable[[], tuple[Callable[[], Any], float]]]] = {
    "annealing, ±1 patterns": ("a proposal and a constraint", lambda: _flips("binary")),
    "annealing, real patterns": ("a proposal and a constraint", lambda: _flips("gaussian")),
    "an iteration of AMP, ±1 patterns": ("a pattern's entry", lambda: _iteration("binary")),
    "an iteration of AMP, real patterns": ("a pattern's entry", lambda: _iteration("gaussian")),
    "localization, N = 1001": ("a sample", _sample),
}
"""What is timed, what its cost is counted for, and how it is made: a call, and how many of those are in it."""


class Measured(NamedTuple):
    """What a process tells of its kind of processor."""

    costs: dict[str, float]
    """Processor time of one of each kind of work, in seconds: the best of three calls that are warm."""
    chains: str
    """Digest of annealed weights on ±1 and on real patterns, which must not depend on the processor."""


def measure() -> Measured:
    """Return what this process measures."""
    costs, chains = {}, hashlib.sha256()
    for name, (_, make) in WORK.items():
        call, count = make()
        made = call()
        costs[name] = min(seconds(call) for _ in range(3)) / count
        if name.startswith("annealing"):
            chains.update(made.weights.tobytes())
    return Measured(costs, chains.hexdigest())


def _apart(environment: dict[str, str]) -> Measured:
    """Return what a process measures under the settings of another kind of processor."""
    variables = {**os.environ, **environment}
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.laptop"], env=variables, capture_output=True, text=True, check=True
    )
    return Measured(**json.loads(done.stdout))


def table(quick: bool = False) -> Table:
    """Return what the kernels cost on each kind of processor, and how many times that is what they cost here."""
    names = kinds()
    found = Table(
        "Without AVX-512",
        "Each kind of processor as set for Numba and BLAS, in processes that take turns on one core; ratios to the first "
        "column. Annealed weights are the same in all of them, bit for bit. τ-annealing at N = 1001, α = 0.5, 16 chains; AMP "
        "at N = 2001, α = 0.3, 16 samples at a time.",
        ("what", "time for", *names),
    )
    with tempfile.TemporaryDirectory() as folder:
        variables = {
            name: {**KINDS[name], "NUMBA_CACHE_DIR": os.path.join(folder, str(k))} for k, name in enumerate(names)
        }
        rounds = [{name: _apart(variables[name]) for name in names} for _ in range(1 if quick else 3)]
    if len({one.chains for measured in rounds for one in measured.values()}) > 1:
        raise RuntimeError("annealed weights are not the same on all kinds of processors.")
    for what, (unit, _) in WORK.items():
        times = {name: [one[name].costs[what] for one in rounds] for name in names}
        ratios = {name: np.median(np.divide(times[name], times[names[0]])) for name in names}
        others = [f"{Spread.of(times[name])} = {ratios[name]:.2g} times" for name in names[1:]]
        found.add(what, unit, Spread.of(times[names[0]]), *others)
    return found


if __name__ == "__main__":
    print(json.dumps(measure()._asdict()))
