"""The options of a localization and the plan made of them: which denoiser, where, in which steps, when samples leave, and why."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.checkpoint import fingerprint
from solspace.samplers.constraints import check_measure
from solspace.samplers.device import resolve
from solspace.samplers.localization import finish
from solspace.samplers.localization.denoisers import (
    Denoiser,
    DenoiserFunction,
    Function,
    MessagePassing,
    SitePropagation,
)
from solspace.samplers.localization.steps import (
    ACCURACIES,
    EVEN,
    FINAL_TIME,
    INTEGRATOR,
    INTEGRATORS,
    SHORT,
    GpuNoise,
    Noise,
    Pace,
    kind,
    paces,
)
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.ep import propagation, site_variances
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.gpu_channel import supported
from solspace.samplers.marginals.gpu_patterns import GpuSigns
from solspace.samplers.options import (
    PRECISIONS,
    Config,
    choice,
    choose_variances,
    count,
    damping_option,
    device_option,
    option,
    positive_or_none,
    variances_option,
)
from solspace.system.checks import number, one_of, reals, whole
from solspace.system.plain import Values

SHORTEST, LATEST = 1e-6, 1e6
"""Bounds of steps and of the final time."""
DENOISERS = ("auto", "amp", "ep")


def _step(name: str, value: ArrayLike | None) -> float | Array | None:
    """Check a relative step or a grid of times."""
    if value is None or isinstance(value, str) or np.ndim(value) == 0:
        return None if value is None else number(positive=True, least=SHORTEST)(name, value)
    times = reals(name, value)
    if times.ndim != 1 or len(times) < 2 or times[0] != 0 or not (np.diff(times) > 0).all():
        raise ValueError("step must be a positive number or an increasing list of times that begins with 0.")
    return times


def _denoiser(name: str, value: object) -> object:
    return value if callable(value) else one_of(DENOISERS)(name, value)


def _finish(name: str, value: object) -> object:
    return value if isinstance(value, str) and value == "auto" else whole(0)(name, value)


@dataclass(frozen=True, kw_only=True)
class LocalizeConfig(Config):
    """Options of `localize`, where they are documented."""

    accuracy: str = choice("auto", ACCURACIES, "fast, careful, or auto: careful where it gets hard")
    integrator: str = choice("auto", ("auto", *INTEGRATORS), "how the field is moved")
    step: ArrayLike | None = option(None, _step, "relative length of the steps")
    longest_step: float | None = positive_or_none("longest step", least=SHORTEST)
    final_time: float | None = positive_or_none("where to stop and decode", most=LATEST)
    tolerance: float | None = positive_or_none("of message passing")
    max_iterations: int | None = count(None, "of message passing in one call")
    damping: float | str = damping_option()
    variances: str = variances_option()
    precision: str = choice("float32", PRECISIONS, "float32 or float64")
    device: str = device_option()
    denoiser: str | DenoiserFunction = option(
        "auto", _denoiser, "amp, ep, or auto: amp where the patterns look random", DENOISERS
    )
    finish: int | str = option("auto", _finish, "sweeps in the field at the end, or auto")

    @property
    def times(self) -> Array | None:
        """The grid of times if `step` is one."""
        return None if self.step is None or np.ndim(self.step) == 0 else np.asarray(self.step)


def choose_denoiser(problem: Perceptron, config: LocalizeConfig) -> tuple[str, str]:
    """Return "amp", "ep" or "function", and the reason."""
    if not isinstance(config.denoiser, str):
        return "function", "it is a function of the user"
    if config.denoiser != "auto":
        return config.denoiser, "it is set by the option denoiser"
    if config.damping != "auto":
        return "amp", "the option damping is AMP's"
    if problem.target.prior.name != "binary":
        return "amp", "it is the one for spherical weights"
    found = problem.structure()
    return ("ep", f"the patterns do not look random: {found}") if found else ("amp", "the patterns look random")


def place(problem: Perceptron, config: LocalizeConfig, denoiser: str) -> str:
    """Return "cpu" or "gpu"; "auto" takes the device only if it supports the run."""
    where = resolve(config.device)
    if where == "cpu" or denoiser == "ep":
        return where
    full = choose_variances(problem, config.variances) == "full"
    lacking = "A denoiser of your own runs on the CPU."
    if denoiser != "function":
        lacking = supported(problem, full, config.precision)
    if lacking and config.device == "gpu":
        raise ValueError(lacking)
    return "cpu" if lacking else "gpu"


@dataclass(frozen=True)
class Settings:
    """What was chosen for a run, as `LocalizationInfo` records it."""

    device: str
    denoiser: str
    reason: str
    accuracy: str
    integrator: str
    variances: str
    precision: str
    final_time: float
    step: float | str
    finish: int


@dataclass(frozen=True)
class Plan:
    """A localization of `k` samples of each of some problems of one shape and target."""

    problems: list[Perceptron]
    seeds: list[np.random.SeedSequence]
    k: int
    config: LocalizeConfig
    settings: Settings
    pace: Pace
    slower: Pace | None
    """The pace of samples that near instability."""
    exits: list[float]
    """Times at which samples may leave; at the last all do."""

    def key(self) -> Values:
        """Return what a checkpoint must agree in."""
        (problem,), (seeds,), config = self.problems, self.seeds, self.config
        chosen = {name: value for name, value in asdict(self.settings).items() if name not in ("device", "reason")}
        return {
            **chosen,
            "paces": [str(self.pace), str(self.slower), self.settings.denoiser == "amp" and config.damping == "auto"],
            "times": None if config.times is None else config.times.tolist(),
            "exits": self.exits,
            "k": self.k,
            "seed": [str(seeds.entropy), *seeds.spawn_key],
            "problem": fingerprint(problem),
        }

    def denoiser(self) -> Denoiser:
        """Return the denoiser, at zero fields."""
        problem, config, chosen = self.problems[0], self.config, self.settings
        if not isinstance(config.denoiser, str):
            return Function(problem, self.k, config.precision, config.denoiser)
        if chosen.denoiser == "ep":
            return SitePropagation(propagation(problem, self.k, chosen.variances, chosen.device), self.pace)
        if chosen.device == "gpu":
            messages: Messages | GpuMessages = GpuMessages(self.problems, self.k)
        else:
            messages = Messages(problem, self.k, config.precision, full=chosen.variances == "full")
        return MessagePassing(messages, config.damping == "auto", self.pace)

    def noise(self, denoiser: Denoiser) -> Noise | GpuNoise:
        """Return the streams of normal deviates of all samples."""
        if isinstance(denoiser.samples, GpuMessages):
            return GpuNoise(self.seeds, self.problems[0].n, self.k)
        return Noise(self.seeds[0], np.zeros_like(denoiser.samples.mean))

    def bath(self, denoiser: Denoiser) -> finish.Bath | None:
        """Return the heat bath by which samples leave, None if they are the signs of their means."""
        sweeps = self.settings.finish
        if not sweeps:
            return None
        if self.settings.device == "cpu":
            return finish.Bath(self.problems, self.seeds, self.k, sweeps)
        patterns = denoiser.samples.whole.patterns if isinstance(denoiser.samples, GpuMessages) else None
        bits = patterns.columns if isinstance(patterns, GpuSigns) else None
        return finish.GpuBath(self.problems, self.seeds, self.k, sweeps, bits)


def plan_run(problems: list[Perceptron], seeds: list[np.random.SeedSequence], k: int, config: LocalizeConfig) -> Plan:
    """Choose what `config` leaves open."""
    for one in problems:
        check_measure(one)
    problem = problems[0]
    name, reason = choose_denoiser(problem, config)
    if name == "ep" and config.damping != "auto":
        raise ValueError("damping belongs to AMP; expectation propagation finds its own steps. Leave damping out.")
    row, device = kind(problem.target.prior), place(problem, config, name)
    sweeps, exits = _exits(row, config)
    step = None if config.times is not None else config.step
    if config.step is None and sweeps and config.accuracy != "careful":
        step = SHORT
    pace, slower = paces(
        problem.target.prior,
        config.accuracy,
        step=step,
        longest=config.longest_step,
        tolerance=config.tolerance or (EVEN if row == "binary" and problem.target.even else None),
        limit=config.max_iterations,
        damping=None if config.damping == "auto" else config.damping,
    )
    settings = Settings(
        device=device,
        denoiser=name,
        reason=reason,
        accuracy=config.accuracy,
        integrator=INTEGRATOR[row] if config.integrator == "auto" else config.integrator,
        variances=(site_variances if name == "ep" else choose_variances)(problem, config.variances),
        precision="float64" if name == "ep" else config.precision,
        final_time=exits[-1],
        step=pace.step if config.times is None else "grid",
        finish=sweeps,
    )
    return Plan(problems, seeds, k, config, settings, pace, slower, exits)


def _exits(row: str, config: LocalizeConfig) -> tuple[int, list[float]]:
    """Return the sweeps of the heat bath at the end and the times at which samples may leave."""
    times, final, sweeps = config.times, config.final_time, config.finish
    if times is not None:
        if final not in (None, times[-1]):
            raise ValueError(f"final_time is {final!r}, but the grid in step ends at {times[-1]:g}.")
        final = float(times[-1])
    if row != "binary":
        if sweeps not in ("auto", 0):
            raise ValueError("finish flips ±1 weights; on the sphere leave it out.")
        sweeps = 0
    if isinstance(sweeps, str):
        last = FINAL_TIME[row] if final is None else final
        early = [] if times is not None else [time for time in finish.TIMES if time < last]
        return finish.SWEEPS, [*early, last]
    usual = finish.TIMES[0] if sweeps else FINAL_TIME[row]
    return sweeps, [usual if final is None else final]
