"""Kinds of tasks on the geometry of solutions: theory's curve and its gap, local entropy and barriers on instances."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from solspace.experiments.tasks import DEPENDS, LINES, Found, Sampled, Task, each, instances_of, problem_of
from solspace.geometry.local_entropy import local_entropy
from solspace.geometry.paths import barrier
from solspace.measure import Target
from solspace.problem import Perceptron
from solspace.samples import Samples
from solspace.system.plain import Values
from solspace.theory.franz_parisi import franz_parisi
from solspace.theory.thresholds import thresholds


def curve(task: Task) -> Found:
    """Return overlaps and v(p) around fair samples of the target, and where a gap begins."""
    found = franz_parisi(Target.from_dict(task.values["target"]), task.values["alpha"])
    arrays = {name: getattr(found, name) for name in ("overlaps", "values", "stable")}
    return {"gap": found.gap, "free_overlap": found.free_overlap}, arrays


def gap_load(task: Task) -> Found:
    """Return the thresholds of the target, and the load at which a gap opens."""
    found = thresholds(Target.from_dict(task.values["target"]))
    return {**{name: getattr(found, name) for name in LINES}, "overlap_gap": found.overlap_gap}, {}


def _curves(task: Task, problem: Perceptron, samples: Samples) -> Found:
    """Return the local entropy around the samples that are solutions."""
    overlaps = np.array(task.values["overlaps"])
    values, few = np.empty((0, len(overlaps))), samples[samples.solved]
    if len(few):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what did not converge is NaN
            values = local_entropy(problem, few, overlaps, method="amp", progress=False).values
    return {"solved": int(samples.solved.sum())}, {"overlaps": overlaps, "values": values}


def _barriers(task: Task, problem: Perceptron, samples: Samples) -> Found:
    """Return the largest number of unmet constraints between all pairs of the samples that are solutions."""
    few = samples[samples.solved]
    if len(few) < 2:
        return {"solved": len(few), "worst": None, "share": None, "overlap": None}, {}
    worst = barrier(problem, few, progress=False).worst[np.triu_indices(len(few), 1)]
    numbers = {
        "worst": float(worst.mean()),
        "share": float((worst == 0).mean()),
        "overlap": float(few.overlaps().mean()),
    }
    return {"solved": len(few), **numbers}, {"barriers": worst}


curves = Sampled(problem_of, DEPENDS, each(_curves))
barriers = Sampled(problem_of, DEPENDS, each(_barriers))


def sampled_tasks(
    kind: str,
    target: Target,
    loads: Sequence[float],
    sampler: Values,
    n: int,
    n_samples: int,
    instances: int,
    **more: object,
) -> list[Task]:
    """Return the tasks of one kind on random problems: the first instance of each load, then the second."""
    name, options = sampler["name"], {key: value for key, value in sampler.items() if key != "name"}
    points: list[Values] = [
        {"kind": kind, "n": n, "alpha": alpha, "patterns": "binary", "target": target.to_dict(), "sampler": name,
         "options": options, "n_samples": n_samples, "seed": 0, **more}
        for alpha in loads
    ]  # fmt: skip
    return list(instances_of(points, instances))
