"""Weights on the sphere: rotations beside the memory they read and beside other samplers of a cone, and the cost of the finish.

The others are written plainly in NumPy, one move of all weights at a time: hit-and-run along geodesics, and elliptical slice
sampling of a Gaussian vector, whose direction counts. emcee is measured too where it is installed (``pip install emcee``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np

import solspace as ss
from benchmarks.timing import Table, Times, timed
from solspace.numerics.arrays import Array
from solspace.numerics.series import effective_size
from solspace.samplers.annealing.chains import Plan
from solspace.samplers.annealing.rotations import Rotations
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels import rotations
from solspace.samplers.kernels.densities import BLOCK

TARGET = ss.Target("spherical", "uniform")
N = 101  # weights where samplers are compared, at load 0.5
CHAINS = 16


@numba.njit
def _read(s: Array, x: Array, y: Array, a: float, b: float, out: Array) -> None:
    # what no trial can do without: two columns and the stabilities, read once
    for k in range(numba.uint64(len(s))):
        out[k] = s[k] + a * x[k] + b * y[k]


@numba.njit
def _reads(s: Array, x: Array, y: Array, out: Array, count: int) -> None:
    for i in range(count):
        _read(s, x, y, 1e-9 * i, -1e-9 * i, out)


@numba.njit
def _turns(problem: Any, x: Array, y: Array, s: Array, u: float, v: float, out: Array, room: Array, count: int) -> int:
    tried = 0
    for i in range(count):
        found = rotations.turn(
            problem.forms, 0, s, problem.powers, x, y, problem.scale, 0.0, u, v, 0.0, 0.0, 2 * np.pi, False,
            np.uint64(7), i, 0, 0, out, room,
        )  # fmt: skip
        tried += found[3]
    return tried


def rate(quick: bool = False) -> Table:
    """Return the time of a trial of a rotation, beside reading its columns."""
    found = Table(
        "A trial of a rotation",
        "Uniform potential, ±1 patterns. Floor: two columns and the stabilities read once, the new ones written. A trial ends "
        "early where a wall is passed.",
        ("n, m", "trial", "floor", "floor / trial", "trials a rotation"),
    )
    for n, alpha, margin in ((1001, 0.5, 0.0), (5001, 0.5, 0.0), (1001, 8.0, -1.5))[: 2 if quick else 3]:
        problem = ss.Perceptron.random(n, alpha, TARGET.replace(margin=margin), rng=0)
        weights = ss.localize(problem, 1, rng=0).weights[0]
        plan = Plan.of([Stage.of(problem.target)], 0, 1, False, problem.target)
        chains = Rotations(problem, plan, 1, 1, 1)
        made = chains._sampled(chains.potentials(plan.stages))
        s, count = problem.stabilities(weights), 2000
        x, y, out, room = chains.columns[0], chains.columns[1], np.empty(problem.m), np.empty(BLOCK)
        tried = _turns(made, x, y, s, weights[0], weights[1], out, room, count)
        calls: dict[str, Callable[[], Any]] = {
            "trial": partial(_turns, made, x, y, s, weights[0], weights[1], out, room, count),
            "floor": partial(_reads, s, x, y, out, count),
        }
        times = Times(calls, 3 if quick else 9)
        trial, floor = times["trial"].per(tried), times["floor"].per(count)
        share = times.ratio("floor", "trial") * tried / count
        found.add(f"{n}, {problem.m}", trial, floor, f"{share:.0%}", f"{tried / count:.1f}")
    return found


def finish(quick: bool = False) -> Table:
    """Return what the finish of `localize` costs."""
    found = Table(
        "The finish of localized samples",
        "16 samples, uniform potential. Share: of the run without a finish that ends at the same time, t = 10³.",
        ("n, α, κ", "finish=0", "finish=4", "share of the finish"),
    )
    for n, alpha, margin in ((1001, 0.5, 0.0), (1001, 8.0, -1.5), (5001, 0.5, 0.0))[: 2 if quick else 3]:
        problem = ss.Perceptron.random(n, alpha, TARGET.replace(margin=margin), rng=0)
        run = partial(ss.localize, problem, 16, rng=1, progress=False)
        calls: dict[str, Callable[[], Any]] = {
            "old": partial(run, finish=0),
            "short": partial(run, finish=0, final_time=1e3),
            "new": partial(run, finish=4, final_time=1e3),
        }
        times = Times(calls, 2 if quick else 5)
        found.add(f"{n}, {alpha:g}, {margin:g}", times["old"], times["new"], f"{1 - times.ratio('short', 'new'):.0%}")
    return found


def geodesics(rows: Array, weights: Array, draws: int, thin: int, rng: np.random.Generator) -> Array:
    """Hit-and-run on the sphere: the great circle in a random direction, of which the arc with X w >= 0 about w is known."""
    n, out = len(weights), np.empty((draws, len(weights)))
    for step in range(draws * thin):
        along = rng.standard_normal(n)
        along -= weights * (along @ weights) / n
        along *= np.sqrt(n) / np.linalg.norm(along)
        centre = np.arctan2(rows @ along, rows @ weights)  # s cos θ + d sin θ >= 0 up to π/2 from here
        turn = rng.uniform(centre.max() - np.pi / 2, centre.min() + np.pi / 2)
        weights = weights * np.cos(turn) + along * np.sin(turn)
        out[step // thin] = weights
    return out


def ellipses(rows: Array, weights: Array, draws: int, thin: int, rng: np.random.Generator) -> Array:
    """Elliptical slice sampling of a Gaussian vector with X g >= 0."""
    n, g, out = len(weights), weights.copy(), np.empty((draws, len(weights)))
    for step in range(draws * thin):
        other, high = rng.standard_normal(n), 2 * np.pi * rng.random()
        here, there, low, angle = rows @ g, rows @ other, high - 2 * np.pi, high
        while (here * np.cos(angle) + there * np.sin(angle)).min() < 0:
            low, high = (angle, high) if angle < 0 else (low, angle)
            angle = rng.uniform(low, high)
        g = g * np.cos(angle) + other * np.sin(angle)
        out[step // thin] = g * np.sqrt(n) / np.linalg.norm(g)
    return out


def _emcee(rows: Array, weights: Array, draws: int, thin: int, rng: np.random.Generator) -> Array | None:
    try:
        import emcee
    except ImportError:
        return None
    n, walkers = len(weights), 4 * len(weights)
    sampler = emcee.EnsembleSampler(walkers, n, lambda g: -g @ g / 2 if (rows @ g).min() >= 0 else -np.inf)
    start = weights * (1 + 0.01 * rng.standard_normal((walkers, 1))) + 1e-3 * rng.standard_normal((walkers, n))
    sampler.run_mcmc(start, max(1, draws * thin // 16), skip_initial_state_check=True)
    chain = sampler.get_chain()[-draws:, 0]
    return chain * np.sqrt(n) / np.linalg.norm(chain, axis=1, keepdims=True)


def samplers(quick: bool = False) -> Table:
    """Return effective samples a second of rotations and of other samplers, on one instance."""
    problem = ss.Perceptron.random(N, 0.5, TARGET, rng=3)
    rows, start = problem.patterns / np.sqrt(N), ss.localize(problem, CHAINS, rng=0).weights
    found = Table(
        f"Samplers of a cone, n = {N}, α = 0.5, κ = 0",
        "Effective samples (rank-normalised) a second of processor time of the smallest stability, and of the overlap with a "
        "fixed sample.",
        ("sampler", "smallest stability", "overlap"),
    )
    draws, most = (100, 4) if quick else (400, CHAINS)

    def ours() -> Array:
        chains = ss.anneal(problem, initial=start[:most], n_extra=8 * draws, thin=8, rng=1, n_threads=1, progress=False)
        return chains.weights.reshape(most, draws, N)

    def plainly(move: Callable[..., Array | None], thin: int) -> Callable[[], Array | None]:
        def call() -> Array | None:
            chains = [move(rows, w, draws, thin, np.random.default_rng(i)) for i, w in enumerate(start[:most])]
            return None if any(one is None for one in chains) else np.array(chains)

        return call

    ours()  # compiled
    calls: dict[str, Callable[[], Array | None]] = {
        "rotations (solspace)": ours,
        "hit-and-run along geodesics": plainly(geodesics, 20),
        "elliptical slice sampling": plainly(ellipses, 20),
        "emcee": plainly(_emcee, 20),
    }
    for name, call in calls.items():
        seconds, weights = timed(call)
        if weights is None:
            found.add(name, "not installed", "")
            continue
        smallest = (weights @ rows.T).min(axis=2)
        sizes = (effective_size(smallest), effective_size(weights @ start[-1] / N))
        found.add(name, *(f"{size / seconds:.3g}" for size in sizes))
    return found
