"""Appendix: the binary perceptron under the uniform measure, where localization fails at every load.

Left: φ_t(q) at α = 0.5; besides the lower maximum there is one at q = 1 at all times, the higher one from t = 2.3009
on. Right: the t–α diagram; there is red at every load.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import rescaled, telling_times
from solspace.experiments.figures.theory_panels import curve_table, diagram, one_curve
from solspace.experiments.predictions import curves_of, thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

ALPHA = 0.5
TIMES = (0.0, 1.0, 2.0, 2.3009, 2.6, 3.2)
PAPER = Target("binary", "uniform")


def figure(margin: float = 0.0, alpha: float = ALPHA) -> Figure:
    """Return the figure: the paper's with the paper's times, any other with those at which its own maxima compete."""
    target = Target("binary", "uniform", margin=margin)
    own = (margin, alpha) != (0.0, ALPHA)

    def theory(size: str) -> Sequence[Task]:
        grid = np.linspace(0.02, 0.9, {"quick": 24, "paper": 100}[size])
        loads = windows_at(target, rescaled(grid.tolist(), target, PAPER))
        return [
            curves_of(target, alpha, telling_times(target, alpha) if own else TIMES),
            *thresholds_of(target),
            *loads,
        ]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style

        with style.style():
            figure, (left, right) = style.panels(2)
            row = one_curve(results, left, base="1")
            left.set_title(f"binary, $U = 0$, κ = {signed(margin)}, α = {alpha:g}")
            if not own:
                left.set(ylim=(-0.6, 0.85))
                left.legend(loc="lower right")
                inset = left.inset_axes((0.36, 0.71, 0.6, 0.27))
                one_curve(results, inset, base="1")
                inset.get_legend().remove()
                inset.set(xlim=(0.84, 1.006), ylim=(-0.022, 0.03), xlabel="", ylabel="")
                inset.tick_params(labelsize=7)
            top = 12 if margin == 0 else None
            table = diagram(results, target, right, top, marked=("capacity",), legend="upper right")
            right.set_title(f"binary, $U = 0$, κ = {signed(margin)}")
        panel = [{"panel": "free entropy", **line} for line in curve_table(row)]
        return Picture(figure, panel + [{"panel": "t-alpha", **line} for line in table])

    at = "" if margin == 0 else f", κ = {signed(margin)}"
    words = f"φ_t(q) and t–α diagram of the binary perceptron, U = 0{at}"
    return Figure("binary-uniform", words, "appendix", draw, theory=theory)


FIGURES = (adjustable(figure),)
