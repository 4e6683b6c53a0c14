"""Bands, and walls for any interval of stabilities: the weight vanishes like a power of the distance where constraints end.

With t(s) the distance from the wall, or the product of the distances from both,

    U = -log t(s):   (s - lower)^(1/T),  (upper - s)^(1/T),  or  ((s - lower)(upper - s))^(1/T).

The half-space s >= 0 is the paper's log potential, the band abs(s) <= K the symmetric perceptron with U = -log(K² - s²). Both
walls have the same exponent, so every band is even about its middle, and a band beside the origin is an even one seen
from a margin. Annealing reaches each of them through a family that is finite everywhere (`TauWall`), as τ → 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import channels
from solspace.measure.potentials import Annealable, Log, Potential, positive_log
from solspace.numerics.arrays import Bools, Channel, Reals
from solspace.system.checks import number


@dataclass(frozen=True)
class Band(Potential):
    """U = 0 on abs(s) <= width, infinite outside: the symmetric perceptron.

    Parameters
    ----------
    width : float, default 1.0
        Half width K of the band, > 0.

    Examples
    --------
    >>> Band(1.0).violated([-2.0, 0.5])
    array([ True, False])
    """

    width: float = 1.0
    name = "band"
    athermal = True
    centre = 0.0

    def __post_init__(self) -> None:
        number(positive=True)("width of the band", self.width)

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        return (-self.width, self.width)

    def violated(self, s: ArrayLike) -> Bools:
        return np.abs(s) > self.width

    def log_weight(self, s: ArrayLike) -> Reals:
        return np.where(self.violated(s), -np.inf, 0.0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.band_channel(omega, variance, self.width)


class _Walls(Annealable):
    """The weight of t(s), the distance from the wall at `lower` or `upper` or the product of both; soft for τ > 0."""

    lower: float | None
    upper: float | None
    tau: float = 0.0
    quadratic: float = 0.0

    def __post_init__(self) -> None:
        if self.lower is None and self.upper is None:
            raise ValueError("a wall needs a lower or an upper end; got neither.")
        for name, end in (("lower", self.lower), ("upper", self.upper)):
            if end is not None:
                number()(name, end)
        low, high = self._ends
        if not low < high:
            raise ValueError(f"the lower wall must lie below the upper one; got lower={low!r}, upper={high!r}.")

    @property
    def breakpoints(self) -> tuple[float, ...]:  # type: ignore[override]
        return tuple(end for end in (self.lower, self.upper) if end is not None)

    @property
    def centre(self) -> float | None:
        return None if self.lower is None or self.upper is None else (self.lower + self.upper) / 2

    @property
    def _ends(self) -> tuple[float, float]:
        return -math.inf if self.lower is None else self.lower, math.inf if self.upper is None else self.upper

    def violated(self, s: ArrayLike) -> Bools:
        low, high = self._ends
        return (np.asarray(s) < low) | (np.asarray(s) > high)

    def log_weight(self, s: ArrayLike) -> Reals:
        s = np.asarray(s)
        low, high = self._ends
        level = np.zeros(s.shape) if self.lower is None else positive_log(s - low)
        level = level if self.upper is None else level + positive_log(high - s)
        if self.tau > 0:
            outside = np.maximum(np.maximum(low - s, s - high), 0.0)
            slope = 1.0 if math.isinf(high - low) else high - low
            beyond = -(1.0 + slope * outside) / self.tau
            level = np.where(np.isneginf(level), beyond, np.expm1(self.tau * level) / self.tau)
        return level - self.quadratic * (s - (self.centre or 0.0)) ** 2 if self.quadratic else level

    def softened(self, tau: float) -> Potential:
        return TauWall(self.lower, self.upper, tau, self.quadratic)

    def __str__(self) -> str:
        values = {k: v for k, v in self.parameters.items() if v is not None and (k != "quadratic" or v)}
        return f"{self.name}({', '.join(f'{name}={value:g}' for name, value in values.items())})"


@dataclass(frozen=True)
class LogBand(_Walls):
    """U = -log(width² - s²) + quadratic s² on abs(s) < width: the symmetric perceptron that ASL can sample.

    Parameters
    ----------
    width : float, default 1.0
        Half width K of the band, > 0.
    quadratic : float, default 0.0
        Coefficient of s².

    Examples
    --------
    >>> LogBand(1.0).log_weight([0.0, 1.5])
    array([  0., -inf])
    """

    width: float = 1.0
    quadratic: float = 0.0
    name = "log_band"

    def __post_init__(self) -> None:
        number(positive=True)("width of the band", self.width)
        number()("quadratic", self.quadratic)
        self.__dict__.update(lower=-self.width, upper=self.width)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        return channels.log_band_channel(omega, variance, beta, self.width, self.quadratic)

    def __str__(self) -> str:
        return f"log_band({self.width:g}{f', {self.quadratic:g}' if self.quadratic else ''})"


@dataclass(frozen=True)
class Wall(_Walls):
    """U = -log of the distance from a wall, or of the product of the distances from two.

    Parameters
    ----------
    lower, upper : float, optional
        Ends of the interval of allowed stabilities; at least one of them.

    Examples
    --------
    >>> Wall(lower=-1.0, upper=2.0).violated([-1.5, 0.0, 2.5])
    array([ True, False,  True])
    >>> print(Wall(0.5), Wall(-1.0, 2.0))
    wall(lower=0.5) wall(lower=-1, upper=2)
    """

    lower: float | None = None
    upper: float | None = None
    name = "wall"

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if self.lower is not None and self.upper is not None:
            half = (self.upper - self.lower) / 2
            return channels.log_band_channel(_shifted(omega, self.lower + half), variance, beta, half)
        log_z, g, dg = Log().channel(self._inwards(omega), variance, beta)
        return log_z, g if self.upper is None else -g, dg

    def derivatives(self, omega: Reals, variance: ArrayLike, beta: float) -> tuple[Reals, Reals]:
        if self.centre is not None:
            return super().derivatives(omega, variance, beta)
        g, dg = Log().derivatives(self._inwards(omega), variance, beta)
        return g if self.upper is None else -g, dg

    def _inwards(self, omega: ArrayLike) -> Reals:
        # the field's distance from the only wall
        return _shifted(omega, self.lower) if self.lower is not None else -_shifted(omega, self.upper)


@dataclass(frozen=True)
class TauWall(_Walls):
    """U = (1 - t^τ)/τ, t(s) the distance from a wall or the product of both: soft for τ > 0, the wall at τ = 0.

    Outside, t continues along its tangent and U = (1 - t)/τ. A band may also have a quadratic term about its centre.

    Parameters
    ----------
    lower, upper : float, optional
        Ends of the interval of allowed stabilities; at least one of them.
    tau : float, default 1.0
        τ in [0, 1].
    quadratic : float, default 0.0
        Coefficient of the square of the distance from the centre of a band.

    Examples
    --------
    >>> TauWall(-1.0, 1.0, 0.5).log_weight([0.0, 1.0, 1.5])
    array([ 0., -2., -4.])
    """

    lower: float | None = None
    upper: float | None = None
    tau: float = 1.0
    quadratic: float = 0.0
    name = "tau_wall"

    def __post_init__(self) -> None:
        super().__post_init__()
        number(least=0, most=1)("tau", self.tau)
        number()("quadratic", self.quadratic)
        if self.quadratic and self.centre is None:
            raise ValueError("quadratic is a term about the middle of a band: it needs a lower and an upper wall.")
        object.__setattr__(self, "hard", self.tau == 0)

    def channel(self, omega: ArrayLike, variance: ArrayLike, beta: float) -> Channel:
        if self.tau < 1 or self.centre is not None:
            return super().channel(omega, variance, beta)
        sign, (end,) = 1.0 if self.upper is None else -1.0, self.breakpoints
        return channels.linear_channel(omega, variance, sign * beta, -beta * (1.0 + sign * end))


def _shifted(omega: ArrayLike, by: float | None) -> Reals:
    field = np.asarray(omega)
    return field - field.dtype.type(by) if field.dtype == np.float32 else field - by
