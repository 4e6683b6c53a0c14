"""Schedules: the measures that an annealed chain passes through, one for each sweep.

τ-annealing lowers τ linearly from 1 to 0 at the target's temperature: U_τ is finite on the wrong side of the margin
for every τ > 0 and becomes -log s at τ = 0 (of the distance from a wall elsewhere, or the product of both distances). The
last sweep *is* τ = 0, so that the chain ends in the measure that theory describes. Temperature annealing lowers T linearly
from 1 to 0 on a soft potential; its last sweep is T = 0 exactly, where a move that raises the energy is never made.
Tempering raises 1/T linearly from 0 to that of a soft target, such as a likelihood. "auto" is the one of these that ends in the
target: τ-annealing for log and walls, else tempering.

A schedule of your own is a sequence of `Target`s, or an object with `stages(target, n_sweeps)`; `register` gives it a name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import (
    Band,
    Errors,
    Hinge,
    Log,
    LogBand,
    Potential,
    Uniform,
    as_potential,
    scaled_log_weight,
)
from solspace.numerics.arrays import Array
from solspace.samplers.constraints import flat
from solspace.system.checks import unknown

__all__ = ["Stage", "TauAnnealing", "TemperatureAnnealing", "Tempering", "register"]


@dataclass(frozen=True)
class Stage:
    """What one sweep samples.

    Parameters
    ----------
    potential : Potential
        U.
    temperature : float
        T >= 0.
    margin : float, default 0
        κ.
    """

    potential: Potential
    temperature: float
    margin: float = 0.0

    def __post_init__(self) -> None:
        if not self.temperature >= 0:
            raise ValueError(f"temperature of a stage must not be negative; got {self.temperature!r}.")
        if self.temperature == 0 and self.potential.hard:
            raise ValueError(
                f"at temperature 0 the potential must be finite everywhere (hinge, errors, tau); got {self.potential}."
            )

    @classmethod
    def of(cls, target: Target | Stage) -> Stage:
        """Return the stage at which a chain samples a target.

        Parameters
        ----------
        target : Target or Stage
            Measure over the weights.

        Returns
        -------
        Stage
            The stage.
        """
        return cls(target.potential, target.temperature, target.margin)

    def energies(self, stabilities: Array) -> Array:
        """Return U/T, or U itself at T = 0.

        Parameters
        ----------
        stabilities : ndarray
            Stabilities s.

        Returns
        -------
        ndarray
            Infinite where s is forbidden.
        """
        beta = 1.0 if self.temperature == 0 else 1 / self.temperature
        return -scaled_log_weight(self.potential, stabilities - self.margin, beta)

    @property
    def target(self) -> Target:
        """The law that the stage leaves invariant; at T = 0 all solutions count the same."""
        if self.temperature == 0:
            return Target(potential="uniform", margin=self.margin)
        return Target(potential=self.potential, temperature=self.temperature, margin=self.margin)


def heats(stages: Sequence[Stage]) -> tuple[Array, Array]:
    """Return (stages,) whether T > 0, and what U/T is multiplied with to make U: T, 1 at T = 0, and 0 at infinite T."""
    temperature = np.array([stage.temperature for stage in stages])
    heat = np.where(temperature > 0, temperature, 1.0)
    return temperature > 0, np.where(np.isinf(heat), 0.0, heat)


class Schedule(Protocol):
    """A schedule, as `anneal` takes it."""

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        """Return one stage for each sweep.

        Parameters
        ----------
        target : Target
            The measure to sample.
        n_sweeps : int
            Number of sweeps.

        Returns
        -------
        sequence of Stage
            The last stage is the one that is sampled.
        """
        ...


def _linear(start: float, n_sweeps: int) -> list[float]:
    """Return values from `start` down to 0; 0 alone for one sweep."""
    return np.linspace(start, 0.0, n_sweeps).tolist() if n_sweeps > 1 else [0.0] * n_sweeps


@dataclass(frozen=True)
class TauAnnealing(Schedule):
    """τ from `start` to 0, linearly, at the target's temperature, along the family of the target's potential.

    Parameters
    ----------
    start : float, default 1
        First τ.

    Examples
    --------
    >>> stages = TauAnnealing().stages(Target(temperature=0.5), 3)
    >>> [str(stage.potential) for stage in stages]
    ['tau(1)', 'tau(0.5)', 'log']
    >>> str(TauAnnealing().stages(Target(potential="log_band(0.8)"), 3)[1].potential)
    'tau_wall(lower=-0.8, upper=0.8, tau=0.5)'
    """

    start: float = 1.0
    name = "tau"

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        potential = target.potential
        softened = getattr(potential, "softened", None)
        if softened is None:
            raise ValueError(
                f"schedule 'tau' ends in the log potential, a wall or log_band, but the target's is {potential}; "
                "use one of these, give the potential a method softened(tau), or a sequence of targets as the schedule."
            )
        hard = potential if potential.hard else softened(0.0)
        own = [as_potential(softened(tau)) if tau > 0 else hard for tau in _linear(self.start, n_sweeps)]
        return [Stage(one, target.temperature, target.margin) for one in own]


@dataclass(frozen=True)
class TemperatureAnnealing(Schedule):
    """T from `start` to 0, linearly, on the target's potential if it is hinge or errors, else on `potential`.

    Parameters
    ----------
    start : float, default 1
        First temperature.
    potential : str or Potential, default "hinge"
        Potential for targets with another one.

    Examples
    --------
    >>> [stage.temperature for stage in TemperatureAnnealing().stages(Target(), 3)]
    [1.0, 0.5, 0.0]
    """

    start: float = 1.0
    potential: str | Potential = "hinge"
    name = "temperature"

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        own = isinstance(target.potential, (Hinge, Errors))
        potential = target.potential if own else as_potential(self.potential)
        return [Stage(potential, heat, target.margin) for heat in _linear(self.start, n_sweeps)]


class Tempering:
    """1/T from 0 to that of the target, linearly, for soft potentials: likelihoods, hinge, errors, tau.

    For hard potentials it is τ-annealing. Where that ends elsewhere, it takes three quarters of the sweeps, and the last ones
    are at the target; for "uniform" and "band" the log potential is turned off in between, at a rising temperature.

    Examples
    --------
    >>> [stage.temperature for stage in Tempering().stages(Target(potential="logistic(2)"), 4)]
    [4.0, 2.0, 1.3333333333333333, 1.0]
    >>> [f"{stage.potential} {stage.temperature}" for stage in Tempering().stages(Target(potential="uniform"), 16)][-5:]
    ['log 0.5', 'log 0.5', 'log 1.0', 'uniform 0.5', 'uniform 0.5']
    """

    name = "tempering"

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        """Return one stage for each sweep.

        Parameters
        ----------
        target : Target
            The measure to sample.
        n_sweeps : int
            Number of sweeps.

        Returns
        -------
        sequence of Stage
            The last stage is the target.
        """
        if not target.potential.hard:
            shares = (np.arange(1, n_sweeps + 1) / n_sweeps).tolist()
            return [Stage(target.potential, target.temperature / share, target.margin) for share in shares]
        if hasattr(target.potential, "softened"):
            return TauAnnealing().stages(target, n_sweeps)
        even, late = flat(target), max(1, n_sweeps // 4)
        walls = LogBand(even.potential.width) if isinstance(even.potential, Band) else Log()
        if not isinstance(even.potential, (Band, Uniform)):  # no single interval is allowed
            return [Stage.of(target)] * n_sweeps
        soft = TauAnnealing().stages(Target(potential=walls, margin=even.margin), n_sweeps - late)
        rising = late // 2 if target.potential.athermal or np.isinf(target.temperature) else 0
        heats = [Target().temperature * rising / left for left in range(rising, 0, -1)]
        return [*soft, *(Stage(walls, heat, even.margin) for heat in heats), *[Stage.of(target)] * (late - rising)]


REGISTRY: dict[str, Callable[[], Schedule]] = {cls.name: cls for cls in (TauAnnealing, TemperatureAnnealing, Tempering)}
AUTO = "auto"
DEFAULT_SWEEPS = 1001


def register(schedule: type) -> type:
    """Register a schedule class under its class attribute `name`; use as a decorator.

    Parameters
    ----------
    schedule : type
        Class with a method `stages`, as in `Schedule`.

    Returns
    -------
    type
        The class.
    """
    REGISTRY[getattr(schedule, "name", "") or schedule.__name__] = schedule
    return schedule


def stages_of(schedule: Any, target: Target, n_sweeps: int | None) -> tuple[str, list[Stage]]:
    """Return a schedule's name and its stages, from a name, an object with `stages`, or a sequence of targets.

    >>> name, stages = stages_of([Target(temperature=1.0), Target(temperature=0.5)], Target(), None)
    >>> name, len(stages)
    ('own', 2)
    """
    if isinstance(schedule, str):
        if schedule == AUTO:
            potential = target.potential
            schedule = "tau" if potential.hard and hasattr(potential, "softened") else "tempering"
        if schedule not in REGISTRY:
            raise unknown("schedule", schedule, [AUTO, *REGISTRY])
        schedule = REGISTRY[schedule]()
    if hasattr(schedule, "stages"):
        n_sweeps = DEFAULT_SWEEPS if n_sweeps is None else n_sweeps
        return getattr(schedule, "name", type(schedule).__name__), list(schedule.stages(target, n_sweeps))
    try:
        stages = [Stage.of(item) for item in schedule]
    except (TypeError, AttributeError):
        raise ValueError(
            f"schedule must be one of {', '.join([AUTO, *REGISTRY])}, an object with stages(target, n_sweeps), or a sequence of "
            f"targets; got {schedule!r}."
        ) from None
    if not stages:
        raise ValueError("schedule must have at least one target; got an empty sequence.")
    if n_sweeps not in (None, len(stages)):
        raise ValueError(f"n_sweeps is {n_sweeps}, but the schedule has {len(stages)} targets; leave n_sweeps out.")
    return "own", stages
