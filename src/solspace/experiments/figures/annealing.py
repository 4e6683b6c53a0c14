"""What the annealing figures share: success against load, a panel for each number of sweeps, a line for each size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from solspace.experiments.figures.figure import Picture
from solspace.experiments.predictions import thresholds_of
from solspace.experiments.results import Results
from solspace.experiments.tasks import Task
from solspace.measure import Target

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BY = ("sampler", "n_sweeps", "n", "alpha")


def points(results: Results) -> list[dict[str, Any]]:
    """Return the fraction solved at each point; `sweeps` is the number, or "N" where it is the number of weights."""
    found = results.mean("solved_fraction", by=BY)
    return [{**point, "sweeps": "N" if point["n_sweeps"] == point["n"] else point["n_sweeps"]} for point in found]


def theory(size: str) -> Sequence[Task]:
    """Return the thresholds of the measure in which τ-annealing ends."""
    return thresholds_of(Target("binary", "log", temperature=0.5))


def picture(
    results: Results, panels: Sequence[tuple[str, dict[str, Any]]], heading: str, sampler: str | None = None
) -> Picture:
    """Return the picture: for each panel its title and what its points have in common; `sampler` where all share it."""
    from solspace.plots import style, sweeps

    table = points(results)
    with style.style():
        figure, axes = style.panels(len(panels), width=4.4, sharey=True)
        for ax, (title, common) in zip(axes, panels):
            sweeps.success([p for p in table if common.items() <= p.items()], ax)
            ax.set_title(title)
            if common.get("sampler", sampler) == "tau":
                _mark(results, ax)
        figure.suptitle(heading, fontsize=11)
        instances = sorted({point["instances"] for point in table})
        sweeps.note(
            figure,
            f"{_range(instances)} instances a point, one chain each, ±1 patterns, solved: all constraints met; "
            "bars: one-sigma Wilson intervals over instances",
        )
    return Picture(figure, table)


def _mark(results: Results, ax: Axes) -> None:
    """Mark up to which load theory says that the measure itself can be sampled by localization."""
    from solspace.plots import sweeps

    for row in results.rows(kind="thresholds"):
        sweeps.threshold(ax, row.values["asl"], r"theory: $\alpha_\mathrm{ASL}$ =")
        ax.legend(loc="lower left")


def _range(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}–{values[-1]}"
