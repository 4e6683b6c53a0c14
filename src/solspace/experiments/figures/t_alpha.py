"""The t–α diagrams: Fig. 1 centre, the sphere at κ = -2.5 under the uniform measure, Fig. 2 left, ±1 weights under the
log potential at κ = 0, T = 0.5, and ours, the symmetric perceptron abs(s) <= 1 with walls at T = 0.7.

Sampling works where a vertical line lies in the green altogether: up to α = 269.736 on the sphere, short of the dynamical
transition, up to α = 0.651417 for ±1 weights, and up to α = 1.139089 inside the band.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from solspace.experiments.figures.figure import Figure, Picture, adjustable, signed
from solspace.experiments.figures.loads import around
from solspace.experiments.figures.theory_panels import diagram
from solspace.experiments.predictions import thresholds_of, windows_at
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.measure.potentials import LogBand


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


def t_alpha(
    name: str, place: str, words: str, target: Target, paper: Target, loads: Loads, top: float, title: str
) -> Figure:
    """Return the figure of one target: the `paper`'s at its `loads` up to time `top`, any other around its own window."""
    own = target != paper

    def theory(size: str) -> Sequence[Task]:
        columns = around(target, loads.counts[size]) if own else loads.at(size)
        return [*thresholds_of(target), *windows_at(target, columns)]

    def draw(results: Results, size: str) -> Picture:
        from solspace.plots import style

        with style.style():
            figure, ax = style.panels(1)
            table = diagram(results, target, ax, None if own else top, marked=("asl", "dynamical", "condensation"))
            ax.set_title(title)
        return Picture(figure, table)

    return Figure(name, f"t–α diagram of the {words}", place, draw, theory=theory)


def spherical(margin: float = -2.5) -> Figure:
    """Return Fig. 1 centre."""
    return t_alpha(
        "spherical-t-alpha", "Fig. 1 centre", f"spherical perceptron, κ = {signed(margin)}",
        Target("spherical", "uniform", margin=margin), Target("spherical", "uniform", margin=-2.5),
        Loads(250.0, 269.735956, 1e-4, 300, {"quick": 24, "paper": 120}),
        top=0.1, title=f"spherical, $U = 0$, κ = {signed(margin)}",
    )  # fmt: skip


def binary(temperature: float = 0.5, margin: float = 0.0) -> Figure:
    """Return Fig. 2 left."""
    at = "" if margin == 0 else f", κ = {signed(margin)}"
    return t_alpha(
        "binary-t-alpha", "Fig. 2 left", f"binary perceptron, log potential, T = {temperature:g}{at}",
        Target("binary", "log", temperature, margin), Target("binary", "log", 0.5),
        Loads(0.6, 0.651417, 1e-6, 0.72, {"quick": 20, "paper": 100}),
        top=0.6, title=rf"binary, $U = -\log s$, T = {temperature:g}, κ = {signed(margin)}",
    )  # fmt: skip


def symmetric(temperature: float = 0.7, width: float = 1.0) -> Figure:
    """Return ours, inside a band."""
    square = "1" if width == 1 else f"{width:g}^2"
    return t_alpha(
        "symmetric-t-alpha", "ours", f"symmetric perceptron, walls at ±{width:g}, T = {temperature:g}",
        Target("binary", LogBand(width), temperature), Target("binary", "log_band(1)", 0.7),
        Loads(1.05, 1.139089, 1e-6, 1.3, {"quick": 16, "paper": 80}),
        top=0.4, title=rf"symmetric, $U = -\log({square} - s^2)$, T = {temperature:g}",
    )  # fmt: skip


FIGURES = (adjustable(spherical), adjustable(binary), adjustable(symmetric))
