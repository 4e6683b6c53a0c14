"""The drift of stochastic localization: where the weights are on average, given the field.

AMP is the denoiser that scales; any function (field (k, n), time (k,)) -> mean (k, n) will do, for instance the exact
one of a small problem, `problem.enumerate().posterior_mean`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.measure.priors import Binary
from solspace.problem import Perceptron
from solspace.samplers.localization.pace import Pace
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.relaxation import Effort, Relaxation

Array = NDArray[Any]


class Denoiser:
    """What an integrator asks for: the current means (n, width), their renewal at a field, the weights' variances."""

    mean: Array
    k: int
    damping: Array
    instability: Array

    def relax(self, field: Array, time: Array, lanes: Array) -> Effort:
        """Bring `mean` of the samples `lanes` up to `field` (n, width) and `time` (k,)."""
        raise NotImplementedError

    def spread(self) -> Array:
        """Return the variances of the weights, (width,) or (n, width)."""
        raise NotImplementedError

    def widen(self, values: Array) -> Array:
        """Return `values` (k,) for all columns of `mean`, 0 beyond `k`."""
        wide = np.zeros(self.mean.shape[1], self.mean.dtype)
        wide[: self.k] = values
        return wide

    def start(self, field: Array) -> Effort:
        """Make the first call, at zero field and time, for all samples."""
        return self.relax(field, np.zeros(self.k), np.arange(self.k))

    def slow_down(self, lanes: Array, pace: Pace | None) -> None:
        """Take more care from now on with the samples `lanes` (k,) of True."""

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on."""
        raise NotImplementedError

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        raise NotImplementedError


class MessagePassing(Denoiser):
    """AMP with warm starts: every call begins where the last one ended.

    `tolerance` and `limit` (k,) may be changed between calls, and so may `damping` (k,).
    """

    STATE = ("damping", "patience", "tolerance", "limit")

    def __init__(self, messages: Messages, automatic: bool, pace: Pace) -> None:
        self.messages, self.k, self.mean = messages, messages.k, messages.mean
        self.relaxation, self.pace = Relaxation(messages, pace.damping, automatic), pace
        self.damping, self.patience = self.relaxation.damping, self.relaxation.patience
        self.tolerance, self.limit = np.full(self.k, pace.tolerance), np.full(self.k, pace.limit)

    @property
    def instability(self) -> Array:  # type: ignore[override]
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instability[: self.k]

    def start(self, field: Array) -> Effort:
        """Relax one sample at zero field, to a tighter tolerance, and give its messages to all others."""
        first = np.array([0])
        relax = self.relaxation.run(field, np.zeros(self.k), 1e-3 * self.tolerance, 10 * self.limit, first)
        for part in self.messages.state(copy=False):
            part[..., : self.k] = part[..., :1]
        self.damping[...], self.patience[...] = self.damping[0], self.patience[0]
        return relax.of(np.zeros(self.k, int))

    def relax(self, field: Array, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        tolerance = self.tolerance * self.pace.sharpness(self.instability)
        return self.relaxation.run(field, time, tolerance, self.limit, lanes)

    def spread(self) -> Array:
        """Return the variances of the weights."""
        if isinstance(self.messages.problem.target.prior, Binary):
            return np.maximum(1 - self.mean * self.mean, 0)
        return self.messages.width.astype(self.mean.dtype)

    def slow_down(self, lanes: Array, pace: Pace | None) -> None:
        """Take up the tolerance, the limit and at least the damping of `pace` with the samples `lanes` (k,) of True."""
        if pace is not None:
            self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
            self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return the messages and their damping."""
        arrays = {f"messages_{i}": part for i, part in enumerate(self.messages.state(copy=False))}
        return {**arrays, **{name: getattr(self, name) for name in self.STATE}}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for i, part in enumerate(self.messages.state(copy=False)):
            part[...] = state[f"messages_{i}"]
        for name in self.STATE:
            getattr(self, name)[...] = state[name]


class Function(Denoiser):
    """A denoiser given as a function (field (k, n), time (k,)) -> mean (k, n)."""

    def __init__(self, problem: Perceptron, k: int, dtype: Any, function: Callable[[Array, Array], Array]) -> None:
        self.k, self.function = k, function
        self.mean = np.zeros((problem.n, k), dtype)
        self.damping, self.instability = np.zeros(k), np.full(k, np.nan)

    def relax(self, field: Array, time: Array, lanes: Array) -> Effort:
        """Evaluate the function."""
        self.mean[:, lanes] = np.asarray(self.function(field[:, lanes].T, time[lanes])).T
        return Effort.none(self.k)

    def spread(self) -> Array:
        """Return 1 - m², averaged over the weights where they are not ±1."""
        return np.maximum(1 - self.mean * self.mean, 0)

    def state(self) -> dict[str, Array]:
        """Return the means."""
        return {"mean": self.mean}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        self.mean[...] = state["mean"]
