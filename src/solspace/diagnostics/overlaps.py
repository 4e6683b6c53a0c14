"""Overlaps between samples of different chains, with errors from leaving out one chain after another.

Draws of one chain are not independent of each other, chains are: all that is needed of a chain is the mean of its draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from solspace.diagnostics.report import Estimate
from solspace.numerics.arrays import Array
from solspace.numerics.pairs import pair_products
from solspace.samples import Samples

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

NEVER_TWICE = 50
"""Number of weights from which on no two independent samples are the same, where there are many solutions."""
MANY = 9.0
"""Log of how many more solutions than pairs of samples there must be for no two samples to be alike."""
RARE, RARER = 14.0, 20.0
"""A pair is too similar if fair samples have one as similar with probability exp(-RARE) by theory, or exp(-RARER) by the rest of
their overlaps. In 30,000 sets of 3 to 64 fair samples (n = 51 to 1001, ±1 and spherical) it was at least exp(-8) and exp(-19)."""
MOST = 2048
"""Samples among which near copies are looked for."""


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
    return Estimate(value, jackknife(without), df=chains - 1), without


def jackknife(without: Array) -> float:
    """Return the standard error of a statistic from its values (chains,) leaving out one chain each."""
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def copies(samples: Samples, judged: Array, prediction: Prediction | None, reference: Samples | None) -> int:
    """Return how many chains ended in the weights of another one, or nearer to them than independent samples come."""
    rows = _ends(samples.weights[judged], chains_of(samples)[judged])
    discrete = bool((rows == np.rint(rows)).all())
    pairs, doubles = np.log(max(len(rows) * (len(rows) - 1) / 2, 1)), _doubles(rows)
    if discrete and prediction is not None and samples.n * prediction.entropy < MANY + pairs:
        return 0
    if discrete and reference is not None and _doubles(_ends(reference.weights, chains_of(reference))):
        return 0  # with few solutions independent samples meet
    judge = prediction is not None or reference is not None
    sure = not discrete or (judge and samples.n >= NEVER_TWICE)
    return max(doubles if sure else 0, _near(rows[:MOST].astype(float), discrete, prediction))


def _ends(weights: Array, chain: Array) -> Array:
    """Return the last weights of each chain."""
    _, last = np.unique(chain[::-1], return_index=True)
    return weights[::-1][last]


def _doubles(rows: Array) -> int:
    return len(rows) - len(np.unique(rows.round(9), axis=0))


def _near(rows: Array, discrete: bool, prediction: Prediction | None) -> int:
    """Return how many `rows` (k, n) are too similar to an earlier one.

    Overlaps of independent samples gather about r with a variance of about (1 - r²)/n for ±1 weights, (1 - r)²/n on the sphere,
    times 1/(1 - λ), λ the replicon. The probability of a larger one is estimated by that of independent weights, whose number
    is divided by the last factor: the larger one of theory's, and of what the lower half of the overlaps shows.
    """
    k, n = rows.shape
    if k < (4 if prediction is None else 3) or not (prediction is None or prediction.replicon < 1):
        return 0
    q = np.minimum(pair_products(rows / np.linalg.norm(rows, axis=1, keepdims=True)), 1.0)
    centre = float(np.median(q))
    free = n * (centre - np.quantile(q, 0.16)) ** 2
    if prediction is not None:
        centre = max(centre, prediction.overlap)
    if centre >= 1:
        return 0
    free /= 1 - centre**2 if discrete else (1 - centre) ** 2
    free = max(free, 1.0, 0.0 if prediction is None else 1 / (1 - prediction.replicon))
    if discrete:
        a, b = (1 + q) / 2, (1 + centre) / 2
        rate = rel_entr(a, b) + rel_entr(1 - a, 1 - b)
    else:
        with np.errstate(divide="ignore"):
            rate = -np.log1p(-(((q - centre) / (1 - centre)) ** 2).clip(max=1)) / 2
    near = (q > centre) & (n / free * rate > (RARER if prediction is None else RARE) + np.log(len(q)))
    return len(np.unique(np.triu_indices(k, 1)[1][near]))
