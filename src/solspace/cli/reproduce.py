"""`solspace reproduce`: the figures of the paper, from their spec to the picture."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from solspace.cli.app import JSON, fail, say, show_json, show_table, verb
from solspace.cli.completion import completing
from solspace.cli.completion import figures as figure_names
from solspace.cli.rules import Rule
from solspace.cli.sweep import RUNNING, Device, Executor, Scheduler, Workers, places, takes_device
from solspace.system.names import unknown
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.experiments.figures import Figure

RULES = (
    Rule("figure", lambda o: not o.listed, "cannot stand beside --list, which lists all"),
    Rule(
        "size dry_run store out retry executor scheduler workers device parameters",
        lambda o: o.figure is not None,
        "needs a figure: give an ID or all",
    ),
    Rule("parameters", lambda o: o.figure != "all", "goes with one figure, not with all"),
    Rule("device", lambda o: not o.dry_run, "cannot stand beside --dry-run, which times tasks on the processor"),
    *RUNNING,
)


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("reproduce")(verb(reproduce, *RULES))


def reproduce(
    figure: Annotated[
        str | None,
        typer.Argument(help="A figure's ID, or all.", metavar="ID|all", autocompletion=completing(figure_names)),
    ] = None,
    size: Annotated[str, typer.Option(help="quick (minutes on two cores) or paper.")] = "quick",
    listed: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
    parameters: Annotated[
        list[str] | None,
        typer.Option("--set", help="Another value of a parameter, as in temperature=0.7; may stand several times."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what it would cost.")] = False,
    store: Annotated[Path, typer.Option(help="The SQLite file of results.")] = Path("figures.db"),
    out: Annotated[Path, typer.Option(help="Folder for PNG, PDF, SVG and CSV.")] = Path("figures"),
    retry: Annotated[bool, typer.Option("--retry", help="Try tasks again that failed.")] = False,
    executor: Executor = "processes",
    scheduler: Scheduler = None,
    workers: Workers = None,
    device: Device = None,
    as_json: JSON = False,
) -> None:
    """Make a figure of the paper, or all of them; the same command again goes on where it stopped.

    `--list` names the parameters of each figure. With others its loads lie where it shows the same, the titles and the names
    of its files say them, and its results are kept beside the paper's:
    `solspace reproduce binary-t-alpha --set temperature=0.7 --set margin=0.2`.
    """
    from solspace.experiments import figures

    if listed or figure is None:
        _list(as_json)
        return
    chosen = tuple(map(figures.find, figures.FIGURES)) if figure == "all" else (figures.find(figure),)
    values = _values(parameters or [])
    chosen = tuple(one.with_parameters(values) for one in chosen)
    if size not in figures.SIZES:
        raise unknown("size", size, figures.SIZES)
    if dry_run:
        count = places(executor, scheduler, workers)
        _estimate(chosen, size, store, retry, count, as_json)
        if not as_json:
            print(f"Results would go to {store}, pictures to {out}.")
        return
    if device is not None:
        takes_device([spec for one in chosen for spec in one.specs(size)], figure)
    try:
        _make([one.name for one in chosen], size, as_json, store=store, out=out, retry=retry, executor=executor,
              scheduler=scheduler, n_workers=workers, device=device, parameters=values)  # fmt: skip
    except KeyboardInterrupt:
        fail(f"stopped; what was computed so far is in {store}. The same command goes on.", code=130)


def _values(words: list[str]) -> dict[str, float]:
    """Return the parameters that `--set` names."""
    values: dict[str, float] = {}
    for word in words:
        name, _, text = word.partition("=")
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"--set must be NAME=NUMBER, as in temperature=0.7; got {word!r}.") from None
        if name in values:
            raise ValueError(f"--set gives {name} twice.")
        values[name] = value
    return values


def _list(as_json: bool) -> None:
    from solspace.experiments import figures

    rows: list[Values] = [
        {
            "id": one.name,
            "place": one.place,
            "shows": one.title,
            **{s: one.count(s) for s in figures.SIZES},
            "parameters": one.parameters,
        }
        for one in map(figures.find, figures.FIGURES)
    ]
    if as_json:
        show_json(rows)
    else:
        # A line each, not a table: names are copied and searched for, and must not be cut or broken on any screen.
        width = max(len(row["id"]) for row in rows)
        print(f"{'ID':<{width}}  {'in the paper':<13}  tasks, quick  tasks, paper  shows")
        for row in rows:
            given = ", ".join(f"{name}={value:g}" for name, value in row["parameters"].items())
            print(
                f"{row['id']:<{width}}  {row['place']:<13}  {row['quick']:>12,}  {row['paper']:>12,}  {row['shows']}"
                + (f" (parameters: {given})" if given else "")
            )


def _make(names: Sequence[str], size: str, as_json: bool, parameters: dict[str, float], **options: Any) -> None:
    from solspace.experiments.estimate import spoken
    from solspace.experiments.reproduce import reproduce as make
    from solspace.experiments.reproduce import reproduce_all

    made: list[Values] = []
    begun, several = time.perf_counter(), len(names) > 1
    # With several figures asked for, one whose images are not on this machine does not stop the others.
    making = (
        reproduce_all(names, size, **options) if several else [make(names[0], size, parameters=parameters, **options)]
    )
    for one in making:
        about: Values = {"problem": one.problem} if one.problem else {
            "files": [str(path) for path in one.files], "computed": one.outcome.computed, "failed": one.outcome.failed,
        }  # fmt: skip
        made.append({"id": one.name, **about, "seconds": one.seconds, "together": one.together})
        counted = not several or one.outcome.computed  # what was computed with others is counted with one of them
        words = one.problem or f"{one.outcome.computed} tasks computed, " * bool(counted) + str(one.files[0])
        company = f", together with {one.together - 1} more" * (one.together > 1)
        say(f"{one.name} ({spoken(one.seconds)}{company}): {words}")
    if several:
        say(f"{len(made)} figures in {spoken(time.perf_counter() - begun)}.")
    if as_json:
        show_json(made)
    failed = sum(one.get("failed", 0) for one in made)
    problems = sum("problem" in one for one in made)
    if failed:
        fail(f"{failed} tasks failed and are missing from the pictures; --retry tries them again.", code=1)
    if problems:
        fail(f"{problems} of {len(made)} figures could not be made; the reasons are above.", code=1)


def _estimate(chosen: Sequence[Figure], size: str, store: Path, retry: bool, count: int | None, as_json: bool) -> None:
    rows = [_costs(one, size, store, retry) for one in chosen]
    total = sum(row["core_seconds"] or 0.0 for row in rows)
    seconds = total / count if count else None
    if as_json:
        show_json({"size": size, "figures": rows, "core_seconds": total, "seconds": seconds, "workers": count})
        return
    from solspace.experiments.estimate import spoken

    def spoken_or_not(value: float | None, share: int | None) -> str:
        return "?" if value is None or not share else spoken(value / share) if value else "-"

    costs = [*rows, {"id": "all", "core_seconds": total}] if len(rows) > 1 else rows
    table = [
        (
            row["id"],
            str(row.get("theory_tasks", "")),
            f"{row['tasks']:,}" if "tasks" in row else "",
            spoken_or_not(row["core_seconds"], 1),
            spoken_or_not(row["core_seconds"], count),
        )
        for row in costs
    ]
    columns = ("ID", "theory tasks", "sampling tasks", "on one core", f"on {count or 'the cluster'}")
    show_table(f"to compute at size {size}", table, columns)
    done = sum(row["done"] for row in rows)
    print(f"{done:,} further tasks are in {store} already." if done else f"Nothing of it is in {store} yet.")
    if timed := sum(row["timed"] for row in rows):
        print(
            f"The times follow from {timed} sampling tasks that were timed just now on one core, dearer ones in "
            "proportion to their work; expect them right within a factor of two."
        )
    if sum(row["theory_tasks"] for row in rows):
        print("Theory takes seconds a task and is not in the times.")
    for row in rows:
        if "problem" in row:
            print(f"{row['id']}: {row['problem']}")


def _costs(figure: Figure, size: str, store: Path, retry: bool) -> Values:
    """Return what is still to be computed for a figure, and what that costs or why nobody knows."""
    from solspace.experiments.estimate import CannotEstimate, estimate, finished

    about: Values = {"id": figure.name, "core_seconds": None, "timed": 0, "done": 0}
    if missing := figure.missing(size):
        sets = " ".join(missing)
        about["problem"] = f"needs {sets}, which is not on this machine: `solspace data prepare {sets}` fetches it."
        return {**about, "theory_tasks": len(figure.theory(size)), "tasks": sum(map(len, figure.specs(size)))}
    done = finished(figure.tasks(size), store, retry)
    about |= {"done": len(done), "theory_tasks": sum(task.key not in done for task in figure.theory(size))}
    try:
        cost = estimate(figure.sweeps(size), allowed=5.0, done=done)
    except CannotEstimate as error:
        return {
            **about,
            "tasks": sum(map(len, figure.specs(size))),
            "problem": f"a task that was timed failed: {error}",
        }
    return {**about, "tasks": cost.tasks, "core_seconds": cost.seconds, "timed": len(cost.timed)}
