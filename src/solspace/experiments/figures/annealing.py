"""What the annealing figures share: success against load, a panel for each number of sweeps, a line for each size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from solspace.experiments.figures.figure import Picture
from solspace.experiments.results import Results

BY = ("sampler", "n_sweeps", "n", "alpha")


def points(results: Results) -> list[dict[str, Any]]:
    """Return the fraction solved at each point; `sweeps` is the number, or "N" where it is the number of weights."""
    found = results.mean("solved_fraction", by=BY)
    return [{**point, "sweeps": "N" if point["n_sweeps"] == point["n"] else point["n_sweeps"]} for point in found]


def picture(results: Results, panels: Sequence[tuple[str, dict[str, Any]]], heading: str) -> Picture:
    """Return the picture: for each panel its title and what its points have in common."""
    from solspace.plots import style, sweeps

    table = points(results)
    with style.style():
        figure, axes = style.panels(len(panels), width=4.4, sharey=True)
        for ax, (title, common) in zip(axes, panels):
            sweeps.success([p for p in table if common.items() <= p.items()], ax)
            ax.set_title(title)
        figure.suptitle(heading, fontsize=11)
        instances = sorted({point["instances"] for point in table})
        sweeps.note(
            figure,
            f"{_range(instances)} instances a point, one chain each, ±1 patterns, solved: all constraints met; "
            "bars: one-sigma Wilson intervals over instances",
        )
    return Picture(figure, table)


def _range(values: list[int]) -> str:
    return str(values[0]) if len(values) == 1 else f"{values[0]}–{values[-1]}"
