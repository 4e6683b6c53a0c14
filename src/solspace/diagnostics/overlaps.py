"""Overlaps between samples of different chains, with errors by leaving out one chain at a time; copies; agreement of samplers.

Draws of one chain are not independent, chains are: only the mean of a chain's draws is used. Two samplers on one problem are
compared by the weights' means, through their mean square difference D² = q_aa + q_bb - 2 q_ab from overlaps of different
chains, which has mean 0 where the laws agree; by the overlap of two samples, q_aa - q_bb; and by the energy per constraint.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from solspace.diagnostics.report import COARSE, SIGMAS, Agreement, Estimate, Report, Verdict, widened
from solspace.numerics.arrays import Array
from solspace.numerics.series import pair_products
from solspace.samples import Samples

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

NEVER_TWICE = 50  # weights from which on no two independent samples are equal, if there are many solutions
MANY = 9.0  # log of the ratio of solutions to pairs of samples above which no two samples are equal
# A pair is too similar if fair samples have one as similar with probability exp(-RARE) by theory, or exp(-RARER) by the other
# overlaps. In 30,000 sets of 3 to 64 fair samples (n = 51 to 1001, ±1 and spherical) it was at least exp(-8) and exp(-19).
RARE, RARER = 14.0, 20.0
MOST = 2048  # samples among which near copies are looked for


def chains_of(samples: Samples) -> Array:
    """Return the chain of each sample, (k,)."""
    chains = samples.info.chains
    return np.arange(len(samples)) if chains is None else np.asarray(chains)


def chain_means(values: Array, chain: Array) -> Array:
    """Return the mean of `values` (k, ...) over the samples of each chain, (chains, ...)."""
    order = np.argsort(chain, kind="stable")
    _, first, counts = np.unique(chain[order], return_index=True, return_counts=True)
    if len(values) and (counts == counts[0]).all():  # the usual case, and by far the fastest
        return values[order].reshape(len(counts), -1, *values.shape[1:]).mean(axis=1, dtype=np.float64)
    sums = np.add.reduceat(values[order], first, axis=0, dtype=np.float64) if len(values) else np.empty(values.shape)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def cross_overlap(means: Array) -> tuple[Estimate | None, Array]:
    """Return the overlap of two chains with these `means` (chains, n), and its values (chains,) leaving out one each.

    None for fewer than two chains. For two chains the error is that of two single weight vectors, 1/√n.
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
    return Estimate(value, _jackknife(without), df=chains - 1), without


def _jackknife(without: Array) -> float:
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def agreement(samples: Samples, reference: Samples) -> Agreement | None:
    """Compare samples with a reference; None if one of them has fewer than three independent solutions."""
    means, energies = zip(_summary(samples), _summary(reference))
    if min(map(len, means)) < 3:
        return None
    (own, without), (other, others_without) = (cross_overlap(one) for one in means)
    assert own is not None
    assert other is not None
    overlap = replace(widened(own, other), value=own.value - other.value, theory=0.0)
    (a, b), n = means, means[0].shape[1]
    total, others = a.sum(axis=0), b.sum(axis=0)
    between = total @ others / (n * len(a) * len(b))
    left = without - 2 * ((total - a) @ others) / (n * (len(a) - 1) * len(b))
    right = others_without - 2 * ((others - b) @ total) / (n * len(a) * (len(b) - 1))
    error = float(np.hypot(_jackknife(left), _jackknife(right)))
    square = Estimate(float(own.value + other.value - 2 * between), error, 0.0)
    return Agreement(overlap, square, _energy(energies))


def _summary(samples: Samples) -> tuple[Array, Array]:
    """Return the mean of each chain's weights (chains, n), and of its energy per constraint (chains,), over solutions."""
    judged = samples.solved | (not samples.target.potential.hard)
    chain = chains_of(samples)[judged]
    return chain_means(samples.weights[judged], chain), chain_means(samples.energies()[judged] / samples.m, chain)


def _energy(energies: tuple[Array, ...]) -> Estimate | None:
    if not all(np.isfinite(one).all() for one in energies) or not any(np.ptp(one) for one in energies):
        return None
    value = float(energies[0].mean() - energies[1].mean())
    return Estimate(value, float(np.hypot(*(one.std(ddof=1) / np.sqrt(len(one)) for one in energies))), 0.0)


def judge(found: Agreement | None, reference: Report) -> Verdict:
    """Return whether samples are fair by their agreement with a reference, given the reference's own report."""
    if found is None:
        return Verdict(None, "cannot tell: fewer than three independent solutions on one side.")
    if off := _biases(found):
        return Verdict(False, f"biased: {'; '.join(off)}.")
    shown, trust = found.overlap.visible, reference.within
    if reference.fair is not True or trust is None:
        agree = f"the two agree (a bias of overlaps above {shown:.4f} would have shown)"
        agree += ", but the reference itself is not known to be fair"
        return Verdict(None, f"cannot tell: {agree} ({reference.verdict.rstrip('.')}).")
    within = shown + trust
    if within > COARSE:
        times = int(np.ceil((shown / (COARSE - trust)) ** 2))
        words = f"the two agree, but a bias of overlaps of {within:.2f} could be hidden"
        more = f"take {times} times as many independent samples on both sides"
        return Verdict(None, f"cannot tell: {words}; {more}.")
    both = f"a bias of overlaps above {shown:.4f} would have shown, the reference is fair within {trust:.4f}"
    words = f"fair within {within:.4f}: means, overlaps and energies agree with the reference ({both})."
    return Verdict(True, words, within)


def _biases(found: Agreement) -> list[str]:
    off = []
    if found.overlap.biased:
        way = "too similar to each other" if found.overlap.value > 0 else "too different from each other"
        pair = f"{found.overlap.value:+.4f} ± {found.overlap.error:.4f}"
        off.append(f"samples are {way} (overlap {pair} off the reference)")
    if found.means.sigmas > SIGMAS:
        off.append(f"the weights' means differ (by {np.sqrt(found.means.value):.4f} rms)")
    if found.energy is not None and found.energy.biased:
        off.append(f"energies differ (by {found.energy.value:+.4f} ± {found.energy.error:.4f} a constraint)")
    return off


def copies(samples: Samples, judged: Array, prediction: Prediction | None, reference: Samples | None) -> int:
    """Return how many chains ended in the weights of another one, or nearer to them than independent samples come."""
    rows = _ends(samples.weights[judged], chains_of(samples)[judged])
    discrete = bool((rows == np.rint(rows)).all())
    pairs, doubles = np.log(max(len(rows) * (len(rows) - 1) / 2, 1)), _doubles(rows)
    if discrete and prediction is not None and samples.n * prediction.entropy < MANY + pairs:
        return 0
    if discrete and reference is not None and _doubles(_ends(reference.weights, chains_of(reference))):
        return 0  # with few solutions independent samples can be equal
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

    Overlaps of independent samples have mean r and a variance of about (1 - r²)/n for ±1 weights, (1 - r)²/n on the sphere,
    times 1/(1 - λ), λ the replicon. The probability of a larger one is estimated by that of independent weights, whose number
    is divided by the last factor: the larger of theory's and of the one estimated from the lower half of the overlaps.
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
