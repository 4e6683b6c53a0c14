"""`solspace data`: which image data sets are found and where; `solspace data prepare` fetches them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import typer

from solspace import data as images
from solspace.cli.options import AS_JSON, Rule, argument, option, verb
from solspace.cli.output import Table, fail, show
from solspace.data.catalogue import CATALOGUE, DataSet, data_set
from solspace.system.plain import Values


def image_sets() -> list[tuple[str, str]]:
    return [(one.name, one.title) for one in CATALOGUE.values()]


data = typer.Typer(help="Show which image data sets are found and where; `prepare` fetches them.")


@data.callback(invoke_without_command=True)
@verb(Rule("folder as_json", lambda o: o.subcommand is None, "goes behind the word prepare"))
def found_sets(
    folder: Path | None = option(None, "Look in this folder instead of SOLSPACE_DATA and the usual places."),
    as_json: bool = AS_JSON,
) -> None:
    """Show which image data sets are found, in SOLSPACE_DATA, our download folder and those of torchvision, Keras, Debian."""
    rows = [row for one in CATALOGUE.values() for row in _found(one, folder)]
    columns = ("data set", "split", "images", "classes", "format", "where")
    show(rows, [Table("image data sets", [*map(_cells, rows)], columns, justify="left")], as_json)


@data.command("prepare")
@verb()
def prepare(
    names: list[str] | None = argument("mnist, fashion, cifar10; by default all.", "NAMES", image_sets, default=None),
    folder: Path | None = option(None, "Put the files here instead of the download folder."),
    split: str = option("train", "train or test."),
    as_json: bool = AS_JSON,
) -> None:
    """Download the data sets that are not on this machine yet; what broke off is resumed."""
    report: list[Values] = []
    for one in [data_set(name) for name in names] if names else CATALOGUE.values():
        try:
            here = images.find(one.name, folder, split)
            if not one.downloads and split == "test":
                raise FileNotFoundError(f"{one.name} has no test split.")
            files = here[0].files if here else images.fetch(one.name, folder, split)
            report.append({"name": one.name, "files": [str(path) for path in files], "downloaded": not here})
        except FileNotFoundError as error:
            report.append({"name": one.name, "problem": str(error)})
        except KeyboardInterrupt:
            fail("stopped; what has arrived is kept. The same command goes on.", code=130)
    ready = (f"{row['name']}: {', '.join(row['files']) or 'always there'}" for row in report if "files" in row)
    show(report, ready, as_json)
    problems = [row["problem"] for row in report if "problem" in row]
    if problems:
        fail("\nsolspace: ".join(problems), code=1)


def _found(one: DataSet, folder: Path | None) -> list[Values]:
    about = {"name": one.name, "title": one.title, "licence": one.licence}
    if not one.downloads:
        return [{**about, "found": True, "where": "scikit-learn", "images": one.count, "classes": list(range(10))}]
    rows: list[Values] = []
    for split in ("train", "test"):
        for source in images.find(one.name, folder, split):
            row: Values = {**about, "split": split, "format": source.format, "where": str(source)}
            try:
                pixels, labels = source.read()
                row |= {"found": True, "images": len(pixels), "classes": np.unique(labels).tolist()}
                row |= {"original": source.is_original(pixels, labels)}
            except (ValueError, OSError) as error:
                row |= {"found": False, "problem": str(error)}
            rows.append(row)
    return rows or [{**about, "found": False, "problem": f"not found; solspace data prepare {one.name} fetches it"}]


def _cells(row: Values) -> tuple[str, ...]:
    images = classes = ""
    if row["found"]:
        images = f"{row['images']:,}" + (", as published" if row.get("original") else "")
        classes = "all" if len(row["classes"]) == 10 else " ".join(map(str, row["classes"]))
    where = row["where"] if row["found"] else row["problem"]
    return row["name"], row.get("split", ""), images, classes, row.get("format", ""), where
