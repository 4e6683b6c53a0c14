"""The picture of a diagnosis: every number that a verdict is made of, and the range that chance explains."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MultipleLocator

from solspace.diagnostics.deviations import deviations
from solspace.diagnostics.report import SIGMAS
from solspace.plots.style import BLUE, GREY, RED, merged

if TYPE_CHECKING:
    from solspace.diagnostics.report import Report

WIDE = 30.0
"""Deviations beyond this are drawn on a logarithmic axis."""


def report_deviations(report: Report, ax: Axes, **style: Any) -> Axes:
    """Draw the deviation of each quantity in units of its error; beyond the band it is a bias.

    Parameters
    ----------
    report : Report
        Report to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    found = deviations(report)
    names, values = list(found), np.array(list(found.values()))
    ax.axvspan(-SIGMAS, SIGMAS, color=GREY, alpha=0.15, lw=0, label="chance")
    ax.axvline(0, color=GREY, lw=0.8)
    for inside, colour, marker in ((True, BLUE, "o"), (False, RED, "X")):
        rows = np.flatnonzero((np.abs(values) <= SIGMAS) == inside)
        ax.plot(values[rows], rows, **merged(style, color=colour, marker=marker, ms=5, ls=""))
    far = float(np.abs(values).max(initial=SIGMAS))
    if far > WIDE:
        ax.set_xscale("symlog", linthresh=2 * SIGMAS)
    else:
        ax.xaxis.set_major_locator(MultipleLocator(SIGMAS if far < 5 * SIGMAS else 2 * SIGMAS))
    reach = 1.15 * max(far, 1.6 * SIGMAS)
    ax.set(
        xlim=(-reach if values.min(initial=0.0) < -SIGMAS else -1.6 * SIGMAS, reach),
        ylim=(max(len(names), 1) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(names)), names)
    if not names:
        ax.text(0.5, 0.5, "nothing to compare with", ha="center", transform=ax.transAxes)
    ax.set(xlabel=f"deviation (bias beyond ±{SIGMAS:g})")
    ax.set_title(f"{report.n_solved} of {report.n_samples} solved\n{_short(report)}")
    return ax


def _short(report: Report) -> str:
    said = report.verdict.partition(":")[0]
    return said if report.within is None or "within" in said else f"{said}, fair within {report.within:.3g}"
