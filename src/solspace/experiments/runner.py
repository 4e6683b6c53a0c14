"""Run tasks into a store: skip those that it holds, compute the others, add each result when it is there; and what it costs.

A run keeps no state but its results: to go on after an interruption is to run the same thing again.

The cost is estimated from tasks that are timed, at points of increasing work (`Sampler.work`) while the allowed time lasts;
between them the cost per unit of work is interpolated, beyond them it stays constant.
"""

from __future__ import annotations

import itertools
import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Set
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from solspace.experiments.device import packs, wants_device, work_of
from solspace.experiments.executors import EXECUTORS, RunConfig
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task, instances_of, one_thread, run
from solspace.store import Store
from solspace.store.file import warn_damaged
from solspace.system.plain import Values
from solspace.system.progress import progress

if TYPE_CHECKING:
    from solspace.experiments.images import ImageSpec

_CHUNK = 200
_SEARCHED = 10_000  # tasks that are searched for one on a device, for it and the processors to work side by side
_FACTOR = 4.0  # least ratio of the work of two timed tasks
_SHORT = 0.1  # seconds below which a task is timed twice and the shorter time counts
Tasks = Callable[[], Iterable[Task]]  # returns the tasks, each time from the first


@dataclass
class Outcome:
    """Numbers of tasks computed, and of those that failed."""

    computed: int = 0
    failed: int = 0


def sweep(
    spec: Spec | Iterable[Spec] | str | os.PathLike[str],
    store: str | os.PathLike[str] = "runs.db",
    executor: str = "processes",
    *,
    scheduler: str | None = None,
    n_workers: int | None = None,
    retry: bool = False,
    show_progress: bool | None = None,
) -> Results:
    """Run all tasks of a spec that a store does not hold yet.

    Stop it at any time: the same call goes on where it stopped and ends with the rows of an uninterrupted run.

    Parameters
    ----------
    spec : Spec, list of Spec, or path
        The grid of problems and samplers; a path is that of a TOML file.
    store : path
        The SQLite file of results, created if it does not exist.
    executor : {"processes", "serial", "dask"}
        Worker processes with one thread each, this process, or a Dask cluster.
    scheduler : str, optional
        Address of a running Dask scheduler, for example `"tcp://10.0.0.1:8786"`. If None, executor `"dask"` starts a local
        cluster.
    n_workers : int, optional
        Number of worker processes. If None, one for each core.
    retry : bool
        Whether failed tasks of earlier runs are computed again.
    show_progress : bool, optional
        Whether to show a progress bar. If None, it is shown on a terminal.

    Returns
    -------
    Results
        The results of the spec's tasks, read from the store when needed.

    Raises
    ------
    ValueError
        If an argument has no meaning, or `spec` is none.
    StoreError
        If the store cannot be written, or another process writes to it.
    ChildProcessError
        If worker processes do not start or run another version of the package.
    ConnectionError
        If the Dask scheduler does not answer or is lost.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> spec = Spec(n=9, alpha=[0.3, 0.5], sampler="exact", instances=3)
    >>> results = sweep(spec, pathlib.Path(tempfile.mkdtemp()) / "runs.db", executor="serial")
    >>> len(results), results.mean("solved_fraction", by=["alpha"])[0]["mean"]
    (6, 1.0)
    """
    config = RunConfig(
        executor=executor, scheduler=scheduler, n_workers=n_workers, retry=retry, show_progress=show_progress
    )
    if isinstance(spec, (str, os.PathLike)):
        spec = Spec.from_toml(spec)
    specs = [spec] if isinstance(spec, Spec) else list(spec) if isinstance(spec, Iterable) else []
    if not specs or not all(isinstance(one, Spec) for one in specs):
        raise ValueError(f"spec must be a Spec, a list of them or the path of a TOML file; got {spec!r}.")

    def tasks() -> Iterator[Task]:
        return itertools.chain.from_iterable(one.tasks() for one in specs)

    run_tasks(tasks, store, config, total=sum(map(len, specs)), label=specs[0].name)
    return Results(tasks, store)


def run_tasks(
    tasks: Tasks, store: str | os.PathLike[str], config: RunConfig, total: int = 0, label: str = ""
) -> Outcome:
    return deque(running(tasks, store, config, total, label), maxlen=1).pop()


def running(
    tasks: Tasks, store: str | os.PathLike[str], config: RunConfig, total: int, label: str
) -> Generator[Outcome, None, None]:
    """Run those of `tasks()` that the store lacks; yield the outcome so far at the start and whenever results were stored."""
    with Store(store, write=True) as results, progress(total, label, config.show_progress) as bar:
        yield (outcome := Outcome())
        for_device = wants_device if config.executor == "dask" else packs
        others, packed = (
            _missing(select(for_device, tasks()), results, config.retry, bar.advance)
            for select in (itertools.filterfalse, filter)
        )
        together = any(map(for_device, itertools.islice(tasks(), _SEARCHED)))
        # those of a device beside the others, or after them
        for here, there in ((others, packed),) if together else ((others, ()), ((), packed)):
            with closing(EXECUTORS[config.executor](here, there, config)) as stream:  # which ends the workers
                for found in filter(None, stream):
                    results.add(*found)
                    outcome.computed += len(found)
                    outcome.failed += sum(result.status == "failed" for result in found)
                    bar.advance(len(found), note=f"{outcome.failed} failed" if outcome.failed else "")
                    yield outcome


def _missing(tasks: Iterable[Task], store: Store, retry: bool, skip: Callable[[int], object]) -> Iterator[Task]:
    """Yield the tasks without a result, failed ones if `retry`, and those whose result is damaged, which is removed."""
    tasks = iter(tasks)
    computed_again = {None, "damaged", "failed"} if retry else {None, "damaged"}
    while chunk := list(itertools.islice(tasks, _CHUNK)):
        statuses = store.statuses([task.key for task in chunk], arrays=True)
        if damaged := [key for key, status in statuses.items() if status == "damaged"]:
            store.withdraw(damaged)
            warn_damaged(store.path, f"{len(damaged)} of its results were damaged", damaged)
        missing = [task for task in chunk if statuses.get(task.key) in computed_again]
        skip(len(chunk) - len(missing))
        yield from missing


class CannotEstimate(ValueError):
    """A task failed when it was timed."""


class Cost(NamedTuple):
    """Number of tasks, their seconds on one core, and the tasks that were timed: (values, seconds)."""

    tasks: int
    seconds: float
    timed: tuple[tuple[Values, float], ...]


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
    groups: dict[str, list[tuple[float, Task, int]]] = {}
    for spec in specs:
        for values in spec.points():
            first, tasks = Task({**values, "instance": 0}), instances_of([values], spec.instances)
            if count := sum(task.key not in skipped for task in tasks) if skipped else spec.instances:
                groups.setdefault(values["sampler"], []).append((work_of(first), first, count))
    total, timed = 0.0, list[tuple[Values, float]]()
    with one_thread():
        for group in groups.values():
            group.sort(key=lambda point: point[0])
            times = _time([(work, task) for work, task, _ in group], allowed / len(groups))
            timed += [(dict(task.values), seconds) for _, task, seconds in times]
            known, seconds = np.array([(work, max(seconds, 1e-6)) for work, _, seconds in times]).T
            work, counts = np.array([(work, count) for work, _, count in group]).T
            total += counts @ (work * np.exp(np.interp(np.log(work), np.log(known), np.log(seconds / known))))
    return Cost(sum(count for group in groups.values() for *_, count in group), float(total), tuple(timed))


def _time(points: list[tuple[float, Task]], allowed: float) -> list[tuple[float, Task, float]]:
    """Return tasks of increasing work with their seconds; the last is the one of most work if the time allows."""
    times: list[tuple[float, Task, float]] = []
    for work, task in points:
        if times:
            known, _, seconds = times[-1]
            if work < _FACTOR * known and (work < points[-1][0] or work == known):
                continue
            if seconds * work / known > allowed:
                break
        first = run(task)  # compiles code and reads data
        if first.status == "failed":
            raise CannotEstimate(first.error.splitlines()[0])
        seconds = run(task).seconds
        if seconds < _SHORT:
            seconds = min(seconds, run(task).seconds)
        allowed -= seconds
        times.append((work, task, seconds))
    return times


def duration(seconds: float) -> str:
    """Return a duration in its unit.

    >>> duration(0.004), duration(0.4), duration(90), duration(7300), duration(3e5)
    ('4.0 ms', '0.4 s', '1.5 min', '2.0 h', '3.5 days')
    """
    for size, name in ((86400.0, "days"), (3600.0, "h"), (60.0, "min"), (0.1, "s")):
        if seconds >= size:
            return f"{seconds / max(size, 1.0):.1f} {name}"
    return f"{1e3 * seconds:.1f} ms"
