"""The drift of stochastic localization: the means of the weights, given the field.

AMP is the denoiser that scales; any function (field (k, n), time (k,)) -> mean (k, n) will do, for instance the exact
one of a small problem, `lambda field, time: law.posterior_mean(field)` with `law = problem.enumerate()`. Samples are
columns, lanes; where several problems run together, problem i has the lanes i `each` … (i + 1) `each` - 1.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solspace.measure.priors import Prior
from solspace.numerics.arrays import Array, Precision
from solspace.problem import Perceptron
from solspace.samplers.localization.steps import Pace
from solspace.samplers.marginals.cpu import Messages, SampleColumns
from solspace.samplers.marginals.ep import Propagation
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.relaxation import Effort, Relaxation
from solspace.system.checks import shown

DenoiserFunction = Callable[[Array, Array], Array]
"""(field (k, n), time (k,)) -> mean (k, n)."""


class Denoiser:
    """What brings the means of `samples` up to their fields, which the integrators move."""

    samples: SampleColumns | GpuMessages
    damping: Array
    robust = False
    """Whether a sample whose iteration diverged has means that can be drawn from all the same."""

    @property
    def instability(self) -> Array:
        """(k,) λ; NaN if unknown."""
        return np.full(self.samples.k, np.nan)

    def start(self) -> Effort:
        """Make the first call, at zero field and time, for all samples."""
        return self.relax(np.zeros(self.samples.k), np.arange(self.samples.k))

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Bring the means of the samples `lanes` up to their field and `time` (k,)."""
        raise NotImplementedError

    def decoded(self, prior: Prior, random: Callable[[int], Array]) -> Array:
        """Return the weights (k, n) that the means stand for, or `random(j)` if sample j has no direction."""
        if isinstance(self.samples, GpuMessages) and prior.name == "binary":
            return self.samples.signs(random)
        means = self.samples.means()
        for j in np.flatnonzero(~(np.isfinite(means).all(axis=1) & (means != 0).any(axis=1))):
            means[j] = random(int(j))
        return prior.decode(means)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Go on at `pace` with the samples `lanes` (k,) of True."""

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on."""
        return {"field": self.samples.field, "mean": self.samples.mean}

    def load(self, state: dict[str, Array]) -> None:
        """Take over what `state` returned."""
        for name, part in self.state().items():
            part[...] = state[name]


class MessagePassing(Denoiser):
    """Message passing with warm starts: every call begins where the last one ended."""

    STATE = ("damping", "patience", "tolerance", "limit")

    def __init__(self, messages: Messages | GpuMessages, automatic: bool, pace: Pace) -> None:
        self.samples = self.messages = messages
        self.pace = pace
        self.relaxation = Relaxation(messages, pace.damping, automatic, persistent=True)
        self.damping, self.patience = self.relaxation.damping, self.relaxation.patience
        self.tolerance, self.limit = np.full(messages.k, pace.tolerance), np.full(messages.k, pace.limit)

    @property
    def instability(self) -> Array:
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instabilities()

    def start(self) -> Effort:
        """Relax one sample of each problem at zero field, to a tighter tolerance, and copy its messages to the others."""
        first = np.arange(0, self.messages.k, self.messages.each)
        effort = self.relaxation.run(1e-3 * self.tolerance, 10 * self.limit, first)
        self.messages.share()
        source = np.repeat(first, self.messages.each)
        self.damping[...], self.patience[...] = self.damping[source], self.patience[source]
        return effort.of(source)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        self.messages.time[...] = time
        return self.relaxation.run(self.tolerance * self.pace.sharpness(self.instability), self.limit, lanes)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Take over the tolerance, the limit and at least the damping of `pace`."""
        self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
        self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return fields, messages and their damping."""
        return {**self.messages.state(), **{name: getattr(self, name) for name in self.STATE}}

    def load(self, state: dict[str, Array]) -> None:
        """Take over what `state` returned."""
        self.messages.load(state)
        for name in self.STATE:
            getattr(self, name)[...] = state[name]


class SitePropagation(Denoiser):
    """Expectation propagation with warm starts, for patterns of any kind."""

    robust = True

    def __init__(self, propagation: Propagation, pace: Pace) -> None:
        self.propagation, k = propagation, propagation.k
        self.samples, self.damping = SampleColumns.zeros(propagation.problem.n, k, "float64"), np.zeros(k)
        self.tolerance, self.limit = np.full(k, pace.tolerance), np.full(k, pace.limit)

    def start(self) -> Effort:
        """Propagate one sample at zero field, to a tighter tolerance, and copy its sites to all others."""
        effort = self.propagation.run(1e-3 * self.tolerance, 10 * self.limit, np.array([0]))
        self.propagation.share()
        self.samples.mean[...] = self.propagation.mean.T
        return effort.of(np.zeros(self.samples.k, int))

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        self.propagation.field[lanes] = self.samples.field[:, lanes].T
        effort = self.propagation.run(self.tolerance, self.limit, lanes)
        self.samples.mean[:, lanes] = self.propagation.mean[lanes].T
        return effort

    def state(self) -> dict[str, Array]:
        """Return fields, means and sites."""
        own = self.propagation
        sites = {f"sites_{i}": part for i, part in enumerate(own.sites)}
        return {**super().state(), **sites, "share": own.step, "missed": own.missed}

    def load(self, state: dict[str, Array]) -> None:
        """Take over what `state` returned."""
        super().load(state)
        self.propagation.mean[...] = self.samples.mean.T


class Function(Denoiser):
    """A function (field (k, n), time (k,)) -> mean (k, n)."""

    def __init__(self, problem: Perceptron, k: int, dtype: Precision, function: DenoiserFunction) -> None:
        self.function, self.damping = function, np.zeros(k)
        self.samples = SampleColumns.zeros(problem.n, k, dtype)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Evaluate the function; raise ValueError where it returns anything but real means of the right shape."""
        field = self.samples.field[:, lanes].T
        returned = self.function(field, time[lanes])
        try:
            means = np.asarray(returned)
        except ValueError:  # rows of unequal length
            means = np.asarray(None)
        if means.shape != field.shape or means.dtype.kind not in "biuf":
            found = f"shape {means.shape}, {means.dtype}" if means.shape else shown(returned)
            raise ValueError(
                f"denoiser must return the means of the weights, real numbers of shape {field.shape} like the field; "
                f"got {found}."
            )
        self.samples.mean[:, lanes] = means.T
        return Effort.none(self.samples.k)
