"""Pictures of theory alone: φ_t(q), F(q), q(t), P(s), the t–α diagram and the α–κ map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from numpy.typing import NDArray

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

Array = NDArray[Any]
REGIME = {"green": "#7fbf7b", "yellow": "#f6d860", "red": "#d7191c"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""


def overlap_grid(prediction: Prediction, count: int = 400) -> Array:
    """Return overlaps from r to 1, dense at both ends."""
    r = prediction.overlap
    x = np.linspace(0, 1, count + 2)[1:-1]
    return r + (1 - r) * (x**2 * (3 - 2 * x))


def free_entropy(prediction: Prediction, times: Sequence[float], ax: Axes, base: bool = True) -> Axes:
    """Draw φ_t(q) at several times, each curve from its value at r when `base`, its maxima marked and coloured by regime."""
    q = overlap_grid(prediction)
    shades = np.linspace(0.25, 0.9, len(times))
    for time, shade in zip(times, shades):
        phi = np.asarray(prediction.free_entropy_at(q, time))
        zero = float(np.asarray(prediction.free_entropy_at(prediction.overlap, time))) if base else 0.0
        (line,) = ax.plot(q, phi - zero, color=(0.1, 0.2 + 0.3 * shade, shade), label=f"t = {time:g}")
        colour = REGIME[prediction.regime(time)]
        for start in ("low", "high"):
            top = float(prediction.overlap_at(time, start=start))
            if top < 1 - 1e-9:
                value = float(np.asarray(prediction.free_entropy_at(top, time))) - zero
                ax.plot(top, value, "o", ms=6, mfc=colour, mec=line.get_color(), zorder=3)
    ax.set(xlabel="overlap $q$", ylabel=r"$\phi_t(q) - \phi_t(r)$" if base else r"$\phi_t(q)$", title="free entropy")
    ax.legend(frameon=False)
    return ax


def localization_curve(prediction: Prediction, ax: Axes, time: float | None = None) -> Axes:
    """Draw F(q), the time at which q is stationary; where it falls, no time selects q."""
    q = overlap_grid(prediction)
    f = np.asarray(prediction.localization_time(q))
    rising = np.gradient(f, q) > 0
    ax.plot(q, np.where(rising, f, np.nan), color="#3b6fb6", label="$F(q)$")
    ax.plot(q, np.where(rising, np.nan, f), color=REGIME["red"], label="unstable")
    if time is not None:
        ax.axhline(time, color="0.4", lw=1, ls="--", label=f"t = {time:g}")
    finite = f[np.isfinite(f)]
    ax.set(xlabel="overlap $q$", ylabel="time $t$", ylim=(min(0.0, finite.min()), np.quantile(finite, 0.9)))
    ax.set_title("stationary overlaps")
    ax.legend(frameon=False)
    return ax


def overlap_path(prediction: Prediction, ax: Axes, times: Array | None = None) -> Axes:
    """Draw q(t) from a low and from a high start."""
    t = np.concatenate([[0], np.logspace(-3, np.log10(20), 120)]) if times is None else times
    low, high = (np.asarray(prediction.overlap_at(t, start=start)) for start in ("low", "high"))
    ax.plot(t, low, color="#c8372d", lw=2, label="theory")
    apart = np.abs(high - low) > 1e-6
    if apart.any():
        ax.plot(t, np.where(apart, high, np.nan), color="#c8372d", lw=2, ls=":", label="theory, high start")
    ax.set(xlabel="time $t$", ylabel="overlap $q(t)$", ylim=(None, 1.02), title="path of the overlap")
    ax.legend(frameon=False, loc="lower right")
    return ax


def stability_density(prediction: Prediction, ax: Axes) -> Axes:
    """Draw P(s), the density of stabilities that fair samples must show."""
    margin = prediction.target.margin
    low = margin if prediction.target.potential.hard else margin - 3
    s = np.linspace(low - 0.3, max(low + 4.5, 3.5), 600)
    ax.plot(s, prediction.stability_density(s), color="#c8372d", lw=2)
    ax.axvline(margin, color="0.4", lw=1, ls="--", label=f"margin {margin:g}")
    ax.set(xlabel="stability $s$", ylabel="$P(s)$", title="stabilities", ylim=(0, None))
    ax.legend(frameon=False)
    return ax


def regimes(alphas: Array, times: Array, codes: Array, ax: Axes) -> Axes:
    """Draw the t–α diagram: `codes` (times, alphas) with 0 green, 1 yellow, 2 red."""
    ax.pcolormesh(
        alphas, times, codes, cmap=ListedColormap(list(REGIME.values())), vmin=0, vmax=2, shading="nearest", alpha=0.8
    )
    ax.set(xlabel=r"load $\alpha$", ylabel="time $t$")
    return ax
