"""Samples against theory: stabilities, overlaps and the path of a localization.

The histogram of stabilities alone is a weak judge: samples that are all too similar pass it. So two things are looked
at, stabilities against P(s) (Kolmogorov-Smirnov distance KS and Wasserstein distance W1, each beside the size that pure
noise gives) and overlaps between independent samples against r. Along a localization, |m|²/n is compared with q(t), and
the instability λ that message passing met with its prediction.

Overlaps fluctuate from instance to instance by about 1/(2√n) even when everything is fair; the verdict allows for that.
Of 390 runs of six or eight fair samples at n = 201, 301 and 501 none was called biased: false alarms are rarer than 0.8%.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from solspace.diagnostics.report import COARSE, SIGMAS, Distance, Estimate, enough, visible
from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.numerics.pairs import pair_products
from solspace.numerics.streams import generator
from solspace.samples import Samples
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

KS_NOISE = 0.8687311606361592
"""Mean of √m KS for m independent draws: √(π/2) log 2."""
POOLED = 1.88
"""KS of all samples together over its mean that pure noise passes in 1% of cases, were the samples all the same, and"""
POOLED_W1 = 2.3
"""the same of W1."""

ALONE = "cannot tell: there are no two independent samples to compare; draw at least four."


def dithered(stabilities: Array, n: int) -> Array:
    """Return `stabilities` moved by up to half a lattice step where they lie on the lattice of ±1 problems (2/√n)."""
    scaled = stabilities * np.sqrt(n)
    if np.abs(scaled - np.rint(scaled)).max() > 1e-6:
        return stabilities
    return stabilities + generator(0).uniform(-1, 1, stabilities.shape) / np.sqrt(n)


def stabilities_of(stabilities: Array, samples: Samples, prediction: Prediction | None) -> Values:
    """Return their mean and, where there is theory, their distances from P(s)."""
    means = stabilities.mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else stabilities.std() / np.sqrt(samples.m)
    theory = None if prediction is None else float(prediction.mean_stability)
    # an instance's own mean is off theory's too, by about the spread of one constraint over √m
    shared = 0.0 if prediction is None else stabilities.std() / np.sqrt(stabilities.shape[1])
    found: Values = {"mean_stability": Estimate(float(means.mean()), float(np.hypot(error, shared)), theory)}
    if prediction is None:
        return found
    values = np.sort(dithered(stabilities, samples.n), axis=1)
    m = values.shape[1]
    pooled = np.sort(values.ravel())
    single = np.mean([_ks(row, prediction) for row in values])
    found["ks"] = Distance(float(single), KS_NOISE / np.sqrt(m))
    found["ks_pooled"] = Distance(_ks(pooled, prediction), KS_NOISE / np.sqrt(m), POOLED)
    found["w1"] = _w1(pooled, m, prediction)
    return found


def _ks(ordered: Array, prediction: Prediction) -> float:
    cdf, steps = np.asarray(prediction.stability_cdf(ordered)), np.arange(len(ordered) + 1) / len(ordered)
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def _w1(ordered: Array, m: int, prediction: Prediction) -> Distance:
    """Return ∫|F_samples - F| ds, and its mean √(2/π) ∫√(F(1-F)/m) ds for m independent draws."""
    grid = np.linspace(ordered[0] - 0.5, ordered[-1] + 0.5, 2001)
    theory = np.asarray(prediction.stability_cdf(grid))
    seen = np.searchsorted(ordered, grid, side="right") / len(ordered)
    noise = np.sqrt(2 / np.pi) * np.trapezoid(np.sqrt(theory * (1 - theory) / m), grid)
    return Distance(float(np.trapezoid(np.abs(seen - theory), grid)), float(noise), POOLED_W1)


def path_of(info: LocalizationInfo, n: int, prediction: Prediction | None) -> Values:
    """Return what was met along a localization, beside q(t) where there is theory."""
    t, q = np.asarray(info.t, float), np.asarray(info.overlap, float)
    theory = None if prediction is None else prediction.overlap
    start = q[0][np.isfinite(q[0])]
    ran = np.asarray(info.iterations) > 0  # paths of samples that have arrived go on with nothing
    found: Values = {"unconverged": float(1 - np.mean(np.asarray(info.converged)[ran])) if ran.any() else 0.0}
    if len(start):
        error = float(np.hypot(start.std() / np.sqrt(len(start)), 0.0 if prediction is None else instance_error(n)))
        found["overlap_at_start"] = Estimate(float(start.mean()), error, theory)
    instability = np.asarray(info.instability, float)
    if np.isfinite(instability).any():
        highest = np.nanmax(np.where(np.isfinite(instability), instability, -np.inf), axis=0)
        found["instability"] = Estimate(float(highest.mean()), float(highest.std() / np.sqrt(len(highest))))
    if prediction is None:
        return found
    together = np.isfinite(q).all(axis=1) & (np.ptp(t, axis=1) == 0)
    if together.any():
        expected, seen = np.asarray(prediction.overlap_at(t[together, 0])), q[together].mean(axis=1)
        known = expected > 0  # at t = 0 nothing is known of a measure that is even
        if known.any():
            found["path_deviation"] = float(np.abs(seen[known] / expected[known] - 1).max())
    return found


def squares_of(means: Array, prediction: Prediction | None) -> Values:
    """Return the mean square overlap of samples (chains, n) of an even measure, beside 1/(n(1 - λ)), λ the replicon.

    There w and -w are alike and r = 0: samples that gather in few places, and their mirror images, have mean overlap 0 as
    well. The number of pairs at overlap q falls off like exp(-n(1 - λ)q²/2); the error is that of as many independent
    Gaussian overlaps, and allows for the instance's own λ.
    """
    if prediction is None or prediction.overlap > 0 or not prediction.replicon < 1 or len(means) < 2:
        return {}
    n, spread = means.shape[1], 1 - prediction.replicon
    values = (pair_products(means) / n) ** 2
    expected = 1 / (n * spread)
    error = expected * np.hypot(np.sqrt(2 / len(values)), 2 / np.sqrt(n) / spread)
    return {"overlap_square": Estimate(float(values.mean()), float(error), float(expected))}


def biases(found: Values, cure: str) -> str:
    """Return what deviates from theory by more than chance, in words, and what to do: `cure`, where the patterns seem right."""
    off = []
    overlap, mean, ks = found.get("overlap"), found.get("mean_stability"), found.get("ks")
    if overlap is not None and overlap.biased:
        way = "too similar to each other" if overlap.sigmas > 0 else "too different from each other"
        off.append(
            f"samples are {way} (overlap {overlap.value:.3f} ± {overlap.error:.3f}, theory {overlap.theory:.3f})"
        )
    square = found.get("overlap_square")
    if square is not None and square.sigmas > SIGMAS:
        off.append(
            f"samples gather in few places (overlap² {square.value:.2g} ± {square.error:.1g}, theory {square.theory:.2g})"
        )
    gathered = len(off)
    if mean is not None and mean.biased:
        off.append(f"stabilities are off (mean {mean.value:.3f} ± {mean.error:.3f}, theory {mean.theory:.3f})")
    pooled = found.get("ks_pooled")
    if ks is not None and pooled is not None and (ks.biased or pooled.biased):
        worst = max(ks, pooled, key=lambda distance: distance.value / distance.noise)
        off.append(f"the histogram of stabilities is off (KS {worst.value:.3f}, noise {worst.noise:.3f})")
    w1 = found.get("w1")
    if w1 is not None and w1.biased and not off:
        off.append(f"stabilities are shifted (W1 {w1.value:.3f}, noise {w1.noise:.3f})")
    if not off:
        return ""
    # other stabilities are the mark of other patterns, on which the best sampler could not agree with theory
    if len(off) > gathered:
        cure = "Are the patterns and labels random, as theory takes them to be?"
    else:
        cure += "."
    return f"{'; '.join(off)}. {cure}"


def judge(found: Values, samples: Samples, cure: str) -> tuple[bool | None, str, float | None]:
    """Return whether what was found agrees with theory, in words, and the smallest bias of the overlaps that would show."""
    off = biases(found, cure)
    if off:
        return False, f"biased: {off}", None
    if "overlap" not in found:
        return None, ALONE, None
    within = found["overlap"].visible
    if within > COARSE:
        return None, f"cannot tell: {_coarse(found, samples)}.", None
    mean = found["mean_stability"]
    shift = min(mean.visible, POOLED_W1 * found["w1"].noise + (visible(None) - SIGMAS) * mean.error)
    words = f"biases of overlaps above {within:.3f} would show, and of stabilities above {shift:.3f}"
    return True, f"fair within {within:.3f}: samples agree with theory; {words}.", within


def instance_error(n: int) -> float:
    """Return how far the overlap of one instance is off that of theory, about."""
    return 0.5 / np.sqrt(n)


def _coarse(found: Values, samples: Samples) -> str:
    """Return what so few samples could hide, and how many could not."""
    overlap, k, n = found["overlap"], len(samples), samples.n
    shared = instance_error(n)
    own = max(overlap.error**2 - shared**2, 0.0) * k
    many = enough(lambda count: visible(None) * float(np.hypot(np.sqrt(own / count), shared)), k + 1)
    words = f"{k} samples of {n} weights could hide a bias of {overlap.visible:.2f} of the overlaps"
    if many is not None and many <= 100 * k:
        return f"{words}; take {many} samples"
    other = ", or compare with annealed chains that have mixed" if samples.target.prior.name == "binary" else ""
    return f"{words}; take n >= {int(np.ceil(n * (overlap.visible / COARSE) ** 2))}{other}"
