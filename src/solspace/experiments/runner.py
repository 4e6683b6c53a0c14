"""Run tasks into a store: skip those that it holds, compute the others, add each result when it is there.

A run keeps no state but its results. To go on after Ctrl-C, a kill or a restart is to run the same thing again; at most the
tasks that were running are computed twice.
"""

from __future__ import annotations

import itertools
import os
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass

from solspace.experiments import executors
from solspace.experiments.device import on_device, packs
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.store import Result, Store
from solspace.system.progress import progress

_CHUNK = 200
_SEARCHED = 10_000
"""Tasks that are searched for one on a device, for it and the processors to work side by side."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """Where tasks run; fields are those of `sweep`."""

    executor: str = "processes"
    scheduler: str | None = None
    n_workers: int | None = None
    retry: bool = False
    show_progress: bool | None = None

    def __post_init__(self) -> None:
        executors.find(self.executor)
        if self.n_workers is not None and self.n_workers < 1:
            raise ValueError(f"n_workers must be at least 1; got {self.n_workers}.")
        if self.scheduler is not None and self.executor != "dask":
            raise ValueError(f"scheduler belongs to executor 'dask'; got executor {self.executor!r}.")


@dataclass
class Outcome:
    """Numbers of tasks computed, of those that failed, and of damaged results, which are computed again."""

    computed: int = 0
    failed: int = 0
    damaged: int = 0


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

    See Also
    --------
    Spec : The grid.

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
    specs = _specs(spec)
    run_tasks(lambda: tasks_of(specs), store, config, total=sum(map(len, specs)), label=specs[0].name)
    return Results(lambda: tasks_of(specs), store)


def _specs(spec: object) -> list[Spec]:
    if isinstance(spec, (str, os.PathLike)):
        spec = Spec.from_toml(spec)
    specs = [spec] if isinstance(spec, Spec) else list(spec) if isinstance(spec, Iterable) else []
    if not specs or not all(isinstance(one, Spec) for one in specs):
        raise ValueError(f"spec must be a Spec, a list of them or the path of a TOML file; got {spec!r}.")
    return specs


def tasks_of(specs: Iterable[Spec]) -> Iterator[Task]:
    """Yield the tasks of all specs."""
    return itertools.chain.from_iterable(spec.tasks() for spec in specs)


def run_tasks(
    tasks: Callable[[], Iterable[Task]], store: str | os.PathLike[str], config: RunConfig, total: int = 0,
    label: str = "sweep",
) -> Outcome:  # fmt: skip
    """Run those of `tasks()` that the store lacks."""
    run = running(tasks, store, config, total, label)
    while True:
        try:
            next(run)
        except StopIteration as end:
            return end.value


def running(
    tasks: Callable[[], Iterable[Task]], store: str | os.PathLike[str], config: RunConfig, total: int = 0,
    label: str = "sweep",
) -> Generator[None, None, Outcome]:  # fmt: skip
    """Run those of `tasks()` that the store lacks; yield whenever results were stored, and return the outcome.

    Tasks for a device are computed in this process. Beside it the executor "processes" computes the others; all other executors
    compute them before.
    """
    with Store(store, write=True) as results, progress(total, label, config.show_progress) as bar:
        outcome = Outcome()
        if results.mended is not None:
            _warn_damaged(outcome, results, [damage.key for damage in results.mended])
        for_device = (lambda task: False) if config.executor == "dask" else packs
        apart, packed = (
            _missing(select(for_device, tasks()), results, config.retry, bar.advance, outcome)
            for select in (itertools.filterfalse, filter)
        )
        for stream in _streams(apart, packed, config, any(map(for_device, itertools.islice(tasks(), _SEARCHED)))):
            try:
                for found in filter(None, stream):
                    results.add_all(found)
                    outcome.computed += len(found)
                    outcome.failed += sum(result.status == "failed" for result in found)
                    bar.advance(len(found), note=f"{outcome.failed} failed" if outcome.failed else "")
                    yield
            finally:  # end the workers
                getattr(stream, "close", lambda: None)()
    return outcome


def _streams(
    apart: Iterator[Task], packed: Iterator[Task], config: RunConfig, both: bool
) -> Iterator[Iterator[list[Result]]]:
    """Yield streams of results; none without tasks, since even an idle executor takes seconds to start."""
    first = next(apart, None)
    if first is not None:
        apart = itertools.chain([first], apart)
        if both and config.executor == "processes":
            yield executors.processes_beside(apart, on_device(packed, config.n_workers), config.n_workers)
        else:
            yield executors.find(config.executor)(apart, n_workers=config.n_workers, scheduler=config.scheduler)
    first = next(packed, None)
    if first is not None:
        yield on_device(itertools.chain([first], packed), config.n_workers)


def _missing(
    tasks: Iterable[Task], store: Store, retry: bool, skip: Callable[[int], object], outcome: Outcome
) -> Iterator[Task]:
    """Yield the tasks without a result, failed ones if `retry`, and those whose result is damaged, which is withdrawn."""
    tasks = iter(tasks)
    computed_again = {None, "damaged", "failed"} if retry else {None, "damaged"}
    while chunk := list(itertools.islice(tasks, _CHUNK)):
        statuses = store.statuses([task.key for task in chunk], arrays=True)
        if damaged := [key for key, status in statuses.items() if status == "damaged"]:
            store.withdraw(damaged)
            _warn_damaged(outcome, store, damaged)
        missing = [task for task in chunk if statuses.get(task.key) in computed_again]
        skip(len(chunk) - len(missing))
        yield from missing


def _warn_damaged(outcome: Outcome, store: Store, damaged: list[str]) -> None:
    outcome.damaged += len(damaged)
    words = "its indexes were damaged and were made anew; no result is lost"
    if damaged:
        words = (
            f"{len(damaged)} of its results were damaged and were taken out, to be computed anew by the sweep they "
            f"belong to: {', '.join(damaged)}"
        )
    warnings.warn(f"{store.path}: {words}. A disk or a copy changed bytes in it.", stacklevel=2)
