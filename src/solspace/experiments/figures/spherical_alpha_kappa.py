"""Fig. 1 right: which loads ASL samples at which margin, spherical perceptron, uniform measure, with all transition
lines.

The inset shows κ around -2.5, where ASL stops short of the dynamical transition; above the tricritical margin -2.043
its line is the dAT line.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.predictions import LINES, thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("spherical", "uniform")
ZOOM = (-2.64, -2.28)
"""Margins of the inset."""


def theory(size: str) -> Sequence[Task]:
    """Return a task for each margin."""
    step = {"quick": 0.2, "paper": 0.05}[size]
    zoom = np.arange(ZOOM[0], ZOOM[1] + 0.01, step / 5)
    return thresholds_of(TARGET, sorted({*np.round(np.arange(-3.0, -0.1, step), 6), *np.round(zoom, 6)}))


def draw(results: Results, size: str) -> Picture:
    """Return the map and its inset."""
    from solspace.plots import diagrams, style

    rows = sorted(results.rows(kind="thresholds"), key=lambda row: row.task["target"]["margin"])
    margins = np.array([row.task["target"]["margin"] for row in rows])
    lines = {name: np.array([_number(row.values.get(name)) for row in rows]) for name in LINES}
    with style.style():
        figure, ax = style.panels(1, width=6.0, height=4.4)
        diagrams.alpha_kappa(margins, lines, ax)
        ax.set(xscale="log", xlim=(0.05, None), ylim=(margins[0], margins[-1]), title="spherical, $U = 0$")
        ax.legend(loc="upper right")
        inset = ax.inset_axes((0.09, 0.1, 0.38, 0.42))
        diagrams.alpha_kappa(margins, lines, inset, ("asl", "dat", "dynamical", "condensation"))
        inset.set(xlim=(150, 420), ylim=ZOOM, xlabel="", ylabel="")
        inset.tick_params(labelsize=7)
    return Picture(
        figure, [{"margin": float(m), **{n: _none(lines[n][k]) for n in LINES}} for k, m in enumerate(margins)]
    )


def _number(value: float | None) -> float:
    # stores of earlier versions lack some lines
    return np.nan if value is None else value


def _none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


FIGURES = (
    Figure(
        "spherical-alpha-kappa",
        "the loads that ASL samples at each margin, spherical",
        "Fig. 1 right",
        draw,
        theory=theory,
    ),
)
