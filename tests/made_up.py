"""Made-up results of a figure's tasks, for tests that draw it."""

from __future__ import annotations

from typing import Any

import numpy as np

from solspace.experiments import figures
from solspace.experiments.tasks import Task

OURS = [name for name in figures.FIGURES if not name.startswith(("mnist", "fashion", "cifar", "mixing", "fair"))]


def plausible(task: Task) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers of the shape that a task gives, made up."""
    values, rng = task.values, np.random.default_rng(task.seed % 2**32)
    about = {"overlap": 0.5, "replicon": 0.5, "entropy": 0.1, "stable": True}
    if values["kind"] == "sample":
        m, k = round(values["n"] * values["alpha"]), values["n_samples"]
        numbers = {"solved": k, "solved_fraction": rng.choice([0.0, 1.0]), "overlap": rng.random(), "unconverged": 0.1}
        s = rng.gamma(3, 0.4, (k, min(m, 2000))) + values["target"]["margin"]
        path = {"path_overlap": rng.uniform(0.5, 1, (30, k)), "path_instability": rng.uniform(0, 1.2, (30, k)),
                "path_converged": rng.random((30, k)) < 0.9}  # fmt: skip
        return numbers, {"stabilities": s, "violations": np.zeros(k, int), **path} if values["keep"] else {}
    if values["kind"] == "teacher":
        names = ("amp_overlap", "amp_error", *(("sample_overlap", "sample_error") if values["n_samples"] else ()))
        return {**{name: 0.5 * rng.random() for name in names}, "converged": True}, {}
    if values["kind"] == "teacher-theory":
        names = ("overlap", "message_passing_overlap", "gibbs_error", "posterior_mean_error")
        alphas = np.array(values["alphas"])
        return {}, {"alpha": alphas, **dict.fromkeys(names, 0.3 * alphas)}
    if values["kind"] == "calibration":
        names = ("overlap", "projection", "energy")
        numbers = {"fair": None, "verdict": "", "bins": 9, "p_values": dict.fromkeys(names, 0.1)}
        return numbers, {name: rng.random(values["n_problems"]) for name in names}
    if values["kind"] == "thresholds" and "ensemble" in values:
        return {"information": 1.2, "spinodal": 1.5, "localization": 0.0}, {}
    if values["kind"] == "windows":
        return {**about, "samplable": False, "windows": [[-0.1, None if rng.random() < 0.2 else 0.1, 0.3]]}, {}
    if values["kind"] == "thresholds":
        load = 1.5 - values["target"]["margin"]
        return {"asl": load, "dat": load, "dynamical": None, "condensation": 1.1 * load,
                "zero_entropy": 1.5 * load, "capacity": 2 * load}, {}  # fmt: skip
    if values["kind"] == "overlap-gap":
        return dict.fromkeys(
            ("asl", "dat", "dynamical", "condensation", "zero_entropy", "capacity", "overlap_gap"), 0.7
        ), {}
    if values["kind"] == "franz-parisi":
        p = np.linspace(0.3, 0.99, 30)
        return {"gap": None, "free_overlap": 0.3}, {"overlaps": p, "values": 1 - p, "stable": p < 0.9}
    if values["kind"] == "local-entropy":
        p = np.array(values["overlaps"])
        return {"solved": 4}, {"overlaps": p, "values": np.tile(1 - p, (4, 1))}
    if values["kind"] == "barriers":
        return {"solved": 4, "worst": 1.5, "share": 0.5, "overlap": 0.6}, {"barriers": np.arange(6)}
    if values["kind"] == "free-entropy":
        count, q = len(values["times"]), np.linspace(0.5, 1, 50)
        maxima = [[[0.6, 0.1], [1.0, 0.2]]] * count
        lists = {"regimes": ["yellow"] * count, "maxima": maxima, "at_overlap": [0.0] * count}
        return {**about, **lists}, {"q": q, "phi": np.outer(np.arange(count), q)}
    if values["kind"] == "stabilities":
        s = np.linspace(values["low"], values["high"], 100)
        return {**about, "mean_stability": 1.0}, {"s": s, "density": np.exp(-(s**2))}
    if values["kind"] == "count":
        log = float(rng.uniform(5, 10))
        others = {"ep": log + 0.1, "exact": log if values["n"] < 40 else None}
        return {"log": log, "low": log - 0.2, "high": log + 0.3, "trusted": log > 6, "effective": 99.0, **others}, {}
    epsilon = np.logspace(-8, -1, 30)
    if values["kind"] == "instability":
        return about, {"variance": epsilon, "instability": np.ones(30)}
    assert values["kind"] == "edge"
    edge = {"divergence": 0.5, "constant": 0.4, "logarithmic": False, "maximum_at_one": True}
    return {**about, **edge}, {"epsilon": epsilon, "slope": np.log(epsilon)}
