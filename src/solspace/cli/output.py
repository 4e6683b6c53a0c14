"""What verbs print and write. Results go to standard output, all else to standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, NoReturn

import typer

from solspace.system.files import replacing
from solspace.system.plain import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PICTURES = (".png", ".pdf", ".svg", ".eps", ".jpg", ".webp", ".tif")


def say(text: str = "") -> None:
    print(text, file=sys.stderr, flush=True)


def fail(sentence: str, code: int = 2) -> NoReturn:
    say(f"solspace: {sentence}")
    raise typer.Exit(code)


def leave_quietly() -> None:
    """End as other tools do whose reader has seen enough, as in `| head`: silently, with the code of a closed pipe."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
    raise typer.Exit(128 + 13)


class Table(NamedTuple):
    title: str
    rows: Sequence[Sequence[str]]
    columns: Sequence[str]
    justify: Literal["left", "right"] = "right"


def show(report: object, parts: Iterable[Table | str], as_json: bool, note: str = "") -> None:
    """Print `report` as JSON, or else its `parts` for people, and a `note` on standard error."""
    if as_json:
        print(_json(report))
        return
    for part in parts:
        if isinstance(part, Table):
            _show_table(part)
        elif part:
            print(part)
    if note:
        say(note)


def _show_table(shown: Table) -> None:
    """Print a table, outside a terminal as wide as its cells; those over 60 characters are folded."""
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    table.add_column(shown.columns[0], min_width=max((len(row[0]) for row in shown.rows), default=0))
    for column in shown.columns[1:]:
        table.add_column(column, justify=shown.justify, max_width=60, overflow="fold")
    for row in shown.rows:
        table.add_row(*row)
    console = Console(markup=False)  # cells hold words like 'solspace[gpu]'
    if not console.is_terminal:
        console = Console(width=Console(width=10_000, markup=False).measure(table).maximum, markup=False)
    console.on_broken_pipe = leave_quietly  # type: ignore[method-assign]  # Rich would leave with code 1
    console.print(shown.title, style="bold", highlight=False, soft_wrap=True)
    console.print(table, crop=False)


def _json(values: object) -> str:
    return json.dumps(plain(values), indent=2, allow_nan=False)  # numbers that JSON lacks are None by now


def write_json(file: Path, values: object) -> None:
    with replacing(file) as stream:
        stream.write(_json(values).encode())


def write_picture(file: Path, draw: Callable[[Figure], object], size: tuple[float, float]) -> None:
    """Write what `draw` draws on a figure of `size` inches, in the format that the file's ending names."""
    from matplotlib.figure import Figure

    from solspace.plots.style import style

    with style(), replacing(file) as stream:
        figure = Figure(figsize=size, layout="constrained")
        draw(figure)
        figure.savefig(stream, format=file.suffix.lstrip("."))


def result_file(out: Path, name: str, endings: Sequence[str] = PICTURES) -> Path:
    """Return the file that `--out` names: `out` itself if it has one of `endings`, else `name` in that folder."""
    file = out if out.suffix.lower() in endings else out / name
    make_room(file.parent, [file.name])
    return file


def make_room(out: Path, names: Iterable[str]) -> None:
    """Make the folder, and look for what would be in the way of the results before any work is done."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (out / name).is_dir():
            raise IsADirectoryError(f"the results go to {out / name}, but that is a folder: give another --out.")
    if not os.access(out, os.W_OK):
        raise PermissionError(f"the results go to {out}, which you may not write to: give another --out.")
