"""`solspace predict`: what theory says of a target at a load. `solspace phase`: where sampling by localization works."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np

import solspace as ss
from solspace.cli.options import AS_JSON, TEMPERATURE, Rule, TargetOptions, option, verb
from solspace.cli.output import Table, result_file, show, write_picture
from solspace.numerics.arrays import Reals
from solspace.system.checks import one_of
from solspace.system.files import replacing

ENSEMBLES = ("random", "planted")
THRESHOLDS = {
    "asl": "ASL stops",
    "dat": "replica symmetry breaks (dAT)",
    "dynamical": "a second maximum appears at t = 0 (d1RSB)",
    "condensation": "it takes over at t = 0 (static 1RSB)",
    "zero_entropy": "typical samples of this measure end (zero entropy)",
    "capacity": "the constraints stop having solutions (capacity)",
    "capacity_rs": "capacity, replica symmetric (Gardner)",
    "capacity_1rsb": "capacity, 1RSB",
}
PLANTED = {
    "information": "the teacher's branch takes over (information)",
    "spinodal": "AMP finds it (spinodal)",
    "localization": "localization begins to fail",
}
ENSEMBLE = option(
    "random",
    "random labels, or planted: drawn from a teacher's weights.",
    check=one_of(ENSEMBLES),
    offer=lambda: ENSEMBLES,
)
PHASE_RULES = (
    Rule("ensemble", lambda o: o.margins is None and o.widths is None, "belongs to the t–α diagram, not to the maps"),
    Rule("alphas times margin", lambda o: o.margins is None, "belongs to the t–α diagram, not to the map of --margins"),
    Rule("alphas times margins", lambda o: o.widths is None, "cannot go with the map of --widths"),
    Rule("widths", lambda o: o.potential.startswith(("band", "log_band")), "belongs to potentials band and log_band"),
    TEMPERATURE,
)


def _times(name: str, text: str) -> list[float]:
    try:
        times = sorted(float(word) for word in text.split(","))
    except ValueError:
        times = [-1.0]
    if not (times[0] >= 0 and np.isfinite(times).all()):
        raise ValueError(f"{name} must be numbers of at least 0 separated by commas, as in 0,0.5,2; got {text!r}.")
    return times


def _grid(name: str, text: str) -> Reals:
    try:
        first, last, count = (kind(word) for kind, word in zip((float, float, int), text.split(":"), strict=True))
        if not 1 <= count <= 10_000:
            raise ValueError
    except ValueError:
        form = "FIRST:LAST:COUNT with 1 to 10000 values, as in 0.1:0.8:50"
        raise ValueError(f"{name} must be {form}; got {text!r}.") from None
    return np.linspace(first, last, int(count))


@verb(TEMPERATURE)
def predict(
    target: TargetOptions,
    alpha: float = option(0.3, "Load: constraints per weight."),
    ensemble: str = ENSEMBLE,
    times: list[float] | None = option(None, "Times of the curves φ_t(q), as in 0,0.5,2.", check=_times),
    no_thresholds: bool = option(False, "Leave the thresholds out: faster."),
    out: Path = option(Path("."), "Folder for prediction.png; NAME.png, NAME.pdf, ... names the picture itself."),
    as_json: bool = AS_JSON,
) -> None:
    """Say what replica theory predicts: order parameters, thresholds around the load, regimes; and draw it.

    Green: φ_t(q) has one maximum at time t. Yellow: a second one, lower. Red: the second one is higher, and sampling by
    localization fails. All three: `solspace predict --prior spherical --potential uniform --margin -2.5 --alpha 278`.
    """
    out = result_file(out, "prediction.png")
    prediction = ss.predict(ss.Target(**vars(target)), alpha, ensemble)
    limits: Any = None if no_thresholds else ss.thresholds(prediction.target, ensemble)
    write_picture(out, lambda figure: prediction.plot("all", figure.subplots(1, 4), times=times), (16, 3.8))
    parts = [Table(f"{prediction.target}, α = {alpha:g}", prediction.rows(), ("", "value"))]
    if limits is not None:
        parts.append(Table("thresholds", _around(limits, alpha), ("load at which", "α", "this load is")))
    report = {**prediction.to_dict(), "thresholds": None if limits is None else limits.to_dict()}
    show(report, [*parts, prediction.summary()], as_json, f"wrote {out}")


def _around(limits: Any, alpha: float) -> list[tuple[str, str, str]]:
    rows = []
    for name, words in (PLANTED if hasattr(limits, "spinodal") else THRESHOLDS).items():
        value = getattr(limits, name)
        if value is not None:
            rows.append((words, f"{value:.7g}", "below" if alpha < value else "above"))
        elif not name.startswith(("capacity_", "zero_entropy")):
            rows.append((words, "none", ""))
    return rows


@verb(*PHASE_RULES)
def phase(
    target: TargetOptions,
    alphas: Reals | None = option(None, "Loads as FIRST:LAST:COUNT; by default around the thresholds.", check=_grid),
    times: Reals | None = option(None, "Times as FIRST:LAST:COUNT; by default over all windows.", check=_grid),
    ensemble: str = ENSEMBLE,
    margins: Reals | None = option(None, "Margins as FIRST:LAST:COUNT: the α–κ map instead.", check=_grid),
    widths: Reals | None = option(None, "Widths K of the band as FIRST:LAST:COUNT: the α–K map instead.", check=_grid),
    out: Path = option(
        Path("."), "Folder for phase.png and phase.csv; NAME.png, NAME.pdf, ... names the picture itself."
    ),
    as_json: bool = AS_JSON,
) -> None:
    """Draw where sampling by localization works: over times and loads, or over loads and margins (or widths of a band).

    The lines are exact: a window narrower than the grid is drawn, and is in the CSV, all the same.

    - the paper's Fig. 1, centre: `solspace phase --prior spherical --potential uniform --margin -2.5`

    - the paper's Fig. 1, right: `solspace phase --prior spherical --potential uniform --margins=-2.6:-0.2:25`

    - the paper's Fig. 2, left: `solspace phase`

    - the posterior of a teacher: `solspace phase --ensemble planted --potential "probit(0.1)"`

    - the symmetric perceptron: `solspace phase --potential log_band --temperature 0.7 --widths=0.5:1.5:11`
    """
    out = result_file(out, "phase.png")
    measure = ss.Target(**vars(target))
    found: Any
    marked: dict[str, Any] = {}
    if margins is None and widths is None:
        marked["thresholds"] = limits = ss.thresholds(measure, ensemble)
        found = ss.phase_diagram(measure, _loads(limits) if alphas is None else alphas, times, ensemble=ensemble)
        table, names = {"alpha": found.alphas}, (*found.LINES, *found.FLAGS, "entropy")
    else:
        found = ss.sampling_map(measure, margins, widths)
        table, names = {found.axis: found.places}, found.LINES
    table |= {name: getattr(found, name) for name in names}
    text, cells = io.StringIO(), zip(*table.values())
    rows = (["" if isinstance(x, float) and np.isnan(x) else x for x in row] for row in cells)
    csv.writer(text).writerows([table, *rows])
    with replacing(out.with_suffix(".csv")) as file:
        file.write(text.getvalue().encode())
    write_picture(out, lambda figure: found.plot(figure.subplots(), **marked), (6.4, 4.6))
    show(found.to_dict(), [str(found)], as_json, f"wrote {out} and {out.with_suffix('.csv')}")


def _loads(limits: Any) -> Reals:
    if hasattr(limits, "spinodal"):
        return np.linspace(0.05, 1.25 * (limits.spinodal or 1.6), 50)
    end = limits.zero_entropy or limits.capacity
    known = [x for x in (limits.asl, limits.dynamical, limits.condensation, limits.dat, end) if x]
    if not known:
        return np.linspace(0.05, 1.0, 50)
    low, high = min(known), max(x for x in known if x < 1.6 * min(known))
    return np.linspace(max(0.02 * high, low - 0.6 * (high - low) - 0.02 * low), high, 50)
