"""What a verdict is made of, in one unit: how far each number is off, `SIGMAS` (3) being where it is called a bias."""

from __future__ import annotations

from dataclasses import replace

from solspace.diagnostics.chains import MISSED, forgotten, highest_rhat
from solspace.diagnostics.report import SIGMAS, Distance, Estimate, Report


def deviations(report: Report) -> dict[str, float]:
    """Return the deviations by name: in standard errors, and what is judged by a limit of its own in thirds of that limit.

    >>> from solspace.diagnostics.report import Distance, Estimate
    >>> report = Report(8, 8, True, "fair", overlap=Estimate(0.52, 0.01, 0.5), ks=Distance(0.05, 0.05))
    >>> {name: round(value, 9) for name, value in deviations(report).items()}
    {'overlap of two samples': 2.0, 'KS of a sample': 1.5}
    """
    start, agreed = report.overlap_at_start, report.agreement
    overlap = report.overlap
    if overlap is not None and overlap.theory is None and start is not None and agreed is None:
        overlap = replace(overlap, theory=start.value)  # localized samples beside their own marginals
    found = {
        "mean stability": report.mean_stability,
        "overlap of two samples": overlap,
        "overlap² of two samples": report.overlap_square,
        "KS of a sample": report.ks,
        "KS of all": report.ks_pooled,
        "W1 of all": report.w1,
    }
    if agreed is not None:
        found |= {"overlap, off the reference": agreed.overlap, "means, off the reference": agreed.means}
        found |= {"energy, off the reference": agreed.energy}
    known = {name: _deviation(value) for name, value in found.items() if value is not None}
    return {name: value for name, value in known.items() if value is not None} | _mixing(report)


def _deviation(value: Estimate | Distance) -> float | None:
    if isinstance(value, Distance):
        return SIGMAS * value.value / (value.limit * value.noise)
    return None if value.theory is None else value.sigmas


def _mixing(report: Report) -> dict[str, float]:
    if report.mixing is None:
        return {}
    mixing = report.mixing
    worst = max(mixing.rhat, key=lambda name: mixing.rhat[name])
    return {
        "a chain remembers": SIGMAS * mixing.memory.value / forgotten(mixing),
        f"R-hat of {worst}": SIGMAS * (mixing.rhat[worst] - 1) / (highest_rhat(mixing) - 1),
        **({"later draws that miss constraints": SIGMAS * mixing.missed / MISSED} if mixing.missed else {}),
    }
