"""Statistics of samples: agreement and memory of chains, bins for histograms, products of all pairs of rows.

R-hat and effective size are those of Vehtari et al. (2021), as ArviZ defines them by default: chains are split into
halves, values replaced by normal scores of their ranks; R-hat is the larger one of the scores and of the scores of the
distance from the median.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array, Doubles, Reals

WINDOW = 5.0  # Sokal's window: lags up to this many autocorrelation times are summed
ENOUGH = 50.0  # autocorrelation times that a chain must last for its time to be quoted
_BLOCK = 256  # rows that are multiplied at a time


def split_rhat(series: Array) -> float:
    """Return the rank-normalised split R-hat of `series` (chains, draws): 1 where all halves of chains agree."""
    halves = _halves(series)
    if np.ptp(halves) == 0:
        return 1.0
    folded = np.abs(halves - np.median(halves))
    return max(_rhat(_scores(halves)), _rhat(_scores(folded)) if np.ptp(folded) else 1.0)


def effective_size(series: Array) -> float:
    """Return the bulk effective sample size of `series` (chains, draws)."""
    halves = _halves(series)
    if np.ptp(halves) == 0:
        return float(halves.size)
    scores = _scores(halves)
    chains, draws = scores.shape
    covariance = _autocovariance(scores - scores.mean(axis=1, keepdims=True)).mean(axis=0)
    inside = covariance[0] * draws / (draws - 1)
    spread = covariance[0] + scores.mean(axis=1).var(ddof=1)
    time = _geyer(1 - (inside - covariance) / spread)
    return chains * draws / max(time, 1 / np.log10(chains * draws))


def autocorrelation_time(series: Array) -> float:
    """Return the integrated autocorrelation time of `series` (chains, length), in steps; NaN from too short chains."""
    series = np.asarray(series, dtype=float)
    length = series.shape[1]
    covariance = _autocovariance(series - series.mean()).mean(axis=0) * (length / np.arange(length, 0, -1))
    return believed(integrated(covariance / covariance[0]), length) if covariance[0] > 0 else np.nan


def integrated(correlation: Array) -> float:
    """Return 1 + 2 Σ correlation, up to Sokal's window; infinite where the window never closes."""
    times = 2 * np.cumsum(correlation) - 1
    closed = np.flatnonzero(np.arange(len(times)) >= WINDOW * times)
    return float(max(times[closed[0]], 1.0)) if len(closed) else np.inf


def believed(time: float, length: float) -> float:
    """Return an autocorrelation time, NaN where a chain of this length is too short for it to be quoted."""
    return time if np.isfinite(time) and length >= ENOUGH * time else np.nan


def _halves(series: Array) -> Array:
    series = np.asarray(series, dtype=float)
    half = series.shape[1] // 2
    return np.concatenate([series[:, :half], series[:, -half:]])


def _scores(values: Array) -> Array:
    # normal scores of the ranks, with Blom's fractions; ties share their mean rank
    from scipy.special import ndtri

    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse].reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _rhat(chains: Array) -> float:
    draws = chains.shape[1]
    between, inside = draws * chains.mean(axis=1).var(ddof=1), chains.var(axis=1, ddof=1).mean()
    return float(np.sqrt((between / inside + draws - 1) / draws)) if inside > 0 else np.inf


def _autocovariance(series: Array) -> Array:
    # (chains, lags) Σ_t x_t x_{t + lag} / length
    length = series.shape[1]
    spectrum = np.fft.rfft(series, 2 * length, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * length, axis=1)[:, :length] / length


def _geyer(rho: Array) -> float:
    # -1 + 2 Σ rho over Geyer's initial monotone sequence of pairs, the first pair always, the first odd one half
    rho = np.concatenate([[1.0], rho[1:]])
    pairs = rho[: len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    most = max((len(rho) - 3) // 2, 0)
    stop = next((k for k, pair in enumerate(pairs[:most]) if not pair > 0), most)
    rest = rho[2 * stop]
    rest = rest if rest > 0 or pairs[stop] >= 0 else 0.0
    return float(-1 + 2 * np.minimum.accumulate(pairs[:stop]).sum() + rest)


def spacing(values: Reals, n: int) -> float | None:
    """Return 2/√n where `values` (any number,) lie on a lattice of that step; None where they do not.

    >>> spacing(np.array([0.5, -0.5, 2.5]), 16), spacing(np.array([0.5, 0.6]), 16)
    (0.5, None)
    """
    step = 2 / np.sqrt(n)
    place = (values - values[0]) / step
    return float(step) if np.abs(place - np.rint(place)).max() < 1e-3 else None


def bins(values: Reals, margin: float, lattice: float | None = None) -> Reals:
    """Return edges of bins for stabilities, none of which reaches across the margin where none lies below it.

    Where the values lie on a lattice of spacing `lattice`, as those of ±1 weights on ±1 patterns do, each bin holds the
    same whole number of its points, and its edges lie between them: other bins would draw stripes.

    >>> bins(np.array([0.25, 0.25, 0.75, 1.25]), 0.0, 0.5)
    array([0., 1., 2.])
    """
    width = max(3.5 * values.std() / len(values) ** (1 / 3), (values.max() - values.min()) / 100, 1e-12)
    if lattice is None:
        low = margin + width * np.floor((values.min() - margin) / width)
    else:
        width = lattice * max(1, round(width / lattice))
        low = values.min() - lattice / 2
    return np.arange(low, values.max() + 1.01 * width, width)


def pair_products(rows: Array) -> Doubles:
    """Return ⟨a, b⟩ of all pairs of rows, the first with all others first, (k(k - 1)/2,).

    In blocks: OpenBLAS 0.3.31 crashes in the product of a large matrix (16,000 rows of 784) with its own transpose.

    >>> pair_products(np.array([[1, 1], [1, -1], [2, 0]]))
    array([0., 2., 2.])
    """
    k, rows = len(rows), rows.astype(np.float64)
    found, at = np.empty(k * (k - 1) // 2), 0
    for first in range(0, k, _BLOCK):
        for i, line in enumerate(rows[first : first + _BLOCK] @ rows[first:].T):
            own = line[i + 1 :]
            found[at : at + len(own)] = own
            at += len(own)
    return found


def mean_pair_product(rows: Array) -> float:
    """Return the mean of ⟨a, b⟩ over all pairs of two rows or more, from the sum of the rows alone.

    >>> mean_pair_product(np.array([[1, 1], [1, -1], [2, 0]]))
    1.3333333333333333
    """
    k, total = len(rows), rows.sum(axis=0, dtype=np.float64)
    own = sum(float(np.square(rows[first : first + _BLOCK], dtype=np.float64).sum()) for first in range(0, k, _BLOCK))
    return (float(total @ total) - own) / (k * (k - 1))
