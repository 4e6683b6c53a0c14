"""`solspace sweep`: a grid of problems and samplers into a store; the same command again goes on where it stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import solspace as ss
from solspace.cli.options import AS_JSON, Rule, argument, option, verb
from solspace.cli.output import Table, fail, say, show
from solspace.system.checks import one_of, whole

if TYPE_CHECKING:
    from solspace.experiments.images import ImageSpec
    from solspace.experiments.results import Results

EXECUTORS = ("serial", "processes", "dask")


@dataclass(frozen=True)
class RunOptions:
    PANEL: ClassVar = "Where it runs"
    executor: str = option("processes", "serial, processes or dask.", offer=lambda: EXECUTORS, check=one_of(EXECUTORS))
    scheduler: str | None = option(None, "Address of a Dask scheduler; a local cluster without.")
    n_workers: int | None = option(None, "Number of processes; by default one for each core.", check=whole(1))
    retry: bool = option(False, "Try tasks again that failed.")

    def count(self) -> int | None:
        """Return how many tasks would run side by side; None if the cluster decides."""
        from joblib import cpu_count

        if self.executor == "serial":
            return 1
        return None if self.scheduler else self.n_workers or cpu_count()


DEVICE = option(None, "cpu, gpu or auto, for samplers that have a choice.")
RUNNING = (
    Rule("scheduler", lambda o: o.executor == "dask", "needs --executor dask"),
    Rule("n_workers", lambda o: o.executor != "serial", "has no effect with --executor serial, which is one process"),
    Rule("n_workers", lambda o: o.scheduler is None, "has no effect with --scheduler, whose cluster has its own"),
)
RULES = (
    Rule("status", lambda o: not (o.dry_run or o.export), "cannot stand beside --dry-run or --export"),
    Rule("export", lambda o: not o.dry_run, "cannot stand beside --dry-run"),
    Rule("verify", lambda o: not (o.dry_run or o.status or o.export), "excludes --dry-run, --status and --export"),
    Rule(
        "executor scheduler n_workers retry",
        lambda o: not (o.status or o.verify or o.export),
        "has no effect with --status, --verify or --export, which run nothing",
    ),
    Rule("device", lambda o: not o.dry_run, "cannot stand beside --dry-run, which times tasks on the processor"),
    *RUNNING,
)


@verb(*RULES)
def sweep(
    running: RunOptions,
    spec: Path = argument("The grid, as TOML.", "SPEC.toml"),
    store: Path = option(Path("runs.db"), "The SQLite file of results, created if it does not exist."),
    device: str | None = DEVICE,
    dry_run: bool = option(False, "Show the grid and an estimate of its cost."),
    status: bool = option(False, "Show how far the sweep is, also while it runs."),
    verify: bool = option(False, "Compare all results of the store, of any sweep, with their digests."),
    export: Path | None = option(None, "Write the rows there, as .csv or .parquet; run nothing."),
    as_json: bool = AS_JSON,
) -> None:
    """Run a grid of random problems and samplers into a store.

    Stop it whenever you like, by Ctrl-C or by pulling the plug: the same command goes on where it stopped and ends
    with the rows of an uninterrupted run.
    """
    from solspace.experiments.results import Results

    grid = ss.Spec.from_toml(spec)
    if device is not None:
        check_device([grid], str(spec))
        grid = grid.with_options(device=device)
    results = Results(grid.tasks, store)
    if dry_run:
        _show_plan(grid, store, running, as_json)
    elif export is not None:
        _export(results, export, as_json)
    elif verify:
        _verify(store, as_json)
    elif status:
        _show_status(grid, results, as_json)
    else:
        try:
            ss.sweep(grid, store, **vars(running))
        except KeyboardInterrupt:
            fail(f"stopped; {_counted(results.status())} in {store}. The same command goes on.", code=130)
        _show_results(results, as_json)


def _counted(counts: dict[str, int]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count or name == "done")


def check_device(specs: Sequence[ss.Spec | ImageSpec], name: str) -> None:
    """Raise ValueError if no sampler of `specs` has an option for the device."""
    from solspace.samplers.registry import find

    if not any("device" in find(point["sampler"]).options for spec in specs for point in spec.points()):
        raise ValueError(f"--device has no effect on {name}: no sampler in it has a choice.")


def _show_plan(spec: ss.Spec, store: Path, running: RunOptions, as_json: bool) -> None:
    from solspace.experiments.runner import duration, estimate, stored

    done, workers = stored(spec.tasks(), store, running.retry), running.count()
    cost = estimate([spec], skipped=done)
    seconds = cost.seconds / workers if workers else None
    timed = [
        {"n": point["n"], "alpha": point["alpha"], "sampler": point["sampler"], **point["options"], "seconds": took}
        for point, took in cost.timed
    ]
    grid = {"name": spec.name, "axes": spec.axes, "points": sum(1 for _ in spec.points())}
    tasks = {"tasks": cost.tasks, "done": len(done), "core_seconds": cost.seconds, "seconds": seconds}
    rows = [(name, str(len(values)), _listed(values)) for name, values in spec.axes.items()]
    others = f" of {cost.tasks + len(done):,} tasks, the others are in {store}" if done else " tasks"
    beside = f", {duration(seconds)} on {workers}" if seconds is not None else ""
    parts: list[Table | str] = [
        Table(spec.name, [*rows, ("instances", str(spec.instances), "")], ("axis", "", "values")),
        f"\n{cost.tasks:,}{others}, about {duration(cost.seconds)} on one core{beside}.",
    ]
    for row in timed:
        about = ", ".join(f"{name} {value}" for name, value in row.items() if name != "seconds")
        parts.append(f"  timed: {about}: {duration(row['seconds'])}")
    show({**grid, **tasks, "timed": timed}, parts, as_json)


def _listed(values: Sequence[object]) -> str:
    shown = [f"{v:g}" if isinstance(v, (int, float)) else str(v) for v in values]
    return ", ".join(shown if len(shown) <= 6 else [*shown[:4], "...", shown[-1]])


def _export(results: Results, path: Path, as_json: bool) -> None:
    write = {".csv": results.to_csv, ".parquet": results.to_parquet}.get(path.suffix)
    if write is None:
        raise ValueError(f"--export writes .csv or .parquet; got {path}.")
    write(path)
    counts = results.status()
    show({"file": str(path), **counts}, [f"{_counted(counts)}; wrote {path}"], as_json)


def _show_status(spec: ss.Spec, results: Results, as_json: bool) -> None:
    counts = results.status()
    damaged = counts.get("damaged", 0)
    failed = [] if damaged else results.failed
    failures = [{"task": row.task, "error": row.error.splitlines()[0]} for row in failed]
    errors = [f"  failed: {error}" for error in dict.fromkeys(failure["error"] for failure in failures)]
    report = {"name": spec.name, "tasks": len(spec), **counts, "failures": failures}
    show(report, [f"{spec.name}: {len(spec):,} tasks, {_counted(counts)}", *errors], as_json)
    if damaged:
        fail(f"{damaged} results are damaged; --verify names them, the sweep computes them again.", code=1)


def _verify(path: Path, as_json: bool) -> None:
    from solspace.store import Store

    with Store(path) as store:
        counts, damaged = store.count(), store.damaged()
    found = [{"key": key, "reason": reason} for key, reason in damaged.items()]
    sound = f"{path}: {counts['done']:,} done, {counts['failed']:,} failed, all as they were written"
    show({"store": str(path), **counts, "damaged": found}, [] if damaged else [sound], as_json)
    for key, reason in damaged.items():
        say(f"{path}: result {key} is damaged: {reason}")
    if damaged:
        fail(f"{len(damaged)} results are damaged; the sweep they belong to computes them again.", code=1)


def _show_results(results: Results, as_json: bool) -> None:
    counts = results.status()
    by = list(dict.fromkeys(["sampler", "n", "alpha", *results.varying()]))
    points = results.mean("solved_fraction", by=by)
    rows = []
    for point in points:
        named = ("-" if point[name] is None else _listed([point[name]]) for name in by)
        interval = f"{point['low']:.3f} – {point['high']:.3f}"
        rows.append((*named, str(point["instances"]), f"{point['mean']:.3f}", interval))
    parts = [Table("fraction solved", rows, (*by, "instances", "solved", "one sigma"))] if rows else []
    report = {**counts, "store": str(results.path), "solved_fraction": points}
    show(report, parts, as_json, f"{_counted(counts)}, in {results.path}")
    if counts["failed"]:
        fail(f"{counts['failed']} tasks failed; --status shows why, --retry tries them again.", code=1)
