"""Annealed Metropolis: moves of single weights while the potential, or the temperature, is lowered sweep by sweep.

A chain starts at random weights and follows a schedule of measures, one a sweep (`schedules`). A sweep proposes to move every
weight once, in a random order that all chains of the call share; ±1 weights flip, others go to another level. It is accepted with
probability min(1, exp(-ΔU/T)), in sweeps beyond the schedule 1/(1 + exp(ΔU/T)), U with -T log P(w). Given the order, each chain
leaves each measure invariant, and chains are independent. Real weights are drawn by slice sampling (`rotations`). Of others
energies are integers (`cpu`, `real_forms`), so that a chain depends on its seed alone: not on cores, chains beside it, or the
width of vectors. Where chains do not mix in further sweeps, replicas at earlier stages may help them (`exchange`).
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.numerics.streams import RNG, seeds_for
from solspace.problem import Perceptron, problem_list
from solspace.samplers.annealing.batches import Batch, ChainJob, Shape, check_movable, gpu_flips, movable, run_batches
from solspace.samplers.annealing.chains import Chains, Flips, Plan, Run, key_of, run_to_end
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.exchange import run_exchange
from solspace.samplers.annealing.restart import Start, start_of
from solspace.samplers.annealing.rotations import is_real
from solspace.samplers.annealing.schedules import stages_of
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.constraints import check_measure
from solspace.samplers.device import device_errors, device_option, resolve
from solspace.samples import Samples
from solspace.system import progress as bars
from solspace.system.checks import Config, check_call, count, flag, option, optional, whole
from solspace.system.plain import Values

Callback = Callable[[Chains], object]
PRIORS = ("binary", "levels", "spherical", "gaussian")


@dataclass(frozen=True, kw_only=True)
class AnnealConfig(Config):
    """Options of `anneal`, where they are documented."""

    n_sweeps: int | None = count(None, "sweeps of the schedule, 1001 by default")
    n_extra: int = count(0, "further sweeps at the last stage", least=0)
    thin: int = count(10, "sweeps of these between two draws")
    exchange: bool = option(False, flag, "exchange replicas with earlier stages in the further sweeps")
    n_rungs: int | None = count(None, "stages among which replicas are exchanged", least=2)
    device: str = device_option()


@overload
def anneal(
    problem: Perceptron, n_chains: int | None = None, n_sweeps: int | None = None, schedule: object = "auto",
    rng: RNG = None, **options: Any,
) -> Samples: ...  # fmt: skip
@overload
def anneal(
    problem: Sequence[Perceptron], n_chains: int | None = None, n_sweeps: int | None = None, schedule: object = "auto",
    rng: RNG | Sequence[RNG] = None, **options: Any,
) -> list[Samples]: ...  # fmt: skip
def anneal(  # type: ignore[misc]
    problem: Perceptron | Sequence[Perceptron],
    n_chains: int | None = None,
    n_sweeps: int | None = None,
    schedule: object = "auto",
    rng: RNG | Sequence[RNG] = None,
    *,
    initial: Samples | ArrayLike | None = None,
    n_extra: int = 0,
    thin: int = 10,
    exchange: bool = False,
    n_rungs: int | None = None,
    device: str = "cpu",
    n_threads: int | None = None,
    progress: bool | None = None,
    callback: Callable[[Chains], object] | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Samples | list[Samples]:
    """Draw samples by annealed chains, for any weights and patterns.

    Weights on levels, ±1 among them, move one by one by Metropolis' rule; spherical and Gaussian ones by slice-sampled
    rotations, which need no step size. An intercept, clamped weights and sample weights of the problem are taken into account.

    Parameters
    ----------
    problem : Perceptron or sequence of Perceptron
        What to sample. Problems of one shape, kind of patterns and target run together on a device.
    n_chains : int, optional
        Independent chains; by default 16, or one for each of `initial`.
    n_sweeps : int, optional
        Sweeps of the schedule; 1001 by default, with `initial` 0.
    schedule : str, sequence of Target, or object, default "auto"
        "tau": τ from 1 to 0, ending in the log potential, a wall or log_band at the target's temperature. "tempering": 1/T from
        0 to the target's on soft potentials, likelihoods among them; for uniform and band τ-annealing first. "auto": the one of
        these that ends in the target. "temperature": T from 1 to 0 on hinge or errors (the target's potential if it is one of
        them, else hinge). Or one target a sweep, of which potential, temperature and margin count, or an object with a method
        `stages(target, n_sweeps)`.
    rng : int, Generator, SeedSequence, sequence of these, or None
        Seed; for a list of problems optionally one seed each.
    initial : Samples or array_like, optional
        Weights (k, n) at which the chains start. They start at the last stage of the schedule, and `n_sweeps` are sweeps at that
        stage; give `n_extra`, or `n_sweeps`. An intercept starts at that of the samples, at 0 for an array.
    n_extra : int, default 0
        Further heat-bath sweeps at the last stage, with a draw after every `thin` of them; without them the only draw is at
        the end of the schedule. `ss.diagnose` judges from them whether chains have mixed.
    thin : int, default 10
        Sweeps between two draws.
    exchange : bool, default False
        Whether each chain becomes a ladder of replicas at earlier stages in the further sweeps, which exchange places: for
        loads at which plain chains do not mix. The cost is multiplied by the number of rungs.
    n_rungs : int, optional
        Stages of a ladder; by default chosen from the overlap of the energies of neighbouring stages.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to compute; the chains are the same on either. A GPU pays from some hundred chains on, and takes ±1 weights without
        intercept, clamped weights and sample weights.
    n_threads : int, optional
        Threads; all cores by default. The result does not depend on it.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.
    callback : callable, optional
        Called with the `Chains` about twice a second.
    checkpoint : str or path-like, optional
        File for the state of the run, written every few seconds and on Ctrl-C. If it exists, the run continues from it, with
        the same result as without the stop.

    Returns
    -------
    Samples or list of Samples
        Rows ordered by chain, then draw, with an `AnnealingInfo`; a list for a list of problems.

    Raises
    ------
    ValueError
        If the weights are real, options exclude each other, `initial` are no weights of the problem, or the checkpoint belongs to
        another run.

    See Also
    --------
    localize : Stochastic localization.
    Samples.extend : More draws of chains that have run.
    solve : Any solution, beyond the loads that can be sampled.

    Examples
    --------
    >>> problem = Perceptron.random(n=101, alpha=0.3, rng=0)
    >>> anneal(problem, n_chains=4, n_sweeps=100, rng=1)
    Samples(k=4, n=101, m=30, solved 4/4, tau)
    >>> target = Target("ternary", "logistic(2)")
    >>> posterior = Perceptron.planted(n=51, alpha=2, target=target, intercept=1.0, rng=0)
    >>> samples = anneal(posterior, n_chains=4, n_sweeps=100, n_extra=100, rng=1)
    >>> samples, samples.intercepts.shape
    (Samples(k=40, n=51, m=102, solved 0/40, tempering), (40,))
    """
    config = AnnealConfig(
        n_sweeps=n_sweeps, n_extra=n_extra, thin=thin, exchange=exchange, n_rungs=n_rungs, device=device
    )
    optional(whole(1))("n_chains", n_chains)
    optional(whole(1))("n_threads", n_threads)

    check_call(isinstance(problem, Perceptron), rng, checkpoint, callback)
    start = None
    if initial is not None:
        start = start_of(problem, initial)
        if n_chains not in (None, len(start.weights)):
            raise ValueError(
                f"initial holds {len(start.weights)} weights, one for each chain; got n_chains={n_chains}."
            )
        n_chains = len(start.weights)
    n_chains = 16 if n_chains is None else n_chains
    run = partial(run_chains, n_chains=n_chains, schedule=schedule, config=config, n_threads=n_threads)
    if isinstance(problem, Perceptron):
        return run(problem, rng=rng, start=start, progress=progress, callback=callback, checkpoint=checkpoint)  # type: ignore[arg-type]
    problems = problem_list(problem)
    seeds = seeds_for(rng, len(problems))
    if device == "gpu":
        check_movable(problems)
    if not exchange and all(map(movable, problems)) and resolve(device) == "gpu":
        with device_errors():
            return _in_batches(problems, seeds, n_chains, schedule, config, progress)
    results = []
    with bars.progress(len(problems), "annealing", progress) as bar:
        for one, seed in zip(problems, seeds):
            results.append(run(one, rng=seed))
            bar.advance(1)
    return results


def first_solutions(
    problem: Perceptron, n_chains: int = 16, n_sweeps: int | None = None, schedule: object = "tau", rng: RNG = None,
    *, device: str = "cpu", **where: Any,
) -> Samples:  # fmt: skip
    """Return the weights at which chains first solve `problem`, or end; they are no samples of a measure."""
    config = AnnealConfig(n_sweeps=n_sweeps, device=device)
    return run_chains(problem, n_chains, schedule, rng, config, solve=True, **where)


def make_plan(
    target: Target, schedule: object, config: AnnealConfig, solve: bool = False, started: bool = False
) -> Plan:
    """Return the sweeps of a run; with `solve` chains end at their first solution, `started` ones stay at the last stage."""
    n_extra, thin = config.n_extra, config.thin
    if target.prior.name not in PRIORS:
        raise ValueError(
            f"anneal takes the priors {', '.join(PRIORS)}, but the target's is {target.prior}; use localize for it."
        )
    if config.exchange and not n_extra:
        raise ValueError("exchange=True exchanges replicas in the sweeps after the schedule: give n_extra of them.")
    if config.n_rungs is not None and not config.exchange:
        raise ValueError("n_rungs are those of replica exchange: give exchange=True with it.")
    if 0 < n_extra < thin:
        raise ValueError(f"n_extra = {n_extra} sweeps thinned by {thin} give no draw; lower thin.")
    if not started:
        name, stages = stages_of(schedule, target, config.n_sweeps)
        return Plan.of(stages, n_extra, thin, solve, target, name)
    if config.exchange:
        raise ValueError(
            "exchange=True needs a schedule, whose stages replicas are at; it cannot stand beside initial."
        )
    if not (config.n_sweeps or n_extra):
        raise ValueError("chains that start from initial need sweeps: give n_extra, or n_sweeps before the only draw.")
    name, stages = stages_of(schedule, target, 1 if hasattr(schedule, "stages") or isinstance(schedule, str) else None)
    return Plan.of(stages[-1:] * (config.n_sweeps or 0), n_extra, thin, solve, target, name, stages[-1])


def run_chains(
    problem: Perceptron, n_chains: int, schedule: object, rng: RNG, config: AnnealConfig, *, solve: bool = False,
    start: Start | None = None, n_threads: int | None = None, total: int = 0, progress: bool | None = False,
    callback: Callback | None = None, checkpoint: str | os.PathLike[str] | None = None,
) -> Samples:  # fmt: skip
    """Return the samples of one problem; `total` is the number of chains that a device carries in all."""
    plan, key = make_plan(problem.target, schedule, config, solve, start is not None), key_of(rng)
    on_gpu = on_device(problem, config.device)
    if plan.stages[-1].potential.hard and not plan.solve and (is_real(plan.target) or not problem.has_binary_patterns):
        check_measure(plan.problem(problem))

    def make(plan: Plan, n_chains: int) -> Flips:
        if on_gpu:
            return gpu_flips([problem], plan, [key], n_chains, total)
        return cpu_flips(problem, plan, key, n_chains, n_threads)

    store = (
        Checkpoint(checkpoint, _identity(problem, plan, n_chains, key, config, start))
        if checkpoint is not None
        else None
    )
    begun, stabilities = time.perf_counter(), None
    errors = device_errors() if on_gpu else nullcontext()
    with errors, bars.progress(len(plan), f"annealing ({plan.schedule})", progress) as bar:

        def report(chains: Chains) -> None:
            bar.advance(chains.sweep - bar.done)
            if callback is not None:
                callback(chains)

        if config.exchange:
            chains, record = run_exchange(make, plan, key, n_chains, config.n_rungs, store, report)
        else:
            flips = make(plan, n_chains)
            first = Start(flips.first_weights(), flips.first_intercepts()) if start is None else start
            chains, record = (
                Chains.start(first.weights.copy(), plan, intercepts=first.intercepts.copy()),
                {"kernel": flips.kernel},
            )
            if store and (stored := store.load()) is not None:
                chains.restore(stored)
            run_to_end(Run(flips, chains, plan), report, store)
            stabilities = flips.stabilities(chains.drawn(plan))
    record |= {"device": "gpu" if on_gpu else "cpu", "key": key, "wall_time": time.perf_counter() - begun}
    return chains.samples(problem, plan, stabilities, **record)


def on_device(problem: Perceptron, device: str) -> bool:
    """Return whether chains run on a GPU; "auto" takes it only where it can move the weights."""
    if device == "gpu":
        check_movable([problem])
    return device != "cpu" and movable(problem) and resolve(device) == "gpu"


def _identity(
    problem: Perceptron, plan: Plan, n_chains: int, key: int, config: AnnealConfig, start: Start | None
) -> Values:
    """Return what a checkpoint must agree in: the potentials by their values, as a user's own has no other name."""
    probe = np.linspace(-4, 4, 33)
    values = np.array([np.append(stage.energies(probe), stage.temperature) for stage in plan.stages])
    return {
        "sampler": "anneal",
        "problem": fingerprint(problem),
        "plan": hashlib.sha256(values.tobytes() + plan.draw_at.tobytes()).hexdigest(),
        "solve": plan.solve,
        "n_anneal": plan.n_anneal,
        "n_chains": n_chains,
        "key": key,
        **({"n_rungs": config.n_rungs} if config.exchange else {}),
        **(
            {}
            if start is None
            else {"start": hashlib.sha256(start.weights.tobytes() + start.intercepts.tobytes()).hexdigest()}
        ),
    }


def _in_batches(
    problems: Sequence[Perceptron],
    seeds: Sequence[np.random.SeedSequence],
    n_chains: int,
    schedule: object,
    config: AnnealConfig,
    progress: bool | None,
) -> list[Samples]:
    groups: dict[Shape, list[int]] = {}
    for i, p in enumerate(problems):
        groups.setdefault(Shape(p.n, p.m, p.has_binary_patterns, p.target), []).append(i)
    batches = []
    for shape, rows in groups.items():
        drawn = [(problems[i], None) for i in rows]
        batches.append(Batch("", shape, n_chains, config, [seeds[i] for i in rows], partial(list, drawn), tag=rows))

    def start(batch: Batch, own: list[Perceptron], total: int) -> ChainJob:
        return ChainJob(batch, own, make_plan(batch.shape.target, schedule, batch.config), total)

    results: dict[int, Samples] = {}
    with bars.progress(len(batches), "annealing", progress) as bar:
        for batch, samples in run_batches(batches, start, n_chains * len(problems)):
            if isinstance(samples, Exception):
                raise samples
            bar.advance(1)
            results |= zip(batch.tag, samples)
    return [results[i] for i in range(len(problems))]
