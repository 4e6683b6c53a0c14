"""Annealing on a CUDA device: launches of some sweeps each, the next one's potentials prepared while one runs.

A launch is kept to a quarter of a second, so that progress is seen and Ctrl-C is heard; after each, the chains are back on
the host, where a checkpoint can be written. How sweeps are cut into launches changes nothing in the chains.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from solspace.problem import Perceptron
from solspace.samplers.chains import Chains, Plan
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.gpu_walkers import GpuIntegerWalker, GpuRealWalker, GpuWalker

_BEAT = 0.25
"""Seconds of a launch."""
_ROOM = 1 << 27
"""Most (problem, sweep, site) triples laid out for a launch."""


def walker_for(problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int) -> GpuWalker:
    """Return the walker that suits the patterns; all problems must have the same shape and kind of patterns."""
    kind = GpuIntegerWalker if problems[0].has_binary_patterns else GpuRealWalker
    return kind(problems, plan, keys, n_chains)


def run(walker: GpuWalker, chains: Chains, plan: Plan, store: Checkpoint) -> Iterator[int]:
    """Carry the chains to the end of the plan; yield how many sweeps were done, about four times a second."""
    walker.place(chains)
    n, m = walker.n, walker.m
    most = max(1, _ROOM // (len(walker.problems) * n))
    count = int(np.clip(_BEAT * 1e11 / (len(chains.weights) * n * m), 1, most))
    sweeps = slice(chains.sweep, min(chains.sweep + count, len(plan)))
    potentials = walker.prepare(sweeps) if chains.sweep < len(plan) else None
    while chains.sweep < len(plan) and not chains.stopped.all():
        begun, state = time.perf_counter(), chains.sweep
        made: Any = None
        try:
            made = walker.launch(sweeps, potentials)
            following = slice(sweeps.stop, min(sweeps.stop + count, len(plan)))
            ahead = walker.prepare(following) if following.start < following.stop else None
            walker.collect(sweeps, made, potentials, chains)
        except BaseException:
            if made is not None and chains.sweep == state:
                walker.collect(sweeps, made, potentials, chains)
            store.save({**chains.records(), **chains.snapshot()})
            raise
        store.maybe_save(lambda: {**chains.records(), **chains.snapshot()})
        yield sweeps.stop - sweeps.start
        pace = _BEAT / max(time.perf_counter() - begun, 1e-9)
        count = int(np.clip((sweeps.stop - sweeps.start) * pace, 1, min(most, 8 * count)))
        sweeps, potentials = following, ahead
