"""Figures by name: compute what the store lacks, draw, and write PNG, PDF, SVG and CSV."""

from __future__ import annotations

import itertools
import os
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from solspace.experiments import figures
from solspace.experiments.figures import Figure
from solspace.experiments.results import Results, write_csv
from solspace.experiments.runner import Outcome, RunConfig, run_tasks, running
from solspace.experiments.tasks import Task
from solspace.samplers.device import LostDevice, resolve
from solspace.store import StoreError
from solspace.system.checks import one_of

TOGETHER = 62_000  # most tasks that a GPU computes together, those of a set of images: with more, pictures come late
EXPECTED = (ValueError, ImportError, OSError)  # of one figure, which do not stop the others: no data, a full disk


@dataclass(frozen=True, kw_only=True)
class ReproduceConfig:
    """Sizes, files and parameters of figures, and where their tasks run.

    `parameters` are other values of what `figures.find(name).parameters` names: results are stored beside the paper's, and names
    of files contain the values. `device` is for samplers that support several.
    """

    size: str = "quick"
    store: str | os.PathLike[str] = "figures.db"
    out: str | os.PathLike[str] = "figures"
    parameters: Mapping[str, float] = field(default_factory=dict)
    device: str | None = None
    formats: Sequence[str] = ("png", "pdf", "svg")
    run: RunConfig = field(default_factory=RunConfig)

    def __post_init__(self) -> None:
        one_of(figures.SIZES)("size", self.size)

    def figure(self, name: str) -> Figure:
        return figures.find(name).with_parameters(self.parameters)


class Reproduced(NamedTuple):
    """The files of a figure and what was computed for it, or the `problem` why there are none.

    `seconds` is the time from the start of its tasks to its picture; `together` figures were computed together and share it.
    """

    name: str
    files: tuple[Path, ...]
    outcome: Outcome
    seconds: float = 0.0
    problem: str = ""
    together: int = 1


def reproduce(name: str, config: ReproduceConfig | None = None) -> Reproduced:
    """Make a figure of the paper; stop it at any time and call it again to go on."""
    config, start = config or ReproduceConfig(), time.perf_counter()
    figure = config.figure(name)
    tasks = partial(figure.tasks, config.size, config.device)
    outcome = run_tasks(tasks, config.store, config.run, figure.count(config.size), name)
    return Reproduced(name, draw(name, config), outcome, time.perf_counter() - start)


def draw(name: str, config: ReproduceConfig) -> tuple[Path, ...]:
    from solspace.plots import style

    figure, size = config.figure(name), config.size
    results = Results(partial(figure.tasks, size, config.device), config.store)
    try:
        picture = figure.draw(results, size)
    except Exception as error:
        if not (failed := results.failed):
            raise
        first = failed[0].error.partition("\n")[0].partition(": ")[2]
        words = f"{name} cannot be drawn: {len(failed)} of its tasks failed, the first with: {first}"
        raise ValueError(words) from error
    path = Path(config.out, figure.stem(size))
    files, table = style.save(picture.drawing, path, config.formats), path.with_name(f"{path.name}.csv")
    write_csv(lambda: picture.table, table)
    return (*files, table)


def reproduce_all(names: Iterable[str], config: ReproduceConfig | None = None) -> Iterator[Reproduced]:
    """Make figures of the paper; yield each when its picture is there, or the problem that prevents it.

    A thread draws a figure while the next one is computed. A GPU computes several together, and the processors the theory of
    all beside the first; what was computed together is counted with the first of them.
    """
    config = config or ReproduceConfig()
    chosen = [config.figure(name) for name in names]
    on_gpu = config.run.executor == "processes" and config.device is not None and resolve(config.device) == "gpu"
    groups = deque(_groups(chosen, config.size) if on_gpu else [[figure] for figure in chosen])
    theory = _theory(chosen if on_gpu else (), config.size)
    drawing: deque[Future[Reproduced]] = deque()
    with ThreadPoolExecutor(1, "drawing") as drawers:
        while groups:
            group = groups.popleft()
            theory = theory or _theory(group, config.size)
            tasks = partial(_tasks, theory, group, config.size, config.device)
            total = len(theory) + sum(len(spec) for figure in group for spec in figure.specs(config.size))
            label = group[0].name + f" and {len(group) - 1} more" * (len(group) > 1)
            start, outcome, problem = time.perf_counter(), Outcome(), ""
            try:
                with closing(running(tasks, config.store, config.run, total, label)) as computing:
                    for latest in computing:
                        outcome = latest
                        yield from _drawn(drawing)
            except (LostDevice, StoreError):  # every other figure would fail as well
                yield from (one.result() for one in drawing)
                raise
            except EXPECTED as error:
                if len(group) > 1:  # one of them is the cause
                    groups.extendleft([figure] for figure in reversed(group))
                    continue
                problem = str(error)
            for place, figure in enumerate(group):
                own = Outcome() if place else outcome
                drawing.append(drawers.submit(_finish, figure.name, config, own, start, len(group), problem))
            theory = []
            yield from _drawn(drawing)
        yield from (one.result() for one in drawing)


def _drawn(drawing: deque[Future[Reproduced]]) -> Iterator[Reproduced]:
    while drawing and drawing[0].done():
        yield drawing.popleft().result()


def _finish(
    name: str, config: ReproduceConfig, outcome: Outcome, start: float, together: int, problem: str
) -> Reproduced:
    """Draw a figure, unless a `problem` prevented its tasks."""
    files = tuple[Path, ...]()
    try:
        files = () if problem else draw(name, config)
    except EXPECTED as error:
        problem = str(error)
    seconds, problem = time.perf_counter() - start, " ".join(problem.split())
    return Reproduced(name, files, outcome, seconds, problem, together)


def _groups(chosen: Sequence[Figure], size: str) -> list[list[Figure]]:
    """Return the figures that are computed together, that with most tasks in the first; each without its data alone."""
    groups, room = list[list[Figure]](), 0
    for figure in sorted(chosen, key=lambda figure: figure.count(size) < max(one.count(size) for one in chosen)):
        taken = TOGETHER if figure.missing(size) else figure.count(size)
        if taken > room:
            groups.append([])
            room = TOGETHER
        groups[-1].append(figure)
        room -= taken
    return groups


def _theory(chosen: Sequence[Figure], size: str) -> list[Task]:
    return list({task.key: task for figure in chosen for task in figure.theory(size)}.values())


def _tasks(theory: Sequence[Task], group: Sequence[Figure], size: str, device: str | None) -> Iterator[Task]:
    """Yield tasks of theory, and those of the figures' sweeps; those that several figures share once."""
    seen: set[str] = set()
    for task in itertools.chain(theory, *(spec.tasks() for figure in group for spec in figure.specs(size, device))):
        if task.key not in seen:
            seen.add(task.key)
            yield task
