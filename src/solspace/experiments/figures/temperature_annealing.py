"""Appendix: success of temperature annealing on U = -sΘ(-s) for several numbers of sweeps, N among them."""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.annealing import picture
from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.figures.tau_annealing import grid, panels
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec


def specs(size: str) -> Sequence[Spec]:
    """Return the sweeps over sizes, loads and numbers of sweeps."""
    return grid(size, "temperature", 0.05, 0.5)


def draw(results: Results, size: str) -> Picture:
    """Return a panel for each number of sweeps."""
    heading = r"annealing $T$ from 1 to 0 on $U = -s\,\Theta(-s)$, binary perceptron, κ = 0"
    return picture(results, panels(size), heading)


FIGURE = Figure(
    "temperature-annealing", "success of temperature annealing for several numbers of sweeps", "appendix", draw, specs
)
