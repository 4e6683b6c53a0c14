"""`solspace sample`: draw fair samples of a problem, say how fair, and make a picture."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from solspace.cli.app import JSON, plain, say, show_json, show_table, verb
from solspace.cli.inputs import read_array
from solspace.measure import Target
from solspace.numerics.files import replacing
from solspace.numerics.names import unknown
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samples import Samples

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLERS = ("exact",)


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("sample")(verb(sample))


def sample(
    sampler: Annotated[
        str, typer.Option(help="How: " + ", ".join(SAMPLERS) + ".", rich_help_panel="Sampler")
    ] = "exact",
    samples: Annotated[int, typer.Option(help="How many samples.", rich_help_panel="Sampler")] = 16,
    seed: Annotated[int, typer.Option(help="Same seed, same result.", rich_help_panel="Sampler")] = 0,
    n: Annotated[int | None, typer.Option(help="Number of weights.", rich_help_panel="Random instance")] = None,
    alpha: Annotated[
        float, typer.Option(help="Load: constraints per weight.", rich_help_panel="Random instance")
    ] = 0.3,
    ensemble: Annotated[
        str, typer.Option(help="Random patterns: binary or gaussian.", rich_help_panel="Random instance")
    ] = "binary",
    patterns: Annotated[
        Path | None, typer.Option(help="Your patterns (m, n): .npy .npz .csv .parquet", rich_help_panel="Your data")
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="Your labels (m,), ±1.", rich_help_panel="Your data")] = None,
    prior: Annotated[str, typer.Option(help="binary or spherical.", rich_help_panel="Target")] = "binary",
    potential: Annotated[
        str, typer.Option(help="uniform, log, hinge, errors, tau(τ), band(width), ...", rich_help_panel="Target")
    ] = "log",
    temperature: Annotated[float, typer.Option(help="T; inf is the uniform measure.", rich_help_panel="Target")] = 0.5,
    margin: Annotated[float, typer.Option(help="κ: what a stability must reach.", rich_help_panel="Target")] = 0.0,
    out: Annotated[Path, typer.Option(help="Folder for samples.npz, report.json, samples.png.")] = Path("."),
    as_json: JSON = False,
) -> None:
    """Draw fair samples of a perceptron's solution space; a table, `samples.npz`, `report.json` and a picture.

    With no options: a random instance with ±1 weights under the log potential at T = 0.5, load 0.3.
    `--sampler exact` enumerates all weights (n up to 20): for teaching, and as the judge of all other samplers.
    """
    if sampler not in SAMPLERS:
        raise unknown("sampler", sampler, SAMPLERS)
    target = Target(prior, potential, temperature, margin)
    if patterns is not None:
        problem = Perceptron(read_array(patterns), None if labels is None else read_array(labels), target=target)
    elif labels is not None:
        raise ValueError("--labels needs --patterns.")
    else:
        problem = Perceptron.random(15 if n is None else n, alpha, target, ensemble, rng=generator(seed, 0))
    drawn, report, picture = _exact(problem, samples, seed)
    _write(out, drawn, report, picture)
    if as_json:
        show_json(report)
        return
    show_table(str(problem), report["table"], ("", "samples", "exact"))
    say(f"wrote samples.npz, report.json and samples.png to {out}")


Picture = Callable[["Figure"], None]


def _exact(problem: Perceptron, k: int, seed: int) -> tuple[Samples, dict[str, Any], Picture]:
    law = problem.enumerate()
    drawn = Samples.of(problem, law.sample(k, rng=generator(seed, 1)), {"sampler": "exact", "seed": seed})
    overlaps, mass = law.overlap_distribution()
    overlap = float(overlaps @ mass)
    stability = float(np.dot(*law.stability_distribution()))
    seen = drawn.overlaps()
    rows = [
        ("solved", f"{int(drawn.solved.sum())}/{k}", ""),
        ("mean stability", with_error(drawn.stabilities.mean(axis=1)), f"{stability:.4f}"),
        ("overlap of two samples", f"{seen.mean():.3f}" if len(seen) else "-", f"{overlap:.4f}"),
        ("solutions", "", f"{law.n_solutions} of {1 << problem.n}"),
        ("entropy per weight", "", f"{law.entropy:.4f}"),
    ]
    report = {
        "sampler": "exact",
        "problem": {"n": problem.n, "m": problem.m, "target": problem.target.to_dict()},
        "log_partition": law.log_partition,
        "entropy": law.entropy,
        "n_solutions": law.n_solutions,
        "solved": int(drawn.solved.sum()),
        "overlap": {"samples": float(seen.mean()) if len(seen) else None, "exact": overlap},
        "mean_stability": {"samples": float(drawn.stabilities.mean()), "exact": stability},
        "table": rows,
    }

    def picture(figure: Figure) -> None:
        from solspace.plots.samples import overlap_bars, stability_bars

        left, right = figure.subplots(1, 2)
        stability_bars(drawn, left, *law.stability_distribution())
        overlap_bars(drawn, right, overlaps, mass)

    return drawn, report, picture


def with_error(values: Any) -> str:
    """Return mean ± standard error of `values`."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return f"{values.mean():.4f}"
    return f"{values.mean():.4f} ± {values.std(ddof=1) / np.sqrt(len(values)):.4f}"


def _write(out: Path, drawn: Samples, report: dict[str, Any], picture: Picture) -> None:
    from matplotlib.figure import Figure

    out.mkdir(parents=True, exist_ok=True)
    drawn.save(out / "samples.npz")
    with replacing(out / "report.json") as file:
        file.write(json.dumps(plain(report), indent=2).encode())
    figure = Figure(figsize=(10, 4), layout="constrained")
    picture(figure)
    with replacing(out / "samples.png") as file:
        figure.savefig(file, dpi=160)
