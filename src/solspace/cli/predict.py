"""`solspace predict`: what theory says about a target at a load, before any run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer

from solspace.cli.app import JSON, result_file, say, show_json, show_table, verb
from solspace.cli.completion import completing, potentials, priors
from solspace.cli.rules import TEMPERATURE
from solspace.measure import Target

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction
    from solspace.theory.thresholds import Thresholds


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("predict")(verb(predict, TEMPERATURE))


def predict(
    alpha: Annotated[float, typer.Option(help="Load: constraints per weight.")] = 0.3,
    prior: Annotated[str, typer.Option(help="binary or spherical.", autocompletion=completing(priors))] = "binary",
    potential: Annotated[
        str,
        typer.Option(
            help="uniform, log, log_band(K), hinge, errors, tau(τ), band(K), ...", autocompletion=completing(potentials)
        ),
    ] = "log",
    temperature: Annotated[float, typer.Option(help="T, from 1e-4 on; inf is the uniform measure.")] = 0.5,
    margin: Annotated[float, typer.Option(help="κ: what a stability must reach.")] = 0.0,
    times: Annotated[str | None, typer.Option(help="Times of the curves φ_t(q), as in 0,0.5,2.")] = None,
    no_thresholds: Annotated[bool, typer.Option("--no-thresholds", help="Leave the thresholds out: faster.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for prediction.png; NAME.png, NAME.pdf, ... names the picture itself.")
    ] = Path("."),
    as_json: JSON = False,
) -> None:
    """Say what replica theory predicts: order parameters, thresholds around the load, regimes; and draw it.

    Green: φ_t(q) has one maximum at time t. Yellow: a second one, lower. Red: the second one is higher, and sampling by
    localization fails. All three: `solspace predict --prior spherical --potential uniform --margin -2.5 --alpha 278`.
    """
    from solspace.theory.prediction import predict as theory

    out = result_file(out, "prediction.png")
    curves = _times(times)
    prediction = theory(Target(prior, potential, temperature, margin), alpha)
    limits = None
    if not no_thresholds:
        from solspace.theory.thresholds import thresholds

        limits = thresholds(prediction.target)
    _draw(prediction, curves, out)
    if as_json:
        show_json({**prediction.to_dict(), "thresholds": None if limits is None else limits.to_dict()})
        return
    rows = [
        ("overlap r", f"{prediction.overlap:.9g}"),
        ("conjugate r̂", f"{prediction.conjugate:.9g}"),
        ("free entropy φ", f"{prediction.free_entropy:.9g}"),
        ("entropy per weight", f"{prediction.entropy:.9g}"),
        ("replicon", f"{prediction.replicon:.6g}"),
        ("mean stability", f"{prediction.mean_stability:.6g}"),
    ]
    if prediction.norm_conjugate is not None:
        rows.insert(2, ("norm conjugate r̂_d", f"{prediction.norm_conjugate:.9g}"))
    show_table(f"{prediction.target}, α = {alpha:g}", rows, ("", "value"))
    if limits is not None:
        show_table("thresholds", _around(limits, alpha), ("load at which", "α", "this load is"))
    print(prediction.summary())
    say(f"wrote {out}")


NAMES = {
    "asl": "ASL stops",
    "dat": "replica symmetry breaks (dAT)",
    "dynamical": "a second maximum appears at t = 0 (d1RSB)",
    "condensation": "it takes over at t = 0 (static 1RSB)",
    "zero_entropy": "typical samples of this measure end (zero entropy)",
    "capacity": "the constraints stop having solutions (capacity)",
    "capacity_rs": "capacity, replica symmetric (Gardner)",
    "capacity_1rsb": "capacity, 1RSB",
}


def _around(limits: Thresholds, alpha: float) -> list[tuple[str, str, str]]:
    rows = []
    for name, words in NAMES.items():
        value = getattr(limits, name)
        if value is None:
            if not name.startswith(("capacity_", "zero_entropy")):
                rows.append((words, "none", ""))
        else:
            rows.append((words, f"{value:.7g}", "below" if alpha < value else "above"))
    return rows


def _times(text: str | None) -> list[float] | None:
    if text is None:
        return None
    try:
        times = sorted(float(word) for word in text.split(","))
    except ValueError:
        times = [-1.0]
    if not (times[0] >= 0 and np.isfinite(times).all()):
        raise ValueError(f"--times must be numbers of at least 0 separated by commas, as in 0,0.5,2; got {text!r}.")
    return times


def _draw(prediction: Prediction, times: list[float] | None, out: Path) -> None:
    from solspace.plots.style import panels, style
    from solspace.plots.theory import prediction_panels
    from solspace.system.files import replacing

    with style():
        figure, axes = panels(4, width=4.0)
        prediction_panels(prediction, axes, times)
        with replacing(out) as file:
            figure.savefig(file, format=out.suffix.lstrip("."))
