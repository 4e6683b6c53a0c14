"""Fair samples by stochastic localization (ASL): an SDE for a field h, with message passing as its drift.

    dh = m_t(h) dt + db,   m_t(h) = mean of the target tilted by exp(⟨h, w⟩ - t |w|²/2)

At every time h is distributed as t w* + √t z with w* a sample of the target: the tilted measure is the posterior of w* given
a noisy look at it, and as t grows it closes in on w*. With the exact mean this is exact sampling; AMP gives the mean for large
random problems, as long as the free entropy φ_t(q) has a single maximum on the way. All samples of a call run side by side on
one instance, each with its own random stream, its own times and its own damping.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.streams import RNG, seed_sequence, seeds_for
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.localization.denoisers import DenoiserFunction
from solspace.samplers.localization.loop import Loop, Record, unstable
from solspace.samplers.localization.plan import LocalizeConfig, choose_denoiser, place, plan_run
from solspace.samplers.marginals.amp import cures
from solspace.samplers.options import problem_list
from solspace.samples import Samples
from solspace.system.checks import whole


@overload
def localize(problem: Perceptron, n_samples: int = 16, rng: RNG = None, **options: Any) -> Samples: ...
@overload
def localize(
    problem: Sequence[Perceptron], n_samples: int = 16, rng: RNG | Sequence[RNG] = None, **options: Any
) -> list[Samples]: ...
def localize(  # type: ignore[misc]
    problem: Perceptron | Sequence[Perceptron],
    n_samples: int = 16,
    rng: RNG | Sequence[RNG] = None,
    *,
    accuracy: str = "auto",
    integrator: str = "auto",
    step: ArrayLike | None = None,
    longest_step: float | None = None,
    final_time: float | None = None,
    tolerance: float | None = None,
    max_iterations: int | None = None,
    damping: float | str = "auto",
    variances: str = "auto",
    precision: str = "float32",
    device: str = "cpu",
    denoiser: str | DenoiserFunction = "auto",
    finish: int | str = "auto",
    callback: Callable[[Record], object] | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
) -> Samples | list[Samples]:
    """Draw samples of a problem's target by stochastic localization (ASL).

    Parameters
    ----------
    problem : Perceptron or sequence of Perceptron
        What to sample. Problems of one shape and target run together on a device.
    n_samples : int, default 16
        Samples of each problem.
    rng : int, Generator, SeedSequence, sequence of these, or None
        Seed; for a list of problems optionally one seed each. The noise of sample j does not depend on `n_samples`; its
        weights agree up to rounding.
    accuracy : {"auto", "fast", "careful"}, default "auto"
        "fast": short steps (0.2 (1 + t)). "careful": steps of 0.04 (1 + t) with damping, three to four times the cost, for
        loads near the threshold. "auto": fast, and careful once the instability of a sample approaches 1.
    integrator : {"auto", "matched", "heun", "posterior", "mixed", "euler"}, default "auto"
        How the field is advanced; by default matched for ±1 weights, mixed on the sphere.
    step : float or array_like, optional
        Relative length of the steps, dt = min(step (1 + t), longest_step), or an increasing grid of times from 0.
    longest_step : float, optional
        Longest step.
    final_time : float, optional
        Latest time; by default 20 for ±1 weights, 10⁴ on the sphere.
    tolerance, max_iterations, damping, variances, precision : optional
        Of message passing, as in `amp`; by default tolerance 1e-3 for ±1 weights, 1e-4 on the sphere and for even targets,
        precision "float32".
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to compute. A GPU needs CuPy and takes scalar variances, float32 and built-in potentials other than tau; samples
        agree with the CPU's to single precision.
    denoiser : {"auto", "amp", "ep"} or callable, default "auto"
        AMP for patterns that look random and expectation propagation otherwise (±1 weights), or a function (field (k, n),
        time (k,)) -> mean (k, n).
    finish : int or "auto", default "auto"
        How ±1 weights are drawn at the end: a number of heat-bath sweeps in the field at `final_time`; 0 for the signs of the
        means; "auto" for 32 sweeps at t = 3 or 8 if single flips mix there, else at the final time.
    callback : callable, optional
        Called with a `Record` after every step.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.
    checkpoint : str or path-like, optional
        File for the state of the run. If it exists, the run continues from it, with the same result as without the stop.

    Returns
    -------
    Samples or list of Samples
        With a `LocalizationInfo`; a list for a list of problems.

    Raises
    ------
    ValueError
        If options exclude each other, or the checkpoint belongs to another run.

    Warns
    -----
    UserWarning
        If message passing diverged or samples miss constraints.

    See Also
    --------
    diagnose : Compare samples with theory or with chains.
    anneal : Annealed Markov chains, for any patterns.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> localize(problem, n_samples=4, rng=1)
    Samples(k=4, n=501, m=150, solved 4/4, asl)
    """
    whole(1)("n_samples", n_samples)
    config = LocalizeConfig(
        accuracy=accuracy,
        integrator=integrator,
        step=step,
        longest_step=longest_step,
        final_time=final_time,
        tolerance=tolerance,
        max_iterations=max_iterations,
        damping=damping,
        variances=variances,
        precision=precision,
        device=device,
        denoiser=denoiser,
        finish=finish,
    )
    if isinstance(problem, Perceptron):
        if isinstance(rng, Sequence):
            raise ValueError("rng must be one seed for one problem; got a list.")
        if checkpoint is not None and rng is None:
            raise ValueError("checkpoint needs a seed, by which the run is continued: give rng.")
        plan = plan_run([problem], [seed_sequence(rng)], n_samples, config)
        loop = Loop(plan)
        store = Checkpoint(checkpoint, plan.key()) if checkpoint else Checkpoint()
        (samples,) = loop.run(store, callback, progress)
        _warn(samples, loop)
        store.finish(loop.state)
        return samples
    if checkpoint is not None or callback is not None:
        raise ValueError("checkpoint and callback go with one problem, not with a list of them.")
    return _many(problem_list(problem), n_samples, rng, config, None, progress)


def localized(
    problems: Sequence[Perceptron],
    n_samples: int,
    seeds: Sequence[RNG],
    callback: Callable[[Record], object],
    options: Mapping[str, Any],
) -> list[Samples]:
    """Return the samples of each problem without warnings or a progress bar; `callback` is called after every step."""
    return _many(problems, n_samples, list(seeds), LocalizeConfig(**options), callback, False)


def _many(
    problems: Sequence[Perceptron],
    n_samples: int,
    rng: RNG | Sequence[RNG],
    config: LocalizeConfig,
    callback: Callable[[Record], object] | None,
    progress: bool | None,
) -> list[Samples]:
    seeds = seeds_for(rng, len(problems))
    results: dict[int, Samples] = {}
    for rows in _together(problems, config):
        plan = plan_run([problems[i] for i in rows], [seeds[i] for i in rows], n_samples, config)
        results |= zip(rows, Loop(plan).run(Checkpoint(), callback, progress))
    return [results[i] for i in range(len(problems))]


def _together(problems: Sequence[Perceptron], config: LocalizeConfig) -> list[list[int]]:
    """Return which problems run together: on a device, by AMP, those of one shape, kind of patterns and target."""
    groups: dict[Hashable, list[int]] = {}
    for i, p in enumerate(problems):
        name, _ = choose_denoiser(p, config)
        alone = name != "amp" or place(p, config, name) == "cpu"
        groups.setdefault(i if alone else (p.n, p.m, p.has_binary_patterns, p.target), []).append(i)
    return list(groups.values())


def _warn(samples: Samples, loop: Loop) -> None:
    (problem,), config, lost = loop.plan.problems, loop.plan.config, loop.diverged
    missed = ~samples.solved & ~lost & problem.target.potential.hard
    shaken = unstable(samples.info["instability"]) & ~lost & ~missed
    further = "a lower load" + (", or ss.anneal" if problem.target.prior.name == "binary" else "")
    if config.accuracy != "careful":
        further = f'accuracy="careful", a smaller step, {further}'
    if lost.any():
        cure = cures(problem, damped=config.damping == "auto")
        if loop.plan.settings.denoiser == "ep":
            cure = 'Try denoiser="amp", which may reach biased solutions, a lower load, or ss.anneal.'
        warnings.warn(f"message passing diverged in {lost.sum()} of {len(samples)} samples. {cure}", stacklevel=3)
    if missed.any():
        share = 1 - np.mean(loop.record.converged)
        warnings.warn(
            f"{missed.sum()} of {len(samples)} samples miss constraints; message passing did not converge in {share:.0%} of "
            f"the calls. Try {further}.",
            stacklevel=3,
        )
    if shaken.any():
        highest = np.nanmax(samples.info["instability"][:, shaken])
        warnings.warn(
            f"message passing was unstable in {shaken.sum()} of {len(samples)} samples, which may be biased: λ reached "
            f"{highest:.3g}, and must stay below 1. Try {further}.",
            stacklevel=3,
        )
