"""Tasks of theory: predictions that figures need, computed once and stored like samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from solspace.experiments.tasks import Found, Task
from solspace.measure import Target
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

LINES = ("asl", "dat", "dynamical", "condensation", "zero_entropy", "capacity")
"""The thresholds that are stored."""


def theory_task(kind: str, target: Target, **values: object) -> Task:
    return Task({"kind": kind, "target": target.to_dict(), **values})


def windows_at(target: Target, alphas: Iterable[float]) -> list[Task]:
    """Return the tasks of a t–α diagram: for each load the times between which φ_t has two maxima."""
    return [theory_task("windows", target, alpha=round(float(alpha), 12)) for alpha in alphas]


def thresholds_of(target: Target, margins: Iterable[float] | None = None) -> list[Task]:
    """Return the tasks for the thresholds of `target`, at its margin or at several."""
    targets = [target] if margins is None else [target.replace(margin=round(float(m), 12)) for m in margins]
    return [theory_task("thresholds", one) for one in targets]


def _prediction(task: Task) -> tuple[Prediction, Values]:
    from solspace.theory.prediction import predict

    p = predict(Target.from_dict(task.values["target"]), task.values["alpha"])
    return p, {"overlap": p.overlap, "replicon": p.replicon, "entropy": p.entropy, "stable": p.stable}


def windows(task: Task) -> Found:
    """Return the windows of a load as (low, maxwell, high); None stands for a time before all others."""
    p, about = _prediction(task)
    return {**about, "samplable": p.samplable, "windows": [list(window) for window in p.windows]}, {}


def thresholds(task: Task) -> Found:
    from solspace.theory.thresholds import thresholds as find

    found = find(Target.from_dict(task.values["target"]))
    return {name: getattr(found, name) for name in LINES}, {}


def free_entropy(task: Task) -> Found:
    """Return q (k,), φ_t(q) (times, k), and for each time its regime and its maxima (q, φ)."""
    p, about = _prediction(task)
    share = np.linspace(0, 1, 402)[1:-1]
    q = p.overlap + (1 - p.overlap) * share**2 * (3 - 2 * share)  # dense at both ends
    times = task.values["times"]
    phi = np.array([p.free_entropy_at(q, time) for time in times])
    maxima = []
    for time in times:
        tops = dict.fromkeys(round(float(p.overlap_at(time, start=start)), 10) for start in ("low", "high"))
        maxima.append([[top, float(p.free_entropy_at(max(top, p.overlap), time))] for top in tops])
    values = {**about, "regimes": [p.regime(time) for time in times], "maxima": maxima}
    return values | {"at_overlap": [float(p.free_entropy_at(p.overlap, time)) for time in times]}, {"q": q, "phi": phi}


def stabilities(task: Task) -> Found:
    p, about = _prediction(task)
    s = np.linspace(task.values["low"], task.values["high"], 801)
    return {**about, "mean_stability": p.mean_stability}, {"s": s, "density": p.stability_density(s)}


def edge(task: Task) -> Found:
    """Return ε = 1 - q and dφ_0/dq = -F/2 there, with the form it takes as ε → 0."""
    p, about = _prediction(task)
    epsilon = np.logspace(-10, np.log10((1 - p.overlap) * 0.9), 120)
    return {**about, **p.edge().to_dict()}, {"epsilon": epsilon, "slope": -p.localization_time(1 - epsilon) / 2}


def instability(task: Task) -> Found:
    """Return 1 - q and λ(q), the instability of message passing, there."""
    p, about = _prediction(task)
    variance = np.logspace(-5, np.log10(1 - p.overlap), 160)
    variance[-1] = 1 - p.overlap
    return about, {"variance": variance, "instability": p.instability_at(np.maximum(1 - variance, p.overlap))}
