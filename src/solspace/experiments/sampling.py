"""The task behind every sweep: draw one random problem, sample it, keep what the figures need.

Patterns depend on n, alpha, their ensemble, the spec's seed and the instance number only: samplers and targets are
compared on the same problems. The sampler's own randomness depends on the whole task.
"""

from __future__ import annotations

import warnings

import numpy as np

from solspace.experiments.tasks import Found, Task
from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.system.plain import Values, plain

KEEP = ("weights", "stabilities", "overlaps", "violations", "solved", "path")
"""Arrays of a task's samples that a spec can ask to keep; `path` is what the sampler tells about its way there."""


def problem_of(task: Task) -> Perceptron:
    """Return the random problem of a task, the same wherever and whenever it is asked for."""
    values = task.values
    seed = task.seed_from("seed", "n", "alpha", "patterns", "instance")
    target = Target.from_dict(values["target"])
    return Perceptron.random(values["n"], values["alpha"], target, values["patterns"], rng=seed)


def sample(task: Task) -> Found:
    """Return the numbers and the arrays of one instance's samples."""
    problem = problem_of(task)
    return observed(task, problem, drawn(task, problem))


def drawn(task: Task, problem: Perceptron) -> Samples:
    """Return the samples that a task asks for."""
    values, sampler = task.values, find(task.values["sampler"])
    threads = {"n_threads": 1} if issubclass(sampler.info, AnnealingInfo) else {}
    with warnings.catch_warnings():
        # A sweep crosses thresholds on purpose: what did not converge is in the numbers.
        warnings.simplefilter("ignore")
        return sampler.draw(problem, values["n_samples"], task.seed, progress=False, **threads, **values["options"])


def observed(task: Task, problem: Perceptron, samples: Samples) -> Found:
    """Return the numbers of `samples` and the arrays that the task keeps."""
    keep = task.values["keep"]
    arrays = {name: _array(samples, name) for name in keep if name != "path"}
    if "path" in keep:
        arrays |= {f"path_{name}": np.asarray(samples.info[name]) for name in samples.info.PATH}
    numbers = {**summary(problem, samples), **samples.info.numbers()}
    return {name: plain(value) for name, value in numbers.items()}, arrays


def summary(problem: Perceptron, samples: Samples) -> Values:
    """Return the numbers kept for every task."""
    violated = problem.target.violated(samples.stabilities).sum(axis=1)
    numbers: Values = {
        "m": problem.m,
        "solved": int(samples.solved.sum()),
        "solved_fraction": float(samples.solved.mean()),
        "violations": float(violated.mean()),
        "mean_stability": float(samples.stabilities.mean()),
    }
    if len(samples) > 1:
        numbers["overlap"] = float(samples.overlaps().mean())
    return numbers


def _array(samples: Samples, name: str) -> Array:
    if name == "overlaps":
        return samples.overlaps()
    if name == "violations":
        return samples.target.violated(samples.stabilities).sum(axis=1)
    if name == "stabilities":
        return samples.stabilities.astype(np.float32)
    return getattr(samples, name)
