"""Fair samples by stochastic localization (ASL): an SDE for a field h, with message passing as its drift.

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
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, seed_sequence, seeds_for
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.device import resolve
from solspace.samplers.localization.denoisers import Denoiser, Function, MessagePassing
from solspace.samplers.localization.integrators import INTEGRATORS
from solspace.samplers.localization.loop import Loop
from solspace.samplers.localization.noise import GpuNoise, Noise
from solspace.samplers.localization.pace import FINAL_TIME, INTEGRATOR, METHODS, Clock, Pace, kind, paces
from solspace.samplers.localization.record import Record
from solspace.samplers.marginals import cpu, gpu
from solspace.samplers.marginals.amp import TRY
from solspace.samplers.marginals.gpu_channel import supported
from solspace.samplers.options import (
    DAMPING,
    DEVICE,
    PRECISIONS,
    VARIANCE,
    Option,
    checked,
    choose_variances,
    count,
    named,
    positive_or_none,
    problems_in,
)  # fmt: skip
from solspace.samples import Samples
from solspace.system.checks import number, reals

SHORTEST, LATEST = 1e-6, 1e6
"""Bounds of steps and of the final time, past which a run would not end."""


def _step(name: str, value: Any) -> Any:
    """Return a relative step or a grid of times."""
    if value is None or isinstance(value, str) or np.ndim(value) == 0:
        return None if value is None else number(positive=True, least=SHORTEST)(name, value)
    times = reals(name, value)
    if times.ndim != 1 or len(times) < 2 or times[0] != 0 or not (np.diff(times) > 0).all():
        raise ValueError("step must be a positive number or an increasing list of times that begins with 0.")
    return times


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
}


class Status(Enum):
    """How a sample came about; the value says it in words."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"

    def __str__(self) -> str:
        return self.value


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
    denoiser: Callable[[Array, Array], Array] | None = None,
    callback: Callable[[Record], Any] | None = None,
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
        Where to stop and decode: 20 for ±1 weights, where |m|²/n is 1 to 1e-5; 10⁴ on the sphere.
    tolerance, max_iterations, damping, variances, precision
        Of message passing, as in `amp`.
    device
        "cpu", "gpu" (a CUDA device with CuPy: scalar variances, float32, all potentials but band, tau and your own), or
        "auto". Noise is the same on either, so that samples agree to single precision.
    denoiser
        Instead of AMP: a function (field (k, n), time (k,)) -> mean (k, n).
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
    asked = checked({"n_samples": count(16, "")} | OPTIONS, locals())
    if isinstance(problem, Perceptron):
        if isinstance(rng, Sequence):
            raise ValueError("rng must be one seed for one problem; got a list.")
        run = _Run.of([problem], [seed_sequence(rng)], asked, denoiser)
        if resume and rng is None:
            raise ValueError("resume needs the seed of the run it goes on with: give rng.")
        store = Checkpoint(checkpoint, run.key() if checkpoint else {}, resume)
        (samples,) = run.go(store, callback, progress)
        _warn(samples, run.loop)
        store.finish(run.loop.state, keep_checkpoint)
        return samples
    if checkpoint is not None or callback is not None or denoiser is not None:
        raise ValueError("checkpoint, callback and denoiser go with one problem, not with a list of them.")
    problems = problems_in(problem)
    seeds = seeds_for(rng, len(problems))
    results: dict[int, Samples] = {}
    for rows in _together(problems, asked):
        run = _Run.of([problems[i] for i in rows], [seeds[i] for i in rows], asked, None)
        results |= zip(rows, run.go(Checkpoint(None, {}), None, progress))
    return [results[i] for i in range(len(problems))]


def _together(problems: Sequence[Perceptron], asked: dict[str, Any]) -> list[list[int]]:
    """Return which problems run together: on a device those of one shape, kind of patterns and target."""
    groups: dict[Any, list[int]] = {}
    for i, p in enumerate(problems):
        alone = place(p, asked, own=False) == "cpu"
        groups.setdefault(i if alone else (p.n, p.m, p.has_binary_patterns, p.target), []).append(i)
    return list(groups.values())


def place(problem: Perceptron, asked: dict[str, Any], own: bool) -> str:
    """Return "cpu" or "gpu"; "auto" takes the device only where it can do what is asked for."""
    where = resolve(asked["device"])
    if where == "gpu":
        full = choose_variances(problem, asked["variances"]) == "full"
        lacking = "A denoiser of your own runs on the CPU." if own else supported(problem, full, asked["precision"])
        if lacking and asked["device"] == "gpu":
            raise ValueError(lacking)
        where = "cpu" if lacking else "gpu"
    return where


@dataclass
class _Run:
    """Problems of one shape and target on their way together, and all that was chosen for them."""

    problems: list[Perceptron]
    seeds: list[np.random.SeedSequence]
    chosen: dict[str, Any]
    paces: tuple[Pace, Pace | None]
    automatic: bool
    times: Array | None
    loop: Loop

    @classmethod
    def of(
        cls,
        problems: list[Perceptron],
        seeds: list[np.random.SeedSequence],
        asked: dict[str, Any],
        own: Callable[[Array, Array], Array] | None,
    ) -> _Run:
        """Turn what was `asked` into numbers and lay the run out."""
        problem, k = problems[0], asked["n_samples"]
        row, where = kind(problem.target.prior), place(problem, asked, own is not None)
        final, times = _grid(FINAL_TIME[row], asked["step"], asked["final_time"])
        automatic = asked["damping"] == "auto"
        pace, slower = paces(
            problem.target.prior,
            asked["method"],
            step=None if times is not None else asked["step"],
            longest=asked["longest_step"],
            tolerance=asked["tolerance"],
            limit=asked["max_iterations"],
            damping=None if automatic else asked["damping"],
        )
        chosen = {
            "device": where,
            "method": asked["method"],
            "integrator": INTEGRATOR[row] if asked["integrator"] == "auto" else asked["integrator"],
            "variances": choose_variances(problem, asked["variances"]),
            "precision": asked["precision"],
            "final_time": final,
            "step": pace.step if times is None else "grid",
        }
        drift: Denoiser
        if own is not None:
            drift = Function(problem, k, asked["precision"], own)
        elif where == "gpu":
            drift = MessagePassing(gpu.GpuMessages(problems, k), automatic, pace)
        else:
            messages = cpu.Messages(problem, k, asked["precision"], full=chosen["variances"] == "full")
            drift = MessagePassing(messages, automatic, pace)
        noise = GpuNoise(seeds, problem.n, k) if where == "gpu" else Noise(seeds[0], np.zeros_like(drift.mean))
        clock = Clock(drift.k, final, times, pace, slower)
        loop = Loop(drift, clock, INTEGRATORS[chosen["integrator"]], noise, seeds)
        return cls(problems, seeds, chosen, (pace, slower), automatic, times, loop)

    def key(self) -> dict[str, Any]:
        """Return what a checkpoint must agree in."""
        (problem,), (seeds,) = self.problems, self.seeds
        return {
            **{name: value for name, value in self.chosen.items() if name != "device"},
            "paces": [*map(str, self.paces), self.automatic],
            "times": None if self.times is None else self.times.tolist(),
            "k": self.loop.denoiser.k,
            "seed": [str(seeds.entropy), *seeds.spawn_key],
            "problem": fingerprint(problem),
        }

    def go(self, store: Checkpoint, callback: Callable[[Record], Any] | None, progress: bool | None) -> list[Samples]:
        """Localize, and return the samples of each problem."""
        began = clocks.perf_counter()
        with np.errstate(all="ignore"):
            self.loop.go(store, callback, progress)
        each = self.loop.denoiser.each
        weights, stabilities = self.loop.decoded(self.problems[0].target.prior)
        results = []
        for i, problem in enumerate(self.problems):
            rows = slice(i * each, (i + 1) * each)
            samples = Samples.of(problem, weights[rows], None, None if stabilities is None else stabilities[rows])
            samples.info = self._info(samples, self.seeds[i], rows, clocks.perf_counter() - began)
            results.append(samples)
        return results

    def _info(self, samples: Samples, seeds: np.random.SeedSequence, rows: slice, seconds: float) -> LocalizationInfo:
        record: dict[str, Any] = {name: values[:, rows] for name, values in self.loop.record.arrays().items()}
        return LocalizationInfo(
            sampler="asl",
            seed=str(seeds.entropy),
            wall_time=seconds,
            **self.chosen,
            **record,
            damping=self.loop.denoiser.damping[rows].copy(),
            careful=self.loop.clock.careful[rows].copy(),
            status=[str(word) for word in _statuses(samples, record["converged"], self.loop.diverged[rows])],
        )


def _grid(default: float, step: Any, final_time: float | None) -> tuple[float, Array | None]:
    """Return the final time, and the grid of times where one was given."""
    if step is None or np.ndim(step) == 0:
        return default if final_time is None else final_time, None
    if final_time is not None and final_time != step[-1]:
        raise ValueError(f"final_time is {final_time!r}, but the grid in step ends at {step[-1]:g}.")
    return float(step[-1]), step


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


def _warn(samples: Samples, loop: Loop) -> None:
    lost, missed = int(loop.diverged.sum()), int((~samples.solved & ~loop.diverged).sum())
    if lost:
        warnings.warn(f"message passing diverged in {lost} of {len(samples)} samples. {TRY}", stacklevel=3)
    if missed and samples.target.potential.hard:
        share = 1 - np.mean(loop.record.converged)
        warnings.warn(
            f"{missed} of {len(samples)} samples miss constraints; message passing did not converge in {share:.0%} of the "
            'calls. Try method="careful", a smaller step, a lower load, or ss.anneal.',
            stacklevel=3,
        )
