"""Sweeps on real images: data set, preprocessings, features, loads and samplers.

Tasks of kind "images" record whether an instance was solved, of kind "mixing" whether chains forget their start, of kind
"overlaps" how similar two samples are. Samplers and preprocessings are compared on the same images and features: these follow
from the data set, the number of features, the load, the seed and the instance number only.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from solspace import data
from solspace.data.catalogue import data_set
from solspace.data.instances import drawn
from solspace.diagnostics import diagnose
from solspace.experiments.tasks import Found, Sampled, Task, each, instances_of, summary
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.series import pair_products
from solspace.problem import Perceptron
from solspace.samples import Samples
from solspace.system.checks import sized
from solspace.system.plain import Values

METHODS = {  # sampler and target of each
    "tau": ("tau", Target(potential="log", temperature=0.5)),
    "asl": ("asl", Target(potential="log", temperature=0.5)),
    "errors": ("temperature", Target(potential="errors", temperature=1.0)),
    "hinge": ("temperature", Target(potential="hinge", temperature=1.0)),
}
THREE = ("tau", "errors", "hinge")  # the paper's: τ-annealing, and annealing of the temperature on Θ(-s) and on -sΘ(-s)
PAIRS = 20_000  # most overlaps that a task keeps
SEED = ("seed", "data", "features", "alpha", "instance")  # a task's values that its choice of images depends on
_ROWS = 1024  # images of a pool that are classified at a time


@dataclass(frozen=True)
class ImageSpec:
    """A grid of image problems and methods.

    >>> spec = ImageSpec("digits", alphas=(0.3, 0.5), n_sweeps=(20, "n"), methods=("tau",), instances=3)
    >>> len(spec), next(spec.points())["options"]
    (12, {'n_sweeps': 20})
    """

    data: str
    alphas: Sequence[float]
    n_sweeps: Sequence[int | str | None]
    features: Sequence[int | None] = (None,)
    preprocess: Sequence[str] = ("centred",)
    methods: Sequence[str] = THREE
    instances: int = 1
    seed: int = 0
    options: tuple[tuple[str, Any], ...] = ()
    n_samples: int = 1
    kind: str = "images"
    temperature: float = 0.5  # of the log potential
    margin: float = 0.0

    def points(self) -> Iterator[Values]:
        known = data_set(self.data)
        grid = itertools.product(self.preprocess, self.features, self.n_sweeps, self.alphas, self.methods)
        for preprocess, features, sweeps, alpha, method in grid:
            sampler, target = METHODS[method]
            heat = {"temperature": self.temperature} if target.potential.name == "log" else {}
            target = target.replace(**heat, margin=self.margin)
            n = known.pixels if features is None else features
            options = {**({} if sweeps is None else {"n_sweeps": sized(sweeps, n)}), **dict(self.options)}
            yield {
                "kind": self.kind, "data": known.name, "classes": list(known.classes), "preprocess": preprocess,
                "features": features, "n": n, "alpha": alpha, "method": method, "sampler": sampler, "options": options,
                "target": target.to_dict(), "n_samples": self.n_samples, "seed": self.seed,
            }  # fmt: skip

    def tasks(self) -> Iterator[Task]:
        """Yield all tasks in the order of `Spec.tasks`, once the images are on this machine."""
        if not data.find(self.data):
            data.fetch(self.data)
        yield from instances_of(self.points(), self.instances)

    def with_options(self, **options: object) -> ImageSpec:
        """Return the spec with options set for its samplers, except those that it sets itself."""
        return replace(self, options=tuple(sorted({**options, **dict(self.options)}.items())))

    def __len__(self) -> int:
        return sum(1 for _ in self.points()) * self.instances


def _solved(tasks: Sequence[Task], problems: Sequence[Perceptron], samples: Sequence[Samples]) -> list[Found]:
    """Return the summary of each instance, and the accuracy on the images of the pool that are not in it."""
    numbers = [summary(problem, own) for problem, own in zip(problems, samples)]
    if tasks[0].values["features"] is None:
        X, y = _pool(tasks[0].values)
        if problems[0].m < len(y):
            right = _sides(X, np.array([own.weights[0] for own in samples])) == y
            for task, problem, own, found in zip(tasks, problems, right, numbers):
                unseen = np.ones(len(y), bool)
                unseen[data.subset(y, problem.m, rng=task.seed_from(*SEED))] = False
                found["accuracy"] = float(np.mean(own[unseen]))
    return [(found, {}) for found in numbers]


def _sides(X: Array, weights: Array) -> Array:
    """Return the signs (k, images) of ⟨x, w⟩, in double precision: zero sums of pixels/255 are so in any order."""
    columns = weights.T.astype(np.float64)
    parts = (X[first : first + _ROWS].astype(np.float64) @ columns for first in range(0, len(X), _ROWS))
    return np.sign(np.concatenate(list(parts)).T)


def _mixed(task: Task, problem: Perceptron, samples: Samples) -> Found:
    """Return how the chains of one instance mixed: self and cross overlap with errors, R-hat, what was missed."""
    report = diagnose(samples)
    numbers = {**summary(problem, samples), "fair": report.fair, "within": report.within, "verdict": report.verdict}
    if (found := report.mixing) is not None:
        numbers |= {"lag": found.lag, "missed": found.missed, "rhat": max(found.rhat.values())}
        for name in ("self_overlap", "cross_overlap", "memory"):
            estimate = getattr(found, name)
            numbers |= {name: estimate.value, f"{name}_error": estimate.error}
    if samples.info.get("ladder") is not None:
        numbers |= {"rungs": len(samples.info["ladder"]), "round_trips": float(np.mean(samples.info["round_trips"]))}
    return numbers, {}


def _overlapping(task: Task, problem: Perceptron, samples: Samples) -> Found:
    """Return the overlaps of pairs of samples of one instance, of chains at their last draws, and their mean."""
    report = diagnose(samples)
    pairs = (pair_products(samples.by_chain()[:, -1]) / samples.n).astype(np.float32)
    numbers = summary(problem, samples)
    if report.overlap is not None:
        numbers |= {"overlap": report.overlap.value, "overlap_error": report.overlap.error}
    if report.mixing is not None:
        numbers |= {"self_overlap": report.mixing.self_overlap.value, "verdict": report.verdict}
    return numbers, {"overlaps": pairs[:: -(-len(pairs) // PAIRS)]}


def problem_of(task: Task) -> Perceptron:
    values = task.values
    X, y = _pool(values)
    patterns, labels = drawn(X, y, values["alpha"], features=values["features"], rng=task.seed_from(*SEED))
    return Perceptron(patterns, labels, target=Target.from_dict(values["target"]))


def _pool(values: Mapping[str, Any]) -> data.Images:
    with _loading:  # threads share the pool
        return _pools(values["data"], tuple(values["classes"]))[values["preprocess"]]


_loading = threading.Lock()


@lru_cache(maxsize=3)  # tasks on as many data sets come in any order where figures are computed together
def _pools(name: str, classes: tuple[int, int]) -> dict[str, data.Images]:
    """Return the pool under every preprocessing, between which the tasks of one figure alternate."""
    X, y = data.load(name, classes, "raw")
    return {name: data.Images(data.Preprocessing.learn(name, X)(X), y) for name in data.PREPROCESSING}


_DEPENDS = (*SEED, "classes", "preprocess")
solve = Sampled(problem_of, _DEPENDS, _solved)
mix = Sampled(problem_of, _DEPENDS, each(_mixed))
overlaps = Sampled(problem_of, _DEPENDS, each(_overlapping))
