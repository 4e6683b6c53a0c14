"""Appendix: stabilities of ASL samples against P(s); spherical weights, uniform measure, κ = -2.1, N = 1001, α = 5,
20, 80.

α = 80 is close to the dAT line at 82.85, where overlaps need finer steps to come out right.
"""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.figure import LOCALIZE, Figure, Picture
from solspace.experiments.figures.stability_panels import panel
from solspace.experiments.predictions import stabilities_of
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target

TARGET = Target("spherical", "uniform", margin=-2.1)
ALPHAS = (5.0, 20.0, 80.0)


def specs(size: str) -> Sequence[Spec]:
    """Return a sweep for each load: (N, instances, samples of each); quick is smaller where it is dear."""
    shape = {
        "quick": {5.0: (1001, 4, 4), 20.0: (1001, 4, 4), 80.0: (501, 2, 4)},
        "paper": dict.fromkeys(ALPHAS, (1001, 10, 16)),
    }[size]
    return [
        Spec(name="spherical-stabilities", n=n, alpha=alpha, target=TARGET, sampler=LOCALIZE, n_samples=samples,
             instances=instances, keep=["stabilities", "violations"])
        for alpha, (n, instances, samples) in shape.items()
    ]  # fmt: skip


def theory(size: str) -> Sequence[Task]:
    """Return the predictions."""
    return [stabilities_of(TARGET, alpha, -2.4, 3.6) for alpha in ALPHAS]


def draw(results: Results, size: str) -> Picture:
    """Return a panel for each load."""
    from solspace.plots import style, sweeps

    predictions = results.rows(arrays=True, kind="stabilities")
    table = []
    with style.style():
        figure, axes = style.panels(3, width=4.4)
        for ax, prediction in zip(axes, predictions):
            table += panel(results, prediction, ax)
        figure.suptitle("spherical, $U = 0$, κ = −2.1", fontsize=11)
        sweeps.note(figure, "overlap: of pairs of samples of one instance, its error over instances; ±1 patterns")
    return Picture(figure, table)


FIGURE = Figure(
    "spherical-stabilities", "stabilities of ASL samples against P(s), κ = −2.1", "appendix", draw, specs, theory
)
