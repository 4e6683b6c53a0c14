"""`gaussian.Gaussian` on a CUDA device: the moments of many Gaussians in a few batched calls, in double precision.

The forms are those of `gaussian`, with inverses of triangular factors in the place of triangular solves, which come in no
batches. Samples with negative sites are few, and the processor takes them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from solspace.problem import Perceptron
from solspace.samplers.device import cupy
from solspace.samplers.marginals.gaussian import Gaussian, Moments, Sites, away_from_zero

_ROOM = 1 << 28
"""Most numbers of one array (samples, m, n) on the device."""


class GpuGaussian:
    """The patterns of a problem on the device, and the moments of Gaussians with sites on them."""

    def __init__(self, problem: Perceptron) -> None:
        self.cupy = cupy()
        self.host = Gaussian(problem)
        self.matrix = self.cupy.asarray(self.host.matrix)

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites (k, n) and (k, m)."""
        found, sites = Moments.none(sites), away_from_zero(sites)
        positive = (sites.weight_precision > 0).all(axis=1) & (sites.constraint_precision > 0).all(axis=1)
        finite = np.logical_and.reduce([np.isfinite(part).all(axis=1) for part in sites])
        there, here = np.flatnonzero(positive & finite), np.flatnonzero(~positive & finite)
        found.put(here, self.host.moments(sites.of(here)))
        m, n = self.matrix.shape
        for first in range(0, len(there), max(1, _ROOM // (m * n))):
            lanes = there[first : first + max(1, _ROOM // (m * n))]
            found.put(lanes, self._batch(sites.of(lanes)))
        return found

    def _batch(self, sites: Sites) -> Moments:
        device, matrix = self.cupy, self.matrix
        gamma, c, lam, b = (device.asarray(part) for part in sites)
        linear = c + b @ matrix
        form = self._by_constraints if len(matrix) <= matrix.shape[1] else self._by_weights
        mean, variance, seen, determinant = form(gamma, lam, linear)
        stability = mean @ matrix.T
        proper = device.isfinite(determinant) & (variance > 0).all(axis=1) & (seen > 0).all(axis=1)
        return Moments(*(part.get() for part in (mean, variance, stability, seen, determinant, proper)))

    def _by_constraints(self, gamma: Any, lam: Any, linear: Any) -> tuple[Any, Any, Any, Any]:
        device = self.cupy
        root = 1 / device.sqrt(gamma)
        w = self.matrix * root[:, None, :] * device.sqrt(lam)[:, :, None]
        lower = device.linalg.cholesky(w @ w.transpose(0, 2, 1) + device.eye(w.shape[1]))
        inverse = device.linalg.inv(lower)
        x = inverse @ w
        tilted = root * linear
        along = (x @ tilted[:, :, None])[:, :, 0]
        mean = root * (tilted - (x.transpose(0, 2, 1) @ along[:, :, None])[:, :, 0])
        variance = (1 - (x * x).sum(axis=1)) / gamma
        seen = (1 - (inverse * inverse).sum(axis=1)) / lam
        determinant = device.log(gamma).sum(axis=1) + 2 * device.log(_diagonals(lower)).sum(axis=1)
        return mean, variance, seen, determinant

    def _by_weights(self, gamma: Any, lam: Any, linear: Any) -> tuple[Any, Any, Any, Any]:
        device, matrix = self.cupy, self.matrix
        precision = matrix.T @ (lam[:, :, None] * matrix)
        n = matrix.shape[1]
        precision[:, device.arange(n), device.arange(n)] += gamma
        lower = device.linalg.cholesky(precision)
        inverse = device.linalg.inv(lower)
        mean = (inverse.transpose(0, 2, 1) @ (inverse @ linear[:, :, None]))[:, :, 0]
        x = inverse @ matrix.T
        variance, seen = (inverse * inverse).sum(axis=1), (x * x).sum(axis=1)
        return mean, variance, seen, 2 * device.log(_diagonals(lower)).sum(axis=1)


def _diagonals(matrices: Any) -> Any:
    return matrices.diagonal(0, 1, 2)
