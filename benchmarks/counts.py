"""Counting: intervals against exact counts of fresh instances, and times beside a pass over the sets of bits and EP."""

from __future__ import annotations

import math
import warnings

import numpy as np

import solspace as ss
from benchmarks.timing import Table, Times, timed
from solspace.counting.count import count, prepared
from solspace.counting.exact import exact
from solspace.numerics.streams import generator

KINDS = ("±1", "Gaussian", "images", "rank 3")
ALPHAS, SIZES = (0.3, 0.5, 0.65), (25, 27, 29, 31, 33)
TARGETS = {"uniform": ss.Target(potential="uniform"), "log, T = 0.5": ss.Target(temperature=0.5)}
SEED = 39_002  # of the instances, which were used for no choice of a parameter


def instance(kind: str, alpha: float, target: ss.Target, number: int) -> ss.Perceptron:
    """Return a problem of 25 to 33 weights (to 29 for log Z); images are digits 3 and 8 of 4×4 pixels, or 6×5 of 8×8."""
    rng = generator(SEED, KINDS.index(kind), round(100 * alpha), number)
    n = SIZES[number % (5 if target.potential.athermal else 3)]
    if kind in ("±1", "Gaussian"):
        return ss.Perceptron.random(n, alpha, target, "binary" if kind == "±1" else "gaussian", rng)
    if kind == "rank 3":
        m = round(alpha * n)
        rows = rng.standard_normal((m, 3)) @ rng.standard_normal((3, n)) + 0.5 * rng.standard_normal((m, n))
        return ss.Perceptron(rows * np.sqrt(n) / np.linalg.norm(rows, axis=1, keepdims=True), target=target)
    images, labels = ss.data.load("digits", classes=(3, 8))
    whole = images.reshape(-1, 8, 8)
    small = whole.reshape(-1, 4, 2, 4, 2).mean(axis=(2, 4)) if number % 2 else whole[:, 1:7, 1:6]
    return ss.Perceptron.from_data(small.reshape(len(small), -1), labels, alpha, target=target, rng=rng)


def coverage(instances: int = 60, methods: tuple[str, ...] = ("epar", "smc"), confidence: float = 0.95) -> Table:
    """Return how often trusted intervals hold the exact value, for each kind of patterns, load and measure."""
    table = Table(
        "Intervals of counts against exact counts",
        f"{instances} fresh instances a cell (seed {SEED}), n = 25 to 33, for log Z to 29 (16 and 30 for images), 95%: "
        "trusted intervals that hold the exact value, of all trusted ones; medians of the half width and of EP's error.",
        (
            "patterns",
            "measure",
            "α",
            *(f"{method}: covered" for method in methods),
            "half width",
            "EP - exact",
            "no solution",
        ),
    )
    for kind in KINDS:
        for measure, target in TARGETS.items():
            for alpha in ALPHAS:
                table.add(kind, measure, alpha, *_cell(kind, alpha, target, instances, methods, confidence))
                print(" | ".join(table.rows[-1]), flush=True)
    return table


def _cell(
    kind: str, alpha: float, target: ss.Target, instances: int, methods: tuple[str, ...], confidence: float
) -> list[str]:
    held, trusted, widths, errors, empty, wrong = [0] * len(methods), [0] * len(methods), [], [], 0, 0
    for number in range(instances):
        problem = instance(kind, alpha, target, number)
        truth = exact(prepared(problem, target)[0])
        for j, method in enumerate(methods):
            try:
                found = count(problem, target, confidence, method, rng=number, progress=False)
            except ValueError:  # smc takes ±1 patterns only
                continue
            if math.isinf(truth):
                wrong += math.isfinite(found.low)
                continue
            trusted[j] += found.trusted
            held[j] += found.trusted and found.low <= truth <= found.high
            if j == 0 and found.trusted:
                widths.append((found.high - found.low) / 2)
        empty += math.isinf(truth)
        if math.isfinite(truth):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                value = count(problem, target, method="ep", progress=False).log
            if math.isfinite(value):
                errors.append(value - truth)
    shares = [f"{a} of {b}" if b else "" for a, b in zip(held, trusted)]
    width = f"{np.median(widths):.2f}" if widths else ""
    error = f"{np.median(errors):.2f}" if errors else ""
    return [*shares, width, error, f"{empty}" + (f", {wrong} with a lower end" if wrong else "")]


def speed(quick: bool = False) -> Table:
    """Return processor times of exact counts and of EPAR."""
    table = Table("Counting: times", "One core, ±1 patterns.", ("what", "n", "α", "time", "result"))
    for n, alpha in ((33, 0.5), (35, 0.5)) if quick else ((35, 0.5), (37, 0.3), (37, 0.5), (39, 0.5)):
        problem = ss.Perceptron.random(n, alpha, rng=n)
        time, found = timed(lambda p=problem: count(p, method="exact", progress=False))
        floor = _floor(n)
        table.add("exact", n, alpha, f"{time:.2f} s, {time / floor:.1f} passes over the sets of bits", found)
    for n, alpha in ((101, 0.3),) if quick else ((101, 0.3), (101, 0.5), (201, 0.3), (501, 0.3)):
        problem = ss.Perceptron.random(n, alpha, rng=n)
        count(ss.Perceptron.random(61, alpha, rng=0), method="epar", progress=False)
        time, found = timed(lambda p=problem: count(p, method="epar", progress=False))
        table.add("epar, 256 lanes", n, alpha, f"{time:.2f} s", found)
    return table


def _floor(n: int) -> float:
    """Return the seconds of one AND over sets of 2^12 bits for each of the 2^(n - 12) first weights, and of a test for zero."""
    from solspace.system.compiled import FAST, njit

    @njit(**FAST)
    def passes(sets, repeats):
        hits = 0
        for j in range(repeats):
            a, b, some = sets[j & 15], sets[(j >> 4) & 15], np.uint64(0)
            for w in range(64):
                some |= a[w] & b[w]
            hits += some != 0
        return hits

    sets = generator(0).integers(0, 2**63, (16, 64), dtype=np.uint64)
    times = Times({"pass": lambda: passes(sets, 1 << 20)}, 3)
    return times["pass"].median * 2.0 ** (n - 32)
