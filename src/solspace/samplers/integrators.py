"""Steps of stochastic localization, dh = m_t(h) dt + db, with the denoiser m_t(h) as the drift.

* `heun`: predict with the drift at the start, correct with the mean of both ends. Second order in the drift; two calls of the
  denoiser a step. The default for ±1 weights.
* `posterior`: given h the weights are, on average, m and, around it, spread by Δ, so that over any step the field gains
  w dt + db with w drawn from there: drift m dt and variance dt (1 + Δ dt). Exact but for correlations between weights; one
  call a step. The default on the sphere, where steps grow with t and Δ dt stays near `step`.
* `euler`: m dt + db. Lags behind (q(t) up to 4% low at steps of 0.05); for comparison.

Time runs separately for every sample; a finished sample takes steps of length 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.samplers.denoisers import Denoiser
from solspace.samplers.relaxation import Effort

Array = NDArray[Any]
Integrator = Callable[[Array, Denoiser, Array, Array, Array, Array], Effort]


def heun(field: Array, denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move `field` (n, width) of the samples `lanes` from `time` (k,) by `step` (k,), driven by `noise`, N(0, 1) each."""
    before = denoiser.mean.copy()
    half = denoiser.widen(step / 2)
    _diffuse(field, before, denoiser.widen(step), noise, denoiser.widen(np.sqrt(step)))
    predicted = denoiser.relax(field, time + step, lanes)
    np.subtract(denoiser.mean, before, out=before)
    before *= half
    field += before
    return predicted + denoiser.relax(field, time + step, lanes)


def euler(field: Array, denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move `field` as `heun` does, with the drift at the start of the step alone."""
    _diffuse(field, denoiser.mean, denoiser.widen(step), noise, denoiser.widen(np.sqrt(step)))
    return denoiser.relax(field, time + step, lanes)


def posterior(field: Array, denoiser: Denoiser, time: Array, step: Array, noise: Array, lanes: Array) -> Effort:
    """Move `field` as `heun` does, with the variance that the weights' own spread adds to the noise."""
    wide = denoiser.widen(step)
    _diffuse(field, denoiser.mean, wide, noise, np.sqrt(wide * (1 + wide * denoiser.spread())))
    return denoiser.relax(field, time + step, lanes)


INTEGRATORS: dict[str, Integrator] = {"heun": heun, "posterior": posterior, "euler": euler}


def _diffuse(field: Array, drift: Array, step: Array, noise: Array, amplitude: Array) -> None:
    noise *= amplitude
    field += noise
    np.multiply(drift, step, out=noise)
    field += noise
