"""Annealing of many problems on a CUDA device, which thousands of chains keep busy.

A `Lot` holds problems of one shape, which share their launches; `flow` runs lots of any shapes side by side, and takes up
the next ones as room is made, so that the device never waits for the longest chain of a batch.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.gpu import ROOM, GpuFlips, processors
from solspace.samplers.annealing.gpu_integer import GpuIntegerFlips
from solspace.samplers.annealing.gpu_real import GpuRealFlips
from solspace.samplers.annealing.integer_levels import Lattice
from solspace.samplers.annealing.layout import IntegerLayout, RealLayout
from solspace.samplers.annealing.run import BEAT, Run, pool
from solspace.samplers.device import cupy, fetched, own_stream
from solspace.samplers.kernels.cuda import Sizes, compile_ahead
from solspace.samples import Samples

CHAINS = 4608
"""Chains that keep a device busy."""
FILLED = 0.8
"""Share of the multiprocessors' room that launches side by side may take up. What waits in line for room keeps all behind it
waiting, so that more at a time make a device slower."""
_LAUNCHES = 48
"""Launches side by side whose orders of sites must fit into a quarter of the device's memory."""
_COMING = 3
"""Lots that are made ready while others run."""
_LEAVING = 4
"""Lots whose samples are looked at side by side."""
_DONE = 4
"""Lots that are done and may wait for whoever takes them."""
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

    `problems` is called when the lot's turn comes; `plan` makes the sampler's name and the plan from the target; `ready` gives
    what was made of the problems beforehand, to be held until they are on the device; a thread calls `finish` with the
    samples, and what it returns is what `flow` yields; `named` says whether samples are to know the name of their problem,
    and `tag` is for whoever made the lot.
    """

    problems: Callable[[], Sequence[Perceptron]]
    seeds: Sequence[RNG]
    n_chains: int
    plan: Callable[[Perceptron], tuple[str, Plan]]
    ready: Callable[[], Any] = lambda: None
    finish: Callable[[list[Samples]], Any] = list
    named: bool = True
    tag: Any = None


class LotRun(Run):
    """The chains of a lot on their way, beside `company` chains in all."""

    flips: GpuFlips

    def __init__(self, lot: Lot, company: int) -> None:
        _tidy()
        self.lot, self.problems = lot, list(lot.problems())
        held = lot.ready()
        self.keys = [key_of(seed) for seed in lot.seeds]
        self.name, plan = lot.plan(self.problems[0])
        with own_stream():
            flips = gpu_flips(self.problems, plan, self.keys, lot.n_chains, company, _shares())
            del held
            flips.compile()
            super().__init__(flips, Chains.start(flips.first_weights(), plan), plan)
        self.settling = list[Future[None]]()
        self.started = time.perf_counter()

    def _take(self) -> None:
        """Wait for the launch under way; another thread takes over what it recorded, while the next one runs."""
        walked = self.flips.meet(self.chains, weights=False)
        self.settling.append(pool().submit(self.flips.settle, self.chains, walked))

    def samples(self) -> list[Samples]:
        """Return the samples of each problem."""
        for one in self.settling:
            one.result()
        if self.plan.solve:
            with own_stream():
                self.chains.weights[...] = fetched(self.flips.weights)
        wall, k = time.perf_counter() - self.started, self.lot.n_chains
        checked = self.flips.stabilities(self.chains.drawn(self.plan))
        results = []
        for i, (problem, key) in enumerate(zip(self.problems, self.keys)):
            own = self.chains.of(slice(i * k, (i + 1) * k))
            stabilities = None if checked is None else checked.reshape(len(self.keys), -1, problem.m)[i]
            told = {"sampler": self.name, "kernel": self.flips.kernel, "device": "gpu", "key": key, "wall_time": wall}
            results.append(own.samples(problem, self.plan, stabilities, self.lot.named, **told))
        return results

    def finished(self) -> Any:
        """Return what the lot's `finish` makes of the samples."""
        return self.lot.finish(self.samples())


def _shares() -> int:
    """Return among how many launches the room of one alone is divided.

    The fewer, the longer a launch: what this process has to do between two of them is what a device waits for.
    """
    return max(1, -(-_LAUNCHES * 4 * ROOM // (int(cupy().cuda.Device().mem_info[1]) // 4)))


def _tidy() -> None:
    """Give memory back that CuPy keeps for streams which no longer ask for it, where that is much."""
    device = cupy()
    memory = device.get_default_memory_pool()
    if memory.free_bytes() > device.cuda.Device().mem_info[1] // 4:
        memory.free_all_blocks()


def flow(lots: Iterable[Lot], company: int = CHAINS) -> Generator[tuple[Lot, Any], None, None]:
    """Yield each lot with what its `finish` made of its samples, or the error that it met, as they come.

    As many run at a time as there is room for, on a quarter of the device's memory at the most; `company` is how many chains
    there are in all, which decides how each is laid out. A thread of its own drives the device, which does not wait for
    whoever takes the results; where that one is interrupted, it gets those that are done first.
    """
    done: queue.Queue[Any] = queue.Queue(_DONE)
    stopped = threading.Event()

    def hand(made: object) -> None:
        while not stopped.is_set():
            try:
                return done.put(made, timeout=0.1)
            except queue.Full:
                continue

    def drive() -> None:
        try:
            for made in _driven(iter(lots), company, stopped):
                hand(made)
            hand(None)
        except BaseException as error:
            hand(error)

    driver = threading.Thread(target=drive, name="flow", daemon=True)
    driver.start()
    try:
        for made in iter(done.get, None):
            if isinstance(made, BaseException):
                raise made
            yield made
    except KeyboardInterrupt:  # what is done is handed over first
        stopped.set()
        driver.join()
        while not done.empty():
            made = done.get_nowait()
            if isinstance(made, tuple):
                yield made
        raise
    finally:
        stopped.set()
        driver.join()


def _driven(waiting: Iterator[Lot], company: int, stopped: threading.Event) -> Iterator[tuple[Lot, Any]]:
    """Yield what `flow` does, until it is `stopped`.

    Threads make the next lots ready and finish those that are done; what this thread does, launching and collecting, is what
    the device waits for.
    """
    going = list[LotRun]()
    coming, leaving = list[tuple[Lot, Future[LotRun]]](), deque[tuple[Lot, Future[Any]]]()
    most = int(cupy().cuda.Device().mem_info[1]) // 4
    with ThreadPoolExecutor(_COMING, "lots") as builder, ThreadPoolExecutor(_LEAVING, "samples") as finisher:
        try:
            while not stopped.is_set():
                while len(coming) < _COMING and (lot := next(waiting, None)) is not None:
                    coming.append((lot, builder.submit(LotRun, lot, company)))
                if not (going or coming or leaving):
                    return
                busy = False
                while leaving and (leaving[0][1].done() or not (going or coming)):
                    busy = True
                    lot, future = leaving.popleft()
                    yield lot, _outcome(future)
                if len(leaving) < 2 * _LEAVING and (which := _next(going, coming, most)) is not None:
                    busy = True
                    lot, made = coming.pop(which)
                    try:
                        made.result().launch()
                        going.append(made.result())
                    except Exception as error:
                        leaving.append((lot, _failed(error)))
                for one in list(going):
                    try:
                        if not (one.flips.idle and one.prepared.done()):
                            continue
                        busy = True
                        # a launch of each takes this thread some milliseconds
                        one.collect(BEAT * max(1.0, len(going) / 4))
                        if not one.done:
                            one.launch()
                            continue
                        leaving.append((one.lot, finisher.submit(one.finished)))
                        going.remove(one)
                    except Exception as error:
                        going.remove(one)
                        leaving.append((one.lot, _failed(error)))
                if not busy:
                    time.sleep(_NAP)
        finally:
            for _, pending in (*coming, *leaving):
                pending.cancel()


def _next(going: list[LotRun], coming: list[tuple[Lot, Future[LotRun]]], most: int) -> int | None:
    """Return which lot is to be launched: the first that is ready and finds room, where more than one runs already."""
    places, held = (sum(getattr(one.flips, what) for one in going) for what in ("places", "nbytes"))
    for k, (_, made) in enumerate(coming):
        if not made.done():
            continue
        if not going or made.exception():
            return k
        flips = made.result().flips
        # of two, one runs while the host looks at the other
        fits = len(going) == 1 or places + flips.places <= FILLED * processors()
        if fits and held + flips.nbytes <= most:
            return k
    return None


def _failed(error: Exception) -> Future[Any]:
    """Return a future of what failed, so that lots which were done before are yielded before it."""
    future: Future[Any] = Future()
    future.set_exception(error)
    return future


def _outcome(future: Future[Any]) -> Any:
    """Return what a thread made, or the error that it met."""
    try:
        return future.result()
    except Exception as error:
        return error


class ChainShape(NamedTuple):
    """What chains will be like: what their kernel is compiled for."""

    n: int
    m: int
    signs: bool
    """Whether patterns are ±1."""
    company: int
    """How many chains there are at a time."""
    solve: bool = False
    fielded: bool = False
    """Whether they feel a field."""
    linear: bool = False
    """Whether potentials have no powers."""
    own: bool = False
    """Whether each has a problem of its own."""


def warm(shapes: Iterable[ChainShape]) -> None:
    """Compile side by side what chains of these shapes will need, before the first of them is run."""
    count = processors()
    compile_ahead([_module(shape, count) for shape in shapes])


def _module(shape: ChainShape, processors: int) -> tuple[str, Sizes]:
    n, m, signs, company, solve, fielded, linear, own = shape
    field = (("FIELD", int(fielded)),)
    if signs:
        layout = IntegerLayout.choose(m, Lattice(n, m).size, company, processors, own)
        return "flips_integer", layout.constants(solve) + field
    return "flips_real", RealLayout.choose(m, True, company, processors, linear, own).constants(solve) + field
