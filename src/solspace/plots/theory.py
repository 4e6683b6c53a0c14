"""Pictures of one prediction: φ_t(q), F(q), q(t), P(s)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from solspace.numerics.arrays import Reals
from solspace.plots.diagrams import entropy_curves
from solspace.plots.style import BLUE, GREY, RED, REGIMES, merged, thick

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction


def overlap_grid(prediction: Prediction, count: int = 400) -> Reals:
    """Return overlaps from r to 1, dense at both ends."""
    r = prediction.overlap
    x = np.linspace(0, 1, count + 2)[1:-1]
    return r + (1 - r) * (x**2 * (3 - 2 * x))


def free_entropy(
    prediction: Prediction, ax: Axes, times: Sequence[float] | None = None, base: str = "r", **style: Any
) -> Axes:
    """Draw φ_t(q) at several times; maxima are coloured by regime.

    Parameters
    ----------
    prediction : Prediction
        Prediction to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    times : sequence of float, optional
        Times; by default those at which φ_t is most informative.
    base : {"r", "one"}, default "r"
        Overlap at which φ_t is taken as zero: q = r or q = 1.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    times = prediction.telling_times if times is None else sorted(set(map(float, times)))
    q, r = overlap_grid(prediction), prediction.overlap
    phi = np.array([prediction.free_entropy_at(q, time) for time in times])
    tops = [[float(prediction.overlap_at(time, start=start)) for start in ("low", "high")] for time in times]
    row = {
        "regimes": [prediction.regime(time) for time in times],
        "maxima": [
            [[top, float(prediction.free_entropy_at(max(top, r), time))] for top in dict.fromkeys(own)]
            for own, time in zip(tops, times)
        ],
        "at_overlap": [float(prediction.free_entropy_at(r, time)) for time in times],
    }
    entropy_curves(q, phi, times, row, ax, base, **style)
    ax.set_title("free entropy")
    return ax


def localization_curve(prediction: Prediction, ax: Axes, time: float | None = None, **style: Any) -> Axes:
    """Draw F(q), the time at which q is stationary.

    Parameters
    ----------
    prediction : Prediction
        Prediction to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    time : float, optional
        Time to mark.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    q = overlap_grid(prediction)
    f = np.asarray(prediction.localization_time(q))
    ax.plot(q, f, **merged(style, color=BLUE, label="$F(q)$"))
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


def overlap_path(prediction: Prediction, ax: Axes, times: Reals | None = None, **style: Any) -> Axes:
    """Draw q(t) from a low and from a high start.

    Parameters
    ----------
    prediction : Prediction
        Prediction to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    times : sequence of float, optional
        Times; by default those at which φ_t is most informative.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    if times is None:
        windows = [w.high for w in prediction.windows if np.isfinite(w.high) and w.high > 0]
        times = np.linspace(0, 3 * max(windows) if windows else 8.0, 200)
    t = np.asarray(times, dtype=float)
    low = high = np.asarray(prediction.overlap_at(t))
    if not prediction.samplable:
        high = np.asarray(prediction.overlap_at(t, start="high"))
    ax.plot(t, low, **merged(style, color=RED, lw=thick(), label="theory"))
    apart = np.abs(high - low) > 1e-6
    if apart.any():
        line = merged({**style, "label": "theory, high start"}, color=RED, lw=thick()) | {"linestyle": ":"}
        ax.plot(t, np.where(apart, high, np.nan), **line)
    ax.set(xlabel="time $t$", ylabel="overlap $q(t)$", ylim=(None, 1.02), title="path of the overlap")
    ax.legend(frameon=False, loc="lower right")
    return ax


def stability_density(prediction: Prediction, ax: Axes, **style: Any) -> Axes:
    """Draw P(s), the density of stabilities of fair samples.

    Parameters
    ----------
    prediction : Prediction
        Prediction to draw.
    ax : matplotlib.axes.Axes
        Axes to draw on.
    **style : Any
        Properties of the lines, as in Matplotlib.

    Returns
    -------
    matplotlib.axes.Axes
        The axes.
    """
    margin = prediction.target.margin
    low, high = prediction.stability_range
    room = 0.07 * (high - low)
    edges = [edge + side * 1e-9 * (high - low) for edge in (low, high) for side in (-1, 1)]  # a jump is drawn upright
    s = np.sort(np.append(np.linspace(low - room, high + room, 600), edges))
    ax.plot(s, prediction.stability_density(s), **merged(style, color=RED, lw=thick()))
    ax.axvline(margin, color=GREY, lw=1, ls="--", label=f"margin {margin:g}")
    ax.set(xlabel="stability $s$", ylabel="$P(s)$", title="stabilities", ylim=(0, None))
    ax.legend(frameon=False)
    return ax


def flags(prediction: Prediction) -> str:
    """Return what is to be said with every picture of a prediction that needs care: ", RS unstable" and the like."""
    said = "" if prediction.stable else ", RS unstable"
    said += "" if prediction.populated else ", entropy < 0"
    return said + ("" if prediction.satisfiable else ", past capacity")


KINDS: dict[str, Callable[..., Axes]] = {
    "free entropy": free_entropy,
    "localization": localization_curve,
    "path": overlap_path,
    "stabilities": stability_density,
}
"""Pictures of a prediction by name."""


def prediction_panels(prediction: Prediction, axes: Sequence[Axes], times: Sequence[float] | None = None) -> Any:
    """Draw all four pictures of a prediction.

    Parameters
    ----------
    prediction : Prediction
        Prediction to draw.
    axes : sequence of Axes
        Axes to draw on, one for each panel.
    times : sequence of float, optional
        Times; by default those at which φ_t is most informative.

    Returns
    -------
    ndarray of Axes
        The axes.
    """
    for ax, (kind, draw) in zip(axes, KINDS.items()):
        draw(prediction, ax, **({"times": times} if kind == "free entropy" else {}))
    figure = axes[0].get_figure()
    assert figure is not None
    figure.suptitle(f"{prediction.target}, α = {prediction.alpha:g}{flags(prediction)}")
    return axes
