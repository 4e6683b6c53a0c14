"""What the page asks of theory: a prediction turned into the arrays that are drawn. Runs in worker processes.

Nothing is computed here that `ss.predict`, `ss.thresholds` and `ss.phase_diagram` do not say. A prediction is kept, so
that moving t alone costs no new solution.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import solspace as ss
from solspace.measure import Target

Array = NDArray[Any]
POINTS = 25
"""Overlaps in each of the three stretches of a curve: near r, between, near 1."""
FACTS = ("overlap", "entropy", "free_entropy", "replicon", "samplable", "stable", "satisfiable")


@lru_cache(maxsize=64)
def _prediction(target: str, alpha: float) -> Any:
    return ss.predict(Target.from_json(target), alpha=alpha)


@lru_cache(maxsize=64)
def _still(target: str, alpha: float) -> dict[str, Any]:
    """Return what does not depend on t."""
    p = _prediction(target, alpha)
    q, s = overlaps(p.overlap), stabilities(p.target)
    f = np.asarray(p.localization_time(q), dtype=float)
    return {
        **{name: _plain(getattr(p, name)) for name in FACTS},
        **window(p),
        "q": q,
        "f": f,
        "rising": np.gradient(f, q) > 0,
        "phi_0": np.asarray(p.free_entropy_at(q, 0.0), dtype=float),
        **path(q, f, p.overlap),
        "s": s,
        "p": np.asarray(p.stability_density(s), dtype=float),
    }


def curves(target: str, alpha: float, time: float) -> dict[str, Any]:
    """Return everything drawn at one (target as JSON, α, t), as plain numbers and arrays."""
    p, still = _prediction(target, alpha), _still(target, alpha)
    r, q = p.overlap, still["q"]
    base = float(p.free_entropy_at(r, time))
    return {
        **still,
        "alpha": alpha,
        "time": time,
        "margin": p.target.margin,
        "regime": str(p.regime(time)),
        "phi": still["phi_0"] + time * q / 2 - base,
        "tops": _tops(p, time, base),
        "f_range": _time_range(still["f"], time),
    }


def columns(target: str, alphas: Sequence[float]) -> dict[str, Any]:
    """Return the exact lines of the t–α diagram at some loads: a second maximum appears, takes over, is alone.

    NaN where there is one maximum at every time, and where the equations have no solution.
    """
    lines = np.full((3, len(alphas)), np.nan)
    for k, alpha in enumerate(alphas):
        try:
            p = _prediction(target, alpha)
            later = [w for w in p.windows if w.high > 0]
        except ValueError:
            continue
        if later:
            lines[:, k] = later[0]
    return {"alpha": np.asarray(alphas, dtype=float), "first": lines[0], "maxwell": lines[1], "last": lines[2]}


def window(p: Any) -> dict[str, Any]:
    """Return when a second maximum takes over (`takeover`) and when it appears and is alone (`window`), if ever."""
    later = [w for w in p.windows if w.high > 0]
    first = min(later, key=lambda w: w.maxwell, default=None)
    if first is None:
        return {"takeover": None, "window": None}
    return {"takeover": max(0.0, float(first.maxwell)), "window": (max(0.0, float(first.low)), float(first.high))}


def thresholds(target: str) -> dict[str, Any]:
    """Return the loads at which things change, None where there is none."""
    found = ss.thresholds(Target.from_json(target))
    return {name: _plain(getattr(found, name)) for name in ("asl", "dynamical", "condensation", "dat", "capacity")}


def overlaps(r: float) -> Array:
    """Return overlaps from r to 1: even between, and by equal ratios of q - r and of 1 - q towards the ends.

    >>> bool(np.all(np.diff(overlaps(0.5)) > 0))
    True
    """
    near, between, far = (
        np.logspace(-6, -1.5, POINTS),
        np.linspace(0, 1, POINTS + 2)[1:-1],
        np.logspace(-9, -1.5, POINTS),
    )
    return r + (1 - r) * np.unique(np.concatenate([near, between, 1 - far]))


def stabilities(target: Target) -> Array:
    """Return the stabilities at which P(s) is drawn."""
    low = target.margin - (0.0 if target.potential.hard else 3.0)
    if target.potential.name == "band":
        return target.margin + np.linspace(-1.2, 1.2, 300) * target.potential.width  # type: ignore[attr-defined]
    return np.concatenate([[low - 0.4, low - 1e-9], np.linspace(low + 1e-9, max(low + 4.5, 3.5), 300)])


def _tops(p: Any, time: float, base: float) -> list[dict[str, Any]]:
    low, high = (float(p.overlap_at(time, start=start)) for start in ("low", "high"))
    found = [("maximum", low)] if abs(high - low) < 1e-7 else [("low start", low), ("high start", high)]
    return [{"name": name, "q": q, "phi": float(p.free_entropy_at(q, time)) - base} for name, q in found]


def path(q: Array, f: Array, r: float) -> dict[str, Array]:
    """Return q(t) from a low and from a high start, as points of the curve t = F(q).

    The smallest root of F(q) = t is a point where F exceeds all values before it, the largest one where F stays below
    all values behind it. `high` is NaN where the two starts agree.
    """
    first = f > np.concatenate([[0.0], np.maximum.accumulate(np.maximum(f, 0.0))[:-1]])
    last = (f < np.concatenate([np.minimum.accumulate(f[::-1])[::-1][1:], [np.inf]])) & (f > 0)
    apart = last & ~first
    both = np.flatnonzero(apart)
    shown = np.zeros(len(q), bool)
    if len(both):
        shown[both[0] : min(both[-1] + 2, len(q))] = True
    return {
        "t_low": np.concatenate([[1e-9], f[first]]),
        "low": np.concatenate([[r], q[first]]),
        "t_high": f[shown & last],
        "high": q[shown & last],
    }


def _time_range(f: Array, time: float) -> tuple[float, float]:
    """Return the times shown beside F(q): both the line t and the curve's turning points must be seen."""
    finite = f[np.isfinite(f)]
    turns = finite[1:-1][np.diff(np.sign(np.diff(finite))) != 0]
    top = 1.6 * max(time, float(np.max(turns, initial=0.0)), 0.02 * float(np.median(finite)), 1e-3)
    return float(np.clip(finite.min(), -0.3 * top, 0.0)), top


def _plain(value: Any) -> Any:
    return None if value is None else bool(value) if isinstance(value, (bool, np.bool_)) else float(value)
