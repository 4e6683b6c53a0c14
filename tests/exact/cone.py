"""Exact, independent weights on the sphere under κ = 0: the judge of samplers near the wall.

A Gaussian vector g with X g >= 0 has a direction that is uniform on the solutions. Its stabilities s = X g/√n are a Gaussian
vector cut off at 0, which minimax tilting draws exactly (Botev 2017): coordinates of s = L z one after another, each with its
mean shifted such that the likelihood ratio exp ψ(z, μ) has the least maximum; a draw is kept with probability exp(ψ - ψ*). Given
s, the rest of g is a free Gaussian vector. Rows must be independent, m <= n.
"""

import numpy as np
from scipy.optimize import root
from scipy.special import erfcx, log_ndtr, ndtri_exp


def exact_weights(patterns, k, rng):
    """Return (k, n) weights, uniform on the sphere of radius √n where X w >= 0."""
    rng = np.random.default_rng(rng)
    rows = patterns.astype(float) / np.sqrt(patterns.shape[1])
    n = rows.shape[1]
    factor = np.linalg.cholesky(rows @ rows.T)
    scale = np.diag(factor)
    lower = factor / scale[:, None] - np.eye(len(scale))
    shift, top = _saddle(lower)
    kept = []
    while sum(map(len, kept)) < k:
        z, level = _tilted(lower, shift, 4096, rng)
        kept.append(z[np.log(rng.random(len(z))) < level - top])
    stabilities = np.concatenate(kept)[:k] @ factor.T
    inverse = np.linalg.pinv(rows)
    free = rng.standard_normal((k, n))
    g = free - (free @ rows.T - stabilities) @ inverse.T
    return g * np.sqrt(n) / np.linalg.norm(g, axis=1, keepdims=True)


def _hazard(x):
    # φ(x)/(1 - Φ(x))
    return np.sqrt(2 / np.pi) / erfcx(x / np.sqrt(2))


def _saddle(lower):
    """Return μ (m,) and ψ* at the saddle point of ψ = Σ μ²/2 - x μ + log(1 - Φ(-L x - μ)); the last x and μ are 0."""
    m = len(lower)

    def gradient(both):
        x, mu = np.append(both[: m - 1], 0.0), np.append(both[m - 1 :], 0.0)
        hazard = _hazard(-lower @ x - mu)
        return np.concatenate([(hazard @ lower - mu)[:-1], (mu - x + hazard)[:-1]])

    found = root(gradient, np.zeros(2 * (m - 1)), tol=1e-12)
    assert np.abs(gradient(found.x)).max() < 1e-8
    x, mu = np.append(found.x[: m - 1], 0.0), np.append(found.x[m - 1 :], 0.0)
    return mu, float(np.sum(mu**2 / 2 - x * mu + log_ndtr(lower @ x + mu)))


def _tilted(lower, shift, k, rng):
    m, z, level = len(shift), np.zeros((k, len(shift))), np.zeros(k)
    for i in range(m):
        low = -z[:, :i] @ lower[i, :i] - shift[i]  # of a standard normal deviate
        tail = log_ndtr(-low)
        deviate = -ndtri_exp(tail + np.log(rng.random(k)))
        z[:, i] = deviate + shift[i]
        level += shift[i] ** 2 / 2 - z[:, i] * shift[i] + tail
    return z, level
