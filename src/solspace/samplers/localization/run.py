"""A localization from what a call asks for to its samples: which denoiser, at which pace, where, and when samples leave."""

from __future__ import annotations

import time as clocks
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from enum import Enum

import numpy as np

from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.constraints import check_measure
from solspace.samplers.device import answering, resolve
from solspace.samplers.localization import finish
from solspace.samplers.localization.config import LocalizeConfig
from solspace.samplers.localization.denoisers import Denoiser, Function, MessagePassing, SitePropagation
from solspace.samplers.localization.gpu_finish import GpuBath
from solspace.samplers.localization.integrators import INTEGRATORS
from solspace.samplers.localization.loop import Loop, Record
from solspace.samplers.localization.noise import GpuNoise, Noise
from solspace.samplers.localization.pace import EVEN, FINAL_TIME, INTEGRATOR, SHORT, Clock, Pace, kind, paces
from solspace.samplers.marginals import cpu, gpu
from solspace.samplers.marginals.ep import propagation
from solspace.samplers.marginals.gpu_channel import supported
from solspace.samplers.marginals.gpu_signs import GpuSigns
from solspace.samplers.options import choose_variances
from solspace.samples import Samples
from solspace.system.plain import Values

UNSTABLE = 10.0
"""Instability beyond which message passing cannot have been near its fixed point, whatever its residual: that takes one below
1, and near the threshold samples that are fair meet up to 4."""


class Fate(Enum):
    """How a sample came about; the value says it in words."""

    FAIR = "localized; message passing converged at every step"
    DOUBTFUL = "localized, but message passing missed its tolerance at some steps: the sample may be biased"
    SHAKEN = "localized, but message passing was unstable (λ far above 1) at some steps: the sample may be biased"
    MISSED = "localized, but constraints are missed"
    DIVERGED = "message passing diverged and no damping helped: not a sample of the target"

    def __str__(self) -> str:
        return self.value


def choose_denoiser(problem: Perceptron, config: LocalizeConfig) -> tuple[str, str]:
    """Return "amp", "ep" or "function", and why, in words."""
    given = config.denoiser
    if not isinstance(given, str):
        return "function", "a function was given"
    if given != "auto":
        return given, "it was asked for"
    if config.damping != "auto":
        return "amp", "damping was given, which is AMP's"
    if problem.target.prior.name != "binary":
        return "amp", "it is the one for spherical weights"
    found = problem.structure()
    return ("ep", f"the patterns do not look random: {found}") if found else ("amp", "the patterns look random")


def place(problem: Perceptron, config: LocalizeConfig, denoiser: str) -> str:
    """Return "cpu" or "gpu"; "auto" takes the device only where it can do what is asked for."""
    where = resolve(config.device)
    if where == "gpu" and denoiser != "ep":
        full = choose_variances(problem, config.variances) == "full"
        own = denoiser == "function"
        lacking = "A denoiser of your own runs on the CPU." if own else supported(problem, full, config.precision)
        if lacking and config.device == "gpu":
            raise ValueError(lacking)
        where = "cpu" if lacking else "gpu"
    return where


@dataclass
class Run:
    """Problems of one shape and target on their way together, and all that was chosen for them."""

    problems: list[Perceptron]
    seeds: list[np.random.SeedSequence]
    chosen: Values
    """The settings recorded in `LocalizationInfo`."""
    paces: tuple[Pace, Pace | None]
    times: Array | None
    loop: Loop

    @classmethod
    def of(
        cls, problems: list[Perceptron], seeds: list[np.random.SeedSequence], n_samples: int, config: LocalizeConfig
    ) -> Run:
        """Choose what `config` leaves open and lay the run out."""
        for one in problems:
            check_measure(one)
        problem, k = problems[0], n_samples
        name, reason = choose_denoiser(problem, config)
        if name == "ep" and config.damping != "auto":
            raise ValueError("damping belongs to AMP; expectation propagation finds its own steps. Leave damping out.")
        row, where = kind(problem.target.prior), place(problem, config, name)
        (sweeps, ends), times = _ends(row, config), config.times
        usual = SHORT if sweeps and config.accuracy != "careful" else None
        pace, slower = paces(
            problem.target.prior,
            config.accuracy,
            step=usual if config.step is None or times is not None else config.step,
            longest=config.longest_step,
            tolerance=config.tolerance or (EVEN if row == "binary" and problem.target.even else None),
            limit=config.max_iterations,
            damping=None if config.damping == "auto" else config.damping,
        )
        drift = _denoiser(problems, k, config, name, where, pace)
        chosen: Values = {
            "device": where,
            "denoiser": name,
            "reason": reason,
            "accuracy": config.accuracy,
            "integrator": INTEGRATOR[row] if config.integrator == "auto" else config.integrator,
            "variances": _variances(problem, config, drift),
            "precision": "float64" if name == "ep" else config.precision,
            "final_time": ends[-1],
            "step": pace.step if times is None else "grid",
            "finish": sweeps,
        }
        on_device = where == "gpu" and name == "amp"
        noise = GpuNoise(seeds, problem.n, k) if on_device else Noise(seeds[0], np.zeros_like(drift.mean))
        clock = Clock(drift.k, ends[-1], times, pace, slower)
        leave = (
            finish.Exit(_bath(problems, seeds, k, sweeps, where, drift), drift, clock, len(ends)) if sweeps else None
        )
        loop = Loop(drift, clock, INTEGRATORS[chosen["integrator"]], noise, seeds, ends, leave)
        return cls(problems, seeds, chosen, (pace, slower), times, loop)

    def key(self) -> Values:
        """Return what a checkpoint must agree in."""
        (problem,), (seeds,) = self.problems, self.seeds
        automatic = isinstance(self.loop.denoiser, MessagePassing) and self.loop.denoiser.relaxation.automatic
        return {
            **{name: value for name, value in self.chosen.items() if name not in ("device", "reason")},
            "paces": [*map(str, self.paces), automatic],
            "times": None if self.times is None else self.times.tolist(),
            "ends": list(self.loop.ends),
            "k": self.loop.denoiser.k,
            "seed": [str(seeds.entropy), *seeds.spawn_key],
            "problem": fingerprint(problem),
        }

    def go(
        self, store: Checkpoint, callback: Callable[[Record], object] | None, progress: bool | None
    ) -> list[Samples]:
        """Localize, and return the samples of each problem."""
        began = clocks.perf_counter()
        with np.errstate(all="ignore"), answering() if self.chosen["device"] == "gpu" else nullcontext():
            self.loop.go(store, callback, progress)
        each = self.loop.denoiser.each
        weights = self.loop.decoded(self.problems[0].target.prior)
        stabilities = self.loop.denoiser.stabilities(weights) if weights.dtype == np.int8 else None
        results, path = [], self.loop.record.arrays()
        for i, problem in enumerate(self.problems):
            rows = slice(i * each, (i + 1) * each)
            samples = Samples.of(problem, weights[rows], None, None if stabilities is None else stabilities[rows])
            samples.info = self._info(samples, self.seeds[i], rows, path, clocks.perf_counter() - began)
            results.append(samples)
        return results

    def _info(
        self, samples: Samples, seeds: np.random.SeedSequence, rows: slice, path: dict[str, Array], seconds: float
    ) -> LocalizationInfo:
        loop = self.loop
        record: Values = {name: values[:, rows] for name, values in path.items()}
        return LocalizationInfo(
            sampler="asl",
            seed=str(seeds.entropy),
            wall_time=seconds,
            **self.chosen,
            **record,
            damping=loop.denoiser.damping[rows].copy(),
            careful=loop.clock.careful[rows].copy(),
            left=np.where(loop.left, loop.clock.time, np.nan)[rows],
            status=[str(word) for word in _statuses(samples, record, loop.diverged[rows])],
        )


def _ends(row: str, config: LocalizeConfig) -> tuple[int, list[float]]:
    """Return the sweeps of the heat bath at the end and the times at which samples may leave."""
    times, final, sweeps = config.times, config.final_time, config.finish
    if times is not None and final not in (None, times[-1]):
        raise ValueError(f"final_time is {final!r}, but the grid in step ends at {times[-1]:g}.")
    if row != "binary":
        if sweeps not in ("auto", 0):
            raise ValueError("finish flips ±1 weights; on the sphere leave it out.")
        sweeps = 0
    if times is not None:
        final = float(times[-1])
    if isinstance(sweeps, str):
        last = FINAL_TIME[row] if final is None else final
        early = [] if times is not None else [time for time in finish.TIMES if time < last]
        return finish.SWEEPS, [*early, last]
    usual = finish.TIMES[0] if sweeps else FINAL_TIME[row]
    return sweeps, [usual if final is None else final]


def _denoiser(
    problems: list[Perceptron], k: int, config: LocalizeConfig, name: str, where: str, pace: Pace
) -> Denoiser:
    problem, automatic = problems[0], config.damping == "auto"
    if callable(config.denoiser):
        return Function(problem, k, config.precision, config.denoiser)
    if name == "ep":
        return SitePropagation(propagation(problem, k, config.variances, where), pace)
    if where == "gpu":
        return MessagePassing(gpu.GpuMessages(problems, k), automatic, pace)
    full = choose_variances(problem, config.variances) == "full"
    return MessagePassing(cpu.Messages(problem, k, config.precision, full=full), automatic, pace)


def _bath(
    problems: list[Perceptron], seeds: list[np.random.SeedSequence], k: int, sweeps: int, where: str, drift: Denoiser
) -> finish.Bath:
    if where == "cpu":
        return finish.Bath(problems, seeds, k, sweeps)
    bits = None
    if isinstance(drift, MessagePassing) and isinstance(drift.messages, gpu.GpuMessages):
        patterns = drift.messages.whole.patterns
        bits = patterns.columns if isinstance(patterns, GpuSigns) else None
    return GpuBath(problems, seeds, k, sweeps, bits)


def _variances(problem: Perceptron, config: LocalizeConfig, drift: Denoiser) -> str:
    if isinstance(drift, SitePropagation):
        return "scalar" if drift.made.scalar else "full"
    return choose_variances(problem, config.variances)


def unstable(instability: Array) -> Array:
    """Return which samples (k,) met an instability (steps, k) that message passing cannot stand."""
    return np.asarray((instability > UNSTABLE).any(axis=0))


def _statuses(samples: Samples, record: Values, diverged: Array) -> list[Fate]:
    fair, shaken = np.asarray(record["converged"].all(axis=0)), unstable(record["instability"])
    hard = samples.target.potential.hard
    words = []
    for j, solved in enumerate(samples.solved):
        if diverged[j]:
            words.append(Fate.DIVERGED)
        elif hard and not solved:
            words.append(Fate.MISSED)
        elif shaken[j]:
            words.append(Fate.SHAKEN)
        else:
            words.append(Fate.FAIR if fair[j] else Fate.DOUBTFUL)
    return words
