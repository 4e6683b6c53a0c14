"""Pictures of one prediction: φ_t(q), F(q), q(t), P(s)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from solspace.numerics.arrays import Reals
from solspace.plots.style import BLUE, GREY, RED, REGIMES

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction


def overlap_grid(prediction: Prediction, count: int = 400) -> Reals:
    """Return overlaps from r to 1, dense at both ends."""
    r = prediction.overlap
    x = np.linspace(0, 1, count + 2)[1:-1]
    return r + (1 - r) * (x**2 * (3 - 2 * x))


def free_entropy(prediction: Prediction, times: Sequence[float], ax: Axes, base: bool = True) -> Axes:
    """Draw φ_t(q) at several times, from its value at r when `base`; maxima are coloured by regime."""
    q = overlap_grid(prediction)
    seen: list[float] = []
    for time, colour_of_time in zip(times, colormaps["viridis"](np.linspace(0.0, 0.85, len(times)))):
        phi = np.asarray(prediction.free_entropy_at(q, time))
        zero = float(np.asarray(prediction.free_entropy_at(prediction.overlap, time))) if base else 0.0
        (line,) = ax.plot(q, phi - zero, color=colour_of_time, label=f"t = {time:.3g}")
        colour = REGIMES[prediction.regime(time)]
        tops = [float(prediction.overlap_at(time, start=start)) for start in ("low", "high")]
        for top in tops:
            value = float(np.asarray(prediction.free_entropy_at(top, time))) - zero
            ax.plot(top, value, "o", ms=6, mfc=colour, mec=line.get_color(), zorder=3)
        between = (phi - zero)[q <= max(*tops, q[1])]
        seen += [float(between.min()), float(between.max()), 0.0]
    reach = max(max(seen) - min(seen), 1e-6)
    ax.set_ylim(min(seen) - 0.35 * reach, max(seen) + 0.15 * reach)
    ax.set(xlabel="overlap $q$", ylabel=r"$\phi_t(q) - \phi_t(r)$" if base else r"$\phi_t(q)$", title="free entropy")
    ax.legend(frameon=False)
    return ax


def localization_curve(prediction: Prediction, ax: Axes, time: float | None = None) -> Axes:
    """Draw F(q), the time at which q is stationary; where it falls, no time selects q."""
    q = overlap_grid(prediction)
    f = np.asarray(prediction.localization_time(q))
    ax.plot(q, f, color=BLUE, label="$F(q)$")
    falling = np.gradient(f, q) < 0
    if falling.any():
        ax.plot(q, np.where(falling, f, np.nan), color=REGIMES["red"], lw=2.5, label="falls: no maximum here")
    if time is not None:
        ax.axhline(time, color=GREY, lw=1, ls="--", label=f"t = {time:g}")
    windows = [w.high for w in prediction.windows if np.isfinite(w.high) and w.high > 0]
    top = 2.5 * max(windows) if windows else float(np.quantile(f[np.isfinite(f)], 0.9))
    ax.set(xlabel="overlap $q$", ylabel="time $t$", ylim=(min(0.0, *f[np.isfinite(f)][:1], -0.05 * top), top))
    ax.set_title("stationary overlaps")
    ax.legend(frameon=False)
    return ax


def overlap_path(prediction: Prediction, ax: Axes, times: Reals | None = None) -> Axes:
    """Draw q(t) from a low and from a high start."""
    if times is None:
        windows = [w.high for w in prediction.windows if np.isfinite(w.high) and w.high > 0]
        times = np.linspace(0, 3 * max(windows) if windows else 8.0, 200)
    t = times
    low = high = np.asarray(prediction.overlap_at(t))
    if not prediction.samplable:
        high = np.asarray(prediction.overlap_at(t, start="high"))
    ax.plot(t, low, color=RED, lw=2, label="theory")
    apart = np.abs(high - low) > 1e-6
    if apart.any():
        ax.plot(t, np.where(apart, high, np.nan), color=RED, lw=2, ls=":", label="theory, high start")
    ax.set(xlabel="time $t$", ylabel="overlap $q(t)$", ylim=(None, 1.02), title="path of the overlap")
    ax.legend(frameon=False, loc="lower right")
    return ax


def stability_density(prediction: Prediction, ax: Axes) -> Axes:
    """Draw P(s), the density of stabilities that fair samples must show."""
    margin = prediction.target.margin
    low, high = prediction.stability_range
    room = 0.07 * (high - low)
    edges = [edge + side * 1e-9 * (high - low) for edge in (low, high) for side in (-1, 1)]  # a jump is drawn upright
    s = np.sort(np.append(np.linspace(low - room, high + room, 600), edges))
    ax.plot(s, prediction.stability_density(s), color=RED, lw=2)
    ax.axvline(margin, color=GREY, lw=1, ls="--", label=f"margin {margin:g}")
    ax.set(xlabel="stability $s$", ylabel="$P(s)$", title="stabilities", ylim=(0, None))
    ax.legend(frameon=False)
    return ax
