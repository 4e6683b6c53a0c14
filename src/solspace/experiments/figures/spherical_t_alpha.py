"""Fig. 1 centre: the t–α diagram of the spherical perceptron at κ = -2.5, uniform measure.

Sampling works where a vertical line lies in the green altogether: up to α = 269.736, short of the dynamical transition.
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

TARGET = Target("spherical", "uniform", margin=-2.5)
CUSP = 269.735956
"""Load at which the window opens; columns are laid from there on."""


def theory(size: str) -> Sequence[Task]:
    """Return a task for each load; close to the cusp they are denser."""
    count = {"quick": 24, "paper": 120}[size]
    inside = CUSP + 1e-4 + (300 - CUSP) * np.linspace(0, 1, count) ** 2
    return [*thresholds_of(TARGET), *windows_at(TARGET, [250.0, *inside])]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style

    with style.style():
        figure, ax = style.panels(1)
        table = diagram(results, TARGET, ax, top=0.1, marked=("asl", "dynamical", "condensation"))
        ax.set_title("spherical, $U = 0$, κ = −2.5")
    return Picture(figure, table)


FIGURE = Figure(
    "spherical-t-alpha", "t–α diagram of the spherical perceptron, κ = −2.5", "Fig. 1 centre", draw, theory=theory
)
