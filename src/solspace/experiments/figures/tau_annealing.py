"""Appendix: success of τ-annealing for several numbers of sweeps, as many sweeps as weights among them (T = 0.5)."""

from __future__ import annotations

from collections.abc import Sequence

from solspace.experiments.figures.annealing import picture, theory
from solspace.experiments.figures.figure import Figure, Picture
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec

SWEEPS = {"quick": [10, 100, "n"], "paper": [10, 100, 1000, "n"]}
SIZES = {"quick": [201, 501, 1001], "paper": [501, 1001, 2001, 5001, 10001]}


def grid(size: str, sampler: str, start: float, stop: float) -> Sequence[Spec]:
    """Return the sweeps of `sampler`; N sweeps only up to N = 5001, beyond which they cost more than all the rest."""
    instances, step = {"quick": (40, 0.05), "paper": (100, 0.025)}[size]
    alphas = {"start": start, "stop": stop, "step": step}
    fixed = {"name": sampler, "n_sweeps": [count for count in SWEEPS[size] if count != "n"]}
    name = f"{sampler}-annealing"
    return [
        Spec(name=name, n=SIZES[size], alpha=alphas, sampler=fixed, instances=instances),
        Spec(name=name, n=[n for n in SIZES[size] if n <= 5001], alpha=alphas, instances=instances,
             sampler={"name": sampler, "n_sweeps": "n"}),
    ]  # fmt: skip


def panels(size: str) -> list[tuple[str, dict[str, object]]]:
    """Return the title of each panel and what its points share."""
    names = ["N" if count == "n" else count for count in SWEEPS[size]]
    return [(f"{name} sweeps", {"sweeps": name}) for name in names]


def specs(size: str) -> Sequence[Spec]:
    """Return the sweeps over sizes, loads and numbers of sweeps."""
    return grid(size, "tau", 0.1, 0.7)


def draw(results: Results, size: str) -> Picture:
    """Return a panel for each number of sweeps."""
    heading = "τ-annealing of the binary perceptron, log potential at T = 0.5, κ = 0"
    return picture(results, panels(size), heading, sampler="tau")


FIGURE = Figure(
    "tau-annealing", "success of τ-annealing for several numbers of sweeps", "appendix", draw, specs, theory
)
