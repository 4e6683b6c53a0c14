"""What a sweep will cost, from a few timed tasks.

A sampler states how its work grows with the problem (`Sampler.work`). Of each sampler's points a few are timed, from
the cheapest upwards while the time allowed lasts; between them the cost a unit of work is interpolated, beyond them
the last one holds. Nothing is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.experiments.executors import one_thread, run_on_one_thread
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.samplers.registry import find

_PROBES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where in the list of points, sorted by work, tasks are timed."""


@dataclass(frozen=True)
class Estimate:
    """Seconds on one core for all tasks, and the tasks that were timed: (values, seconds)."""

    tasks: int
    seconds: float
    timed: tuple[tuple[dict[str, Any], float], ...]


def estimate(specs: Iterable[Spec], allowed: float = 10.0) -> Estimate:
    """Return the cost of all tasks of `specs`, timing tasks for about `allowed` seconds in all.

    >>> cost = estimate([Spec(n=[5, 7], alpha=0.4, sampler="exact", instances=10)], allowed=1.0)
    >>> cost.tasks, cost.seconds > 0
    (20, True)
    """
    groups: dict[str, list[tuple[float, dict[str, Any], int]]] = {}
    for spec in specs:
        for point in spec.points():
            work = find(point["sampler"]).work(point["n"], _m(point), point["n_samples"], point["options"])
            groups.setdefault(point["sampler"], []).append((work, point, spec.instances))
    tasks = sum(instances for group in groups.values() for _, _, instances in group)
    total, timed = 0.0, []
    with one_thread():
        for group in groups.values():
            group.sort(key=lambda entry: entry[0])
            probes = _time(group, allowed / len(groups))
            timed += [(point, seconds) for _, point, seconds in probes]
            total += sum(instances * _cost(probes, work) for work, _, instances in group)
    return Estimate(tasks, total, tuple(timed))


def _m(point: dict[str, Any]) -> int:
    return max(1, round(point["alpha"] * point["n"]))


def _time(group: list[tuple[float, dict[str, Any], int]], allowed: float) -> list[tuple[float, dict[str, Any], float]]:
    places = sorted({round(part * (len(group) - 1)) for part in _PROBES})
    probes: list[tuple[float, dict[str, Any], float]] = []
    run_on_one_thread(Task({**group[0][1], "instance": 0}))  # compilation and first touches do not count
    for place in places:
        work, point, _ = group[place]
        expected = probes[-1][2] * work / probes[-1][0] if probes else 0.0
        if expected > allowed:
            break
        seconds = run_on_one_thread(Task({**point, "instance": 0})).seconds
        allowed -= seconds
        probes.append((work, point, seconds))
    return probes


def _cost(probes: list[tuple[float, dict[str, Any], float]], work: float) -> float:
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
