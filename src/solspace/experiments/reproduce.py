"""Figures from their names: run what the store lacks, draw, and write PNG, PDF, SVG and CSV."""

from __future__ import annotations

import csv
import functools
import io
import itertools
import os
import time
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from solspace.experiments import figures
from solspace.experiments.drawing import EXPECTED, Drawer
from solspace.experiments.figures import Figure
from solspace.experiments.results import Results
from solspace.experiments.runner import Outcome, run_tasks, running
from solspace.experiments.tasks import Task
from solspace.samplers.device import LostDevice, resolve
from solspace.store import StoreError
from solspace.system.files import replacing
from solspace.system.names import unknown
from solspace.system.plain import Values

FORMATS = ("png", "pdf", "svg")
TOGETHER = 62_000
"""Tasks that a GPU computes together, at the most: an image set's own pixels and its features; more make pictures late."""
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
    together: int = 1
    """Figures that were computed together, this one among them, and share these seconds."""


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

    Another process draws each of them while the next one is computed. A GPU computes several of them together, those with few
    tasks beside those with many, and processors the theory of all beside the first; what was computed together is counted with
    the first of them. Parameters as in `reproduce`.
    """
    chosen = [_found(name, size) for name in names]
    on_gpu = executor == "processes" and device is not None and resolve(device) == "gpu"
    turns = deque(_turns(chosen, size) if on_gpu else [[figure] for figure in chosen])
    theory = _theory(chosen if on_gpu else (), size)
    made: deque[_Making] = deque()
    with closing(Drawer()) as drawer:
        while turns:
            turn = turns.popleft()
            theory = theory or _theory(turn, size)
            own = [_Making(figure.name, len(turn)) for figure in turn]
            try:
                own[0].outcome = yield from _meanwhile(made, running(
                    functools.partial(_tasks, theory, turn, size, device), store, executor,
                    total=len(theory) + sum(len(spec) for figure in turn for spec in figure.specs(size)),
                    label=turn[0].name + f" and {len(turn) - 1} more" * (len(turn) > 1), scheduler=scheduler,
                    n_workers=n_workers, retry=retry, show_progress=show_progress,
                ))  # fmt: skip
            except (LostDevice, StoreError):  # no other figure would fare better
                yield from (one.reproduced() for one in made)
                raise
            except EXPECTED as error:
                if len(turn) > 1:  # one of them is to blame
                    turns.extendleft([figure] for figure in reversed(turn))
                    continue
                own[0].files.set_exception(error)
            else:
                for one in own:
                    one.files = drawer.draw(
                        name=one.name, size=size, store=store, out=out, device=device, formats=formats
                    )
            for one in own:
                one.files.add_done_callback(one.end)
            made += own
            theory = []
            yield from _drawn(made)
        yield from (one.reproduced() for one in made)


def _meanwhile(made: deque[_Making], steps: Generator[None, None, Outcome]) -> Generator[Reproduced, None, Outcome]:
    """Take all `steps`, and yield figures whose pictures are there as soon as they are; return what the last step does."""
    with closing(steps):
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return end.value
            yield from _drawn(made)


def _drawn(made: deque[_Making]) -> Iterator[Reproduced]:
    while made and made[0].done:
        yield made.popleft().reproduced()


def _turns(chosen: Sequence[Figure], size: str) -> list[list[Figure]]:
    """Return the figures that are computed together, that with most tasks among the first; each without its data alone."""
    turns, room = list[list[Figure]](), 0
    for figure in sorted(chosen, key=lambda figure: figure.count(size) < max(one.count(size) for one in chosen)):
        taken = TOGETHER if figure.missing(size) else figure.count(size)
        if taken > room:
            turns.append([])
            room = TOGETHER
        turns[-1].append(figure)
        room -= taken
    return turns


def _theory(chosen: Sequence[Figure], size: str) -> list[Task]:
    return list({task.key: task for figure in chosen for task in figure.theory(size)}.values())


def _tasks(theory: Sequence[Task], turn: Sequence[Figure], size: str, device: str | None) -> Iterator[Task]:
    """Yield tasks of theory, and those of the figures' sweeps, each once."""
    tasks = itertools.chain(theory, *(spec.tasks() for figure in turn for spec in figure.sweeps(size, device)))
    return tasks if len(turn) == 1 else _once(tasks)


def _once(tasks: Iterable[Task]) -> Iterator[Task]:
    seen: set[str] = set()
    for task in tasks:
        if task.key not in seen:
            seen.add(task.key)
            yield task


@dataclass
class _Making:
    """A figure on its way: what was computed for it, and its files to come, or the problem that it met."""

    name: str
    together: int
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
        return Reproduced(self.name, files, self.outcome, self.ended - self.begun, problem, self.together)


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
