"""Potentials U(s), which give every constraint the weight ``exp(-U(s - margin) / T)``, and their names.

A potential is *hard* when its weight vanishes somewhere (``log_weight = -inf`` there) and *soft* when it is finite everywhere.
Here are the contract `Potential`, the potentials on a half line, and the adapter for an object of your own; walls and bands
are in `measure.bands`, likelihoods in `measure.likelihoods`. ``register`` adds a class of your own to the names, so that
targets built on it can be read from JSON.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import channels
from solspace.measure.quadrature import quadrature_channel
from solspace.numerics.arrays import Bools, Channel, Reals
from solspace.system.checks import number, unknown

__all__ = [
    *(
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
    ),
    *("Wall", "as_potential", "register", "wall"),
]

# stabilities at which a user's potential is tried when a target is built
_PROBE = np.concatenate([-np.logspace(-3, 3, 60), [0.0], np.logspace(-3, 3, 60)])


class Potential:
    """Base class of potentials U(s).

    A subclass defines `log_weight`, vectorised, and the `breakpoints` where that is not smooth. The output channel then
    follows by quadrature split at the breakpoints; `channel` can be overridden by a closed form.

    Attributes
    ----------
    name : str
        Name under which the potential is registered.
    breakpoints : tuple of float
        Stabilities, measured from the margin, at which the weight is not smooth.
    hard : bool
        Whether the weight vanishes on the wrong side of the margin.
    athermal : bool
        Whether the temperature changes nothing, since U is zero or infinite.
    likelihood : bool
        Whether exp(-U(s)) is the probability of the label +1, and 1 - exp(-U(s)) = exp(-U(-s)) that of -1.
    usual_temperature : float
        Temperature of a `Target` for which none is set.
    """

    name: ClassVar[str] = ""
    breakpoints: tuple[float, ...] = (0.0,)
    hard: bool = True
    athermal: ClassVar[bool] = False
    likelihood: bool = False
    usual_temperature: ClassVar[float] = 0.5

    @property
    def centre(self) -> float | None:
        """Stability about which the weight of a band is even, else None."""
        return None

    def log_weight(self, s: ArrayLike) -> Reals:
        """Return the log weight -U(s).

        Parameters
        ----------
        s : array_like
            Stabilities, measured from the margin.

        Returns
        -------
        ndarray
            -U(s), -inf where s is forbidden.
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method log_weight(s).")

    def violated(self, s: ArrayLike) -> Bools:
        """Return where a constraint is not met.

        Parameters
        ----------
        s : array_like
            Stabilities, measured from the margin.

        Returns
        -------
        ndarray of bool
            True where the constraint is violated.
        """
        return np.asarray(s) < 0

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        """Return log Z, g and dg of a Gaussian field under the weight exp(-beta U), see `Target.channel`.

        Parameters
        ----------
        omega : array_like
            Means of the field, measured from the margin.
        variance : array_like
            Variances, > 0.
        beta : float
            Inverse temperature, >= 0.

        Returns
        -------
        tuple of ndarray
            (log_z, g, dg).
        """
        if beta == 0 and not self.hard:
            return channels.linear_channel(omega, variance, 0.0)
        return quadrature_channel(lambda s: scaled_log_weight(self, s, beta), tuple(self.breakpoints), omega, variance)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        """Return g and dg of `channel`.

        Parameters
        ----------
        omega : ndarray
            Means of the field, measured from the margin.
        variance : array_like
            Variances, > 0.
        beta : float
            Inverse temperature, >= 0.

        Returns
        -------
        tuple of ndarray
            (g, dg).
        """
        return self.channel(omega, variance, beta)[1:]

    @property
    def parameters(self) -> dict[str, float]:
        """Parameters of the potential by name."""
        return {f.name: getattr(self, f.name) for f in fields(self)} if is_dataclass(self) else {}

    def __str__(self) -> str:
        values = ", ".join(f"{value:g}" for value in self.parameters.values())
        name = self.name or type(self).__name__
        return f"{name}({values})" if values else name


class Annealable(Potential):
    """A potential that τ-annealing reaches through a family U_τ, finite everywhere for τ > 0, as τ → 0."""

    def softened(self, tau: float) -> Potential:
        """Return the member of the family U_τ that τ-annealing follows to this potential.

        Parameters
        ----------
        tau : float
            τ in [0, 1].

        Returns
        -------
        Potential
            U_τ.
        """
        raise NotImplementedError


def scaled_log_weight(potential: Potential, s: ArrayLike, beta: float) -> Reals:
    """Return -beta U(s), the log weight at inverse temperature `beta`; at beta = 0 only what is forbidden counts."""
    s = np.asarray(s)
    if beta == 0:
        forbidden = potential.violated(s) if potential.hard else np.zeros(s.shape, bool)
        return np.where(forbidden, -np.inf, 0.0)
    return beta * potential.log_weight(s)


def positive_log(s: Reals) -> Reals:
    """Return log s, -inf where s <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(s > 0, s, 0.0))


@dataclass(frozen=True)
class Uniform(Potential):
    """U = 0: all solutions count the same.

    >>> Uniform().log_weight([-1.0, 2.0])
    array([-inf,   0.])
    """

    name = "uniform"
    athermal = True
    likelihood = True  # the step

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -np.inf, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.power_channel(omega, variance, 0.0)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        return Log().derivatives(omega, variance, 0.0)


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
        from solspace.numerics.power import gaussian_power  # imports Numba

        return gaussian_power(omega, variance, beta)

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        from solspace.numerics.power import gaussian_power_derivatives  # imports Numba

        return gaussian_power_derivatives(omega, variance, beta)

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
        rule = channels.hinge_channel if beta > 0 else super().channel
        return rule(omega, variance, beta)


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
        number(least=0, most=1)("tau", self.tau)
        object.__setattr__(self, "hard", self.tau == 0)

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s)
        level = positive_log(s)
        return np.where(s > 0, np.expm1(self.tau * level) / self.tau, (s - 1) / self.tau) if self.tau > 0 else level

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if self.tau == 0:
            return Log().channel(omega, variance, beta)
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
        number()("linear", self.linear)
        number(least=0)("quadratic", self.quadratic)

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s)
        return positive_log(s) + self.linear * s - self.quadratic * s**2

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.log_quadratic_channel(omega, variance, beta, self.linear, self.quadratic)


@dataclass(frozen=True)
class Own(Potential):
    """Adapter of a user's object with `log_weight(s)` and `breakpoints`."""

    model: Any

    def __post_init__(self) -> None:
        self.__dict__["name"] = getattr(self.model, "name", "") or type(self.model).__name__
        weight = probed(self)
        if np.isneginf(weight).all():
            raise ValueError(f"the weight of {self.name} is nowhere positive.")
        self.__dict__.update(
            hard=bool(np.isneginf(weight[np.abs(_PROBE) < 20]).any()),  # far out, a soft weight may overflow to -inf
            breakpoints=tuple(float(b) for b in np.atleast_1d(self.model.breakpoints)),
            **{name: getattr(self.model, name) for name in ("softened", "tau") if hasattr(self.model, name)},
        )

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            weight = np.asarray(self.model.log_weight(s), dtype=float)
        return _checked(f"{self.name}.log_weight", s, weight)

    def violated(self, s: ArrayLike) -> Bools:
        # the user's method, else where the weight vanishes (hard) or s < 0 (soft)
        if hasattr(self.model, "violated"):
            missed = np.asarray(self.model.violated(np.asarray(s)), dtype=bool)
            return _checked(f"{self.name}.violated", np.asarray(s), missed)
        if not self.hard:
            return np.asarray(s) < 0
        return np.isneginf(self.log_weight(s)) & ~np.isin(s, self.breakpoints)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return getattr(self.model, "channel", super().channel)(omega, variance, beta)

    @property
    def parameters(self) -> dict[str, float]:
        return {f.name: getattr(self.model, f.name) for f in fields(self.model)} if is_dataclass(self.model) else {}


def probed(potential: Potential) -> Reals:
    """Return the log weights of a user's potential at some stabilities; raise ValueError if they cannot be right."""
    name = potential.name or type(potential).__name__
    with np.errstate(all="ignore"):
        for s in (_PROBE[:, None], _PROBE):
            weight = _checked(f"{name}.log_weight", s, np.asarray(potential.log_weight(s), dtype=float))
    if np.isposinf(weight).any():
        raise ValueError(f"{name}.log_weight returned +inf; use -inf where s is forbidden.")
    return weight


def _checked(name: str, s: Reals, found: Any) -> Any:
    if found.shape != s.shape:
        raise ValueError(f"{name} must be vectorised: for stabilities of shape {s.shape} it returned {found.shape}.")
    wrong = np.isnan(found) & ~np.isnan(s)
    if wrong.any():
        raise ValueError(f"{name} returned NaN at s = {s[wrong][0]:.6g}; use -inf where s is forbidden.")
    return found


# their modules need the classes above
from solspace.measure.bands import Band, LogBand, TauWall, Wall  # noqa: E402
from solspace.measure.likelihoods import Flip, Logistic, Probit  # noqa: E402

wall = Wall
REGISTRY: dict[str, Callable[..., Potential]] = {}


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


for _class in (Uniform, Log, Hinge, Errors, Tau, Band, LogBand, Wall, TauWall, LogQuadratic, Logistic, Probit, Flip):
    register(_class)


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
            probed(potential)
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
    try:
        return REGISTRY[name](**_arguments(name, match.group(2) or ""))
    except (TypeError, ValueError) as error:
        raise ValueError(f"potential {text!r}: {error}") from error


def _arguments(name: str, text: str) -> dict[str, float]:
    # values by name: "2" by position, "linear=1" by name
    names = list(inspect.signature(REGISTRY[name]).parameters)
    takes = f"{name} takes {', '.join(names) or 'no parameters'}."
    values: dict[str, float] = {}
    for place, word in enumerate(word.strip() for word in text.split(",") if word.strip()):
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
