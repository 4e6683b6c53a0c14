"""Ours: how far ASL reaches in the symmetric perceptron, against the temperature of its walls, for four widths of the band.

Lines: the load at which ASL stops; dashed, where the entropy of that measure vanishes; dotted, the capacity of the band.
Higher temperatures lean less on the walls and reach further, up to T = 1, where a maximum appears at q = 1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.store import Result
from solspace.system.plain import Values

WIDTHS = (0.5, 0.8, 1.0, 1.5)
TICKS = (0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5)


def theory(size: str) -> Sequence[Task]:
    """Return the thresholds at every width and temperature."""
    heats = np.round(np.linspace(0.3, 0.95, {"quick": 6, "paper": 40}[size]), 6)
    targets = [Target("binary", f"log_band({width})", float(heat)) for width in WIDTHS for heat in heats]
    return [task for target in targets for task in thresholds_of(target)]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import diagrams, style

    rows = list(results.rows(kind="thresholds"))
    table: list[Values] = []
    with style.style():
        figure, ax = style.panels(1, width=6.4, height=4.6)
        for colour, width in zip(style.SERIES, WIDTHS):
            mine = [row for row in rows if row.task["target"]["potential"]["width"] == width]
            mine.sort(key=lambda row: row.task["target"]["temperature"])
            points = [_point(width, row) for row in mine]
            heats = np.array([point["temperature"] for point in points])
            lines = {name: np.array([p[name] for p in points]) for name in ("asl", "zero_entropy", "capacity")}
            diagrams.temperature_lines(heats, lines, ax, f"ASL, K = {width:g}", colour)
            table += points
        ax.plot([], [], color="0.4", lw=1, ls="--", label="entropy of the measure is zero")
        ax.plot([], [], color="0.4", lw=1, ls=":", label="capacity of the band")
        ax.set(yscale="log")
        ax.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        ax.yaxis.set_minor_formatter(lambda value, place: "")
        ax.set_title(r"symmetric perceptron, $U = -\log(K^2 - s^2)$")
        ax.legend(ncols=2, fontsize=7.5)
    return Picture(figure, table)


def _point(width: float, row: Result) -> Values:
    loads = {name: row.values[name] for name in ("asl", "dynamical", "zero_entropy", "capacity")}
    return {"width": width, "temperature": row.task["target"]["temperature"], **loads}


FIGURES = (
    Figure(
        "symmetric-threshold",
        "ASL's threshold in the symmetric perceptron against T and the width",
        "ours",
        draw,
        theory=theory,
    ),
)
