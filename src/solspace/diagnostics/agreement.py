"""Two samplers on one problem: do they draw from the same law, as far as so many samples can tell?

Compared are the weights' means, by their mean square difference D² = q_aa + q_bb - 2 q_ab from overlaps of different
chains only, which is 0 in mean where the laws agree (the noise of the means does not enter); the overlap of two samples,
q_aa - q_bb; and the energy a constraint.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from solspace.diagnostics.overlaps import chain_means, chains_of, cross_overlap, jackknife
from solspace.diagnostics.report import COARSE, SIGMAS, Agreement, Estimate, widened
from solspace.numerics.arrays import Array
from solspace.samples import Samples


def agreement(samples: Samples, reference: Samples) -> Agreement | None:
    """Return how samples and reference differ; None where one of them has fewer than three independent solutions."""
    means, energies = zip(_summary(samples), _summary(reference))
    if min(map(len, means)) < 3:
        return None
    (own, without), (other, others_without) = (cross_overlap(one) for one in means)
    assert own is not None
    assert other is not None
    overlap = replace(widened(own, other), value=own.value - other.value, theory=0.0)
    return Agreement(overlap, _square(means, own.value, other.value, without, others_without), _energy(energies))


def _summary(samples: Samples) -> tuple[Array, Array]:
    """Return the mean of each chain's weights (chains, n), and of its energy a constraint (chains,), over solutions."""
    judged = samples.solved | (not samples.target.potential.hard)
    chain = chains_of(samples)[judged]
    return chain_means(samples.weights[judged], chain), chain_means(samples.energies()[judged] / samples.m, chain)


def _square(means: tuple[Array, ...], own: float, other: float, without: Array, others_without: Array) -> Estimate:
    (a, b), n = means, means[0].shape[1]
    total, others = a.sum(axis=0), b.sum(axis=0)
    between = total @ others / (n * len(a) * len(b))
    left = without - 2 * ((total - a) @ others) / (n * (len(a) - 1) * len(b))
    right = others_without - 2 * ((others - b) @ total) / (n * len(a) * (len(b) - 1))
    return Estimate(float(own + other - 2 * between), float(np.hypot(jackknife(left), jackknife(right))), 0.0)


def _energy(energies: tuple[Array, ...]) -> Estimate | None:
    if not all(np.isfinite(one).all() for one in energies) or not any(np.ptp(one) for one in energies):
        return None
    value = float(energies[0].mean() - energies[1].mean())
    return Estimate(value, float(np.hypot(*(one.std(ddof=1) / np.sqrt(len(one)) for one in energies))), 0.0)


def judge(
    found: Agreement | None, sure: bool | None, words: str, trust: float | None
) -> tuple[bool | None, str, float | None]:
    """Return whether the samples are fair by a reference that is `sure` to be (its verdict: `words`) within `trust`."""
    if found is None:
        return None, "cannot tell: fewer than three independent solutions on one side.", None
    off = _biases(found)
    shown = found.overlap.visible
    if off:
        return False, f"biased: {'; '.join(off)}.", None
    if sure is not True or trust is None:
        agree = f"the two agree (a bias of overlaps above {shown:.4f} would have shown)"
        agree += ", but the reference itself is not known to be fair"
        return None, f"cannot tell: {agree} ({words.rstrip('.')}).", None
    within = shown + trust
    if within > COARSE:
        times = int(np.ceil((shown / (COARSE - trust)) ** 2))
        words = f"the two agree, but a bias of overlaps of {within:.2f} could be hidden"
        return None, f"cannot tell: {words}; take {times} times as many independent samples on both sides.", None
    both = f"a bias of overlaps above {shown:.4f} would have shown, the reference is fair within {trust:.4f}"
    return True, f"fair within {within:.4f}: means, overlaps and energies agree with the reference ({both}).", within


def _biases(found: Agreement) -> list[str]:
    off = []
    if found.overlap.biased:
        way = "too similar to each other" if found.overlap.value > 0 else "too different from each other"
        off.append(
            f"samples are {way} (overlap {found.overlap.value:+.4f} ± {found.overlap.error:.4f} off the reference)"
        )
    if found.means.sigmas > SIGMAS:
        off.append(f"the weights' means differ (by {np.sqrt(found.means.value):.4f} rms)")
    if found.energy is not None and found.energy.biased:
        off.append(f"energies differ (by {found.energy.value:+.4f} ± {found.energy.error:.4f} a constraint)")
    return off
