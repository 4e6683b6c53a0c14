"""The measure to be sampled: P(w) ∏_μ exp(-U(s_μ - κ)/T), with stabilities s = ⟨x, w⟩/√n and margin κ."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import potentials, priors
from solspace.measure.potentials import Potential, scaled_log_weight
from solspace.measure.priors import Prior
from solspace.numerics.arrays import Bools, Channel, Reals
from solspace.system.checks import shown, unknown
from solspace.system.plain import Values, html_table

COLDEST, HOTTEST = 1e-8, 1e12  # temperatures between which tables of the channels stay small


@dataclass(init=False, repr=False, unsafe_hash=True)
class Target:
    """Measure over the weights, P(w) ∏_μ exp(-U(s_μ - κ)/T): prior, potential, temperature and margin.

    A target is immutable and hashable, and is stored as JSON with every result.

    Parameters
    ----------
    prior : str or Prior, default "binary"
        "binary" (±1), "spherical" (norm √n), "ternary", "ternary(0.3)" (a share of 0.3 is not zero), "levels(-3,-1,1,3)",
        "gaussian(1)" (real weights of that variance), or a `Prior`.
    potential : str or Potential, default "log"
        A name with parameters in parentheses ("uniform", "log", "hinge", "errors", "tau(0.5)", "band(1.0)",
        "log_quadratic(1.7, 1.2)", "logistic(2)", "probit(0.5)", "flip(0.1)"), a `Potential`, or any object with
        `log_weight(s)` and `breakpoints`.
    temperature : float, optional
        T between 1e-8 and 1e12, or infinity for the uniform measure on the allowed stabilities; by default 0.5, and 1 for
        the likelihoods logistic, probit and flip.
    margin : float, default 0.0
        κ, from which stabilities are measured.

    Raises
    ------
    ValueError
        If a name is unknown, the temperature is not positive, or the margin is not finite.

    Examples
    --------
    >>> target = Target(prior="spherical", potential="uniform", margin=-2.1)
    >>> print(target)
    spherical weights, uniform potential, margin -2.1
    >>> Target.from_json(target.to_json()) == target
    True
    """

    prior: Prior
    potential: Potential
    temperature: float
    margin: float

    def __init__(
        self,
        prior: str | Prior = "binary",
        potential: str | Potential = "log",
        temperature: float | None = None,
        margin: float = 0.0,
    ) -> None:
        self.__dict__.update(prior=priors.as_prior(prior), potential=potentials.as_potential(potential))
        if temperature is None:
            temperature = self.potential.usual_temperature
        self.__dict__.update(temperature=as_number("temperature", temperature), margin=as_number("margin", margin))
        if not self.temperature > 0:
            raise ValueError(f"temperature must be positive (inf for the uniform measure); got {temperature!r}.")
        if not (COLDEST <= self.temperature <= HOTTEST or math.isinf(self.temperature)):
            raise ValueError(
                f"temperature must lie between {COLDEST:g} and {HOTTEST:g}, or be inf for the uniform measure; "
                f"got {temperature!r}."
            )
        if not math.isfinite(self.margin):
            raise ValueError(f"margin must be a finite number; got {margin!r}.")

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target cannot be changed; use target.replace({name}=...).")

    @property
    def beta(self) -> float:
        """1/T, zero at infinite temperature."""
        return 1 / self.temperature

    def replace(self, **changes: Any) -> Target:
        """Return a target with some parts changed.

        Parameters
        ----------
        **changes : Any
            New values of `prior`, `potential`, `temperature` or `margin`.

        Returns
        -------
        Target
            The changed copy.

        Examples
        --------
        >>> Target().replace(margin=0.1).margin
        0.1
        """
        return Target(**vars(self) | changes)

    def log_weight(self, stabilities: ArrayLike) -> Reals:
        """Return -U(s - κ)/T, -inf where s is forbidden.

        Parameters
        ----------
        stabilities : array_like
            Stabilities s.

        Returns
        -------
        ndarray
            In the shape of `stabilities`.
        """
        return scaled_log_weight(self.potential, np.asarray(stabilities) - self.margin, self.beta)

    def violated(self, stabilities: ArrayLike) -> Bools:
        """Return where constraints are not met.

        Parameters
        ----------
        stabilities : array_like
            Stabilities s.

        Returns
        -------
        ndarray of bool
            In the shape of `stabilities`.
        """
        return self.potential.violated(np.asarray(stabilities) - self.margin)

    def channel(self, omega: ArrayLike, variance: ArrayLike) -> Channel:
        """Output channel: log Z, g and dg of Z = E[exp(-U(s - κ)/T)] for s ~ N(omega, variance) (theory notes 1).

        Parameters
        ----------
        omega : array_like
            Means of the Gaussian field.
        variance : array_like
            Variances, > 0; broadcast against `omega`.

        Returns
        -------
        tuple of ndarray
            (log_z, g, dg): log Z and its first two derivatives in `omega`; float32 for float32 arguments.

        Raises
        ------
        ValueError
            If a variance is not positive or `omega` is not finite.

        Examples
        --------
        >>> log_z, g, dg = Target(potential="uniform").channel(0.0, 1.0)
        >>> float(log_z.round(6)), float(g.round(6)), float(dg.round(6))
        (-0.693147, 0.797885, -0.63662)
        """
        omega, variance = _channel_arguments(omega, variance)
        if 0 in (omega.size, variance.size):
            empty = np.empty(np.broadcast_shapes(omega.shape, variance.shape), omega.dtype)
            return empty, empty.copy(), empty.copy()
        return self.potential.channel(omega - omega.dtype.type(self.margin), variance, self.beta)

    @property
    def even(self) -> bool:
        """Whether w and -w have the same weight, so that r = 0.

        Examples
        --------
        >>> Target(potential="log_band(1)").even, Target(potential="log").even
        (True, False)
        """
        _, g, dg = self.channel(0.0, 1.0)
        return self.prior.symmetric and bool(abs(float(g)) <= 1e-12 * np.sqrt(abs(float(dg))))

    def channel_derivatives(self, omega: Reals, variance: ArrayLike) -> tuple[Reals, Reals]:
        """Return g and dg of `channel` without checks, for inner loops.

        Parameters
        ----------
        omega : ndarray
            Means of the Gaussian field.
        variance : array_like
            Variances, > 0.

        Returns
        -------
        tuple of ndarray
            (g, dg) in the shape of `omega`.
        """
        if self.margin:
            omega = omega - omega.dtype.type(self.margin)
        return self.potential.derivatives(omega, variance, self.beta)

    def to_dict(self) -> Values:
        """Return the target as plain values.

        Returns
        -------
        dict
            Prior, potential with its parameters, temperature and margin.
        """
        potential = {"name": self.potential.name, **self.potential.parameters}
        temperature = "inf" if math.isinf(self.temperature) else self.temperature
        return {
            "prior": self.prior.to_dict(),
            "potential": potential,
            "temperature": temperature,
            "margin": self.margin,
        }

    @classmethod
    def from_dict(cls, values: Values) -> Target:
        """Return the target described by a dictionary of `to_dict`.

        Parameters
        ----------
        values : dict
            As returned by `to_dict`. Potentials of your own must be registered.

        Returns
        -------
        Target
            The target.
        """
        parameters = dict(values["potential"])
        name = parameters.pop("name")
        if name not in potentials.REGISTRY:
            raise unknown("potential", name, potentials.REGISTRY)
        return cls(**dict(values) | {"potential": potentials.REGISTRY[name](**parameters)})

    def to_json(self) -> str:
        """Return the target as one line of JSON with sorted keys.

        Returns
        -------
        str
            Equal for equal targets.
        """
        return json.dumps(self.to_dict(), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Target:
        """Return the target described by text of `to_json`.

        Parameters
        ----------
        text : str
            As returned by `to_json`.

        Returns
        -------
        Target
            The target.
        """
        return cls.from_dict(json.loads(text))

    def __repr__(self) -> str:
        names = f"prior={str(self.prior)!r}, potential={str(self.potential)!r}"
        return f"Target({names}, temperature={self.temperature:g}, margin={self.margin:g})"

    def __str__(self) -> str:
        heat = "" if self.potential.athermal else f", T = {self.temperature:g}"
        return f"{self.prior} weights, {self.potential} potential{heat}, margin {self.margin:g}"

    def _repr_html_(self) -> str:
        heat = [] if self.potential.athermal else [("temperature T", f"{self.temperature:g}")]
        rows = [("weights", str(self.prior)), ("potential U", str(self.potential)), *heat]
        return html_table("Target", [*rows, ("margin κ", f"{self.margin:g}")])


def as_number(name: str, value: Any) -> float:
    """Return a value as a float; raise ValueError if it is none."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number; got {value!r}.") from None
    if math.isnan(number):
        raise ValueError(f"{name} must be a number; got NaN.")
    return number


def _channel_arguments(omega: ArrayLike, variance: ArrayLike) -> tuple[Reals, Reals]:
    omega, variance = _reals("omega", omega), _reals("variance", variance)
    if not np.isfinite(omega).all():
        raise ValueError("omega, the mean of the stabilities, must be finite.")
    if not ((variance > 0) & np.isfinite(variance)).all():
        raise ValueError("variance must be positive and finite.")
    try:
        np.broadcast_shapes(omega.shape, variance.shape)
    except ValueError:
        shapes = f"{omega.shape} and {variance.shape}"
        raise ValueError(f"omega and variance must have shapes that broadcast; got {shapes}.") from None
    counted = {a.dtype for a in (omega, variance) if a.ndim or a.dtype == np.float32}  # not plain Python numbers
    dtype = np.float32 if counted == {np.dtype(np.float32)} else np.float64
    return omega.astype(dtype, copy=False), variance.astype(dtype, copy=False)


def _reals(name: str, values: ArrayLike) -> Reals:
    try:
        array = np.asarray(values)
    except ValueError:  # rows of unequal length
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a real number or an array of them; got {shown(values)}.")
    return array
