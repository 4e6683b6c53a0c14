"""`solspace sample`: draw fair samples of a problem, say how fair, and make a picture."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Annotated, Any

import typer

from solspace.cli import draw
from solspace.cli.app import JSON, plain, say, show_json, show_table, verb
from solspace.cli.data import image_problem
from solspace.cli.inputs import read_array
from solspace.measure import Target
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.system.files import replacing
from solspace.system.names import unknown

SIZES = {"asl": 2001, "tau": 1001, "sa": 1001, "exact": 15}
"""The samplers, and the size of a random instance where none is given."""


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("sample")(verb(sample))


def _option(panel: str, text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=panel)


def sample(
    sampler: Annotated[str, _option("Sampler", "How: asl, tau, sa or exact (see above).")] = "asl",
    samples: Annotated[int, _option("Sampler", "How many samples (chains for tau and sa).")] = 16,
    seed: Annotated[int, _option("Sampler", "Same seed, same result.")] = 0,
    method: Annotated[str, _option("Sampler", "asl: fast, careful, or auto: careful where it gets hard.")] = "auto",
    damping: Annotated[str, _option("Sampler", "asl: a number from 0 to below 1, or auto.")] = "auto",
    precision: Annotated[str, _option("Sampler", "asl: float32 or float64.")] = "float32",
    sweeps: Annotated[int | None, _option("Sampler", "tau, sa: sweeps of the schedule; n unless given.")] = None,
    solve: Annotated[bool, _option("Sampler", "tau, sa: stop at the first solution: not fair.", "--solve")] = False,
    device: Annotated[str, _option("Sampler", "cpu, gpu, or auto.")] = "cpu",
    n: Annotated[int | None, _option("Random instance", "Number of weights.")] = None,
    alpha: Annotated[
        float | None, _option("Random instance", "Load: constraints per weight; 0.3 unless given.")
    ] = None,
    ensemble: Annotated[str, _option("Random instance", "Entries of the patterns: binary or gaussian.")] = "binary",
    patterns: Annotated[Path | None, _option("Your data", "Patterns (m, n): .npy .npz .csv .parquet")] = None,
    labels: Annotated[Path | None, _option("Your data", "Labels (m,) of +1 and -1.")] = None,
    data: Annotated[str | None, _option("Your data", "An image set: mnist, fashion, cifar10 or digits.")] = None,
    classes: Annotated[str | None, _option("Your data", "Two classes of it, as in 3,8.")] = None,
    features: Annotated[int | None, _option("Your data", "Random linear features of the images.")] = None,
    preprocess: Annotated[str, _option("Your data", "Images: centred, raw or binarised.")] = "centred",
    prior: Annotated[str, _option("Target", "binary or spherical.")] = "binary",
    potential: Annotated[str, _option("Target", "uniform, log, hinge, errors, tau(τ), band(width), ...")] = "log",
    temperature: Annotated[float, _option("Target", "T; inf is the uniform measure.")] = 0.5,
    margin: Annotated[float, _option("Target", "κ: what a stability must reach.")] = 0.0,
    out: Annotated[Path, _option("Output", "Folder for samples.npz, report.json, samples.png.")] = Path("."),
    resume: Annotated[bool, _option("Output", "Go on from where the same command was stopped.", "--resume")] = False,
    as_json: JSON = False,
) -> None:
    """Draw fair samples of a perceptron's solution space: a table, `samples.npz`, `report.json` and a picture.

    With no options: a random instance with ±1 weights under the log potential at T = 0.5, load 0.3, by ASL.

    - `asl`: stochastic localization with message passing; fair on random patterns below its threshold.

    - `tau`: Metropolis with the potential annealed towards -log s; works on any patterns, ±1 weights.

    - `sa`: Metropolis with the temperature annealed to 0 on the hinge (or errors) potential; for comparison.

    - `exact`: enumeration of all ±1 weights, n up to 20; the judge of the others.
    """
    if sampler not in SIZES:
        raise unknown("sampler", sampler, SIZES)
    out.mkdir(parents=True, exist_ok=True)
    target = Target(prior, potential, temperature, margin)
    if data is not None:
        load = 0.4 if alpha is None else alpha
        rng = generator(seed, 0)
        problem = image_problem(data, classes, load, target, features=features, preprocess=preprocess, rng=rng)
    elif patterns is not None:
        problem = Perceptron(read_array(patterns), None if labels is None else read_array(labels), target=target)
    elif labels is not None:
        raise ValueError("--labels needs --patterns.")
    else:
        size = SIZES[sampler] if n is None else n
        problem = Perceptron.random(size, 0.3 if alpha is None else alpha, target, ensemble, rng=generator(seed, 0))
    settings = draw.Settings(
        samples=samples, seed=seed, method=method, damping=damping, precision=precision, sweeps=sweeps, solve=solve,
        device=device, checkpoint=out / f"{sampler}.checkpoint.npz", resume=resume, quiet=as_json,
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: say(f"warning: {message}")
        outcome = draw.DRAW[sampler](problem, settings)
    _write(out, outcome)
    if as_json:
        show_json(outcome.report)
        return
    show_table(str(problem), outcome.rows, outcome.columns)
    if outcome.verdict:
        print(outcome.verdict)
    say(f"wrote samples.npz, report.json and samples.png to {out}")


def _write(out: Path, outcome: draw.Outcome) -> None:
    from matplotlib.figure import Figure

    from solspace.plots.style import style

    outcome.samples.save(out / "samples.npz")
    with replacing(out / "report.json") as file:
        file.write(json.dumps(plain(outcome.report), indent=2).encode())
    with style(), replacing(out / "samples.png") as file:
        figure = Figure(figsize=outcome.size, layout="constrained")
        outcome.picture(figure)
        figure.savefig(file)
