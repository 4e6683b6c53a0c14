"""Annealing of many problems on a CUDA device, which thousands of chains keep busy.

A `Lot` holds problems of one shape, which share their launches; `flow` runs lots of any shapes side by side, and takes up
the next ones as room is made, so that the device never waits for the longest chain of a batch.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.gpu_integer import GpuIntegerFlips
from solspace.samplers.annealing.gpu_real import GpuRealFlips
from solspace.samplers.annealing.integer_levels import Lattice
from solspace.samplers.annealing.layout import IntegerLayout
from solspace.samplers.annealing.run import BEAT, Run
from solspace.samplers.device import cupy
from solspace.samplers.kernels.cuda import compile_ahead
from solspace.samples import Samples

CHAINS = 4608
"""Chains that keep a device busy."""
_SHARES = 4
"""Among how many launches the memory of one alone is divided where lots run side by side."""
_COMING = 3
"""Lots that are made ready while others run."""
_NAP = 5e-4
"""Seconds between two looks at launches under way."""


def gpu_flips(
    problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int, company: int = 0, share: int = 1
) -> GpuFlips:
    """Return what moves chains on these patterns; all problems must have the same shape and kind of patterns."""
    kind = GpuIntegerFlips if problems[0].has_binary_patterns else GpuRealFlips
    return kind(problems, plan, keys, n_chains, company, share)


def key_of(rng: RNG) -> int:
    """Return the 64 bits from which all random numbers of a call are made."""
    return int(seed_sequence(rng).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Lot:
    """Problems of one shape, kind of patterns and target, a seed for each, and what is asked of all.

    `problems` is called when the lot's turn comes; `plan` makes the sampler's name and the plan from the target; `tag`
    is for whoever made the lot.
    """

    problems: Callable[[], Sequence[Perceptron]]
    seeds: Sequence[RNG]
    n_chains: int
    plan: Callable[[Perceptron], tuple[str, Plan]]
    tag: Any = None


class LotRun(Run):
    """The chains of a lot on their way, beside `company` chains in all."""

    flips: GpuFlips

    def __init__(self, lot: Lot, company: int) -> None:
        _tidy()
        self.lot, self.problems = lot, list(lot.problems())
        self.keys = [key_of(seed) for seed in lot.seeds]
        self.name, plan = lot.plan(self.problems[0])
        flips = gpu_flips(self.problems, plan, self.keys, lot.n_chains, company, _SHARES)
        flips.compile()
        super().__init__(flips, Chains.start(flips.first_weights(), plan), plan)
        self.started = time.perf_counter()

    def samples(self) -> list[Samples]:
        """Return the samples of each problem."""
        wall, k = time.perf_counter() - self.started, self.lot.n_chains
        checked = self.flips.stabilities(self.chains.drawn(self.plan))
        results = []
        for i, (problem, key) in enumerate(zip(self.problems, self.keys)):
            own = self.chains.of(slice(i * k, (i + 1) * k))
            stabilities = None if checked is None else checked.reshape(len(self.keys), -1, problem.m)[i]
            told = {"sampler": self.name, "kernel": self.flips.kernel, "device": "gpu", "key": key, "wall_time": wall}
            results.append(own.samples(problem, self.plan, stabilities, **told))
        return results


def _tidy() -> None:
    """Give memory back that CuPy keeps for streams which no longer ask for it, where that is much."""
    device = cupy()
    pool = device.get_default_memory_pool()
    if pool.free_bytes() > device.cuda.Device().mem_info[1] // 4:
        pool.free_all_blocks()


def flow(
    lots: Iterable[Lot], company: int = CHAINS, report: Callable[[int], Any] = lambda sweeps: None
) -> Iterator[tuple[Lot, list[Samples] | Exception]]:
    """Yield each lot with its samples, or the error that it met, as they come; some `company` chains run at a time.

    `report` is called with the number of sweeps that a launch made.
    """
    waiting, going, coming = iter(lots), list[LotRun](), deque[tuple[Lot, Future[LotRun]]]()
    with ThreadPoolExecutor(_COMING, "lots") as builder:
        try:
            while True:
                while len(coming) < _COMING and (lot := next(waiting, None)) is not None:
                    coming.append((lot, builder.submit(LotRun, lot, company)))
                if not (going or coming):
                    return
                busy = False
                room = sum(len(one.chains.weights) for one in going) < min(company, CHAINS)
                if coming and room and (coming[0][1].done() or not going):
                    busy = True
                    lot, future = coming.popleft()
                    try:
                        future.result().launch()
                        going.append(future.result())
                    except Exception as error:
                        yield lot, error
                ended: list[tuple[LotRun, Exception | None]] = []
                for one in [one for one in going if one.flips.idle and one.prepared.done()]:
                    busy = True
                    try:
                        # a launch of each takes this thread some milliseconds
                        report(one.collect(BEAT * max(1.0, len(going) / 4)))
                        if one.done:
                            ended.append((one, None))
                        else:
                            one.launch()
                    except Exception as error:
                        ended.append((one, error))
                for one, problem in ended:
                    going.remove(one)
                    yield one.lot, problem or one.samples()
                if not busy:
                    time.sleep(_NAP)
        finally:
            for _, future in coming:
                future.cancel()


def warm(shapes: Iterable[tuple[int, int]], company: int, solve: bool) -> None:
    """Compile what chains on ±1 patterns of `shapes` (n, m) need, side by side, before the first of them is run."""
    sizes = [(m, Lattice(n, m).size) for n, m in shapes]
    layouts = [IntegerLayout.choose(m, size, company, processors()) for m, size in dict.fromkeys(sizes)]
    compile_ahead(("flips_integer", (*layout.constants(solve), ("FIELD", 0))) for layout in layouts)
