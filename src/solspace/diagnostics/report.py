"""What `diagnose` found: numbers with their errors, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr, ndtri

from solspace.system import html
from solspace.system.plain import Values

SIGMAS = 3.0
"""Deviations beyond this many standard errors are called a bias."""
POWER = 0.95
"""Probability with which a bias of `Report.within` is called one."""
COARSE = 0.3
"""Samples that need not show a bias of the overlaps as large as this are not called fair."""


def visible(df: float | None, limit: float = SIGMAS) -> float:
    """Return how many errors a bias must have to be found beyond `limit` errors with probability `POWER`.

    Where the error is estimated, with `df` degrees of freedom, both the one it is stated in and the one it is judged by are.

    >>> round(visible(None), 3), round(visible(7), 1)
    (4.645, 6.5)
    """
    known = float(limit + ndtri(POWER))
    if df is None or df > 1e4:
        return known
    levels = (np.arange(64) + 0.5) / 64
    errors = np.sqrt(chdtri(df, levels) / df)
    return float(brentq(lambda c: ndtr(c * errors[:, None] - limit * errors).mean() - POWER, known / 2, 1e5))


def enough(within: Callable[[int], float], start: int, limit: float = COARSE) -> int | None:
    """Return about the smallest number from `start` on for which `within` is at most `limit`; None where none below 10⁵ is.

    >>> enough(lambda k: 1 / k, 2)
    4
    """
    count = start
    while count < 10**5:
        if within(count) <= limit:
            return count
        count += -(-count // 20)
    return None


@dataclass(frozen=True)
class Distance:
    """A distance between samples and theory: its value, and the mean value that pure noise would give."""

    value: float
    noise: float
    limit: float = 2.0
    """Times the noise beyond which it is called a bias."""

    @property
    def biased(self) -> bool:
        """Whether the distance is more than chance."""
        return self.value > self.limit * self.noise

    def __str__(self) -> str:
        return f"{self.value:.4f} (noise {self.noise:.4f})"


@dataclass(frozen=True)
class Estimate:
    """A mean with its standard error, beside what theory or the reference says (None where they say nothing)."""

    value: float
    error: float
    theory: float | None = None
    df: float | None = None
    """Degrees of freedom of the error, None where it is known."""

    @property
    def visible(self) -> float:
        """The smallest deviation from theory that is called a bias with probability `POWER`."""
        return visible(self.df) * self.error

    @property
    def sigmas(self) -> float:
        """Deviation from theory in standard errors; 0 where there is no theory."""
        return 0.0 if self.theory is None else (self.value - self.theory) / max(self.error, 1e-300)

    @property
    def biased(self) -> bool:
        """Whether the deviation from theory is more than chance."""
        return abs(self.sigmas) > SIGMAS

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.4f}"


def widened(estimate: Estimate, other: Estimate) -> Estimate:
    """Return `estimate`, its error widened by that of an independent one; degrees of freedom as Welch counts them."""
    error = float(np.hypot(estimate.error, other.error))
    spent = sum(one.error**4 / one.df for one in (estimate, other) if one.df)
    return replace(estimate, error=error, df=error**4 / spent if spent else None)


@dataclass(frozen=True)
class Mixing:
    """What the sweeps after a schedule tell about chains; times in sweeps, NaN where the chains are too short for them."""

    lag: int
    """Sweeps between the draws of a chain that are compared: half of those that it made after the schedule."""
    self_overlap: Estimate
    """Overlap of a chain with itself, `lag` sweeps later."""
    cross_overlap: Estimate
    """Overlap of two chains, as far apart in time."""
    memory: Estimate
    """Their difference: what a chain still knows of where it was."""
    earlier: float
    """The same after half the lag."""
    rhat: dict[str, float]
    """Rank-normalised split R-hat of `energy` and `overlap`."""
    effective: dict[str, float]
    """Effective number of draws of `energy` and `overlap`."""
    time: dict[str, float]
    """Autocorrelation time of `energy` and `weights`."""
    missed: float
    """Share of the draws, of the second half, that violate a constraint which none may violate."""
    n_chains: int
    n_draws: int


@dataclass(frozen=True)
class Agreement:
    """Samples beside those of a reference."""

    overlap: Estimate
    """Overlap of two samples, less the same of the reference (0 in law where they agree)."""
    means: Estimate
    """Mean square difference of the weights' means, noise taken off."""
    energy: Estimate | None
    """Energy a constraint, less the reference's; None where the potential has none."""


@dataclass(frozen=True)
class Report:
    """What `diagnose` found; prints as a table with a verdict in words.

    `fair` is None where nothing can be told. Where it is True, `within` is the smallest bias of the overlaps that would have
    been called one with a probability of 95% or more: fairness is not known any better.
    """

    n_samples: int
    n_solved: int
    fair: bool | None
    verdict: str
    within: float | None = None
    mean_stability: Estimate | None = None
    overlap: Estimate | None = None
    overlap_square: Estimate | None = None
    """Mean square of the overlap, where r = 0 by symmetry and its mean says nothing; theory 1/(n(1 - λ)), λ the replicon."""
    overlap_at_start: Estimate | None = None
    ks: Distance | None = None
    ks_pooled: Distance | None = None
    w1: Distance | None = None
    path_deviation: float | None = None
    unconverged: float | None = None
    copies: int = 0
    """Samples that are the same as another one, or too similar to it to be independent."""
    instability: Estimate | None = None
    mixing: Mixing | None = None
    agreement: Agreement | None = None
    notes: tuple[str, ...] = field(default=())

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table: what, as measured, as predicted (or by the reference)."""
        rows = [("solved", f"{self.n_solved}/{self.n_samples}", "")]
        named = {
            "mean stability": self.mean_stability,
            "overlap of two samples": self.overlap,
            "overlap² of two samples": self.overlap_square,
            "overlap |m|²/n at t = 0": self.overlap_at_start,
            "largest instability λ": self.instability,
        }
        rows += [_row(name, estimate) for name, estimate in named.items() if estimate is not None]
        distances = {"KS of a sample's stabilities": self.ks, "KS, all samples": self.ks_pooled, "W1": self.w1}
        rows += [(name, f"{d.value:.4f}", f"{d.noise:.4f} (noise)") for name, d in distances.items() if d is not None]
        if self.path_deviation is not None:
            rows.append(("path |m|²/n off q(t) by at most", f"{self.path_deviation:.1%}", ""))
        if self.copies:
            rows.append(("copies of another sample, or nearly so", str(self.copies), "0"))
        if self.unconverged is not None:
            rows.append(("message passing unconverged", f"{self.unconverged:.1%}", ""))
        rows += [] if self.mixing is None else _mixing_rows(self.mixing)
        rows += [] if self.agreement is None else _agreement_rows(self.agreement)
        return rows

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw what the verdict is made of, each in the unit of its own chance: beyond 3 it is called a bias.

        Parameters
        ----------
        ax
            Matplotlib axes; a new figure of a column's width unless given.
        style
            Properties of the points, as `Axes.plot` takes them.

        Returns
        -------
        Axes
        """
        from solspace.plots.methods import plot_report

        return plot_report(self, ax, **style)

    def to_dict(self) -> Values:
        """Return the report as plain values."""
        return _plain(self)

    def __str__(self) -> str:
        rows = self.rows()
        wide, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{name:<{wide}}  {value:>{middle}}  {theory}".rstrip() for name, value, theory in rows]
        return "\n".join([*lines, self.verdict, *self.notes])

    def _repr_html_(self) -> str:
        against = "reference" if self.agreement is not None else "theory"
        return html.table(
            "Report", self.rows(), ("", "samples", against), self.verdict, html.tone_of(self.fair), self.notes
        )


def _row(name: str, estimate: Estimate) -> tuple[str, str, str]:
    return name, str(estimate), "" if estimate.theory is None else f"{estimate.theory:.4f}"


def _mixing_rows(mixing: Mixing) -> list[tuple[str, str, str]]:
    known = [f"{value:.3g} ({name})" for name, value in mixing.time.items() if value == value]
    return [
        (f"overlap of a chain with itself, {mixing.lag} sweeps on", str(mixing.self_overlap), ""),
        ("overlap of two chains", str(mixing.cross_overlap), ""),
        ("a chain remembers", str(mixing.memory), "0 where mixed"),
        ("R-hat of energy, overlap", " ".join(f"{value:.3f}" for value in mixing.rhat.values()), "1 where mixed"),
        ("effective draws by energy, overlap", " ".join(f"{value:.0f}" for value in mixing.effective.values()), ""),
        ("autocorrelation time, sweeps", ", ".join(known) or "chains are too short to tell", ""),
    ]


def _agreement_rows(agreement: Agreement) -> list[tuple[str, str, str]]:
    named = {
        "overlap less the reference's": agreement.overlap,
        "mean square difference of the means": agreement.means,
        "energy a constraint less the reference's": agreement.energy,
    }
    return [_row(name, estimate) for name, estimate in named.items() if estimate is not None]


def _plain(value: object) -> Any:
    if is_dataclass(value):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    return list(value) if isinstance(value, tuple) else dict(value) if isinstance(value, dict) else value
