"""Compare samples with theory: stabilities, overlaps and the path of a localization.

Stabilities alone are a weak test, which samples that are all too similar pass. So both stabilities are compared with P(s)
(Kolmogorov-Smirnov distance KS and Wasserstein distance W1, each beside its mean under noise alone) and overlaps between
independent samples with r. Along a localization |m|²/n is compared with q(t).

Overlaps fluctuate between instances by about 1/(2√n) even if samples are fair; the verdict allows for that. Of 390 runs of six
or eight fair samples at n = 201, 301 and 501 none was called biased: false alarms are rarer than 0.8%.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from solspace.diagnostics.report import COARSE, SIGMAS, Distance, Estimate, Report, Verdict, enough, visible
from solspace.info import LocalizationInfo
from solspace.numerics.arrays import Array
from solspace.numerics.series import pair_products
from solspace.numerics.streams import generator
from solspace.samples import Samples
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

KS_NOISE = 0.8687311606361592  # mean of √m KS for m independent draws: √(π/2) log 2
# KS and W1 of all samples together over their means, which noise exceeds in 1% of cases even if all samples are equal
POOLED, POOLED_W1 = 1.88, 2.3
ALONE = "cannot tell: there are no two independent samples to compare; draw at least four."


def dithered(stabilities: Array, n: int) -> Array:
    """Return `stabilities` moved by up to half a lattice step if they lie on the lattice of ±1 problems (2/√n)."""
    scaled = stabilities * np.sqrt(n)
    if np.abs(scaled - np.rint(scaled)).max() > 1e-6:
        return stabilities
    return stabilities + generator(0).uniform(-1, 1, stabilities.shape) / np.sqrt(n)


def stabilities_of(stabilities: Array, samples: Samples, prediction: Prediction | None) -> Values:
    """Return the fields of a `Report` on stabilities (k, m): their mean and, by theory, their distances from P(s)."""
    means, m = stabilities.mean(axis=1), stabilities.shape[1]
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else stabilities.std() / np.sqrt(samples.m)
    if prediction is None:
        return {"mean_stability": Estimate(float(means.mean()), float(error))}
    # the mean of an instance differs from theory's, by about the spread of one constraint over √m
    error = np.hypot(error, stabilities.std() / np.sqrt(m))
    values = np.sort(dithered(stabilities, samples.n), axis=1)
    pooled, noise = np.sort(values.ravel()), KS_NOISE / np.sqrt(m)
    return {
        "mean_stability": Estimate(float(means.mean()), float(error), float(prediction.mean_stability)),
        "ks": Distance(float(np.mean([_ks(row, prediction) for row in values])), noise),
        "ks_pooled": Distance(_ks(pooled, prediction), noise, POOLED),
        "w1": _w1(pooled, m, prediction),
    }


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
    """Return the fields of a `Report` on the path of a localization."""
    t, q = np.asarray(info.t, float), np.asarray(info.overlap, float)
    start = q[0][np.isfinite(q[0])]
    ran = np.asarray(info.iterations) > 0  # rows after a sample's arrival are empty
    found: Values = {"unconverged": float(1 - np.mean(np.asarray(info.converged)[ran])) if ran.any() else 0.0}
    if len(start):
        error = float(np.hypot(start.std() / np.sqrt(len(start)), 0.0 if prediction is None else instance_error(n)))
        theory = None if prediction is None else prediction.overlap
        found["overlap_at_start"] = Estimate(float(start.mean()), error, theory)
    instability = np.asarray(info.instability, float)
    if np.isfinite(instability).any():
        highest = np.nanmax(np.where(np.isfinite(instability), instability, -np.inf), axis=0)
        found["instability"] = Estimate(float(highest.mean()), float(highest.std() / np.sqrt(len(highest))))
    together = np.isfinite(q).all(axis=1) & (np.ptp(t, axis=1) == 0)
    if prediction is None or not together.any():
        return found
    expected, seen = np.asarray(prediction.overlap_at(t[together, 0])), q[together].mean(axis=1)
    known = expected > 0  # for an even measure the overlap at t = 0 is 0
    if known.any():
        found["path_deviation"] = float(np.abs(seen[known] / expected[known] - 1).max())
    return found


def overlap_square(means: Array, prediction: Prediction | None) -> Estimate | None:
    """Return the mean square overlap of samples (chains, n) of an even measure, beside 1/(n(1 - λ)), λ the replicon.

    For an even measure r = 0, and samples that gather in few places and their mirror images have mean overlap 0 as well. The
    number of pairs at overlap q falls off like exp(-n(1 - λ)q²/2); the error is that of as many independent Gaussian overlaps,
    and allows for the instance's own λ.
    """
    if prediction is None or prediction.overlap > 0 or not prediction.replicon < 1 or len(means) < 2:
        return None
    n, spread = means.shape[1], 1 - prediction.replicon
    values = (pair_products(means) / n) ** 2
    expected = 1 / (n * spread)
    error = expected * np.hypot(np.sqrt(2 / len(values)), 2 / np.sqrt(n) / spread)
    return Estimate(float(values.mean()), float(error), float(expected))


def _biases(found: Report, cure: str) -> str:
    """Return the deviations from theory beyond chance, and advice; empty if there are none."""
    off = []
    overlap, square, mean, ks, pooled = (
        found.overlap,
        found.overlap_square,
        found.mean_stability,
        found.ks,
        found.ks_pooled,
    )
    if overlap is not None and overlap.biased:
        way = "too similar to each other" if overlap.sigmas > 0 else "too different from each other"
        pair = f"overlap {overlap.value:.3f} ± {overlap.error:.3f}, theory {overlap.theory:.3f}"
        off.append(f"samples are {way} ({pair})")
    if square is not None and square.sigmas > SIGMAS:
        pair = f"overlap² {square.value:.2g} ± {square.error:.1g}, theory {square.theory:.2g}"
        off.append(f"samples gather in few places ({pair})")
    gathered = len(off)
    if mean is not None and mean.biased:
        off.append(f"stabilities are off (mean {mean.value:.3f} ± {mean.error:.3f}, theory {mean.theory:.3f})")
    if ks is not None and pooled is not None and (ks.biased or pooled.biased):
        worst = max(ks, pooled, key=lambda distance: distance.value / distance.noise)
        off.append(f"the histogram of stabilities is off (KS {worst.value:.3f}, noise {worst.noise:.3f})")
    if found.w1 is not None and found.w1.biased and not off:
        off.append(f"stabilities are shifted (W1 {found.w1.value:.3f}, noise {found.w1.noise:.3f})")
    if not off:
        return ""
    # deviating stabilities hint at patterns that are not random, for which no sampler agrees with theory
    random = "Are the patterns and labels random, as theory takes them to be?"
    return f"{'; '.join(off)}. {random if len(off) > gathered else f'{cure}.'}"


def judge(found: Report, samples: Samples, cure: str) -> Verdict:
    """Return whether the numbers of a report agree with theory."""
    if off := _biases(found, cure):
        return Verdict(False, f"biased: {off}")
    overlap, mean, w1 = found.overlap, found.mean_stability, found.w1
    if overlap is None or mean is None or w1 is None:
        return Verdict(None, ALONE)
    within = overlap.visible
    if within > COARSE:
        return Verdict(None, f"cannot tell: {_coarse(overlap, samples)}.")
    shift = min(mean.visible, POOLED_W1 * w1.noise + (visible(None) - SIGMAS) * mean.error)
    words = f"biases of overlaps above {within:.3f} would show, and of stabilities above {shift:.3f}"
    return Verdict(True, f"fair within {within:.3f}: samples agree with theory; {words}.", within)


def instance_error(n: int) -> float:
    """Return the typical difference between the overlap of one instance and that of theory."""
    return 0.5 / np.sqrt(n)


def _coarse(overlap: Estimate, samples: Samples) -> str:
    """Return the bias that so few samples could hide, and how many could not."""
    k, n = len(samples), samples.n
    shared = instance_error(n)
    own = max(overlap.error**2 - shared**2, 0.0) * k
    many = enough(lambda count: visible(None) * float(np.hypot(np.sqrt(own / count), shared)), k + 1)
    words = f"{k} samples of {n} weights could hide a bias of {overlap.visible:.2f} of the overlaps"
    if many is not None and many <= 100 * k:
        return f"{words}; take {many} samples"
    other = ", or compare with annealed chains that have mixed" if samples.target.prior.name == "binary" else ""
    return f"{words}; take n >= {int(np.ceil(n * (overlap.visible / COARSE) ** 2))}{other}"
