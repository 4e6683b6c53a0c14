"""Batches of problems on a CUDA device, which thousands of chains or samples keep busy.

The problems of a `Batch` have one shape and share their launches. `run_batches` runs batches of any shapes side by side and
starts the next ones as soon as there is room, so that the device waits neither for the longest chain of a batch nor for the
host: threads prepare the next batches and turn the samples of the last ones into results.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from solspace.measure import Target
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import BEAT, Chains, Plan, Run, key_of, pool
from solspace.samplers.annealing.cpu import Lattice
from solspace.samplers.annealing.gpu import ROOM, GpuFlips, processors
from solspace.samplers.annealing.gpu_flips import GpuIntegerFlips, GpuRealFlips, IntegerLayout, RealLayout
from solspace.samplers.device import cupy, device_errors, fetched, own_stream
from solspace.samplers.kernels.cuda import Sizes
from solspace.samples import Samples
from solspace.system import threads

CHAINS = 4608  # chains that keep a device busy
FILLED = 0.8  # share of the multiprocessors that chains side by side may take; with more, launches wait in line
_LAUNCHES = 48  # launches side by side whose orders of sites must fit into a quarter of the device's memory
_PREPARED = 4  # batches that are prepared while others run
_FINISHING = 4  # batches whose samples become results side by side
_DONE = 4  # batches whose results may wait for the consumer
_CALLS = 16  # calls of samplers side by side
_NAP = 5e-4  # seconds between two looks at launches under way


class Shape(NamedTuple):
    n: int
    m: int
    binary_patterns: bool
    target: Target


@dataclass(frozen=True)
class Batch:
    """Problems of one shape with a seed each, and the sampler and its `Config` for all of them.

    A thread calls `draw` when the batch's turn comes: it returns each problem with an object that is kept until the problem is
    on the device. Another thread calls `finish` with problems and samples; `run_batches` yields what it returns.
    """

    sampler: str
    shape: Shape
    n_samples: int  # of each problem
    config: Any
    seeds: Sequence[RNG]
    draw: Callable[[], list[tuple[Perceptron, Any]]] = list
    finish: Callable[[list[Perceptron], list[Samples]], Any] = lambda problems, samples: samples
    tag: Any = None


class Running(NamedTuple):
    batch: Batch
    problems: list[Perceptron]
    job: ChainJob | CallJob

    def finished(self) -> Any:
        return self.batch.finish(self.problems, self.job.samples())


def movable(problem: Perceptron) -> bool:
    """Return whether a device can move the weights of a problem."""
    return problem.target.prior.name == "binary" and problem.plain


def check_movable(problems: Sequence[Perceptron]) -> None:
    if not all(map(movable, problems)):
        raise ValueError(
            "a GPU moves ±1 weights of problems without an intercept, clamped weights and sample_weight; use device='cpu'."
        )


def gpu_flips(
    problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int, total: int = 0, share: int = 1
) -> GpuFlips:
    check_movable(problems)
    kind = GpuIntegerFlips if problems[0].has_binary_patterns else GpuRealFlips
    return kind(problems, plan, keys, n_chains, total, share)


def flips_module(
    shape: Shape, chains: int, *, solve: bool = False, fielded: bool = False, linear: bool = False, own: bool = False
) -> tuple[str, Sizes]:
    """Return the module of the kernel that `chains` chains will need, to be compiled ahead.

    `fielded`: the chains are in a field; `linear`: potentials have no powers; `own`: each chain has patterns of its own.
    """
    field, count = (("FIELD", int(fielded)),), processors()
    if shape.binary_patterns:
        integer = IntegerLayout.choose(shape.m, Lattice(shape.n, shape.m).size, chains, count, own)
        return "flips_integer", integer.constants(solve) + field
    return "flips_real", RealLayout.choose(shape.m, True, chains, count, linear, own).constants(solve) + field


class ChainJob(Run):
    """The chains of a batch, launched for some sweeps at a time, beside `total` chains in all.

    `share` is the part of the device that it takes; jobs in `pairs` run beside one other whatever their shares, since one waits
    while the host looks at the other.
    """

    flips: GpuFlips
    pairs = True

    def __init__(
        self, batch: Batch, problems: Sequence[Perceptron], plan: Plan, total: int, named: bool = True
    ) -> None:
        self.problems, self.n_chains, self.named = problems, batch.n_samples, named
        self.keys = [key_of(seed) for seed in batch.seeds]
        with own_stream():
            flips = gpu_flips(problems, plan, self.keys, batch.n_samples, total, _launches())
            flips.compile()
            super().__init__(flips, Chains.start(flips.first_weights(), plan), plan)
        self.share = len(problems) * batch.n_samples / (flips.layout.held * FILLED * processors())
        # of the problems and a launch, about
        self.nbytes = int(flips.columns.nbytes) + 4 * min(flips.most, len(plan)) * len(problems) * flips.n
        self.copying = list[Future[None]]()
        self.started = time.perf_counter()

    @property
    def idle(self) -> bool:
        return bool(self.flips.stream.done) and self.prepared.done()

    def copy_results(self) -> None:
        """Wait for the launch under way; another thread copies what it recorded, while the next one runs."""
        launched = self.flips.synchronize(self.chains)
        self.copying.append(pool().submit(self.flips.copy_records, self.chains, *launched))

    def samples(self) -> list[Samples]:
        for one in self.copying:
            one.result()
        if self.plan.solve:
            with own_stream():
                self.chains.weights[...] = fetched(self.flips.weights)
        record = {"kernel": self.flips.kernel, "device": "gpu", "wall_time": time.perf_counter() - self.started}
        stabilities = self.flips.stabilities(self.chains.drawn(self.plan))
        results, k = [], self.n_chains
        for i, (problem, key) in enumerate(zip(self.problems, self.keys)):
            chains = self.chains.of(slice(i * k, (i + 1) * k))
            own = None if stabilities is None else stabilities.reshape(len(self.keys), -1, problem.m)[i]
            results.append(chains.samples(problem, self.plan, own, self.named, key=key, **record))
        return results

    def stop(self) -> None:
        """A launch is short: it ends by itself."""


class CallJob:
    """A call of a sampler in a thread with a stream of its own; it must call the function that it is passed now and then."""

    nbytes, pairs, done = 0, False, True

    def __init__(self, call: Callable[[Callable[[object], None]], list[Samples]], share: float) -> None:
        self.call, self.share = call, share
        self.stopped = threading.Event()

    def launch(self) -> None:
        self.future = threads.pool(_CALLS, "samples").submit(self._run)

    def _run(self) -> list[Samples]:
        with own_stream():
            return self.call(self._report)

    def _report(self, state: object) -> None:
        if self.stopped.is_set():
            raise InterruptedError

    @property
    def idle(self) -> bool:
        return self.future.done()

    def collect(self, beat: float = 0.0) -> None:
        """All is done."""

    def samples(self) -> list[Samples]:
        return self.future.result()

    def stop(self) -> None:
        self.stopped.set()
        wait([self.future])


Job: TypeAlias = ChainJob | CallJob
# (batch, its problems, number of samples in all batches) -> the job
Start = Callable[[Batch, list[Perceptron], int], Job]


def _launches() -> int:
    """Return among how many launches the memory of one alone is divided: the fewer, the longer a launch."""
    return max(1, -(-_LAUNCHES * 4 * ROOM // (_memory() // 4)))


def _memory() -> int:
    return int(cupy().cuda.Device().mem_info[1])


def _free_memory() -> None:
    """Return memory that CuPy keeps for idle streams to the device, where that is much."""
    memory = cupy().get_default_memory_pool()
    if memory.free_bytes() > _memory() // 4:
        memory.free_all_blocks()


def run_batches(
    batches: Iterable[Batch], start: Start, total: int = CHAINS
) -> Generator[tuple[Batch, Any], None, None]:
    """Yield each batch with what its `finish` returns, or the exception that it met, as they come.

    As many run at a time as there is room for, on a quarter of the device's memory at most. A thread of its own drives the
    device, which does not wait for the consumer; after an interrupt there, results that are ready are still yielded.
    """
    done: queue.Queue[Any] = queue.Queue(_DONE)
    stopped = threading.Event()

    def put(item: object) -> None:
        while not stopped.is_set():
            try:
                return done.put(item, timeout=0.1)
            except queue.Full:
                continue

    def drive() -> None:
        try:
            for result in _driven(iter(batches), start, total, stopped):
                put(result)
            put(None)
        except BaseException as error:
            put(error)

    driver = threading.Thread(target=drive, name="batches", daemon=True)
    driver.start()
    try:
        for result in iter(done.get, None):
            if isinstance(result, BaseException):
                with device_errors():
                    raise result
            yield result
    except KeyboardInterrupt:
        stopped.set()
        driver.join()
        while not done.empty():
            result = done.get_nowait()
            if isinstance(result, tuple):
                yield result
        raise
    finally:
        stopped.set()
        driver.join()


def _driven(
    waiting: Iterator[Batch], start: Start, total: int, stopped: threading.Event
) -> Iterator[tuple[Batch, Any]]:
    """Yield what `run_batches` does, until it is `stopped`; this thread launches and collects, others prepare and finish."""
    running, prepared = list[Running](), list[tuple[Batch, Future[Running]]]()
    leaving = deque[tuple[Batch, Future[Any]]]()
    memory = _memory() // 4

    def prepare(batch: Batch) -> Running:
        _free_memory()
        drawn = batch.draw()
        problems = [problem for problem, _ in drawn]
        return Running(batch, problems, start(batch, problems, total))

    with ThreadPoolExecutor(_PREPARED, "prepare") as preparing, ThreadPoolExecutor(_FINISHING, "finish") as finishing:
        try:
            while not stopped.is_set():
                while len(prepared) < _PREPARED and (batch := next(waiting, None)) is not None:
                    prepared.append((batch, preparing.submit(prepare, batch)))
                if not (running or prepared or leaving):
                    return
                busy = False
                while leaving and (leaving[0][1].done() or not (running or prepared)):
                    busy = True
                    batch, result = leaving.popleft()
                    error = result.exception()
                    yield batch, result.result() if error is None else error
                if len(leaving) < 2 * _FINISHING and (place := _next(running, prepared, memory)) is not None:
                    busy = True
                    batch, ready = prepared.pop(place)
                    try:
                        ready.result().job.launch()
                        running.append(ready.result())
                    except Exception as failure:  # yielded after batches that were done before
                        leaving.append((batch, finishing.submit(_raise, failure)))
                for one in list(running):
                    try:
                        if not one.job.idle:
                            continue
                        busy = True
                        # a launch of each takes this thread some milliseconds
                        one.job.collect(BEAT * max(1.0, len(running) / 4))
                        if not one.job.done:
                            one.job.launch()
                            continue
                        leaving.append((one.batch, finishing.submit(one.finished)))
                    except Exception as failure:
                        leaving.append((one.batch, finishing.submit(_raise, failure)))
                    running.remove(one)
                if not busy:
                    time.sleep(_NAP)
        finally:
            for one in running:
                one.job.stop()
            for _, pending in (*prepared, *leaving):
                pending.cancel()


def _next(running: list[Running], prepared: list[tuple[Batch, Future[Running]]], memory: int) -> int | None:
    """Return the place of the batch to launch: the first that is prepared and finds room, where more than one runs already."""
    taken, held = sum(one.job.share for one in running), sum(one.job.nbytes for one in running)
    for place, (_, future) in enumerate(prepared):
        if not future.done():
            continue
        if not running or future.exception():
            return place
        job = future.result().job
        fits = (job.pairs and len(running) == 1) or taken + job.share <= 1.0 + 1e-9
        if fits and held + job.nbytes <= memory:
            return place
    return None


def _raise(error: Exception) -> None:
    raise error
