"""The drift of stochastic localization: where the weights are on average, given the field.

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
from solspace.samplers.localization.pace import Pace
from solspace.samplers.marginals import cpu, gpu
from solspace.samplers.marginals.propagation import Propagation
from solspace.samplers.marginals.relaxation import Effort, Relaxation
from solspace.system.checks import shown

DenoiserFunction = Callable[[Array, Array], Array]
"""(field (k, n), time (k,)) -> mean (k, n)."""


class Denoiser:
    """What the loop and its integrators ask for. Arrays of columns may lie on a device."""

    k: int
    each: int
    field: Array
    """(n, width) h, moved by the integrators."""
    mean: Array
    """(n, width) mean of the weights at the field, as of the last call."""
    damping: Array
    robust = False
    """Whether a sample whose iteration diverged has means that can be drawn from all the same."""

    @property
    def instability(self) -> Array:
        """(k,) λ; NaN where nothing is known of it."""
        return np.full(self.k, np.nan)

    def start(self) -> Effort:
        """Make the first call, at zero field and time, for all samples."""
        return self.relax(np.zeros(self.k), np.arange(self.k))

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Bring `mean` of the samples `lanes` up to their field and `time` (k,)."""
        raise NotImplementedError

    def spread(self) -> Array:
        """Return the variances of the weights, (width,) or (n, width)."""
        return np.maximum(1 - self.mean * self.mean, 0)

    def widen(self, values: Array) -> Array:
        """Return `values` (k,) for all columns of `mean`, 0 beyond `k`."""
        return np.asarray(values, self.mean.dtype)

    def overlaps(self) -> Array:
        """Return |m|²/n, (k,)."""
        return np.einsum("ij,ij->j", self.mean, self.mean).astype(float) / len(self.mean)

    def means(self) -> Array:
        """Return the means (k, n) in double precision."""
        return self.mean.T.astype(float)

    def fields(self) -> Array:
        """Return the fields (k, n) in double precision."""
        return self.field.T.astype(float)

    def sound(self) -> Array:
        """Return (k,) True where field and means are finite."""
        return np.asarray((np.isfinite(self.field) & np.isfinite(self.mean)).all(axis=0))

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities (k, m) of `weights` (k, n), or None: ask the problem."""
        return None

    def decoded(self, prior: Prior, random: Callable[[int], Array]) -> Array:
        """Return the weights (k, n) that the means stand for.

        A sample without a direction (it diverged before its first step) is given the one that `random(j)` returns.
        """
        means = self.means()
        for j in np.flatnonzero(~(np.isfinite(means).all(axis=1) & (means != 0).any(axis=1))):
            means[j] = random(int(j))
        return prior.decode(means)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Go on at `pace` with the samples `lanes` (k,) of True."""

    def state(self) -> dict[str, Array]:
        """Return the arrays that the run's future depends on."""
        return {"field": self.field, "mean": self.mean}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        self.field[...], self.mean[...] = state["field"], state["mean"]


class MessagePassing(Denoiser):
    """Message passing with warm starts: every call begins where the last one ended.

    `tolerance` and `limit` (k,) may be changed between calls, and so may `damping` (k,).
    """

    STATE = ("damping", "patience", "tolerance", "limit")

    def __init__(self, messages: cpu.Messages | gpu.GpuMessages, automatic: bool, pace: Pace) -> None:
        self.messages, self.k, self.each, self.pace = messages, messages.k, messages.each, pace
        self.field, self.mean = messages.field, messages.mean
        self.relaxation = Relaxation(messages, pace.damping, automatic, persistent=True)
        self.damping, self.patience = self.relaxation.damping, self.relaxation.patience
        self.tolerance, self.limit = np.full(self.k, pace.tolerance), np.full(self.k, pace.limit)
        # asked of the messages themselves, wherever they lie
        self.widen, self.spread, self.overlaps = messages.widen, messages.spreads, messages.overlaps  # type: ignore[method-assign]
        self.means, self.fields, self.stabilities = messages.means, messages.fields, messages.stabilities  # type: ignore[method-assign]
        self.sound = messages.sound  # type: ignore[method-assign]

    @property
    def instability(self) -> Array:
        """(k,) λ = α mean(Δ²) mean(g'²)."""
        return self.messages.instabilities()

    def start(self) -> Effort:
        """Relax one sample of each problem at zero field, to a tighter tolerance, and give its messages to the others."""
        first = np.arange(0, self.k, self.each)
        effort = self.relaxation.run(1e-3 * self.tolerance, 10 * self.limit, first)
        self.messages.share()
        everyone = np.repeat(first, self.each)
        self.damping[...], self.patience[...] = self.damping[everyone], self.patience[everyone]
        return effort.of(everyone)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        self.messages.time[...] = time
        return self.relaxation.run(self.tolerance * self.pace.sharpness(self.instability), self.limit, lanes)

    def decoded(self, prior: Prior, random: Callable[[int], Array]) -> Array:
        """Return the weights; for ±1 weights a device finds their signs."""
        if isinstance(self.messages, gpu.GpuMessages) and prior.name == "binary":
            return self.messages.signs(random)
        return super().decoded(prior, random)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Take up the tolerance, the limit and at least the damping of `pace`."""
        self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
        self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return fields, messages and their damping."""
        return {**self.messages.state(), **{name: getattr(self, name) for name in self.STATE}}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        self.messages.load(state)
        for name in self.STATE:
            getattr(self, name)[...] = state[name]


class SitePropagation(Denoiser):
    """Expectation propagation with warm starts, for patterns of any kind."""

    robust = True

    def __init__(self, made: Propagation, pace: Pace) -> None:
        self.made, self.k, self.each = made, made.k, made.k
        n = made.problem.n
        self.field, self.mean, self.damping = np.zeros((n, self.k)), np.zeros((n, self.k)), np.zeros(self.k)
        self.tolerance, self.limit = np.full(self.k, pace.tolerance), np.full(self.k, pace.limit)

    def start(self) -> Effort:
        """Propagate one sample at zero field, to a tighter tolerance, and give its sites to all others."""
        first, everyone = np.array([0]), np.zeros(self.k, int)
        effort = self.made.run(1e-3 * self.tolerance, 10 * self.limit, first)
        self.made.share()
        self.mean[...] = self.made.mean.T
        return effort.of(everyone)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        self.made.field[lanes] = self.field[:, lanes].T
        effort = self.made.run(self.tolerance, self.limit, lanes)
        self.mean[:, lanes] = self.made.mean[lanes].T
        return effort

    def state(self) -> dict[str, Array]:
        """Return fields, means and sites."""
        sites = {f"sites_{i}": part for i, part in enumerate(self.made.sites)}
        return {**super().state(), **sites, "share": self.made.step, "missed": self.made.missed}

    def load(self, state: dict[str, Array]) -> None:
        """Take up what `state` returned."""
        for name, part in self.state().items():
            part[...] = state[name]
        self.made.mean[...] = self.mean.T


class Function(Denoiser):
    """A denoiser given as a function (field (k, n), time (k,)) -> mean (k, n)."""

    def __init__(
        self, problem: Perceptron, k: int, dtype: Precision, function: Callable[[Array, Array], Array]
    ) -> None:
        self.k, self.each, self.function, self.damping = k, k, function, np.zeros(k)
        self.field, self.mean = np.zeros((problem.n, k), dtype), np.zeros((problem.n, k), dtype)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Evaluate the function; raise ValueError where it returns anything but real means of the right shape."""
        field = self.field[:, lanes].T
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
        self.mean[:, lanes] = means.T
        return Effort.none(self.k)
