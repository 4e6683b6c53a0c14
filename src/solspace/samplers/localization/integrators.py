"""Steps of stochastic localization, dh = m_t(h) dt + db, with the denoiser m_t(h) as the drift.

Over a step the field gains w dt + db, with w drawn from the posterior of the weights given h: mean m dt, covariance
dt + C dt² where C is the posterior's. The schemes differ in how much of C they see.

* `heun`: predict with the drift at the start, correct with the mean of both ends; the response of m to the noise, C db,
  is what the corrector adds. Second order; two calls of the denoiser a step.
* `matched`: heun with noise of another amplitude, √(dt (1 + Δ dt))/(1 + Δ' dt/2) with Δ' = Δ/(1 + Δ dt), the variance
  after the step. Then a step is exact where weights are independent and Gaussian (there heun's q is 2% low at dt = 0.2),
  and the corrector adds what C has beside Δ. The default for ±1 weights: half of heun's bias in overlaps, at its cost.
* `posterior`: put the weights' own variances in the place of C, noise of variance dt (1 + Δ dt). One call a step; right
  where weights are independent given h, that is where the instability λ, tr C²/(n Δ²) = 1/(1 - λ), is small.
* `mixed`: posterior for samples with λ < 0.02, matched for the others. The default on the sphere.
* `euler`: m dt + db. Lags behind (q(t) up to 4% low at steps of 0.05); for comparison.

Time runs separately for every sample; a finished sample takes steps of length 0.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.localization.denoisers import Denoiser
from solspace.samplers.marginals.relaxation import Effort

Integrator = Callable[[Denoiser, Array, Array, Array, Array], Effort]
"""(denoiser, time (k,), step (k,), noise, lanes) -> effort: moves the denoiser's field and means."""
WEAK = 0.02
"""Instability below which the weights count as independent given the field."""


def heun(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields of the samples `lanes` from `time` (k,) by `step` (k,), driven by `noise`, N(0, 1) each."""
    return _corrected(denoiser, time, step, noise, lanes, denoiser.widen(np.sqrt(step)), lanes)


def matched(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields as `heun` does, with noise that makes the step exact for independent Gaussian weights."""
    return _corrected(denoiser, time, step, noise, lanes, _amplitude(denoiser, step), lanes)


def posterior(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields as `heun` does, with the variance that the weights' own spread adds to the noise."""
    wide = denoiser.widen(step)
    _diffuse(denoiser, wide, noise, np.sqrt(wide * (1 + wide * denoiser.spread())))
    return denoiser.relax(time + step, lanes)


def mixed(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields as `posterior` does where the instability is below WEAK, as `matched` does elsewhere."""
    weak = denoiser.instability < WEAK
    if weak[lanes].all():
        return posterior(denoiser, time, step, noise, lanes)
    amplitude = _amplitude(denoiser, step, denoiser.widen(~weak))
    return _corrected(denoiser, time, step, noise, lanes, amplitude, lanes[~weak[lanes]])


def euler(denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move the fields as `heun` does, with the drift at the start of the step alone."""
    _diffuse(denoiser, denoiser.widen(step), noise, denoiser.widen(np.sqrt(step)))
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
    wide = denoiser.widen(step)
    gain = wide * denoiser.spread()
    return np.sqrt(wide * (1 + gain)) / (1 + 0.5 * corrected * gain / (1 + gain))


def _corrected(
    denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array, amplitude: Array, corrected: Array
) -> Effort:
    """Predict all `lanes`, then correct those `corrected` by half the change of the drift."""
    before = denoiser.mean.copy()
    _diffuse(denoiser, denoiser.widen(step), noise, amplitude)
    predicted = denoiser.relax(time + step, lanes)
    half = np.zeros(denoiser.k)
    half[corrected] = step[corrected] / 2
    np.subtract(denoiser.mean, before, out=before)
    before *= denoiser.widen(half)
    denoiser.field += before
    return predicted + denoiser.relax(time + step, corrected)


def _diffuse(denoiser: Denoiser, step: Array, noise: Array, amplitude: Array) -> None:
    """Add mean · step + noise · amplitude to the fields; the noise is used up."""
    noise *= amplitude
    denoiser.field += noise
    np.multiply(denoiser.mean, step, out=noise)
    denoiser.field += noise
