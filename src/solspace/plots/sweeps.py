"""Pictures of sweeps: means against the load for several sizes, and pooled stabilities beside their theory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from solspace.numerics.arrays import Reals
from solspace.plots.style import GREY, MARKERS, RED, SERIES, drawing, histogram, merged

Points = Iterable[Mapping[str, Any]]  # rows of `Results.mean`: the values of the axes, `mean`, `low`, `high`

# labels of axes, and of lines
AXES = {
    "alpha": r"load $\alpha$",
    "n": "weights $N$",
    "temperature": "temperature $T$",
    "margin": r"margin $\kappa$",
    "n_sweeps": "sweeps",
    "solved_fraction": "fraction solved",
    "overlap": "overlap of two samples",
}
NAMES = {"n": "N = {}", "alpha": "α = {}", "temperature": "T = {}", "margin": "κ = {}", "n_sweeps": "{} sweeps"}
WORDS = ("sampler", "potential", "prior", "patterns", "method")  # entries whose values are labels


def curves(
    points: Points,
    ax: Axes,
    series: str = "n",
    x: str = "alpha",
    label: str | Callable[[Any], str] = "N = {}",
    dashed: bool = False,
    **style: Any,
) -> None:
    """Draw a mean with its interval, one line for each value of `series`; `label` is a format or function of that value."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for point in points:
        groups.setdefault(point[series], []).append(point)
    for k, (value, group) in enumerate(sorted(groups.items())):
        group.sort(key=lambda point: point[x])
        mean = np.array([point["mean"] for point in group])
        bars = [np.maximum(0, mean - [p["low"] for p in group]), np.maximum(0, [p["high"] for p in group] - mean)]
        own: dict[str, Any] = {"color": SERIES[k % len(SERIES)], "marker": MARKERS[k % len(MARKERS)], "ms": 4}
        own |= {"ls": "--", "markerfacecolor": "w"} if dashed else {"ls": "-"}
        own["label"] = label(value) if callable(label) else label.format(value)
        look = merged(style, **own, lw=1.3, elinewidth=0.9, capsize=1.5)
        ax.errorbar([point[x] for point in group], mean, yerr=bars, **look)


def success(points: Points, ax: Axes, series: str = "n", label: str = "N = {}") -> None:
    curves(points, ax, series, "alpha", label)
    ax.set(xlabel=r"load $\alpha$", ylabel="fraction solved", ylim=(-0.03, 1.05))
    ax.legend(loc="lower left")  # free, since curves fall; searching for the best place takes seconds


def sweep_curves(points: Points, ax: Any, value: str, x: str, series: Sequence[str], **style: Any) -> Axes:
    """Draw the mean of a quantity of a sweep, one line for each combination of the series."""

    def order(line: tuple[Any, ...]) -> list[tuple[bool, Any]]:
        return [(isinstance(value, str), value if value is not None else -np.inf) for value in line]

    def label(line: int) -> str:
        formats = ["{}" if name in WORDS else NAMES.get(name, f"{name} = {{}}") for name in series]
        return ", ".join(form.format(one) for form, one in zip(formats, lines[line]))

    points = list(points)
    lines = sorted({tuple(point[name] for name in series) for point in points}, key=order)
    numbered = [{**point, "line": lines.index(tuple(point[name] for name in series))} for point in points]
    with drawing(ax) as one:
        curves(numbered, one, "line", x, label, **style)
        one.set(xlabel=AXES.get(x, x), ylabel=AXES.get(value, value))
        if value.endswith("fraction"):
            one.set_ylim(-0.03, 1.05)
        if series:
            one.legend(loc="best" if len(points) < 200 else "lower left")
        return one


def self_and_cross(points: Points, ax: Axes, name: str, series: int) -> None:
    """Draw overlaps of chains with themselves (full) and with each other (dashed) against the load.

    One point for each instance: filled where its chains have mixed, crossed out where over 1% of their draws miss constraints.
    """
    points = [point for point in points if point["self_overlap"] is not None]
    loads = sorted({point["alpha"] for point in points})
    colour, marker = SERIES[3 * series], MARKERS[series]
    look: dict[str, Any] = {"color": colour, "marker": marker, "ms": 4.5, "elinewidth": 0.9, "capsize": 1.5}
    for kind, line in (("self", "-"), ("cross", "--")):
        key = f"{kind}_overlap"
        means = [np.mean([point[key] for point in points if point["alpha"] == load]) for load in loads]
        ax.plot(loads, means, line, color=colour, lw=1.3, label=f"{kind}, {name}")
        for point in points:
            filled = colour if point["fair"] else "w"
            ax.errorbar(point["alpha"], point[key], yerr=point[f"{key}_error"], mfc=filled, **look)
            if point["missed"] > 0.01:
                ax.plot(point["alpha"], point[key], "x", color=colour, ms=8, mew=1)
    ax.set(xlabel=r"load $\alpha$")


def threshold(ax: Axes, alpha: float, label: str, colour: str = RED) -> None:
    ax.axvline(alpha, color=colour, lw=1.2, ls="--", label=f"{label} {alpha:.3f}")


def stabilities(values: Reals, edges: Reals, ax: Axes, grid: Reals, density: Reals, margin: float, label: str) -> None:
    """Draw pooled stabilities as a histogram with these `edges`, beside their `density` (j,) by theory on a `grid`."""
    histogram(ax, values, edges, alpha=0.5, label=label)
    ax.plot(grid, density, color=RED, lw=1.8, label="theory $P(s)$")
    ax.axvline(margin, color=GREY, lw=1, ls="--")
    ax.set(xlabel="stability $s$", ylabel="density", xlim=(grid[0], grid[-1]), ylim=(0, None))
    ax.legend()


def legend_above(figure: Figure, axes: Iterable[Axes], title: str) -> None:
    """Put one legend over all panels, under the picture's title, in place of those inside them."""
    entries: dict[str, Any] = {}
    for ax in axes:
        named = zip(*ax.get_legend_handles_labels())
        entries |= {label: handle for handle, label in named if label not in entries}
        if inside := ax.get_legend():
            inside.remove()
    place: dict[str, Any] = {"loc": "outside upper center", "ncols": len(entries)}
    figure.legend([*entries.values()], [*entries], title=title, title_fontsize=11, **place)


def note(figure: Figure, text: str) -> None:
    figure.supxlabel(text, fontsize=7.5, color=GREY)
