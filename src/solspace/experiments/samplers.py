"""The samplers a sweep can name: each is one function (problem, n_samples, rng, options) -> Samples, with a version."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solspace.experiments.checks import Check, number, one_of, sweeps, whole
from solspace.measure import Target
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.samples import Samples
from solspace.system.names import unknown

DEVICES = ("cpu", "gpu", "auto")
Draw = Callable[[Perceptron, int, RNG, Mapping[str, Any]], Samples]
DrawMany = Callable[[Iterable[Any], Sequence[Any]], Iterator[tuple[Any, list[Samples] | Exception]]]


@dataclass(frozen=True)
class Sampler:
    """A named sampler.

    Attributes
    ----------
    draw
        (problem, n_samples, rng, options) -> Samples.
    version
        Raised when the sampler's results change; old rows then stay in the store but no longer count.
    options
        Allowed options, each with a function (name, value) that returns the checked value or raises `ValueError`.
    work
        (n, m, n_samples, options) -> number of elementary operations, up to a constant: the shape of the cost.
    check
        Raises `ValueError` where the sampler cannot work on (n, target).
    numbers
        Samples -> numbers about the run to keep with each result.
    path
        Names in `samples.info` of what `keep = ["path"]` keeps.
    draw_many
        (batches, all their tasks) -> (batch, its list of Samples or the error it met), one after another and in any
        order, many at once on a device; None where there is no such thing. A batch (`device.Batch`) holds tasks that
        differ only in their instance.
    fits_device
        Task's values -> whether `draw_many` can do what they ask for; elsewhere the sampler says what it cannot do.
    anywhere
        Whether the samples are the same on every device: then a result made on one stands for all.
    """

    draw: Draw
    version: int
    work: Callable[[int, int, int, Mapping[str, Any]], float]
    options: Mapping[str, Check] = field(default_factory=dict)
    check: Callable[[int, Any], None] = lambda n, target: None
    numbers: Callable[[Samples], dict[str, float]] = lambda samples: {}
    path: tuple[str, ...] = ()
    draw_many: DrawMany | None = None
    fits_device: Callable[[Mapping[str, Any]], bool] = lambda values: True
    anywhere: bool = False


def _exact(problem: Perceptron, n_samples: int, rng: RNG, options: Mapping[str, Any]) -> Samples:
    return Samples.of(problem, problem.enumerate().sample(n_samples, rng), {"sampler": "exact"})


def _check_exact(n: int, target: Any) -> None:
    if n > 20 or target.prior.name != "binary":
        raise ValueError(
            f"sampler 'exact' needs binary weights and n <= 20, since it enumerates all of them; got n = {n}, "
            f"{target.prior} weights."
        )


def _localize(problem: Perceptron, n_samples: int, rng: RNG, options: Mapping[str, Any]) -> Samples:
    from solspace.samplers.localization.localize import localize

    with warnings.catch_warnings():
        # A sweep crosses thresholds on purpose: what did not converge is in the numbers.
        warnings.simplefilter("ignore")
        return localize(problem, n_samples, rng, progress=False, **options)


def _localize_many(batches: Iterable[Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    from solspace.samplers.localization.localize import localize_many

    for batch in batches:
        values, seeds = batch.tasks[0].values, [task.seed for task in batch.tasks]
        made: list[Samples] | Exception
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                made = localize_many(batch.drawn(), values["n_samples"], seeds, progress=False, **values["options"])
        except Exception as error:
            made = error
        yield batch, made


def _localizes_on_device(values: Mapping[str, Any]) -> bool:
    """Return whether `localize` can do on a device what a task asks for."""
    from solspace.samplers.marginals.gpu import form

    options = values["options"]
    variances = options.get("variances", "auto")
    scalar = variances == "scalar" or (variances == "auto" and values["patterns"] == "binary")
    single = options.get("precision", "float32") == "float32"
    return scalar and single and form(Target.from_dict(values["target"])) is not None


def _localize_numbers(samples: Samples) -> dict[str, float]:
    """Return AMP's iterations a sample, the fraction of its calls that missed their tolerance, and the largest λ."""
    info = samples.info
    ran = np.isfinite(info["instability"])
    return {
        "iterations": float(np.sum(info["iterations"]) / len(samples)),
        "unconverged": float(np.mean(~np.asarray(info["converged"], bool)[ran])) if ran.any() else 1.0,
        "instability": float(np.mean(np.nanmax(info["instability"], axis=0, initial=0.0))),
    }


def _annealer(schedule: str) -> Draw:
    def draw(problem: Perceptron, n_samples: int, rng: RNG, options: Mapping[str, Any]) -> Samples:
        from solspace.samplers.annealing.anneal import anneal

        return anneal(problem, n_samples, schedule=schedule, rng=rng, n_threads=1, progress=False, **options)

    return draw


def count(values: Mapping[str, Any]) -> int:
    """Return the number of constraints of a random problem."""
    return max(1, round(values["alpha"] * values["n"]))


def _annealer_of_many(schedule: str) -> DrawMany:
    def draw_many(batches: Iterable[Any], tasks: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        from solspace.samplers.annealing.gpu_flow import Lot, flow, warm

        company = sum(task.values["n_samples"] for task in tasks)
        for mode in ("sample", "solve"):
            asked = [t.values for t in tasks if t.values["options"].get("mode", "sample") == mode]
            binary = {(v["n"], count(v)) for v in asked if v["patterns"] == "binary"}
            warm(binary, company, mode == "solve")

        def lot(batch: Any) -> Lot:
            values = batch.tasks[0].values
            options = {name: value for name, value in values["options"].items() if name != "device"}
            seeds = [task.seed for task in batch.tasks]
            return Lot(batch.drawn, seeds, values["n_samples"], schedule=schedule, tag=batch, **options)

        return ((given.tag, made) for given, made in flow(map(lot, batches), company))

    return draw_many


def _annealing_numbers(samples: Samples) -> dict[str, float]:
    return {"acceptance": float(np.nanmean(samples.info["acceptance"]))}


def _annealing_work(n: int, m: int, k: int, options: Mapping[str, Any]) -> float:
    return float(n) * m * k * (options.get("n_sweeps", _SWEEPS) + options.get("n_extra", 0))


def _check_annealing(n: int, target: Any) -> None:
    if target.prior.name != "binary":
        raise ValueError(f"annealing flips ±1 weights: it needs binary weights; got {target.prior} weights.")


_SWEEPS = 1001
"""What `anneal` does when it is not told how many sweeps."""
_ANNEALING = {"n_sweeps": sweeps, "mode": one_of("mode", ("sample", "solve")), "device": one_of("device", DEVICES)}
_LOCALIZE = {
    "method": one_of("method", ("auto", "fast", "careful")),
    "integrator": one_of("integrator", ("auto", "matched", "heun", "posterior", "mixed", "euler")),
    "step": number(positive=True),
    "longest_step": number(positive=True),
    "final_time": number(positive=True),
    "tolerance": number(positive=True),
    "max_iterations": whole(1),
    "damping": lambda name, value: value if value == "auto" else number()(name, value),
    "variances": one_of("variances", ("auto", "scalar", "full")),
    "precision": one_of("precision", ("float32", "float64")),
    "device": one_of("device", DEVICES),
}
SAMPLERS: dict[str, Sampler] = {
    "exact": Sampler(_exact, 1, work=lambda n, m, k, options: 2.0**n * m, check=_check_exact),
    "asl": Sampler(
        _localize, 1, work=lambda n, m, k, options: float(n) * m * k, numbers=_localize_numbers, options=_LOCALIZE,
        path=("t", "overlap", "iterations", "converged", "instability"), draw_many=_localize_many,
        fits_device=_localizes_on_device,
    ),
    "tau": Sampler(
        _annealer("tau"), 1, work=_annealing_work, check=_check_annealing, numbers=_annealing_numbers,
        options={**_ANNEALING, "n_extra": whole(0), "thin": whole(1)}, path=("acceptance", "energy"),
        draw_many=_annealer_of_many("tau"), anywhere=True,
    ),
    "temperature": Sampler(
        _annealer("temperature"), 1, work=_annealing_work, check=_check_annealing, numbers=_annealing_numbers,
        options=_ANNEALING, path=("acceptance", "energy"), draw_many=_annealer_of_many("temperature"), anywhere=True,
    ),
}  # fmt: skip


def find(name: str) -> Sampler:
    """Return the sampler called `name`."""
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    return SAMPLERS[name]
