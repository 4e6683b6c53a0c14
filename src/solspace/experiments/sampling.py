"""Tasks of samples: draw one random problem, sample it, keep the numbers and arrays that are needed.

Patterns depend on n, alpha, their ensemble, the spec's seed and the instance number only, so that samplers and targets are
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
from solspace.numerics.series import mean_pair_product
from solspace.problem import Perceptron
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.system.plain import Values, plain

KEEP = ("weights", "stabilities", "overlaps", "violations", "solved", "path")
"""Arrays that a spec can keep; `path` is what the sampler records of each step."""
DEPENDS = ("seed", "n", "alpha", "patterns", "instance")


@dataclass(frozen=True)
class Sampled:
    """A kind of task that samples a problem: a function of the task, of which `device` uses the parts.

    `problem` draws the problem of a task, which depends on the task's values in `depends`; `observe` returns what each of
    several tasks keeps, which may differ in their instances alone, from their problems and samples.
    """

    problem: Callable[[Task], Perceptron]
    depends: tuple[str, ...]
    observe: Callable[[Sequence[Task], Sequence[Perceptron], Sequence[Samples]], list[Found]]

    def __call__(self, task: Task) -> Found:
        problem = self.problem(task)
        return self.observe([task], [problem], [drawn(task, problem)])[0]


def problem_of(task: Task) -> Perceptron:
    values = task.values
    seed = task.seed_from(*DEPENDS)
    target = Target.from_dict(values["target"])
    return Perceptron.random(values["n"], values["alpha"], target, values["patterns"], rng=seed)


def drawn(task: Task, problem: Perceptron) -> Samples:
    """Return the samples of a task."""
    values, sampler = task.values, find(task.values["sampler"])
    threads = {"n_threads": 1} if issubclass(sampler.info, AnnealingInfo) else {}
    with warnings.catch_warnings():
        # A sweep crosses thresholds on purpose: what did not converge is in the numbers.
        warnings.simplefilter("ignore")
        return sampler.draw(problem, values["n_samples"], task.seed, progress=False, **threads, **values["options"])


def each(observe: Callable[[Task, Perceptron, Samples], Found]) -> Callable[..., list[Found]]:
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
