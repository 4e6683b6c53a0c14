"""The cost of a sweep, estimated from a few timed tasks.

A sampler states how its work grows with the problem (`Sampler.work`). For each sampler, points of increasing work are timed
while the allowed time lasts; between them the cost per unit of work is interpolated, beyond them it stays constant. A task
is timed when it runs a second time, since the first one compiles code and reads data. Nothing is stored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Set
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from solspace.experiments.executors import one_thread, run_on_one_thread
from solspace.experiments.images import ImageSpec
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.problem import constraints
from solspace.samplers.registry import find
from solspace.store import Store
from solspace.system.plain import Values

_FACTOR = 4.0
"""Least ratio of the work of two timed tasks."""
_SHORT = 0.1
"""Seconds below which a task is timed twice and the shorter time counts."""


class CannotEstimate(ValueError):
    """A task failed when it was timed; the message is the task's."""


@dataclass(frozen=True)
class Cost:
    """Number of tasks, their seconds on one core, and the tasks that were timed: (values, seconds)."""

    tasks: int
    seconds: float
    timed: tuple[tuple[Values, float], ...]


class _Point(NamedTuple):
    work: float
    values: Values
    tasks: int


def stored(tasks: Iterable[Task], store: str | os.PathLike[str], retry: bool = False) -> set[str]:
    """Return the keys of those tasks that a run would skip, since the store holds their results."""
    if not Path(store).exists():
        return set()
    with Store(store) as results:
        statuses = results.statuses(task.key for task in tasks)
    return {key for key, status in statuses.items() if status == "done" or not retry}


def estimate(specs: Iterable[Spec | ImageSpec], allowed: float = 10.0, skipped: Set[str] = frozenset()) -> Cost:
    """Return the cost of all tasks of `specs` but those whose keys are `skipped`, timing for about `allowed` seconds.

    >>> cost = estimate([Spec(n=[5, 7], alpha=0.4, sampler="exact", instances=10)], allowed=1.0)
    >>> cost.tasks, cost.seconds > 0
    (20, True)
    """
    groups: dict[str, list[_Point]] = {}
    for spec in specs:
        for values in spec.points():
            count = spec.instances
            if skipped:
                count = sum(Task({**values, "instance": i}).key not in skipped for i in range(spec.instances))
            m = constraints(values["alpha"], values["n"])
            work = find(values["sampler"]).work(values["n"], m, values["n_samples"], values["options"])
            if count:
                groups.setdefault(values["sampler"], []).append(_Point(work, values, count))
    total, timed = 0.0, list[tuple[Values, float]]()
    with one_thread():
        for group in groups.values():
            times = _time(sorted(group, key=lambda point: point.work), allowed / len(groups))
            timed += [(point.values, seconds) for point, seconds in times]
            known = [math.log(point.work) for point, _ in times]
            rates = [math.log(max(seconds, 1e-6) / point.work) for point, seconds in times]
            total += sum(p.tasks * p.work * math.exp(float(np.interp(math.log(p.work), known, rates))) for p in group)
    return Cost(sum(point.tasks for group in groups.values() for point in group), total, tuple(timed))


def _time(group: list[_Point], allowed: float) -> list[tuple[_Point, float]]:
    """Return points of increasing work with their seconds; the last is the one of most work if the time allows."""
    times: list[tuple[_Point, float]] = []
    for point in group:
        if times:
            last, seconds = times[-1]
            if point.work < _FACTOR * last.work and (point is not group[-1] or point.work == last.work):
                continue
            if seconds * point.work / last.work > allowed:
                break
        seconds = _seconds(Task({**point.values, "instance": 0}))
        allowed -= seconds
        times.append((point, seconds))
    return times


def _seconds(task: Task) -> float:
    first = run_on_one_thread(task)
    if first.status == "failed":
        raise CannotEstimate(first.error.splitlines()[0])
    seconds = run_on_one_thread(task).seconds
    return min(seconds, run_on_one_thread(task).seconds) if seconds < _SHORT else seconds


def duration(seconds: float) -> str:
    """Return a duration in its unit.

    >>> duration(0.004), duration(0.4), duration(90), duration(7300), duration(3e5)
    ('4.0 ms', '0.4 s', '1.5 min', '2.0 h', '3.5 days')
    """
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {name}"
    if seconds < 0.1:
        return f"{1e3 * seconds:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
