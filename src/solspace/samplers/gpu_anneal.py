"""Annealing on a CUDA device: launches of some sweeps each, the next one's potentials prepared while one runs.

A launch is kept to a quarter of a second, so that progress is seen and Ctrl-C is heard; after each, the chains are back
on the host, where a checkpoint can be written. How sweeps are cut into launches changes nothing in the chains.

A device is kept busy by thousands of chains. `anneal_many` runs many problems at once: those of one shape in one
launch, and the launches of different shapes side by side.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from solspace.numerics import progress as bars
from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.chains import Chains, Plan
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.device import resolve
from solspace.samplers.gpu_walkers import GpuIntegerWalker, GpuRealWalker, GpuWalker
from solspace.samplers.schedules import stages_of
from solspace.samples import Samples

_BEAT = 0.25
"""Seconds of a launch."""
_ROOM = 1 << 27
"""Most (problem, sweep, site) triples laid out for a launch."""


def walker_for(
    problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int, company: int = 0
) -> GpuWalker:
    """Return the walker that suits the patterns; all problems must have the same shape and kind of patterns."""
    kind = GpuIntegerWalker if problems[0].has_binary_patterns else GpuRealWalker
    return kind(problems, plan, keys, n_chains, company)


class Run:
    """Chains on their way through a plan: at most one launch under way, the next one prepared."""

    def __init__(self, walker: GpuWalker, chains: Chains, plan: Plan) -> None:
        self.walker, self.chains, self.plan = walker, chains, plan
        walker.place(chains)
        self.most = max(1, _ROOM // (len(walker.problems) * walker.n))
        self.count = int(np.clip(_BEAT * 1e11 / (len(chains.weights) * walker.n * walker.m), 1, self.most))
        self.sweeps = slice(chains.sweep, chains.sweep)
        self._next()

    @property
    def done(self) -> bool:
        """Whether all chains have come to the end of the plan or stopped."""
        return self.chains.sweep >= len(self.plan) or bool(self.chains.stopped.all())

    def _next(self) -> None:
        first = self.sweeps.stop
        self.ahead = slice(first, min(first + self.count, len(self.plan)))
        self.prepared = self.walker.prepare(self.ahead) if self.ahead.start < self.ahead.stop else None

    def launch(self) -> None:
        """Start the next sweeps; prepare those after them meanwhile."""
        self.begun = time.perf_counter()
        self.sweeps, self.potentials = self.ahead, self.prepared
        self.made = self.walker.launch(self.sweeps, self.potentials)
        self._next()

    def collect(self) -> int:
        """Wait for the launch under way; return how many sweeps it made."""
        self.walker.collect(self.sweeps, self.made, self.potentials, self.chains)
        done = self.sweeps.stop - self.sweeps.start
        pace = _BEAT / max(time.perf_counter() - self.begun, 1e-9)
        self.count = int(np.clip(done * pace, 1, min(self.most, 8 * self.count)))
        return done


def run(walker: GpuWalker, chains: Chains, plan: Plan, store: Checkpoint, report: Callable[[int], None]) -> None:
    """Carry the chains to the end of the plan; report how many sweeps were done, about four times a second.

    Whatever ends the run before its time, the state after the last launch is stored.
    """
    going = Run(walker, chains, plan)
    safe = chains.snapshot()
    try:
        while not going.done:
            going.launch()
            done = going.collect()
            safe = chains.snapshot()
            store.maybe_save(lambda state=safe: {**chains.records(), **state})
            report(done)
    except BaseException:
        store.save({**chains.records(), **safe})
        raise


def anneal_many(
    problems: Sequence[Perceptron],
    n_chains: int = 1,
    n_sweeps: int | None = None,
    schedule: Any = "tau",
    rng: Sequence[RNG] | None = None,
    *,
    mode: str = "sample",
    n_extra: int = 0,
    thin: int = 10,
    device: str = "auto",
    progress: bool | None = None,
) -> list[Samples]:
    """Return what `anneal` returns for each of many problems, all at once on a device.

    Problems of any shapes; those that share shape, kind of patterns and target go through the same launches. `rng`
    holds a seed for each problem. A problem's samples are those that `anneal` makes from its seed, wherever they run.

    >>> problems = [Perceptron.random(n=51, alpha=0.3, rng=seed) for seed in range(3)]
    >>> [int(samples.solved.sum()) for samples in anneal_many(problems, 2, 50, rng=[0, 1, 2], device="cpu")]
    [2, 2, 2]
    """
    from solspace.samplers.anneal import anneal, check, samples_of

    seeds = [None] * len(problems) if rng is None else list(rng)
    if len(seeds) != len(problems):
        raise ValueError(f"rng must hold a seed for each of the {len(problems)} problems; got {len(seeds)}.")
    if resolve(device) == "cpu":
        options: dict[str, Any] = {"mode": mode, "n_extra": n_extra, "thin": thin, "progress": False}
        return [anneal(p, n_chains, n_sweeps, schedule, seed, **options) for p, seed in zip(problems, seeds)]
    keys = [int(seed_sequence(seed).generate_state(1, np.uint64)[0]) for seed in seeds]
    groups: dict[Any, list[int]] = {}
    for number, problem in enumerate(problems):
        check(problem, n_chains, n_sweeps, n_extra, thin, mode)
        groups.setdefault((problem.n, problem.m, problem.has_binary_patterns, problem.target), []).append(number)
    runs = []
    for members in groups.values():
        given = [problems[k] for k in members]
        name, stages = stages_of(schedule, given[0].target, n_sweeps)
        plan = Plan.of(stages, n_extra, thin, solve=mode == "solve")
        walker = walker_for(given, plan, [keys[k] for k in members], n_chains, n_chains * len(problems))
        runs.append((members, name, Run(walker, Chains.start(walker.first_weights(), plan), plan)))
    begun = time.perf_counter()
    with bars.progress(sum(len(going.plan) for *_, going in runs), "annealing", progress) as bar:
        while left := [going for *_, going in runs if not going.done]:
            for going in left:
                going.launch()
            for going in left:
                bar.advance(going.collect())
    results: list[Any] = [None] * len(problems)
    for members, name, going in runs:
        info = {"sampler": name, "mode": mode, "path": going.walker.name, "wall_time": time.perf_counter() - begun}
        for place, number in enumerate(members):
            own = _rows(going.chains, slice(place * n_chains, (place + 1) * n_chains))
            results[number] = samples_of(problems[number], going.plan, own, {**info, "key": keys[number]})
    return results


def _rows(chains: Chains, rows: slice) -> Chains:
    names = ("weights", "draws", "accepted", "energy", "solved_at", "stopped")
    return replace(chains, **{name: getattr(chains, name)[rows] for name in names})
