"""Tasks on a GPU: many at a time, packed by this process, since one card is best fed by one process.

Tasks of one shape that ask the same of the same sampler make a lot. Lots go to the sampler's own `draw_many`, the
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
from solspace.experiments.samplers import count, find
from solspace.experiments.sampling import observed, problem_of
from solspace.experiments.tasks import Task, finished, run
from solspace.measure import Target
from solspace.problem import Perceptron
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
    if not wanted or find(values["sampler"]).draw_many is None or not find(values["sampler"]).fits_device(values):
        return False
    from solspace.samplers.device import resolve

    try:
        return resolve(values["options"]["device"]) == "gpu"
    except RuntimeError as lack:
        raise ValueError(str(lack)) from None


def on_device(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results of tasks that `packs` accepts, a lot at a time."""
    tasks, room = iter(tasks), _room()
    with ThreadPoolExecutor(n_workers or cores()) as pool, _quick_turns():
        while window := list(itertools.islice(tasks, _WINDOW)):
            window.sort(key=lambda task: (task.values["sampler"], -_work(task), _company(task)))
            for name, own in itertools.groupby(window, key=lambda task: task.values["sampler"]):
                mine = list(own)
                draw_many = find(name).draw_many
                assert draw_many is not None
                begun = time.perf_counter()
                for batch, many in draw_many(_ahead(_lots(mine, room), pool), mine):
                    yield from _results(batch, many, (time.perf_counter() - begun) / len(batch.tasks))
                    begun = time.perf_counter()


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
    return PackedPerceptron(values["n"], count(task.values), Target.from_dict(values["target"]), rng=seed)


def _company(task: Task) -> str:
    return json.dumps({name: value for name, value in task.values.items() if name != "instance"}, sort_keys=True)


def _work(task: Task) -> float:
    values = task.values
    return find(values["sampler"]).work(values["n"], count(task.values), values["n_samples"], values["options"])


def _bytes(task: Task) -> float:
    """Return the size of the task's patterns: chains take those of ±1 as bits."""
    bits = task.values["patterns"] == "binary" and task.values["sampler"] != "asl"
    return task.values["n"] * count(task.values) * (1 / 8 if bits else 4)


def _room() -> float:
    """Return the bytes of a lot's patterns: a fraction of the memory, since several lots are held at a time."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 32
    except (AttributeError, ValueError, OSError):
        return 1e9
