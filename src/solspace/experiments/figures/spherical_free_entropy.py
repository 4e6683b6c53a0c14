"""Fig. 1 left: φ_t(q) of the spherical perceptron at κ = -2.5, α = 278, uniform measure.

The times lie inside the window t = 0.0206 ... 0.0470 in which there are two maxima: the upper one appears, becomes
the higher one at t = 0.0363, and the lower one disappears.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.figures.theory_panels import curve_table, one_curve
from solspace.experiments.predictions import curves_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("spherical", "uniform", margin=-2.5)
ALPHA = 278.0
TIMES = (0.0, 0.015, 0.025, 0.036297, 0.042, 0.055)


def theory(size: str) -> Sequence[Task]:
    """Return the one task."""
    return [curves_of(TARGET, ALPHA, TIMES)]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style

    with style.style():
        figure, ax = style.panels(1)
        row = one_curve(results, ax)
        ax.set_title(rf"spherical, $U = 0$, κ = −2.5, α = {ALPHA:g}; r = {row.values['overlap']:.4f}")
        ax.set(xlim=(0.1, 1.0), ylim=(-0.012, 0.008))
    return Picture(figure, curve_table(row))


FIGURES = (
    Figure(
        "spherical-free-entropy",
        "φ_t(q) of the spherical perceptron, κ = −2.5, α = 278",
        "Fig. 1 left",
        draw,
        theory=theory,
    ),
)
