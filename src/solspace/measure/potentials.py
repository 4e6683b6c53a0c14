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
from solspace.measure.potential import Own, Potential, positive_log, probed
from solspace.numerics.arrays import Reals
from solspace.system.names import unknown

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
        """Return 0 on solutions, -inf elsewhere."""
        return np.where(self.violated(s), -np.inf, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the closed form (theory notes 1.1, beta = 0)."""
        return channels.power_channel(omega, variance, 0.0)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        """Return (g, dg) by the fast kernel."""
        return channels.power_derivatives(omega, variance, 0.0)


@dataclass(frozen=True)
class Log(Potential):
    """U = -log s, the paper's: the weight s^(1/T) keeps solutions away from the margin.

    >>> Log().log_weight([-1.0, 1.0])
    array([-inf,   0.])
    """

    name = "log"
    tau = 0.0

    def log_weight(self, s: ArrayLike) -> Reals:
        """Return log s for s > 0, -inf elsewhere."""
        return positive_log(np.asarray(s))

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the closed form by parabolic cylinder functions (theory notes 1.1)."""
        return channels.power_channel(omega, variance, beta)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        """Return (g, dg) by the fast kernel."""
        return channels.power_derivatives(omega, variance, beta)

    def softened(self, tau: float) -> Potential:
        """Return the member τ of the family that annealing follows to this potential."""
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
        """Return s on the wrong side, 0 on the right one."""
        return np.minimum(np.asarray(s), 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the closed form: a Gaussian tail and a tilted one."""
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
        """Return -1 on the wrong side, 0 on the right one."""
        return np.where(self.violated(s), -1.0, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the closed form: two weighted Gaussian tails."""
        return channels.errors_channel(omega, variance, beta)


@dataclass(frozen=True)
class Tau(Potential):
    """U = (1 - s^tau)/tau on s > 0, (1 - s)/tau on s <= 0: soft for tau > 0, the log potential at tau = 0.

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
        """Return (s^tau - 1)/tau on s > 0 without cancellation at small tau, (s - 1)/tau elsewhere."""
        s = np.asarray(s)
        if self.tau == 0:
            return positive_log(s)
        right = np.expm1(self.tau * positive_log(s)) / self.tau
        return np.where(s > 0, right, (s - 1) / self.tau)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the log potential's closed form at tau = 0, quadrature otherwise."""
        if self.tau == 0:
            return channels.power_channel(omega, variance, beta)
        return super().channel(omega, variance, beta)

    def softened(self, tau: float) -> Potential:
        """Return another member of the family; the log potential at τ = 0."""
        return Tau(tau) if tau > 0 else Log()


@dataclass(frozen=True)
class LogQuadratic(Potential):
    """U = -log s - linear s + quadratic s^2: the family whose best member ASL likes most (theory notes 10).

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
        """Return log s + linear s - quadratic s^2 for s > 0, -inf elsewhere."""
        s = np.asarray(s)
        return positive_log(s) + self.linear * s - self.quadratic * s**2

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return the closed form: the log potential's with shifted field and variance."""
        return channels.log_quadratic_channel(omega, variance, beta, self.linear, self.quadratic)


REGISTRY: dict[str, Callable[..., Potential]] = {
    cls.name: cls for cls in (Uniform, Log, Hinge, Errors, Tau, Band, LogBand, Wall, TauWall, LogQuadratic)
}


def register(cls: type) -> type:
    """Let `cls` be named in `Target(potential=name)` and read back from JSON; use as a decorator.

    The name is the class attribute `name`, else the class's own. Parameters are read back from dataclass fields.
    """
    REGISTRY[getattr(cls, "name", "") or cls.__name__] = cls
    return cls


def as_potential(given: object) -> Potential:
    """Return the potential that a name (`"log"`, `"band(0.8)"`), an object or a class stands for; parameters go by place or name.

    >>> as_potential("band(0.8)"), as_potential("log_quadratic(quadratic=2, linear=1)")
    (Band(width=0.8), LogQuadratic(linear=1.0, quadratic=2.0))
    """
    if isinstance(given, str):
        given = _parse(given)
    if isinstance(given, type):
        given = given()
    if isinstance(given, Potential):
        if not type(given).__module__.startswith("solspace."):
            probed(given, type(given).__name__)
        return given
    if not callable(getattr(given, "log_weight", None)) or not hasattr(given, "breakpoints"):
        raise ValueError(
            "potential must be a name or an object with a method log_weight(s) and an attribute breakpoints; "
            f"got {given!r}."
        )
    return Own(given)


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
    # values by name: "2" goes by its place, "linear=1" to the parameter it names
    names = list(inspect.signature(REGISTRY[name]).parameters)
    takes = f"{name} takes {', '.join(names)}." if names else f"{name} takes no parameters."
    values: dict[str, float] = {}
    for place, word in enumerate(words):
        key, given, number = word.rpartition("=")
        key = key.strip() if given else names[place] if place < len(names) else ""
        if key not in names:
            raise ValueError(f"there is no parameter {key!r}; {takes}" if given else f"too many parameters; {takes}")
        if key in values:
            raise ValueError(f"{key} is given twice; {takes}")
        try:
            values[key] = float(number)
        except ValueError:
            raise ValueError(f"{key} must be a number; got {number.strip()!r}.") from None
    return values
