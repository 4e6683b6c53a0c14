"""Chains that start where others ended: at weights of the user's, or for more draws of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.info import AnnealingInfo
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan, Run, run_to_end
from solspace.samplers.annealing.cpu import cpu_flips
from solspace.samplers.annealing.schedules import Stage
from solspace.samples import Samples
from solspace.system import progress as bars
from solspace.system.checks import reals
from solspace.system.plain import Values

THIN = 10  # sweeps between two draws of runs that had only one


@dataclass(frozen=True)
class Start:
    """Where chains start: weights (k, n) and intercepts (k, 1), or (k, 0) without one."""

    weights: Array
    intercepts: Array


def start_of(problem: object, initial: Samples | ArrayLike) -> Start:
    """Return the checked weights of `initial`."""
    if not isinstance(problem, Perceptron):
        raise ValueError("initial goes with one problem, not with a list of them.")
    found: Any = initial.weights if isinstance(initial, Samples) else reals("initial", initial)
    if found.ndim != 2 or found.shape[1] != problem.n or not len(found):
        raise ValueError(f"initial must be Samples, or weights of shape (k, {problem.n}); got shape {found.shape}.")
    if not (inside := np.atleast_1d(problem.supports(found))).all():
        raise ValueError(
            f"initial must be weights of the prior ({problem.target.prior}), clamped ones at their values; row "
            f"{int(np.argmin(inside))} is not."
        )
    shifts = np.zeros((len(found), 0 if problem.intercept is None else 1))
    if isinstance(initial, Samples) and initial.intercepts is not None and shifts.size:
        shifts[:, 0] = initial.intercepts
    return Start(found.astype(problem.target.prior.draw(1, 0).dtype), shifts)


def extend(
    samples: Samples,
    problem: Perceptron | None,
    n_draws: int,
    thin: int | None,
    n_threads: int | None,
    progress: bool | None,
) -> Samples:
    """Return the samples of chains with `n_draws` more draws of each; see `Samples.extend`."""
    if why := _ended(samples):
        raise ValueError(f"{why}.")
    if problem is None:
        raise ValueError(
            "the problem of these samples is not known: give it, as in samples.extend(100, problem=problem)."
        )
    if (problem.n, problem.m) != (samples.n, samples.m) or samples.digest not in (None, problem.digest):
        raise ValueError(f"problem must be the one that was sampled; got another one, {problem}.")
    info: Any = samples.info
    begun, problem, stage = time.perf_counter(), problem.with_target(samples.target), Stage.of(samples.target)
    drawn_at, (k, old) = np.asarray(info.draw_sweep), (info.n_chains, info.n_draws)
    every = thin or (int(np.diff(drawn_at)[-1]) if old > 1 else THIN)
    done = int(drawn_at[-1]) + 1
    draw_at = np.full(done + every * n_draws, -1)
    draw_at[np.append(drawn_at, np.arange(done - 1 + every, len(draw_at), every))] = np.arange(old + n_draws)
    plan = Plan([stage] * len(draw_at), info.n_anneal, draw_at, False, samples.target, schedule=info.sampler)
    flips = cpu_flips(problem, plan, info.key, k, n_threads)
    weights, shifts = samples.by_chain(), np.empty((k, old, 0))
    if samples.intercepts is not None:
        shifts = samples.intercepts.reshape(k, old, 1)
    chains = Chains.start(weights[:, -1].copy(), plan, intercepts=shifts[:, -1].copy())
    chains.draws[:, :old], chains.shifts[:, :old] = weights, shifts
    chains.sweep, chains.solved_at[...] = done, info.solved_at
    with bars.progress(len(plan) - done, "more sweeps", progress) as bar:
        run_to_end(Run(flips, chains, plan), lambda now: bar.advance(now.sweep - done - bar.done))
    found = chains.samples(problem, plan, kernel=info.kernel, device="cpu", key=info.key)
    records: Values = {}
    for name in ("acceptance", "energy", "temperature", "tau"):
        if (path := getattr(info, name)) is not None:
            later = np.full(len(plan), path[-1]) if path.ndim == 1 else found.info[name]
            records[name] = np.concatenate([path[..., :done], later[..., done:]], axis=-1)
    wall = None if info.wall_time is None else info.wall_time + time.perf_counter() - begun
    found.info = replace(found.info, **records, wall_time=wall)
    return found


def _ended(samples: Samples) -> str:
    """Return in a sentence why a run cannot go on, and what to do instead; empty if it can."""
    info, anew = samples.info, "start chains from them, with ss.anneal(problem, initial=samples, n_extra=...)"
    if not isinstance(info, AnnealingInfo):
        more = "draw more with another seed, and add them: samples + ss.localize(problem, ..., rng=...)"
        return f"only annealed chains can be extended, and these samples are independent or from several runs: {more}"
    if info.mode == "solve":
        return "these chains stopped at their first solution, and follow no law: draw samples with ss.anneal"
    if info.ladder is not None:
        return f"of exchanged replicas only those at the last stage were kept: {anew}"
    if info.temperature[-1] == 0:
        return f"these chains ended at temperature 0: {anew}"
    if info.key is None:
        return f"these chains were picked or joined from runs: {anew}"
    return ""
