"""Priors: where the weights live, and their marginals under a Gaussian tilt (the input channel of message passing).

A prior returns the mean and variance of each weight under ``P(w) exp(-A w^2/2 + B w)``. To add one, write a class with
the methods of `Prior` and put it into ``REGISTRY``; what replica theory needs of it is in `theory.weights`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Bools, Reals
from solspace.numerics.streams import RNG, generator
from solspace.system.checks import number, reals, unknown


class Prior:
    """Base class of priors.

    Attributes
    ----------
    name : str
        Name under which the prior is registered.
    conjugate_growth : float
        Replica theory: q̂ diverges like (1 - q)^-conjugate_growth as q → 1; 0, of discrete weights, is 2 log 1/(1 - q).
    """

    name: ClassVar[str] = ""
    conjugate_growth: float = 0.0

    @property
    def symmetric(self) -> bool:
        """Whether w and -w are equally probable."""
        return True

    @property
    def discrete(self) -> bool:
        """Whether weights can be counted: the entropy has a zero, and φ_t a finite value at q = 1."""
        return self.conjugate_growth == 0

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Reals, Reals]:
        """Return mean and variance of the weights under P(w) exp(-A w²/2 + B w).

        Parameters
        ----------
        precision : array_like
            A, one number or one for each weight.
        field : array_like
            B, (n, ...), weights along the first axis.

        Returns
        -------
        tuple of ndarray
            (mean, variance), in the shape of `field`.
        """
        raise NotImplementedError

    def decode(self, mean: ArrayLike) -> Reals:
        """Return the weights for a localized posterior mean.

        Parameters
        ----------
        mean : array_like
            Posterior means, (..., n).

        Returns
        -------
        ndarray
            Weights in the support of the prior, (..., n).
        """
        raise NotImplementedError

    def contains(self, weights: ArrayLike) -> Bools:
        """Return whether weights lie in the support of the prior.

        Parameters
        ----------
        weights : array_like
            Weights, (..., n).

        Returns
        -------
        ndarray of bool
            (...,).
        """
        raise NotImplementedError

    def draw(self, n: int, rng: RNG = None) -> Reals:
        """Draw weights from the prior.

        Parameters
        ----------
        n : int
            Number of weights.
        rng : int, Generator, SeedSequence or None
            Seed.

        Returns
        -------
        ndarray
            (n,).
        """
        raise NotImplementedError(f"{type(self).__name__} needs a method draw(n, rng) to draw a teacher.")

    def to_dict(self) -> Any:
        """Return the prior as a plain value, from which `as_prior` makes it again.

        Returns
        -------
        str or dict
            The name, with parameters where there are any.
        """
        return self.name

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Binary(Prior):
    """Weights ±1.

    >>> mean, variance = Binary().marginals(0.0, [0.0, 2.0])
    >>> mean.round(4), variance.round(4)
    (array([0.   , 0.964]), array([1.    , 0.0707]))
    """

    name = "binary"

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Reals, Reals]:
        field = _floating(field)
        decay = np.exp(-2 * np.abs(field))
        variance = 4 * decay / (1 + decay) ** 2
        return np.tanh(field), variance

    def decode(self, mean: ArrayLike) -> Reals:
        return np.where(np.asarray(mean) >= 0, np.int8(1), np.int8(-1))

    def contains(self, weights: ArrayLike) -> Bools:
        return (np.abs(weights) == 1).all(axis=-1)

    def draw(self, n: int, rng: RNG = None) -> Reals:
        return (2 * generator(rng).integers(0, 2, n) - 1).astype(np.int8)


@dataclass(frozen=True)
class Spherical(Prior):
    """Weights on the sphere of radius √n.

    >>> mean, variance = Spherical().marginals(0.0, np.array([1.0, -1.0, 1.0]))
    >>> float(np.mean(mean**2 + variance).round(12))
    1.0
    """

    name = "spherical"
    conjugate_growth = 1.0

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Reals, Reals]:
        field = _floating(field)
        precision = np.asarray(precision, dtype=field.dtype)
        multiplier = self.norm_multiplier(precision, field)
        total = precision + multiplier
        variance = np.broadcast_to(1 / total, field.shape)
        return field * variance, variance

    def norm_multiplier(self, precision: ArrayLike, field: ArrayLike) -> Reals:
        """Return γ, () or (k,), such that mean² + variance averages to 1 in the field B (n,) or (n, k).

        With one precision A for all weights, Λ = A + γ = (1 + √(1 + 4b))/2, b = mean(B²); with one for each weight, the root
        of mean(B²/Λ² + 1/Λ) = 1 by Newton's method.
        """
        field = _floating(field)
        precision = np.asarray(precision, dtype=field.dtype)
        if precision.ndim < field.ndim or precision.shape[0] == 1:
            power = np.mean(field**2, axis=0, dtype=np.float64)
            total = (1 + np.sqrt(1 + 4 * power)) / 2
            return (total - precision).astype(field.dtype)
        return _uneven_multiplier(precision.astype(float), field.astype(float)).astype(field.dtype)

    def decode(self, mean: ArrayLike) -> Reals:
        mean = np.asarray(mean, dtype=float)
        return mean * (np.sqrt(mean.shape[-1]) / np.linalg.norm(mean, axis=-1, keepdims=True))

    def contains(self, weights: ArrayLike) -> Bools:
        weights = np.asarray(weights, dtype=float)
        return np.abs(np.linalg.norm(weights, axis=-1) / np.sqrt(weights.shape[-1]) - 1) < 1e-6

    def draw(self, n: int, rng: RNG = None) -> Reals:
        return self.decode(generator(rng).standard_normal(n))


def _uneven_multiplier(precision: Reals, field: Reals) -> Reals:
    # F(γ) = mean(B²/Λ² + 1/Λ) = 1: F^(-1/2), a power mean of Λ = A + γ, is concave and rises, and almost straight; so
    # Newton climbs to its root without overshooting from any point with F > 1. Each weight alone contributes 1/(n Λ)
    # + ..., so γ = 1/n - min A is such a point, and so is the root that the largest A would have for all weights.
    lowest, square = precision.min(axis=0), field**2
    even = (1 + np.sqrt(1 + 4 * square.mean(axis=0))) / 2
    gamma = np.maximum(1 / len(field) - lowest, even - precision.max(axis=0))
    for _ in range(100):
        width = 1 / (precision + gamma)
        bent = square * width
        value = np.einsum("i...,i...->...", bent + 1, width) / len(field)
        slope = np.einsum("i...,i...,i...->...", 2 * bent + 1, width, width) / len(field)
        step = 2 * value * (np.sqrt(value) - 1) / slope
        gamma = gamma + step
        if np.all(np.abs(step) <= 1e-14 * (np.abs(gamma) + np.abs(lowest) + 1)):
            break
    return gamma


def _floating(values: ArrayLike) -> Reals:
    values = np.asarray(values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(float)


@dataclass(frozen=True)
class Levels(Prior):
    """Weights from a finite set of values.

    Counts, log Z and entropies weigh a configuration by the product of L times the probabilities of its weights, L being the
    number of levels: with equal probabilities configurations are counted.

    Parameters
    ----------
    values : sequence of float
        At least two different values.
    probabilities : sequence of float, optional
        Positive prior probabilities of the values, normalised; equal by default.

    Examples
    --------
    >>> print(Levels([-1, 0, 1]), Levels([-3, -1, 1, 3]), as_prior("ternary(0.5)").probabilities)
    ternary levels(-3,-1,1,3) (0.25, 0.5, 0.25)
    >>> mean, variance = Levels([-1, 0, 1]).marginals(1.0, [0.0, 2.0])
    >>> mean.round(4), variance.round(4)
    (array([0.    , 0.7908]), array([0.5481, 0.195 ]))
    """

    values: tuple[float, ...]
    probabilities: tuple[float, ...] | None = None
    name = "levels"

    def __post_init__(self) -> None:
        values = reals("values", self.values)
        if values.ndim != 1 or len(values) < 2 or len(np.unique(values)) < len(values):
            raise ValueError(f"values must be at least two different numbers; got {self.values!r}.")
        if not np.isfinite(values).all():
            raise ValueError(f"values must be finite; got {self.values!r}.")
        order = np.argsort(values)
        shares = None
        if self.probabilities is not None:
            shares = reals("probabilities", self.probabilities)
            if shares.shape != values.shape or not (np.isfinite(shares) & (shares > 0)).all():
                raise ValueError(f"probabilities must be {len(values)} positive numbers; got {self.probabilities!r}.")
            shares = shares[order] / shares.sum()
            if np.allclose(shares, 1 / len(values), rtol=0, atol=1e-15):
                shares = None
        object.__setattr__(self, "values", tuple(values[order].tolist()))
        object.__setattr__(self, "probabilities", None if shares is None else tuple(shares.tolist()))

    @cached_property
    def log_weights(self) -> Reals:
        """(L,) log of L times the probability of each level."""
        count = len(self.values)
        return np.zeros(count) if self.probabilities is None else np.log(count * np.array(self.probabilities))

    @property
    def symmetric(self) -> bool:
        shares = self.probabilities or (0.0,)
        return self.values == tuple(-value for value in self.values[::-1]) and shares == shares[::-1]

    @property
    def second_moment(self) -> float:
        """Mean square of a weight under the prior."""
        return float(np.exp(self.log_weights) @ np.square(self.values) / len(self.values))

    def probabilities_of(self, precision: ArrayLike, field: ArrayLike) -> Reals:
        """Return the probability of each level under P(w) exp(-A w²/2 + B w).

        Parameters
        ----------
        precision : array_like
            A, broadcast against `field`.
        field : array_like
            B.

        Returns
        -------
        ndarray
            In the shape of `field`, with the levels along a new last axis.
        """
        return np.exp(self._log_tilted(precision, field) - self.log_partition(precision, field)[..., None])

    def log_partition(self, precision: ArrayLike, field: ArrayLike) -> Reals:
        """Return log Σ_l L p_l exp(-A l²/2 + B l).

        Parameters
        ----------
        precision : array_like
            A, broadcast against `field`.
        field : array_like
            B.

        Returns
        -------
        ndarray
            In the shape of `field`.
        """
        tilted = self._log_tilted(precision, field)
        top = tilted.max(axis=-1)
        return top + np.log(np.exp(tilted - top[..., None]).sum(axis=-1))

    def _log_tilted(self, precision: ArrayLike, field: ArrayLike) -> Reals:
        field = _floating(field)
        precision = np.asarray(precision, dtype=field.dtype)
        values = np.array(self.values, field.dtype)
        return self.log_weights.astype(field.dtype) - precision[..., None] * (values**2 / 2) + field[..., None] * values

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Reals, Reals]:
        shares = self.probabilities_of(precision, field)
        values = np.array(self.values, shares.dtype)
        mean = shares @ values
        return mean, (shares * (values - mean[..., None]) ** 2).sum(axis=-1)

    def decode(self, mean: ArrayLike) -> Reals:
        values = self.array
        middle = (values[1:].astype(float) + values[:-1]) / 2
        return values[np.searchsorted(middle, np.asarray(mean), side="right")]

    def contains(self, weights: ArrayLike) -> Bools:
        return np.asarray(np.isin(weights, self.values).all(axis=-1))

    def draw(self, n: int, rng: RNG = None) -> Reals:
        return generator(rng).choice(self.array, n, p=self.probabilities)

    @cached_property
    def array(self) -> Reals:
        """(L,) the values, int8 where they are small integers."""
        values = np.array(self.values)
        small = (values == np.rint(values)).all() and np.abs(values).max() < 128
        return values.astype(np.int8) if small else values

    def to_dict(self) -> Any:
        try:
            plain = as_prior(str(self)) == self
        except ValueError:  # there is no name for unequal probabilities
            plain = False
        return str(self) if plain else {"name": self.name, "values": self.values, "probabilities": self.probabilities}

    def __str__(self) -> str:
        ternary = self.values == (-1.0, 0.0, 1.0)
        if self.probabilities is None:
            return "ternary" if ternary else f"levels({','.join(f'{value:g}' for value in self.values)})"
        if ternary and self.probabilities[0] == self.probabilities[2]:
            return f"ternary({1 - self.probabilities[1]:g})"
        shares = zip(self.values, self.probabilities)
        return f"levels({','.join(f'{value:g}: {share:.3g}' for value, share in shares)})"


@dataclass(frozen=True)
class Gaussian(Prior):
    """Independent real weights w ~ N(0, variance).

    Parameters
    ----------
    variance : float, default 1.0
        Variance of each weight, > 0.

    Examples
    --------
    >>> mean, variance = Gaussian(2.0).marginals(0.5, [1.0])
    >>> float(mean[0]), float(variance[0])
    (1.0, 1.0)
    """

    variance: float = 1.0
    name = "gaussian"
    conjugate_growth = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", number(positive=True)("variance", self.variance))

    @property
    def second_moment(self) -> float:
        """Mean square of a weight under the prior."""
        return self.variance

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Reals, Reals]:
        field = _floating(field)
        spread = 1 / (np.asarray(precision, dtype=field.dtype) + field.dtype.type(1 / self.variance))
        spread = np.broadcast_to(spread, field.shape)
        return field * spread, spread

    def log_partition(self, precision: ArrayLike, field: ArrayLike) -> Reals:
        """Return log E exp(-A w²/2 + B w).

        Parameters
        ----------
        precision : array_like
            A, broadcast against `field`.
        field : array_like
            B.

        Returns
        -------
        ndarray
            In the shape of `field`.
        """
        mean, spread = self.marginals(precision, field)
        return mean * _floating(field) / 2 + np.log(spread / spread.dtype.type(self.variance)) / 2

    def decode(self, mean: ArrayLike) -> Reals:
        return np.asarray(mean, dtype=float)

    def contains(self, weights: ArrayLike) -> Bools:
        return np.asarray(np.isfinite(weights).all(axis=-1))

    def draw(self, n: int, rng: RNG = None) -> Reals:
        return np.sqrt(self.variance) * generator(rng).standard_normal(n)

    def to_dict(self) -> Any:
        return {"name": self.name, "variance": self.variance}

    def __str__(self) -> str:
        return f"gaussian({self.variance:g})"


def ternary(rho: float | None = None) -> Levels:
    """Return the prior of weights -1, 0, 1, a share `rho` of which is not zero; equally probable by default.

    Parameters
    ----------
    rho : float, optional
        Probability of a weight other than zero, in (0, 1).

    Returns
    -------
    Levels
        The prior.

    Examples
    --------
    >>> ternary(0.2).probabilities
    (0.1, 0.8, 0.1)
    """
    if rho is None:
        return Levels((-1.0, 0.0, 1.0))
    if not 0 < number()("rho", rho) < 1:
        raise ValueError(f"rho, the share of weights other than zero, must lie between 0 and 1; got {rho!r}.")
    return Levels((-1.0, 0.0, 1.0), (rho / 2, 1 - rho, rho / 2))


REGISTRY: dict[str, Any] = {
    "binary": Binary, "spherical": Spherical, "ternary": ternary, "levels": lambda *values: Levels(values),
    "gaussian": Gaussian,
}  # fmt: skip


def as_prior(prior: object) -> Prior:
    """Return the prior for a name, an instance, a subclass of `Prior`, or a dictionary of `Prior.to_dict`.

    Parameters
    ----------
    prior : str, Prior, type or dict
        A name with parameters ("binary", "spherical", "ternary", "ternary(0.3)", "levels(-3,-1,1,3)", "gaussian(1)"), a
        prior, or its plain value. Equally probable levels ±1 are "binary".

    Returns
    -------
    Prior
        The prior.

    Raises
    ------
    ValueError
        If the name is unknown or a parameter is wrong.

    Examples
    --------
    >>> as_prior("binary"), as_prior("levels(0,1)"), as_prior("gaussian(2)"), as_prior(Levels([-1, 1]))
    (Binary(), Levels(values=(0.0, 1.0), probabilities=None), Gaussian(variance=2.0), Binary())
    """
    if isinstance(prior, str):
        prior = _named(prior)
    elif isinstance(prior, dict) and prior.get("name") in ("levels", "gaussian"):
        parameters = {name: value for name, value in prior.items() if name != "name"}
        prior = {"levels": Levels, "gaussian": Gaussian}[prior["name"]](**parameters)
    if isinstance(prior, type):
        prior = prior()
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be a name ({', '.join(map(repr, REGISTRY))}) or a Prior; got {prior!r}.")
    return Binary() if prior == Levels((-1.0, 1.0)) else prior


def _named(text: str) -> object:
    match = re.fullmatch(r"\s*([A-Za-z_]\w*)\s*(?:\(([^()]*)\))?\s*", text)
    name = match.group(1) if match else text
    if match is None or name not in REGISTRY:
        raise unknown("prior", name, REGISTRY)
    try:
        return REGISTRY[name](*(float(word) for word in (match.group(2) or "").split(",") if word.strip()))
    except TypeError:
        takes = {"binary": "no", "spherical": "no", "ternary": "at most one", "gaussian": "at most one"}
        raise ValueError(f"prior {text!r}: {name} takes {takes.get(name, 'other')} parameters.") from None
    except ValueError as error:
        raise ValueError(f"prior {text!r}: {error}") from error
