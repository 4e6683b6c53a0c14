"""Compare samples with theory, or with those of another sampler on the same problem.

Stabilities alone are a weak test, which samples that are all too similar pass. So theory is compared with stabilities
(Kolmogorov-Smirnov distance KS and Wasserstein distance W1 from P(s), each beside its mean under noise alone), with overlaps
between independent samples, and with |m|²/n along a localization. Overlaps fluctuate between instances by about 1/(2√n) even if
samples are fair; the verdict allows for that.

Draws of one chain are not independent, chains are: errors of overlaps are by leaving out one chain at a time. Two samplers are
compared by D² = q_aa + q_bb - 2 q_ab, 0 where the weights' means agree, by q_aa - q_bb, and by the energy per constraint.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import rel_entr

from solspace.diagnostics.report import COARSE, SIGMAS, Agreement, Distance, Estimate, Report, Verdict, enough, visible
from solspace.info import LocalizationInfo
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.series import pair_products
from solspace.numerics.streams import generator
from solspace.samples import Samples, chains_of
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

KS_NOISE = 0.8687311606361592  # mean of √m KS for m independent draws: √(π/2) log 2
# KS and W1 of all samples together over their means, which noise exceeds in 1% of cases even if all samples are equal
POOLED, POOLED_W1 = 1.88, 2.3
NEVER_TWICE = 50  # weights from which on no two independent samples are equal, if there are many solutions
MANY = 9.0  # log of the ratio of solutions to pairs of samples above which no two samples are equal
# A pair is too similar if fair samples have one as similar with probability exp(-RARE) by theory, or exp(-RARER) by the other
# overlaps. In 30,000 sets of 3 to 64 fair samples (n = 51 to 1001, ±1 and spherical) it was at least exp(-8) and exp(-19).
RARE, RARER = 14.0, 20.0
INSTANCE = 0.5  # typical difference of an instance's overlap from theory's, over 1/√n
LAYER = 0.005  # stabilities are judged on their own this near a wall, where the weights are real numbers
FEWEST = 12.0  # least number of stabilities that theory must expect there
UNEVEN = 1.0  # spread between constraints of the share that each has there, over its mean: at least that of theory
MOST = 2048  # samples among which near copies are looked for
ALONE = "cannot tell: there are no two independent samples to compare; draw at least four."


def measure(samples: Samples, prediction: Prediction | None, reference: Samples | None) -> Values:
    """Return the fields of a `Report` on stabilities, overlaps and the path of samples."""
    judged, found = _judged(samples), {}
    if judged.any():
        weights, chain = samples.weights[judged], chains_of(samples)[judged]
        _, one_each = np.unique(chain, return_index=True)
        found = _stabilities(samples.stabilities[judged], samples.n, prediction)
        found["layer"] = _layer(samples.stabilities[judged], chain, samples.target, prediction)
        found["overlap"] = _overlap(weights, chain, prediction)
        found["copies"] = _copies(samples, judged, prediction, reference)
        found["overlap_square"] = overlap_square(weights[one_each].astype(float), prediction)
    if isinstance(samples.info, LocalizationInfo):
        found |= _path(samples.info, samples.n, prediction)
    return found


def _judged(samples: Samples) -> Array:
    """Return which samples are compared, (k,): solutions, or all where no constraint is hard."""
    return samples.solved | (not samples.target.potential.hard)


def _overlap(weights: Array, chain: Array, prediction: Prediction | None) -> Estimate | None:
    means = _chain_means(weights, chain)
    if len(means) < 2:
        return None
    estimate, _ = _cross_overlap(means)
    if prediction is None:
        return estimate
    shared = INSTANCE * np.mean(np.square(weights, dtype=np.float64)) / np.sqrt(weights.shape[1])
    return replace(_widened(estimate, Estimate(0.0, float(shared))), theory=prediction.overlap)


def _widened(estimate: Estimate, other: Estimate) -> Estimate:
    """Return `estimate`, its error widened by that of an independent one; degrees of freedom as Welch counts them."""
    error = float(np.hypot(estimate.error, other.error))
    spent = sum(one.error**4 / one.df for one in (estimate, other) if one.df)
    return replace(estimate, error=error, df=error**4 / spent if spent else None)


def _chain_means(values: Array, chain: Array) -> Array:
    """Return the mean of `values` (k, ...) over the samples of each chain, (chains, ...)."""
    order = np.argsort(chain, kind="stable")
    _, first, counts = np.unique(chain[order], return_index=True, return_counts=True)
    if len(values) and (counts == counts[0]).all():  # the usual case, and by far the fastest
        return values[order].reshape(len(counts), -1, *values.shape[1:]).mean(axis=1, dtype=np.float64)
    sums = np.add.reduceat(values[order], first, axis=0, dtype=np.float64) if len(values) else np.empty(values.shape)
    return sums / counts.reshape(-1, *[1] * (values.ndim - 1))


def _cross_overlap(means: Array) -> tuple[Estimate, Array]:
    """Return the overlap of two chains with these `means` (chains, n), and its values (chains,) leaving out one each.

    For only two chains the error is that of two single weight vectors, 1/√n.
    """
    chains, n = means.shape
    total, own = means.sum(axis=0), np.einsum("ci,ci->c", means, means)
    value = float((total @ total - own.sum()) / (n * chains * (chains - 1)))
    if chains < 3:
        return Estimate(value, 1 / np.sqrt(n)), np.full(chains, value)
    rest = total @ total - 2 * means @ total + own
    without = (rest - (own.sum() - own)) / (n * (chains - 1) * (chains - 2))
    return Estimate(value, _jackknife(without), df=chains - 1), without


def _jackknife(without: Array) -> float:
    return float(np.sqrt((len(without) - 1) * np.var(without)))


def _dithered(stabilities: Array, n: int) -> Array:
    """Return `stabilities` moved by up to half a step if they lie on the lattice of ±1 problems, or of whole weights."""
    scaled = stabilities * np.sqrt(n)
    whole = np.rint(scaled)
    if np.abs(scaled - whole).max() > 1e-6:
        return stabilities
    half = 1.0 if np.ptp(whole % 2) == 0 else 0.5
    return stabilities + half * generator(0).uniform(-1, 1, stabilities.shape) / np.sqrt(n)


def _stabilities(stabilities: Array, n: int, prediction: Prediction | None) -> Values:
    """Return the fields of a `Report` on stabilities (k, m): their mean and, by theory, their distances from P(s)."""
    means, m = stabilities.mean(axis=1), stabilities.shape[1]
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else stabilities.std() / np.sqrt(m)
    if prediction is None:
        return {"mean_stability": Estimate(float(means.mean()), float(error))}
    # the mean of an instance differs from theory's, by about the spread of one constraint over √m
    error = np.hypot(error, stabilities.std() / np.sqrt(m))
    values = np.sort(_dithered(stabilities, n), axis=1)
    pooled, noise = np.sort(values, axis=None), KS_NOISE / np.sqrt(m)
    expected, cdf = prediction.mean_stability, np.asarray(prediction.stability_cdf(values))
    return {
        "mean_stability": Estimate(float(means.mean()), float(error), float(expected)),
        "ks": Distance(float(np.mean([_ks(row) for row in cdf])), noise),
        "ks_pooled": Distance(_ks(np.sort(cdf.ravel())), noise, POOLED),
        "w1": _w1(pooled, m, prediction),
    }


def walls(target: Target) -> list[tuple[float, float]]:
    """Return the intervals of stabilities next to the walls of a hard potential, where weights are real numbers.

    >>> walls(Target("spherical", "band(1)", margin=0.5))
    [(-0.5, -0.495), (1.495, 1.5)]
    """
    if not target.potential.hard or target.prior.name not in ("spherical", "gaussian"):
        return []
    found = []
    for edge in sorted({target.margin + point for point in target.potential.breakpoints}):
        below, above = target.violated(np.array([edge - LAYER, edge + LAYER]))
        if below != above:
            found.append((edge, edge + LAYER) if below else (edge - LAYER, edge))
    return found


def shares_at_walls(stabilities: Array, target: Target) -> Array:
    """Return the share (k,) of each sample's stabilities (k, m) that is next to a wall."""
    inside = [((stabilities >= low) & (stabilities <= high)).mean(axis=1) for low, high in walls(target)]
    return np.sum(inside, axis=0)


def _layer(stabilities: Array, chain: Array, target: Target, prediction: Prediction | None) -> Estimate | None:
    """Return the share of stabilities next to a wall; None if theory expects too few, or there is no wall.

    Its error is that of independent counts or of chains, whichever is larger, and allows for the instance.
    """
    if prediction is None or not (ends := walls(target)):
        return None
    k, m = stabilities.shape
    expected = float(sum(np.diff(np.asarray(prediction.stability_cdf(np.array(own))))[0] for own in ends))
    if expected * k * m < FEWEST:
        return None
    each = _chain_means(shares_at_walls(stabilities, target), chain)
    error = np.sqrt(expected / (k * m))
    if len(each) > 1:
        error = max(error, each.std(ddof=1) / np.sqrt(len(each)))
    return Estimate(float(each.mean()), float(np.hypot(error, UNEVEN * expected / np.sqrt(m))), expected)


def _ks(cdf: Array) -> float:
    """Return the Kolmogorov-Smirnov distance from a law whose cumulative distribution at the ordered values is `cdf`."""
    steps = np.arange(len(cdf) + 1) / len(cdf)
    return float(max((steps[1:] - cdf).max(), (cdf - steps[:-1]).max()))


def _w1(ordered: Array, m: int, prediction: Prediction) -> Distance:
    """Return ∫|F_samples - F| ds, and its mean √(2/π) ∫√(F(1-F)/m) ds for m independent draws."""
    grid = np.linspace(ordered[0] - 0.5, ordered[-1] + 0.5, 2001)
    theory = np.asarray(prediction.stability_cdf(grid))
    seen = np.searchsorted(ordered, grid, side="right") / len(ordered)
    noise = np.sqrt(2 / np.pi) * np.trapezoid(np.sqrt(theory * (1 - theory) / m), grid)
    return Distance(float(np.trapezoid(np.abs(seen - theory), grid)), float(noise), POOLED_W1)


def _path(info: LocalizationInfo, n: int, prediction: Prediction | None) -> Values:
    """Return the fields of a `Report` on the path of a localization."""
    t, q, instability = (np.asarray(path, float) for path in (info.t, info.overlap, info.instability))
    start = q[0][np.isfinite(q[0])]
    ran = np.asarray(info.iterations) > 0  # rows after a sample's arrival are empty
    found: Values = {"unconverged": float(1 - np.mean(np.asarray(info.converged)[ran])) if ran.any() else 0.0}
    if len(start):
        theory, shared = (None, 0.0) if prediction is None else (prediction.overlap, INSTANCE / np.sqrt(n))
        error = np.hypot(start.std() / np.sqrt(len(start)), shared)
        found["overlap_at_start"] = Estimate(float(start.mean()), float(error), theory)
    if np.isfinite(instability).any():
        highest = np.nanmax(np.where(np.isfinite(instability), instability, -np.inf), axis=0)
        found["instability"] = Estimate(float(highest.mean()), float(highest.std() / np.sqrt(len(highest))))
    together = np.isfinite(q).all(axis=1) & (np.ptp(t, axis=1) == 0)
    if prediction is not None and together.any():
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


def _copies(samples: Samples, judged: Array, prediction: Prediction | None, reference: Samples | None) -> int:
    """Return how many chains ended nearer to another one than independent samples come."""
    rows = last_draws(samples.weights[judged], chains_of(samples)[judged])
    discrete = bool((rows == np.rint(rows)).all())
    pairs, doubles = np.log(max(len(rows) * (len(rows) - 1) / 2, 1)), _doubles(rows)
    if discrete and prediction is not None and samples.n * prediction.entropy < MANY + pairs:
        return 0
    if discrete and reference is not None and _doubles(last_draws(reference.weights, chains_of(reference))):
        return 0  # with few solutions independent samples can be equal
    judge = prediction is not None or reference is not None
    sure = not discrete or (judge and samples.n >= NEVER_TWICE)
    return max(doubles if sure else 0, _near(rows[:MOST].astype(float), discrete, prediction))


def last_draws(weights: Array, chain: Array) -> Array:
    """Return the last draw of each chain, (chains, n)."""
    _, last = np.unique(chain[::-1], return_index=True)
    return weights[::-1][last]


def _doubles(rows: Array) -> int:
    return len(rows) - len(np.unique(rows.round(9), axis=0))


def _near(rows: Array, discrete: bool, prediction: Prediction | None) -> int:
    """Return how many `rows` (k, n) are too similar to an earlier one.

    Overlaps of independent samples have mean r and a variance of about (1 - r²)/n for ±1 weights, (1 - r)²/n on the sphere, whose
    law serves for other weights too, times 1/(1 - λ), λ the replicon. The probability of a larger one is estimated by that of
    independent weights, whose number is divided by the last factor: the larger of theory's and of the one estimated from the
    lower half of the overlaps.
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
    signs = discrete and bool((np.abs(rows) == 1).all())
    free /= 1 - centre**2 if signs else (1 - centre) ** 2
    free = max(free, 1.0, 0.0 if prediction is None else 1 / (1 - prediction.replicon))
    if signs:
        a, b = (1 + q) / 2, (1 + centre) / 2
        rate = rel_entr(a, b) + rel_entr(1 - a, 1 - b)
    else:
        with np.errstate(divide="ignore"):
            rate = -np.log1p(-(((q - centre) / (1 - centre)) ** 2).clip(max=1)) / 2
    near = (q > centre) & (n / free * rate > (RARER if prediction is None else RARE) + np.log(len(q)))
    return len(np.unique(np.triu_indices(k, 1)[1][near]))


def judge_by_theory(found: Report, samples: Samples, cure: str) -> Verdict:
    overlap, mean, w1 = found.overlap, found.mean_stability, found.w1
    if off := _off_theory(found, cure):
        return Verdict(False, f"biased: {off}")
    if (layer := found.layer) is not None and layer.biased:
        few, cure = ("few", _at_wall(samples)) if layer.sigmas < 0 else ("many", cure)
        pair = f"{layer.value:.2g} of them are within {LAYER} of it, theory {layer.theory:.2g}"
        return Verdict(False, f"biased near the margin: too {few} stabilities are next to a wall ({pair}). {cure}.")
    if overlap is None or mean is None or w1 is None:
        return Verdict(None, ALONE)
    within = overlap.visible
    if within > COARSE:
        return Verdict(None, f"cannot tell: {_coarse(overlap, samples)}.")
    shift = min(mean.visible, POOLED_W1 * w1.noise + (visible(None) - SIGMAS) * mean.error)
    words = f"biases of overlaps above {within:.3f} would show, and of stabilities above {shift:.3f}"
    return Verdict(True, f"fair within {within:.3f}: samples agree with theory; {words}.", within)


def _at_wall(samples: Samples) -> str:
    if isinstance(samples.info, LocalizationInfo):
        more = 'finish="auto", which ends in rotations' if samples.info.finish == 0 else "more sweeps, as in finish=16"
        return f"Draw with {more}"
    return "Try more sweeps"


def _off_theory(found: Report, cure: str) -> str:
    """Return the deviations from theory beyond chance, and advice; empty if there are none."""
    overlaps, stabilities = [], []
    overlap, square, mean, w1 = found.overlap, found.overlap_square, found.mean_stability, found.w1
    if overlap is not None and overlap.biased:
        pair = f"overlap {overlap.value:.3f} ± {overlap.error:.3f}, theory {overlap.theory:.3f}"
        overlaps.append(f"samples are {too(overlap)} each other ({pair})")
    if square is not None and square.sigmas > SIGMAS:
        pair = f"overlap² {square.value:.2g} ± {square.error:.1g}, theory {square.theory:.2g}"
        overlaps.append(f"samples gather in few places ({pair})")
    if mean is not None and mean.biased:
        stabilities.append(f"stabilities are off (mean {mean.value:.3f} ± {mean.error:.3f}, theory {mean.theory:.3f})")
    distances = [distance for distance in (found.ks, found.ks_pooled) if distance is not None]
    if any(distance.biased for distance in distances):
        worst = max(distances, key=lambda distance: distance.value / distance.noise)
        stabilities.append(f"the histogram of stabilities is off (KS {worst.value:.3f}, noise {worst.noise:.3f})")
    if w1 is not None and w1.biased and not overlaps + stabilities:
        stabilities.append(f"stabilities are shifted (W1 {w1.value:.3f}, noise {w1.noise:.3f})")
    # deviating stabilities hint at patterns that are not random, for which no sampler agrees with theory
    advice = "Are the patterns and labels random, as theory takes them to be?" if stabilities else f"{cure}."
    return f"{'; '.join(overlaps + stabilities)}. {advice}" if overlaps + stabilities else ""


def too(overlap: Estimate) -> str:
    return "too similar to" if overlap.sigmas > 0 else "too different from"


def _coarse(overlap: Estimate, samples: Samples) -> str:
    """Return the bias that so few samples could hide, and how many could not."""
    k, n = len(samples), samples.n
    shared = INSTANCE / np.sqrt(n)
    own = max(overlap.error**2 - shared**2, 0.0) * k
    many = enough(lambda count: visible(None) * float(np.hypot(np.sqrt(own / count), shared)), k + 1)
    words = f"{k} samples of {n} weights could hide a bias of {overlap.visible:.2f} of the overlaps"
    if many is not None and many <= 100 * k:
        return f"{words}; take {many} samples"
    other = (
        ", or compare with annealed chains that have mixed" if samples.target.prior.name in ("binary", "levels") else ""
    )
    return f"{words}; take n >= {int(np.ceil(n * (overlap.visible / COARSE) ** 2))}{other}"


def agreement(samples: Samples, reference: Samples) -> Agreement | None:
    """Compare samples with a reference; None if one of them has fewer than three independent solutions."""
    means, energies = zip(_summary(samples), _summary(reference))
    if min(map(len, means)) < 3:
        return None
    (own, without), (other, others_without) = (_cross_overlap(one) for one in means)
    overlap = replace(_widened(own, other), value=own.value - other.value, theory=0.0)
    (a, b), n = means, means[0].shape[1]
    total, others = a.sum(axis=0), b.sum(axis=0)
    between = total @ others / (n * len(a) * len(b))
    left = without - 2 * ((total - a) @ others) / (n * (len(a) - 1) * len(b))
    right = others_without - 2 * ((others - b) @ total) / (n * len(a) * (len(b) - 1))
    error = float(np.hypot(_jackknife(left), _jackknife(right)))
    square = Estimate(float(own.value + other.value - 2 * between), error, 0.0)
    energy = None
    if all(np.isfinite(one).all() for one in energies) and any(np.ptp(one) for one in energies):
        error = float(np.hypot(*(one.std(ddof=1) / np.sqrt(len(one)) for one in energies)))
        energy = Estimate(float(energies[0].mean() - energies[1].mean()), error, 0.0)
    return Agreement(overlap, square, energy)


def _summary(samples: Samples) -> tuple[Array, Array]:
    """Return the mean of each chain's weights (chains, n), and of its energy per constraint (chains,), over solutions."""
    judged = _judged(samples)
    chain = chains_of(samples)[judged]
    return _chain_means(samples.weights[judged], chain), _chain_means(samples.energies()[judged] / samples.m, chain)


def judge_by_reference(found: Agreement | None, reference: Report) -> Verdict:
    """Return whether samples are fair by their agreement with a reference, given the reference's own report."""
    if found is None:
        return Verdict(None, "cannot tell: fewer than three independent solutions on one side.")
    if off := _off_reference(found):
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


def _off_reference(found: Agreement) -> list[str]:
    off = []
    if found.overlap.biased:
        pair = f"{found.overlap.value:+.4f} ± {found.overlap.error:.4f}"
        off.append(f"samples are {too(found.overlap)} each other (overlap {pair} off the reference)")
    if found.means.sigmas > SIGMAS:
        off.append(f"the weights' means differ (by {np.sqrt(found.means.value):.4f} rms)")
    if found.energy is not None and found.energy.biased:
        off.append(f"energies differ (by {found.energy.value:+.4f} ± {found.energy.error:.4f} a constraint)")
    return off
