"""The weights in replica theory: alone with their Gaussian field (theory notes 2), and beside planted ones (3).

A prior says where weights live and what message passing needs of it; what replica theory needs is here, a class for each
prior. To add one, write a class with the methods of `Weights` and put it into ``REGISTRY`` under the type of the prior; or
give your own prior methods `reference` and `localized` and a `conjugate_growth`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure.priors import Binary, Prior, Spherical
from solspace.numerics.arrays import Reals
from solspace.theory import ising


class Reference(NamedTuple):
    """The weights at reference conjugate r̂, arrays.

    `overlap` r, `variance` 1 - r, `slope` dr/dr̂, `susceptibility` χ₀, `entropy` (r r̂ - r̂_d)/2 + G_S, and
    `norm_conjugate` r̂_d where the norm is imposed.
    """

    overlap: Reals
    variance: Reals
    slope: Reals
    susceptibility: Reals
    entropy: Reals
    norm_conjugate: Reals | None = None


class Localized(NamedTuple):
    """The weights at overlap q with the planted ones, arrays.

    `excess` q̂ - r̂, `susceptibility` dq/dq̂, and `entropy` S(q), which collects what the weights give to the
    free entropy: φ_t(q) = S(q) + t q/2 + α G_E(q), and S'(q) = -q̂/2.
    """

    excess: Reals
    susceptibility: Reals
    entropy: Reals


Locator = Callable[[Reals, Reals], Localized]
"""(q - r, 1 - q) -> Localized: both distances are given because each is small somewhere."""


class Weights:
    """What replica theory asks of the weights."""

    conjugate_growth: float = 0.0
    """q̂ diverges like (1 - q)^-growth as q → 1; 0 stands for 2 log 1/(1 - q), the law of discrete weights."""

    @property
    def discrete(self) -> bool:
        """True where weights can be counted: the entropy has a zero, and φ_t a finite value at q = 1."""
        return self.conjugate_growth == 0

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the state of the weights at each reference `conjugate` r̂ >= 0."""
        raise NotImplementedError

    def localized(self, conjugate: float) -> Locator:
        """Return the function that gives the weights at overlap q with the planted ones, at reference conjugate r̂."""
        raise NotImplementedError


class BinaryWeights(Weights):
    """Weights ±1."""

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return r = E tanh² √r̂z and the rest; the entropy is E log 2cosh √r̂z - r̂(1 - r)/2.

        >>> BinaryWeights().reference([1.0]).overlap
        array([0.39429449])
        """
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        alone = ising.alone(conjugate)
        entropy = alone.log_cosh - conjugate * alone.variance / 2
        return Reference(alone.overlap, alone.variance, alone.slope, alone.susceptibility, entropy)

    def localized(self, conjugate: float) -> Locator:
        """Return the planted law's inverse: q̂ from q = E tanh² B; S(q) = E log(1 + e^{-2w*B}) + q̂(1 - q)/2."""
        law = ising.PlantedIsing(float(conjugate))

        def at(gap: Reals, variance: Reals) -> Localized:
            excess, planted = law.excess(variance)
            entropy = planted.uncertainty + (conjugate + excess) * variance / 2
            return Localized(excess, planted.susceptibility, entropy)

        return at


class SphericalWeights(Weights):
    """Weights on the sphere of radius √n."""

    conjugate_growth = 1.0

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the closed form: r̂ = r/(1-r)², r̂_d = (2r-1)/(1-r)², entropy log(2π(1-r))/2 + 1/(2(1-r)).

        >>> SphericalWeights().reference([2.0]).overlap
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

        def at(gap: Reals, variance: Reals) -> Localized:
            entropy = np.log(2 * np.pi * variance) / 2 + 1 / (2 * width) - norm * gap / 2
            return Localized(gap / (variance * width), variance**2, entropy)

        return at


class OwnWeights(Weights):
    """A user's prior that brings `reference`, `localized` and, where its weights are not discrete, `conjugate_growth`."""

    def __init__(self, prior: Any) -> None:
        self.reference, self.localized = prior.reference, prior.localized  # type: ignore[method-assign]
        self.conjugate_growth = float(getattr(prior, "conjugate_growth", 0.0))


REGISTRY: dict[type[Prior], Weights] = {Binary: BinaryWeights(), Spherical: SphericalWeights()}


def weights_of(prior: Prior) -> Weights:
    """Return what replica theory knows of the weights of `prior`.

    >>> weights_of(Binary()).discrete, weights_of(Spherical()).discrete
    (True, False)
    """
    missing = [name for name in ("reference", "localized") if not callable(getattr(prior, name, None))]
    if not missing:
        return OwnWeights(prior)
    for kind in type(prior).__mro__:
        if kind in REGISTRY:
            return REGISTRY[kind]
    raise NotImplementedError(f"replica theory needs a method {missing[0]}(conjugate) of {type(prior).__name__}.")
