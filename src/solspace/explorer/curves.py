"""Predictions as the arrays that are drawn, the t–α diagram, computed piece by piece, and the verdict in words.

Predictions are cached, so that moving t alone needs no new solution.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import Any, NamedTuple

import numpy as np

import solspace as ss
from solspace.explorer.workers import Pool
from solspace.measure import Target
from solspace.numerics.arrays import Reals
from solspace.system.plain import Values, plain
from solspace.theory.planted import PlantedPrediction
from solspace.theory.prediction import Prediction

LATEST = 30.0  # the last time shown
FINE = 1e-3  # largest distance of a drawn chord from its curve, relative to the height of the curve
COLUMNS = 36  # loads at which the lines of the t–α diagram are computed, half of them where the regimes change
BATCH = 4  # loads that are computed together
THRESHOLDS = {
    "asl": "α where ASL stops",
    "dynamical": "α d1RSB (dynamical)",
    "condensation": "α static 1RSB",
    "dat": "α dAT",
    "zero_entropy": "α zero entropy",
    "capacity": "α capacity",
}
PLANTED_THRESHOLDS = {
    "localization": "α where ASL first fails",
    "information": "α information-theoretic",
    "spinodal": "α where AMP succeeds",
}
LABELS = {"overlap": "overlap r", "entropy": "entropy", "free_entropy": "free entropy", "replicon": "replicon"}
PLANTED_LABELS = {
    **(LABELS | {"overlap": "overlap q with the teacher"}),
    "message_passing_overlap": "overlap that AMP reaches",
    "gibbs_error": "Gibbs error",
    "bayes_error": "Bayes error on labels",
}
# of each ensemble: what "Numbers" shows of a prediction, and of thresholds
SHOWN = {"random": (LABELS, THRESHOLDS), "planted": (PLANTED_LABELS, PLANTED_THRESHOLDS)}
_AT_TIME = {
    "green": "At t = {time:.4g} φₜ has one maximum.",
    "yellow": "At t = {time:.4g} φₜ has a second maximum, lower than the first: localization still follows the first.",
    "red": "At t = {time:.4g} the maximum that localization cannot reach is the higher one.",
}
FACTS = ("samplable", "stable", "populated", "satisfiable", "norm")


@lru_cache(maxsize=64)
def _prediction(target: str, alpha: float, ensemble: str) -> Prediction:
    return ss.predict(Target.from_json(target), alpha, ensemble)


@lru_cache(maxsize=64)
def _still(target: str, alpha: float, ensemble: str) -> Values:
    """Return all that does not depend on t."""
    p = _prediction(target, alpha, ensemble)
    jumps = _jumps(p)
    start = float(p.overlap_at(0.0))
    more = [q for jump in jumps for q in jump[1:]]
    if start > p.least_overlap:  # the path of a planted problem starts inside
        more += list(start + (p.norm - start) * np.logspace(-6, -1, 16))
    q, f = _localization(p, overlaps(p.least_overlap, more, p.norm))
    low, high = p.stability_range
    s = np.concatenate([[low - 0.4, low - 1e-9], np.linspace(low + 1e-9, high - 1e-9, 300), [high + 1e-9, high + 0.4]])
    return {
        **{name: plain(getattr(p, name)) for name in (*SHOWN[ensemble][0], *FACTS)},
        "hard": p.target.potential.hard,
        "short": isinstance(p, PlantedPrediction) and p.hard,
        "takeover": min((max(0.0, float(window.maxwell)) for window in _windows(p)), default=None),
        "q": q,
        "f": f,
        "rising": np.gradient(f, q) > 0,
        "phi_0": np.asarray(p.free_entropy_at(q, 0.0), dtype=float),
        **path(q, f, start, jumps, p.norm),
        "s": s,
        "p": np.asarray(p.stability_density(s), dtype=float),
    }


def curves(target: str, alpha: float, time: float, ensemble: str = "random") -> Values:
    """Return all that is drawn at one (target as JSON, α, t), as plain numbers and arrays."""
    p, still = _prediction(target, alpha, ensemble), _still(target, alpha, ensemble)
    r, q = p.least_overlap, still["q"]
    base = float(p.free_entropy_at(r, time))
    phi, tops = still["phi_0"] + time * q / 2 - base, _tops(p, time, base)
    return {
        **still,
        "alpha": alpha,
        "time": time,
        "margin": p.target.margin,
        "regime": str(p.regime(time)),
        "phi": phi,
        "tops": tops,
        "phi_range": _height_range(q, phi, tops),
        "f_range": _time_range(still["f"], time),
    }


def nearby(target: str, alpha: float, ensemble: str = "random") -> Values:
    """Return v(d), the log number of solutions at distance d from a fair sample, up to the end of its curve; or no points."""
    if ensemble == "planted":
        return {"d": np.array([]), "v": np.array([])}
    with suppress(ValueError, NotImplementedError):
        found = ss.franz_parisi(Target.from_json(target), alpha)
        return {"d": found.distances, "v": found.values}
    return {"d": np.array([]), "v": np.array([])}


def columns(target: str, alphas: Sequence[float], ensemble: str = "random") -> Values:
    """Return the times at which a second maximum appears, takes over and is alone, at some loads.

    NaN where there is one maximum at every time, and where the equations have no solution.
    """
    lines = np.full((3, len(alphas)), np.nan)
    for k, alpha in enumerate(alphas):
        with suppress(ValueError, IndexError):
            lines[:, k] = _windows(_prediction(target, alpha, ensemble))[0]
    return {"alpha": np.asarray(alphas, dtype=float), "first": lines[0], "maxwell": lines[1], "last": lines[2]}


def thresholds(target: str, ensemble: str = "random") -> Values:
    """Return the thresholds of a target (as JSON), None for those that do not exist."""
    found = ss.thresholds(Target.from_json(target), ensemble)
    return {name: plain(getattr(found, name)) for name in SHOWN[ensemble][1]}


@dataclass(frozen=True)
class Diagram:
    """What is known of a t–α diagram: thresholds, the range of α to show, and lines as `columns` returns them."""

    thresholds: Values
    alphas: tuple[float, float]
    lines: Values


async def diagrams(pool: Pool, target: str, ensemble: str = "random") -> AsyncIterator[Diagram]:
    """Yield the t–α diagram of a target (as JSON) as it grows: thresholds first, then a few loads at a time."""
    found = await pool.ask(thresholds, target, ensemble)
    span, ahead = loads(found)
    lines = {name: np.array([]) for name in ("alpha", "first", "maxwell", "last")}
    yield Diagram(found, span, lines)
    while ahead:
        batch, ahead = tuple(ahead[:BATCH]), ahead[BATCH:]
        more = await pool.ask(columns, target, batch, ensemble)
        joined = {name: np.concatenate([lines[name], more[name]]) for name in lines}
        order = np.argsort(joined["alpha"])
        lines = {name: values[order] for name, values in joined.items()}
        yield Diagram(found, span, lines)


def loads(thresholds: Values) -> tuple[tuple[float, float], list[float]]:
    """Return the range of α to show and the loads to compute, those between the transitions first."""
    known = [value for value in thresholds.values() if value is not None]
    first = thresholds.get("asl") or thresholds.get("localization") or 0.0
    top = max(thresholds.get("capacity") or 0.0, thresholds.get("zero_entropy") or 0.0)
    if not top or first > top:  # a soft measure, which continues past capacity, or a planted problem, which has none
        top = 1.2 * max(known, default=4.0 if "spinodal" in thresholds else 1.0)
    last = thresholds.get("condensation") or thresholds.get("dat") or thresholds.get("spinodal") or top
    last = min(top, last + 0.3 * (last - first)) if last > first else top
    near = np.linspace(first, last, COLUMNS // 2)
    below = first * np.array([0.01, 0.33, 0.67]) if first > 0 else np.array([])
    above = np.linspace(last, top, COLUMNS - len(near) - len(below) + 1)[1:]
    alphas = [float(alpha) for alpha in dict.fromkeys(np.concatenate([near, below, above])) if alpha > 0.001 * top]
    return (0.0, float(top)), alphas


def overlaps(r: float, more: Sequence[float] = (), norm: float = 1.0) -> Reals:
    """Return overlaps from r to the norm, logarithmically spaced towards both ends, with those of `more` that lie inside."""
    near, between, far = np.logspace(-6, -2, 16), np.linspace(0, 1, 46)[1:-1], np.logspace(-9, -2, 18)
    inside = [q for q in more if r < q < norm]
    return np.unique(np.concatenate([r + (norm - r) * np.concatenate([near, between, 1 - far]), inside]))


def _localization(p: Prediction, q: Reals) -> tuple[Reals, Reals]:
    """Return the overlaps `q`, with as many between as a smooth curve needs, and F there."""
    f = np.asarray(p.localization_time(q), dtype=float)
    if len(more := between(q, f)):
        q, f = np.append(q, more), np.append(f, p.localization_time(more))
    order = np.argsort(q)
    return q[order], f[order]


def between(x: Reals, y: Reals) -> Reals:
    """Return points to add to `x` (k,) where the chords of `y` would differ visibly from a curve.

    A chord of length h differs by |y''| h²/8. It may by `FINE` of the height or, where the curve is steep, of half the
    width.

    >>> x = np.linspace(0, 1, 11)
    >>> len(between(x, 3 * x)), len(between(x, np.exp(3 * x))) > 10
    (0, True)
    """
    h = np.diff(x)
    slope = np.diff(y) / h
    bend = np.abs(np.pad(2 * np.diff(slope) / (h[1:] + h[:-1]), 1, mode="edge"))
    beside = np.maximum(bend[1:], bend[:-1]) * h**2 / 8
    height = np.maximum(np.maximum(np.abs(y[1:]), np.abs(y[:-1])), 1e-3)
    allowed = FINE * np.maximum(height, np.abs(slope) * (x[-1] - x[0]) / 2)
    pieces = np.clip(np.nan_to_num(np.ceil(np.sqrt(beside / allowed)), nan=1, posinf=1), 1, 8).astype(int)
    inside = [a + (b - a) * np.arange(1, k) / k for a, b, k in zip(x[:-1], x[1:], pieces)]
    return np.concatenate(inside) if inside else np.array([])


def _windows(p: Prediction) -> list[Any]:
    return [window for window in p.windows if window.high > 0]


def _tops(p: Prediction, time: float, base: float) -> list[Values]:
    low, high = (float(p.overlap_at(time, start=start)) for start in ("low", "high"))
    found = [("maximum", low)] if abs(high - low) < 1e-7 else [("low start", low), ("high start", high)]
    return [{"name": name, "q": q, "phi": float(p.free_entropy_at(q, time)) - base} for name, q in found]


def _jumps(p: Prediction) -> list[tuple[float, float, float]]:
    """Return (t, q before, q after) where the path from a low start jumps: at the end of each lower maximum."""
    ends = [float(window.high) for window in _windows(p)]
    before, after = (np.atleast_1d(p.overlap_at(np.array(ends) * x, start="low")) for x in (1 - 1e-9, 1 + 1e-9))
    return list(zip(ends, before.tolist(), after.tolist()))


def path(
    q: Reals, f: Reals, r: float, jumps: Sequence[tuple[float, float, float]], norm: float = 1.0
) -> dict[str, Reals]:
    """Return q(t) from a low start, r and then the smallest root of F(q) = t, and from a high start, where different."""
    first = f > np.concatenate([[0.0], np.maximum.accumulate(np.maximum(f, 0.0))[:-1]])
    last = (f < np.concatenate([np.minimum.accumulate(f[::-1])[::-1][1:], [np.inf]])) & (f > 0)
    points = [(0.0, r), *zip(f[first], q[first])]
    points += [point for t, before, after in jumps for point in ((t, before), (t * (1 + 1e-9), after))]
    above: list[tuple[float, float]] = []
    if r == norm:  # labels that determine the teacher
        points.append((LATEST, norm))
    elif jumps and jumps[-1][2] == norm:  # a maximum at q = Q, at every time
        points.append((LATEST, norm))
        above = [(0.0, norm), (jumps[-1][0], norm)]
    else:
        above = [*zip(f[last & ~first], q[last & ~first]), *((t, after) for t, _, after in jumps)]
    low, high = (np.array(sorted(some)).reshape(-1, 2).T for some in (points, above))
    return {"t_low": np.maximum(low[0], 1e-9), "low": low[1], "t_high": np.maximum(high[0], 1e-9), "high": high[1]}


def _height_range(q: Reals, phi: Reals, tops: list[Values]) -> tuple[float, float]:
    highest = max(top["phi"] for top in tops)
    lowest = min(0.0, float(np.min(phi[q <= tops[-1]["q"]], initial=0.0)))
    span = max(highest - lowest, 1e-4)
    return lowest - 0.45 * span, highest + 0.15 * span


def _time_range(f: Reals, time: float) -> tuple[float, float]:
    """Return a range of times that contains t and the turning points of F."""
    finite = f[np.isfinite(f)]
    turns = finite[1:-1][np.diff(np.sign(np.diff(finite))) != 0]
    top = 1.6 * max(time, float(np.max(turns, initial=0.0)), 0.02 * float(np.median(finite)), 1e-3)
    return float(np.clip(finite.min(), -0.3 * top, 0.0)), top


class Verdict(NamedTuple):
    """A colour (green, yellow, red), a sentence on whether ASL works, and details."""

    colour: str
    sentence: str
    detail: str


def verdict(facts: Values, thresholds: Values | None = None) -> Verdict:
    """Return what the facts of a prediction mean, with the thresholds where they are known."""
    known = {name: value for name, value in (thresholds or {}).items() if value is not None}

    def at(name: str, words: str) -> str:
        return words.format(known[name]) if name in known else ""

    alpha, takeover = facts["alpha"], facts["takeover"]
    detail, capacity = _AT_TIME[facts["regime"]].format(time=facts["time"]), at("capacity", " ({:.4g})")
    if not facts["satisfiable"]:
        if facts["hard"]:
            return Verdict("red", f"No solutions: α = {alpha:.4g} is past capacity{capacity}.", "")
        detail += f" Past capacity{capacity} no weights meet all constraints: samples miss some."
    if not facts["populated"]:
        if facts["satisfiable"]:
            detail += f" Solutions there are up to capacity{capacity}; annealing may find them."
        sentence = (
            f"Theory's typical samples end before α = {alpha:.4g}: the entropy of this measure vanishes"
            f"{at('zero_entropy', ' at {:.4g}')}. ASL fails, and the numbers below continue the equations only."
        )
    elif not facts["stable"]:
        sentence = (
            f"Replica symmetry is broken at α = {alpha:.4g}{at('dat', ', past the dAT line at {:.4g}')}: ASL fails, "
            "and the numbers below are an approximation."
        )
    elif facts["short"]:
        sentence = (
            f"Hard: message passing stops at the overlap {facts['message_passing_overlap']:.4g} with the teacher, short of "
            f"the posterior's {facts['overlap']:.4g}: ASL fails."
        )
        detail += at("spinodal", " From α = {:.4g} on it finds the teacher.")
    elif facts["samplable"]:
        for name in ("asl", "localization"):
            if known.get(name, alpha) > alpha:
                detail += at(name, " ASL goes on working up to α = {:.4g}.")
        return Verdict("green", "ASL works here for all t.", detail)
    elif takeover is None or takeover <= 0:
        sentence = "Another maximum is higher from the start (t = 0): ASL fails."
    else:
        sentence = f"A second maximum takes over at t = {takeover:.3g}: ASL fails."
    return Verdict("red", sentence, detail)


def numbers(facts: Values | None, thresholds: Values | None, ensemble: str = "random") -> str:
    """Return an HTML table of order parameters and thresholds, dashes where there are no `facts` or {} for thresholds."""
    labels, limits = SHOWN[ensemble]
    rows = [(name, label, "–" if facts is None else _number(facts[name])) for name, label in labels.items()]
    for name, label in limits.items():
        rows.append(
            (name, label, "computing…" if thresholds is None else _number(thresholds[name]) if thresholds else "–")
        )
    return "<table>" + "".join(
        f'<tr{" class=parting" if name == next(iter(limits)) else ""}><th scope="row">{escape(label)}</th>'
        f'<td data-name="{name}">{escape(value)}</td></tr>'
        for name, label, value in rows
    ) + "</table>"  # fmt: skip


def _number(value: float | None) -> str:
    return "none" if value is None else f"{value:.6g}"
