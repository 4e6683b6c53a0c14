"""The Gaussian of expectation propagation, with one site for each weight and one for each constraint, and its moments.

    exp(-wᵀ A w/2 + eᵀ w),   A = diag(Γ) + Fᵀ Λ F,   e = c + Fᵀ b,   F = patterns/√n, see `Factors.matrix`

Needed are the variances of the weights, diag A⁻¹, and of the stabilities, diag F A⁻¹ Fᵀ, the means of both, and log|A|. With
fewer constraints than weights all follow from a matrix of their number (Woodbury): W = √Λ F/√Γ, B = 1 + W Wᵀ = L Lᵀ,

    (A⁻¹)_ii = (1 - |L⁻¹ W_i|²)/Γ_i,   (F A⁻¹ Fᵀ)_μμ = (1 - (B⁻¹)_μμ)/Λ_μ,   log|A| = Σ log Γ + log|B|.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.marginals.factors import Factors
from solspace.system.threads import one_blas_thread, split

LEAST_WEIGHT, LEAST_CONSTRAINT = 1e-4, 1e-8  # sites nearer to zero are moved away from it: both forms divide by them
_ROOM = 1 << 28  # most numbers of one array (samples, m, n) on the device
_EXACT = 1e-12  # largest squared residual of the means' equations, relative to their right-hand side, if A is definite
# means and variances of the weights, variances of the stabilities, and log|A|
Solved = tuple[Array, Array, Array, float]
GpuSolved = tuple[DeviceArray, DeviceArray, DeviceArray, DeviceArray]


class Sites(NamedTuple):
    """Precisions and linear terms: Γ and c of the weights (…, n), Λ and b of the constraints (…, m)."""

    weight_precision: Array
    weight_linear: Array
    constraint_precision: Array
    constraint_linear: Array

    def of(self, lanes: Array) -> Sites:
        return Sites(*(part[lanes] for part in self))

    def moved(self, other: Sites, share: Array) -> Sites:
        return Sites(*(own + share[:, None] * (new - own) for own, new in zip(self, other)))


class Moments(NamedTuple):
    """Means and variances of weights (…, n) and stabilities (…, m), log|A|, and whether A is positive definite."""

    mean: Array
    variance: Array
    stability_mean: Array
    stability_variance: Array
    log_determinant: Array
    proper: Array

    @classmethod
    def none(cls, sites: Sites) -> Moments:
        (k, n), m = sites.weight_precision.shape, sites.constraint_precision.shape[1]
        weights, constraints = (np.zeros((k, n)), np.ones((k, n))), (np.zeros((k, m)), np.ones((k, m)))
        return cls(*weights, *constraints, np.zeros(k), np.zeros(k, bool))


def put(own: Sequence[Array], lanes: Array, new: Sequence[Array]) -> None:
    for part, source in zip(own, new):
        part[lanes] = source


class Gaussian:
    """The patterns of a problem, and the moments of Gaussians with sites on them; double precision."""

    def __init__(self, problem: Perceptron) -> None:
        self.matrix = Factors(problem).matrix

    def moments(self, sites: Sites) -> Moments:
        found, sites = Moments.none(sites), away_from_zero(sites)

        def some(start: int, stop: int) -> None:
            with np.errstate(all="ignore"):
                for j in range(start, stop):
                    solved = self._solve(Sites(*(part[j] for part in sites)))
                    if solved is not None:
                        mean, variance, seen, determinant = solved
                        for part, own in zip(found, (mean, variance, self.matrix @ mean, seen, determinant, True)):
                            part[j] = own

        with one_blas_thread():
            split(some, len(found.proper))
        return found

    def _solve(self, own: Sites) -> Solved | None:
        gamma, c, lam, b = own
        m, n = self.matrix.shape
        if not all(np.isfinite(part).all() for part in own):
            return None
        linear = c + self.matrix.T @ b
        if m > n:
            return self._by_weights(gamma, lam, linear)
        if (gamma > 0).all() and (lam > 0).all():
            return self._by_constraints(gamma, lam, linear)
        return self._indefinite(gamma, lam, linear)

    def _by_constraints(self, gamma: Array, lam: Array, linear: Array) -> Solved | None:
        root = 1 / np.sqrt(gamma)
        w = self.matrix * root
        w *= np.sqrt(lam)[:, None]
        b = blas.dsyrk(1.0, w.T, trans=1, lower=1)
        b[np.diag_indices_from(b)] += 1
        lower, info = lapack.dpotrf(b, lower=1, overwrite_a=1)
        if info:
            return None
        tilted = root * linear
        mean = root * (tilted - w.T @ lapack.dpotrs(lower, w @ tilted, lower=1)[0])
        # the rows of w in memory are columns to BLAS: X = L⁻¹ w is (w ᵀ L⁻ᵀ)ᵀ
        x = blas.dtrsm(1.0, lower, w.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        inverse, _ = lapack.dtrtri(lower, lower=1)
        variance = (1 - np.einsum("mn,mn->n", x, x)) / gamma
        seen = (1 - np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))) / lam
        determinant = np.log(gamma).sum() + 2 * np.log(np.diag(lower)).sum()
        return mean, variance, seen, float(determinant)

    def _by_weights(self, gamma: Array, lam: Array, linear: Array) -> Solved | None:
        precision = self.matrix.T @ (self.matrix * lam[:, None])
        precision[np.diag_indices_from(precision)] += gamma
        lower, info = lapack.dpotrf(precision, lower=1, overwrite_a=1)
        if info:
            return None
        mean = lapack.dpotrs(lower, linear, lower=1)[0]
        inverse = np.tril(lapack.dtrtri(lower, lower=1)[0])
        x = self.matrix @ inverse.T  # diag(F A⁻¹ Fᵀ) are the squared norms of the rows of F L⁻ᵀ
        variance, seen = np.einsum("ij,ij->j", inverse, inverse), np.einsum("mn,mn->m", x, x)
        return mean, variance, seen, float(2 * np.log(np.diag(lower)).sum())

    def _indefinite(self, gamma: Array, lam: Array, linear: Array) -> Solved | None:
        """Factorise S = 1/Λ + F Γ⁻¹ Fᵀ: A is positive definite if S has as many negative eigenvalues as Γ and Λ (Sylvester)."""
        scaled = self.matrix / gamma
        s = scaled @ self.matrix.T
        s[np.diag_indices_from(s)] += 1 / lam
        factor, pivots, inverse, info = lapack.dsysv(s, np.eye(len(s)), lower=1, overwrite_a=1, overwrite_b=1)
        if info:
            return None
        negative, determinant = _inertia(factor, pivots)
        if negative != (gamma < 0).sum() + (lam < 0).sum():
            return None
        x = inverse @ scaled
        mean = linear / gamma - x.T @ (self.matrix @ (linear / gamma))
        variance = 1 / gamma - np.einsum("mn,mn->n", scaled, x)
        seen = (1 - np.diag(inverse) / lam) / lam
        if not ((variance > 0).all() and (seen > 0).all()):
            return None  # lost to rounding
        determinant += np.log(np.abs(gamma)).sum() + np.log(np.abs(lam)).sum()
        return mean, variance, seen, float(determinant)


def away_from_zero(sites: Sites) -> Sites:
    gamma, c, lam, b = sites
    gamma = np.where(np.abs(gamma) < LEAST_WEIGHT, np.copysign(LEAST_WEIGHT, gamma), gamma)
    return Sites(gamma, c, np.where(np.abs(lam) < LEAST_CONSTRAINT, np.copysign(LEAST_CONSTRAINT, lam), lam), b)


def _inertia(factor: Array, pivots: Array) -> tuple[int, float]:
    """Return the number of negative eigenvalues and log|det| from the blocks of one or two rows of an LDLᵀ."""
    diagonal, below = np.diag(factor), np.diag(factor, -1)
    negative, log_determinant, i = 0, 0.0, 0
    while i < len(diagonal):
        if pivots[i] > 0:
            negative += int(diagonal[i] < 0)
            log_determinant += float(np.log(abs(diagonal[i])))
            i += 1
        else:
            block = diagonal[i] * diagonal[i + 1] - below[i] ** 2
            negative += 1 if block < 0 else 2 * int(diagonal[i] < 0)
            log_determinant += float(np.log(abs(block)))
            i += 2
    return negative, log_determinant


class ScalarGaussian:
    """Moments where all weights share one precision, and all constraints another: from singular values, once."""

    def __init__(self, problem: Perceptron) -> None:
        self.matrix = Factors(problem).matrix
        _, values, self.right = np.linalg.svd(self.matrix, full_matrices=False)
        self.squares = values**2

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites whose precisions (k, n) and (k, m) are constant along their rows."""
        gamma, c, lam, b = sites
        m, n = self.matrix.shape
        one, other = gamma[:, :1], lam[:, :1]
        precision = one + other * self.squares
        proper = (one[:, 0] > 0) & (precision > 0).all(axis=1)
        one, precision = np.where(proper[:, None], one, 1.0), np.where(proper[:, None], precision, 1.0)
        linear = c + b @ self.matrix
        along = linear @ self.right.T
        mean = linear / one + (along * (1 / precision - 1 / one)) @ self.right
        rest = (n - len(self.squares)) / one
        variance = ((1 / precision).sum(axis=1, keepdims=True) + rest) / n
        seen = (self.squares / precision).sum(axis=1, keepdims=True) / m
        determinant = np.log(precision).sum(axis=1) + (n - len(self.squares)) * np.log(one[:, 0])
        return Moments(
            mean, np.broadcast_to(variance, c.shape).copy(), mean @ self.matrix.T,
            np.broadcast_to(seen, b.shape).copy(), determinant, proper,
        )  # fmt: skip


class GpuGaussian:
    """The patterns of a problem on the device, and the moments of Gaussians with sites on them."""

    def __init__(self, problem: Perceptron) -> None:
        self.cupy = cupy()
        self.matrix = sent(Gaussian(problem).matrix)

    def moments(self, sites: Sites) -> Moments:
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
                put(found, few, self._batch(form, sites.of(few)))
        return found

    def _batch(self, form: Callable[..., GpuSolved], sites: Sites) -> Moments:
        gamma, c, lam, b = (sent(part) for part in sites)
        device, matrix = self.cupy, self.matrix
        linear = c + b @ matrix
        mean, variance, seen, determinant = form(gamma, lam, linear)
        stability = mean @ matrix.T
        # if A was not positive definite, its "factorisation" solves other equations
        off = gamma * mean + (lam * stability) @ matrix - linear
        exact = (off * off).sum(axis=1) < _EXACT * (1 + (linear * linear).sum(axis=1))
        proper = device.isfinite(determinant) & exact & (variance > 0).all(axis=1) & (seen > 0).all(axis=1)
        return Moments(*(fetched(part) for part in (mean, variance, stability, seen, determinant, proper)))

    def _by_constraints(self, gamma: DeviceArray, lam: DeviceArray, linear: DeviceArray) -> GpuSolved:
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

    def _by_weights(self, gamma: DeviceArray, lam: DeviceArray, linear: DeviceArray) -> GpuSolved:
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
