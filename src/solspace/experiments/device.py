"""Tasks on a GPU: many at a time, in batches, driven by one process for each card.

Tasks that differ in instance and seed alone make a batch, and so do their results, which are stored with one write.
`run_batches` runs batches side by side, the longest first; threads draw the next problems meanwhile, and those that several
tasks share once. If a batch fails, its tasks are retried one by one.
"""

from __future__ import annotations

import itertools
import json
import os
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import lru_cache, partial
from operator import itemgetter
from threading import Lock
from typing import Any

from joblib import cpu_count

from solspace.experiments.tasks import Sampled, Stream, Task, finished, function, one_thread, run, sample, unless_empty
from solspace.measure import Target
from solspace.problem import Perceptron, constraints
from solspace.samplers.annealing.batches import Batch, Shape, run_batches
from solspace.samplers.device import NoDevice, check_answer, device_errors, resolve
from solspace.samplers.kernels.cuda import compile_ahead
from solspace.samplers.packed import PackedPerceptron
from solspace.samplers.registry import DeviceMethod, find
from solspace.samples import Samples
from solspace.store import Result
from solspace.system.plain import plain

_WINDOW = 75_000  # tasks that are sorted at a time, so that those of one shape come together


def packs(task: Task) -> bool:
    """Return whether the process that drives the card of this machine, if there is one, should compute the task."""
    try:
        return wants_device(task) and resolve(task.values["options"]["device"]) == "gpu"
    except NoDevice as lack:
        raise ValueError(str(lack)) from None


def wants_device(task: Task) -> bool:
    """Return whether the task requires a GPU, or takes one if it can share it with others."""
    device = task.values.get("options", {}).get("device")
    return device == "gpu" or (device == "auto" and _shares(task))


def _shares(task: Task) -> bool:
    names = "sampler", "kind", "patterns", "target", "options"
    return _supported(json.dumps([task.values.get(name) for name in names]))


@lru_cache(maxsize=4096)
def _supported(config: str) -> bool:
    """Return whether a device supports (sampler, kind of task, ensemble, target, options), as JSON."""
    name, kind, patterns, target, options = json.loads(config)
    sampler = find(name)
    if sampler.method is None or not isinstance(function(kind), Sampled):
        return False
    # of data, chains support all; the others depend on what they are like
    smallest = Perceptron.random(1, 1.0, Target.from_dict(target), patterns or "gaussian", rng=0)
    return (patterns is not None or sampler.anywhere) and sampler.on_device(smallest, sampler.config(**options))


def on_device(tasks: Iterable[Task], n_workers: int | None = None) -> Stream:
    if not (tasks := unless_empty(tasks)):
        return
    tasks, room = iter(tasks), _room()
    with closing(Drawing(n_workers or cpu_count(), 3 * room)) as drawing, one_thread():
        while window := list(itertools.islice(tasks, _WINDOW)):
            points: dict[tuple[str, float, str, str], list[Task]] = {}
            for task in window:
                if _shares(task):
                    points.setdefault(_order(task), []).append(task)
                else:
                    yield _one_by_one([task])
            # those of the same patterns come together, whatever their sampler: they are drawn and sent once
            for _, orders in itertools.groupby(sorted(points), key=itemgetter(0)):
                yield from _of_one_method([points[order] for order in orders], drawing, room)


def _of_one_method(points: Sequence[list[Task]], drawing: Drawing, room: float) -> Stream:
    """Yield the results of lists of tasks that differ in instance and seed alone."""
    method, batches = _method(points[0][0]), list[Batch]()
    for tasks in points:
        size = max(1, min(int(room / _bytes(tasks[0])), method.most // tasks[0].values["n_samples"]))
        batches += [_batch(tasks[first : first + size], drawing) for first in range(0, len(tasks), size)]
    total = sum(len(batch.seeds) * batch.n_samples for batch in batches)
    with device_errors():
        compile_ahead(module for batch in batches if (module := method.module(batch, total)) is not None)
    with closing(run_batches(batches, method.start, total)) as stream:
        for batch, results in stream:
            yield _one_by_one(batch.tag, results) if isinstance(results, Exception) else results


def _method(task: Task) -> DeviceMethod:
    method = find(task.values["sampler"]).method
    assert method is not None
    return method(task.config)


def _one_by_one(tasks: Sequence[Task], error: Exception | None = None) -> list[Result]:
    """Return the results of tasks, which may have failed together; raise where the device failed."""
    if error is not None:
        check_answer(error)
    results = [run(task) for task in tasks]
    if any(result.status == "failed" for result in results):
        check_answer(error)
    return results


def _batch(tasks: list[Task], drawing: Drawing) -> Batch:
    first, seeds = tasks[0], [task.seed for task in tasks]
    target = Target.from_dict(first.values["target"])
    return Batch(
        first.values["sampler"], Shape(*_size(first), _of_signs(first), target), first.values["n_samples"], first.config,
        seeds, partial(drawing.problems, tasks, target), partial(_results, tasks), tag=tasks,
    )  # fmt: skip


def _results(tasks: list[Task], problems: list[Perceptron], samples: list[Samples]) -> list[Result]:
    kept = function(tasks[0].values["kind"]).observe(tasks, problems, samples)
    return [
        finished(task, plain(numbers), arrays, seconds=(own.info.wall_time or 0.0) / len(tasks))
        for task, (numbers, arrays), own in zip(tasks, kept, samples)
    ]


def _size(task: Task) -> tuple[int, int]:
    return task.values["n"], constraints(task.values["alpha"], task.values["n"])


def _of_signs(task: Task) -> bool:
    return task.values.get("patterns") == "binary"


class Drawing:
    """Threads that draw problems; the last ones, of `room` bytes, are kept for other tasks."""

    def __init__(self, n_threads: int, room: float) -> None:
        self.pool, self.lock = ThreadPoolExecutor(n_threads, "problems"), Lock()
        self.room, self.held = room, 0.0
        self.kept: OrderedDict[str, tuple[Future[tuple[Perceptron, Any]], float]] = OrderedDict()

    def close(self) -> None:
        self.pool.shutdown(cancel_futures=True)

    def problems(self, tasks: list[Task], target: Target) -> list[tuple[Perceptron, Any]]:
        """Return the problems of tasks under their own target, which may not be that of the tasks they were drawn for."""
        with self.lock:
            futures = [self.submit(task) for task in tasks]
        drawn = (future.result() for future in futures)
        return [(problem if problem.target == target else problem.with_target(target), own) for problem, own in drawn]

    def submit(self, task: Task) -> Future[tuple[Perceptron, Any]]:
        """Return the problem of a task, under way or drawn for another task."""
        key = _patterns(task, "instance")
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key][0]
        future, size = self.pool.submit(_drawn, task), _bytes(task)
        self.kept[key] = future, size
        self.held += size
        while self.held > self.room and len(self.kept) > 1:
            self.held -= self.kept.popitem(last=False)[1][1]
        return future


def _drawn(task: Task) -> tuple[Perceptron, Any]:
    problem = _problem(task)
    return problem, _method(task).prepare(problem, task.values["sampler"], task.config)


def _problem(task: Task) -> Perceptron:
    """Return the problem of a task; random ±1 patterns stay packed, since only the device reads them."""
    if not _of_signs(task):
        return function(task.values["kind"]).problem(task)
    target = Target.from_dict(task.values["target"])
    return PackedPerceptron(*_size(task), target, rng=task.seed_from(*sample.depends))


def _patterns(task: Task, *more: str) -> str:
    """Return what the patterns of a task depend on except the instance, and `more` of its values."""
    names = [name for name in function(task.values["kind"]).depends if name != "instance"]
    return json.dumps([task.values["kind"], *(task.values[name] for name in (*names, *more))])


def _order(task: Task) -> tuple[str, float, str, str]:
    """Return what sorts a task: method, work, patterns, and everything but the instance."""
    point = json.dumps({name: value for name, value in task.values.items() if name != "instance"}, sort_keys=True)
    return _method(task).name, -work_of(task), _patterns(task), point


def work_of(task: Task) -> float:
    return find(task.values["sampler"]).work(*_size(task), task.values["n_samples"], task.config)


def _bytes(task: Task) -> float:
    """Return the memory of a task; chains take patterns of ±1 as bits, others twice, in fixed point too."""
    values, (n, m) = task.values, _size(task)
    entry = (1 / 8 if values["sampler"] != "asl" else 1 / 4) if _of_signs(task) else 8
    draws = values["options"].get("n_extra", 0) // values["options"].get("thin", 10)
    return n * (m * entry + values["n_samples"] * (1 + draws))


def _room() -> float:
    """Return the bytes of a batch: a fraction of the memory, since several batches are held at a time."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 32
    except (AttributeError, ValueError, OSError):
        return 1e9
