"""What a sweep will cost, from a few timed tasks.

A sampler states how its work grows with the problem (`Sampler.work`). Of each sampler's points some are timed, each a few
times dearer than the one before, while the time allowed lasts; between them the cost a unit of work is interpolated,
beyond them the last one holds. A task is timed when it runs a second time: what compiles or reads data first is no
measure. A task that fails is no measure either, and then there is no estimate but its error. Nothing is stored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from solspace.experiments.executors import one_thread, run_on_one_thread
from solspace.experiments.images import ImageSpec
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.problem import constraints
from solspace.samplers.registry import find
from solspace.store import Store
from solspace.system.plain import Values

_STEP = 4.0
"""Factor between the work of two timed tasks."""
_SHORT = 0.1
"""Seconds below which a task is timed twice: the shorter time is the task's, the rest the machine's."""

Probe = tuple[float, Values, float]
"""Work, point and seconds of a timed task."""


class CannotEstimate(ValueError):
    """A task failed while it was timed; the message is the task's."""


@dataclass(frozen=True)
class Cost:
    """Seconds on one core for the tasks to do, how many they are, and the tasks that were timed: (values, seconds)."""

    tasks: int
    seconds: float
    timed: tuple[tuple[Values, float], ...]


def finished(tasks: Iterable[Task], store: str | os.PathLike[str], retry: bool = False) -> set[str]:
    """Return the keys of those `tasks` that a run would not compute, since the store holds their results."""
    if not Path(store).exists():
        return set()
    with Store(store) as results:
        there = results.statuses(task.key for task in tasks)
    return {key for key, status in there.items() if status == "done" or not retry}


def estimate(specs: Iterable[Spec | ImageSpec], allowed: float = 10.0, done: Set[str] = frozenset()) -> Cost:
    """Return the cost of all tasks of `specs` but those whose keys are `done`, timing for about `allowed` seconds.

    >>> cost = estimate([Spec(n=[5, 7], alpha=0.4, sampler="exact", instances=10)], allowed=1.0)
    >>> cost.tasks, cost.seconds > 0
    (20, True)
    """
    groups: dict[str, list[tuple[float, Values, int]]] = {}
    for spec in specs:
        for point in spec.points():
            count = spec.instances
            if done:
                count = sum(Task({**point, "instance": i}).key not in done for i in range(spec.instances))
            m = constraints(point["alpha"], point["n"])
            work = find(point["sampler"]).work(point["n"], m, point["n_samples"], point["options"])
            if count:
                groups.setdefault(point["sampler"], []).append((work, point, count))
    tasks = sum(count for group in groups.values() for _, _, count in group)
    total, timed = 0.0, []
    with one_thread():
        for group in groups.values():
            group.sort(key=lambda entry: entry[0])
            probes = _time(group, allowed / len(groups))
            timed += [(point, seconds) for _, point, seconds in probes]
            total += sum(count * _cost(probes, work) for work, _, count in group)
    return Cost(tasks, total, tuple(timed))


def _time(group: list[tuple[float, Values, int]], allowed: float) -> list[Probe]:
    probes: list[Probe] = []
    for work, point, _ in _ladder(group):
        if probes and probes[-1][2] * work / probes[-1][0] > allowed:
            break
        seconds = _seconds(point)
        allowed -= seconds
        probes.append((work, point, seconds))
    return probes


def _ladder(group: list[tuple[float, Values, int]]) -> Iterator[tuple[float, Values, int]]:
    """Yield points of increasing work, each `_STEP` times dearer than the one before, and the dearest of all."""
    last = 0.0
    for entry in group:
        if entry[0] >= _STEP * last or (entry is group[-1] and entry[0] > last):
            last = entry[0]
            yield entry


def _seconds(point: Values) -> float:
    task = Task({**point, "instance": 0})
    first = run_on_one_thread(task)
    if first.status == "failed":
        raise CannotEstimate(first.error.splitlines()[0])
    seconds = run_on_one_thread(task).seconds
    return min(seconds, run_on_one_thread(task).seconds) if seconds < _SHORT else seconds


def _cost(probes: list[Probe], work: float) -> float:
    known = [math.log(w) for w, _, _ in probes]
    rates = [math.log(max(seconds, 1e-6) / w) for w, _, seconds in probes]
    return work * math.exp(float(np.interp(math.log(work), known, rates)))


def spoken(seconds: float) -> str:
    """Return a duration as people say it.

    >>> spoken(0.004), spoken(0.4), spoken(90), spoken(7300), spoken(3e5)
    ('4.0 ms', '0.4 s', '1.5 min', '2.0 h', '3.5 days')
    """
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    if seconds < 0.1:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
