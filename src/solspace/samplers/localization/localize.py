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

from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, seed_sequence, seeds_for
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint
from solspace.samplers.localization.integrators import INTEGRATORS
from solspace.samplers.localization.loop import Record
from solspace.samplers.localization.pace import METHODS
from solspace.samplers.localization.run import Asked, Run, choose_denoiser, place, unstable
from solspace.samplers.marginals.amp import cures
from solspace.samplers.options import (
    DAMPING,
    DEVICE,
    PRECISIONS,
    VARIANCE,
    Option,
    checked,
    count,
    named,
    positive_or_none,
    problems_in,
)  # fmt: skip
from solspace.samples import Samples
from solspace.system.checks import number, one_of, reals, whole

SHORTEST, LATEST = 1e-6, 1e6
"""Bounds of steps and of the final time, past which a run would not end."""


def _step(name: str, value: ArrayLike | None) -> float | Array | None:
    """Return a relative step or a grid of times."""
    if value is None or isinstance(value, str) or np.ndim(value) == 0:
        return None if value is None else number(positive=True, least=SHORTEST)(name, value)
    times = reals(name, value)
    if times.ndim != 1 or len(times) < 2 or times[0] != 0 or not (np.diff(times) > 0).all():
        raise ValueError("step must be a positive number or an increasing list of times that begins with 0.")
    return times


DENOISERS = ("auto", "amp", "ep")


def _denoiser(name: str, value: object) -> object:
    """Return a denoiser's name, or a function."""
    return value if callable(value) else one_of(DENOISERS)(name, value)


def _finish(name: str, value: object) -> object:
    """Return a number of sweeps, or "auto"."""
    if isinstance(value, str) and value == "auto":
        return value
    return whole(0)(name, value)


OPTIONS = {
    "method": named("auto", METHODS, "fast, careful, or auto: careful where it gets hard"),
    "integrator": named("auto", ("auto", *INTEGRATORS), "how the field is moved"),
    "step": Option(None, _step, "relative length of the steps"),
    "longest_step": positive_or_none("longest step", least=SHORTEST),
    "final_time": positive_or_none("where to stop and decode", most=LATEST),
    "tolerance": positive_or_none("of message passing"),
    "max_iterations": count(None, "of message passing in one call"),
    "damping": DAMPING,
    "variances": VARIANCE,
    "precision": named("float32", PRECISIONS, "float32 or float64"),
    "device": DEVICE,
    "denoiser": Option("auto", _denoiser, "amp, ep, or auto: amp where the patterns look random", DENOISERS),
    "finish": Option("auto", _finish, "sweeps in the field at the end, or auto"),
}


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
    method: str = "auto",
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
    denoiser: str | Callable[[Array, Array], Array] = "auto",
    finish: int | str = "auto",
    callback: Callable[[Record], object] | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    keep_checkpoint: bool = False,
) -> Samples | list[Samples]:
    """Return `n_samples` samples of `problem`'s target, or a list of such where `problem` is a list.

    Parameters
    ----------
    problem, n_samples, rng
        What to sample, how often, and the seed. Sample j of a seed sees the same noise whatever `n_samples` is; its
        weights agree up to rounding, which depends on how many samples run side by side and, on real-valued patterns,
        on the number of BLAS's threads. For a
        list of problems `rng` may be a list of seeds; those of one shape and target run together on a device.
    method
        "fast", "careful", or "auto": fast, and careful from where a sample's instability nears 1 (`pace`); see Notes.
    integrator
        "matched", "heun", "posterior", "mixed", "euler" (`integrators`), or "auto": matched for ±1 weights, mixed on the
        sphere.
    step, longest_step
        Steps dt = min(step (1 + t), longest_step), or `step` an increasing grid of times from 0 to the final one.
    final_time
        Where to stop at the latest: 20 for ±1 weights, where |m|²/n is 1 to 1e-5; 10⁴ on the sphere.
    tolerance, max_iterations, damping, variances, precision
        Of message passing, as in `amp`; a tolerance of 1e-3 for ±1 weights unless given, 1e-4 where w and -w count the same,
        1e-4 on the sphere.
    device
        "cpu", "gpu" (a CUDA device with CuPy: scalar variances, float32, all potentials but tau and your own), or
        "auto". Noise is the same on either, so that samples agree to single precision.
    denoiser
        "amp", "ep" (expectation propagation: any patterns, ±1 weights), "auto": AMP for patterns that look random and EP for
        all others, or a function (field (k, n), time (k,)) -> mean (k, n).
    finish
        How ±1 weights are drawn at the end. A number: so many sweeps of the heat bath in the field at `final_time` (3 unless
        given). 0: the signs of the means at `final_time` (20 unless given). "auto": samples leave by 32 sweeps at t = 3 or 8
        if flips in their field mix, else at the final time.
    callback
        Called after every step with the `Record` so far.
    progress
        Whether to show a bar; None: where somebody looks.
    checkpoint, resume, keep_checkpoint
        A file that keeps the state of a long run, and whether to go on from it. A resumed run ends with the same bits.
        The file is removed when the run is done, or left for whoever first writes the samples to the disk.

    Returns
    -------
    Samples
        With a `LocalizationInfo`.

    Notes
    -----
    What the methods cost and how far they are off, measured with `benchmarks/asl.py`, `asl_success.py` and `asl_fair.py`
    (one core of a shared server; iterations are AMP's, per sample; `finish=0` but where a finish is named):

    * With the *finish* ("auto") steps are half as long and samples leave at t = 3 where flips mix: 90 iterations at n = 2001,
      α = 0.3. Two samples overlap by 0.0013 ± 0.0004 more than |m|²/n at t = 0 says (n = 2001, α = 0.42), by 0.0002 ± 0.0008
      at α = 0.6; without it by 0.0030 ± 0.0003 and 0.0031 ± 0.0010. It solves 127 of 128 at n = 10001, α = 0.66, and
      95 of 128 at α = 0.68 (118 and 78 without).
    * *fast*: ±1 weights at n = 5000, α = 0.3 (log, T = 0.5): 137 iterations, 47 ms in batches of 64; two samples overlap
      by 0.002 too much, |m|²/n is within 0.2% of q(t). On the sphere (κ = -2.1, n = 1001) at α = 5: 211 iterations,
      overlaps right to 0.0006, the path to 0.1% from t = 0.2 on; at κ = -1.5, α = 8, n = 2001 overlaps exceed by 0.0042 ±
      0.0005, with *careful* by 0.0013 ± 0.0006.
    * *careful*: 410 iterations, 143 ms in the first of these settings. For loads near the threshold.
    * *auto*: fast where that will do. With ±1 patterns all constraints are met by 200, 200, 200, 199 and 195 of 200
      samples at n = 1001, α = 0.3, 0.4, 0.5, 0.55, 0.6 (126, 145, 190, 310, 937 iterations), by 199 of 200 at n = 2001, α
      = 0.6 (666): `python -m benchmarks.asl_success --size full --no-finish`.
    * Close to the dAT line on the sphere (κ = -2.1, α = 80, n = 1001) the weights answer to the field so strongly that
      steps and tolerance are shortened by themselves: on one instance 16 samples overlap by 0.034 more than AMP's |m|²/n
      at t = 0 says with *fast* (1200 iterations; 0.075 with steps of 0.2 throughout). With *auto* (3900), on another
      instance, 0.006 less.
    * Potentials of your own have no closed-form channel: it is tabulated once, in one to three seconds.

    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> localize(problem, n_samples=4, rng=1)
    Samples(k=4, n=501, m=150, solved 4/4, asl)
    """
    asked = checked({"n_samples": count(16, "")} | OPTIONS, locals())
    if isinstance(problem, Perceptron):
        if isinstance(rng, Sequence):
            raise ValueError("rng must be one seed for one problem; got a list.")
        run = Run.of([problem], [seed_sequence(rng)], asked)
        if resume and rng is None:
            raise ValueError("resume needs the seed of the run it goes on with: give rng.")
        store = Checkpoint(checkpoint, run.key() if checkpoint else {}, resume)
        (samples,) = run.go(store, callback, progress)
        _warn(samples, run, asked)
        store.finish(run.loop.state, keep_checkpoint)
        return samples
    if checkpoint is not None or callback is not None:
        raise ValueError("checkpoint and callback go with one problem, not with a list of them.")
    return _many(problems_in(problem), rng, asked, None, progress)


def localized(
    problems: Sequence[Perceptron], n_samples: int, seeds: Sequence[RNG], callback: Callable[[Record], object],
    options: Mapping[str, Any],
) -> list[Samples]:  # fmt: skip
    """Return the samples of each problem, from options of `localize`, without a word; `callback` hears of every step."""
    asked = checked(OPTIONS, options) | {"n_samples": n_samples}
    return _many(problems, list(seeds), asked, callback, False)


def _many(
    problems: Sequence[Perceptron], rng: RNG | Sequence[RNG], asked: Asked, callback: Callable[[Record], object] | None,
    progress: bool | None,
) -> list[Samples]:  # fmt: skip
    seeds = seeds_for(rng, len(problems))
    results: dict[int, Samples] = {}
    for rows in _together(problems, asked):
        run = Run.of([problems[i] for i in rows], [seeds[i] for i in rows], asked)
        results |= zip(rows, run.go(Checkpoint(None, {}), callback, progress))
    return [results[i] for i in range(len(problems))]


def _together(problems: Sequence[Perceptron], asked: Asked) -> list[list[int]]:
    """Return which problems run together: on a device, by AMP, those of one shape, kind of patterns and target."""
    groups: dict[Hashable, list[int]] = {}
    for i, p in enumerate(problems):
        name, _ = choose_denoiser(p, asked)
        alone = name != "amp" or place(p, asked, name) == "cpu"
        groups.setdefault(i if alone else (p.n, p.m, p.has_binary_patterns, p.target), []).append(i)
    return list(groups.values())


def _warn(samples: Samples, run: Run, asked: Asked) -> None:
    loop, (problem,) = run.loop, run.problems
    lost, missed = loop.diverged, ~samples.solved & ~loop.diverged & problem.target.potential.hard
    shaken = unstable(samples.info["instability"]) & ~lost & ~missed
    further = "a lower load" + (", or ss.anneal" if problem.target.prior.name == "binary" else "")
    if asked["method"] != "careful":
        further = f'method="careful", a smaller step, {further}'
    if lost.any():
        cure = cures(problem, damped=asked["damping"] == "auto")
        if run.chosen["denoiser"] == "ep":
            cure = "Try a lower load or ss.anneal."
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
