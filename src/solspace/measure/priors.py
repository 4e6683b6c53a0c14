"""Priors: where the weights live, and their marginals under a Gaussian tilt (the input channel of message passing).

A prior is asked for the mean and variance of each weight under ``P(w) exp(-A w^2/2 + B w)``, and for the same
in replica theory: alone (`reference`, theory notes 2) and beside a planted weight (`localized`, theory notes 3). To
add one, write a class with the methods below and put it into ``REGISTRY``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from solspace.measure import ising
from solspace.system.names import unknown

Array = NDArray[np.floating[Any]]


class Reference(NamedTuple):
    """The weights at reference conjugate r̂, arrays.

    `overlap` r, `variance` 1 - r, `slope` dr/dr̂, `susceptibility` χ₀, `entropy` (r r̂ - r̂_d)/2 + G_S, and
    `norm_conjugate` r̂_d where the norm is imposed.
    """

    overlap: Array
    variance: Array
    slope: Array
    susceptibility: Array
    entropy: Array
    norm_conjugate: Array | None = None


class Localized(NamedTuple):
    """The weights at overlap q with the planted ones, arrays.

    `excess` q̂ - r̂, `susceptibility` dq/dq̂, and `entropy` S(q), which collects what the weights give to the
    free entropy: φ_t(q) = S(q) + t q/2 + α G_E(q), and S'(q) = -q̂/2.
    """

    excess: Array
    susceptibility: Array
    entropy: Array


Locator = Callable[[Array, Array], Localized]
"""(q - r, 1 - q) -> Localized: both distances are given because each is small somewhere."""


class Prior:
    """What every prior can do."""

    name: ClassVar[str] = ""
    conjugate_growth: ClassVar[float] = 0.0
    """q̂ diverges like (1 - q)^-growth as q → 1; 0 stands for 2 log 1/(1 - q), the law of discrete weights."""

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Array, Array]:
        """Return mean and variance of the weights given `precision` A and `field` B, weights along the first axis."""
        raise NotImplementedError

    def decode(self, mean: ArrayLike) -> Array:
        """Return the weights that a localized posterior `mean` stands for, weights along the last axis."""
        raise NotImplementedError

    def contains(self, weights: ArrayLike) -> NDArray[np.bool_]:
        """Return whether `weights` lie in the prior's support, weights along the last axis."""
        raise NotImplementedError

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the state of the weights at each reference `conjugate` r̂ >= 0."""
        raise NotImplementedError(f"replica theory needs a method reference(conjugate) of {type(self).__name__}.")

    def localized(self, conjugate: float) -> Locator:
        """Return the function that gives the weights at overlap q with the planted ones, at reference conjugate r̂."""
        raise NotImplementedError(f"replica theory needs a method localized(conjugate) of {type(self).__name__}.")

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

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Array, Array]:
        """Return tanh B and sech² B. The second is not 1 - tanh², which is exactly 0 in float32 from B = 9 on."""
        field = _floating(field)
        decay = np.exp(-2 * np.abs(field))
        variance = 4 * decay / (1 + decay) ** 2
        return np.tanh(field), variance

    def decode(self, mean: ArrayLike) -> Array:
        """Return the sign of the mean, +1 on a tie."""
        return np.where(np.asarray(mean) >= 0, np.int8(1), np.int8(-1))

    def contains(self, weights: ArrayLike) -> NDArray[np.bool_]:
        """Return True where all weights are ±1."""
        return (np.abs(weights) == 1).all(axis=-1)

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return r = E tanh² √r̂z and the rest; the entropy is E log 2cosh √r̂z - r̂(1 - r)/2.

        >>> Binary().reference([1.0]).overlap
        array([0.39429449])
        """
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        alone = ising.alone(conjugate)
        entropy = alone.log_cosh - conjugate * alone.variance / 2
        return Reference(alone.overlap, alone.variance, alone.slope, alone.susceptibility, entropy)

    def localized(self, conjugate: float) -> Locator:
        """Return the planted law's inverse: q̂ from q = E tanh² B; S(q) = E log(1 + e^{-2w*B}) + q̂(1 - q)/2."""
        law = ising.PlantedIsing(float(conjugate))

        def at(gap: Array, variance: Array) -> Localized:
            excess, planted = law.excess(variance)
            entropy = planted.uncertainty + (conjugate + excess) * variance / 2
            return Localized(excess, planted.susceptibility, entropy)

        return at


@dataclass(frozen=True)
class Spherical(Prior):
    """Weights on the sphere of radius √n.

    >>> mean, variance = Spherical().marginals(0.0, np.array([1.0, -1.0, 1.0]))
    >>> float(np.mean(mean**2 + variance).round(12))
    1.0
    """

    name = "spherical"
    conjugate_growth = 1.0

    def marginals(self, precision: ArrayLike, field: ArrayLike) -> tuple[Array, Array]:
        """Return B/(A+γ) and 1/(A+γ), with γ such that mean² + variance averages to 1 over the weights."""
        field = _floating(field)
        precision = np.asarray(precision, dtype=field.dtype)
        multiplier = self.norm_multiplier(precision, field)
        total = precision + multiplier
        variance = np.broadcast_to(1 / total, field.shape)
        return field * variance, variance

    def norm_multiplier(self, precision: ArrayLike, field: ArrayLike) -> Array:
        """Return γ, one for each column of `field` (weights along the first axis).

        With one precision for all weights, Λ = A + γ = (1 + √(1 + 4b))/2, b = mean(B²), in closed form; with one for
        each weight, the root of mean(B²/Λ² + 1/Λ) = 1 by Newton from its left side, where it is monotone.
        """
        field = _floating(field)
        precision = np.asarray(precision, dtype=field.dtype)
        if precision.ndim < field.ndim or precision.shape[0] == 1:
            power = np.mean(field**2, axis=0, dtype=np.float64)
            total = (1 + np.sqrt(1 + 4 * power)) / 2
            return (total - precision).astype(field.dtype)
        return _uneven_multiplier(precision.astype(float), field.astype(float)).astype(field.dtype)

    def decode(self, mean: ArrayLike) -> Array:
        """Return the mean rescaled to norm √n."""
        mean = np.asarray(mean, dtype=float)
        return mean * (np.sqrt(mean.shape[-1]) / np.linalg.norm(mean, axis=-1, keepdims=True))

    def contains(self, weights: ArrayLike) -> NDArray[np.bool_]:
        """Return True where the norm is √n to 1e-6."""
        weights = np.asarray(weights, dtype=float)
        return np.abs(np.linalg.norm(weights, axis=-1) / np.sqrt(weights.shape[-1]) - 1) < 1e-6

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the closed form: r̂ = r/(1-r)², r̂_d = (2r-1)/(1-r)², entropy log(2π(1-r))/2 + 1/(2(1-r)).

        >>> Spherical().reference([2.0]).overlap
        array([0.5])
        """
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        variance = 2 / (1 + np.sqrt(1 + 4 * conjugate))
        overlap = conjugate * variance**2
        return Reference(
            overlap,
            variance,
            variance**3 / (1 + overlap),
            variance**2,
            np.log(2 * np.pi * variance) / 2 + 1 / (2 * variance),
            (overlap - variance) / variance**2,
        )

    def localized(self, conjugate: float) -> Locator:
        """Return the closed form: q̂ = 1/(1-q) + r̂_d, χ = (1-q)², S = log(2π(1-q))/2 + 1/(2(1-r)) - r̂_d(q-r)/2."""
        reference = self.reference(conjugate)
        assert reference.norm_conjugate is not None
        width, norm = float(reference.variance[0]), float(reference.norm_conjugate[0])

        def at(gap: Array, variance: Array) -> Localized:
            entropy = np.log(2 * np.pi * variance) / 2 + 1 / (2 * width) - norm * gap / 2
            return Localized(gap / (variance * width), variance**2, entropy)

        return at


def _uneven_multiplier(precision: Array, field: Array) -> Array:
    # f(γ) = mean(B²/Λ² + 1/Λ) - 1 is convex and falls from +inf at γ = -min A: Newton from any point with f > 0 climbs
    # to the root without overshooting. Each weight alone contributes 1/(n Λ) + ..., so γ = 1/n - min A is such a point.
    lowest = precision.min(axis=0)
    gamma = 1 / len(field) - lowest
    for _ in range(200):
        total = precision + gamma
        value = np.mean(field**2 / total**2 + 1 / total, axis=0) - 1
        slope = np.mean(-2 * field**2 / total**3 - 1 / total**2, axis=0)
        step = value / slope
        gamma = gamma - step
        if np.all(np.abs(step) <= 1e-14 * (np.abs(gamma) + np.abs(lowest) + 1)):
            break
    return gamma


def _floating(values: ArrayLike) -> Array:
    values = np.asarray(values)
    return values if values.dtype in (np.float32, np.float64) else values.astype(float)


REGISTRY: dict[str, type[Prior]] = {cls.name: cls for cls in (Binary, Spherical)}


def as_prior(given: Any) -> Prior:
    """Return the prior that a name, an object or a class stands for.

    >>> as_prior("binary")
    Binary()
    """
    if isinstance(given, str):
        if given not in REGISTRY:
            raise unknown("prior", given, REGISTRY)
        given = REGISTRY[given]
    if isinstance(given, type):
        given = given()
    if not isinstance(given, Prior):
        raise ValueError(f"prior must be 'binary', 'spherical' or a Prior; got {given!r}.")
    return given
