"""Pictures of one prediction: φ_t(q), F(q), q(t), P(s)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes

from solspace.numerics.arrays import Reals
from solspace.plots.diagrams import entropy_curves
from solspace.plots.style import BLUE, GREY, RED, REGIMES, mark_margin, merged, one_or_all, thick

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction


def _overlap_grid(prediction: Prediction) -> Reals:
    """Return overlaps from r to Q, dense at both ends."""
    x = np.linspace(0, 1, 402)[1:-1]
    return prediction.least_overlap + (prediction.norm - prediction.least_overlap) * (x**2 * (3 - 2 * x))


def _last_window(prediction: Prediction) -> float | None:
    return max((w.high for w in prediction.windows if np.isfinite(w.high) and w.high > 0), default=None)


def free_entropy(
    prediction: Prediction, ax: Axes, times: Sequence[float] | None = None, base: str = "r", **style: Any
) -> None:
    """Draw φ_t(q) at several times; maxima are coloured by regime."""
    times = prediction.telling_times if times is None else sorted(set(map(float, times)))
    q, r, entropy = _overlap_grid(prediction), prediction.least_overlap, prediction.free_entropy_at
    row: dict[str, list[Any]] = {"regimes": [prediction.regime(time) for time in times], "maxima": [], "at_overlap": []}
    for time in times:
        tops = dict.fromkeys(float(prediction.overlap_at(time, start=start)) for start in ("low", "high"))
        row["maxima"].append([[top, float(entropy(max(top, r), time))] for top in tops])
        row["at_overlap"].append(float(entropy(r, time)))
    entropy_curves(q, np.array([entropy(q, time) for time in times]), times, row, ax, base, **style)
    ax.set_title("free entropy")


def localization_curve(prediction: Prediction, ax: Axes, time: float | None = None, **style: Any) -> None:
    """Draw F(q), the time at which q is stationary."""
    q = _overlap_grid(prediction)
    f = np.asarray(prediction.localization_time(q))
    ax.plot(q, f, **merged(style, color=BLUE, label="$F(q)$"))
    falling = np.gradient(f, q) < 0
    if falling.any():
        ax.plot(q, np.where(falling, f, np.nan), color=REGIMES["red"], lw=2.5, label="falls: no maximum here")
    if time is not None:
        ax.axhline(time, color=GREY, lw=1, ls="--", label=f"t = {time:g}")
    last, finite = _last_window(prediction), f[np.isfinite(f)]
    top = float(np.quantile(finite, 0.9)) if last is None else 2.5 * last
    ax.set(xlabel="overlap $q$", ylabel="time $t$", title="stationary overlaps")
    ax.set_ylim(min(0.0, *finite[:1], -0.05 * top), top)
    ax.legend(frameon=False)


def overlap_path(prediction: Prediction, ax: Axes, times: Reals | None = None, **style: Any) -> None:
    """Draw q(t) from a low and from a high start."""
    last = _last_window(prediction)
    t = np.linspace(0, 8.0 if last is None else 3 * last, 200) if times is None else np.asarray(times, dtype=float)
    low = high = np.asarray(prediction.overlap_at(t))
    if not prediction.samplable:
        high = np.asarray(prediction.overlap_at(t, start="high"))
    ax.plot(t, low, **merged(style, color=RED, lw=thick(), label="theory"))
    apart = np.abs(high - low) > 1e-6
    if apart.any():
        line = merged({**style, "label": "theory, high start"}, color=RED, lw=thick()) | {"linestyle": ":"}
        ax.plot(t, np.where(apart, high, np.nan), **line)
    ax.set(xlabel="time $t$", ylabel="overlap $q(t)$", ylim=(None, 1.02 * prediction.norm), title="path of the overlap")
    ax.legend(frameon=False, loc="lower right")


def stability_density(prediction: Prediction, ax: Axes, **style: Any) -> None:
    """Draw P(s), the density of stabilities of fair samples."""
    low, high = prediction.stability_range
    room = 0.07 * (high - low)
    edges = [edge + side * 1e-9 * (high - low) for edge in (low, high) for side in (-1, 1)]  # jumps are vertical
    s = np.sort(np.append(np.linspace(low - room, high + room, 600), edges))
    ax.plot(s, prediction.stability_density(s), **merged(style, color=RED, lw=thick()))
    mark_margin(ax, prediction.target.margin)
    ax.set(xlabel="stability $s$", ylabel="$P(s)$", title="stabilities", ylim=(0, None))
    ax.legend(frameon=False)


KINDS: dict[str, Callable[..., None]] = {
    "free entropy": free_entropy,
    "localization": localization_curve,
    "path": overlap_path,
    "stabilities": stability_density,
}


def plot_prediction(prediction: Prediction, kind: str, ax: Any, **style: Any) -> Any:
    reasons = {", RS unstable": prediction.stable, ", entropy < 0": prediction.populated}
    reasons[", past capacity"] = prediction.satisfiable
    doubts = f"α = {prediction.alpha:g}{''.join(reason for reason, fine in reasons.items() if not fine)}"
    own = {"free entropy": {"times": style.pop("times")}} if kind == "all" and "times" in style else {}

    def draw(name: str, one: Axes, **style: Any) -> None:
        KINDS[name](prediction, one, **style, **own.get(name, {}))
        if ax is None and kind != "all":
            one.set_title(f"{prediction.target}\n{doubts}", fontsize="small")

    return one_or_all(
        {name: partial(draw, name) for name in KINDS}, kind, ax, f"{prediction.target}, {doubts}", **style
    )
