"""Fig. 1 left: φ_t(q) of the spherical perceptron at κ = -2.5, α = 278, uniform measure.

The times lie inside the window t = 0.0206 ... 0.0470 in which there are two maxima: the upper one appears, becomes
the higher one at t = 0.0363, and the lower one disappears.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import telling_times
from solspace.experiments.figures.theory_panels import curve_table, one_curve
from solspace.experiments.predictions import curves_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

ALPHA = 278.0
TIMES = (0.0, 0.015, 0.025, 0.036297, 0.042, 0.055)


def figure(margin: float = -2.5, alpha: float = ALPHA) -> Figure:
    """Return the figure: the paper's with the paper's times, any other with those at which its own maxima compete."""
    target = Target("spherical", "uniform", margin=margin)
    own = (margin, alpha) != (-2.5, ALPHA)

    def theory(size: str) -> Sequence[Task]:
        return [curves_of(target, alpha, telling_times(target, alpha) if own else TIMES)]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style

        with style.style():
            figure, ax = style.panels(1)
            row = one_curve(results, ax)
            ax.set_title(rf"spherical, $U = 0$, κ = {signed(margin)}, α = {alpha:g}; r = {row.values['overlap']:.4f}")
            if not own:
                ax.set(xlim=(0.1, 1.0), ylim=(-0.012, 0.008))
        return Picture(figure, curve_table(row))

    words = f"φ_t(q) of the spherical perceptron, κ = {signed(margin)}, α = {alpha:g}"
    return Figure("spherical-free-entropy", words, "Fig. 1 left", draw, theory=theory)


FIGURES = (adjustable(figure),)
