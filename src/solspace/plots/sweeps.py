"""Pictures of sweeps: a number against the load for several sizes, and pooled stabilities on their theory line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from solspace.numerics.arrays import Reals
from solspace.plots.style import BLUE, GREY, MARKERS, RED, SERIES

Points = Iterable[Mapping[str, Any]]


def curves(
    points: Points, ax: Axes, series: str = "n", x: str = "alpha", label: str = "N = {}", dashed: bool = False
) -> Axes:
    """Draw mean against `x` with its interval, a line for each value of `series`.

    `points` are those of `Results.mean`: mappings with `x`, `series`, `mean`, `low`, `high`.
    """
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault(point[series], []).append(point)
    for k, (value, group) in enumerate(sorted(groups.items())):
        group.sort(key=lambda point: point[x])
        mean = np.array([point["mean"] for point in group])
        bars = [np.maximum(0, mean - [p["low"] for p in group]), np.maximum(0, [p["high"] for p in group] - mean)]
        ax.errorbar(
            [point[x] for point in group], mean, yerr=bars, color=SERIES[k % len(SERIES)], label=label.format(value),
            marker=MARKERS[k % len(MARKERS)], ms=4, lw=1.3, elinewidth=0.9, capsize=1.5, ls="--" if dashed else "-",
            mfc="w" if dashed else None,
        )  # fmt: skip
    return ax


def success(points: Points, ax: Axes, series: str = "n", label: str = "N = {}") -> Axes:
    """Draw the fraction solved against the load."""
    curves(points, ax, series, "alpha", label)
    ax.set(xlabel=r"load $\alpha$", ylabel="fraction solved", ylim=(-0.03, 1.05))
    ax.legend(
        loc="lower left"
    )  # free, since curves fall; to look for the best place takes Matplotlib seconds on a busy machine
    return ax


def self_and_cross(points: Points, ax: Axes, name: str, series: int) -> Axes:
    """Draw overlaps of chains with themselves (full line) and with each other (dashed) against the load.

    A point for each instance, filled where its chains are called mixed, crossed out where over 1% of their draws miss
    constraints; lines through the means over instances.
    """
    points = [point for point in points if point["self_overlap"] is not None]
    loads = sorted({point["alpha"] for point in points})
    colour, marker = SERIES[3 * series], MARKERS[series]
    for kind, line in (("self", "-"), ("cross", "--")):
        key = f"{kind}_overlap"
        means = [np.mean([point[key] for point in points if point["alpha"] == load]) for load in loads]
        ax.plot(loads, means, line, color=colour, lw=1.3, label=f"{kind}, {name}")
        for point in points:
            ax.errorbar(
                point["alpha"], point[key], yerr=point[f"{key}_error"], color=colour, marker=marker, ms=4.5, elinewidth=0.9,
                capsize=1.5, mfc=colour if point["fair"] else "w",
            )  # fmt: skip
            if point["missed"] > 0.01:
                ax.plot(point["alpha"], point[key], "x", color=colour, ms=8, mew=1)
    ax.set(xlabel=r"load $\alpha$")
    return ax


def threshold(ax: Axes, alpha: float, label: str, colour: str = RED) -> Axes:
    """Mark a load that theory predicts."""
    ax.axvline(alpha, color=colour, lw=1.2, ls="--", label=f"{label} {alpha:.3f}")
    return ax


def stabilities(values: Reals, edges: Reals, ax: Axes, grid: Reals, density: Reals, margin: float, label: str) -> Axes:
    """Draw pooled stabilities as a histogram with `edges` under the density P(s) that fair samples must show."""
    ax.hist(values, bins=list(edges), density=True, color=BLUE, alpha=0.5, label=label)
    ax.plot(grid, density, color=RED, lw=1.8, label="theory $P(s)$")
    ax.axvline(margin, color=GREY, lw=1, ls="--")
    ax.set(xlabel="stability $s$", ylabel="density", xlim=(grid[0], grid[-1]), ylim=(0, None))
    ax.legend()
    return ax


def note(figure: Figure, text: str) -> None:
    """Say under the picture what it was made of: sizes, instances, what the bars mean."""
    figure.supxlabel(text, fontsize=7.5, color=GREY)
