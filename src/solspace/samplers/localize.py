"""Fair samples by stochastic localization (ASL): an SDE for a field h, with AMP as its drift.

    dh = m_t(h) dt + db,   m_t(h) = mean of the target tilted by exp(⟨h, w⟩ - t |w|²/2)

At every time h is distributed as t w* + √t z with w* a sample of the target: the tilted measure is the posterior of w* given
a noisy look at it, and as t grows it closes in on w*. With the exact mean this is exact sampling; AMP gives the mean for large
random problems, as long as the free entropy φ_t(q) has a single maximum on the way. All samples of a call run side by side on
one instance, each with its own random stream, its own times and its own damping.
"""

from __future__ import annotations

import os
import time as clocks
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.amp import TRY
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.denoisers import Function, MessagePassing
from solspace.samplers.device import resolve
from solspace.samplers.gpu_localize import GpuMessagePassing, GpuWalk
from solspace.samplers.gpu_messages import supported
from solspace.samplers.integrators import INTEGRATORS
from solspace.samplers.messages import Messages
from solspace.samplers.options import choose_variances, counting, positive, starting_damping, working_type
from solspace.samplers.pace import FINAL_TIME, INTEGRATOR, Clock, Pace, kind, paces
from solspace.samplers.path import Path
from solspace.samplers.walk import Walk
from solspace.samples import Samples
from solspace.system.names import unknown

Array = NDArray[Any]


class Status(Enum):
    """How a sample came about; the value says it in words."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"

    def __str__(self) -> str:
        return self.value


def localize(
    problem: Perceptron,
    n_samples: int = 16,
    rng: RNG = None,
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
    denoiser: Callable[[Array, Array], Array] | None = None,
    callback: Callable[[Path], Any] | None = None,
    progress: bool | None = None,
    checkpoint: str | os.PathLike[str] | None = None,
    resume: bool = False,
    keep_checkpoint: bool = False,
) -> Samples:
    """Return `n_samples` samples of `problem`'s target.

    Parameters
    ----------
    problem, n_samples, rng
        What to sample, how often, and the seed. Sample j of a seed sees the same noise whatever `n_samples` is; its
        weights agree up to rounding, which depends on how many samples run side by side and, on real-valued patterns,
        on the number of BLAS's threads.
    method
        "fast", "careful", or "auto": fast, and careful from where a sample's instability nears 1 (`pace`); see Notes.
    integrator
        "matched", "heun", "posterior", "mixed", "euler" (`integrators`), or "auto": matched for ±1 weights, mixed on the
        sphere.
    step, longest_step
        Steps dt = min(step (1 + t), longest_step), or `step` an increasing grid of times from 0 to the final one.
    final_time
        Where to stop and decode: 20 for ±1 weights, where |m|²/n is 1 to 1e-5; 10⁴ on the sphere.
    tolerance, max_iterations, damping, variances, precision
        Of message passing, as in `amp`.
    device
        "cpu", "gpu" (a CUDA device with CuPy: scalar variances, float32, all potentials but band, tau and your own), or
        "auto". Noise is the same on either, so that samples agree to single precision.
    denoiser
        Instead of AMP: a function (field (k, n), time (k,)) -> mean (k, n).
    callback
        Called after every step with the `Path` so far.
    progress
        Whether to show a bar; None: where somebody looks.
    checkpoint, resume, keep_checkpoint
        A file that keeps the state of a long run, and whether to go on from it. A resumed run ends with the same bits.
        The file is removed when the run is done, or left for whoever first writes the samples to the disk.

    Returns
    -------
    Samples
        With `info`: "t", "overlap" |m|²/n, "iterations", "converged" and "instability" (λ), each (steps, k); "status" in
        words for each sample; what was chosen, and the "wall_time".

    Notes
    -----
    What the methods cost and how far they are off, measured with `benchmarks/asl.py`, `asl_success.py` and `asl_fair.py`
    (one core of a shared server; iterations are AMP's, per sample):

    * *fast*: ±1 weights at n = 5000, α = 0.3 (log, T = 0.5): 137 iterations, 47 ms in batches of 64; two samples overlap
      by 0.002 too much, |m|²/n is within 0.2% of q(t). On the sphere (κ = -2.1, n = 1001) at α = 5: 211 iterations,
      overlaps right to 0.0006, the path to 0.1% from t = 0.2 on.
    * *careful*: 410 iterations, 143 ms in the first of these settings. For loads near the threshold.
    * *auto*: fast where that will do. With ±1 patterns all constraints are met by 200, 200, 200, 200 and 196 of 200
      samples at n = 1001, α = 0.3, 0.4, 0.5, 0.55, 0.6 (127, 143, 187, 297, 829 iterations), by 198 of 200 at n = 2001, α
      = 0.6 (671), by 32 of 32 and 31 of 32 at n = 10001, α = 0.64 and 0.66 (1140, 2407), beyond where theory promises.
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
    began = clocks.perf_counter()
    if resume and rng is None:
        raise ValueError("resume needs the seed of the run it goes on with: give rng.")
    asked = _Asked.of(problem, n_samples, method, integrator, step, longest_step, final_time, tolerance, max_iterations,
                      damping, variances, precision)  # fmt: skip
    k, seeds = asked.k, seed_sequence(rng)
    where = _place(device, problem, asked, denoiser is not None)
    drift: Any
    if denoiser is not None:
        drift = Function(problem, k, asked.dtype, denoiser)
    elif where == "gpu":
        drift = GpuMessagePassing([problem], k, asked.automatic, asked.pace)
    else:
        messages = Messages(problem, k, asked.dtype, full=asked.options["variances"] == "full")
        drift = MessagePassing(messages, asked.automatic, asked.pace)
    key = {
        **asked.options,
        "paces": [str(asked.pace), str(asked.slower), asked.automatic],
        "times": None if asked.times is None else asked.times.tolist(),
        "k": k,
        "seed": [str(seeds.entropy), *seeds.spawn_key],
        "problem": "" if checkpoint is None else fingerprint(problem),
    }
    store = Checkpoint(checkpoint, key, resume)
    advance = INTEGRATORS[asked.options["integrator"]]
    walk = (
        GpuWalk([problem], asked.clock(k), drift, advance, [seeds])
        if where == "gpu"
        else Walk(problem, asked.clock(k), drift, advance, seeds)
    )
    with np.errstate(all="ignore"):
        walk.go(store, callback, progress)
    weights, stabilities = walk.decoded()
    samples = Samples.of(problem, weights, stabilities=stabilities)
    samples.info = _info(asked, seeds, where, samples, walk, slice(0, k)) | {"wall_time": clocks.perf_counter() - began}
    _warn(samples, walk)
    store.finish(walk.state, keep_checkpoint)
    return samples


def localize_many(
    problems: Sequence[Perceptron],
    n_samples: int = 16,
    rng: Sequence[RNG] | None = None,
    *,
    device: str = "auto",
    progress: bool | None = None,
    **options: Any,
) -> list[Samples]:
    """Return what `localize` returns for each of many problems of one shape and target, all at once on a device.

    `rng` holds a seed for each problem; `options` are those of `localize`, without its checkpoints and callbacks. A
    problem's samples are those of its seed, to single precision.

    >>> problems = [Perceptron.random(n=101, alpha=0.3, rng=seed) for seed in range(2)]
    >>> [int(samples.solved.sum()) for samples in localize_many(problems, 2, rng=[0, 1], device="cpu")]
    [2, 2]
    """
    began = clocks.perf_counter()
    seeds = [seed_sequence(seed) for seed in ([None] * len(problems) if rng is None else rng)]
    if len(seeds) != len(problems):
        raise ValueError(f"rng must hold a seed for each of the {len(problems)} problems; got {len(seeds)}.")
    if len({(p.n, p.m, p.has_binary_patterns, p.target) for p in problems}) > 1:
        raise ValueError("localize_many takes problems of one shape, kind of patterns and target.")
    asked = _Asked.of(problems[0], n_samples, **options)
    if _place(device, problems[0], asked, False) == "cpu":
        both = zip(problems, seeds)
        return [localize(p, n_samples, s, progress=False, **options) for p, s in both]
    drift = GpuMessagePassing(problems, asked.k, asked.automatic, asked.pace)
    advance = INTEGRATORS[asked.options["integrator"]]
    walk = GpuWalk(problems, asked.clock(drift.k), drift, advance, seeds)
    with np.errstate(all="ignore"):
        walk.go(Checkpoint(None, {}), None, progress)
    weights, stabilities = walk.decoded()
    results = []
    for number, problem in enumerate(problems):
        rows = slice(number * asked.k, (number + 1) * asked.k)
        samples = Samples.of(problem, weights[rows], stabilities=None if stabilities is None else stabilities[rows])
        samples.info = _info(asked, seeds[number], "gpu", samples, walk, rows)
        samples.info["wall_time"] = clocks.perf_counter() - began
        results.append(samples)
    return results


@dataclass(frozen=True)
class _Asked:
    """What a call asks for, checked and turned into numbers."""

    k: int
    dtype: Any
    final: float
    times: Array | None
    pace: Pace
    slower: Pace | None
    automatic: bool
    options: dict[str, Any]

    @classmethod
    def of(
        cls, problem: Perceptron, n_samples: int, method: str = "auto", integrator: str = "auto",
        step: ArrayLike | None = None, longest_step: float | None = None, final_time: float | None = None,
        tolerance: float | None = None, max_iterations: int | None = None, damping: float | str = "auto",
        variances: str = "auto", precision: str = "float32",
    ) -> _Asked:  # fmt: skip
        k, dtype, row = counting("n_samples", n_samples), working_type(precision), kind(problem.target.prior)
        scheme = INTEGRATOR[row] if integrator == "auto" else integrator
        if scheme not in INTEGRATORS:
            raise unknown("integrator", integrator, ("auto", *INTEGRATORS))
        final, times, relative = _grid(FINAL_TIME[row], step, final_time)
        start, automatic = starting_damping(damping)
        pace, slower = paces(
            problem.target.prior,
            method,
            step=relative,
            longest=None if longest_step is None else positive("longest_step", longest_step),
            tolerance=None if tolerance is None else positive("tolerance", tolerance),
            limit=None if max_iterations is None else counting("max_iterations", max_iterations),
            damping=None if automatic else start,
        )
        options = {
            "method": method,
            "integrator": scheme,
            "variances": choose_variances(problem, variances),
            "precision": precision,
            "final_time": final,
            "step": pace.step if times is None else "grid",
        }
        return cls(k, dtype, final, times, pace, slower, automatic, options)

    def clock(self, k: int) -> Clock:
        """Return the clock of `k` samples."""
        return Clock(k, self.final, self.times, self.pace, self.slower)


def _info(
    asked: _Asked, seeds: np.random.SeedSequence, where: str, samples: Samples, walk: Walk, rows: slice
) -> dict[str, Any]:
    """Return what is known of the samples in `rows` of a walk."""
    path = {name: values[:, rows] for name, values in walk.path.arrays().items()}
    return {
        "sampler": "asl",
        "seed": str(seeds.entropy),
        "device": where,
        **asked.options,
        **path,
        "damping": walk.denoiser.damping[rows].copy(),
        "careful": walk.clock.careful[rows].copy(),
        "status": [str(word) for word in _statuses(samples, path["converged"], walk.diverged[rows])],
    }


def _place(device: str, problem: Perceptron, asked: _Asked, own: bool) -> str:
    """Return "cpu" or "gpu"; "auto" takes the device only where it can do what is asked for."""
    where = resolve(device)
    if where == "gpu":
        full = asked.options["variances"] == "full"
        lacking = "A denoiser of your own runs on the CPU." if own else supported(problem, full, asked.dtype)
        if lacking and device == "gpu":
            raise ValueError(lacking)
        where = "cpu" if lacking else "gpu"
    return where


def _grid(default: float, step: ArrayLike | None, final_time: float | None) -> tuple[float, Array | None, float | None]:
    """Return the final time, the grid of times where one was given, and the relative step where that was."""
    if step is None or np.ndim(step) == 0:
        final = default if final_time is None else positive("final_time", final_time)
        return final, None, None if step is None else positive("step", step)
    times = np.asarray(step, dtype=float)
    if times.ndim != 1 or len(times) < 2 or times[0] != 0 or not (np.diff(times) > 0).all():
        raise ValueError("step must be a positive number or an increasing list of times that begins with 0.")
    if final_time is not None and final_time != times[-1]:
        raise ValueError(f"final_time is {final_time!r}, but the grid in step ends at {times[-1]:g}.")
    return float(times[-1]), times, None


def _statuses(samples: Samples, converged: Array, diverged: Array) -> list[Status]:
    fair = np.asarray(converged.all(axis=0))
    hard = samples.target.potential.hard
    words = []
    for j, solved in enumerate(samples.solved):
        if diverged[j]:
            words.append(Status.DIVERGED)
        elif hard and not solved:
            words.append(Status.MISSED)
        else:
            words.append(Status.FAIR if fair[j] else Status.DOUBTFUL)
    return words


def _warn(samples: Samples, walk: Walk) -> None:
    lost, missed = int(walk.diverged.sum()), int((~samples.solved & ~walk.diverged).sum())
    if lost:
        warnings.warn(f"message passing diverged in {lost} of {len(samples)} samples. {TRY}", stacklevel=3)
    if missed and samples.target.potential.hard:
        share = 1 - np.mean(walk.path.converged)
        warnings.warn(
            f"{missed} of {len(samples)} samples miss constraints; message passing did not converge in {share:.0%} of the "
            'calls. Try method="careful", a smaller step, a lower load, or ss.anneal.',
            stacklevel=3,
        )
