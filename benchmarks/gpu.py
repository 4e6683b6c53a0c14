"""Both samplers on a CUDA device, each figure with its floor.

    python benchmarks/gpu.py [anneal] [asl] [large] [layouts] [batches] [products]

Annealing: constraint evaluations a second (proposals × constraints), of a launch alone and over whole τ-schedules with
all that the host does meanwhile. The floor is the rate at which the multiprocessors could issue the instructions that
no version of the algorithm does without (±1 patterns: one mask and one dp2a for two constraints of a proposal, ten for
two constraints of a move; real-valued patterns: eighteen for an evaluation). `large` solves N = 100,001 at α = 0.5.
`layouts` runs the same chains under other layouts of the kernels, the one that is chosen first, each beside the floor:
chains to a block, blocks to a multiprocessor, proposals summed at a time. `batches` runs batches of many shapes side by
side, as a sweep does, on as much of the device at a time as is chosen there, and on more and less of it.

ASL: the rate of an AMP iteration beside that of its two matrix products in TF32 and in float32, the accuracy of each,
milliseconds a sample from the call to the checked samples, and where they go. The floor is the products' time in TF32.
`products` times those of many problems with few samples each, as bits, under several layouts, the one that is used first.
"""

from __future__ import annotations

import statistics
import sys
import time
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np

import solspace as ss
from solspace.samplers.annealing import batches
from solspace.samplers.annealing.anneal import AnnealConfig, first_solutions
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.gpu_flips import GpuIntegerFlips, GpuRealFlips, IntegerLayout, RealLayout
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.device import cupy, recorded
from solspace.samplers.kernels.philox import GpuNoise
from solspace.samplers.localization.localize import localize
from solspace.samplers.localization.loop import Loop
from solspace.samplers.marginals import gpu_problem
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.messages import Relaxation, progress
from solspace.samplers.packed import PackedPerceptron
from solspace.samplers.registry import SAMPLERS

TARGET = ss.Target(temperature=0.5)


def issue_rate() -> float:
    """Return lane-instructions a second of the whole device."""
    device = cupy().cuda.Device()
    return 128 * device.attributes["MultiProcessorCount"] * (device.attributes.get("ClockRate") or 1_980_000) * 1e3


def once(problems, n_chains, n_sweeps, seed):
    begun = time.perf_counter()
    samples = ss.anneal(problems, n_chains, n_sweeps, rng=range(seed, seed + len(problems)), device="gpu")
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
    alone = walked(problems, n_chains, min(n_sweeps, 200))[0]
    print(
        f"{label:34s} {alone:9.2e}/s in a launch (floor {floor:8.2e}), {evaluations / wall:9.2e}/s annealed in {wall:7.3f} s, "
        f"{whole:7.3f} s with problems sent and samples checked; acceptance {acceptance:.3f}, solved {solved:.4f}",
        flush=True,
    )


def walked(problems, n_chains, n_sweeps, layout=None):
    """Return the rate of evaluations in one launch, the weights that the chains end at, and their mean acceptance."""
    plan = Plan.of(stages_of("tau", TARGET, n_sweeps)[1], 0, 1, solve=False)
    n, m, binary = problems[0].n, problems[0].m, problems[0].has_binary_patterns
    kind = GpuIntegerFlips if binary else GpuRealFlips
    flips = kind(problems, plan, range(len(problems)), n_chains, layout=layout)
    prepared, rates = flips.prepare(slice(0, n_sweeps)), []
    flips.compile()
    for _ in range(3):
        chains = Chains.start(flips.first_weights(), plan)
        flips.place(chains)
        cupy().cuda.Device().synchronize()
        begun = time.perf_counter()
        flips.launch(chains, slice(0, n_sweeps), prepared)
        flips.stream.synchronize()
        rates.append(len(problems) * n_chains * n_sweeps * float(n) * m / (time.perf_counter() - begun))
        flips.collect(chains)
    return max(rates), chains.weights, float(chains.accepted.mean() / n)


MANY = [
    (1, 16, 2, 2),
    (1, 16, 2, 4),
    (1, 8, 4, 1),
    (1, 8, 4, 2),
    (1, 4, 8, 1),
    (1, 4, 7, 1),
    (1, 4, 7, 2),
    (1, 4, 6, 2),
    (1, 8, 3, 1),
    (1, 8, 3, 2),
    (1, 16, 3, 1),
    (1, 16, 1, 1),
    (2, 1, 16, 1),
]
FEW = [(warps, 1, 1, batch) for warps in (1, 2, 4, 8) for batch in (1, 2, 4)]
"""Warps to a chain, chains to a block, blocks to a multiprocessor, proposals at a time: many chains, and few."""
REAL = [(1, 8, 2), (1, 8, 3), (1, 8, 4), (1, 4, 4), (1, 4, 5), (1, 4, 6), (2, 1, 8)]
REAL_FEW = [(warps, 1, 1) for warps in (1, 2, 4, 8)]
CASES = [
    ("binary", 1001, 0.5, 1, 4224, 100, MANY), ("binary", 1001, 0.5, 1, 8448, 100, MANY),
    ("binary", 1001, 0.5, 100, 1, 200, FEW), ("binary", 501, 0.5, 100, 1, 200, FEW), ("gaussian", 1001, 0.5, 1, 4224, 50, REAL),
    ("gaussian", 784, 1.0, 1000, 1, 20, REAL), ("gaussian", 784, 0.5, 1000, 1, 40, REAL),
    ("gaussian", 3072, 0.25, 400, 1, 10, REAL), ("gaussian", 784, 0.5, 100, 1, 50, REAL_FEW),
]  # fmt: skip
"""Patterns, N, load, problems, chains of each, sweeps, and the layouts that are tried beside the chosen one."""


LAYOUTS = tuple((rows, slices, run) for rows in (128, 256, 512) for slices in (1, 2) for run in (4, 8))
"""Rows of a block, threads that share a row and words that each takes at a time, for products with bits."""


def layouts():
    count = cupy().cuda.Device().attributes["MultiProcessorCount"]
    for patterns, n, alpha, number, n_chains, n_sweeps, others in CASES:
        problems = [
            ss.Perceptron.random(n=n, alpha=alpha, target=TARGET, patterns=patterns, rng=k) for k in range(number)
        ]
        m, binary, all_chains = problems[0].m, patterns == "binary", number * n_chains
        if binary:
            tried = [
                IntegerLayout.choose(m, n + 3, all_chains, count),
                *(IntegerLayout.of(m, n + 3, *o) for o in others),
            ]
        else:
            own = n_chains == 1
            tried = [RealLayout.choose(m, True, all_chains, count, own=own)]
            tried += [replace(RealLayout.of(m, True, *o), own=kept) for kept in {own, False} for o in others]
        first = None
        for layout in tried:
            rate, weights, acceptance = walked(problems, n_chains, n_sweeps, layout)
            first = weights if first is None else first
            floor = issue_rate() / (1 + 5 * acceptance if binary else 18)
            same = "the same chains" if (weights == first).all() else "OTHER CHAINS"
            shape = f"{layout.warps} warps, {layout.group} chains × {layout.resident} blocks"
            shape += ", columns kept" if getattr(layout, "own", False) else ""
            words = f"{getattr(layout, 'batch', 1)} at a time: {rate:.2e}/s, {rate / floor:.0%} of {floor:.2e}; {same}"
            print(f"{patterns}, N = {n}, m = {m}, {number} × {n_chains} chains: {shape}, {words}", flush=True)


SIZES, LOADS = (1001, 2001, 5001), (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)


def side_by_side(number=100, n_sweeps=2000):
    shapes = [[PackedPerceptron(n, round(a * n), TARGET, rng=k) for k in range(number)] for n in SIZES for a in LOADS]
    work, usual = sum(own[0].n * own[0].m * number * n_sweeps for own in shapes), batches.FILLED
    for schedule in ("tau", "temperature"):
        options, start = AnnealConfig(n_sweeps=n_sweeps), SAMPLERS[schedule].method(AnnealConfig()).start
        for share in (usual, 0.4, 0.6, 1.0, 3.0):
            batches.FILLED = share
            for _ in range(2):
                waiting = [
                    batches.Batch(
                        schedule, batches.Shape(own[0].n, own[0].m, True, TARGET), 1, options, range(number),
                        lambda own=own: [(problem, None) for problem in own], lambda problems, samples: len(samples),
                    )
                    for own in shapes
                ]  # fmt: skip
                begun = time.perf_counter()
                assert all(count == number for _, count in batches.run_batches(waiting, start))
                taken = time.perf_counter() - begun
            print(
                f"{schedule}, {len(shapes)} shapes × {number} problems, {n_sweeps} sweeps, at most {share:.0%} of the device's "
                f"room at a time: {work / taken:.2e} evaluations/s",
                flush=True,
            )
    batches.FILLED = usual


def large():
    begun = time.perf_counter()
    problem = ss.Perceptron.random(n=100_001, alpha=0.5, target=TARGET, rng=0)
    print(f"N = 100,001, α = 0.5 drawn in {time.perf_counter() - begun:.1f} s", flush=True)
    begun = time.perf_counter()
    samples = first_solutions(problem, 132, 400, rng=1, device="gpu")
    taken = np.sort(samples.info["solved_at"][samples.solved])
    print(
        f"solved by {int(samples.solved.sum())} of 132 chains, first after {taken[:1] + 1} sweeps, median "
        f"{np.median(taken) + 1 if len(taken) else np.nan} of 400; {samples.info['wall_time']:.1f} s of annealing, "
        f"{time.perf_counter() - begun:.1f} s in all"
    )


def seconds(work, repeats=30):
    """Return the median time of `work` on the device."""
    events = [cupy().cuda.Event() for _ in range(repeats + 1)]
    for _ in range(3):
        work()
    events[0].record()
    for event in events[1:]:
        work()
        event.record()
    events[-1].synchronize()
    return statistics.median(cupy().cuda.get_elapsed_time(*pair) for pair in pairwise(events)) / 1e3


def gemm(left, right, out, transposed, kind):
    """Write left · right for float32 arrays by cuBLAS' mode `kind`: 68 for float32, 77 for TF32."""
    rows, inner, width, (one, zero) = out.shape[0], right.shape[0], right.shape[1], (np.float32([1]), np.float32([0]))
    gpu_problem._blas().gemmEx(
        cupy().cuda.device.get_cublas_handle(), 0, int(transposed), width, rows, inner, one.ctypes.data, right.data.ptr, 0,
        width, left.data.ptr, 0, left.shape[1], zero.ctypes.data, out.data.ptr, 0, width, kind, 99,
    )  # fmt: skip


def endless(problems, each):
    """Return columns that iterate for ever."""
    messages = GpuMessages(problems, each)
    fields = np.random.default_rng(0).standard_normal(messages.field.shape, np.float32)
    messages.field[...] = cupy().asarray(fields)
    return messages.columns(np.arange(messages.k), progress(messages.k, 1e-30, 0.0, 1e9, True))


def products():
    names = ("_ROWS", "_SLICES", "_RUN")
    used = tuple(getattr(gpu_problem, name) for name in names)
    tried = [(rows, slices, {1: run, 2: run, 4: 4}) for rows, slices, run in LAYOUTS]
    for n, alpha, number, each in ((5001, 0.3, 250, 1), (1001, 0.5, 250, 1), (1001, 0.5, 100, 4), (501, 0.5, 250, 1)):
        m = round(alpha * n)
        going = endless([PackedPerceptron(n, m, TARGET, rng=seed) for seed in range(number)], each)
        entries, words = 2.0 * n * m * number * each, []
        for layout in (used, *tried):
            for name, value in zip(names, layout):
                setattr(gpu_problem, name, value)

            def both(going=going):
                going.patterns.product(going.into, going.forward, False, going.weight)
                going.patterns.product(going.back, going.backward, True, going.weight)

            both()
            again = recorded(both)
            words.append(
                f"{layout[0]}×{layout[1]}×{layout[2][each]} {entries / seconds(again.launch if again else both):.2e}"
            )
        for name, value in zip(names, used):
            setattr(gpu_problem, name, value)
        taken = seconds(going.advance)
        print(
            f"N = {n}, m = {m}, {number} × {each}: {', '.join(words)} entries/s; iteration {1e3 * taken:.3f} ms",
            flush=True,
        )


def iteration(problem, k):
    device, (m, n) = cupy(), problem.patterns.shape
    going = endless([problem], k)
    whole = seconds(going.advance)
    exact, mean = device.asarray(problem.patterns.astype(np.float32)), going.mean[0]
    forward, backward = device.empty((m, k), np.float32), device.empty((n, k), np.float32)
    flops = 4.0 * m * n * k
    words = [f"K = {k}: AMP iteration {1e3 * whole:.4f} ms, {flops / whole / 1e12:.1f} TFLOP/s"]
    truth = exact.astype(np.float64) @ mean.astype(np.float64)
    far = float(abs(truth).max())

    def products(kind):
        gemm(exact, going.g[0], backward, True, kind)
        gemm(exact, mean, forward, False, kind)

    for name, kind in (("TF32", 77), ("float32", 68)):
        taken = seconds(partial(products, kind))
        error = float(abs(forward - truth).max()) / far
        words.append(f"{taken / whole:.0%} of {name}'s {flops / taken / 1e12:.1f} (error {error:.0e})")
    going.split()
    going.patterns.product(going.into, going.forward, False)
    own = going.forward.reshape(m, -1, k).sum(axis=1)
    print("; ".join(words) + f"; own error {float(abs(own - truth).max()) / far:.0e}", flush=True)


class Stopwatch:
    """Adds up the seconds spent in some methods, waiting for the device before and after each call."""

    def __init__(self, methods):
        self.total, self.undo = dict.fromkeys((name for name, *_ in methods), 0.0), []
        for name, owner, method in methods:
            usual = getattr(owner, method)
            self.undo.append((owner, method, usual))
            setattr(owner, method, self.timed(name, usual))

    def timed(self, name, usual):
        def call(*given, **named):
            cupy().cuda.Device().synchronize()
            begun = time.perf_counter()
            result = usual(*given, **named)
            cupy().cuda.Device().synchronize()
            self.total[name] += time.perf_counter() - begun
            return result

        return call

    def stop(self):
        for owner, method, usual in self.undo:
            setattr(owner, method, usual)


def asl(n=5000, alpha=0.3, k=1024):
    problem = ss.Perceptron.random(n=n, alpha=alpha, rng=1)
    for width in (64, 256, k):
        iteration(problem, width)
    localize(problem, k, rng=0, device="gpu", progress=False)
    walls = []
    for seed in range(1, 8):
        begun = time.perf_counter()
        samples = localize(problem, k, rng=seed, device="gpu", progress=False)
        walls.append(time.perf_counter() - begun)
    print(
        f"ASL N = {n}, α = {alpha}, K = {k}: {1e3 * statistics.median(walls) / k:.3f} ms a sample (median of {len(walls)}, "
        f"{1e3 * min(walls) / k:.3f} to {1e3 * max(walls) / k:.3f}), solved {int(samples.solved.sum())}, "
        f"{samples.info['iterations'].sum() / k:.0f} iterations a sample in {len(samples.info['t'])} steps",
        flush=True,
    )
    watch = Stopwatch([
        ("patterns and arrays", GpuMessages, "__init__"), ("noise", GpuNoise, "draw"),
        ("message passing", Relaxation, "run"), ("records", Loop, "_note"), ("decoding", Loop, "decoded"),
    ])  # fmt: skip
    begun = time.perf_counter()
    localize(problem, k, rng=9, device="gpu", progress=False)
    watch.total["all"] = time.perf_counter() - begun
    watch.stop()
    print("  ms of a run: " + ", ".join(f"{name} {1e3 * taken:.0f}" for name, taken in watch.total.items()), flush=True)
    problems = [ss.Perceptron.random(n=1001, alpha=0.5, rng=seed) for seed in range(100)]
    for _ in range(2):
        begun = time.perf_counter()
        many = localize(problems, 4, rng=range(100), device="gpu", progress=False)
        wall = time.perf_counter() - begun
    solved = np.mean([samples.solved.mean() for samples in many])
    print(f"ASL N = 1001, α = 0.5, 100 problems × 4: {wall / 0.4:.2f} ms a sample, solved {solved:.3f}", flush=True)


def chains():
    measure("±1, N = 1001, 4224 chains", "binary", 1001, 4224, 1001)
    measure("±1, N = 1001, 8448 chains", "binary", 1001, 8448, 1001)
    measure("±1, N = 10001, 1056 chains", "binary", 10001, 1056, 50)
    measure("±1, N = 1001, 100 problems × 1", "binary", 1001, 1, 1001, 100)
    measure("±1, N = 5001, 100 problems × 1", "binary", 5001, 1, 100, 100)
    measure("real, N = 1001, 4224 chains", "gaussian", 1001, 4224, 500)
    measure("real, N = 784, 100 problems × 1", "gaussian", 784, 1, 784, 100)
    measure("real, N = 784, 1000 problems × 1", "gaussian", 784, 1, 784, 1000)
    measure("real, N = 3072, 400 problems × 1", "gaussian", 3072, 1, 50, 400, 0.25)
    measure("real, N = 10001, 528 chains", "gaussian", 10001, 528, 10)


if __name__ == "__main__":
    parts = sys.argv[1:] or ["anneal", "asl"]
    known = {
        "anneal": chains,
        "asl": asl,
        "large": large,
        "layouts": layouts,
        "batches": side_by_side,
        "products": products,
    }
    for name, run in known.items():
        if name in parts:
            run()
