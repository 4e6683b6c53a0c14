"""The result of counting: a logarithm with an interval, and how it prints; the interval of a mean of importance weights."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.system.plain import Values, html_table, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WIDER = 1.3  # factor of Student's interval, whose coverage would be 95% at best


@dataclass(frozen=True, kw_only=True)
class Count:
    """The logarithm of a number of solutions, or of Z, with an interval.

    Attributes
    ----------
    log : float
        Natural logarithm of the number of solutions, or log Z; -inf where there is none, or none was met.
    low, high : float
        Ends of the interval: -inf where there may be no solution, the logarithm of the number of all weights (or inf) where
        nothing better is known. Both equal `log` for an exact value.
    exact : bool
        Whether the value is exact.
    method : str
        "exact", "epar", "smc" or "ep".
    effective_samples : float or None
        Effective number of independent draws, (Σw)²/Σw² of their weights; None where nothing is drawn.
    status : str
        What the interval rests on, and what to do where it cannot be trusted.
    trusted : bool
        Whether the interval has the stated confidence on both sides.
    confidence : float
        Confidence of the interval.
    solutions : bool
        Whether solutions are counted; otherwise `log` is log Z of `target`.
    target : Target
        The measure.
    n, m : int
        Weights and constraints.
    seconds : float
        Wall time.

    Examples
    --------
    >>> from solspace import Perceptron, count
    >>> found = count(Perceptron.random(n=25, alpha=0.3, rng=7))
    >>> print(found)
    e^11.9894 (exact), 161,044 solutions; log₂ 17.30, log₁₀ 5.21
    """

    log: float
    low: float
    high: float
    exact: bool
    method: str
    effective_samples: float | None
    status: str
    trusted: bool
    confidence: float
    solutions: bool
    target: Target
    n: int
    m: int
    seconds: float = 0.0

    @property
    def alpha(self) -> float:
        """Load m/n."""
        return self.m / self.n

    def to_dict(self) -> Values:
        """Return the fields as plain values.

        Returns
        -------
        dict
            All fields, `alpha`, and the logarithms to the bases 2 and 10.
        """
        values = {name: value for name, value in vars(self).items() if name != "target"}
        bases = {"log2": self.log / math.log(2), "log10": self.log / math.log(10)}
        return plain({**values, **bases, "alpha": self.alpha, "target": self.target.to_dict()})

    def plot(self, others: Sequence[Count] = (), ax: Axes | None = None, **style: Any) -> Any:
        """Draw this count and others against the load, with their intervals.

        Parameters
        ----------
        others : sequence of Count
            Counts of other problems, for instance at other loads.
        ax : Axes, optional
            Where to draw; by default a new figure.
        **style : Any
            Options of Matplotlib's `errorbar`.

        Returns
        -------
        Figure or Axes
            The figure, or `ax`.

        Examples
        --------
        >>> from solspace import Perceptron, count
        >>> loads = [count(Perceptron.random(n=21, alpha=alpha, rng=0)) for alpha in (0.2, 0.4)]
        >>> figure = loads[0].plot(loads[1:])
        """
        from solspace.plots.counts import plot_counts

        return plot_counts([self, *others], ax, **style)

    def __str__(self) -> str:
        if math.isinf(self.log):
            return "no solution (exact)" if self.exact else f"unknown: {self.status}"
        digits = 4 if self.exact else 2
        value = f"e^{self.log:.{digits}f}" if self.solutions else f"log Z = {self.log:.{digits}f}"
        if self.exact:
            value += " (exact)"
        elif self.trusted:
            value += f" ({100 * self.confidence:g}%: {self._end(self.low)} … {self._end(self.high)})"
        elif math.isfinite(self.low):
            value += f" (no interval; with {100 * self.confidence:g}% confidence at least {self._end(self.low)})"
        else:
            value += " (no interval)"
        if self.solutions:
            value += f", {_number(self.log, self.exact)} solutions"
        return f"{value}; log₂ {self.log / math.log(2):.2f}, log₁₀ {self.log / math.log(10):.2f}"

    def _end(self, value: float) -> str:
        if math.isinf(value):
            return "0" if self.solutions and value < 0 else "∞" if value > 0 else "−∞"
        return f"e^{value:.2f}" if self.solutions else f"{value:.2f}"

    def _repr_html_(self) -> str:
        rows = [
            ("count", str(self)),
            ("method", self.method),
            ("effective samples", "" if self.effective_samples is None else f"{self.effective_samples:.0f}"),
            ("status", self.status),
            ("target", str(self.target)),
        ]
        return html_table(f"Count, n = {self.n}, m = {self.m}", [row for row in rows if row[1]])


def _number(log: float, exact: bool) -> str:
    """Return exp(`log`) in words, with two figures unless it is exact.

    >>> _number(47.6, False), _number(11.98943289855463, True), _number(2000.0, False)
    ('4.7e20', '161,044', '3.9e868')
    """
    if exact and log < 34:
        return f"{round(math.exp(log)):,}"
    if log < math.log(100):
        return f"{math.exp(log):.2g}"
    power, rest = divmod(log / math.log(10), 1.0)
    digits = f"{10**rest:.1f}"
    return f"{digits}e{int(power)}" if digits != "10.0" else f"1.0e{int(power) + 1}"


def interval(logs: Array, confidence: float = 0.95) -> tuple[float, float, float, float]:
    """Return the log of the mean of weights with these logarithms, the ends of its interval, and how many are effective.

    Student's interval of the mean, `WIDER`, and on both sides what one more weight of three times the largest would add:
    importance weights are skewed, and a few more draws rarely lower their mean.

    >>> centre, low, high, effective = interval(np.log([1.0, 2.0, 3.0, 2.0]))
    >>> round(math.exp(centre), 6), round(effective, 2), low < centre < high
    (2.0, 3.56, True)
    """
    k, top = len(logs), float(logs.max())
    if math.isinf(top):
        return -math.inf, -math.inf, -math.inf, 0.0
    weights = np.exp(logs - top)
    mean = float(weights.mean())
    half = WIDER * float(stats.t.ppf((1 + confidence) / 2, k - 1) * weights.std(ddof=1)) / (mean * math.sqrt(k))
    more = math.log1p(3 / float(weights.sum()))
    centre = top + math.log(mean)
    return centre, centre - half - more / 2, centre + half + 2 * more, float(weights.sum() ** 2 / (weights**2).sum())
