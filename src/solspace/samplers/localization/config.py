"""The options of `localize`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Array
from solspace.samplers.localization.denoisers import DenoiserFunction
from solspace.samplers.localization.integrators import INTEGRATORS
from solspace.samplers.localization.pace import ACCURACIES
from solspace.samplers.options import (
    PRECISIONS,
    Config,
    choice,
    count,
    damping_option,
    device_option,
    option,
    positive_or_none,
    variances_option,
)
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
        """The grid of times where `step` is one."""
        return None if self.step is None or np.ndim(self.step) == 0 else np.asarray(self.step)
