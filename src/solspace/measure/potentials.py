"""The potentials of the package, by name: uniform, log, hinge, errors, tau, band, log_band, wall, tau_wall, log_quadratic.

All take stabilities measured from the margin. ``register`` adds a class of your own to the names, so that targets built
on it can be read back from JSON.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import channels
from solspace.measure.bands import Band, LogBand, TauWall, Wall, wall
from solspace.measure.channels import Channel
from solspace.measure.potential import Annealable, Own, Potential, positive_log, probed
from solspace.numerics.arrays import Reals
from solspace.system.checks import unknown

__all__ = [
    "REGISTRY",
    "Band",
    "Errors",
    "Hinge",
    "Log",
    "LogBand",
    "LogQuadratic",
    "Potential",
    "Tau",
    "TauWall",
    "Uniform",
    "Wall",
    "as_potential",
    "register",
    "wall",
]


@dataclass(frozen=True)
class Uniform(Potential):
    """U = 0: all solutions count the same.

    >>> Uniform().log_weight([-1.0, 2.0])
    array([-inf,   0.])
    """

    name = "uniform"

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -np.inf, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.power_channel(omega, variance, 0.0)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        return channels.power_derivatives(omega, variance, 0.0)


@dataclass(frozen=True)
class Log(Annealable):
    """U = -log s, the paper's: the weight s^(1/T) keeps solutions away from the margin.

    >>> Log().log_weight([-1.0, 1.0])
    array([-inf,   0.])
    """

    name = "log"
    tau = 0.0

    def log_weight(self, s: ArrayLike) -> Reals:
        return positive_log(np.asarray(s))

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.power_channel(omega, variance, beta)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        return channels.power_derivatives(omega, variance, beta)

    def softened(self, tau: float) -> Potential:
        return Tau(tau)


@dataclass(frozen=True)
class Hinge(Potential):
    """U = -s on s < 0, 0 elsewhere: the distance of a violated constraint; soft.

    >>> Hinge().log_weight([-2.0, 1.0])
    array([-2.,  0.])
    """

    name = "hinge"
    hard = False

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.minimum(np.asarray(s), 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if beta == 0:
            return channels.linear_channel(omega, variance, 0.0)
        return channels.hinge_channel(omega, variance, beta)


@dataclass(frozen=True)
class Errors(Potential):
    """U = 1 on s < 0, 0 elsewhere: the number of violated constraints; soft.

    >>> Errors().log_weight([-2.0, 1.0])
    array([-1.,  0.])
    """

    name = "errors"
    hard = False

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -1.0, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.errors_channel(omega, variance, beta)


@dataclass(frozen=True)
class Tau(Annealable):
    """U = (1 - s^tau)/tau on s > 0, (1 - s)/tau on s <= 0: soft for tau > 0, the log potential at tau = 0.

    Parameters
    ----------
    tau : float, default 1.0
        τ in [0, 1].

    Examples
    --------
    >>> Tau(1.0).log_weight([-1.0, 0.5])
    array([-2. , -0.5])
    """

    tau: float = 1.0
    name = "tau"

    def __post_init__(self) -> None:
        if not 0 <= self.tau <= 1:
            raise ValueError(f"tau must lie in [0, 1]; got {self.tau!r}.")
        object.__setattr__(self, "hard", self.tau == 0)

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s)
        if self.tau == 0:
            return positive_log(s)
        right = np.expm1(self.tau * positive_log(s)) / self.tau
        return np.where(s > 0, right, (s - 1) / self.tau)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if self.tau == 0:
            return channels.power_channel(omega, variance, beta)
        if self.tau == 1:
            return channels.linear_channel(omega, variance, beta, -beta)
        return super().channel(omega, variance, beta)

    def softened(self, tau: float) -> Potential:
        return Tau(tau) if tau > 0 else Log()


@dataclass(frozen=True)
class LogQuadratic(Potential):
    """U = -log s - linear s + quadratic s² (theory notes 10).

    Parameters
    ----------
    linear : float, default 0.0
        Coefficient of s.
    quadratic : float, default 0.0
        Coefficient of s², >= 0.

    Examples
    --------
    >>> LogQuadratic(linear=1.0, quadratic=0.5).log_weight([-1.0, 1.0])
    array([-inf,  0.5])
    """

    linear: float = 0.0
    quadratic: float = 0.0
    name = "log_quadratic"

    def __post_init__(self) -> None:
        if not (np.isfinite(self.linear) and np.isfinite(self.quadratic) and self.quadratic >= 0):
            raise ValueError(
                f"LogQuadratic needs a finite linear and a finite quadratic >= 0; got linear={self.linear!r}, "
                f"quadratic={self.quadratic!r}."
            )

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s)
        return positive_log(s) + self.linear * s - self.quadratic * s**2

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.log_quadratic_channel(omega, variance, beta, self.linear, self.quadratic)


REGISTRY: dict[str, Callable[..., Potential]] = {
    cls.name: cls for cls in (Uniform, Log, Hinge, Errors, Tau, Band, LogBand, Wall, TauWall, LogQuadratic)
}


def register(potential: type) -> type:
    """Add a class of potentials to the names that `Target(potential=...)` takes; a decorator.

    Parameters
    ----------
    potential : type
        Its name is the class attribute `name`, else the name of the class; parameters are its dataclass fields.

    Returns
    -------
    type
        `potential`.
    """
    REGISTRY[getattr(potential, "name", "") or potential.__name__] = potential
    return potential


def as_potential(potential: object) -> Potential:
    """Return the potential for a name, a class or an object.

    Parameters
    ----------
    potential : str, type or object
        A name with parameters by position or by name ("band(0.8)", "log_quadratic(quadratic=2, linear=1)"), a class, or an
        object with `log_weight(s)` and `breakpoints`.

    Returns
    -------
    Potential
        The potential.

    Raises
    ------
    ValueError
        If the name is unknown, a parameter is wrong, or the object lacks `log_weight` or `breakpoints`.

    Examples
    --------
    >>> as_potential("band(0.8)"), as_potential("log_quadratic(quadratic=2, linear=1)")
    (Band(width=0.8), LogQuadratic(linear=1.0, quadratic=2.0))
    """
    if isinstance(potential, str):
        potential = _parse(potential)
    if isinstance(potential, type):
        potential = potential()
    if isinstance(potential, Potential):
        if not type(potential).__module__.startswith("solspace."):
            probed(potential, type(potential).__name__)
        return potential
    if not callable(getattr(potential, "log_weight", None)) or not hasattr(potential, "breakpoints"):
        raise ValueError(
            "potential must be a name or an object with a method log_weight(s) and an attribute breakpoints; "
            f"got {potential!r}."
        )
    return Own(potential)


def _parse(text: str) -> Any:
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*", text)
    name = match.group(1) if match else text
    if match is None or name not in REGISTRY:
        raise unknown("potential", name, REGISTRY)
    words = [word.strip() for word in (match.group(2) or "").split(",") if word.strip()]
    try:
        return REGISTRY[name](**_arguments(name, words))
    except (TypeError, ValueError) as error:
        raise ValueError(f"potential {text!r}: {error}") from error


def _arguments(name: str, words: list[str]) -> dict[str, float]:
    # values by name: "2" by position, "linear=1" by name
    names = list(inspect.signature(REGISTRY[name]).parameters)
    takes = f"{name} takes {', '.join(names)}." if names else f"{name} takes no parameters."
    values: dict[str, float] = {}
    for place, word in enumerate(words):
        key, named, number = word.rpartition("=")
        key = key.strip() if named else names[place] if place < len(names) else ""
        if key not in names:
            raise ValueError(f"there is no parameter {key!r}; {takes}" if named else f"too many parameters; {takes}")
        if key in values:
            raise ValueError(f"{key} is given twice; {takes}")
        try:
            values[key] = float(number)
        except ValueError:
            raise ValueError(f"{key} must be a number; got {number.strip()!r}.") from None
    return values
