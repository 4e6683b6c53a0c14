"""The samplers a sweep can name: each is one function (problem, n_samples, rng, options) -> Samples, with a version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from solspace.experiments.checks import Check, one_of, sweeps, whole
from solspace.numerics.names import unknown
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.samples import Samples

DEVICES = ("cpu", "gpu", "auto")
Draw = Callable[[Perceptron, int, RNG, Mapping[str, Any]], Samples]


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
    """

    draw: Draw
    version: int
    work: Callable[[int, int, int, Mapping[str, Any]], float]
    options: Mapping[str, Check] = field(default_factory=dict)
    check: Callable[[int, Any], None] = lambda n, target: None


def _exact(problem: Perceptron, n_samples: int, rng: RNG, options: Mapping[str, Any]) -> Samples:
    return Samples.of(problem, problem.enumerate().sample(n_samples, rng), {"sampler": "exact"})


def _check_exact(n: int, target: Any) -> None:
    if n > 20 or target.prior.name != "binary":
        raise ValueError(
            f"sampler 'exact' needs binary weights and n <= 20, since it enumerates all of them; got n = {n}, "
            f"{target.prior} weights."
        )


def _annealer(schedule: str) -> Draw:
    def draw(problem: Perceptron, n_samples: int, rng: RNG, options: Mapping[str, Any]) -> Samples:
        from solspace.samplers.anneal import anneal

        return anneal(problem, n_samples, schedule=schedule, rng=rng, n_threads=1, progress=False, **options)

    return draw


def _annealing_work(n: int, m: int, k: int, options: Mapping[str, Any]) -> float:
    return float(n) * m * k * (options.get("n_sweeps", _SWEEPS) + options.get("n_extra", 0))


def _check_annealing(n: int, target: Any) -> None:
    if target.prior.name != "binary":
        raise ValueError(f"annealing flips ±1 weights: it needs binary weights; got {target.prior} weights.")


_SWEEPS = 1001
"""What `anneal` does when it is not told how many sweeps."""
_ANNEALING = {"n_sweeps": sweeps, "mode": one_of("mode", ("sample", "solve")), "device": one_of("device", DEVICES)}
SAMPLERS: dict[str, Sampler] = {
    "exact": Sampler(_exact, 1, work=lambda n, m, k, options: 2.0**n * m, check=_check_exact),
    "tau": Sampler(
        _annealer("tau"), 1, work=_annealing_work, check=_check_annealing,
        options={**_ANNEALING, "n_extra": whole(0), "thin": whole(1)},
    ),
    "temperature": Sampler(
        _annealer("temperature"), 1, work=_annealing_work, check=_check_annealing, options=_ANNEALING
    ),
}  # fmt: skip


def find(name: str) -> Sampler:
    """Return the sampler called `name`."""
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    return SAMPLERS[name]
