"""Series of numbers drawn by several chains: do the chains agree, how many independent draws are they worth, and how
long do they remember.

R-hat and effective size are those of Vehtari et al. (2021), as ArviZ defines them by default: chains are split into
halves, values replaced by normal scores of their ranks; R-hat is the larger one of the scores and of the scores of the
distance from the median. Times are integrated with Sokal's window and are not quoted from chains shorter than 50 of them.
"""

from __future__ import annotations

import numpy as np
from scipy.special import ndtri
from scipy.stats import rankdata

from solspace.numerics.arrays import Array

WINDOW = 5.0
"""Sokal's window: lags up to this many autocorrelation times are summed."""
ENOUGH = 50.0
"""Autocorrelation times that a chain must last for the time to be believed."""


def split_rhat(series: Array) -> float:
    """Return the rank-normalised split R-hat of `series` (chains, draws): 1 where all halves of chains agree.

    >>> white = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(split_rhat(white) < 1.01 < split_rhat(white + np.arange(4)[:, None]))
    True
    """
    halves = _halves(series)
    if np.ptp(halves) == 0:
        return 1.0
    folded = np.abs(halves - np.median(halves))
    return max(_rhat(_scores(halves)), _rhat(_scores(folded)) if np.ptp(folded) else 1.0)


def effective_size(series: Array) -> float:
    """Return how many independent draws the mean of `series` (chains, draws) is worth (bulk effective sample size).

    >>> white = np.random.default_rng(0).normal(size=(4, 500))
    >>> bool(1500 < effective_size(white) < 2600)
    True
    """
    halves = _halves(series)
    if np.ptp(halves) == 0:
        return float(halves.size)
    scores = _scores(halves)
    chains, draws = scores.shape
    covariance = _autocovariance(scores).mean(axis=0)
    inside = covariance[0] * draws / (draws - 1)
    spread = covariance[0] + scores.mean(axis=1).var(ddof=1)
    time = _geyer(1 - (inside - covariance) / spread)
    return chains * draws / max(time, 1 / np.log10(chains * draws))


def autocorrelation_time(series: Array) -> float:
    """Return the integrated autocorrelation time of `series` (chains, length), in steps.

    NaN from fewer than 50 times as many steps.

    >>> white = np.random.default_rng(0).normal(size=(4, 1000))
    >>> bool(abs(autocorrelation_time(white) - 1) < 0.2)
    True
    """
    series = np.asarray(series, dtype=float)
    length = series.shape[1]
    covariance = _autocovariance(series - series.mean(), centred=True).mean(axis=0) * (
        length / np.arange(length, 0, -1)
    )
    return believed(integrated(covariance / covariance[0]), length) if covariance[0] > 0 else np.nan


def integrated(correlation: Array) -> float:
    """Return 1 + 2 Σ correlation, up to Sokal's window; infinite where the window never closes."""
    times = 2 * np.cumsum(correlation) - 1
    closed = np.flatnonzero(np.arange(len(times)) >= WINDOW * times)
    return float(max(times[closed[0]], 1.0)) if len(closed) else np.inf


def believed(time: float, length: float) -> float:
    """Return an autocorrelation time that a chain of this length can tell, NaN for others."""
    return time if np.isfinite(time) and length >= ENOUGH * time else np.nan


def _halves(series: Array) -> Array:
    series = np.asarray(series, dtype=float)
    half = series.shape[1] // 2
    return np.concatenate([series[:, :half], series[:, -half:]])


def _scores(values: Array) -> Array:
    """Return the normal scores of the ranks of `values`, with Blom's fractions."""
    ranks = rankdata(values).reshape(values.shape)
    return ndtri((ranks - 0.375) / (values.size + 0.25))


def _rhat(chains: Array) -> float:
    draws = chains.shape[1]
    between, inside = draws * chains.mean(axis=1).var(ddof=1), chains.var(axis=1, ddof=1).mean()
    return float(np.sqrt((between / inside + draws - 1) / draws)) if inside > 0 else np.inf


def _autocovariance(series: Array, centred: bool = False) -> Array:
    """Return (chains, lags) Σ_t x_t x_{t + lag} / length."""
    series = series if centred else series - series.mean(axis=1, keepdims=True)
    length = series.shape[1]
    spectrum = np.fft.rfft(series, 2 * length, axis=1)
    return np.fft.irfft(np.abs(spectrum) ** 2, 2 * length, axis=1)[:, :length] / length


def _geyer(rho: Array) -> float:
    """Return -1 + 2 Σ rho over Geyer's initial monotone sequence of pairs, the first pair always, the first odd one half."""
    rho = rho.copy()
    rho[0] = 1.0
    last = 1
    while last < len(rho) - 3 and rho[last - 1] + rho[last] > 0:
        last += 2
    kept = np.zeros(len(rho) + 2)
    pairs = last + 1 if rho[last - 1] + rho[last] >= 0 else last - 1
    kept[: max(pairs, 2)] = rho[: max(pairs, 2)]
    end = last - 2
    if rho[last - 1] > 0:
        kept[end + 1] = rho[last - 1]
    for t in range(1, end - 1, 2):
        if kept[t + 1] + kept[t + 2] > kept[t - 1] + kept[t]:
            kept[t + 1] = kept[t + 2] = (kept[t - 1] + kept[t]) / 2
    return float(-1 + 2 * kept[: end + 1].sum() + kept[end + 1 : end + 2].sum())
