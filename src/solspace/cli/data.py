"""`solspace data`: which image data sets are found and where; `solspace data prepare` fetches them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from solspace.cli.app import JSON, fail, show_json, verb

Folder = Annotated[Path | None, typer.Option(help="Look in this folder instead of SOLSPACE_DATA and the usual places.")]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(help="Show which image data sets are found and where; `prepare` fetches them.")
    group.callback(invoke_without_command=True)(verb(show))
    group.command("prepare")(verb(prepare))
    app.add_typer(group, name="data")


def show(context: typer.Context, folder: Folder = None, as_json: JSON = False) -> None:
    """Show which image data sets are found and where; `prepare` fetches them.

    A data set is looked for in SOLSPACE_DATA, in our download folder and where torchvision, Keras and Debian put it.
    """
    if context.invoked_subcommand is not None:
        return
    from solspace.data import CATALOGUE

    rows = [row for name in CATALOGUE for row in _found(name, folder)]
    if as_json:
        show_json(rows)
    else:
        _print(rows)


def prepare(
    names: Annotated[list[str] | None, typer.Argument(help="mnist, fashion, cifar10; all unless given.")] = None,
    folder: Annotated[Path | None, typer.Option(help="Put the files here instead of the download folder.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    as_json: JSON = False,
) -> None:
    """Download the data sets that are not on this machine yet; what broke off is resumed."""
    from solspace.data import CATALOGUE, fetch, find
    from solspace.data.catalogue import data_set

    report: list[dict[str, Any]] = []
    for data in [data_set(name) for name in names] if names else CATALOGUE.values():
        here = find(data.name, folder, split)
        try:
            files = here[0].files if here else fetch(data.name, folder, split)
            report.append({"name": data.name, "files": [str(path) for path in files], "downloaded": not here})
        except FileNotFoundError as error:
            report.append({"name": data.name, "problem": str(error)})
    if as_json:
        show_json(report)
    else:
        for row in report:
            if "files" in row:
                print(f"{row['name']}: {', '.join(row['files']) or 'always there'}")
    problems = [row["problem"] for row in report if "problem" in row]
    if problems:
        fail("\nsolspace: ".join(problems), code=1)


def _found(name: str, folder: Path | None) -> list[dict[str, Any]]:
    import numpy as np

    from solspace.data import CATALOGUE, find

    data = CATALOGUE[name]
    about = {"name": name, "title": data.title, "licence": data.licence}
    if not data.downloads:
        return [{**about, "found": True, "where": "scikit-learn", "images": data.count, "classes": list(range(10))}]
    rows: list[dict[str, Any]] = []
    for split in ("train", "test"):
        for source in find(name, folder, split):
            row: dict[str, Any] = {**about, "split": split, "format": source.format, "where": str(source)}
            try:
                images, labels = source.read()
                row |= {"found": True, "images": len(images), "classes": np.unique(labels).tolist()}
                row |= {"original": source.is_original(images, labels)}
            except (ValueError, OSError) as error:
                row |= {"found": False, "problem": str(error)}
            rows.append(row)
    return rows or [{**about, "found": False, "problem": f"not found; solspace data prepare {name} fetches it"}]


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(show_edge=False, pad_edge=False)
    for column in ("data set", "split", "images", "classes", "format"):
        table.add_column(column)
    table.add_column("where", overflow="fold")
    for row in rows:
        about = (row["name"], row.get("split", ""))
        if row["found"]:
            images = f"{row['images']:,}" + (", as published" if row.get("original") else "")
            classes = "all" if len(row["classes"]) == 10 else " ".join(map(str, row["classes"]))
            table.add_row(*about, images, classes, row.get("format", ""), row["where"])
        else:
            table.add_row(*about, "", "", row.get("format", ""), row["problem"])
    Console().print(table)
