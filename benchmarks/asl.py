"""Cost of localization, one core: ``python -m benchmarks.asl [iteration] [single] [sample] [channel] [memory] [plain]``.

Requirements, ratios within one run:

* `iteration`: an AMP iteration at N = 5000, α = 0.3, float32, 64 samples: at least 70% of the rate of a large sgemm.
* `single`: one sample on ±1 patterns: at most 0.45 of the time of two float32 matrix-vector products.
* `sample`: end to end at N = 5000, α = 0.3, 64 samples: at most 170 AMP iterations a sample.
* `channel`: sphere, α = 80, N = 1001, κ = -2.1: under 25% of the time in the channel.
* `memory`: one copy of the patterns and O((m + n) K).
* `plain`: what one writes in an afternoon with NumPy and SciPy (`algorithm_1`, `euler`), on the same instance.

Times are processor times of this process, one thread, medians of interleaved rounds: the machine may be shared.
"""

from __future__ import annotations

import os
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

if __name__ == "__main__":  # before NumPy reads them; who imports this has set them, or wants no change
    for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[_name] = "1"

import numpy as np
from scipy.special import erfcx, ndtr

import solspace as ss
from solspace.samplers.kernels import amp as cpu
from solspace.samplers.marginals.messages import Messages

SPHERE = ss.Target("spherical", "uniform", margin=-2.1)


def seconds(call: Callable[[], Any]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def medians(calls: dict[str, Callable[[], Any]], rounds: int = 15) -> dict[str, float]:
    """Median seconds of each call, taken in turns after a warm-up."""
    for call in calls.values():
        call(), call()
    times = [[seconds(call) for call in calls.values()] for _ in range(rounds)]
    return dict(zip(calls, np.median(times, axis=0)))


def row(what: str, value: str, need: str = "", met: bool = True) -> None:
    print(f"  {what:<58}{value:>12}   {need}{'' if met else '  MISSED'}", flush=True)


def messages_of(problem: ss.Perceptron, k: int, dtype: str = "float32", **options: Any) -> Callable[[], Any]:
    """Return an iteration of `k` samples at a field typical of t = 1, and nothing converges on the way."""
    messages = Messages(problem, k, dtype, **options)
    rng = np.random.default_rng(0)
    messages.field[:, :k], messages.time[...] = rng.standard_normal((problem.n, k)), 1.0
    weight = np.ones(k)
    return lambda: messages.iterate(weight)


def iteration() -> None:
    for patterns, n, alpha, k, full in (
        ("binary", 5000, 0.3, 64, False),
        ("binary", 5000, 0.3, 16, False),
        ("binary", 5000, 0.3, 4, False),
        ("gaussian", 5000, 0.3, 64, False),
        ("gaussian", 5000, 0.3, 64, True),
    ):
        problem = ss.Perceptron.random(n, alpha, patterns=patterns, rng=0)
        rng = np.random.default_rng(0)
        square = rng.standard_normal((2, 1536, 1536)).astype(np.float32)
        x = problem.patterns.astype(np.float32)
        columns, rows = (rng.standard_normal((size, k)).astype(np.float32) for size in x.shape[::-1])
        found = medians(
            {
                "square": lambda square=square: square[0] @ square[1],
                "pair": lambda x=x, a=columns, b=rows: (x @ a, x.T @ b),
                "iteration": messages_of(problem, k, full=full),
            }
        )
        flops = 4 * problem.m * n * k * (2 if full else 1)
        ceiling = 2 * 1536**3 / found["square"]
        share = flops / found["iteration"] / ceiling
        name = f"{patterns}, K = {k}, {'full' if full else 'scalar'} variances"
        row(f"{name}: ms a sample", f"{1e3 * found['iteration'] / k:.3f}")
        needed = patterns == "binary" and k == 64
        row(
            "  share of the rate of a 1536³ sgemm",
            f"{share:.0%}",
            "need 70%" if needed else "",
            share >= 0.7 or not needed,
        )
        row("  time over that of its two products in BLAS, float32", f"{found['iteration'] / found['pair']:.2f}")


def single() -> None:
    problem = ss.Perceptron.random(5000, 0.3, rng=0)
    x = problem.patterns.astype(np.float32)
    v, u = np.ones(problem.n, np.float32), np.ones(problem.m, np.float32)
    iterate = messages_of(problem, 1)
    # ten at a time, as they come in a run: each finds in the caches what the last one left there
    calls = {"pair": lambda: [(x @ v, x.T @ u) for _ in range(10)], "iteration": lambda: [iterate() for _ in range(10)]}
    found = {name: spent / 10 for name, spent in medians(calls, 31).items()}
    ratio = found["iteration"] / found["pair"]
    row("two float32 matrix-vector products, ms", f"{1e3 * found['pair']:.3f}")
    row("an iteration of one sample, ms", f"{1e3 * found['iteration']:.3f}")
    row("ratio", f"{ratio:.2f}", "need 0.45", ratio <= 0.45)


def sample(k: int = 64) -> None:
    problem = ss.Perceptron.random(5000, 0.3, rng=0)
    for method in ("auto", "careful"):
        ss.localize(problem, 4, rng=0, accuracy=method, progress=False)
        start = time.process_time()
        samples = ss.localize(problem, k, rng=1, accuracy=method, progress=False)
        spent = time.process_time() - start
        iterations = samples.info["iterations"].sum() / k
        row(f"{method}: solved", f"{samples.solved.sum()}/{k}")
        needed = method == "auto"
        row(
            "  AMP iterations a sample",
            f"{iterations:.0f}",
            "need 170" if needed else "",
            iterations <= 170 or not needed,
        )
        row("  ms a sample", f"{1e3 * spent / k:.1f}")
        row("  ms a sample and iteration", f"{1e3 * spent / k / iterations:.3f}")


def channel(count: int = 12) -> None:
    """Time every call of the channel during `count` iterations from a cold start, five times over."""
    for patterns, k, full in (("binary", 32, False), ("binary", 4, False), ("gaussian", 16, True)):
        problem = ss.Perceptron.random(1001, 80, SPHERE, patterns=patterns, rng=0)
        iterate, spent, given = messages_of(problem, k, full=full), [0.0], cpu.respond_into

        def timed(*arguments: Any, spent: list[float] = spent, given: Any = given) -> None:
            start = time.process_time()
            given(*arguments)
            spent[0] += time.process_time() - start

        iterate()
        shares, whole = [], 0.0
        cpu.respond_into = timed
        try:
            for _ in range(5):
                spent[0] = 0.0
                whole = seconds(lambda iterate=iterate: [iterate() for _ in range(count)])
                shares.append(spent[0] / whole)
        finally:
            cpu.respond_into = given
        share = float(np.median(shares))
        row(
            f"{patterns}, K = {k}, {'full' if full else 'scalar'} variances: share of the channel",
            f"{share:.0%}", "need 25%", share < 0.25,
        )  # fmt: skip
        row("  ms a sample and iteration", f"{1e3 * whole / count / k:.2f}")


def memory() -> None:
    """Arrays allocated beside the patterns at the peak of a run, at two numbers of samples: what grows with it, what not."""
    ss.localize(ss.Perceptron.random(201, 0.3, rng=0), 32, rng=0, progress=False)  # compiles
    for n, alpha, few, many in ((5000, 0.3, 32, 128), (10001, 0.6, 16, 64)):
        problem = ss.Perceptron.random(n, alpha, rng=0)
        small, large = (footprint(problem, k) for k in (few, many))
        column = (large - small) / (many - few)
        row(f"N = {n}, α = {alpha}: the patterns, MB", f"{problem.patterns.nbytes / 1e6:.1f}")
        row(
            "  arrays for every sample, MB",
            f"{column / 1e6:.2f}",
            f"{column / 4 / (problem.m + n):.1f} times m + n single floats",
        )
        row(
            "  and for all of them, MB",
            f"{(small - few * column) / 1e6:.1f}",
            "blocks of 32 MB that stabilities are made of",
        )


def footprint(problem: ss.Perceptron, k: int) -> int:
    """Return the bytes of arrays at the peak of a run, beyond those there before."""
    tracemalloc.start()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing is solved so early
        ss.localize(problem, k, rng=0, progress=False, final_time=1.0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def respond(omega: Any, v: Any) -> tuple[Any, Any]:
    """The channel of the log potential at T = 0.5, as its formula stands, scaled where x < 0."""
    x = omega / np.sqrt(v)
    left = x < 0
    low = np.where(left, erfcx(-x / np.sqrt(2)) / 2, ndtr(x))
    density = np.where(left, 1.0, np.exp(-x * x / 2)) / np.sqrt(2 * np.pi)
    rho = 2 * (x * low + density) / ((1 + x * x) * low + x * density)
    return rho / np.sqrt(v), (2 - rho * (rho + x)) / v


class Algorithm1:
    """AMP as the paper prints it: X and X² as matrices, a variance for every constraint and weight, float64."""

    def __init__(self, patterns: Any, k: int) -> None:
        self.x = patterns / np.sqrt(patterns.shape[1])
        self.x2 = self.x**2
        self.m, self.delta, self.g = np.zeros((self.x.shape[1], k)), np.ones((self.x.shape[1], k)), 0.0

    def iterate(self, field: Any) -> float:
        v = self.x2 @ self.delta
        omega = self.x @ self.m - v * self.g
        self.g, dg = respond(omega, v)
        a = -self.x2.T @ dg
        new = np.tanh(self.x.T @ self.g + a * self.m + field)
        change = np.mean((new - self.m) ** 2, axis=0)
        self.m, self.delta = new, np.maximum(1 - new**2, 1e-9)
        return float(np.max(change / np.mean(self.delta, axis=0)))


class Scalar(Algorithm1):
    """The same with averaged variances, in float32: half the products at half the cost."""

    def __init__(self, patterns: Any, k: int) -> None:
        self.x = (patterns / np.sqrt(patterns.shape[1])).astype(np.float32)
        self.m, self.v, self.g = np.zeros((self.x.shape[1], k), np.float32), np.ones(k, np.float32), np.float32(0)

    def iterate(self, field: Any) -> float:
        self.g, dg = respond(self.x @ self.m - self.v * self.g, self.v)
        a = -dg.sum(axis=0) / self.x.shape[1]
        new = np.tanh(self.x.T @ self.g + a * self.m + field)
        change = np.mean((new - self.m) ** 2, axis=0)
        self.m, self.v = new, np.maximum(1 - np.mean(new**2, axis=0), np.float32(1e-4))
        return float(np.max(change / self.v))


def euler(amp: Any, step: float = 0.05, final: float = 15.0, rng: int = 0) -> tuple[Any, int]:
    """Localization by Euler steps: h += m dt + √dt z, AMP from where it stood; the signs, and the iterations taken."""
    noise, field, count = np.random.default_rng(rng), np.zeros_like(amp.m), 0
    for _ in range(round(final / step)):
        for _ in range(50):
            count += 1
            if amp.iterate(field) < 1e-3:
                break
        field += amp.m * step + noise.standard_normal(field.shape, dtype=np.float32) * np.float32(np.sqrt(step))
    return np.sign(amp.m).T, count


def plain(k: int = 64) -> None:
    problem = ss.Perceptron.random(5000, 0.3, rng=0)
    field = np.random.default_rng(0).standard_normal((problem.n, k)).astype(np.float32)
    printed, scalar = Algorithm1(problem.patterns, k), Scalar(problem.patterns, k)
    calls = {
        "solspace": messages_of(problem, k),
        "scalar": lambda: scalar.iterate(field),
        "printed": lambda: printed.iterate(field),
    }
    found = medians(calls, 5)
    names = {"scalar": "NumPy, averaged variances, float32", "printed": "NumPy, Algorithm 1 as printed, float64"}
    row("solspace: ms a sample and iteration", f"{1e3 * found['solspace'] / k:.3f}")
    for name, words in names.items():
        row(words, f"{1e3 * found[name] / k:.3f}", f"{found[name] / found['solspace']:.1f} times solspace")
    start = time.process_time()
    samples = ss.localize(problem, k, rng=1, progress=False)
    own = time.process_time() - start
    start = time.process_time()
    weights, count = euler(Scalar(problem.patterns, k))
    other = time.process_time() - start
    solved = problem.is_solution(weights.astype(np.int8)).sum()
    iterations = samples.info["iterations"].sum() / k
    row(
        "solspace: ms a sample, end to end",
        f"{1e3 * own / k:.0f}",
        f"{iterations:.0f} iterations, solved {samples.solved.sum()}",
    )
    row(
        "NumPy, averaged, Euler steps of 0.05 to t = 15",
        f"{1e3 * other / k:.0f}",
        f"{count} iterations, solved {solved}; {other / own:.1f} times solspace",
    )


if __name__ == "__main__":
    parts = {f.__name__: f for f in (iteration, single, sample, channel, memory, plain)}
    for name in sys.argv[1:] or parts:
        print(f"\n{name}", flush=True)
        parts[name]()
