"""Appendix: the binary perceptron under the uniform measure, where localization fails at every load.

Left: φ_t(q) at α = 0.5; besides the lower maximum there is one at q = 1 at all times, the higher one from t = 2.3009
on. Right: the t–α diagram; there is red at every load.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.figures.theory_panels import curve_table, diagram, one_curve
from solspace.experiments.predictions import curves_of, thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("binary", "uniform")
ALPHA = 0.5
TIMES = (0.0, 1.0, 2.0, 2.3009, 2.6, 3.2)


def theory(size: str) -> Sequence[Task]:
    """Return the curves at one load, and a task for each load of the diagram."""
    count = {"quick": 24, "paper": 100}[size]
    loads = windows_at(TARGET, np.linspace(0.02, 0.9, count))
    return [curves_of(TARGET, ALPHA, TIMES), *thresholds_of(TARGET), *loads]


def draw(results: Results, size: str) -> Picture:
    """Return both panels."""
    from solspace.plots import style

    with style.style():
        figure, (left, right) = style.panels(2)
        row = one_curve(results, left, base="1")
        left.set_title(f"binary, $U = 0$, κ = 0, α = {ALPHA:g}")
        left.set(ylim=(-0.6, 0.85))
        left.legend(loc="lower right")
        inset = left.inset_axes((0.36, 0.71, 0.6, 0.27))
        one_curve(results, inset, base="1")
        inset.get_legend().remove()
        inset.set(xlim=(0.84, 1.006), ylim=(-0.022, 0.03), xlabel="", ylabel="")
        inset.tick_params(labelsize=7)
        table = diagram(results, TARGET, right, top=12, marked=("capacity",), legend="upper right")
        right.set_title("binary, $U = 0$, κ = 0")
    panel = [{"panel": "free entropy", **line} for line in curve_table(row)]
    return Picture(figure, panel + [{"panel": "t-alpha", **line} for line in table])


FIGURES = (
    Figure("binary-uniform", "φ_t(q) and t–α diagram of the binary perceptron, U = 0", "appendix", draw, theory=theory),
)
