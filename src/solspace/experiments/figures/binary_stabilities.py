"""Fig. 2 right: stabilities of ASL samples against P(s); binary weights, log potential, N = 5000, α = 0.3, T = 0.5."""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture
from solspace.experiments.figures.stability_panels import panel
from solspace.experiments.predictions import stabilities_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("binary", "log", temperature=0.5)
ALPHA = 0.3


def specs(size: str) -> Sequence[Spec]:
    """Return several instances of the paper's size, each with a few samples."""
    instances, samples = {"quick": (4, 4), "paper": (16, 16)}[size]
    return [
        Spec(name="binary-stabilities", n=5000, alpha=ALPHA, target=TARGET, sampler=LOCALIZE, n_samples=samples,
             instances=instances, keep=["stabilities", "violations"])
    ]  # fmt: skip


def theory(size: str) -> Sequence[Task]:
    """Return the prediction."""
    return [stabilities_of(TARGET, ALPHA, -0.2, 4.5)]


def draw(results: Results, size: str) -> Picture:
    """Return one panel."""
    from solspace.plots import style, sweeps

    (prediction,) = results.rows(arrays=True, kind="stabilities")
    with style.style():
        figure, ax = style.panels(1)
        table = panel(results, prediction, ax)
        figure.suptitle(r"binary, $U = -\log s$, T = 0.5, κ = 0", fontsize=11)
        sweeps.note(figure, "overlap: of pairs of samples of one instance, its error over instances; ±1 patterns")
    return Picture(figure, table)


FIGURE = Figure(
    "binary-stabilities", "stabilities of ASL samples against P(s), N = 5000", "Fig. 2 right", draw, specs, theory
)
