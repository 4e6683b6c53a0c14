"""Tasks on a GPU: many at a time, packed by this process, since one card is best fed by one process.

Tasks of samplers that can draw from many problems at once (`Sampler.draw_many`) go to the device together; its
problems are drawn by threads meanwhile. A batch that fails as a whole is tried again task by task, so that one bad
task does not cost the others their results.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

from solspace.experiments.executors import cores
from solspace.experiments.samplers import find
from solspace.experiments.sampling import observed, problem_of
from solspace.experiments.tasks import Task, finished, run
from solspace.problem import Perceptron
from solspace.store import Result

CHAINS = 8192
"""Chains that keep a device busy: a batch is not made larger."""
_WINDOW = 50_000
"""Tasks that are sorted at a time, so that those of one shape come together."""


def packs(task: Task) -> bool:
    """Return whether the task wants a GPU and can share it with others."""
    values = task.values
    wanted = values["kind"] == "sample" and values["options"].get("device") in ("gpu", "auto")
    if not wanted or find(values["sampler"]).draw_many is None:
        return False
    from solspace.samplers.device import resolve

    try:
        return resolve(values["options"]["device"]) == "gpu"
    except RuntimeError as lack:
        raise ValueError(str(lack)) from None


def on_device(tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None) -> Iterator[Result]:
    """Yield results of tasks that `packs` accepts, a batch at a time."""
    with ThreadPoolExecutor(n_workers or cores()) as pool:
        batches = _batches(iter(tasks), _room())
        ahead = _drawn(next(batches, []), pool)
        while ahead:
            batch, problems = ahead
            ahead = _drawn(next(batches, []), pool)
            yield from _run(batch, [problem.result() for problem in problems])


def _batches(tasks: Iterator[Task], room: float) -> Iterator[list[Task]]:
    """Yield lists of tasks that share sampler, options and number of samples, those of one shape side by side."""
    while window := sorted(itertools.islice(tasks, _WINDOW), key=lambda task: (_company(task), _bytes(task))):
        for _, group in itertools.groupby(window, key=_company):
            batch: list[Task] = []
            size = 0.0
            for task in group:
                size += _bytes(task)
                if batch and (size > room or (len(batch) + 1) * task.values["n_samples"] > CHAINS):
                    yield batch
                    batch, size = [], _bytes(task)
                batch.append(task)
            yield batch


def _company(task: Task) -> str:
    values = task.values
    return json.dumps([values["sampler"], values["options"], values["n_samples"], values["patterns"]], sort_keys=True)


def _bytes(task: Task) -> float:
    """Return the size of the task's patterns in this machine's memory."""
    entries = task.values["n"] ** 2 * task.values["alpha"]
    return entries * (1 if task.values["patterns"] == "binary" else 4)


def _room() -> float:
    """Return the bytes of patterns in a batch: an eighth of the memory, since two batches are held at a time."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 8
    except (AttributeError, ValueError, OSError):
        return 1e9


def _drawn(batch: list[Task], pool: ThreadPoolExecutor) -> tuple[list[Task], list[Future[Perceptron]]] | None:
    return (batch, [pool.submit(problem_of, task) for task in batch]) if batch else None


def _run(batch: list[Task], problems: list[Perceptron]) -> Iterator[Result]:
    values = batch[0].values
    start = time.perf_counter()
    try:
        draw_many = find(values["sampler"]).draw_many
        assert draw_many is not None
        many = draw_many(problems, values["n_samples"], [task.seed for task in batch], values["options"])
    except Exception:
        yield from map(run, batch)
        return
    seconds = (time.perf_counter() - start) / len(batch)
    for task, problem, samples in zip(batch, problems, many):
        yield finished(task, *observed(task, problem, samples), seconds=seconds)
