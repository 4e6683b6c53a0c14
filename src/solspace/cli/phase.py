"""`solspace phase`: the t–α diagram of a target, or the map of its thresholds over margins or widths of a band."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from solspace.cli.app import JSON, result_file, say, show_json, verb
from solspace.cli.completion import completing, potentials, priors
from solspace.cli.rules import TEMPERATURE, Rule
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.system.files import replacing
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from solspace.theory.phases import PhaseDiagram, SamplingMap
    from solspace.theory.thresholds import Thresholds

RULES = (
    Rule("alphas times margin", lambda o: o.margins is None, "belongs to the t–α diagram, not to the map of --margins"),
    Rule("alphas times margins", lambda o: o.widths is None, "cannot go with the map of --widths"),
    Rule(
        "widths", lambda o: o.potential.startswith(("band", "log_band")), "belongs to the potentials band and log_band"
    ),
    TEMPERATURE,
)


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("phase")(verb(phase, *RULES))


def phase(
    prior: Annotated[str, typer.Option(help="binary or spherical.", autocompletion=completing(priors))] = "binary",
    potential: Annotated[
        str,
        typer.Option(
            help="uniform, log, log_band(K), hinge, errors, tau(τ), band(K), ...", autocompletion=completing(potentials)
        ),
    ] = "log",
    temperature: Annotated[float, typer.Option(help="T, from 1e-4 on; inf is the uniform measure.")] = 0.5,
    margin: Annotated[float, typer.Option(help="κ, for the t–α diagram.")] = 0.0,
    alphas: Annotated[
        str | None, typer.Option(help="Loads as FIRST:LAST:COUNT; around the thresholds unless given.")
    ] = None,
    times: Annotated[str | None, typer.Option(help="Times as FIRST:LAST:COUNT; over all windows unless given.")] = None,
    margins: Annotated[str | None, typer.Option(help="Margins as FIRST:LAST:COUNT: the α–κ map instead.")] = None,
    widths: Annotated[
        str | None, typer.Option(help="Widths K of the band as FIRST:LAST:COUNT: the α–K map instead.")
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder for phase.png and phase.csv; NAME.png, NAME.pdf, ... names the picture itself.")
    ] = Path("."),
    as_json: JSON = False,
) -> None:
    """Draw where sampling by localization works: over times and loads, or over loads and margins (or widths of a band).

    The lines are exact: a window narrower than the grid is drawn, and is in the CSV, all the same.

    - the paper's Fig. 1, centre: `solspace phase --prior spherical --potential uniform --margin -2.5`

    - the paper's Fig. 1, right: `solspace phase --prior spherical --potential uniform --margins=-2.6:-0.2:25`

    - the paper's Fig. 2, left: `solspace phase`

    - the symmetric perceptron: `solspace phase --potential log_band --temperature 0.7 --widths=0.5:1.5:11`
    """
    out = result_file(out, "phase.png")
    target = Target(prior, potential, temperature, margin)
    result: PhaseDiagram | SamplingMap
    for name, text in (("alphas", alphas), ("times", times), ("margins", margins), ("widths", widths)):
        if text is not None:
            _grid(name, text)  # nonsense is refused before theory is asked
    if margins is not None:
        result, table, draw = _map(target, margins=_grid("margins", margins))
    elif widths is not None:
        result, table, draw = _map(target, widths=_grid("widths", widths))
    else:
        result, table, draw = _diagram(target, alphas, times)
    with replacing(out.with_suffix(".csv")) as file:
        file.write(_csv(table).encode())
    _draw(draw, out)
    if as_json:
        show_json(result.to_dict())
        return
    print(result)
    say(f"wrote {out} and {out.with_suffix('.csv')}")


def _diagram(
    target: Target, alphas: str | None, times: str | None
) -> tuple[PhaseDiagram, Values, Callable[[Axes], None]]:
    from solspace.theory.phases import phase_diagram
    from solspace.theory.thresholds import thresholds

    limits = thresholds(target)
    loads = _grid("alphas", alphas) if alphas is not None else _loads(limits)
    diagram = phase_diagram(target, loads, None if times is None else _grid("times", times))
    names = (*diagram.LINES, *diagram.FLAGS, "entropy")
    table = {"alpha": diagram.alphas, **{name: getattr(diagram, name) for name in names}}

    def draw(ax: Axes) -> None:
        from solspace.plots import diagrams

        diagrams.phase_diagram(diagram, ax, limits)

    return diagram, table, draw


def _loads(limits: Thresholds) -> Reals:
    end = limits.zero_entropy or limits.capacity
    known = [x for x in (limits.asl, limits.dynamical, limits.condensation, limits.dat, end) if x]
    if not known:
        return np.linspace(0.05, 1.0, 50)
    low, high = min(known), max(x for x in known if x < 1.6 * min(known))
    return np.linspace(max(0.02 * high, low - 0.6 * (high - low) - 0.02 * low), high, 50)


def _map(target: Target, **along: Any) -> tuple[SamplingMap, Values, Callable[[Axes], None]]:
    from solspace.theory.phases import sampling_map

    found = sampling_map(target, **along)
    lines = {name: getattr(found, name) for name in found.LINES}

    def draw(ax: Axes) -> None:
        from solspace.plots import diagrams

        diagrams.sampling_map(found, ax)

    return found, {found.axis: found.places, **lines}, draw


def _grid(name: str, text: str) -> Reals:
    try:
        words = text.split(":")
        first, last, count = float(words[0]), float(words[1]), int(words[2])
    except (ValueError, IndexError):
        raise ValueError(f"--{name} must be FIRST:LAST:COUNT, as in 0.1:0.8:50; got {text!r}.") from None
    if len(words) != 3 or not 1 <= count <= 10_000:
        raise ValueError(f"--{name} must be FIRST:LAST:COUNT with 1 to 10000 values; got {text!r}.")
    return np.linspace(first, last, count)


def _csv(table: Values) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table)
    for row in zip(*table.values()):
        writer.writerow(["" if isinstance(x, float) and np.isnan(x) else x for x in row])
    return text.getvalue()


def _draw(draw: Callable[[Axes], None], out: Path) -> None:
    from solspace.plots.style import panels, style

    with style():
        figure, ax = panels(1, width=6.4, height=4.6)
        draw(ax)
        with replacing(out) as file:
            figure.savefig(file, format=out.suffix.lstrip("."))
