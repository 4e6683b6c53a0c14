"""Annealing on a CUDA device: launches of some sweeps each, the next one's potentials prepared while one runs.

A launch is kept to a quarter of a second, so that progress is seen and Ctrl-C is heard; after each, the chains are back
on the host, where a checkpoint can be written. How sweeps are cut into launches changes nothing in the chains.

A device is kept busy by thousands of chains. A `Lot` holds problems of one shape, which share their launches; `flow`
runs lots of any shapes side by side, and takes up the next ones as room is made, so that the device never waits for the
longest chain of a batch. `anneal_many` does this for problems at hand.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.gpu import GpuIntegerWalker, GpuRealWalker, GpuWalker, processors
from solspace.samplers.annealing.integer_levels import Lattice
from solspace.samplers.annealing.layout import IntegerLayout
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.device import cupy, resolve
from solspace.samplers.kernels.cuda import compile_ahead
from solspace.samples import Samples
from solspace.system import progress as bars

CHAINS = 4608
"""Chains that keep a device busy."""
_BEAT = 0.25
"""Seconds of a launch."""
_ROOM = 1 << 27
"""Most (problem, sweep, site) triples laid out for a launch, or for the launches of all lots side by side."""
_SHARES = 4
"""Among how many launches the memory of one alone is divided where lots run side by side."""
_COMING = 3
"""Lots that are made ready while others run."""
_NAP = 5e-4
"""Seconds between two looks at launches under way."""


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    """Return the threads that round potentials while launches run."""
    return ThreadPoolExecutor(8, "potentials")


def walker_for(
    problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int, company: int = 0
) -> GpuWalker:
    """Return the walker that suits the patterns; all problems must have the same shape and kind of patterns."""
    kind = GpuIntegerWalker if problems[0].has_binary_patterns else GpuRealWalker
    return kind(problems, plan, keys, n_chains, company)


class Run:
    """Chains on their way through a plan: at most one launch under way, the next one prepared."""

    def __init__(self, walker: GpuWalker, chains: Chains, plan: Plan, share: int = 1) -> None:
        self.walker, self.chains, self.plan = walker, chains, plan
        walker.place(chains)
        self.most = max(1, _ROOM // (share * len(walker.problems) * walker.n))
        self.count = _power_below(np.clip(_BEAT * 1e11 / (len(chains.weights) * walker.n * walker.m), 1, self.most))
        self.sweeps = slice(chains.sweep, chains.sweep)
        self._next()

    @property
    def done(self) -> bool:
        """Whether all chains have come to the end of the plan or stopped."""
        return self.chains.sweep >= len(self.plan) or bool(self.chains.stopped.all())

    def _next(self) -> None:
        first = min(self.sweeps.stop, len(self.plan) - 1)
        self.ahead = slice(first, min(first + self.count, len(self.plan)))
        self.prepared: Future[Any] = _pool().submit(self.walker.prepare, self.ahead)

    def launch(self) -> None:
        """Start the next sweeps; let threads prepare those after them meanwhile."""
        self.sweeps, self.potentials = self.ahead, self.prepared.result()
        self.begun = time.perf_counter()
        self.made = self.walker.launch(self.sweeps, self.potentials)
        self._next()

    def collect(self, beat: float = 0.0) -> int:
        """Wait for the launch under way; return how many sweeps it made. The next ones will take some `beat` seconds."""
        self.walker.collect(self.sweeps, self.made, self.potentials, self.chains)
        done = self.sweeps.stop - self.sweeps.start
        pace = max(beat, _BEAT) / max(time.perf_counter() - self.begun, 1e-9)
        # powers of two, so that the memory of one launch serves for the next
        self.count = _power_below(np.clip(done * pace, 1, min(self.most, 8 * self.count)))
        return done


def _power_below(count: float) -> int:
    """Return the power of two at or below `count`."""
    return 1 << (int(count).bit_length() - 1)


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


def _tidy() -> None:
    """Give memory back that CuPy keeps for streams which no longer ask for it, where that is much."""
    device = cupy()
    pool = device.get_default_memory_pool()
    if pool.free_bytes() > device.cuda.Device().mem_info[1] // 4:
        pool.free_all_blocks()


@dataclass(frozen=True)
class Lot:
    """Problems of one shape, kind of patterns and target, a seed for each, and what is asked of all.

    `problems` is called when the lot's turn comes; `tag` is for whoever made the lot.
    """

    problems: Callable[[], Sequence[Perceptron]]
    seeds: Sequence[RNG]
    n_chains: int = 1
    n_sweeps: int | None = None
    schedule: Any = "tau"
    mode: str = "sample"
    n_extra: int = 0
    thin: int = 10
    tag: Any = None


class LotRun(Run):
    """The chains of a lot on their way, beside `company` chains in all."""

    def __init__(self, lot: Lot, company: int) -> None:
        from solspace.samplers.annealing.anneal import check

        _tidy()
        self.lot, self.problems = lot, list(lot.problems())
        for problem in self.problems:
            check(problem, lot.n_chains, lot.n_sweeps, lot.n_extra, lot.thin, lot.mode)
        self.keys = [int(seed_sequence(seed).generate_state(1, np.uint64)[0]) for seed in lot.seeds]
        self.name, stages = stages_of(lot.schedule, self.problems[0].target, lot.n_sweeps)
        plan = Plan.of(stages, lot.n_extra, lot.thin, solve=lot.mode == "solve")
        walker = walker_for(self.problems, plan, self.keys, lot.n_chains, company)
        walker.compile()
        super().__init__(walker, Chains.start(walker.first_weights(), plan), plan, share=_SHARES)
        self.started = time.perf_counter()

    def samples(self) -> list[Samples]:
        """Return the samples of each problem."""
        from solspace.samplers.annealing.anneal import drawn, samples_of

        wall = time.perf_counter() - self.started
        info = {"sampler": self.name, "mode": self.lot.mode, "path": self.walker.name, "device": "gpu"}
        checked = self.walker.checked(drawn(self.plan, self.chains))
        results = []
        for number, (problem, key) in enumerate(zip(self.problems, self.keys)):
            own = _rows(self.chains, number, self.lot.n_chains)
            stabilities = None if checked is None else checked.reshape(len(self.keys), -1, problem.m)[number]
            told = {**info, "key": key, "wall_time": wall}
            results.append(samples_of(problem, self.plan, own, told, stabilities))
        return results


def _rows(chains: Chains, number: int, n_chains: int) -> Chains:
    names = ("weights", "draws", "accepted", "energy", "solved_at", "stopped")
    rows = slice(number * n_chains, (number + 1) * n_chains)
    return replace(chains, **{name: getattr(chains, name)[rows] for name in names})


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
                for one in [one for one in going if one.walker.idle and one.prepared.done()]:
                    busy = True
                    try:
                        # a launch of each takes this thread some milliseconds
                        report(one.collect(_BEAT * max(1.0, len(going) / 4)))
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
    compile_ahead(("flips_integer", layout.constants(solve)) for layout in layouts)


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
    from solspace.samplers.annealing.anneal import anneal

    seeds = [None] * len(problems) if rng is None else list(rng)
    if len(seeds) != len(problems):
        raise ValueError(f"rng must hold a seed for each of the {len(problems)} problems; got {len(seeds)}.")
    asked: dict[str, Any] = {"mode": mode, "n_extra": n_extra, "thin": thin}
    if resolve(device) == "cpu":
        return [anneal(p, n_chains, n_sweeps, schedule, r, progress=False, **asked) for p, r in zip(problems, seeds)]
    groups: dict[Any, list[int]] = {}
    for number, problem in enumerate(problems):
        groups.setdefault((problem.n, problem.m, problem.has_binary_patterns, problem.target), []).append(number)
    lots = [
        Lot(partial(list, [problems[k] for k in own]), [seeds[k] for k in own], n_chains, n_sweeps, schedule, **asked,
            tag=own)
        for own in groups.values()
    ]  # fmt: skip
    results: list[Any] = [None] * len(problems)
    with bars.progress(len(lots), "annealing", progress) as bar:
        for lot, made in flow(lots, n_chains * len(problems)):
            if isinstance(made, Exception):
                raise made
            bar.advance(1)
            for number, samples in zip(lot.tag, made):
                results[number] = samples
    return results
