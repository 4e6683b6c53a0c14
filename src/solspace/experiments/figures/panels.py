"""Panels that several figures share, drawn from stored results on Matplotlib axes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from solspace.experiments.figures import Picture
from solspace.experiments.results import Results
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.numerics.series import bins, spacing
from solspace.plots import diagrams, style, sweeps
from solspace.store import Result
from solspace.system.plain import Values

VISIBLE = 1e-3
"""Fraction of the highest density below which a curve cannot be distinguished from the axis."""
ASL = r"theory: $\alpha_\mathrm{ASL}$ ="


class Success(NamedTuple):
    """A panel of the fraction solved against the load: its title, the points of `Results.mean`, and marked thresholds."""

    title: str
    points: Sequence[Values]
    thresholds: Sequence[float | None] = ()


def success(
    panels: Sequence[Success],
    columns: int,
    heading: str,
    *,
    series: str = "n",
    label: str = "N = {}",
    height: float = 3.4,
) -> Drawing:
    """Draw panels row by row under one legend."""
    drawing, axes = style.panels(
        columns, width=4.4, height=height, rows=len(panels) // columns, sharey=True, squeeze=False
    )
    for ax, panel in zip(axes.flat, panels):
        sweeps.success(panel.points, ax, series, label)
        ax.set_title(panel.title)
        for threshold in filter(None, panel.thresholds):
            sweeps.threshold(ax, threshold, ASL)
    sweeps.legend_above(drawing, axes.flat, heading)
    return drawing


def instances(points: Iterable[Values]) -> str:
    """Return the number of instances a point, or its range."""
    counts = sorted({point["instances"] for point in points})
    return "–".join(str(count) for count in dict.fromkeys((counts[0], counts[-1]))) if counts else "no"


def entropy_curves(results: Results, ax: Axes, base: str = "r") -> Result:
    """Draw the stored φ_t(q) and return its row."""
    (row,) = results.rows(arrays=True, kind="free-entropy")
    diagrams.entropy_curves(row.arrays["q"], row.arrays["phi"], row.task["times"], row.values, ax, base)
    return row


def curve_table(row: Result) -> list[Values]:
    return [
        {"t": time, "regime": regime, "q": float(q), "phi": float(value)}
        for time, regime, phi in zip(row.task["times"], row.values["regimes"], row.arrays["phi"])
        for q, value in zip(row.arrays["q"], phi)
    ]


def t_alpha(
    results: Results, target: Target, ax: Axes, top: float | None, marked: Sequence[str], legend: str = "upper left"
) -> list[Values]:
    """Draw the stored t–α diagram of `target` with the thresholds in `marked`, and return its table.

    The diagram ends at time `top`; if None, a little after the last window.
    """
    rows = [row for row in results.rows(kind="windows") if row.task["target"] == target.to_dict()]
    rows.sort(key=lambda row: row.task["alpha"])
    if top is None:
        ends = [window[2] for row in rows for window in row.values["windows"] if window[2] is not None]
        top = 1.25 * max(ends, default=0.0) or 1.0
    diagrams.regimes([(row.task["alpha"], row.values["windows"]) for row in rows], ax, top, legend)
    for row in results.rows(kind="thresholds"):
        if row.task["target"] == target.to_dict():
            height = 0.47 if legend == "upper left" else 0.1
            diagrams.mark_loads(ax, {name: row.values[name] for name in marked}, height)
    table = []
    for row in rows:
        (low, maxwell, high), *_ = row.values["windows"] or [(None, None, None)]
        about = {name: row.values[name] for name in ("overlap", "replicon", "entropy", "samplable")}
        table.append({"alpha": row.task["alpha"], "t_low": low, "t_maxwell": maxwell, "t_high": high, **about})
    return table


def stabilities(results: Results, size: str, heading: str) -> Picture:
    """Draw a histogram of all stabilities at each load under the predicted density; the table has the histograms."""
    predictions, table = list(results.rows(arrays=True, kind="stabilities")), []
    drawing, axes = style.panels(len(predictions), width=4.4 if len(predictions) > 1 else 5.2, squeeze=False)
    for ax, prediction in zip(axes.flat, predictions):
        table += _stabilities(results, prediction, ax)
    note = "overlap: of pairs of samples of one instance, its error over instances; ±1 patterns"
    return Picture(drawing, table, heading, note)


def _stabilities(results: Results, theory: Result, ax: Axes) -> list[Values]:
    alpha, target = theory.task["alpha"], theory.task["target"]
    rows = [
        row for row in results.rows(arrays=True, kind="sample")
        if row.task["alpha"] == alpha and row.task["target"] == target
    ]  # fmt: skip
    s, density = theory.arrays["s"], theory.arrays["density"]
    count = sum(len(row.arrays["stabilities"]) for row in rows)
    values = np.concatenate([row.arrays["stabilities"].ravel() for row in rows]).astype(float)
    edges = bins(values, target["margin"], spacing(values, rows[0].task["n"]))
    sweeps.stabilities(values, edges, ax, s, density, target["margin"], f"ASL, {count} samples")
    ax.set_xlim(s[0], s[density > VISIBLE * density.max()][-1])
    overlaps = np.array([row.values["overlap"] for row in rows])
    error = overlaps.std(ddof=1) / np.sqrt(len(overlaps)) if len(overlaps) > 1 else np.nan
    solved, missed = sum(row.values["solved"] for row in rows), int(sum(row.arrays["violations"].sum() for row in rows))
    words = [
        f"overlap {overlaps.mean():.4f} ± {error:.4f}",
        f"theory r = {theory.values['overlap']:.4f}",
        f"solved {solved}/{count}" + (f", {missed} constraints missed" if missed else ""),
    ]
    ax.text(0.97, 0.62, "\n".join(words), transform=ax.transAxes, ha="right", va="top", fontsize=8)
    ax.set_title(f"N = {rows[0].task['n']}, α = {alpha:g}, {len(rows)} instances")
    return _histogram(values, edges, s, density, alpha)


def _histogram(values: Reals, edges: Reals, s: Reals, density: Reals, alpha: float) -> list[Values]:
    counts, _ = np.histogram(values, edges)
    width = edges[1] - edges[0]
    centres = (edges[1:] + edges[:-1]) / 2
    theory = np.interp(centres, s, density, right=0.0)
    return [
        {"alpha": alpha, "s": float(x), "count": int(c), "density": float(c / len(values) / width), "theory": float(p)}
        for x, c, p in zip(centres, counts, theory)
    ]
