"""What `diagnose` finds: numbers with their errors, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri, ndtr, ndtri, stdtrit

from solspace.system.plain import Values, html_table

SIGMAS = 3.0  # standard errors beyond which a deviation is called a bias
POWER = 0.95  # probability with which a bias of `Report.within` is detected
COARSE = 0.3  # samples that could hide a bias of the overlaps this large are not called fair
REMEMBERED = 0.005  # memory of chains below this is negligible
RHAT = 1.05  # limit of R-hat for long chains; for short ones, 2 over the draws of half a chain more
MISSED = 0.01  # share of draws that may miss constraints


def visible(df: float | None, limit: float = SIGMAS) -> float:
    """Return how many errors a bias must have to be found beyond `limit` errors with probability `POWER`.

    An error estimated with `df` degrees of freedom is uncertain both in the stated bias and in the test.

    >>> round(visible(None), 3), round(visible(7), 1)
    (4.645, 6.5)
    """
    known = float(limit + ndtri(POWER))
    if df is None or df > 1e4:
        return known
    from scipy.optimize import brentq

    levels = (np.arange(64) + 0.5) / 64
    errors = np.sqrt(chdtri(df, levels) / df)
    return float(brentq(lambda c: ndtr(c * errors[:, None] - limit * errors).mean() - POWER, known / 2, 1e5))


def enough(within: Callable[[int], float], start: int, limit: float = COARSE) -> int | None:
    """Return about the smallest number from `start` on with `within` at most `limit`; None if none below 10⁵ is.

    >>> enough(lambda k: 1 / k, 2)
    4
    """
    count = start
    while count < 10**5 and within(count) > limit:
        count += -(-count // 20)
    return count if count < 10**5 else None


def sigmas_of(n_chains: int) -> float:
    """Return how many errors, estimated from `n_chains`, are as unlikely as `SIGMAS` known ones (Student's law)."""
    return float(stdtrit(n_chains - 1, ndtr(SIGMAS)))


class Verdict(NamedTuple):
    """Whether samples are fair (None: unknown), why, and within what bias of the overlaps."""

    fair: bool | None
    words: str
    within: float | None = None


@dataclass(frozen=True)
class Distance:
    """Distance between samples and theory.

    Attributes
    ----------
    value, noise : float
        The distance, and its mean under noise alone.
    limit : float
        Multiple of the noise beyond which the distance is called a bias.
    """

    value: float
    noise: float
    limit: float = 2.0

    @property
    def biased(self) -> bool:
        """Whether the distance is more than chance."""
        return self.value > self.limit * self.noise

    @property
    def deviation(self) -> float:
        """The distance in units in which a bias begins at `SIGMAS`."""
        return SIGMAS * self.value / (self.limit * self.noise)

    def __str__(self) -> str:
        return f"{self.value:.4f} (noise {self.noise:.4f})"


@dataclass(frozen=True)
class Estimate:
    """Mean with its standard error.

    Attributes
    ----------
    value, error : float
        Mean and standard error.
    theory : float or None
        Value by theory or by the reference.
    df : float or None
        Degrees of freedom of the error; None if the error is known.
    """

    value: float
    error: float
    theory: float | None = None
    df: float | None = None

    @property
    def visible(self) -> float:
        """The smallest deviation from theory that is called a bias with probability `POWER`."""
        return visible(self.df) * self.error

    @property
    def sigmas(self) -> float:
        """Deviation from theory in standard errors; 0 without theory."""
        return 0.0 if self.theory is None else (self.value - self.theory) / max(self.error, 1e-300)

    @property
    def deviation(self) -> float | None:
        """`sigmas`; None without theory."""
        return None if self.theory is None else self.sigmas

    @property
    def biased(self) -> bool:
        """Whether the deviation from theory is more than chance."""
        return abs(self.sigmas) > SIGMAS

    def __str__(self) -> str:
        return f"{self.value:.4f} ± {self.error:.4f}"


@dataclass(frozen=True)
class Mixing:
    """Mixing of annealed chains, from their sweeps after the schedule; times in sweeps, NaN if the chains are too short.

    Attributes
    ----------
    lag : int
        Sweeps between the compared draws of a chain: half of those made after the schedule.
    self_overlap, cross_overlap, memory : Estimate
        Overlap of a chain with itself `lag` sweeps later, of two chains at that distance in time, and the difference of the two.
    earlier : float
        Memory at half the lag.
    rhat, effective : dict
        Rank-normalised split R-hat, and effective number of draws, of "energy" and "overlap".
    time : dict
        Autocorrelation time of "energy" and "weights".
    missed : float
        Share of the draws of the second half that violate a hard constraint.
    n_chains, n_draws : int
        Chains, and draws of each.
    norm : float
        Mean square of a weight, with which limits of overlaps grow.
    """

    lag: int
    self_overlap: Estimate
    cross_overlap: Estimate
    memory: Estimate
    earlier: float
    rhat: dict[str, float]
    effective: dict[str, float]
    time: dict[str, float]
    missed: float
    n_chains: int
    n_draws: int
    norm: float = 1.0

    @property
    def forgotten(self) -> float:
        """Memory beyond which the chains have not mixed."""
        return max(REMEMBERED * self.norm, sigmas_of(self.n_chains) * self.memory.error)

    @property
    def highest_rhat(self) -> float:
        """R-hat beyond which chains of this length have not mixed."""
        return RHAT + 2 / max(self.n_draws // 2, 1)

    @property
    def worst(self) -> str:
        """Name of the series with the largest R-hat."""
        return max(self.rhat, key=lambda name: self.rhat[name])

    def deviations(self) -> dict[str, float]:
        """Return the deviations, each in thirds of its limit.

        Returns
        -------
        dict of str to float
            Deviations by name.
        """
        found = {
            "a chain remembers": SIGMAS * self.memory.value / self.forgotten,
            f"R-hat of {self.worst}": SIGMAS * (self.rhat[self.worst] - 1) / (self.highest_rhat - 1),
        }
        return found | ({"later draws that miss constraints": SIGMAS * self.missed / MISSED} if self.missed else {})

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the rows of the report's table.

        Returns
        -------
        list of (str, str, str)
            Quantity, measured value, and expectation.
        """
        times = ", ".join(f"{value:.3g} ({name})" for name, value in self.time.items() if value == value)
        return [
            (f"overlap of a chain with itself, {self.lag} sweeps on", str(self.self_overlap), ""),
            ("overlap of two chains", str(self.cross_overlap), ""),
            ("a chain remembers", str(self.memory), "0 where mixed"),
            ("R-hat of energy, overlap", " ".join(f"{value:.3f}" for value in self.rhat.values()), "1 where mixed"),
            ("effective draws by energy, overlap", " ".join(f"{value:.0f}" for value in self.effective.values()), ""),
            ("autocorrelation time, sweeps", times or "chains are too short to tell", ""),
        ]


def _quantity(row: str, point: str = "", **default: Any) -> Any:
    """Return a field with a row in the table, and a point in the picture of deviations."""
    return field(metadata={"row": row, "point": point}, **default)


@dataclass(frozen=True)
class Agreement:
    """Samples compared with those of a reference.

    Attributes
    ----------
    overlap : Estimate
        Overlap of two samples, less that of the reference.
    means : Estimate
        Mean square difference of the weights' means, less its noise.
    energy : Estimate or None
        Energy per constraint, less that of the reference; None if the potential has none.
    """

    overlap: Estimate = _quantity("overlap less the reference's", "overlap, off the reference")
    means: Estimate = _quantity("mean square difference of the means", "means, off the reference")
    energy: Estimate | None = _quantity("energy a constraint less the reference's", "energy, off the reference")


@dataclass(frozen=True)
class Report:
    """Result of `diagnose`; prints as a table with a verdict in words.

    Attributes
    ----------
    n_samples, n_solved : int
        Samples, and those that solve the problem.
    fair : bool or None
        Whether the samples are fair; None if it cannot be decided.
    verdict : str
        The verdict in words.
    within : float or None
        If fair: the smallest bias of the overlaps that would have been detected with a probability of 95% or more.
    mean_stability, overlap : Estimate or None
        Mean stability, and overlap of two samples.
    overlap_square : Estimate or None
        Mean square overlap, where r = 0 by symmetry; by theory 1/(n(1 - λ)), λ the replicon.
    layer : Estimate or None
        Share of the stabilities within 0.005 of a wall of a hard potential, of real weights.
    overlap_at_start : Estimate or None
        |m|²/n at t = 0 of a localization.
    ks, ks_pooled, w1 : Distance or None
        Distances of the stabilities from P(s): Kolmogorov-Smirnov of one sample and of all, and Wasserstein of all.
    path_deviation, unconverged : float or None
        Largest relative deviation of |m|²/n from q(t), and share of steps at which message passing did not converge.
    copies : int
        Samples equal to another one, or too similar to it to be independent.
    instability : Estimate or None
        Largest λ along the paths of a localization.
    mixing : Mixing or None
        Chains compared with themselves.
    agreement : Agreement or None
        Comparison with the reference.
    notes : tuple of str
        Remarks.
    """

    n_samples: int
    n_solved: int
    fair: bool | None = None
    verdict: str = ""
    within: float | None = None
    mean_stability: Estimate | None = _quantity("mean stability", "mean stability", default=None)
    overlap: Estimate | None = _quantity("overlap of two samples", "overlap of two samples", default=None)
    overlap_square: Estimate | None = _quantity("overlap² of two samples", "overlap² of two samples", default=None)
    layer: Estimate | None = _quantity("stabilities within 0.005 of a wall", "stabilities at a wall", default=None)
    overlap_at_start: Estimate | None = _quantity("overlap |m|²/n at t = 0", default=None)
    ks: Distance | None = _quantity("KS of a sample's stabilities", "KS of a sample", default=None)
    ks_pooled: Distance | None = _quantity("KS, all samples", "KS of all", default=None)
    w1: Distance | None = _quantity("W1", "W1 of all", default=None)
    path_deviation: float | None = _quantity("path |m|²/n off q(t) by at most", default=None)
    unconverged: float | None = _quantity("message passing unconverged", default=None)
    copies: int = 0
    instability: Estimate | None = _quantity("largest instability λ", default=None)
    mixing: Mixing | None = None
    agreement: Agreement | None = None
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str, str]]:
        """Return the table.

        Returns
        -------
        list of (str, str, str)
            Quantity, measured value, and prediction or reference.
        """
        copies = [("copies of another sample, or nearly so", str(self.copies), "0")] if self.copies else []
        chains = [] if self.mixing is None else self.mixing.rows()
        differences = [] if self.agreement is None else _rows(self.agreement)
        return [("solved", f"{self.n_solved}/{self.n_samples}", ""), *_rows(self), *copies, *chains, *differences]

    def deviations(self) -> dict[str, float]:
        """Return the deviation of each quantity in units in which a bias begins at 3.

        Returns
        -------
        dict of str to float
            Standard errors, or thirds of the quantity's own limit.

        Examples
        --------
        >>> report = Report(8, 8, True, "fair", overlap=Estimate(0.52, 0.01, 0.5), ks=Distance(0.05, 0.05))
        >>> {name: round(value, 9) for name, value in report.deviations().items()}
        {'overlap of two samples': 2.0, 'KS of a sample': 1.5}
        """
        overlap, start, shown = self.overlap, self.overlap_at_start, self
        if overlap is not None and overlap.theory is None and start is not None and self.agreement is None:
            shown = replace(self, overlap=replace(overlap, theory=start.value))  # localized: their own marginals
        differences = {} if self.agreement is None else _deviations(self.agreement)
        return _deviations(shown) | differences | ({} if self.mixing is None else self.mixing.deviations())

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the deviation of each quantity; beyond 3 it is called a bias.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide.
        **style : Any
            Properties of the points, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        from solspace.plots.samples import report_deviations

        return report_deviations(self, ax, **style)

    def to_dict(self) -> Values:
        """Return the report as plain values.

        Returns
        -------
        dict
            Fields by name, nested ones as dictionaries.
        """
        return asdict(self) | {"notes": list(self.notes)}

    def __str__(self) -> str:
        rows = self.rows()
        wide, middle = (max(len(row[i]) for row in rows) for i in (0, 1))
        lines = [f"{name:<{wide}}  {value:>{middle}}  {theory}".rstrip() for name, value, theory in rows]
        return "\n".join([*lines, self.verdict, *self.notes])

    def _repr_html_(self) -> str:
        columns = "", "samples", "theory" if self.agreement is None else "reference"
        return html_table("Report", self.rows(), columns, self.verdict, self.fair, self.notes)


def _rows(found: Report | Agreement) -> list[tuple[str, str, str]]:
    rows = []
    for f in fields(found):
        label, one = f.metadata.get("row"), getattr(found, f.name)
        if label and isinstance(one, float):
            rows.append((label, f"{one:.1%}", ""))
        elif label and isinstance(one, Distance):
            rows.append((label, f"{one.value:.4f}", f"{one.noise:.4f} (noise)"))
        elif label and one is not None:
            rows.append((label, str(one), "" if one.theory is None else f"{one.theory:.4f}"))
    return rows


def _deviations(found: Report | Agreement) -> dict[str, float]:
    values = {f.metadata["point"]: getattr(found, f.name) for f in fields(found) if f.metadata.get("point")}
    return {point: one.deviation for point, one in values.items() if one is not None and one.deviation is not None}
