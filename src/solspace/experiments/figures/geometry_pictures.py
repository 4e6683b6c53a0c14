"""Pictures of the figures in `geometry`, from stored results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from solspace.experiments.figures import Picture
from solspace.experiments.figures.pictures import columns, line, rows_of
from solspace.experiments.results import Results
from solspace.measure import Target
from solspace.plots import style, sweeps
from solspace.plots.geometry import DISTANCE
from solspace.system.plain import Values

CLOSE = 0.025  # distances of the lower row


def local_entropy(results: Results, targets: Mapping[str, Target], loads: Sequence[float], heading: str) -> Picture:
    drawing, axes = style.panels(len(loads), width=3.9, height=3.0, rows=2)
    table: list[Values] = []
    for (top, bottom), load in zip(axes.T, loads):
        for colour, (label, target) in zip(style.SERIES, targets.items()):
            table += _around(results, target, load, (top, bottom), colour, label)
        top.set(title=f"α = {load:g}", xlim=(0, None), ylim=(-0.015, None))
        bottom.set(xlabel=DISTANCE, xlim=(0, CLOSE), ylim=(-0.015, 0.07))
        for ax in (top, bottom):
            ax.axhline(0, color=style.GREY, lw=0.8, ls="--")
    for ax in axes[:, 0]:
        ax.set_ylabel("log number of solutions / $n$")
    axes[0, 0].legend(loc="lower right", fontsize=8)
    done = {(row.task["n"], row.task["n_samples"]) for row in results.rows(kind="local-entropy")}
    points = "; ".join(f"points: N = {n}, {k} samples each by ASL, bars over instances" for n, k in sorted(done))
    note = f"lines: theory, dotted where replica symmetry is unstable; {points}; below: small distances"
    return Picture(drawing, table, heading, note)


def _around(
    results: Results, target: Target, load: float, axes: Sequence[Axes], colour: str, label: str
) -> list[Values]:
    own = target.to_dict()
    (theory,) = (row for row in rows_of(results, own, "franz-parisi", arrays=True) if row.task["alpha"] == load)
    overlaps, values = theory.arrays["overlaps"], theory.arrays["values"]
    table: list[Values] = [
        {"alpha": load, "around": label, "source": "theory", "overlap": p, "value": v, "error": None}
        for p, v in zip(overlaps.tolist(), values.tolist())
    ]
    stable = theory.arrays["stable"]
    for ax in axes:
        ax.plot((1 - overlaps) / 2, np.where(stable, values, np.nan), color=colour, lw=1.3, label=label)
        ax.plot((1 - overlaps) / 2, np.where(stable, np.nan, values), color=colour, lw=1.3, ls=":")
    rows = [row for row in rows_of(results, own, "local-entropy", arrays=True) if row.task["alpha"] == load]
    means = [np.nanmean(row.arrays["values"], axis=0) for row in rows if len(row.arrays["values"])]
    if means:
        p, mean = rows[0].arrays["overlaps"], np.mean(means, axis=0)
        error = np.std(means, axis=0, ddof=1) / np.sqrt(len(means)) if len(means) > 1 else np.full(len(p), np.nan)
        for ax in axes:
            ax.errorbar((1 - p) / 2, mean, error, color=colour, marker="o", ms=3, ls="", lw=1)
        table += [
            {"alpha": load, "around": label, "source": f"{len(means)} instances", "overlap": x, "value": v, "error": e}
            for x, v, e in zip(p.tolist(), mean.tolist(), error.tolist())
        ]
    return table


def overlap_gap(results: Results, heading: str) -> Picture:
    names = ("temperature", "asl", "dynamical", "condensation", "zero_entropy", "capacity", "overlap_gap")
    rows = sorted(results.rows(kind="overlap-gap"), key=lambda row: row.task["target"]["temperature"])
    table = [line(row, *names) for row in rows]
    drawing, ax = style.panels(1, width=7.4)
    lines = columns(table, *names)
    heats = lines.pop("temperature")
    looks = {
        "overlap_gap": (style.SERIES[3], "-", "a gap opens around samples"),
        "capacity": (style.GREY, ":", "capacity"),
        "zero_entropy": (style.GREY, "--", "typical samples end"),
        "condensation": (style.SERIES[4], "-.", "condensation"),
        "dynamical": (style.SERIES[1], "--", "dynamical"),
        "asl": (style.SERIES[0], "-", "ASL stops"),
    }
    for name, (colour, dash, label) in looks.items():
        ax.plot(heats, lines[name], color=colour, ls=dash, label=label)
    ended = lines["overlap_gap"] > lines["zero_entropy"]
    ax.fill_between(heats, lines["zero_entropy"], lines["capacity"], color="0.93", lw=0, where=ended)
    ax.set(xlabel="temperature $T$", ylabel=r"load $\alpha$")
    drawing.legend(loc="outside right upper", fontsize=8)
    return Picture(
        drawing, table, heading, "grey: loads beyond the last typical samples, where the curve is a continuation"
    )


def barriers(results: Results, samplers: Mapping[str, str], heading: str) -> Picture:
    rows = [row for row in results.rows(kind="barriers") if row.values["worst"] is not None]
    drawing, axes = style.panels(2, width=4.4, height=3.4)
    table: list[Values] = []
    for colour, (name, label) in zip(style.SERIES, samplers.items()):
        for marker, n in zip(style.MARKERS, sorted({row.task["n"] for row in rows})):
            own = [row for row in rows if row.task["sampler"] == name and row.task["n"] == n]
            for load in sorted({row.task["alpha"] for row in own}):
                few = [row.values for row in own if row.task["alpha"] == load]
                point: Values = {"sampler": name, "n": n, "alpha": load, "instances": len(few)}
                for key in ("worst", "share", "overlap"):
                    values = np.array([one[key] for one in few])
                    point[key] = float(values.mean())
                    point[f"{key}_error"] = float(values.std(ddof=1) / np.sqrt(len(few))) if len(few) > 1 else None
                table.append(point)
            points = [point for point in table if point["sampler"] == name and point["n"] == n]
            if points:
                x = [point["alpha"] for point in points]
                for ax, key in zip(axes, ("worst", "share")):
                    y, error = ([point[k] for point in points] for k in (key, f"{key}_error"))
                    error = [0.0 if e is None else e for e in error]
                    ax.errorbar(x, y, error, color=colour, marker=marker, ms=4, lw=1.2, label=f"{label}, N = {n}")
    axes[0].set(xlabel=r"load $\alpha$", ylabel="most unmet constraints on the way")
    axes[1].set(xlabel=r"load $\alpha$", ylabel="pairs joined by solutions alone", ylim=(-0.03, 1.03))
    sweeps.legend_above(drawing, axes, heading)
    return Picture(drawing, table, note="all pairs of the solutions among 4 samples; bars over instances")
