"""`solspace reproduce`: the figures of the paper, from their tasks to the picture."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from solspace.cli.options import AS_JSON, Rule, argument, option, verb
from solspace.cli.output import Table, fail, say, show
from solspace.cli.sweep import DEVICE, RUNNING, RunOptions, check_device
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.experiments.figures import Figure
    from solspace.experiments.reproduce import ReproduceConfig

RULES = (
    Rule("figure", lambda o: not o.listed, "cannot stand beside --list, which lists all"),
    Rule(
        "size dry_run store out retry executor scheduler n_workers device parameters",
        lambda o: o.figure is not None,
        "needs a figure: give an ID or all",
    ),
    Rule("parameters", lambda o: o.figure != "all", "goes with one figure, not with all"),
    Rule("device", lambda o: not o.dry_run, "cannot stand beside --dry-run, which times tasks on the processor"),
    *RUNNING,
)


def _figure_names() -> list[str]:
    from solspace.experiments.figures import FIGURES

    return [*FIGURES, "all"]


@verb(*RULES)
def reproduce(
    running: RunOptions,
    figure: str | None = argument("A figure's ID, or all.", "ID|all", _figure_names, default=None),
    size: str = option("quick", "quick (minutes on two cores) or paper."),
    listed: bool = option(False, "List the figures.", "--list"),
    parameters: list[str] | None = option(
        None, "Another value of a parameter, as in temperature=0.7; may stand several times.", "--set"
    ),
    dry_run: bool = option(False, "Show what it would cost."),
    store: Path = option(Path("figures.db"), "The SQLite file of results."),
    out: Path = option(Path("figures"), "Folder for PNG, PDF, SVG and CSV."),
    device: str | None = DEVICE,
    as_json: bool = AS_JSON,
) -> None:
    """Make a figure of the paper, or all of them; the same command again goes on where it stopped.

    `--list` names the parameters of each figure. With others its loads lie where it shows the same, the titles and the names
    of its files say them, and its results are kept beside the paper's:
    `solspace reproduce binary-t-alpha --set temperature=0.7 --set margin=0.2`.
    """
    from solspace.experiments import figures
    from solspace.experiments.executors import RunConfig
    from solspace.experiments.reproduce import ReproduceConfig

    if listed or figure is None:
        _list(as_json)
        return
    named, run = _values(parameters or []), RunConfig(**vars(running))
    config = ReproduceConfig(size=size, store=store, out=out, parameters=named, device=device, run=run)
    chosen = [config.figure(name) for name in (figures.FIGURES if figure == "all" else (figure,))]
    if dry_run:
        _estimate(chosen, config, running.count(), as_json)
        return
    if device is not None:
        check_device([spec for one in chosen for spec in one.specs(size)], figure)
    try:
        _make([one.name for one in chosen], config, as_json)
    except KeyboardInterrupt:
        fail(f"stopped; what was computed so far is in {store}. The same command goes on.", code=130)


def _values(assignments: Sequence[str]) -> dict[str, float]:
    values: dict[str, float] = {}
    for assignment in assignments:
        name, _, text = assignment.partition("=")
        if name in values:
            raise ValueError(f"--set gives {name} twice.")
        try:
            values[name] = float(text)
        except ValueError:
            raise ValueError(f"--set must be NAME=NUMBER, as in temperature=0.7; got {assignment!r}.") from None
    return values


def _list(as_json: bool) -> None:
    from solspace.experiments import figures

    rows: list[Values] = [
        {"id": one.name, "place": one.place, "shows": one.title, "parameters": one.parameters}
        | {size: one.count(size) for size in figures.SIZES}
        for one in figures.FIGURES.values()
    ]
    # A line each, not a table: names are copied and searched for, and must not be cut or broken on any screen.
    width = max(len(row["id"]) for row in rows)
    lines = [f"{'ID':<{width}}  {'in the paper':<13}  tasks, quick  tasks, paper  shows"]
    for row in rows:
        values = ", ".join(f"{name}={value:g}" for name, value in row["parameters"].items())
        counts = f"{row['place']:<13}  {row['quick']:>12,}  {row['paper']:>12,}"
        lines.append(f"{row['id']:<{width}}  {counts}  {row['shows']}" + f" (parameters: {values})" * bool(values))
    show(rows, lines, as_json)


def _make(names: Sequence[str], config: ReproduceConfig, as_json: bool) -> None:
    from solspace.experiments import reproduce as figures
    from solspace.experiments.runner import duration

    rows: list[Values] = []
    start, several = time.perf_counter(), len(names) > 1
    # with several figures, one whose images are not on this machine does not stop the others
    for one in figures.reproduce_all(names, config) if several else [figures.reproduce(names[0], config)]:
        computed = one.outcome.computed
        result: Values = {"files": list(map(str, one.files)), "computed": computed, "failed": one.outcome.failed}
        about = {"problem": one.problem} if one.problem else result
        rows.append({"id": one.name, **about, "seconds": one.seconds, "together": one.together})
        counted = not several or computed  # what was computed with others is counted with one of them
        words = one.problem or f"{computed} tasks computed, " * bool(counted) + str(one.files[0])
        others = f", together with {one.together - 1} more" * (one.together > 1)
        say(f"{one.name} ({duration(one.seconds)}{others}): {words}")
    if several:
        say(f"{len(rows)} figures in {duration(time.perf_counter() - start)}.")
    show(rows, [], as_json)
    if failed := sum(row.get("failed", 0) for row in rows):
        fail(f"{failed} tasks failed and are missing from the pictures; --retry tries them again.", code=1)
    if problems := sum("problem" in row for row in rows):
        fail(f"{problems} of {len(rows)} figures could not be made; the reasons are above.", code=1)


def _estimate(chosen: Sequence[Figure], config: ReproduceConfig, workers: int | None, as_json: bool) -> None:
    from solspace.experiments.runner import duration

    rows, store = [_cost(one, config) for one in chosen], config.store
    total = sum(row["core_seconds"] or 0.0 for row in rows)

    def times(seconds: float | None) -> list[str]:
        known = [None if seconds is None or not count else seconds / count for count in (1, workers)]
        return ["?" if time is None else duration(time) if time else "-" for time in known]

    table = [[row["id"], str(row["theory_tasks"]), f"{row['tasks']:,}", *times(row["core_seconds"])] for row in rows]
    table += [["all", "", "", *times(total)]] if len(rows) > 1 else []
    columns = ("ID", "theory tasks", "sampling tasks", "on one core", f"on {workers or 'the cluster'}")
    done, timed, theory = (sum(row[name] for row in rows) for name in ("done", "timed", "theory_tasks"))
    parts: list[Table | str] = [Table(f"to compute at size {config.size}", table, columns)]
    parts += [f"{done:,} further tasks are in {store} already." if done else f"Nothing of it is in {store} yet."]
    if timed:
        parts += [
            f"The times follow from {timed} sampling tasks that were timed just now on one core, larger ones in "
            "proportion to their work; expect them right within a factor of two."
        ]
    if theory:
        parts += ["Theory takes seconds a task and is not in the times."]
    parts += [f"{row['id']}: {row['problem']}" for row in rows if "problem" in row]
    parts += [f"Results would go to {store}, pictures to {config.out}."]
    report = {"size": config.size, "figures": rows, "core_seconds": total}
    show({**report, "seconds": total / workers if workers else None, "workers": workers}, parts, as_json)


def _cost(figure: Figure, config: ReproduceConfig) -> Values:
    """Return what is still to be computed for a figure, and its cost or the problem that prevents an estimate."""
    from solspace.experiments.runner import CannotEstimate, estimate, stored

    specs, theory = figure.specs(config.size), figure.theory(config.size)
    row: Values = {"id": figure.name, "core_seconds": None, "timed": 0, "done": 0}
    row |= {"theory_tasks": len(theory), "tasks": sum(map(len, specs))}
    if missing := figure.missing(config.size):
        sets = " ".join(missing)
        problem = f"needs {sets}, which is not on this machine: `solspace data prepare {sets}` fetches it."
        return row | {"problem": problem}
    done = stored(figure.tasks(config.size), config.store, config.run.retry)
    row |= {"done": len(done), "theory_tasks": sum(task.key not in done for task in theory)}
    try:
        cost = estimate(specs, allowed=5.0, skipped=done)
    except CannotEstimate as error:
        return row | {"problem": f"a task that was timed failed: {error}"}
    return row | {"tasks": cost.tasks, "core_seconds": cost.seconds, "timed": len(cost.timed)}
