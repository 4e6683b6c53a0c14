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
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.priors import Gaussian, Levels, Prior
from solspace.numerics.arrays import PRECISIONS, Array
from solspace.numerics.streams import RNG, seed_sequence, seeds_for
from solspace.problem import Perceptron, problem_list
from solspace.samplers.checkpoint import Checkpoint, fingerprint
from solspace.samplers.constraints import check_measure, choose_variances, variances_option
from solspace.samplers.device import device_option, resolve
from solspace.samplers.localization import finish as exits
from solspace.samplers.localization import loop
from solspace.samplers.localization.level_bath import LevelBath, lacks_moves
from solspace.samplers.marginals.amp import cures
from solspace.samplers.marginals.ep import propagation, site_variances
from solspace.samplers.marginals.factors import Factors, gap
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.gpu_problem import GpuSigns, supported
from solspace.samplers.marginals.messages import Messages
from solspace.samples import Samples
from solspace.system import checks
from solspace.system.plain import Values

ACCURACIES, DENOISERS = ("auto", "fast", "careful"), ("auto", "amp", "ep")
SHORTEST, LATEST = 1e-6, 1e6  # bounds of steps and of the final time
SHORT = 0.1  # step of samples that leave by a draw in the field: they go less far, and half the step has a quarter of its bias
EVEN = 1e-4  # tolerance for ±1 weights of mean 0 without a field: 1e-3 is too much beside means that begin at 0
FAST = {"binary": loop.Pace(0.2, 1.0, 1e-3, 50, 0.0), "spherical": loop.Pace(0.2, np.inf, 1e-4, 300, 0.0, True)}
CAREFUL = {"binary": loop.Pace(0.04, np.inf, 1e-3, 60, 0.3), "spherical": loop.Pace(0.05, np.inf, 1e-4, 300, 0.0, True)}
FINAL_TIME = {"binary": 20.0, "spherical": 1e4}
INTEGRATOR = {"binary": "matched", "spherical": "mixed"}
# rows of these tables: weights on levels go the way of ±1 weights in units of their distance, Gaussian ones that of the sphere
ROWS = {"spherical": "spherical", "gaussian": "spherical"}


def _step(name: str, value: ArrayLike) -> float | Array:
    if isinstance(value, str) or np.ndim(value) == 0:
        return checks.number(positive=True, least=SHORTEST)(name, value)
    times = checks.reals(name, value)
    if times.ndim != 1 or len(times) < 2 or times[0] != 0 or not (np.diff(times) > 0).all():
        raise ValueError("step must be a positive number or an increasing list of times that begins with 0.")
    return times


_DENOISER = checks.one_of(DENOISERS)


@dataclass(frozen=True, kw_only=True)
class LocalizeConfig(checks.Config):
    """Options of `localize`, which documents them: defaults, checks, and help for the command line."""

    accuracy: str = checks.choice("auto", ACCURACIES, "fast, careful, or auto: careful where it gets hard")
    integrator: str = checks.choice("auto", ("auto", *loop.INTEGRATORS), "how the field is moved")
    step: ArrayLike | None = checks.option(None, checks.optional(_step), "relative length of the steps")
    longest_step: float | None = checks.positive_or_none("longest step", least=SHORTEST)
    final_time: float | None = checks.positive_or_none("where to stop and decode", most=LATEST)
    tolerance: float | None = checks.positive_or_none("of message passing")
    max_iterations: int | None = checks.count(None, "of message passing in one call")
    damping: float | str = checks.damping_option()
    variances: str = variances_option()
    precision: str = checks.choice("float32", PRECISIONS, "float32 or float64")
    device: str = device_option()
    denoiser: str | loop.DenoiserFunction = checks.option(
        "auto",
        lambda name, value: value if callable(value) else _DENOISER(name, value),
        "amp, ep, or auto: amp where the patterns look random",
        DENOISERS,
    )
    finish: int | str = checks.option(
        "auto", checks.or_auto(checks.whole(0)), "sweeps in the field at the end, or auto"
    )

    @property
    def times(self) -> Array | None:
        return None if self.step is None or np.ndim(self.step) == 0 else np.asarray(self.step)


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
    denoiser: str | loop.DenoiserFunction = "auto",
    finish: int | str = "auto",
    callback: Callable[[loop.Record], object] | None = None,
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
        "fast": steps of 0.2 (1/σ² + t), half of it with `finish`, σ² the prior's variance. "careful": steps of 0.04 with damping,
        for loads near the threshold. "auto": fast, and careful once the instability of a sample approaches 1.
    integrator : {"auto", "matched", "heun", "posterior", "mixed", "euler"}, default "auto"
        How the field is advanced; by default matched for discrete weights, mixed for real ones; heun where a function returns the
        means of other weights than ±1 and spherical ones.
    step : float or array_like, optional
        Relative length of the steps, dt = min(step (1/σ² + t), longest_step), or an increasing grid of times from 0.
    longest_step : float, optional
        Longest step.
    final_time : float, optional
        Latest time; by default 20 for ±1 weights (80/d² for levels at distances of d and more), 10⁴ on the sphere (10⁴/σ² for
        Gaussian weights).
    tolerance, max_iterations, damping, variances, precision : optional
        Of message passing, as in `amp`; by default tolerance 1e-3 for ±1 weights, 1e-4 on the sphere and for even targets,
        precision "float32".
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to compute. A GPU needs CuPy and takes scalar variances, float32 and built-in potentials other than tau; samples
        agree with the CPU's to single precision.
    denoiser : {"auto", "amp", "ep"} or callable, default "auto"
        AMP for patterns that look random, expectation propagation otherwise and with an intercept, or a function (field (k, n),
        time (k,)) -> mean (k, n) under the target times exp(⟨h, w⟩ - t |w|²/2), with an intercept integrated out.
    finish : int or "auto", default "auto"
        How weights are drawn at the end: a number of sweeps in the field at `final_time`, of heat-bath moves of discrete weights
        or rotations of real ones; 0 for the values next to the means, or the means rescaled to the sphere, which keep away from
        walls. "auto": 32 sweeps at t = 3 or 8 (12/d² or 32/d²) of single moves, 4 at t = 10³ of rotations (of small problems 64
        at t = 10), if they mix there, else at the final time. Rotations run on the CPU, also for device="gpu".
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
    checks.whole(1)("n_samples", n_samples)
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
    checks.check_call(isinstance(problem, Perceptron), rng, checkpoint, callback)
    if isinstance(problem, Perceptron):
        plan = plan_run([problem], [seed_sequence(rng)], n_samples, config)  # type: ignore[arg-type]
        store, run = Checkpoint(checkpoint, _identity(plan, config)) if checkpoint else None, loop.Loop(plan)
        (samples,) = run.run(store, callback, progress)
        for warning in _warnings(samples, run, config):
            warnings.warn(warning, stacklevel=2)
        if store is not None:
            store.save(run.state())
        return samples
    return localize_many(problem_list(problem), n_samples, rng, config, progress=progress)


def localize_many(
    problems: Sequence[Perceptron],
    n_samples: int,
    rng: RNG | Sequence[RNG],
    config: LocalizeConfig,
    callback: Callable[[loop.Record], object] | None = None,
    progress: bool | None = None,
) -> list[Samples]:
    """Localize together, on a device, by AMP, problems of one shape, kind of patterns and target; the others one by one."""
    groups: dict[Hashable, list[int]] = {}
    for i, p in enumerate(problems):
        name, _ = choose_denoiser(p, config)
        alone = name != "amp" or place(p, config, name) == "cpu"
        groups.setdefault(i if alone else (p.n, p.m, p.has_binary_patterns, p.target), []).append(i)
    seeds = seeds_for(rng, len(problems))
    results: dict[int, Samples] = {}
    for rows in groups.values():
        plan = plan_run([problems[i] for i in rows], [seeds[i] for i in rows], n_samples, config)
        results |= zip(rows, loop.Loop(plan).run(None, callback, progress))
    return [results[i] for i in range(len(problems))]


def choose_denoiser(problem: Perceptron, config: LocalizeConfig) -> tuple[str, str]:
    """Return "amp", "ep" or "function", and the reason."""
    if not isinstance(config.denoiser, str):
        return "function", "it is a function of the user"
    if problem.intercept is not None and (config.denoiser == "amp" or config.damping != "auto"):
        raise ValueError("AMP takes no intercept: leave out denoiser and damping, or take denoiser='ep'.")
    if config.denoiser != "auto":
        return config.denoiser, "it is set by the option denoiser"
    if config.damping != "auto":
        return "amp", "the option damping is AMP's"
    if problem.intercept is not None:
        return "ep", "the problem has an intercept"
    if problem.target.prior.name not in ("binary", "levels", "gaussian"):
        return "amp", "it is the one for spherical weights"
    found = problem.structure()
    return ("ep", f"the patterns do not look random: {found}") if found else ("amp", "the patterns look random")


def place(problem: Perceptron, config: LocalizeConfig, denoiser: str) -> str:
    """Return "cpu" or "gpu"; "auto" takes the device only if it supports the run."""
    where = "cpu" if config.device == "cpu" else resolve(config.device)
    if where == "cpu" or denoiser == "ep":
        return where
    lacking = "A denoiser of your own runs on the CPU."
    if denoiser != "function":
        lacking = supported(problem, choose_variances(problem, config.variances) == "full", config.precision)
        if not problem.plain:
            lacking = "On a device AMP takes no clamped and no sample weights. Use device='cpu'."
    if lacking and config.device == "gpu":
        raise ValueError(lacking)
    return "cpu" if lacking else "gpu"


def plan_run(
    problems: list[Perceptron], seeds: list[np.random.SeedSequence], k: int, config: LocalizeConfig
) -> loop.Plan:
    """Choose what `config` leaves open: denoiser, device, steps, and when samples leave."""
    from solspace.samplers.kernels.philox import GpuNoise, Noise

    problem = problems[0]
    name, reason = choose_denoiser(problem, config)
    if name == "ep" and config.damping != "auto":
        raise ValueError("damping belongs to AMP; expectation propagation finds its own steps. Leave damping out.")
    prior = problem.target.prior
    row = ROWS.get(prior.name, "binary")
    device = place(problem, config, name)
    unit = _time_unit(problem)
    sweeps, exit_times = _exits(row, config, unit, problem)
    step = None if config.times is not None else config.step
    if config.step is None and sweeps and row == "binary" and config.accuracy != "careful":
        step = SHORT
    options = {
        "step": step,
        "longest": config.longest_step,
        "tolerance": config.tolerance or (EVEN if row == "binary" and problem.target.even else None),
        "limit": config.max_iterations,
        "damping": None if config.damping == "auto" else config.damping,
    }
    changes: Values = {name: value for name, value in options.items() if value is not None}
    fast, careful = (replace(own, **{"longest": unit * own.longest, **changes}) for own in (FAST[row], CAREFUL[row]))
    pace = careful if config.accuracy == "careful" else fast
    for one in problems:
        check_measure(one)
    settings = loop.Settings(
        device=device,
        denoiser=name,
        reason=reason,
        accuracy=config.accuracy,
        integrator=_integrator(row, prior, name, config),
        variances=(site_variances if name == "ep" else choose_variances)(problem, config.variances),
        precision="float64" if name == "ep" else config.precision,
        final_time=exit_times[-1],
        step=pace.step if config.times is None else "grid",
        finish=sweeps,
    )
    denoiser = _denoiser_of(problems, k, config, settings, pace)
    noise: Noise | GpuNoise
    columns, bits = denoiser.samples, None
    if isinstance(columns, GpuMessages):
        noise = GpuNoise(seeds, problem.n, k)
        bits = columns.patterns.columns if isinstance(columns.patterns, GpuSigns) else None
    else:
        noise = Noise(seeds[0], np.zeros_like(columns.mean))
    flips = prior.name == "binary" and problem.plain
    bath = (exits.Bath if flips else LevelBath)(problems, seeds, k, sweeps) if sweeps else None
    if sweeps and row != "binary":
        bath = exits.Rotated(problems, seeds, k, sweeps, exit_times)
    elif sweeps and flips and device == "gpu":
        bath = exits.GpuBath(problems, seeds, k, sweeps, bits)
    slower = careful if config.accuracy == "auto" else None
    return loop.Plan(problems, seeds, k, settings, pace, slower, config.times, exit_times, denoiser, noise, bath)


def _denoiser_of(
    problems: list[Perceptron], k: int, config: LocalizeConfig, settings: loop.Settings, pace: loop.Pace
) -> loop.Denoiser:
    problem = problems[0]
    if not isinstance(config.denoiser, str):
        return loop.Function(problem, k, config.precision, config.denoiser)
    if settings.denoiser == "ep":
        return loop.SitePropagation(propagation(problem, k, settings.variances, settings.device), pace)
    if settings.device == "gpu":
        messages: Messages | GpuMessages = GpuMessages(problems, k)
    else:
        kept = isinstance(problem.target.prior, (Levels, Gaussian))
        messages = Messages(problem, k, config.precision, full=settings.variances == "full", spreads=kept)
    return loop.MessagePassing(messages, config.damping == "auto", pace)


def _time_unit(problem: Perceptron) -> float:
    """Return the time at which two values of a weight are told apart as well as ±1 are at t = 1; of real weights, 1/σ²."""
    step = gap(problem.target.prior)
    return 1 / Factors(problem).variance if step is None else (2 / step) ** 2


def _integrator(row: str, prior: Prior, denoiser: str, config: LocalizeConfig) -> str:
    unknown = denoiser == "function" and isinstance(prior, (Levels, Gaussian))  # variances of the weights
    if config.integrator == "auto":
        return "heun" if unknown else INTEGRATOR[row]
    if unknown and config.integrator not in ("heun", "euler"):
        raise ValueError(
            f"a denoiser of your own returns no variances, which {config.integrator!r} needs: take 'heun'."
        )
    return config.integrator


def _exits(row: str, config: LocalizeConfig, unit: float, problem: Perceptron) -> tuple[int, list[float]]:
    """Return the sweeps in the field at the end and the times at which samples may leave."""
    times, final, sweeps = config.times, config.final_time, config.finish
    if times is not None:
        if final not in (None, times[-1]):
            raise ValueError(f"final_time is {final!r}, but the grid in step ends at {times[-1]:g}.")
        final = float(times[-1])
    real = row != "binary"
    if why := "" if real and problem.plain else lacks_moves(problem):
        if sweeps not in ("auto", 0):
            raise ValueError(why)
        sweeps = 0
    times_of: tuple[float, ...] = exits.TIMES
    chosen = exits.SWEEPS
    if real:
        large = problem.n * problem.m > exits.SMALL
        times_of, chosen = exits.ROTATION_TIMES[large], exits.ROTATIONS[large]
    usual = [unit * time for time in times_of]
    if isinstance(sweeps, str):
        last = unit * FINAL_TIME[row] if final is None else final
        early = [] if times is not None else [time for time in usual if time < last]
        return chosen, [*early, last]
    first = usual[-1 if real else 0]
    return sweeps, [(first if sweeps else unit * FINAL_TIME[row]) if final is None else final]


def _identity(plan: loop.Plan, config: LocalizeConfig) -> Values:
    (problem,), (seeds,) = plan.problems, plan.seeds
    chosen = {name: value for name, value in asdict(plan.settings).items() if name not in ("device", "reason")}
    return {
        **chosen,
        "paces": [str(plan.pace), str(plan.slower), plan.settings.denoiser == "amp" and config.damping == "auto"],
        "times": None if plan.times is None else plan.times.tolist(),
        "exits": plan.exits,
        "k": plan.k,
        "seed": [str(seeds.entropy), *seeds.spawn_key],
        "problem": fingerprint(problem),
    }


def _known(problem: Perceptron) -> str:
    """Return a sentence on the teacher of a planted problem, which meets what samples miss; empty where there is none."""
    if problem.teacher is None or not problem.is_solution(problem.teacher, problem.teacher_intercept):
        return ""
    return " The teacher meets them all: message passing is at means that know less of it than the labels do."


def _warnings(samples: Samples, run: loop.Loop, config: LocalizeConfig) -> Iterator[str]:
    (problem,), lost = run.plan.problems, run.diverged
    missed = ~samples.solved & ~lost & problem.target.potential.hard
    suspect = loop.unstable(samples.info["instability"]) & ~lost & ~missed
    further = "a lower load" + (", or ss.anneal" if problem.target.prior.name in ("binary", "levels") else "")
    if config.accuracy != "careful":
        further = f'accuracy="careful", a smaller step, {further}'
    if lost.any():
        cure = cures(problem, damped=config.damping == "auto")
        if run.plan.settings.denoiser == "ep":
            cure = 'Try denoiser="amp", which may reach biased solutions, a lower load, or ss.anneal.'
        yield f"message passing diverged in {lost.sum()} of {len(samples)} samples. {cure}"
    if missed.any():
        share = 1 - np.mean(run.record.converged)
        yield (
            f"{missed.sum()} of {len(samples)} samples miss constraints; message passing did not converge in {share:.0%} of "
            f"the calls. Try {further}." + _known(problem)
        )
    if suspect.any():
        highest = np.nanmax(samples.info["instability"][:, suspect])
        yield (
            f"message passing was unstable in {suspect.sum()} of {len(samples)} samples, which may be biased: λ reached "
            f"{highest:.3g}, and must stay below 1. Try {further}."
        )
