"""Pictures of counts: logarithms of numbers of solutions against the load, with their intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from solspace.plots.style import BLUE, GREY, drawing, merged

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from solspace.counting.result import Count


def count_bars(counts: Sequence[Count], ax: Axes, **style: Any) -> None:
    """Draw log counts per weight: points with intervals, open ones for values without, arrows up from lower ends."""
    look = merged(style, color=BLUE, marker="o", linestyle="none")
    look.setdefault("markersize", 4)
    trusted = [one for one in counts if one.trusted and np.isfinite(one.log)]
    rest = [one for one in counts if not one.trusted and np.isfinite(one.log)]
    if trusted:
        x, y, low, high = np.array(
            [(one.alpha, *(v / one.n for v in (one.log, one.low, one.high))) for one in trusted]
        ).T
        ax.errorbar(x, y, yerr=[y - low, high - y], **{"capsize": 2, "lw": 1, **look})
    if rest:
        x, y, low = np.array([(one.alpha, one.log / one.n, one.low / one.n) for one in rest]).T
        ax.plot(x, y, **{**look, "markerfacecolor": "none", "label": None})
        held = np.isfinite(low)
        ax.plot(x[held], low[held], **{**look, "marker": "^", "color": GREY, "label": None})
    measure = "log number of solutions" if all(one.solutions for one in counts) else "log Z"
    ax.set(xlabel=r"load $\alpha$", ylabel=f"{measure} per weight")


def plot_counts(counts: Sequence[Count], ax: Any = None, **style: Any) -> Any:
    """Draw `counts` on given or new axes, as `Count.plot` does."""
    with drawing(ax) as one:
        count_bars(counts, one, **style)
        if ax is None:
            sizes = sorted({found.n for found in counts})
            one.set_title(f"n = {', '.join(map(str, sizes))}")
        return one
