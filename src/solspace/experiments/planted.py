"""Tasks of planted problems: theory along the loads, message passing and localization on an instance, calibration of samplers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from solspace.experiments.tasks import Found, Task, theory_task
from solspace.measure import Target
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samples import Samples

OVERLAPS = ("overlap", "message_passing_overlap", "gibbs_error", "posterior_mean_error")
SEED = ("seed", "n", "alpha", "target", "instance")


def theory_at(target: Target, alphas: Iterable[float]) -> list[Task]:
    """Return the task of theory's overlaps with the teacher and errors at these loads."""
    return [theory_task("teacher-theory", target, alphas=[round(float(alpha), 12) for alpha in alphas])]


def instances_at(target: Target, n: int, alphas: Iterable[float], instances: int, n_samples: int) -> list[Task]:
    """Return the tasks of instances with a teacher: means of AMP, and `n_samples` of localization on each."""
    common: dict[str, Any] = {"n": n, "n_samples": n_samples, "seed": 0}
    return [
        theory_task("teacher", target, **common, alpha=round(float(alpha), 12), instance=instance)
        for instance in range(instances)
        for alpha in alphas
    ]


def theory(task: Task) -> Found:
    """Return `OVERLAPS` at each of the task's loads, arrays."""
    from solspace.theory.prediction import predict

    target = Target.from_dict(task.values["target"])
    rows = [predict(target, alpha, ensemble="planted") for alpha in task.values["alphas"]]
    arrays = {name: np.array([getattr(row, name) for row in rows]) for name in OVERLAPS}
    return {}, {"alpha": np.array(task.values["alphas"]), **arrays}


def instance(task: Task) -> Found:
    """Return the overlap with the teacher of AMP's mean and of samples, with the errors they have on new patterns."""
    from solspace.samplers.localization.localize import localize
    from solspace.samplers.marginals.amp import amp

    values, target = task.values, Target.from_dict(task.values["target"])
    problem = Perceptron.planted(values["n"], values["alpha"], target, rng=task.seed_from(*SEED))
    assert problem.teacher is not None
    teacher = problem.teacher.astype(float)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # not to converge is a result here
        found = amp(problem)
        mean = np.asarray(found.mean, dtype=float)
        numbers = {
            "amp_overlap": float(mean @ teacher) / problem.n,
            "amp_error": _angle(mean, teacher),
            "converged": bool(np.all(found.converged)),
        }
        if values["n_samples"]:
            samples = localize(problem, values["n_samples"], rng=task.seed, progress=False)
            drawn = samples.weights.astype(float)
            numbers |= {
                "sample_overlap": float((drawn @ teacher).mean()) / problem.n,
                "sample_error": float(np.mean([_angle(weights, teacher) for weights in drawn])),
            }
    return numbers, {}


def calibration(task: Task) -> Found:
    """Return the teachers' ranks, in [0, 1], among samples on patterns with a few strong common directions.

    They are sampled `by` localization with a denoiser, or by "chains" at a temperature of their own.
    """
    from solspace.diagnostics.calibrate import bins_of, calibrate
    from solspace.samplers.annealing.anneal import anneal

    values, target = task.values, Target.from_dict(task.values["target"])
    n, m, common = values["n"], round(values["alpha"] * values["n"]), values["common"]
    seed = task.seed_from("seed", "n", "alpha", "common")  # the same patterns and teachers for all samplers
    random = generator(seed)
    X = random.standard_normal((m, n)) + 2 * random.standard_normal((m, common)) @ random.standard_normal((common, n))

    def chains(problem: Perceptron, n_samples: int, own: np.random.SeedSequence) -> Samples:
        heated = problem.with_target(target.replace(temperature=values["temperature"]))
        return anneal(heated, n_samples, rng=own, progress=False, n_sweeps=values["n_sweeps"], n_threads=1)

    sampler = chains if values["by"] == "chains" else values["by"]
    counts = values["n_problems"], values["n_samples"]
    found = calibrate(X, target, sampler, *counts, rng=seed, progress=False)
    numbers = {"fair": found.fair, "within": found.within, "verdict": found.verdict, "bins": bins_of(*counts)}
    numbers |= {"overlap_difference": found.overlap.value, "overlap_error": found.overlap.error}
    if found.energy is not None:
        numbers |= {"energy_difference": found.energy.value, "energy_error": found.energy.error}
    return {**numbers, "p_values": found.p_values}, found.positions()


def _angle(one: np.ndarray, other: np.ndarray) -> float:
    # in units of π: the probability that the signs of stabilities on a new Gaussian pattern differ
    scale = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(np.arccos(np.clip(one @ other / scale, -1.0, 1.0)) / np.pi) if scale else 0.5
