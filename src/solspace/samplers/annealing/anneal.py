"""Annealed Metropolis: single flips of ±1 weights while the potential, or the temperature, is lowered sweep by sweep.

A chain starts at random weights and follows a schedule of measures, one a sweep, ending in the one to be sampled
(`schedules`). A sweep proposes every flip once, in a random order that all chains of the call share; it is
accepted with probability min(1, exp(-ΔU/T)), in sweeps beyond the schedule 1/(1 + exp(ΔU/T)). Given the order, each
chain leaves each measure invariant, and chains are independent. (Orders with every site drawn anew solve fewer
instances: at N = 1001, alpha = 0.55, 100 sweeps 120 of 300 instead of 165.) Energies are integers
(`integer_levels`, `real_forms`), so that a chain depends on its seed alone: not on the number of cores,
of chains beside it, or on the width of the machine's vectors. Where chains do not mix in the further sweeps, replicas at
earlier stages of the schedule may help them (`exchange`).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any, overload

import numpy as np

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, seeds_for
from solspace.problem import Perceptron
from solspace.samplers.annealing import cpu, lots
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.course import Course
from solspace.samplers.annealing.run import Flips, carry
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.constraints import check_measure
from solspace.samplers.device import answering, resolve
from solspace.samplers.options import DEVICE, Option, checked, count, named, problems_in
from solspace.samples import Samples
from solspace.system import progress as bars
from solspace.system.checks import flag, optional, whole
from solspace.system.plain import Values

MODES = ("sample", "solve")
OPTIONS = {
    "n_sweeps": count(None, "sweeps of the schedule"),
    "mode": named("sample", MODES, "sample, or solve: stop at the first solution, which is then no sample"),
    "n_extra": count(0, "further sweeps at the last stage", least=0),
    "thin": count(10, "sweeps of these between two draws"),
    "exchange": Option(False, flag, "exchange replicas with earlier stages in the further sweeps"),
    "n_rungs": count(None, "stages among which replicas are exchanged", least=2),
    "device": DEVICE,
}
State = Callable[[], Mapping[str, Array]]
"""What makes the arrays from which a run can go on."""
_CALL = {"n_chains": count(16, "chains"), "n_threads": Option(None, optional(whole(1)), "threads"), **OPTIONS}


@overload
def anneal(
    problem: Perceptron, n_chains: int = 16, n_sweeps: int | None = None, schedule: object = "tau", rng: RNG = None,
    **options: Any,
) -> Samples: ...  # fmt: skip
@overload
def anneal(
    problem: Sequence[Perceptron], n_chains: int = 16, n_sweeps: int | None = None, schedule: object = "tau",
    rng: RNG | Sequence[RNG] = None, **options: Any,
) -> list[Samples]: ...  # fmt: skip
def anneal(  # type: ignore[misc]
    problem: Perceptron | Sequence[Perceptron],
    n_chains: int = 16,
    n_sweeps: int | None = None,
    schedule: object = "tau",
    rng: RNG | Sequence[RNG] = None,
    *,
    mode: str = "sample",
    n_extra: int = 0,
    thin: int = 10,
    exchange: bool = False,
    n_rungs: int | None = None,
    device: str = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
    callback: Callable[[Chains], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    keep_checkpoint: bool = False,
) -> Samples | list[Samples]:
    """Return samples (k, n) of ±1 weights by annealed Metropolis, or a list of such where `problem` is a list.

    Parameters
    ----------
    problem
        Any patterns; the prior must be binary. ±1 patterns take the integer kernel, others the fixed-point one. Of a list,
        those that share shape, kind of patterns and target run together on a device; the samples of each are those that
        its own seed gives anywhere.
    n_chains, n_sweeps
        Independent chains, and sweeps of the schedule (1001 unless given).
    schedule
        `"tau"`: τ from 1 to 0, ending in the log potential at the target's temperature. `"temperature"`: T from 1 to
        exactly 0 on hinge or errors (the target's potential if it is one of them, else hinge), ending among the
        solutions, all alike. Or a sequence of targets, one a sweep, or an object with `stages(target, n_sweeps)`.
    rng
        Seed of the whole call, or for a list of problems a list of seeds.
    mode
        `"sample"`: the whole schedule, then `n_extra` sweeps at its last stage with a draw after every `thin` of them
        (one draw at the end of the schedule if there are none). `"solve"`: stop each chain at its first solution,
        which is then no sample of the measure.
    n_extra, thin
        Further sweeps, by the heat bath. They make the chains an equilibrium sampler, and `ss.diagnose(samples)` tells
        from them whether they were enough.
    exchange, n_rungs
        Whether each chain becomes a ladder of replicas in the further sweeps, at stages of the schedule between which they
        exchange places: for loads at which plain chains stay where they are. It costs as many times more as there are rungs,
        whose number is chosen from how the energies of neighbouring stages overlap unless it is given.
    device
        `"cpu"`, `"gpu"` (one CUDA device, with CuPy), or `"auto"`: a device where there is one. The chains are the same
        on either; a device pays from some hundred chains on.
    n_threads
        Threads; all cores unless given. The result does not depend on it.
    progress
        True, False, or None: a bar with the time left where somebody looks.
    callback
        Called with the `Chains` about twice a second.
    checkpoint, resume, keep_checkpoint
        File to keep the state in, every few seconds and on Ctrl-C; go on from it. It is removed when the run is done,
        or left for whoever first writes the samples to the disk.

    Returns
    -------
    Samples
        Rows ordered by chain, then draw, with an `AnnealingInfo`.

    Examples
    --------
    >>> problem = Perceptron.random(n=101, alpha=0.3, rng=0)
    >>> anneal(problem, n_chains=4, n_sweeps=100, rng=1)
    Samples(k=4, n=101, m=30, solved 4/4, tau)
    """
    asked = checked(_CALL, locals()) | {"schedule": schedule}
    where = resolve(device)
    if isinstance(problem, Perceptron):
        if isinstance(rng, Sequence):
            raise ValueError("rng must be one seed for one problem; got a list.")
        key = lots.key_of(rng)
        name, plan = _plan(problem.target, asked)
        store = Checkpoint(checkpoint, _identity(problem, plan, key, asked) if checkpoint else {}, resume)
        with answering() if where == "gpu" else nullcontext():
            samples, state = _one(problem, name, plan, key, asked, where, store, progress, callback)
        store.finish(state, keep_checkpoint)
        return samples
    if checkpoint is not None or callback is not None:
        raise ValueError("checkpoint and callback go with one problem, not with a list of them.")
    problems = problems_in(problem)
    seeds = seeds_for(rng, len(problems))
    if where == "gpu" and not exchange:
        with answering():
            return _many(problems, seeds, asked, progress)
    results = []
    with bars.progress(len(problems), "annealing", progress) as bar:
        for own, seed in zip(problems, seeds):
            name, plan = _plan(own.target, asked)
            key = lots.key_of(seed)
            results.append(_one(own, name, plan, key, asked, where, Checkpoint(None, {}), False, None)[0])
            bar.advance(1)
    return results


def exchanged(
    problem: Perceptron, n_chains: int, schedule: str, rng: RNG, company: int, callback: Callable[[Chains], object],
    options: Mapping[str, Any],
) -> Samples:  # fmt: skip
    """Return the samples of ladders on a device that carries `company` chains in all, from options of `anneal`."""
    asked = checked(OPTIONS, options) | {"n_chains": n_chains, "schedule": schedule}
    name, plan = _plan(problem.target, asked)
    given = asked, "gpu", Checkpoint(None, {}), False, callback
    return _one(problem, name, plan, lots.key_of(rng), *given, company=company)[0]


def planner(**options: Any) -> Callable[[Perceptron], tuple[str, Plan]]:
    """Return the function that makes the schedule's name and the plan of a problem, from options of `anneal`.

    Plans of one target are the same object for whoever asks for the same; its stages are thousands of small ones.
    """
    return lambda problem: planned(problem.target, tuple(sorted(options.items())))


@lru_cache(maxsize=64)
def planned(target: Target, options: tuple[tuple[str, Any], ...]) -> tuple[str, Plan]:
    """Return the schedule's name and the plan for a target, from options of `anneal` in their order by name."""
    given = dict(options)
    return _plan(target, checked(OPTIONS, given) | {"schedule": given["schedule"]})


def _plan(target: Target, asked: Values) -> tuple[str, Plan]:
    """Return the schedule's name and the sweeps that a call asks for; raise a sentence for what cannot be."""
    mode, n_extra, thin = asked["mode"], asked["n_extra"], asked["thin"]
    if target.prior.name != "binary":
        raise ValueError(f"anneal flips ±1 weights, but the target's prior is {target.prior}; use localize for it.")
    if mode == "solve" and n_extra:
        raise ValueError("n_extra sweeps sample the last stage; mode 'solve' stops before it. Leave n_extra out.")
    if asked["exchange"] and not n_extra:
        raise ValueError("exchange=True exchanges replicas in the sweeps after the schedule: give n_extra of them.")
    if asked["n_rungs"] is not None and not asked["exchange"]:
        raise ValueError("n_rungs are those of replica exchange: give exchange=True with it.")
    if 0 < n_extra < thin:
        raise ValueError(f"n_extra = {n_extra} sweeps thinned by {thin} give no draw; lower thin.")
    name, stages = stages_of(asked["schedule"], target, asked["n_sweeps"])
    return name, Plan.of(stages, n_extra, thin, solve=mode == "solve")


def _one(
    problem: Perceptron, name: str, plan: Plan, key: int, asked: Values, where: str, store: Checkpoint,
    progress: bool | None, callback: Callable[[Chains], object] | None, company: int = 0,
) -> tuple[Samples, State]:  # fmt: skip
    """Return the samples of one problem, and what makes the state that could be stored."""
    if plan.stages[-1].potential.hard and not plan.solve:
        check_measure(problem.with_target(plan.target))

    def make(own: Plan, n_chains: int) -> Flips:
        if where == "gpu":
            return lots.gpu_flips([problem], own, [key], n_chains, company)
        return cpu.flips_for(problem)(problem, own, key, n_chains, asked["n_threads"])

    begun = time.perf_counter()
    with bars.progress(len(plan), f"annealing ({name})", progress) as bar:

        def report(chains: Chains, sweeps: int) -> None:
            bar.advance(sweeps)
            if callback is not None:
                callback(chains)

        told: Values = {"sampler": name, "device": where, "key": key}
        if asked["exchange"]:
            course = Course(make, plan, key, asked["n_chains"], asked["n_rungs"], problem.n)
            course.restore(store.load(course.entries, course.sound))
            bar.advance(course.sweep)
            course.run(store, report)
            told["wall_time"] = time.perf_counter() - begun
            return course.samples(problem, **told), course.state
        flips = make(plan, asked["n_chains"])
        chains = Chains.start(flips.first_weights(), plan)
        stored = store.load(lambda: chains.entries(plan), lambda state: chains.sound(state, plan))
        if stored is not None:
            chains.restore(stored)
        bar.advance(chains.sweep)
        carry(flips, chains, plan, store, lambda sweeps: report(chains, sweeps))
    told |= {"kernel": flips.kernel, "wall_time": time.perf_counter() - begun}
    samples = chains.samples(problem, plan, flips.stabilities(chains.drawn(plan)), **told)
    return samples, lambda: {**chains.records(), **chains.snapshot()}


def _many(
    problems: Sequence[Perceptron],
    seeds: Sequence[np.random.SeedSequence],
    asked: Values,
    progress: bool | None,
) -> list[Samples]:
    """Return the samples of each problem, all at once on a device."""
    groups: dict[Hashable, list[int]] = {}
    for number, problem in enumerate(problems):
        groups.setdefault((problem.n, problem.m, problem.has_binary_patterns, problem.target), []).append(number)
    n_chains = asked["n_chains"]

    def plan(problem: Perceptron) -> tuple[str, Plan]:
        return _plan(problem.target, asked)

    parcels = [
        lots.Lot(partial(list, [problems[i] for i in own]), [seeds[i] for i in own], n_chains, plan, tag=own)
        for own in groups.values()
    ]
    results: dict[int, Samples] = {}
    with bars.progress(len(parcels), "annealing", progress) as bar:
        for lot, made in lots.flow(parcels, n_chains * len(problems)):
            if isinstance(made, Exception):
                raise made
            bar.advance(1)
            results |= zip(lot.tag, made)
    return [results[i] for i in range(len(problems))]


def _identity(problem: Perceptron, plan: Plan, key: int, asked: Values) -> Values:
    """Return what a checkpoint must agree in: the potentials by their values, as a user's own has no other name."""
    probe = np.linspace(-4, 4, 33)
    values = np.array([np.append(stage.energies(probe), stage.temperature) for stage in plan.stages])
    digest = hashlib.sha256(values.tobytes() + plan.draw_at.tobytes()).hexdigest()
    ladder = {"n_rungs": asked["n_rungs"]} if asked["exchange"] else {}
    return {
        "sampler": "anneal", "problem": fingerprint(problem), "plan": digest, "solve": plan.solve,
        "n_anneal": plan.n_anneal, "n_chains": asked["n_chains"], "key": key, **ladder,
    }  # fmt: skip
