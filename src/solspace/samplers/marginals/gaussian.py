"""The Gaussian at the heart of expectation propagation, with one site for each weight and one for each constraint:

    exp(-wᵀ A w/2 + eᵀ w),   A = diag(Γ) + Fᵀ Λ F,   e = c + Fᵀ b,   F = patterns/√n

What is asked of it are the variances of the weights, diag A⁻¹, and of the stabilities, diag F A⁻¹ Fᵀ, the means of both, and
log|A|. Where constraints are fewer than weights all of it comes from a matrix of their number (Woodbury): with W = √Λ F/√Γ
and B = 1 + W Wᵀ = L Lᵀ,

    (A⁻¹)_ii = (1 - |L⁻¹ W_i|²)/Γ_i,   (F A⁻¹ Fᵀ)_μμ = (1 - (B⁻¹)_μμ)/Λ_μ,   log|A| = Σ log Γ + log|B|,

which loses no digits, B being at least 1. Sites of weights may be negative, and those of constraints whose weight is not
log-concave; A must be positive definite all the same. Then S = 1/Λ + F Γ⁻¹ Fᵀ is factorised as it is, and Sylvester's law
of inertia tells: A is positive definite if S has just as many negative eigenvalues as there are negative sites.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import blas, lapack

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.system.threads import one_blas_thread, split

LEAST_WEIGHT, LEAST_CONSTRAINT = 1e-4, 1e-8
"""Sites nearer to zero than this are moved away from it: both forms divide by them."""


class Sites(NamedTuple):
    """Precisions and linear terms: Γ and c of the weights (…, n), Λ and b of the constraints (…, m)."""

    weight_precision: Array
    weight_linear: Array
    constraint_precision: Array
    constraint_linear: Array

    def of(self, lanes: Array) -> Sites:
        """Return the sites of the samples `lanes`, a copy."""
        return Sites(*(part[lanes] for part in self))

    def put(self, lanes: Array, given: Sites) -> None:
        """Write the sites of the samples `lanes`."""
        for own, part in zip(self, given):
            own[lanes] = part

    def moved(self, other: Sites, share: Array) -> Sites:
        """Return the sites a `share` (k,) of the way towards others."""
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
        """Return moments in which nothing is proper, as many as there are `sites` (k, n) and (k, m)."""
        (k, n), m = sites.weight_precision.shape, sites.constraint_precision.shape[1]
        weights, constraints = (np.zeros((k, n)), np.ones((k, n))), (np.zeros((k, m)), np.ones((k, m)))
        return cls(*weights, *constraints, np.zeros(k), np.zeros(k, bool))

    def put(self, lanes: Array, given: Moments) -> None:
        """Write the moments of the samples `lanes`."""
        for own, part in zip(self, given):
            own[lanes] = part


class Gaussian:
    """The patterns of a problem, and the moments of Gaussians with sites on them; double precision."""

    def __init__(self, problem: Perceptron) -> None:
        self.matrix = problem.patterns.astype(np.float64) / np.sqrt(problem.n)

    def moments(self, sites: Sites) -> Moments:
        """Return the moments for sites (k, n) and (k, m), samples shared among threads: none depends on its neighbours."""
        found, sites = Moments.none(sites), away_from_zero(sites)

        def some(start: int, stop: int) -> None:
            with np.errstate(all="ignore"):
                for j in range(start, stop):
                    one = self._moments(Sites(*(part[j] for part in sites)))
                    if one is not None:
                        for part, own in zip(found, (*one, True)):
                            part[j] = own

        with one_blas_thread():
            split(some, len(found.proper))
        return found

    def _moments(self, own: Sites) -> tuple[Array, Array, Array, Array, float] | None:
        m, n = self.matrix.shape
        if not all(np.isfinite(part).all() for part in own):
            return None
        if m > n:
            return self._by_weights(own)
        if (own.weight_precision > 0).all() and (own.constraint_precision > 0).all():
            return self._by_constraints(own)
        return self._indefinite(own)

    def _by_constraints(self, own: Sites) -> tuple[Array, Array, Array, Array, float] | None:
        gamma, _, lam, _ = own
        root = 1 / np.sqrt(gamma)
        w = self.matrix * root
        w *= np.sqrt(lam)[:, None]
        lower, info = lapack.dpotrf(_identity_plus(w), lower=1, overwrite_a=1)
        if info:
            return None
        linear = own.weight_linear + self.matrix.T @ own.constraint_linear
        tilted = root * linear
        mean = root * (tilted - w.T @ lapack.dpotrs(lower, w @ tilted, lower=1)[0])
        # the rows of w in memory are columns to BLAS: X = L⁻¹ w is (w ᵀ L⁻ᵀ)ᵀ
        x = blas.dtrsm(1.0, lower, w.T, side=1, lower=1, trans_a=1, overwrite_b=1).T
        inverse, _ = lapack.dtrtri(lower, lower=1)
        variance = (1 - np.einsum("mn,mn->n", x, x)) / gamma
        seen = (1 - np.einsum("ij,ij->j", np.tril(inverse), np.tril(inverse))) / lam
        determinant = np.log(gamma).sum() + 2 * np.log(np.diag(lower)).sum()
        return mean, variance, self.matrix @ mean, seen, float(determinant)

    def _by_weights(self, own: Sites) -> tuple[Array, Array, Array, Array, float] | None:
        gamma, _, lam, _ = own
        scaled = self.matrix * lam[:, None]
        precision = self.matrix.T @ scaled
        precision[np.diag_indices_from(precision)] += gamma
        lower, info = lapack.dpotrf(precision, lower=1, overwrite_a=1)
        if info:
            return None
        linear = own.weight_linear + self.matrix.T @ own.constraint_linear
        mean = lapack.dpotrs(lower, linear, lower=1)[0]
        inverse = np.tril(lapack.dtrtri(lower, lower=1)[0])
        x = self.matrix @ inverse.T  # diag(F A⁻¹ Fᵀ) are the squared norms of the rows of F L⁻ᵀ
        return (
            mean,
            np.einsum("ij,ij->j", inverse, inverse),
            self.matrix @ mean,
            np.einsum("mn,mn->m", x, x),
            float(2 * np.log(np.diag(lower)).sum()),
        )

    def _indefinite(self, own: Sites) -> tuple[Array, Array, Array, Array, float] | None:
        gamma, _, lam, _ = own
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
        linear = own.weight_linear + self.matrix.T @ own.constraint_linear
        mean = linear / gamma - x.T @ (self.matrix @ (linear / gamma))
        variance = 1 / gamma - np.einsum("mn,mn->n", scaled, x)
        seen = (1 - np.diag(inverse) / lam) / lam
        if not ((variance > 0).all() and (seen > 0).all()):
            return None  # lost to rounding
        determinant += np.log(np.abs(gamma)).sum() + np.log(np.abs(lam)).sum()
        return mean, variance, self.matrix @ mean, seen, float(determinant)


def away_from_zero(sites: Sites) -> Sites:
    """Return the sites with those precisions moved away that lie too near to zero."""
    gamma, lam = sites.weight_precision, sites.constraint_precision
    gamma = np.where(np.abs(gamma) < LEAST_WEIGHT, np.copysign(LEAST_WEIGHT, gamma), gamma)
    return sites._replace(
        weight_precision=gamma,
        constraint_precision=np.where(np.abs(lam) < LEAST_CONSTRAINT, np.copysign(LEAST_CONSTRAINT, lam), lam),
    )


def _identity_plus(w: Array) -> Array:
    """Return 1 + w wᵀ, its lower triangle, in Fortran order."""
    b = blas.dsyrk(1.0, w.T, trans=1, lower=1)
    b[np.diag_indices_from(b)] += 1
    return b


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
