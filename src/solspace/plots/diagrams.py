"""Pictures of theory from numbers: φ_t(q), the t–α diagram with its exact lines, maps of thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from solspace.numerics.arrays import Reals
from solspace.plots.style import GREY, RED, REGIMES, SERIES, drawing, merged

if TYPE_CHECKING:
    from solspace.theory.phases import PhaseDiagram, SamplingMap

MEANING = {"green": "one maximum", "yellow": "a second maximum, lower", "red": "a second maximum, higher"}
# label, colour and dash of the lines of thresholds
LINES: dict[str, tuple[str, str, Any]] = {
    "asl": ("ASL", SERIES[6], "-"),
    "dat": ("dAT", SERIES[4], "--"),
    "dynamical": ("dynamical 1RSB", SERIES[0], "-."),
    "condensation": ("static 1RSB", SERIES[2], ":"),
    "zero_entropy": ("zero entropy", SERIES[1], (0, (1, 1))),
    "capacity": ("SAT/UNSAT", SERIES[3], "-"),
}
MARKED = {name: label for name, (label, _, _) in LINES.items()} | {  # names of loads beside their lines
    "information": "information",
    "spinodal": "AMP",
    "localization": "localization",
}


def entropy_curves(
    q: Reals, phi: Reals, times: Sequence[float], row: Mapping[str, Any], ax: Axes, base: str = "r", **style: Any
) -> None:
    """Draw φ_t(q), `phi` (times, j), from arrays; `row` holds `at_overlap`, `maxima` and `regimes` of each time."""
    colours = colormaps["viridis"](np.linspace(0.0, 0.85, len(times)))
    seen = [0.0]
    for k, time in enumerate(times):
        zero = row["at_overlap"][k] if base == "r" else row["maxima"][k][-1][1]
        ax.plot(q, phi[k] - zero, **merged(style, color=colours[k], lw=1.4, label=f"t = {time:.3g}"))
        for top, height in row["maxima"][k]:
            ax.plot(top, height - zero, "o", ms=5.5, mfc=REGIMES[row["regimes"][k]], mec="0.2", mew=0.6, zorder=3)
        last = max(top for top, _ in row["maxima"][k])  # beyond, φ falls
        seen += (phi[k] - zero)[q <= max(last, q[1])].tolist()
    reach = max(max(seen) - min(seen), 1e-6)
    ax.set(xlabel="overlap $q$", ylabel=rf"$\phi_t(q) - \phi_t({base})$")
    ax.set_ylim(min(seen) - 0.35 * reach, max(seen) + 0.15 * reach)
    ax.legend()


def plot_diagram(diagram: PhaseDiagram, ax: Any, thresholds: Any, **style: Any) -> Axes:
    """Draw regimes over loads and times between their exact lines; loads beyond capacity are grey."""
    legend = style.pop("legend", "below" if ax is None else "upper left")
    rows = zip(diagram.spinodal_low, diagram.maxwell, diagram.spinodal_high)
    windows = [[] if np.isnan(row[2]) else [[None if x < 0 else float(x) for x in row]] for row in rows]
    columns = sorted(zip(diagram.alphas.tolist(), windows), key=lambda column: column[0])
    end = getattr(thresholds, "spinodal", None)  # where the window of a planted problem closes at t = 0
    if end is not None and columns[0][0] < end < columns[-1][0]:
        columns = sorted([*columns, (end, [[None, None, 0.0]])], key=lambda column: column[0])
    cusp = None
    if thresholds is not None and thresholds.cusp_time is not None:
        cusp = getattr(thresholds, "asl", None) or thresholds.localization, thresholds.cusp_time
    with drawing(ax) as one:
        regimes(columns, one, float(diagram.times.max()) or 1.0, legend, cusp, **style)
        for load in diagram.alphas[(diagram.regimes == "none").all(axis=0) | ~diagram.satisfiable]:
            one.axvspan(*_edges([alpha for alpha, _ in columns], load), color="0.75", lw=0, zorder=3)
        if thresholds is not None:
            mark_loads(
                one, {name: getattr(thresholds, name, None) for name in MARKED}, 0.97 if legend == "below" else 0.35
            )
        one.set_title(diagram.title)
        return one


def regimes(
    columns: Sequence[tuple[float, Sequence[Sequence[float | None]]]],
    ax: Axes,
    top: float,
    legend: Any = "upper left",
    cusp: tuple[float, float] | None = None,
    **style: Any,
) -> None:
    """Draw the t–α diagram up to the time `top`, bounded by the exact spinodal and Maxwell lines.

    `columns` are loads with windows of times (low, maxwell, high), None before t = 0; `cusp` is the (α, t) at which a second
    maximum appears.
    """
    ax.set_facecolor(REGIMES["green"])
    for k in range(max((len(windows) for _, windows in columns), default=0)):
        having = [(alpha, windows[k]) for alpha, windows in columns if len(windows) > k]
        if k == 0 and cusp is not None and columns[0][0] <= cusp[0] < having[0][0]:
            having.insert(0, (cusp[0], (cusp[1],) * 3))
        if len(having) == 1:  # as wide as its column
            having = [(edge, having[0][1]) for edge in _edges([alpha for alpha, _ in columns], having[0][0])]
        alphas = np.array([alpha for alpha, _ in having])
        low, maxwell, high = (_line(alphas, [window[i] for _, window in having], -top) for i in range(3))
        ax.fill_between(alphas, low, maxwell, color=REGIMES["yellow"], lw=0)
        ax.fill_between(alphas, maxwell, high, color=REGIMES["red"], lw=0)
        for line, dash in ((low, ":"), (maxwell, "--"), (high, "-")):
            ax.plot(alphas, line, **merged(style, color="0.15", lw=0.8, ls=dash))
    ax.grid(False)
    first, last = columns[0][0], columns[-1][0]
    xlim = (first, last) if first < last else (0.9 * first, 1.1 * first)
    ax.set(xlabel=r"load $\alpha$", ylabel="time $t$", xlim=xlim, ylim=(0, top))
    patches = [Patch(color=REGIMES[name], label=words) for name, words in MEANING.items()]
    if legend == "below":
        ax.figure.legend(handles=patches, loc="outside lower center", ncols=2)
    else:
        ax.legend(handles=patches, loc=legend, frameon=True, framealpha=0.85)


def _edges(loads: Sequence[float], load: float) -> tuple[float, float]:
    """Return the loads half way to the neighbours of `load`."""
    at = loads.index(load)
    return (loads[max(at - 1, 0)] + load) / 2, (loads[min(at + 1, len(loads) - 1)] + load) / 2


def _line(alphas: Reals, times: Sequence[float | None], floor: float) -> Reals:
    """Return times, continued straight below zero where they are None, so that the line leaves the picture there."""
    line = np.array([np.nan if time is None else time for time in times])
    known = np.flatnonzero(np.isfinite(line))
    if len(known) < 2:
        return np.nan_to_num(line, nan=floor)
    a, b = known[-2:]
    straight = line[b] + (alphas - alphas[b]) * (line[b] - line[a]) / (alphas[b] - alphas[a])
    return np.where(np.isfinite(line), line, np.minimum(straight, 0.0))


def mark_loads(ax: Axes, loads: Mapping[str, float | None], height: float) -> None:
    """Mark loads inside the axes by vertical lines with names and values, at a `height` relative to the axes."""
    left, right = ax.get_xlim()
    texts: list[tuple[float, str]] = []
    for load, name in sorted((load, name) for name, load in loads.items() if load is not None and left < load < right):
        ax.axvline(load, color="0.1", lw=0.9, ls=(0, (4, 2)))
        words = f"{MARKED[name]} {load:.5g}"
        if texts and load - texts[-1][0] < 0.015 * (right - left):  # names that would overlap are written as one text
            texts[-1] = texts[-1][0], f"{texts[-1][1]}\n{words}"
        else:
            texts.append((load, words))
    place: dict[str, Any] = {"rotation": 90, "va": "bottom" if height < 0.5 else "top", "ha": "right"}
    place |= {"multialignment": "left", "fontsize": "small", "clip_on": True, "transform": ax.get_xaxis_transform()}
    for load, words in texts:  # which may be longer than the height of the axes, and must not move them
        ax.text(load, height, words, **place).set_in_layout(False)


def sampling_map(found: SamplingMap, ax: Any, **style: Any) -> Axes:
    """Draw all thresholds over margins or widths; the region that ASL samples is green."""
    lines = {name: getattr(found, name) for name in found.LINES}
    asl, far = (lines[name][np.isfinite(lines[name])] for name in ("asl", "capacity"))
    name = found.target.potential.name if found.axis == "width" else str(found.target.potential)
    with drawing(ax) as one:
        alpha_kappa(found.places, lines, one, axis=found.axis, **style)
        if far.max(initial=0.0) > 30 and len(asl):
            one.set_xscale("log")
            one.set_xlim(0.8 * float(asl.min()), None)
        one.legend()
        one.set_title(f"{found.target.prior} weights, {name} potential")
        return one


def alpha_kappa(
    margins: Reals,
    lines: Mapping[str, Reals],
    ax: Axes,
    names: Sequence[str] = tuple(LINES),
    axis: str = "margin",
    **style: Any,
) -> None:
    """Draw thresholds by name against the "margin" or the "width" of a band, the region below the ASL line in green."""
    ax.fill_betweenx(margins, 0, lines["asl"], color=REGIMES["green"], alpha=0.45, lw=0, label="sampled by ASL")
    capacity = lines.get("capacity", np.nan)
    for name in (name for name in names if name in lines):
        line, (label, colour, dash) = np.asarray(lines[name], dtype=float), LINES[name]
        # a zero entropy may be the capacity itself
        same = name == "zero_entropy" and np.allclose(line, capacity, rtol=1e-6, equal_nan=True)
        if not np.isnan(line).all() and not same:
            ax.plot(line, margins, **merged(style, color=colour, ls=dash, lw=1.5, label=label))
    ax.set(xlabel=r"load $\alpha$", ylabel={"margin": r"margin $\kappa$", "width": "width $K$ of the band"}[axis])


def temperature_lines(
    temperatures: Reals, lines: Mapping[str, Reals], ax: Axes, label: str = "ASL", colour: str = RED
) -> None:
    """Draw the ASL threshold against the temperature, with zero entropy (dashed) and capacity (dotted)."""
    ax.plot(temperatures, lines["asl"], color=colour, marker="o", ms=3, label=label)
    if "zero_entropy" in lines:
        ax.plot(temperatures, lines["zero_entropy"], color=colour, lw=1, ls="--")
    if "capacity" in lines:
        ax.axhline(lines["capacity"][0], color=colour, lw=1, ls=":")
    ax.set(xlabel="temperature $T$", ylabel=r"load $\alpha$")


def edge(epsilon: Reals, slope: Reals, ax: Axes, label: str, colour: str, law: Reals | None = None) -> None:
    """Draw dφ/dq against ε = 1 - q, with its asymptotic law."""
    ax.plot(epsilon, slope, color=colour, label=label)
    if law is not None:
        ax.plot(epsilon, law, color=colour, lw=1, ls=":")
    ax.axhline(0, color=GREY, lw=0.8)
    ax.set(xscale="log", xlabel=r"$\epsilon = 1 - q$", ylabel=r"$d\phi_t/dq$ at $t = 0$")
