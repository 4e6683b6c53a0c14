"""`gaussian.Gaussian` on a CUDA device: the moments of many Gaussians in a few batched calls, in double precision.

The forms are those of `gaussian`, with inverses of triangular factors in the place of triangular solves, which come in no
batches. Where sites are negative A itself is factorised: a device multiplies as fast as it counts eigenvalues slowly.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.marginals.gaussian import Gaussian, Moments, Sites, away_from_zero

Solved = tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]
"""Means and variances of the weights, variances of the stabilities, and log det A."""
_ROOM = 1 << 28
"""Most numbers of one array (samples, m, n) on the device."""
_SOUND = 1e-12
"""Largest squared residual of the means' equations, over the squared right-hand side, of a factorisation that succeeded."""


class GpuGaussian:
    """The patterns of a problem on the device, and the moments of Gaussians with sites on them."""

    def __init__(self, problem: Perceptron) -> None:
        self.cupy = cupy()
        self.matrix = sent(Gaussian(problem).matrix)

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites (k, n) and (k, m)."""
        found, sites = Moments.none(sites), away_from_zero(sites)
        finite = np.logical_and.reduce([np.isfinite(part).all(axis=1) for part in sites])
        positive = (sites.weight_precision > 0).all(axis=1) & (sites.constraint_precision > 0).all(axis=1)
        m, n = self.matrix.shape
        narrow = positive & (m <= n)
        for form, size, lanes in (
            (self._by_constraints, m * n, np.flatnonzero(finite & narrow)),
            (self._by_weights, max(m, n) * n, np.flatnonzero(finite & ~narrow)),
        ):
            room = max(1, _ROOM // size)
            for first in range(0, len(lanes), room):
                few = lanes[first : first + room]
                found.put(few, self._batch(form, sites.of(few)))
        return found

    def _batch(self, form: Callable[..., Solved], sites: Sites) -> Moments:
        device, matrix = self.cupy, self.matrix
        gamma, c, lam, b = (sent(part) for part in sites)
        linear = c + b @ matrix
        mean, variance, seen, determinant = form(gamma, lam, linear)
        stability = mean @ matrix.T
        # what is factorised though it is not positive definite solves other equations
        off = gamma * mean + (lam * stability) @ matrix - linear
        sound = (off * off).sum(axis=1) < _SOUND * (1 + (linear * linear).sum(axis=1))
        proper = device.isfinite(determinant) & sound & (variance > 0).all(axis=1) & (seen > 0).all(axis=1)
        return Moments(*(fetched(part) for part in (mean, variance, stability, seen, determinant, proper)))

    def _by_constraints(self, gamma: DeviceArray, lam: DeviceArray, linear: DeviceArray) -> Solved:
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

    def _by_weights(self, gamma: DeviceArray, lam: DeviceArray, linear: DeviceArray) -> Solved:
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


def _diagonals(matrices: DeviceArray) -> DeviceArray:
    return matrices.diagonal(0, 1, 2)
