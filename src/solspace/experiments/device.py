"""Tasks on a GPU: many at a time, packed by this process, since one card is best fed by one process.

Tasks of one shape that ask the same of the same sampler make a lot. Lots go to the sampler's own `feed`, the
longest ones first, which runs them side by side and hands each back when it is done; their problems are drawn by
threads meanwhile. A lot that fails is tried again task by task, so that one bad task does not cost the others their
results.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from solspace.experiments.executors import cores
from solspace.experiments.sampling import observed, problem_of
from solspace.experiments.tasks import Task, finished, run
from solspace.measure import Target
from solspace.problem import Perceptron
from solspace.samplers.registry import Parcel, find
from solspace.store import Result

CHAINS = 2048
"""Samples in a lot at the most."""
_WINDOW = 50_000
"""Tasks that are sorted at a time, so that those of one shape come together."""
_AHEAD = 3
"""Lots whose problems are drawn before their turn."""


@dataclass(frozen=True)
class Batch:
    """Tasks of one shape and the problems that threads draw for them."""

    tasks: Sequence[Task]
    problems: Sequence[Future[Perceptron]]

    def drawn(self) -> list[Perceptron]:
        """Return the problems."""
        return [problem.result() for problem in self.problems]


def packs(task: Task) -> bool:
    """Return whether the task wants a GPU and can share it with others."""
    values = task.values
    wanted = values["kind"] == "sample" and values["options"].get("device") in ("gpu", "auto")
    if not wanted or (sampler := find(values["sampler"])).feed is None:
        return False
    from solspace.samplers.device import resolve

    try:
        there = resolve(values["options"]["device"]) == "gpu"
    except RuntimeError as lack:
        raise ValueError(str(lack)) from None
    return there and sampler.on_device(_like(task), values["options"])


def _like(task: Task) -> Perceptron:
    """Return the smallest problem with the target and the kind of patterns of a task."""
    target = Target.from_dict(task.values["target"])
    return Perceptron.random(1, 1.0, target, task.values["patterns"], rng=0)


def on_device(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results of tasks that `packs` accepts, a lot at a time."""
    tasks, room = iter(tasks), _room()
    with ThreadPoolExecutor(n_workers or cores()) as pool, _quick_turns():
        while window := list(itertools.islice(tasks, _WINDOW)):
            window.sort(key=lambda task: (task.values["sampler"], -_work(task), _company(task)))
            for name, own in itertools.groupby(window, key=lambda task: task.values["sampler"]):
                mine = list(own)
                feed = find(name).feed
                assert feed is not None
                samples = sum(task.values["n_samples"] for task in mine)
                begun = time.perf_counter()
                for parcel, many in feed(map(_parcel, _ahead(_lots(mine, room), pool)), samples, _shapes(mine)):
                    yield from _results(parcel.tag, many, (time.perf_counter() - begun) / len(parcel.tag.tasks))
                    begun = time.perf_counter()


def _parcel(batch: Batch) -> Parcel:
    values, seeds = batch.tasks[0].values, [task.seed for task in batch.tasks]
    return Parcel(batch.drawn, seeds, values["n_samples"], values["options"], tag=batch)


def _shapes(tasks: Iterable[Task]) -> list[tuple[int, int, Any]]:
    """Return the distinct shapes (n, m, options) of tasks with ±1 patterns."""
    found = [(t.values["n"], _m(t), t.values["options"]) for t in tasks if t.values["patterns"] == "binary"]
    return list({json.dumps(shape, sort_keys=True): shape for shape in found}.values())


def _m(task: Task) -> int:
    """Return the number of constraints of a random problem."""
    return max(1, round(task.values["alpha"] * task.values["n"]))


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Let threads hand on the interpreter soon: the one that feeds the device must not wait for those that draw."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(2e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _results(batch: Batch, many: Any, seconds: float) -> Iterator[Result]:
    if isinstance(many, Exception):
        yield from map(run, batch.tasks)
        return
    for task, problem, samples in zip(batch.tasks, batch.drawn(), many):
        yield finished(task, *observed(task, problem, samples), seconds=seconds)


def _lots(tasks: Iterable[Task], room: float) -> Iterator[list[Task]]:
    """Yield lists of tasks that share everything but instance and seed, and fit into the device's memory."""
    for _, group in itertools.groupby(tasks, key=_company):
        lot: list[Task] = []
        for task in group:
            count = len(lot) + 1
            if lot and (count * _bytes(task) > room or count * task.values["n_samples"] > CHAINS):
                yield lot
                lot = []
            lot.append(task)
        yield lot


def _ahead(lots: Iterator[list[Task]], pool: ThreadPoolExecutor) -> Iterator[Batch]:
    """Yield the lots with their problems; threads draw those of the next ones meanwhile."""
    drawn: deque[Batch] = deque()
    for lot in lots:
        drawn.append(Batch(lot, [pool.submit(_problem, task) for task in lot]))
        if len(drawn) > _AHEAD:
            yield drawn.popleft()
    yield from drawn


def _problem(task: Task) -> Perceptron:
    """Return the problem of a task; random ±1 patterns stay packed, since only the device looks at them."""
    values = task.values
    if values["patterns"] != "binary":
        return problem_of(task)
    from solspace.samplers.packed import PackedPerceptron

    seed = task.seed_from("seed", "n", "alpha", "patterns", "instance")
    return PackedPerceptron(values["n"], _m(task), Target.from_dict(values["target"]), rng=seed)


def _company(task: Task) -> str:
    return json.dumps({name: value for name, value in task.values.items() if name != "instance"}, sort_keys=True)


def _work(task: Task) -> float:
    values = task.values
    return find(values["sampler"]).work(values["n"], _m(task), values["n_samples"], values["options"])


def _bytes(task: Task) -> float:
    """Return the size of the task's patterns: chains take those of ±1 as bits."""
    bits = task.values["patterns"] == "binary" and task.values["sampler"] != "asl"
    return task.values["n"] * _m(task) * (1 / 8 if bits else 4)


def _room() -> float:
    """Return the bytes of a lot's patterns: a fraction of the memory, since several lots are held at a time."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 32
    except (AttributeError, ValueError, OSError):
        return 1e9
