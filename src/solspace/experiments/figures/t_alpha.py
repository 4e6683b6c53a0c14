"""The t–α diagrams: Fig. 1 centre, the sphere at κ = -2.5 under the uniform measure, Fig. 2 left, ±1 weights under the
log potential at κ = 0, T = 0.5, and ours, the symmetric perceptron abs(s) <= 1 with walls at T = 0.7.

Sampling works where a vertical line lies in the green altogether: up to α = 269.736 on the sphere, short of the dynamical
transition, up to α = 0.651417 for ±1 weights, and up to α = 1.139089 inside the band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.figures.theory_panels import diagram
from solspace.experiments.predictions import thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target


@dataclass(frozen=True)
class Loads:
    """The columns of a diagram: one at `before`, and from `gap` behind the `cusp` on, where the window of two maxima
    opens, up to `last`; `counts` says how many at each size."""

    before: float
    cusp: float
    gap: float
    last: float
    counts: Mapping[str, int]

    def at(self, size: str) -> list[float]:
        """Return the loads, denser close to the cusp."""
        inside = self.cusp + self.gap + (self.last - self.cusp) * np.linspace(0, 1, self.counts[size]) ** 2
        return [self.before, *inside]


def t_alpha(name: str, place: str, words: str, target: Target, loads: Loads, top: float, title: str) -> Figure:
    """Return the figure of one target, up to time `top`."""

    def theory(size: str) -> Sequence[Task]:
        return [*thresholds_of(target), *windows_at(target, loads.at(size))]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style

        with style.style():
            figure, ax = style.panels(1)
            table = diagram(results, target, ax, top, marked=("asl", "dynamical", "condensation"))
            ax.set_title(title)
        return Picture(figure, table)

    return Figure(name, f"t–α diagram of the {words}", place, draw, theory=theory)


FIGURES = (
    t_alpha(
        "spherical-t-alpha", "Fig. 1 centre", "spherical perceptron, κ = −2.5",
        Target("spherical", "uniform", margin=-2.5), Loads(250.0, 269.735956, 1e-4, 300, {"quick": 24, "paper": 120}),
        top=0.1, title="spherical, $U = 0$, κ = −2.5",
    ),
    t_alpha(
        "binary-t-alpha", "Fig. 2 left", "binary perceptron, log potential, T = 0.5",
        Target("binary", "log", temperature=0.5), Loads(0.6, 0.651417, 1e-6, 0.72, {"quick": 20, "paper": 100}),
        top=0.6, title=r"binary, $U = -\log s$, T = 0.5, κ = 0",
    ),
    t_alpha(
        "symmetric-t-alpha", "ours", "symmetric perceptron, walls at ±1, T = 0.7",
        Target("binary", "log_band(1)", temperature=0.7), Loads(1.05, 1.139089, 1e-6, 1.3, {"quick": 16, "paper": 80}),
        top=0.4, title=r"symmetric, $U = -\log(1 - s^2)$, T = 0.7",
    ),
)  # fmt: skip
