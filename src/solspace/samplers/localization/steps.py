"""Steps of stochastic localization, dh = m_t(h) dt + db, with the denoiser m_t(h) as the drift: their form and length.

Over a step the field gains w dt + db, with w drawn from the posterior of the weights given h: mean m dt, covariance
dt + C dt² where C is the posterior's. The schemes differ in how much of C they see.

* `heun`: predict with the drift at the start, correct with the mean of both ends; the response of m to the noise, C db,
  is what the corrector adds. Second order; two calls of the denoiser a step.
* `matched`: heun with noise of another amplitude, √(dt (1 + Δ dt))/(1 + Δ' dt/2) with Δ' = Δ/(1 + Δ dt), the variance
  after the step. Then a step is exact where weights are independent and Gaussian, and the corrector adds what C has
  beside Δ. The default for ±1 weights: half of heun's bias in overlaps, at its cost.
* `posterior`: replace C by the weights' own variances: noise of variance dt (1 + Δ dt). One call a step; right
  where weights are independent given h, that is where the instability λ, tr C²/(n Δ²) = 1/(1 - λ), is small.
* `mixed`: posterior for samples with λ < 0.02, matched for the others. The default on the sphere.
* `euler`: m dt + db. Lags behind; for comparison.

*fast* takes some 25 steps for ±1 weights (dt = min(0.2 (1 + t), 1) up to t = 20) and some 50 on the sphere (dt = 0.2 (1
+ t) up to t = 10⁴). *careful* takes steps of 0.04 (1 + t) with damping 0.3: it reaches loads where fast runs miss
constraints, at three to four times the cost. *auto* runs fast and lets a sample go on carefully from the moment its
measured instability λ = α mean(Δ²) mean(g'²) passes 0.7; AMP stops converging at 1.

Near λ = 1 the weights answer to the field as 1/(1 - λ): on the sphere, where this happens at t = 0 (close to the dAT line
half of the way from r to 1 is made before t = 0.05), steps shrink as 1 - λ, and the tolerance with the square of 1 - √λ,
√λ being the factor by which an iteration shrinks an error. There a careful sample goes fast again when λ is below 0.5.
Time runs separately for every sample; a finished sample takes steps of length 0.

Normal deviates are functions of (seed of the problem, sample, step, weight), the same bits on the processor and on a device:
sample j sees the same whatever runs beside it, and after any interruption. They are single precision at every working
precision, so that one seed means one path of noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from solspace.measure.priors import Prior, Spherical
from solspace.numerics.arrays import Array
from solspace.samplers.device import DeviceArray, cupy, sent
from solspace.samplers.marginals.relaxation import Effort
from solspace.system.threads import split

if TYPE_CHECKING:
    from solspace.samplers.localization.denoisers import Denoiser

WEAK = 0.02
"""Instability below which the weights count as independent given the field."""
ACCURACIES = ("auto", "fast", "careful")
NEAR, FAR = 0.7, 0.5
"""Instability at which `auto` slows a sample down, and at which a critical sample goes fast again."""
BRAKE = 0.25
"""Least factor on a step."""
SHORT = 0.1
"""Step of samples that leave by a draw in the field: they go less far, and half the step has a quarter of its bias."""
EVEN = 1e-4
"""Tolerance for ±1 weights of mean 0 without a field (`Target.even`): 1e-3 is too much beside means that begin at 0."""
_BLOCK = 128

Integrator = Callable[["Denoiser", Array, Array, Array, Array], Effort]
"""(denoiser, time (k,), step (k,), noise, lanes) -> effort: moves the fields and means of the samples `lanes`."""


def heun(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Predict with the drift at the start, correct with the mean of both ends."""
    return _corrected(denoiser, time, step, noise, lanes, denoiser.samples.widen(np.sqrt(step)), lanes)


def matched(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Step as `heun` does, with noise that makes the step exact for independent Gaussian weights."""
    return _corrected(denoiser, time, step, noise, lanes, _amplitude(denoiser, step), lanes)


def posterior(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Step with the drift at the start and the variance that the weights' own spread adds to the noise."""
    wide = denoiser.samples.widen(step)
    _diffuse(denoiser, wide, noise, np.sqrt(wide * (1 + wide * denoiser.samples.spreads())))
    return denoiser.relax(time + step, lanes)


def mixed(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Step as `posterior` does where the instability is below WEAK, as `matched` does elsewhere."""
    weak = denoiser.instability < WEAK
    if weak[lanes].all():
        return posterior(denoiser, time, step, noise, lanes)
    amplitude = _amplitude(denoiser, step, denoiser.samples.widen(~weak))
    return _corrected(denoiser, time, step, noise, lanes, amplitude, lanes[~weak[lanes]])


def euler(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Step with the drift at the start alone."""
    _diffuse(denoiser, denoiser.samples.widen(step), noise, denoiser.samples.widen(np.sqrt(step)))
    return denoiser.relax(time + step, lanes)


INTEGRATORS: dict[str, Integrator] = {
    "heun": heun,
    "matched": matched,
    "posterior": posterior,
    "mixed": mixed,
    "euler": euler,
}


def _amplitude(denoiser: Denoiser, step: Array, corrected: Array | float = 1.0) -> Array:
    """Return the amplitude of the noise whose variance is dt (1 + Δ dt) after the columns `corrected` are."""
    wide = denoiser.samples.widen(step)
    gain = wide * denoiser.samples.spreads()
    return np.sqrt(wide * (1 + gain)) / (1 + 0.5 * corrected * gain / (1 + gain))


def _corrected(
    denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array, amplitude: Array, corrected: Array
) -> Effort:
    """Predict all `lanes`, then correct those `corrected` by half the change of the drift."""
    samples = denoiser.samples
    before = samples.mean.copy()
    _diffuse(denoiser, samples.widen(step), noise, amplitude)
    predicted = denoiser.relax(time + step, lanes)
    half = np.zeros(samples.k)
    half[corrected] = step[corrected] / 2
    np.subtract(samples.mean, before, out=before)
    before *= samples.widen(half)
    samples.field += before
    return predicted + denoiser.relax(time + step, corrected)


def _diffuse(denoiser: Denoiser, step: Array, noise: Array, amplitude: Array) -> None:
    """Add mean · step + noise · amplitude to the fields; overwrites `noise`."""
    noise *= amplitude
    denoiser.samples.field += noise
    np.multiply(denoiser.samples.mean, step, out=noise)
    denoiser.samples.field += noise


@dataclass(frozen=True)
class Pace:
    """Steps dt = min(step (1 + t), longest); AMP to `tolerance` within `limit` iterations, damped at least by
    `damping`. Where `critical`, steps and tolerance shrink as the instability nears 1.
    """

    step: float
    longest: float
    tolerance: float
    limit: int
    damping: float
    critical: bool = False

    def sharpness(self, instability: Array) -> Array:
        """Return the factor (k,) on the tolerance: an error is 1/(1 - √λ) times what the last iteration changed."""
        if not self.critical:
            return np.ones(len(instability))
        known = np.where(np.isfinite(instability), instability, 0.0)
        return np.clip(4 * (1 - np.sqrt(np.minimum(known, 1))) ** 2, 0.1, 1)

    def brake(self, instability: Array) -> Array:
        """Return the factor (k,) on the step."""
        if not self.critical:
            return np.ones(len(instability))
        return np.clip(1 - np.where(np.isfinite(instability), instability, 0.0), BRAKE, 1)


FAST = {"binary": Pace(0.2, 1.0, 1e-3, 50, 0.0), "spherical": Pace(0.2, np.inf, 1e-4, 300, 0.0, True)}
CAREFUL = {"binary": Pace(0.04, np.inf, 1e-3, 60, 0.3), "spherical": Pace(0.05, np.inf, 1e-4, 300, 0.0, True)}
FINAL_TIME = {"binary": 20.0, "spherical": 1e4}
INTEGRATOR = {"binary": "matched", "spherical": "mixed"}


def kind(prior: Prior) -> str:
    """Return the prior's row in the tables above."""
    return "spherical" if isinstance(prior, Spherical) else "binary"


def paces(prior: Prior, accuracy: str, **options: Any) -> tuple[Pace, Pace | None]:
    """Return the pace to start at and the one to slow down to, both with those `options` that are not None.

    >>> from solspace.measure.priors import Binary
    >>> paces(Binary(), "fast", step=0.1)
    (Pace(step=0.1, longest=1.0, tolerance=0.001, limit=50, damping=0.0, critical=False), None)
    """
    changes = {name: value for name, value in options.items() if value is not None}
    fast, careful = replace(FAST[kind(prior)], **changes), replace(CAREFUL[kind(prior)], **changes)
    return (careful, None) if accuracy == "careful" else (fast, careful if accuracy == "auto" else None)


class Clock:
    """The times of `k` samples on their way to `final`; `times` is a grid for all, or None: each at its own pace."""

    STATE = ("time", "taken", "step", "longest", "careful", "slow")

    def __init__(self, k: int, final: float, times: Array | None, pace: Pace, slower: Pace | None) -> None:
        self.final, self.times, self.pace, self.slower = final, times, pace, slower
        self.time, self.taken = np.zeros(k), np.zeros(k, int)
        self.step, self.longest = np.full(k, pace.step), np.full(k, pace.longest)
        self.careful, self.slow = np.zeros(k, bool), np.zeros(k, bool)

    @property
    def running(self) -> Array:
        """(k,) True for samples that have not arrived."""
        return self.time < self.final

    def next_steps(self, instability: Array) -> Array:
        """Return the lengths of the next steps (k,), 0 for samples that have arrived."""
        if self.times is not None:
            here = np.minimum(self.taken, len(self.times) - 2)
            return np.where(self.running, self.times[here + 1] - self.times[here], 0.0)
        steps = np.minimum(self.step * (1 + self.time), self.longest) * self.pace.brake(instability)
        left = self.final - self.time
        # A last step much shorter than the others would cost as much as they do.
        return np.where(left < 1.2 * steps, left, steps) * self.running

    def advance(self, steps: Array) -> None:
        """Move the running samples by `steps` (k,)."""
        self.taken += steps > 0
        after = self.times[np.minimum(self.taken, len(self.times) - 1)] if self.times is not None else self.time + steps
        self.time = np.where(steps > 0, np.where(after > self.final * (1 - 1e-12), self.final, after), self.time)

    def change_pace(self, instability: Array) -> list[tuple[Pace, Array]]:
        """Return which samples (k,) go on at which other pace: carefully near instability, fast again far from it."""
        if self.slower is None:
            return []
        near = ~self.slow & self.running & (instability > NEAR)
        self.careful |= near
        self._take(near, self.slower)
        far = self.slow & self.running & (instability < FAR) & self.pace.critical
        self._take(far, self.pace)
        return [(self.slower, near), (self.pace, far)]

    def _take(self, lanes: Array, pace: Pace) -> None:
        self.step[lanes], self.longest[lanes], self.slow[lanes] = pace.step, pace.longest, pace is self.slower


def _key(seeds: np.random.SeedSequence) -> np.uint64:
    return np.uint64(seeds.generate_state(1, np.uint64)[0])


class Noise:
    """Deviates of the samples of one problem in `columns` (n, width), which they fill."""

    def __init__(self, seeds: np.random.SeedSequence, columns: Array) -> None:
        self.key, self.columns, self.n = _key(seeds), columns, len(columns)

    def draw(self, lanes: Array, steps: Array) -> Array:
        """Return the array with the deviates of `steps` (k,) of the samples `lanes`; the next call writes over it."""
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
        """Return the array with the deviates of `steps` of the samples `lanes`; the next call writes over it."""
        where, count = (sent(np.asarray(part, np.int32)) for part in (lanes, np.asarray(steps)[lanes])), len(lanes)
        grid = (-(-self.n // 4), -(-count // _BLOCK))
        sizes = np.int32(self.n), np.int32(self.k)
        self._kernel("normals")(grid, (_BLOCK,), (*where, np.int32(count), self.keys, *sizes, self.table, self.columns))
        return self.columns

    def stir(self, field: DeviceArray, step: int, size: float, share: DeviceArray, following: float) -> None:
        """Add `size` times the deviates of a step to the fields (n, k) of one problem; then let `share` be `following`."""
        grid = (-(-(-(-self.n // 4) * self.k) // _BLOCK),)
        sizes = np.int32(self.n), np.int32(self.k), self.table, np.int32(step), np.float32(size)
        self._kernel("stir")(grid, (_BLOCK,), (self.keys, *sizes, field, np.float32(following), share))

    @staticmethod
    def _kernel(name: str) -> Any:
        from solspace.samplers.kernels.cuda import kernel
        from solspace.samplers.kernels.philox import CELLS

        return kernel("noise", name, (("CELLS", CELLS),))
