"""`solspace reproduce`: the figures of the paper, from their spec to the picture."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from solspace.cli.app import JSON, fail, say, show_json, show_table, verb
from solspace.cli.sweep import Device, Executor, Scheduler, Workers


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("reproduce")(verb(reproduce))


def reproduce(
    figure: Annotated[str | None, typer.Argument(help="A figure's ID, or all.", metavar="ID|all")] = None,
    size: Annotated[str, typer.Option(help="quick (minutes on two cores) or paper.")] = "quick",
    listed: Annotated[bool, typer.Option("--list", help="List the figures.")] = False,
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
    """Make a figure of the paper, or all of them; the same command again goes on where it stopped."""
    from solspace.experiments import figures

    if listed or figure is None:
        _list(as_json)
        return
    names = figures.FIGURES if figure == "all" else (figures.find(figure).name,)
    if dry_run:
        _estimate(names, size, workers, as_json)
        return
    _make(names, size, as_json, store=store, out=out, retry=retry, executor=executor, scheduler=scheduler,
          n_workers=workers, device=device)  # fmt: skip


def _list(as_json: bool) -> None:
    from solspace.experiments import figures

    rows: list[dict[str, Any]] = [
        {"id": one.name, "place": one.place, "shows": one.title, **{s: one.count(s) for s in figures.SIZES}}
        for one in map(figures.find, figures.FIGURES)
    ]
    if as_json:
        show_json(rows)
    else:
        table = [(r["id"], r["place"], r["shows"], f"{r['quick']:,}", f"{r['paper']:,}") for r in rows]
        show_table("figures", table, ("ID", "in the paper", "shows", "tasks, quick", "tasks, paper"))


def _make(names: tuple[str, ...], size: str, as_json: bool, **options: Any) -> None:
    from solspace.experiments.estimate import spoken

    made: list[dict[str, Any]] = []
    for name in names:
        start = time.perf_counter()
        try:
            made.append(_one(name, size, options))
        except (ValueError, ImportError, OSError) as error:
            if len(names) == 1:
                raise
            # With all figures asked for, one whose images are not on this machine does not stop the others.
            made.append({"id": name, "problem": " ".join(str(error).split())})
        made[-1]["seconds"] = time.perf_counter() - start
        words = made[-1].get("problem") or f"{made[-1]['computed']} tasks computed, {made[-1]['files'][0]}"
        say(f"{name} ({spoken(made[-1]['seconds'])}): {words}")
    if as_json:
        show_json(made)
    failed = sum(one.get("failed", 0) for one in made)
    problems = sum("problem" in one for one in made)
    if failed:
        fail(f"{failed} tasks failed and are missing from the pictures; --retry tries them again.", code=1)
    if problems:
        fail(f"{problems} of {len(made)} figures could not be made; the reasons are above.", code=1)


def _one(name: str, size: str, options: dict[str, Any]) -> dict[str, Any]:
    from solspace.experiments.reproduce import reproduce as make

    done = make(name, size, **options)
    files = [str(path) for path in done.files]
    return {"id": name, "files": files, "computed": done.outcome.computed, "failed": done.outcome.failed}


def _estimate(names: tuple[str, ...], size: str, workers: int | None, as_json: bool) -> None:
    from solspace.experiments import figures
    from solspace.experiments.estimate import estimate, spoken
    from solspace.experiments.executors import cores

    count = workers or cores()
    rows: list[dict[str, Any]] = []
    for name in names:
        figure = figures.find(name)
        cost = estimate(figure.sweeps(size), allowed=5.0)
        rows.append(
            {"id": name, "theory_tasks": len(figure.theory(size)), "tasks": cost.tasks, "core_seconds": cost.seconds}
        )
    total = sum(row["core_seconds"] for row in rows)
    if as_json:
        show_json({"size": size, "figures": rows, "seconds": total / count, "workers": count})
        return
    table = [
        (
            r["id"],
            str(r["theory_tasks"]),
            f"{r['tasks']:,}",
            spoken(r["core_seconds"]),
            spoken(r["core_seconds"] / count),
        )
        for r in rows
    ]
    columns = ("ID", "theory tasks", "sampling tasks", "on one core", f"on {count}")
    show_table(
        f"estimated cost at size {size}", [*table, ("all", "", "", spoken(total), spoken(total / count))], columns
    )
    print("Theory takes seconds a task and is not in the estimate.")
