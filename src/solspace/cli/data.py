"""`solspace data`: which image data sets are found and where; `solspace data prepare` fetches them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

Folder = Annotated[Path | None, typer.Option(help="Look in this folder instead of SOLSPACE_DATA and the usual places.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    verb = typer.Typer(help="Show which image data sets are found and where; prepare fetches them.")
    verb.callback(invoke_without_command=True)(show)
    verb.command("prepare")(prepare)
    app.add_typer(verb, name="data")


def show(context: typer.Context, folder: Folder = None, as_json: Json = False) -> None:
    """Show which image data sets are found and where."""
    if context.invoked_subcommand is not None:
        return
    from solspace.data import CATALOGUE

    rows = [row for name in CATALOGUE for row in _found(name, folder)]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        _print(rows)


def prepare(
    names: Annotated[
        list[str] | None, typer.Argument(help="mnist, fashion, cifar10; all of them unless given.")
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Put the files here instead of the download folder.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    as_json: Json = False,
) -> None:
    """Download the data sets that are not on this machine yet; what broke off is resumed."""
    from solspace.data import CATALOGUE, fetch, find
    from solspace.data.catalogue import data_set

    report: list[dict[str, Any]] = []
    failed = False
    for data in [data_set(name) for name in names] if names else CATALOGUE.values():
        here = find(data.name, folder, split)
        try:
            files = list(here[0].files) if here else fetch(data.name, folder, split)
            report.append({"name": data.name, "files": [str(path) for path in files], "downloaded": not here})
        except OSError as error:
            failed = True
            report.append({"name": data.name, "problem": str(error)})
    if as_json:
        typer.echo(json.dumps(report, indent=2))
    else:
        for row in report:
            where = row.get("problem") or ", ".join(row["files"]) or "always there"
            typer.echo(f"{row['name']}: {where}")
    if failed:
        raise typer.Exit(1)


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
            row: dict[str, Any] = {**about, "found": True, "split": split, "format": source.format, "where": str(source)}
            try:
                images, labels = source.read()
                row |= {"images": len(images), "classes": np.unique(labels).tolist()}
                row |= {"original": source.is_original(images, labels)}
            except (ValueError, OSError) as error:
                row |= {"found": False, "problem": str(error)}
            rows.append(row)
    return rows or [{**about, "found": False, "problem": f"not found; solspace data prepare {name} fetches it"}]


def _print(rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("data set", "split", "images", "classes", "format")
    table.add_column("where", overflow="fold")
    for row in rows:
        if row["found"]:
            checked = ", as published" if row.get("original") else ""
            classes = "all" if len(row["classes"]) == 10 else " ".join(map(str, row["classes"]))
            images = f"{row['images']:,}{checked}"
            table.add_row(row["name"], row.get("split", "train"), images, classes, row.get("format", ""), row["where"])
        else:
            table.add_row(row["name"], row.get("split", ""), "", "", row.get("format", ""), row["problem"])
    Console().print(table)
