"""What the figures of theory share: panels drawn from stored results, and their tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from solspace.experiments.results import Results
from solspace.measure import Target
from solspace.store import Result
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def one_curve(results: Results, ax: Axes, base: str = "r") -> Result:
    """Draw the stored φ_t(q) on `ax` and return its row."""
    from solspace.plots import diagrams

    (row,) = results.rows(arrays=True, kind="free-entropy")
    diagrams.entropy_curves(row.arrays["q"], row.arrays["phi"], row.task["times"], row.values, ax, base)
    return row


def curve_table(row: Result) -> list[Values]:
    """Return φ_t(q) as rows of a table."""
    return [
        {"t": time, "regime": regime, "q": float(q), "phi": float(value)}
        for time, regime, phi in zip(row.task["times"], row.values["regimes"], row.arrays["phi"])
        for q, value in zip(row.arrays["q"], phi)
    ]


def diagram(
    results: Results,
    target: Target,
    ax: Axes,
    top: float | None,
    marked: tuple[str, ...] = (),
    legend: str = "upper left",
) -> list[Values]:
    """Draw the stored t–α diagram of `target` on `ax` up to time `top` (None: a little after the last window), its thresholds
    marked; return its table.
    """
    from solspace.plots import diagrams

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
    return [_line(row) for row in rows]


def _line(row: Result) -> Values:
    (low, maxwell, high), *_ = row.values["windows"] or [(None, None, None)]
    about = {name: row.values[name] for name in ("overlap", "replicon", "entropy", "samplable")}
    return {"alpha": row.task["alpha"], "t_low": low, "t_maxwell": maxwell, "t_high": high, **about}
