"""The task behind every sweep: draw one random problem, sample it, keep what the figures need.

Patterns depend on n, alpha, their ensemble, the spec's seed and the instance number only: samplers and targets are
compared on the same problems. The sampler's own randomness depends on the whole task.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solspace.experiments.tasks import Found, Task
from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.pairs import mean_pair_product
from solspace.problem import Perceptron
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.system.plain import Values, plain

KEEP = ("weights", "stabilities", "overlaps", "violations", "solved", "path")
"""Arrays of a task's samples that a spec can ask to keep; `path` is what the sampler tells about its way there."""


DEPENDS = ("seed", "n", "alpha", "patterns", "instance")
"""A task's values from which its patterns are drawn."""


@dataclass(frozen=True)
class Sampled:
    """A kind of task that samples a problem: a function of the task, whose parts can be had one by one.

    Whoever samples many problems together (`device`) draws them ahead, those of the same patterns once, and looks at all
    of the samples when they are there.
    """

    problem: Callable[[Task], Perceptron]
    """Draws the problem of a task."""
    depends: tuple[str, ...]
    """The task's values that its patterns depend on."""
    observe: Callable[[Sequence[Task], Sequence[Perceptron], Sequence[Samples]], list[Found]]
    """(tasks, problems, samples) -> what each task keeps; the tasks may differ in their instances alone."""

    def __call__(self, task: Task) -> Found:
        """Return the numbers and the arrays of one instance's samples."""
        problem = self.problem(task)
        return self.observe([task], [problem], [drawn(task, problem)])[0]


def problem_of(task: Task) -> Perceptron:
    """Return the random problem of a task, the same wherever and whenever it is asked for."""
    values = task.values
    seed = task.seed_from(*DEPENDS)
    target = Target.from_dict(values["target"])
    return Perceptron.random(values["n"], values["alpha"], target, values["patterns"], rng=seed)


def drawn(task: Task, problem: Perceptron) -> Samples:
    """Return the samples that a task asks for."""
    values, sampler = task.values, find(task.values["sampler"])
    threads = {"n_threads": 1} if issubclass(sampler.info, AnnealingInfo) else {}
    with warnings.catch_warnings():
        # A sweep crosses thresholds on purpose: what did not converge is in the numbers.
        warnings.simplefilter("ignore")
        return sampler.draw(problem, values["n_samples"], task.seed, progress=False, **threads, **values["options"])


def each(observe: Callable[[Task, Perceptron, Samples], Found]) -> Callable[..., list[Found]]:
    """Return what looks at the samples of many tasks, one after another."""
    return lambda *many: [observe(*one) for one in zip(*many)]


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
        numbers["overlap"] = mean_pair_product(samples.weights) / samples.n
    return numbers


def _array(samples: Samples, name: str) -> Array:
    if name == "overlaps":
        return samples.overlaps()
    if name == "violations":
        return samples.target.violated(samples.stabilities).sum(axis=1)
    if name == "stabilities":
        return samples.stabilities.astype(np.float32)
    return getattr(samples, name)


sample = Sampled(problem_of, DEPENDS, each(observed))
"""The kind of task "sample"."""
