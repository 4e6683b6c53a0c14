"""Samples against theory: are they fair?

The histogram of stabilities alone is a weak judge: samples that are all too similar pass it. So two things are looked
at, stabilities against P(s) (Kolmogorov-Smirnov distance KS and Wasserstein distance W1, each beside the size that pure
noise gives) and overlaps between independent samples against r. Along a localization, |m|²/n is compared with q(t), and
the instability λ that message passing met with its prediction.

Overlaps fluctuate from instance to instance by about 1/(2√n) even when everything is fair; the verdict allows for that.
Of 230 runs of six or eight fair samples at n = 301 and 501 none was called biased: false alarms are rarer than 1.3%.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solspace.info import AnnealingInfo, LocalizationInfo
from solspace.numerics.streams import generator
from solspace.samples import Samples
from solspace.system.checks import instance, optional

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

Array = NDArray[Any]
KS_NOISE = 0.8687311606361592
"""Mean of √m KS for m independent draws: √(π/2) log 2."""
SIGMAS = 3.0
"""Deviations beyond this many standard errors are called a bias."""
POOLED = 1.88
"""KS of all samples together over its mean that pure noise passes in 1% of cases, were the samples all the same."""
NEVER_TWICE = 50
"""Number of weights from which on no two independent samples are the same."""


@dataclass(frozen=True)
class Distance:
    """A distance between samples and theory: its value, and the mean value that pure noise would give."""

    value: float
    noise: float

    def __str__(self) -> str:
        return f"{self.value:.4f} (noise {self.noise:.4f})"


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error, beside what theory says (None where it says nothing)."""

    value: float
    error: float
    theory: float | None = None

    @property
    def sigmas(self) -> float:
        """Deviation from theory in standard errors; 0 where there is no theory."""
        return 0.0 if self.theory is None else (self.value - self.theory) / max(self.error, 1e-300)

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.4f}"


@dataclass(frozen=True)
class Report:
    """What `diagnose` found; prints as a table with a verdict in words.

    `fair` is None where there is nothing to judge by.
    """

    n_samples: int
    n_solved: int
    fair: bool | None
    verdict: str
    mean_stability: Estimate | None = None
    overlap: Estimate | None = None
    overlap_square: Estimate | None = None
    """Mean of the squared overlap, where r = 0 by symmetry and the mean says nothing; theory 1/(n(1 - λ)), λ the replicon."""
    overlap_at_start: Estimate | None = None
    ks: Distance | None = None
    ks_pooled: Distance | None = None
    w1: Distance | None = None
    path_deviation: float | None = None
    unconverged: float | None = None
    copies: int = 0
    """Samples that are the same as another one."""
    instability: Estimate | None = None
    notes: tuple[str, ...] = field(default=())

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table: what, as measured, as predicted."""
        rows = [("solved", f"{self.n_solved}/{self.n_samples}", "")]
        named = {
            "mean stability": self.mean_stability,
            "overlap of two samples": self.overlap,
            "overlap² of two samples": self.overlap_square,
            "overlap |m|²/n at t = 0": self.overlap_at_start,
            "largest instability λ": self.instability,
        }
        for name, estimate in named.items():
            if estimate is not None:
                rows.append((name, str(estimate), "" if estimate.theory is None else f"{estimate.theory:.4f}"))
        distances = {"KS of a sample's stabilities": self.ks, "KS, all samples": self.ks_pooled, "W1": self.w1}
        rows += [(name, f"{d.value:.4f}", f"{d.noise:.4f} (noise)") for name, d in distances.items() if d is not None]
        if self.path_deviation is not None:
            rows.append(("path |m|²/n off q(t) by at most", f"{self.path_deviation:.1%}", ""))
        if self.copies:
            rows.append(("copies of another sample", str(self.copies), "0"))
        if self.unconverged is not None:
            rows.append(("message passing unconverged", f"{self.unconverged:.1%}", ""))
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values."""
        values: dict[str, Any] = {}
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            values[name] = vars(value).copy() if isinstance(value, (Distance, Estimate)) else value
        values["notes"] = list(self.notes)
        return values

    def __str__(self) -> str:
        rows = self.rows()
        wide, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{name:<{wide}}  {value:>{middle}}  {theory}".rstrip() for name, value, theory in rows]
        return "\n".join([*lines, self.verdict, *self.notes])


def diagnose(samples: Samples, prediction: Prediction | None = None) -> Report:
    """Return how fair `samples` are, judged by `prediction`; without one, only what needs no theory.

    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=501, alpha=0.3, rng=0)
    >>> samples = ss.localize(problem, n_samples=8, rng=1)
    >>> diagnose(samples, ss.predict(problem.target, 0.3)).fair
    True
    """
    from solspace.theory.prediction import Prediction

    instance(Samples)("samples", samples)
    optional(instance(Prediction))("prediction", prediction)
    judged = samples.solved | (not samples.target.potential.hard)
    stabilities, chain = samples.stabilities[judged], _chains(samples)[judged]
    report: dict[str, Any] = {"n_samples": len(samples), "n_solved": int(samples.solved.sum())}
    if len(stabilities):
        report |= _stabilities(stabilities, samples, prediction)
        report |= _overlaps(samples.weights[judged], chain, prediction)
    if isinstance(samples.info, LocalizationInfo):
        report |= _path(samples.info, samples.n, prediction)
    fair, verdict = _verdict(samples, report, prediction)
    return Report(**report, fair=fair, verdict=verdict, notes=_notes(samples, prediction))


def _chains(samples: Samples) -> Array:
    """Return the chain of each sample: draws of one chain are not independent of each other."""
    chains = samples.info.chains
    return np.arange(len(samples)) if chains is None else np.asarray(chains)


def dithered(stabilities: Array, n: int) -> Array:
    """Return `stabilities` moved by up to half a lattice step where they lie on the lattice of ±1 problems (2/√n)."""
    scaled = stabilities * np.sqrt(n)
    if np.abs(scaled - np.rint(scaled)).max() > 1e-6:
        return stabilities
    return stabilities + generator(0).uniform(-1, 1, stabilities.shape) / np.sqrt(n)


def _stabilities(stabilities: Array, samples: Samples, prediction: Prediction | None) -> dict[str, Any]:
    means = stabilities.mean(axis=1)
    error = means.std(ddof=1) / np.sqrt(len(means)) if len(means) > 1 else stabilities.std() / np.sqrt(samples.m)
    theory = None if prediction is None else float(prediction.mean_stability)
    # an instance's own mean fluctuates too, by about the spread of one constraint over √m
    shared = stabilities.std() / np.sqrt(stabilities.shape[1])
    found: dict[str, Any] = {"mean_stability": Estimate(float(means.mean()), float(np.hypot(error, shared)), theory)}
    if prediction is None:
        return found
    values = np.sort(dithered(stabilities, samples.n), axis=1)
    m = values.shape[1]
    pooled = np.sort(values.ravel())
    single = np.mean([_ks(row, prediction) for row in values])
    found["ks"] = Distance(float(single), KS_NOISE / np.sqrt(m))
    found["ks_pooled"] = Distance(_ks(pooled, prediction), KS_NOISE / np.sqrt(m))
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
    return Distance(float(np.trapezoid(np.abs(seen - theory), grid)), float(noise))


def _overlaps(weights: Array, chain: Array, prediction: Prediction | None) -> dict[str, Any]:
    k, n = weights.shape
    first, second = np.triu_indices(k, 1)
    other = chain[first] != chain[second]
    if not other.any():
        return {}
    gram = weights.astype(float) @ weights.T.astype(float) / n
    first, second = first[other], second[other]
    values = gram[first, second]
    copies = len(np.unique(second[values > 1 - 1e-9])) if n >= NEVER_TWICE else 0
    left_out = [values[(chain[first] != c) & (chain[second] != c)] for c in np.unique(chain)]
    means = np.array([v.mean() for v in left_out if len(v)])
    jackknife = np.sqrt((len(means) - 1) * means.var()) if len(means) > 1 else float(values.std())
    error = float(np.hypot(jackknife, 0.5 / np.sqrt(n)))
    theory = None if prediction is None else prediction.overlap
    found = {"overlap": Estimate(float(values.mean()), error, theory), "copies": copies}
    if prediction is not None and prediction.overlap == 0 and prediction.replicon < 1:
        found["overlap_square"] = _square(values, n, prediction.replicon)
    return found


def _square(values: Array, n: int, replicon: float) -> Estimate:
    """Return the mean of q² beside 1/(n(1 - λ)): near q = 0 the number of pairs falls off like exp(-n (1 - λ) q²/2).

    For ± symmetric measures w and -w are alike, and a sampler stuck in one pair of clusters still has mean overlap 0. The
    error is that of as many independent Gaussian overlaps, and allows for an instance's own λ.
    """
    expected = 1 / (n * (1 - replicon))
    error = expected * np.hypot(np.sqrt(2 / len(values)), 2 / np.sqrt(n) / (1 - replicon))
    return Estimate(float((values**2).mean()), float(error), expected)


def _path(info: LocalizationInfo, n: int, prediction: Prediction | None) -> dict[str, Any]:
    t, q = np.asarray(info.t, float), np.asarray(info.overlap, float)
    theory = None if prediction is None else prediction.overlap
    start = q[0][np.isfinite(q[0])]
    found: dict[str, Any] = {"unconverged": float(1 - np.mean(info.converged))}
    if len(start):
        error = float(np.hypot(start.std() / np.sqrt(len(start)), 0.5 / np.sqrt(n)))
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


def _verdict(samples: Samples, found: dict[str, Any], prediction: Prediction | None) -> tuple[bool | None, str]:
    k, solved = found["n_samples"], found["n_solved"]
    if samples.target.potential.hard and solved < k:
        info = samples.info if isinstance(samples.info, LocalizationInfo) else None
        lost = [word for word in info.status if "diverged" in word] if info else []
        why = f"message passing diverged in {len(lost)}" if lost else "constraints are missed"
        cure = 'method="careful", more damping or ss.anneal' if info else "more sweeps or a lower load"
        if solved < k / 2:
            return False, f"failed: {k - solved} of {k} samples are no solutions ({why}). Try {cure}."
        cured = f"{k - solved} of {k} samples are no solutions ({why}); the rest may be biased. Try {cure}."
        return False, f"biased: {cured}"
    if isinstance(samples.info, AnnealingInfo) and samples.info.mode == "solve":
        return None, "solutions, not samples: each chain stopped at its first solution."
    if prediction is None and found.get("copies"):
        return False, f"biased: {found['copies']} of {k} samples are copies of another one."
    if prediction is None:
        return None, "no verdict: there is no theory for these patterns. Compare overlaps with another sampler's."
    biases = _biases(found)
    if found.get("copies"):
        biases.insert(0, f"{found['copies']} of {k} samples are copies of another one")
    if biases:
        return False, f"biased: {'; '.join(biases)}."
    return True, "fair: stabilities and overlaps agree with theory within errors."


def _biases(found: dict[str, Any]) -> list[str]:
    biases = []
    overlap, mean, ks = found.get("overlap"), found.get("mean_stability"), found.get("ks")
    if overlap is not None and abs(overlap.sigmas) > SIGMAS:
        way = "too similar to each other" if overlap.sigmas > 0 else "too different from each other"
        biases.append(
            f"samples are {way} (overlap {overlap.value:.3f} ± {overlap.error:.3f}, theory {overlap.theory:.3f}); "
            "try a smaller step or more sweeps"
        )
    square = found.get("overlap_square")
    if square is not None and square.sigmas > SIGMAS:
        biases.append(
            f"samples gather in few places (overlap² {square.value:.2g} ± {square.error:.1g}, theory {square.theory:.2g})"
        )
    if mean is not None and abs(mean.sigmas) > SIGMAS:
        biases.append(f"stabilities are off (mean {mean.value:.3f} ± {mean.error:.3f}, theory {mean.theory:.3f})")
    pooled = found.get("ks_pooled")
    if ks is not None and pooled is not None and (ks.value > 2 * ks.noise or pooled.value > POOLED * pooled.noise):
        worst = max(ks, pooled, key=lambda distance: distance.value / distance.noise)
        biases.append(f"the histogram of stabilities is off (KS {worst.value:.3f}, noise {worst.noise:.3f})")
    return biases


def _notes(samples: Samples, prediction: Prediction | None) -> tuple[str, ...]:
    notes = []
    if prediction is not None and isinstance(samples.info, LocalizationInfo) and not prediction.samplable:
        notes.append("theory does not expect ASL to sample fairly at this load: read the verdict with care.")
    if len(samples) < 4:
        notes.append("fewer than four samples: errors are rough.")
    return tuple(notes)
