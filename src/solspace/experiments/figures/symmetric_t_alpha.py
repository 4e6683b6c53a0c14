"""Ours: the t–α diagram of the symmetric perceptron, abs(s) <= 1, under U = -log(1 - s²) at T = 0.7.

The uniform measure on the band has a maximum at q = 1 at every load; with walls sampling works up to α = 1.139089.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.figures.theory_panels import diagram
from solspace.experiments.predictions import thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("binary", "log_band(1)", temperature=0.7)
CUSP, LAST = 1.139089, 1.3


def theory(size: str) -> Sequence[Task]:
    """Return a task for each load; close to the cusp they are denser."""
    count = {"quick": 16, "paper": 80}[size]
    inside = CUSP + 1e-6 + (LAST - CUSP) * np.linspace(0, 1, count) ** 2
    return [*thresholds_of(TARGET), *windows_at(TARGET, [1.05, *inside])]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style

    with style.style():
        figure, ax = style.panels(1)
        marked = ("asl", "dynamical", "condensation", "zero_entropy")
        table = diagram(results, TARGET, ax, top=0.9, marked=marked, legend="upper right")
        ax.set_title(f"symmetric perceptron, $U = -\\log(1 - s^2)$, T = {TARGET.temperature:g}")
    return Picture(figure, table)


FIGURE = Figure(
    "symmetric-t-alpha", "t–α diagram of the symmetric perceptron, walls at ±1, T = 0.7", "ours", draw, theory=theory
)
