"""Fig. 2 left: the t–α diagram of the binary perceptron under the log potential, κ = 0, T = 0.5.

Sampling works up to α = 0.651417.
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

TARGET = Target("binary", "log", temperature=0.5)
CUSP = 0.651417


def theory(size: str) -> Sequence[Task]:
    """Return a task for each load; close to the cusp they are denser."""
    count = {"quick": 20, "paper": 100}[size]
    inside = CUSP + 1e-6 + (0.72 - CUSP) * np.linspace(0, 1, count) ** 2
    return [*thresholds_of(TARGET), *windows_at(TARGET, [0.6, *inside])]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style

    with style.style():
        figure, ax = style.panels(1)
        table = diagram(results, TARGET, ax, top=0.6, marked=("asl", "dynamical", "condensation"))
        ax.set_title(f"binary, $U = -\\log s$, T = {TARGET.temperature:g}, κ = 0")
    return Picture(figure, table)


FIGURE = Figure(
    "binary-t-alpha", "t–α diagram of the binary perceptron, log potential, T = 0.5", "Fig. 2 left", draw, theory=theory
)
