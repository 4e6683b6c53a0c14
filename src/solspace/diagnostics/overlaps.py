"""Overlaps between samples of different chains, with errors from leaving out one chain after another.

Draws of one chain are not independent of each other, chains are: all that is needed of a chain is the mean of its draws.
"""

from __future__ import annotations

import numpy as np

from solspace.diagnostics.report import Estimate
from solspace.numerics.arrays import Array
from solspace.samples import Samples

NEVER_TWICE = 50
"""Number of weights from which on no two independent samples are the same."""


def chains_of(samples: Samples) -> Array:
    """Return the chain of each sample, (k,)."""
    chains = samples.info.chains
    return np.arange(len(samples)) if chains is None else np.asarray(chains)


def chain_means(values: Array, chain: Array) -> Array:
    """Return the mean of `values` (k, ...) over the samples of each chain, (chains, ...)."""
    order = np.argsort(chain, kind="stable")
    _, first, counts = np.unique(chain[order], return_index=True, return_counts=True)
    if len(values) and (counts == counts[0]).all():  # by far the fastest, and the rule
        return values[order].reshape(len(counts), -1, *values.shape[1:]).mean(axis=1, dtype=np.float64)
    sums = np.add.reduceat(values[order], first, axis=0, dtype=np.float64) if len(values) else np.empty(values.shape)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def cross_overlap(means: Array) -> tuple[Estimate | None, Array]:
    """Return the overlap of two chains with these `means` (chains, n), and its values (chains,) leaving out one each.

    None of fewer than two chains. Two have no error of their own: that of two single weights vectors is taken, 1/√n.
    """
    chains, n = means.shape
    total, own = means.sum(axis=0), np.einsum("ci,ci->c", means, means)
    if chains < 2:
        return None, np.empty(0)
    value = float((total @ total - own.sum()) / (n * chains * (chains - 1)))
    if chains < 3:
        return Estimate(value, 1 / np.sqrt(n)), np.full(chains, value)
    rest = total @ total - 2 * means @ total + own
    without = (rest - (own.sum() - own)) / (n * (chains - 1) * (chains - 2))
    return Estimate(value, jackknife(without)), without


def jackknife(without: Array) -> float:
    """Return the standard error of a statistic from its values (chains,) leaving out one chain each."""
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def copies(weights: Array, chain: Array) -> int:
    """Return how many chains ended in the same weights as another one."""
    if weights.shape[1] < NEVER_TWICE:
        return 0
    last = np.array([np.flatnonzero(chain == one)[-1] for one in np.unique(chain)])
    return len(last) - len(np.unique(weights[last].round(9), axis=0))
