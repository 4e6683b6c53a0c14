"""The contract of a potential U(s), and the adapter that makes a user's own object one.

A target gives every constraint the weight ``exp(-U(s - margin) / T)``. A potential is *hard* when its weight vanishes
somewhere (``log_weight = -inf`` there) and *soft* when it is finite everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import channels
from solspace.measure.channels import Channel
from solspace.numerics.arrays import Bools, Reals

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
    """

    name: ClassVar[str] = ""
    breakpoints: tuple[float, ...] = (0.0,)
    hard: bool = True

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
        """Return log Z, g and dg of a Gaussian field under the weight exp(-beta U).

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
        Channel
            Named tuple (log_z, g, dg), see `Target.channel`.
        """
        if beta == 0 and not self.hard:
            return channels.linear_channel(omega, variance, 0.0)
        return channels.quadrature_channel(
            lambda s: scaled_log_weight(self, s, beta), tuple(self.breakpoints), omega, variance
        )

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
        _, g, dg = self.channel(omega, variance, beta)
        return g, dg

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
    """Return -beta U(s): the log weight at inverse temperature `beta`; at beta = 0 only what is forbidden counts."""
    s = np.asarray(s)
    if beta == 0:
        forbidden = potential.violated(s) if potential.hard else np.zeros(s.shape, bool)
        return np.where(forbidden, -np.inf, 0.0)
    return beta * potential.log_weight(s)


@dataclass(frozen=True)
class Own(Potential):
    """A user's object with `log_weight(s)` and `breakpoints`, made into a `Potential`."""

    model: Any

    def __post_init__(self) -> None:
        weight = probed(self, type(self.model).__name__)
        if np.isneginf(weight).all():
            raise ValueError(f"the weight of {type(self.model).__name__} is nowhere positive.")
        # far out, a soft weight may overflow to -inf
        object.__setattr__(self, "hard", bool(np.isneginf(weight[np.abs(_PROBE) < 20]).any()))
        object.__setattr__(self, "breakpoints", tuple(float(b) for b in np.atleast_1d(self.model.breakpoints)))
        object.__setattr__(self, "name", getattr(self.model, "name", type(self.model).__name__))
        for optional in ("softened", "tau"):
            if hasattr(self.model, optional):
                object.__setattr__(self, optional, getattr(self.model, optional))

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s, dtype=float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            weight = np.asarray(self.model.log_weight(s), dtype=float)
        return _sound(type(self.model).__name__, s, weight)

    def violated(self, s: ArrayLike) -> Bools:
        # the user's method, else where the weight vanishes (hard) or s < 0 (soft)
        if hasattr(self.model, "violated"):
            missed = np.asarray(self.model.violated(np.asarray(s)), dtype=bool)
            return _of_shape(f"{type(self.model).__name__}.violated", np.shape(s), missed)
        if not self.hard:
            return np.asarray(s) < 0
        outside = np.isneginf(self.log_weight(s))
        return outside & ~np.isin(s, self.breakpoints)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if hasattr(self.model, "channel"):
            return self.model.channel(omega, variance, beta)
        return super().channel(omega, variance, beta)

    @property
    def parameters(self) -> dict[str, float]:
        if is_dataclass(self.model):
            return {f.name: getattr(self.model, f.name) for f in fields(self.model)}
        return {}


def probed(potential: Potential, name: str) -> Reals:
    """Return the log weights of a user's potential at some stabilities; raise ValueError if they cannot be right."""
    with np.errstate(all="ignore"):
        for s in (_PROBE[:, None], _PROBE):
            weight = _sound(name, s, np.asarray(potential.log_weight(s), dtype=float))
    if np.isposinf(weight).any():
        raise ValueError(f"{name}.log_weight returned +inf; use -inf where s is forbidden.")
    return weight


def _sound(name: str, s: Reals, weight: Reals) -> Reals:
    _of_shape(f"{name}.log_weight", s.shape, weight)
    wrong = np.isnan(weight) & ~np.isnan(s)
    if wrong.any():
        raise ValueError(f"{name}.log_weight returned NaN at s = {s[wrong][0]:.6g}; use -inf where s is forbidden.")
    return weight


def _of_shape(name: str, shape: tuple[int, ...], found: Reals | Bools) -> Any:
    if found.shape != shape:
        raise ValueError(
            f"{name} must be vectorised: for stabilities of shape {shape} it returned shape {found.shape}."
        )
    return found


def positive_log(s: Reals) -> Reals:
    """Return log s, -inf where s <= 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(np.where(s > 0, s, 0.0))
