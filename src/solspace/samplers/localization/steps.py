"""A step of stochastic localization, dh = m_t(h) dt + db: normal deviates, the integrators, and the denoisers m_t(h).

Over a step the field gains w dt + db, with w drawn from the posterior of the weights given h: mean m dt, covariance
dt + C dt² where C is the posterior's. The schemes of `integrate` differ in how much of C they see. Samples are columns,
lanes; problem i of several has the lanes i `each` … (i + 1) `each` - 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from solspace.measure.priors import Prior
from solspace.numerics.arrays import Array, Precision
from solspace.samplers.device import DeviceArray, cupy, sent
from solspace.samplers.marginals.ep import Propagation
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.messages import Effort, Messages, Relaxation, SampleColumns
from solspace.system.checks import shown
from solspace.system.threads import split

DenoiserFunction = Callable[[Array, Array], Array]  # (field (k, n), time (k,)) -> mean (k, n)
INTEGRATORS = ("heun", "matched", "posterior", "mixed", "euler")
WEAK = 0.02  # instability below which the weights count as independent given the field
BRAKE = 0.25  # least factor on a step
_BLOCK = 128


@dataclass(frozen=True)
class Pace:
    """Steps dt = min(step (1 + t), longest), and message passing to `tolerance` in `limit` iterations.

    AMP is damped at least by `damping`. Near instability 1 the weights answer to the field as 1/(1 - λ); where this happens at
    t = 0, as on the sphere, a pace is `critical`: steps shrink as 1 - λ, the tolerance with the square of 1 - √λ, √λ being
    the factor by which an iteration shrinks an error.
    """

    step: float
    longest: float
    tolerance: float
    limit: int
    damping: float
    critical: bool = False

    def tolerance_factor(self, instability: Array) -> Array:
        """Return the factor (k,) on the tolerance."""
        if not self.critical:
            return np.ones(len(instability))
        return np.clip(4 * (1 - np.sqrt(np.minimum(_finite(instability), 1))) ** 2, 0.1, 1)

    def step_factor(self, instability: Array) -> Array:
        """Return the factor (k,) on the step."""
        return np.clip(1 - _finite(instability), BRAKE, 1) if self.critical else np.ones(len(instability))


def _finite(instability: Array) -> Array:
    return np.where(np.isfinite(instability), instability, 0.0)


class Denoiser:
    """Brings the means of `samples` up to their fields, which the integrators move."""

    samples: SampleColumns
    damping: Array
    robust = False  # whether a sample whose iteration diverged has means that can be drawn from all the same

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
        """Return the weights (k, n) nearest to the means, or to `random(j)` where the mean of sample j has no direction."""
        if isinstance(self.samples, GpuMessages) and prior.name == "binary":
            return self.samples.signs(random)
        means = self.samples.means()
        for j in np.flatnonzero(~(np.isfinite(means).all(axis=1) & (means != 0).any(axis=1))):
            means[j] = random(int(j))
        return prior.decode(means)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Continue at `pace` with the samples `lanes`, (k,) bool."""

    def state(self) -> dict[str, Array]:
        """Return the arrays themselves that the rest of the run depends on, by name."""
        return self.samples.state()


class MessagePassing(Denoiser):
    """AMP with warm starts: every call begins where the last one ended."""

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
        self.messages.broadcast()
        source = np.repeat(first, self.messages.each)
        self.damping[...], self.patience[...] = self.damping[source], self.patience[source]
        return effort.of(source)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Iterate to convergence."""
        self.messages.time[...] = time
        tolerance = self.tolerance * self.pace.tolerance_factor(self.instability)
        return self.relaxation.run(tolerance, self.limit, lanes)

    def adopt(self, pace: Pace, lanes: Array) -> None:
        """Use the tolerance, the limit and at least the damping of `pace`."""
        self.tolerance[lanes], self.limit[lanes] = pace.tolerance, pace.limit
        self.damping[lanes] = np.maximum(self.damping[lanes], pace.damping)

    def state(self) -> dict[str, Array]:
        """Return fields, messages and their damping."""
        own = {"damping": self.damping, "patience": self.patience, "tolerance": self.tolerance, "limit": self.limit}
        return {**super().state(), **own}


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
        self.propagation.broadcast()
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
        return {**super().state(), **sites, "marginals": own.mean, "share": own.step, "missed": own.missed}


class Function(Denoiser):
    """A function (field (k, n), time (k,)) -> mean (k, n)."""

    def __init__(self, n: int, k: int, dtype: Precision, function: DenoiserFunction) -> None:
        self.function, self.damping = function, np.zeros(k)
        self.samples = SampleColumns.zeros(n, k, dtype)

    def relax(self, time: Array, lanes: Array) -> Effort:
        """Evaluate the function; raise ValueError unless it returns real means of the right shape."""
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


def integrate(scheme: str, denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields and means of the samples `lanes` by `step` (k,); overwrites `noise`.

    * `heun`: predict with the drift at the start, correct with the mean of both ends; what the corrector adds is C db.
    * `matched`: heun with noise √(dt (1 + Δ dt))/(1 + Δ' dt/2), Δ' = Δ/(1 + Δ dt): exact for independent Gaussian weights.
    * `posterior`: replace C by the weights' own variances, noise √(dt (1 + Δ dt)); right where weights are independent.
    * `mixed`: posterior for samples with λ below WEAK (tr C²/(n Δ²) = 1/(1 - λ)), matched for the others.
    * `euler`: the drift at the start alone; lags behind, for comparison.
    """
    samples, wide = denoiser.samples, denoiser.samples.widen(step)
    weak = denoiser.instability < WEAK if scheme == "mixed" else np.full(samples.k, scheme in ("posterior", "euler"))
    corrected = lanes[~weak[lanes]]
    if scheme in ("heun", "euler"):
        amplitude = samples.widen(np.sqrt(step))
    else:
        gain, share = wide * samples.spreads(), samples.widen(~weak) if weak.any() else 1.0
        amplitude = np.sqrt(wide * (1 + gain)) / (1 + 0.5 * share * gain / (1 + gain))
    before = samples.mean.copy() if len(corrected) else None
    noise *= amplitude
    samples.field += noise
    np.multiply(samples.mean, wide, out=noise)
    samples.field += noise
    effort = denoiser.relax(time + step, lanes)
    if before is None:
        return effort
    half = np.zeros(samples.k)
    half[corrected] = step[corrected] / 2
    np.subtract(samples.mean, before, out=before)
    before *= samples.widen(half)
    samples.field += before
    return effort + denoiser.relax(time + step, corrected)


class Noise:
    """Deviates of the samples of one problem in `columns` (n, width), which they fill.

    They are functions of (seed of the problem, sample, step, weight), the same bits on the processor and on a device, single
    precision at every working precision: one seed means one path of noise, also after an interruption.
    """

    def __init__(self, seeds: np.random.SeedSequence, columns: Array) -> None:
        self.key, self.columns, self.n = _key(seeds), columns, len(columns)

    def draw(self, lanes: Array, steps: Array) -> Array:
        """Return the array with the deviates of `steps` (k,) of the samples `lanes`; the next call overwrites it."""
        from solspace.samplers.kernels.philox import cubics, normals

        lanes, table, own = np.asarray(lanes, np.int64), cubics(), np.asarray(steps, np.int64)[lanes]

        def part(first: int, last: int) -> None:
            normals(self.key, lanes, own, table, first, last, self.columns)

        split(part, -(-self.n // 4), max(1, (1 << 14) // max(1, len(lanes))))
        return self.columns


class GpuNoise:
    """Deviates of `k` samples for each of `seeds` in an array (problems, n, k) on the device, which they fill."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence], n: int, k: int) -> None:
        from solspace.samplers.kernels.philox import cubics

        self.n, self.k = n, k
        self.keys, self.table = sent(np.array([_key(own) for own in seeds])), sent(cubics())
        self.columns = cupy().zeros((len(seeds), n, k), np.float32)

    def draw(self, lanes: Array, steps: Array) -> DeviceArray:
        """Return the array with the deviates of `steps` of the samples `lanes`; the next call overwrites it."""
        where, count = (sent(np.asarray(part, np.int32)) for part in (lanes, np.asarray(steps)[lanes])), len(lanes)
        grid = (-(-self.n // 4), -(-count // _BLOCK))
        sizes = np.int32(self.n), np.int32(self.k)
        self._kernel("normals")(grid, (_BLOCK,), (*where, np.int32(count), self.keys, *sizes, self.table, self.columns))
        return self.columns

    def stir(self, field: DeviceArray, step: int, size: float, share: DeviceArray, following: float) -> None:
        """Add `size` times the deviates of a step to the fields (n, k) of one problem; then set `share` to `following`."""
        grid = (-(-(-(-self.n // 4) * self.k) // _BLOCK),)
        sizes = np.int32(self.n), np.int32(self.k), self.table, np.int32(step), np.float32(size)
        self._kernel("stir")(grid, (_BLOCK,), (self.keys, *sizes, field, np.float32(following), share))

    @staticmethod
    def _kernel(name: str) -> Any:
        from solspace.samplers.kernels.cuda import kernel
        from solspace.samplers.kernels.philox import CELLS

        return kernel("noise", name, (("CELLS", CELLS),))


def _key(seeds: np.random.SeedSequence) -> np.uint64:
    return np.uint64(seeds.generate_state(1, np.uint64)[0])
