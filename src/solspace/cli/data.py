"""`solspace data`: which image data sets are found and where; `solspace data prepare` fetches them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from solspace.cli.app import JSON, fail, show_json, verb
from solspace.cli.completion import completing, image_sets
from solspace.cli.rules import Rule
from solspace.measure import Target
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.system.plain import Values

Folder = Annotated[Path | None, typer.Option(help="Look in this folder instead of SOLSPACE_DATA and the usual places.")]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    group = typer.Typer(help="Show which image data sets are found and where; `prepare` fetches them.")
    behind = Rule("folder as_json", lambda o: o.subcommand is None, "goes behind the word prepare")
    group.callback(invoke_without_command=True)(verb(show, behind))
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
    names: Annotated[
        list[str] | None,
        typer.Argument(help="mnist, fashion, cifar10; all unless given.", autocompletion=completing(image_sets)),
    ] = None,
    folder: Annotated[Path | None, typer.Option(help="Put the files here instead of the download folder.")] = None,
    split: Annotated[str, typer.Option(help="train or test.")] = "train",
    as_json: JSON = False,
) -> None:
    """Download the data sets that are not on this machine yet; what broke off is resumed."""
    from solspace.data import CATALOGUE, fetch, find
    from solspace.data.catalogue import data_set

    report: list[Values] = []
    for data in [data_set(name) for name in names] if names else CATALOGUE.values():
        try:
            here = find(data.name, folder, split)
            if not data.downloads and split == "test":
                raise FileNotFoundError(f"{data.name} has no test split.")
            files = here[0].files if here else fetch(data.name, folder, split)
            report.append({"name": data.name, "files": [str(path) for path in files], "downloaded": not here})
        except FileNotFoundError as error:
            report.append({"name": data.name, "problem": str(error)})
        except KeyboardInterrupt:
            fail("stopped; what has arrived is kept. The same command goes on.", code=130)
    if as_json:
        show_json(report)
    else:
        for row in report:
            if "files" in row:
                print(f"{row['name']}: {', '.join(row['files']) or 'always there'}")
    problems = [row["problem"] for row in report if "problem" in row]
    if problems:
        fail("\nsolspace: ".join(problems), code=1)


def image_problem(
    name: str,
    classes: str | None,
    alpha: float,
    target: Target,
    *,
    features: int | None = None,
    preprocess: str = "centred",
    folder: Path | None = None,
    rng: RNG = None,
) -> Perceptron:
    """Return a random instance of a data set, for verbs that sample: `--data mnist --classes 3,8 --alpha 0.4`."""
    from solspace.data import load

    X, y = load(name, None if classes is None else two(classes), preprocess, folder=folder)
    return Perceptron.from_data(X, y, alpha, features, target=target, rng=rng)


def two(text: str) -> tuple[int, int]:
    """Return the two classes in `text`.

    >>> two("3,8")
    (3, 8)
    """
    words = text.replace(",", " ").split()
    if len(words) != 2 or not all(word.isdecimal() for word in words):
        raise ValueError(f"--classes must be two numbers such as 3,8; got {text!r}.")
    return int(words[0]), int(words[1])


def _found(name: str, folder: Path | None) -> list[Values]:
    import numpy as np

    from solspace.data import CATALOGUE, find

    data = CATALOGUE[name]
    about = {"name": name, "title": data.title, "licence": data.licence}
    if not data.downloads:
        return [{**about, "found": True, "where": "scikit-learn", "images": data.count, "classes": list(range(10))}]
    rows: list[Values] = []
    for split in ("train", "test"):
        for source in find(name, folder, split):
            row: Values = {**about, "split": split, "format": source.format, "where": str(source)}
            try:
                images, labels = source.read()
                row |= {"found": True, "images": len(images), "classes": np.unique(labels).tolist()}
                row |= {"original": source.is_original(images, labels)}
            except (ValueError, OSError) as error:
                row |= {"found": False, "problem": str(error)}
            rows.append(row)
    return rows or [{**about, "found": False, "problem": f"not found; solspace data prepare {name} fetches it"}]


def _print(rows: list[Values]) -> None:
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
