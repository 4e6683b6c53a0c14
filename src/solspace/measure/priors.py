"""Priors: where the weights live, and their marginals under a Gaussian tilt (the input channel of message passing).

A prior returns the mean and variance of each weight under ``P(w) exp(-A w^2/2 + B w)``. To add one, write a class with
the methods of `Prior` and put it into ``REGISTRY``; what replica theory needs of it is in `theory.weights`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from solspace.numerics.arrays import Bools, Reals
from solspace.system.checks import unknown


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


REGISTRY: dict[str, type[Prior]] = {cls.name: cls for cls in (Binary, Spherical)}


def as_prior(prior: object) -> Prior:
    """Return the prior for a name, a subclass of `Prior` or an instance of one.

    >>> as_prior("binary")
    Binary()
    """
    if isinstance(prior, str):
        if prior not in REGISTRY:
            raise unknown("prior", prior, REGISTRY)
        prior = REGISTRY[prior]
    if isinstance(prior, type):
        prior = prior()
    if not isinstance(prior, Prior):
        raise ValueError(f"prior must be 'binary', 'spherical' or a Prior; got {prior!r}.")
    return prior
