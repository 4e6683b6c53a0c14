"""Run tasks into a store: skip what is there, compute the rest anywhere, add each result as it comes.

Nothing about a run is kept but its results. So there is no state to lose: to go on after Ctrl-C, a kill or a restart
is to run the same thing again, and at most the tasks that were running are computed twice.
"""

from __future__ import annotations

import functools
import itertools
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import ParamSpec

from solspace.experiments import executors
from solspace.experiments.device import on_device, packs
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.store import Result, Store
from solspace.system.progress import progress

_Given = ParamSpec("_Given")
_CHUNK = 200
_LOOK = 10_000
"""Tasks among which one must ask for a device, for it and the processors to work side by side."""


@dataclass
class Outcome:
    """What a run did."""

    computed: int = 0
    failed: int = 0
    damaged: int = 0
    """Results that were there, but not as they were written; those of these tasks are computed anew."""


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
    """Run all tasks of a spec that the store does not hold yet, and return the spec's results.

    Parameters
    ----------
    spec
        A `Spec`, several, or the path of a TOML file.
    store
        The SQLite file of results; made when it is not there.
    executor
        `"serial"`, `"processes"` (all cores, one thread each) or `"dask"`.
    scheduler
        Address of a running Dask scheduler, for example `"tcp://10.0.0.1:8786"`; a local cluster without.
    n_workers
        Number of processes; all cores unless given.
    retry
        Whether tasks that failed are tried again.
    show_progress
        True, False, or None: only on a terminal.

    >>> import pathlib, tempfile
    >>> spec = Spec(n=9, alpha=[0.3, 0.5], sampler="exact", instances=3)
    >>> results = sweep(spec, pathlib.Path(tempfile.mkdtemp()) / "runs.db", executor="serial")
    >>> len(results), results.mean("solved_fraction", by=["alpha"])[0]["mean"]
    (6, 1.0)
    """
    specs = as_specs(spec)
    total = sum(len(one) for one in specs)
    run_tasks(lambda: tasks_of(specs), store, executor, total=total, label=specs[0].name, scheduler=scheduler,
              n_workers=n_workers, retry=retry, show_progress=show_progress)  # fmt: skip
    return Results(lambda: tasks_of(specs), store)


def as_specs(given: object) -> list[Spec]:
    """Return the list of specs that a spec, several of them or the path of a TOML file stand for."""
    if isinstance(given, (str, os.PathLike)):
        given = Spec.from_toml(given)
    specs = [given] if isinstance(given, Spec) else list(given) if isinstance(given, Iterable) else []
    if not specs or not all(isinstance(one, Spec) for one in specs):
        raise ValueError(f"spec must be a Spec, a list of them or the path of a TOML file; got {given!r}.")
    return specs


def tasks_of(specs: Iterable[Spec]) -> Iterator[Task]:
    """Yield the tasks of all specs."""
    return itertools.chain.from_iterable(spec.tasks() for spec in specs)


def running(
    tasks: Callable[[], Iterable[Task]], store: str | os.PathLike[str], executor: str = "processes", *, total: int = 0,
    label: str = "sweep", scheduler: str | None = None, n_workers: int | None = None, retry: bool = False,
    show_progress: bool | None = None,
) -> Generator[None, None, Outcome]:  # fmt: skip
    """Run those of `tasks()` that the store lacks, and come back whenever results were kept; the engine of sweeps and figures."""
    if n_workers is not None and n_workers < 1:
        raise ValueError(f"n_workers must be at least 1; got {n_workers}.")
    if scheduler is not None and executor != "dask":
        raise ValueError(f"scheduler belongs to executor 'dask'; got executor {executor!r}.")
    execute = executors.find(executor)
    outcome = Outcome()
    with Store(store, write=True) as results, progress(total, label, show_progress) as bar:
        if results.mended is not None:
            _tell(outcome, results, [damage.key for damage in results.mended])

        def keep(found: list[Result]) -> None:
            results.add_all(found)
            outcome.computed += len(found)
            outcome.failed += sum(result.status == "failed" for result in found)
            bar.advance(len(found), note=f"{outcome.failed} failed" if outcome.failed else "")

        together = (lambda task: False) if executor == "dask" else packs
        tell = functools.partial(_tell, outcome, results)
        apart, packed = (
            _missing(part(together, tasks()), results, retry, bar.advance, tell)
            for part in (itertools.filterfalse, filter)
        )
        if executor == "processes" and any(map(together, itertools.islice(tasks(), _LOOK))):
            # a device need not wait for what the processors do
            if (missing := _peeked(apart)) is not None:
                yield from _drain(executors.processes_beside(missing, on_device(packed, n_workers), n_workers), keep)
                return outcome
            apart = iter(())
        for run_all, part in ((execute, apart), (on_device, packed)):
            if (missing := _peeked(part)) is not None:
                yield from _drain(run_all(missing, n_workers=n_workers, scheduler=scheduler), keep)
    return outcome


def _to_the_end(steps: Callable[_Given, Generator[None, None, Outcome]]) -> Callable[_Given, Outcome]:
    """Return what takes all of the `steps` at once."""

    @functools.wraps(steps)
    def run(*given: _Given.args, **named: _Given.kwargs) -> Outcome:
        made = steps(*given, **named)
        while True:
            try:
                next(made)
            except StopIteration as end:
                return end.value

    return run


run_tasks = _to_the_end(running)
"""The same in one go: (tasks, store, executor, …) -> what the run did."""


def _peeked(tasks: Iterator[Task]) -> Iterator[Task] | None:
    """Return the same tasks, or None where there are none."""
    first = next(tasks, None)
    return None if first is None else itertools.chain([first], tasks)


def _drain(stream: Iterator[Result | list[Result]], keep: Callable[[list[Result]], None]) -> Iterator[None]:
    """Keep all results, those that come together together; end the executor's workers however this ends."""
    try:
        for found in stream:
            keep(found if isinstance(found, list) else [executors.of_the_same_code(found)])
            yield
    finally:
        getattr(stream, "close", lambda: None)()


def _missing(
    tasks: Iterable[Task], store: Store, retry: bool, skip: Callable[[int], object], tell: Callable[[list[str]], None]
) -> Iterator[Task]:
    """Yield the tasks that have no result, a failed one to be tried again, or a damaged one, which is withdrawn."""
    tasks = iter(tasks)
    again = {None, "damaged", "failed"} if retry else {None, "damaged"}
    while chunk := list(itertools.islice(tasks, _CHUNK)):
        there = store.statuses([task.key for task in chunk], arrays=True)
        if damaged := [key for key, status in there.items() if status == "damaged"]:
            store.withdraw(damaged)
            tell(damaged)
        missing = [task for task in chunk if there.get(task.key) in again]
        skip(len(chunk) - len(missing))
        yield from missing


def _tell(outcome: Outcome, store: Store, damaged: list[str]) -> None:
    outcome.damaged += len(damaged)
    words = "its indexes were damaged and were made anew; no result is lost"
    if damaged:
        words = (
            f"{len(damaged)} of its results were damaged and were taken out, to be computed anew by the sweep they "
            f"belong to: {', '.join(damaged)}"
        )
    warnings.warn(f"{store.path}: {words}. A disk or a copy changed bytes in it.", stacklevel=2)
