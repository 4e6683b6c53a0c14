"""Figures from their names: run what the store lacks, draw, and write PNG, PDF, SVG and CSV."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from solspace.experiments import figures
from solspace.experiments.drawing import EXPECTED, Drawer
from solspace.experiments.figures import Figure
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.runner import Outcome, run_tasks
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.samplers.device import resolve
from solspace.system.files import replacing
from solspace.system.names import unknown
from solspace.system.plain import Values

FORMATS = ("png", "pdf", "svg")
Place = str | os.PathLike[str]


@dataclass(frozen=True)
class Reproduced:
    """The files of a figure, and what had to be computed for it."""

    name: str
    files: tuple[Path, ...]
    outcome: Outcome
    seconds: float = 0.0
    """From its turn to its picture."""
    problem: str = ""
    """Why there is none, as a sentence."""


def reproduce(
    name: str,
    size: str = "quick",
    store: Place = "figures.db",
    out: Place = "figures",
    executor: str = "processes",
    *,
    parameters: Mapping[str, float] | None = None,
    scheduler: str | None = None,
    n_workers: int | None = None,
    device: str | None = None,
    retry: bool = False,
    show_progress: bool | None = None,
    formats: Sequence[str] = FORMATS,
) -> Reproduced:
    """Make a figure of the paper; stop it at any time and call it again to go on.

    Parameters
    ----------
    name
        One of `figures.FIGURES`.
    size
        `"quick"` for minutes on two cores, `"paper"` for the paper's parameters.
    store, out
        The file of results, and the folder of pictures.
    parameters
        Other values of what `figures.find(name).parameters` names, as in `{"temperature": 0.7}`. Loads then lie where the
        figure shows the same; results are kept beside the paper's, and files have the values in their names.
    executor, scheduler, n_workers, retry, show_progress
        As in `sweep`.
    device
        `"cpu"` or `"gpu"`, for samplers that have both.
    formats
        Of the picture.
    """
    begun = time.perf_counter()
    figure = _found(name, size, parameters)
    outcome = run_tasks(
        lambda: figure.tasks(size, device), store, executor, total=figure.count(size), label=name, scheduler=scheduler,
        n_workers=n_workers, retry=retry, show_progress=show_progress,
    )  # fmt: skip
    files = draw(name, size, store, out, parameters=parameters, device=device, formats=formats)
    return Reproduced(name, files, outcome, time.perf_counter() - begun)


def draw(
    name: str, size: str, store: Place, out: Place, *, parameters: Mapping[str, float] | None = None,
    device: str | None = None, formats: Sequence[str] = FORMATS,
) -> tuple[Path, ...]:  # fmt: skip
    """Draw a figure from what is in the store; return its files."""
    figure = _found(name, size, parameters)
    results = Results(lambda: figure.tasks(size, device), store)
    from solspace.plots import style

    try:
        picture = figure.draw(results, size)
    except Exception as error:
        failed = results.failed
        if not failed:
            raise
        first = failed[0].error.partition("\n")[0].partition(": ")[2]
        raise ValueError(
            f"{name} cannot be drawn: {len(failed)} of its tasks failed, the first with: {first}"
        ) from error
    path = Path(out) / figure.stem(size)
    table = path.with_name(f"{path.name}.csv")
    files = style.save(picture.drawing, path, formats)
    write_table(picture.table, table)
    return (*files, table)


def _found(name: str, size: str, parameters: Mapping[str, float] | None = None) -> Figure:
    if size not in figures.SIZES:
        raise unknown("size", size, figures.SIZES)
    return figures.find(name).with_parameters(parameters or {})


def reproduce_all(
    names: Iterable[str],
    size: str = "quick",
    store: Place = "figures.db",
    out: Place = "figures",
    executor: str = "processes",
    *,
    scheduler: str | None = None,
    n_workers: int | None = None,
    device: str | None = None,
    retry: bool = False,
    show_progress: bool | None = None,
    formats: Sequence[str] = FORMATS,
) -> Iterator[Reproduced]:
    """Make figures of the paper; yield each when its picture is there, or the problem that it met.

    Another process draws each of them while the next one is computed. Where a GPU computes, the figure with most tasks comes
    first, and beside it the processors compute what theory all of them need. Parameters as in `reproduce`.
    """
    chosen = [_found(name, size) for name in names]
    theory = [figure.theory(size) for figure in chosen]
    if chosen and executor == "processes" and device is not None and resolve(device) == "gpu":
        most = max(chosen, key=lambda figure: figure.count(size))
        chosen = [most, *(figure for figure in chosen if figure is not most)]
        all_of_it = {task.key: task for tasks in theory for task in tasks}
        theory = [list(all_of_it.values()), *(figure.theory(size) for figure in chosen[1:])]
    with closing(Drawer()) as drawer:
        made: deque[_Making] = deque()
        for figure, first in zip(chosen, theory):
            made.append(_Making(figure.name))
            try:
                made[-1].outcome = run_tasks(
                    functools.partial(_tasks, first, figure.sweeps(size, device)), store, executor,
                    total=len(first) + sum(map(len, figure.specs(size))), label=figure.name, scheduler=scheduler,
                    n_workers=n_workers, retry=retry, show_progress=show_progress,
                )  # fmt: skip
                made[-1].files = drawer.draw(
                    name=figure.name, size=size, store=store, out=out, device=device, formats=formats
                )
            except EXPECTED as error:
                made[-1].files.set_exception(error)
            made[-1].files.add_done_callback(made[-1].end)
            while made and made[0].done:
                yield made.popleft().reproduced()
        yield from (one.reproduced() for one in made)


def _tasks(theory: Sequence[Task], sweeps: Sequence[Spec | ImageSpec]) -> Iterator[Task]:
    return itertools.chain(theory, *(spec.tasks() for spec in sweeps))


@dataclass
class _Making:
    """A figure on its way: what was computed for it, and its files to come, or the problem that it met."""

    name: str
    outcome: Outcome = field(default_factory=Outcome)
    files: Future[tuple[Path, ...]] = field(default_factory=Future)
    begun: float = field(default_factory=time.perf_counter)
    ended: float = 0.0

    @property
    def done(self) -> bool:
        return self.files.done()

    def end(self, files: object) -> None:
        self.ended = time.perf_counter()

    def reproduced(self) -> Reproduced:
        """Wait for the files, and tell."""
        files: tuple[Path, ...] = ()
        problem = ""
        try:
            files = self.files.result()
        except EXPECTED as error:
            problem = " ".join(str(error).split())
        return Reproduced(self.name, files, self.outcome, self.ended - self.begun, problem)


def write_table(rows: Sequence[Values], path: Path) -> None:
    """Write the numbers of a picture as CSV."""
    columns = dict.fromkeys(name for row in rows for name in row)
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.DictWriter(text, list(columns), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        text.flush()
        text.detach()
