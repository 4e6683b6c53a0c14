"""A figure from its name: run what the store lacks, draw, and write PNG, PDF, SVG and CSV."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from solspace.experiments import figures
from solspace.experiments.results import Results
from solspace.experiments.runner import Outcome, run_tasks
from solspace.system.files import replacing
from solspace.system.names import unknown
from solspace.system.plain import Values


@dataclass(frozen=True)
class Reproduced:
    """The files of a figure, and what had to be computed for it."""

    name: str
    files: tuple[Path, ...]
    outcome: Outcome


def reproduce(
    name: str,
    size: str = "quick",
    store: str | os.PathLike[str] = "figures.db",
    out: str | os.PathLike[str] = "figures",
    executor: str = "processes",
    *,
    parameters: Mapping[str, float] | None = None,
    scheduler: str | None = None,
    n_workers: int | None = None,
    device: str | None = None,
    retry: bool = False,
    show_progress: bool | None = None,
    formats: Sequence[str] = ("png", "pdf", "svg"),
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
    if size not in figures.SIZES:
        raise unknown("size", size, figures.SIZES)
    figure = figures.find(name).with_parameters(parameters or {})
    outcome = run_tasks(
        lambda: figure.tasks(size, device), store, executor, total=figure.count(size), label=name, scheduler=scheduler,
        n_workers=n_workers, retry=retry, show_progress=show_progress,
    )  # fmt: skip
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
    return Reproduced(name, (*files, table), outcome)


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
