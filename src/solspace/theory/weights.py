"""The weights in replica theory: alone with their Gaussian field (theory notes 2), and beside planted ones (3).

To add a prior, write a class with the methods of `Weights` and put it into ``REGISTRY`` under the type of the prior; or
give your own prior methods `reference` and `localized`. Weights that are not discrete have a prior with a `conjugate_growth`.

±1 weights: *alone* the field is b ~ N(0, r̂), and r = E tanh² b. Beside a *planted* weight w* = ±1 the field is B = b +
√d z with weight e^{-d/2} cosh B / cosh b, d = q̂ - r̂, and 1 - q = E sech² B. Every average is e^{-d/2} ∫∫ N(b; 0, r̂) sech b
· N(B - b; 0, d) f(B): on one equidistant grid a correlation of f with N sech, formed once for all d.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erf

from solspace.measure.priors import Binary, Gaussian, Levels, Prior, Spherical
from solspace.numerics.arrays import Reals, vanishing
from solspace.numerics.rules import gaussian_trapezoid, hermite

STEP = 0.2
REACH = 40.0
_NARROW = 0.12  # variances below this are integrated in units of their own width


class Reference(NamedTuple):
    """The weights at reference conjugate r̂, arrays."""

    overlap: Reals  # r
    variance: Reals  # Q - r, the norm being Q = 1 on the sphere and for ±1
    slope: Reals | None  # dr/dr̂ where Q = 1
    susceptibility: Reals  # χ₀
    entropy: Reals  # (r r̂ - Q r̂_d)/2 + G_S
    norm_conjugate: Reals | None = None  # r̂_d where the norm is imposed, or follows from the constraints
    log_prior: Reals | float = 0.0  # mean log density of the prior; of levels, log of L times the probability


class Localized(NamedTuple):
    """The weights at overlap q with the planted ones, arrays."""

    excess: Reals  # q̂ - r̂
    susceptibility: Reals  # dq/dq̂
    entropy: Reals  # S(q), what the weights give to φ_t(q) = S(q) + t q/2 + α G_E(q); S'(q) = -q̂/2


Locator = Callable[[Reals, Reals], Localized]  # of (q - r, Q - q): both distances, because each is small somewhere


class Weights(Protocol):
    """What replica theory needs of the weights."""

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the state of the weights at each reference `conjugate` r̂ >= 0."""

    def localized(self, conjugate: float) -> Locator:
        """Return the function that gives the weights at overlap q with the planted ones, at reference conjugate r̂."""


class BinaryWeights:
    """Weights ±1."""

    @vanishing
    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return averages over b ~ N(0, r̂): r = E tanh² b and the rest; the entropy is E log 2cosh b - r̂(1 - r)/2.

        >>> BinaryWeights().reference([1.0]).overlap
        array([0.39429449])
        """
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        wide = conjugate >= _NARROW
        overlap, variance, susceptibility, log_cosh, slope = result = np.empty((5, len(conjugate)))
        for rows in (wide, ~wide):
            result[:, rows] = _averages(*_gaussian(conjugate[rows, None], rows is wide))
        overlap[wide] = 1 - variance[wide]
        slope[wide] /= conjugate[wide]
        slope[~wide] = 3 * susceptibility[~wide] - 2 * variance[~wide]
        # b erf(b/√2) has the same growth as log 2cosh b and the average in closed form
        log_cosh += 2 * conjugate / np.sqrt(2 * np.pi * (conjugate + 1))
        return Reference(overlap, variance, slope, susceptibility, log_cosh - conjugate * variance / 2)

    def localized(self, conjugate: float) -> Locator:
        """Return the planted law's inverse: q̂ from q = E tanh² B; S(q) = E log(1 + e^{-2w*B}) + q̂(1 - q)/2."""
        return PlantedIsing(float(conjugate))


class SphericalWeights:
    """Weights on the sphere of radius √n."""

    def reference(self, conjugate: ArrayLike) -> Reference:
        """Return the closed form: r̂ = r/(1-r)², r̂_d = (2r-1)/(1-r)², entropy log(2π(1-r))/2 + 1/(2(1-r)).

        >>> SphericalWeights().reference([2.0]).overlap
        array([0.5])
        """
        conjugate = np.atleast_1d(np.asarray(conjugate, dtype=float))
        variance = 2 / (1 + np.sqrt(1 + 4 * conjugate))
        overlap = conjugate * variance**2
        entropy = np.log(2 * np.pi * variance) / 2 + 1 / (2 * variance)
        norm = (overlap - variance) / variance**2
        return Reference(overlap, variance, variance**3 / (1 + overlap), variance**2, entropy, norm)

    def localized(self, conjugate: float) -> Locator:
        """Return the closed form: q̂ = 1/(1-q) + r̂_d, χ = (1-q)², S = log(2π(1-q))/2 + 1/(2(1-r)) - r̂_d(q-r)/2."""
        reference = self.reference(conjugate)
        assert reference.norm_conjugate is not None
        width, norm = float(reference.variance[0]), float(reference.norm_conjugate[0])

        def at(gap: Reals, variance: Reals) -> Localized:
            entropy = np.log(2 * np.pi * variance) / 2 + 1 / (2 * width) - norm * gap / 2
            return Localized(gap / (variance * width), variance**2, entropy)

        return at


REGISTRY: dict[type[Prior], Weights] = {Binary: BinaryWeights(), Spherical: SphericalWeights()}


@lru_cache(maxsize=64)
def free_weights(prior: Prior) -> Any:
    """Return the weights of a prior whose norm follows from the constraints (`theory.levels`), None of others.

    Their methods `reference` and `localized` take the precision A = r̂ - r̂_d as a second argument.
    """
    if isinstance(prior, (Gaussian, Levels)):
        from solspace.theory.levels import GaussianWeights, LevelWeights

        return LevelWeights(prior) if isinstance(prior, Levels) else GaussianWeights(prior)
    return None


def weights_of(prior: Prior) -> Weights:
    """Return what replica theory needs of the weights of `prior`, which may be the prior itself."""
    missing = [name for name in ("reference", "localized") if not callable(getattr(prior, name, None))]
    if not missing:
        return prior  # type: ignore[return-value]
    for kind in type(prior).__mro__:
        if kind in REGISTRY:
            return REGISTRY[kind]
    raise NotImplementedError(f"replica theory needs a method {missing[0]}(conjugate) of {type(prior).__name__}.")


def _gaussian(variance: Reals | float, wide: bool, reach: float = REACH) -> tuple[Reals, Reals]:
    # points and weights of a Gaussian: on the grid, or in units of its own width
    if not wide:
        z, weight = gaussian_trapezoid(0.5, 9.0)
        return np.sqrt(variance) * z, weight
    b = _grid(reach)
    return b, STEP * np.exp(-(b**2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)


def _grid(reach: float) -> Reals:
    # not np.arange(-reach, ...): its rounded increment adds up to 1e-12
    count = int(np.ceil(reach / STEP - 1e-9))
    return STEP * np.arange(-count, count + 1)


def _averages(b: Reals, density: Reals) -> Reals:
    # of tanh², sech², sech⁴, log 2cosh b - b erf(b/√2), b tanh b sech² b
    decay = np.exp(-2 * np.abs(b))
    sech2 = 4 * decay / (1 + decay) ** 2
    growth = np.abs(b) + np.log1p(decay) - b * erf(b / np.sqrt(2))
    columns = (np.tanh(b) ** 2, sech2, sech2**2, growth, b * np.tanh(b) * sech2)
    return np.stack([(density * column).sum(axis=1) for column in columns])


def _decaying(field: Reals) -> Reals:
    # sech B, sech³ B, and cosh B (log 2cosh B - B tanh B): cosh times sech², sech⁴ and the entropy of the weight
    decay = np.exp(-2 * np.abs(field))
    sech = 2 * np.exp(-np.abs(field)) / (1 + decay)
    entropy = np.log1p(decay) + 2 * np.abs(field) * decay / (1 + decay)
    return np.stack([sech, sech**3, entropy / sech])


@dataclass(frozen=True)
class PlantedIsing:
    """The field of a weight beside a planted one, at reference conjugate r̂.

    >>> law = PlantedIsing(1.0)
    >>> variance, _, _ = law.averages([0.0, 7.0])
    >>> variance[:1].round(12), law(1 - variance, variance).excess.round(12)  # 1 - r; and d again
    (array([0.60570551]), array([0., 7.]))
    """

    conjugate: float

    @cached_property
    @vanishing
    def _source(self) -> tuple[Reals, Reals]:
        # points b and weights N(b; 0, r̂) sech b
        reach = min(9.0 * np.sqrt(self.conjugate), REACH)
        b, weight = _gaussian(self.conjugate, self.conjugate >= _NARROW, reach)
        return b, weight / np.cosh(b)

    @cached_property
    @vanishing
    def _correlation(self) -> tuple[Reals, Reals]:
        # C_f(m) = Σ_j f(b_j + m h) N(b_j) sech b_j for the three f, m >= 0; both factors are even
        _, weight = self._source
        both = np.stack([np.convolve(column, weight) for column in _decaying(_grid(REACH))], axis=1)
        both = both[len(both) // 2 :] * STEP
        both[1:] *= 2
        return (STEP * np.arange(len(both))) ** 2, both

    @vanishing
    def averages(self, excess: ArrayLike) -> Reals:
        """Return 1 - q, dq/dq̂ = E sech⁴ B and the weight's entropy given B, E log(1 + e^{-2 w* B}), at each d = q̂ - r̂ >= 0."""
        excess = np.atleast_1d(np.asarray(excess, dtype=float))
        result = np.empty((len(excess), 3))
        wide = excess >= _NARROW
        result[wide], result[~wide] = self._wide(excess[wide]), self._narrow(excess[~wide])
        return (result * np.exp(-excess / 2)[:, None]).T

    def _wide(self, excess: Reals) -> Reals:
        if self.conjugate >= _NARROW:
            square, correlation = self._correlation
            return (np.exp(-square / (2 * excess[:, None])) / np.sqrt(2 * np.pi * excess[:, None])) @ correlation
        b, weight = self._source
        field = _grid(REACH)
        field = field[len(field) // 2 :]
        columns = 2 * STEP * _decaying(field).T
        columns[0] /= 2
        square = (field[:, None] - b) ** 2
        rows = [(np.exp(-square / (2 * d)) @ weight / np.sqrt(2 * np.pi * d)) @ columns for d in excess]
        return np.reshape(rows, (len(excess), 3))

    def _narrow(self, excess: Reals) -> Reals:
        b, weight = self._source
        z, share = hermite(24)
        field = b[None, :, None] + np.sqrt(excess)[:, None, None] * z
        return np.stack([(column @ share) @ weight for column in _decaying(field)], axis=1)

    def __call__(self, gap: Reals, variance: Reals) -> Localized:
        """Return the weights at overlap q, by Newton's method on log(1 - q) as a function of d."""
        from scipy.interpolate import CubicHermiteSpline

        log_variance = np.log(np.atleast_1d(variance))
        start = float(np.log(self.averages([0.0])[0, 0]))
        knots = np.linspace(0, np.sqrt(2 * max(start - float(log_variance.min()), 0.0) + 8), 48) ** 2
        found, susceptibility, _ = self.averages(knots)
        d = np.clip(CubicHermiteSpline(-np.log(found), knots, found / susceptibility)(-log_variance), 0, knots[-1])
        for _ in range(8):
            found, susceptibility, entropy = self.averages(d)
            step = (np.log(found) - log_variance) * found / susceptibility
            d = np.maximum(d + step, 0.0)
            if np.all(np.abs(step) <= 1e-9 * d + 1e-13):
                break
        # the last step is not in the averages; the entropy given the field falls at the rate (1 - q)/2
        return Localized(d, susceptibility, entropy - step * found / 2 + (self.conjugate + d) * variance / 2)
