"""Appendix: the fraction of ASL samples that solve their instance, against the load, for several sizes (log, T = 0.5).

Replica theory predicts α = 0.6514 as the load up to which ASL samples, for N → ∞.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("binary", "log", temperature=0.5)


def specs(size: str) -> Sequence[Spec]:
    """Return one sweep; the paper has 250 simulations a point, each on an instance of its own."""
    grid: dict[str, Any]
    if size == "quick":
        grid = {"n": [201, 501, 1001], "alpha": [0.4, 0.5, 0.55, 0.6, 0.65, 0.7], "instances": 12}
    else:
        grid = {"n": [501, 1001, 2001, 5001], "alpha": {"start": 0.3, "stop": 0.75, "step": 0.025}, "instances": 250}
    return [Spec(name="asl-success", target=TARGET, sampler=LOCALIZE, **grid)]


def theory(size: str) -> Sequence[Task]:
    """Return the threshold."""
    return thresholds_of(TARGET)


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style, sweeps

    table = results.mean("solved_fraction", by=["n", "alpha"])
    with style.style():
        figure, ax = style.panels(1, width=6.0, height=4.2)
        sweeps.success(table, ax)
        for row in results.rows(kind="thresholds"):
            sweeps.threshold(ax, row.values["asl"], r"theory: $\alpha_\mathrm{ASL}$ =")
        ax.legend(loc="lower left")
        ax.set_title("ASL, binary perceptron, $U = -\\log s$, T = 0.5, κ = 0")
        instances = max(point["instances"] for point in table)
        sweeps.note(
            figure, f"{instances} instances a point, one sample each, ±1 patterns; bars: one-sigma Wilson intervals"
        )
    return Picture(figure, table)


FIGURES = (
    Figure("asl-success", "success of ASL against the load, and its threshold", "appendix", draw, specs, theory),
)
