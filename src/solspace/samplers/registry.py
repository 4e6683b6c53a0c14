"""The samplers by name: options, record, cost, and how each shares a device. All that offers samplers reads this table.

`SAMPLERS["tau"].draw(problem, 16, rng=1, n_sweeps=200)` is `ss.anneal(problem, 16, 200, schedule="tau", rng=1)`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import Field, dataclass, replace
from functools import lru_cache, partial
from typing import Any

from solspace.enumeration import LARGEST
from solspace.info import AnnealingInfo, Info, LocalizationInfo, SolvingInfo
from solspace.measure import Target
from solspace.measure.priors import Levels
from solspace.numerics.streams import RNG, child, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing import anneal, real_forms, schedules
from solspace.samplers.annealing.batches import CHAINS, Batch, CallJob, ChainJob, Job, Start, flips_module, movable
from solspace.samplers.kernels.cuda import Sizes
from solspace.samplers.localization import localize
from solspace.samplers.localization.intercepts import draw_intercepts
from solspace.samplers.solving import solve
from solspace.samples import Samples
from solspace.system.checks import Config, one_of


@dataclass(frozen=True)
class DeviceMethod:
    """How the batches of a sampler share a device; samplers with the same method run side by side."""

    name: str
    start: Start
    most: int = 2048  # samples in a batch at most; at least one problem is
    # (batch, samples in all) -> the CUDA module that it will need
    module: Callable[[Batch, int], tuple[str, Sizes] | None] = lambda batch, total: None
    # (problem, sampler, config) -> what a thread can compute of a problem beforehand
    prepare: Callable[[Perceptron, str, Any], Any] = lambda problem, sampler, config: None


@dataclass(frozen=True)
class Sampler:
    name: str
    title: str  # the name in text
    about: str  # a line of help
    size: int  # default number of weights on the command line
    draw: Callable[..., Any]  # (problem or problems, n_samples, rng=…, **options) -> Samples or a list of them
    info: type[Info]  # the record of a run
    work: Callable[[int, int, int, Any], float]  # (n, m, n_samples, config) -> cost, up to a constant
    config: type[Config]
    lacks: Callable[[int, Target], str]  # (n, target) -> what keeps the sampler from working there, "" if nothing does
    any_patterns: bool = True  # whether it is meant for a user's own data
    fair: bool = True  # whether its samples follow a law
    version: int = 1  # raised when its results change; old rows then stay in a store but no longer count
    method: Callable[[Any], DeviceMethod] | None = None  # config -> how tasks with it share a device, if they do
    on_device: Callable[[Perceptron, Any], bool] = lambda problem, config: True  # whether `method` supports these
    anywhere: bool = False  # whether samples are the same on every device, so that a result of one counts for all

    @property
    def options(self) -> dict[str, Field[Any]]:
        return self.config.__dataclass_fields__

    def check(self, n: int, target: Target) -> None:
        if lacking := self.lacks(n, target):
            raise ValueError(lacking)


FIRST = "tau-first"  # τ-annealing that stops at its first solution
# parts of a device for a batch that is localized, a problem that is solved, and one whose replicas are exchanged
_LOCALIZED, _SOLVED, _EXCHANGED = 1 / 3, 1 / 8, 1 / 16
_LARGE = 10**7  # entries of the patterns above which a problem that is solved takes two parts


def find(name: str) -> Sampler:
    """Return the sampler called `name`.

    >>> find("tau").options["n_extra"].default
    0
    """
    return SAMPLERS[one_of(SAMPLERS)("sampler", name)]


def _exact(problem: Perceptron, n_samples: int, rng: RNG = None, progress: bool | None = None) -> Samples:
    law, info = problem.enumerate(), Info(sampler="exact")
    if problem.intercept is None:
        return Samples.of(problem, law.sample(n_samples, rng), info)
    seeds = seed_sequence(rng)
    weights = law.sample(n_samples, seeds)
    return Samples.of(problem, weights, info, intercepts=draw_intercepts(problem, weights, child(seeds, 1)))


def _lacks_exact(n: int, target: Target) -> str:
    prior = target.prior
    levels = len(prior.values) if isinstance(prior, Levels) else 2 if prior.name == "binary" else 0
    if levels and n * math.log2(levels) <= LARGEST + 1e-9:
        return ""
    most = f"n <= {int(LARGEST / math.log2(levels) + 1e-9)}" if levels else f"n <= {LARGEST}"
    kind = prior if levels else "binary"
    return f"sampler 'exact' needs {kind} weights and {most}, since it enumerates all of them; got n = {n}, {prior} weights."


def _lacks_annealing(n: int, target: Target) -> str:
    return "" if target.prior.name in anneal.PRIORS else f"annealing takes no {target.prior} weights."


def _lacks_tau(n: int, target: Target) -> str:
    if hasattr(target.potential, "softened"):
        return _lacks_annealing(n, target)
    return f"τ-annealing ends in the log potential, a wall or log_band; got {target.potential}."


def _schedule(sampler: str) -> str:
    return "tau" if sampler == FIRST else sampler


_make_plan = lru_cache(maxsize=64)(anneal.make_plan)  # batches with equal options share a plan


def _chains(batch: Batch, problems: list[Perceptron], total: int) -> Job:
    plan = _make_plan(problems[0].target, _schedule(batch.sampler), batch.config, batch.sampler == FIRST)
    return ChainJob(batch, problems, plan, total, named=False)  # the samples become numbers


def _chains_module(batch: Batch, total: int) -> tuple[str, Sizes]:
    how = {"solve": batch.sampler == FIRST, "linear": batch.sampler == "temperature", "own": batch.n_samples == 1}
    return flips_module(batch.shape, total, **how)


def _fixed_point(problem: Perceptron, sampler: str, config: Any) -> Any:
    """Return the patterns in fixed point where they are not ±1."""
    if problem.has_binary_patterns:
        return None
    return real_forms.fixed_point(problem, _reach(problem.target, _schedule(sampler), config))


@lru_cache(maxsize=64)
def _reach(target: Target, schedule: str, config: anneal.AnnealConfig) -> float:
    return real_forms.reach_of(_make_plan(target, schedule, config).stages)


def _exchange(batch: Batch, problems: list[Perceptron], total: int) -> Job:
    (problem,), (seed,), config = problems, batch.seeds, replace(batch.config, device="gpu")
    run = partial(anneal.run_chains, problem, batch.n_samples, batch.sampler, seed, config, total=CHAINS)
    return CallJob(lambda report: [run(callback=report)], _EXCHANGED)


def _localize(batch: Batch, problems: list[Perceptron], total: int) -> Job:
    run = partial(localize.localize_many, problems, batch.n_samples, batch.seeds, batch.config, progress=False)
    return CallJob(lambda report: run(callback=report), _LOCALIZED)


def _localize_module(batch: Batch, total: int) -> tuple[str, Sizes] | None:
    if batch.shape.target.prior.name != "binary" or batch.config.finish == 0:
        return None
    # the finish walks two replicas of each sample
    return flips_module(batch.shape, 2 * batch.n_samples * len(batch.seeds), fielded=True)


def _localizes_on_device(problem: Perceptron, config: localize.LocalizeConfig) -> bool:
    name, _ = localize.choose_denoiser(problem, config)
    return localize.place(problem, replace(config, device="auto"), name) == "gpu"


def _solve(batch: Batch, problems: list[Perceptron], total: int) -> Job:
    (problem,), (seed,) = problems, batch.seeds
    share = _SOLVED * (1 + (problem.n * problem.m > _LARGE))
    return CallJob(lambda report: [solve.searched(problem, batch.n_samples, seed, batch.config, report)[0]], share)


_CHAINS = DeviceMethod("chains", _chains, module=_chains_module, prepare=_fixed_point)
_EXCHANGE = DeviceMethod("exchange", _exchange, 1, lambda batch, total: flips_module(batch.shape, CHAINS), _fixed_point)
_LOCALIZE = DeviceMethod("localize", _localize, module=_localize_module)
_SOLVE = DeviceMethod("solve", _solve, most=1)


def _sweeps(n: int, m: int, k: int, config: anneal.AnnealConfig) -> float:
    return float(n) * m * k * ((config.n_sweeps or schedules.DEFAULT_SWEEPS) + config.n_extra)


def _entries(n: int, m: int, k: int, config: Config) -> float:
    return float(n) * m * k


def _annealer(name: str, title: str, about: str, lacks: Callable[[int, Target], str] = _lacks_annealing) -> Sampler:
    return Sampler(
        name, title, about, 1001, partial(anneal.anneal, schedule=name), AnnealingInfo, _sweeps, anneal.AnnealConfig,
        lacks, method=lambda config: _EXCHANGE if config.exchange else _CHAINS,
        on_device=lambda problem, config: movable(problem), anywhere=True,
    )  # fmt: skip


SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for sampler in (
        Sampler(
            "asl", "ASL", "stochastic localization with message passing; fair on random patterns below its threshold", 2001,
            localize.localize, LocalizationInfo, _entries, localize.LocalizeConfig, lambda n, target: "", version=6,
            method=lambda config: _LOCALIZE, on_device=_localizes_on_device,
        ),
        _annealer(
            "tau", "τ-annealing",
            "Metropolis with the potential annealed towards -log s; works on any patterns", _lacks_tau,
        ),
        Sampler(
            FIRST, "τ-annealing to a solution", "τ-annealing that stops at its first solution; follows no law", 1001,
            anneal.first_solutions, AnnealingInfo, _sweeps, anneal.AnnealConfig, _lacks_annealing, fair=False,
            method=lambda config: _CHAINS, on_device=lambda problem, config: movable(problem), anywhere=True,
        ),
        _annealer(
            "temperature", "temperature annealing",
            "Metropolis with the temperature annealed to 0 on the hinge (or errors) potential; for comparison",
        ),
        _annealer(
            "tempering", "tempering",
            "Metropolis with the temperature annealed to the target's; for posteriors under any likelihood",
        ),
        Sampler(
            "exact", "enumeration", "enumeration of all weights, 2^20 at most; the judge of the others", 15, _exact, Info,
            lambda n, m, k, config: 2.0**n * m, Config, _lacks_exact, any_patterns=False,
        ),
        Sampler(
            "solve", "solve", "any solution, by reinforced message passing and what else helps; follows no law", 1001,
            solve.solve, SolvingInfo, _entries, solve.SolveConfig, solve.lacks, fair=False,
            method=lambda config: _SOLVE,
            on_device=lambda problem, config: solve.on_device(problem.target, problem.looks_random(), config.method),
        ),
    )
}  # fmt: skip
