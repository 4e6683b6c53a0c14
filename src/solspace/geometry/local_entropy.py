"""Local entropy: how many solutions of one problem lie at each overlap with given weights.

Message passing in the field γ w* along a reference w* gives log Z(γ) and the overlap p = ⟨m, w*⟩/n = ∂ log Z/∂γ/n of the
solutions there; their number at overlap p is the Legendre transform v(p) = log Z(γ)/n - γ p. From one overlap to the next the
messages continue. The curve of theory, n → ∞, is `franz_parisi`.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from solspace.measure import Target
from solspace.measure.priors import Binary, Levels, Prior, Spherical
from solspace.numerics.arrays import Array, Reals
from solspace.problem import Perceptron
from solspace.samplers.constraints import check_measure, choose_variances, flat
from solspace.samplers.marginals.ep import propagation
from solspace.samplers.marginals.messages import Messages, Relaxation
from solspace.samples import Samples
from solspace.system.checks import instance, one_of, reals, shown
from solspace.system.plain import Record
from solspace.system.progress import progress as progress_bar

if TYPE_CHECKING:
    from solspace.theory.franz_parisi import FranzParisi

METHODS = ("auto", "ep", "amp")
LARGE = 500  # weights from which random patterns are taken to have equal variances
TOLERANCE = {"ep": 1e-9, "amp": 1e-13}  # of message passing
MOST_ITERATIONS = {"ep": 200, "amp": 2000}
CLOSE = 2e-3  # error of an overlap, as a share of 1 - |p|, that is left to the expansion of v
TRIES = 12  # fields tried for an overlap
FIRST = 0.2  # first field tried
POINTS, LAST = 16, 0.98  # of the grid where no overlaps are set: their number, and the largest overlap


@dataclass(frozen=True)
class LocalEntropy(Record):
    """The number of solutions at each overlap with reference weights; returned by `local_entropy`.

    Attributes
    ----------
    target : Target
        The measure counted.
    method : str
        "ep" or "amp".
    overlaps : ndarray
        (j,) overlaps p = ⟨w, w*⟩/n with a reference.
    values : ndarray
        (k, j) log number of solutions at that overlap, per weight; for another measure than the uniform one, log Z. NaN where
        message passing did not converge.
    fields : ndarray
        (k, j) the field along the reference that holds the solutions there: minus the derivative of the values.
    converged : ndarray of bool
        (k, j).
    iterations : int
        Iterations of message passing, of all references together.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=201, alpha=0.3, rng=0)
    >>> found = local_entropy(problem, ss.anneal(problem, 2, rng=1), overlaps=[0.7, 0.9])
    >>> found.values.shape, bool((found.values[:, 0] > found.values[:, 1]).all()), bool(found.converged.all())
    ((2, 2), True, True)
    """

    target: Target
    method: str
    overlaps: Array
    values: Array
    fields: Array
    converged: Array
    iterations: int

    @property
    def distances(self) -> Array:
        """(j,) distances d = (1 - p)/2, for ±1 weights the share of weights that differ."""
        return (1 - self.overlaps) / 2

    def plot(self, ax: Any = None, theory: FranzParisi | None = None, **style: Any) -> Any:
        """Draw the curves of all references against the distance.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide.
        theory : FranzParisi, optional
            The curve of theory to draw beside.
        **style : Any
            Properties of the lines, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> from matplotlib import pyplot
        >>> problem = Perceptron.random(n=51, alpha=0.3, rng=0)
        >>> ax = local_entropy(problem, problem.target.prior.draw(51, 1), overlaps=[0.5, 0.6]).plot(marker="o")
        >>> pyplot.close(ax.figure)
        """
        from solspace.plots.geometry import plot_local_entropy

        return plot_local_entropy(self, ax, theory, **style)

    def __repr__(self) -> str:
        (k, j), done = self.values.shape, int(self.converged.sum())
        return f"LocalEntropy({k} references, {j} overlaps, {self.target}, {self.method}, converged {done}/{k * j})"


def local_entropy(
    problem: Perceptron,
    reference: Samples | ArrayLike,
    overlaps: ArrayLike | None = None,
    count: Target | None = None,
    *,
    method: str = "auto",
    progress: bool | None = None,
) -> LocalEntropy:
    """Estimate how many solutions lie at each overlap with reference weights, by message passing in a field along them.

    Parameters
    ----------
    problem : Perceptron
        Patterns and constraints.
    reference : Samples or array_like
        Reference weights, (n,) or (k, n); solutions or not.
    overlaps : array_like, optional
        (j,) overlaps ⟨w, w*⟩/n; by default 16, from the one of typical solutions to 0.98.
    count : Target, optional
        Measure to count; by default all weights that meet the constraints, once each.
    method : {"auto", "ep", "amp"}, default "auto"
        Expectation propagation, right for any patterns (of 500 weights or more on random ones with one variance for all
        sites, which is faster), for discrete weights; AMP, for random patterns, for weights on the sphere.
    progress : bool, optional
        Whether to show a progress bar; if None, when stderr is a terminal.

    Returns
    -------
    LocalEntropy
        The curves, one for each reference. They have no error bar: message passing is exact for n → ∞ on random patterns.

    Raises
    ------
    ValueError
        If shapes do not fit, overlaps cannot be reached, or the method does not take the weights.

    Warns
    -----
    UserWarning
        If message passing did not converge at some overlaps.

    See Also
    --------
    franz_parisi : The curve of theory.

    Examples
    --------
    >>> problem = Perceptron.random(n=301, alpha=0.3, rng=0)
    >>> teacher = problem.target.prior.draw(301, 1)
    >>> found = local_entropy(problem, teacher, overlaps=[0.2, 0.5])
    >>> found.values.shape, found.distances
    ((1, 2), array([0.4 , 0.25]))
    """
    check_measure(instance(Perceptron)("problem", problem))
    target = flat(problem.target) if count is None else instance(Target)("count", count)
    if not problem.plain or target.prior != problem.target.prior:
        raise ValueError(
            "local_entropy takes problems without intercept, clamped and sample weights, and counts weights of their prior."
        )
    rows = references_of(problem, reference)
    chosen = one_of(METHODS)("method", method)
    if chosen == "auto":
        chosen = "amp" if isinstance(target.prior, Spherical) else "ep"
    if chosen == "amp" and not isinstance(target.prior, (Binary, Spherical)):
        raise ValueError(f"method='amp' takes binary and spherical weights; for {target.prior} ones use 'ep'.")
    counted = problem.with_target(target)
    tilted: Tilted = (AmpTilted if chosen == "amp" else EpTilted)(counted, rows)
    with np.errstate(all="ignore"):
        typical = tilted.at(np.zeros(len(rows)))
        reach = _reach(target.prior, rows)
        wanted = _overlaps(overlaps, typical, float(reach.min()))
        found = np.full((3, len(rows), len(wanted)), np.nan)
        with progress_bar(len(wanted), "local entropy", progress) as bar:
            for side in (wanted >= typical.overlap.mean(), wanted < typical.overlap.mean()):
                order = np.flatnonzero(side)
                order = order[np.argsort(np.abs(wanted[order] - typical.overlap.mean()))]
                if not side[0] and len(order):
                    tilted = type(tilted)(counted, rows)  # afresh from where both sides begin
                    typical = tilted.at(np.zeros(len(rows)))
                trail = [typical]
                for j in order:
                    trail.append(_followed(tilted, trail, float(wanted[j]), reach))
                    found[:, :, j] = trail[-1].transform(trail, float(wanted[j]))
                    bar.advance()
    converged = found[2] == 1
    if not converged.all():
        warnings.warn(
            f"message passing did not converge at {int((~converged).sum())} of {converged.size} points, where `converged` is "
            "False and the value NaN. Take smaller overlaps or a lower load"
            + ("." if chosen == "amp" else ", or method='amp' on random patterns."),
            stacklevel=2,
        )
    values, fields = (np.where(converged, part, np.nan) for part in found[:2])
    return LocalEntropy(target, chosen, wanted, values, fields, converged, tilted.iterations)


def references_of(problem: Perceptron, reference: Samples | ArrayLike) -> Reals:
    """Return reference weights (k, n) of `problem`."""
    if isinstance(reference, Samples) and reference.digest not in (None, problem.digest):
        raise ValueError("reference: the samples belong to another problem.")
    rows = np.atleast_2d(reals("reference", np.asarray(reference)))
    if rows.ndim != 2 or rows.shape[1] != problem.n or not len(rows) or not np.isfinite(rows).all():
        raise ValueError(
            f"reference must be finite weights ({problem.n},) or (k, {problem.n}); got shape {np.shape(reference)}."
        )
    return rows


def _reach(prior: Prior, rows: Reals) -> Reals:
    # the largest overlap that weights can have with each reference
    if isinstance(prior, Spherical):
        return np.sqrt(np.mean(rows**2, axis=1))
    levels = np.array(prior.values if isinstance(prior, Levels) else (-1.0, 1.0))
    return np.mean(np.maximum(rows * levels.min(), rows * levels.max()), axis=1)


def _overlaps(overlaps: ArrayLike | None, typical: State, most: float) -> Reals:
    if overlaps is None:
        start = float(np.mean(typical.overlap))
        return LAST * most - (LAST * most - start) * np.linspace(1, 0, POINTS) ** 1.5
    wanted = np.atleast_1d(reals("overlaps", overlaps))
    if wanted.ndim != 1 or not len(wanted) or not (np.abs(wanted) < most).all():
        raise ValueError(f"overlaps must be numbers between -{most:.4g} and {most:.4g}; got {shown(overlaps)}.")
    return wanted


class State(NamedTuple):
    """The measure in the fields γ w*, (k,) each: γ, p, log Z/n, and whether message passing converged."""

    field: Reals
    overlap: Reals
    log_partition: Reals
    converged: Array

    def transform(self, trail: list[State], overlap: float) -> Reals:
        """Return v, γ (at `overlap`, close to this one) and convergence, (3, k)."""
        stiffness = _stiffness(trail)
        missing = overlap - self.overlap
        value = self.log_partition - self.field * overlap - stiffness * missing**2 / 2
        return np.stack([value, self.field + stiffness * missing, self.converged])


class Tilted(Protocol):
    """Message passing in fields along references, which continues from call to call."""

    iterations: int

    def __init__(self, problem: Perceptron, rows: Reals) -> None: ...

    def at(self, fields: Reals) -> State:
        """Return the state in the fields γ (k,)."""


def _stiffness(trail: list[State]) -> Reals:
    # dγ/dp, (k,), from the last two states that differ; that of free weights to begin with
    last = trail[-1]
    free = 1 / np.maximum(1 - last.overlap**2, 1e-3)
    for before in reversed(trail[:-1]):
        span = last.overlap - before.overlap
        if (np.abs(span) > 1e-9).all():
            return np.where(span * (last.field - before.field) > 0, (last.field - before.field) / span, free)
    return free


def _followed(tilted: Tilted, trail: list[State], overlap: float, reach: Reals) -> State:
    """Return a state within CLOSE of `overlap`, by secants of the field in atanh(p/reach), in which it is almost straight."""

    def stretched(p: Reals | float) -> Reals:
        return np.arctanh(np.clip(p / reach, -1 + 1e-9, 1 - 1e-9))

    seen = trail[-2:]
    for _ in range(TRIES):
        x, slope = stretched(seen[-1].overlap), np.ones(len(reach))
        if len(seen) > 1:
            rise, span = seen[-1].field - seen[-2].field, x - stretched(seen[-2].overlap)
            slope = np.where(rise * span > 0, rise / np.where(span == 0, 1, span), 1.0)
        state = tilted.at(seen[-1].field + slope * (stretched(overlap) - x))
        seen.append(state)
        off = np.abs(state.overlap - overlap) / (CLOSE * (reach - abs(overlap)))
        if ((off < 1) | ~state.converged).all():
            break
    return state._replace(converged=state.converged & (off < 10))


class EpTilted:
    """Expectation propagation in fields along references."""

    def __init__(self, problem: Perceptron, rows: Reals) -> None:
        self.rows, self.iterations = rows, 0
        # one variance for all sites differs by 2e-4 in the entropy there, and takes a tenth of the time
        even = problem.n >= LARGE and problem.looks_random()
        self._sites = propagation(problem, len(rows), "scalar" if even else "auto")

    def at(self, fields: Reals) -> State:
        sites, (k, n) = self._sites, self.rows.shape
        sites.field[...] = fields[:, None] * self.rows
        effort = sites.run(np.full(k, TOLERANCE["ep"]), np.full(k, MOST_ITERATIONS["ep"]), np.arange(k))
        self.iterations += int(effort.iterations.sum())
        overlap = np.einsum("ij,ij->i", sites.mean, self.rows) / n
        return State(fields, overlap, sites.log_partition / n, effort.converged)


class AmpTilted:
    """AMP in fields along references, with the log Z of its fixed points (Bethe)."""

    def __init__(self, problem: Perceptron, rows: Reals) -> None:
        self.problem, self.rows, self.iterations = problem, rows, 0
        full = choose_variances(problem, "auto") == "full"
        self._messages = Messages(problem, len(rows), "float64", full=full, spreads=True)
        self._relaxation = Relaxation(self._messages, 0.0, True)

    def at(self, fields: Reals) -> State:
        messages, (k, n) = self._messages, self.rows.shape
        messages.field[:, :k] = (fields[:, None] * self.rows).T
        effort = self._relaxation.run(np.full(k, TOLERANCE["amp"]), np.full(k, MOST_ITERATIONS["amp"]), np.arange(k))
        self.iterations += int(effort.iterations.sum())
        overlap = np.einsum("ji,ij->i", messages.mean[:, :k], self.rows) / n
        return State(fields, overlap, bethe(self.problem, messages) / n, effort.converged)


def bethe(problem: Perceptron, messages: Messages) -> Reals:
    """Return log Z (k,) of ±1 or spherical weights at a fixed point of AMP, in its fields and at time 0.

    Σ_μ [log Z(ω, V) + (ω - z)²/(2V)] + Σ_i [A (m² + Δ)/2 - B m + log ∫P(w) exp(-A w²/2 + (B + h) w)], z = ⟨x, m⟩/√n, is
    stationary there: its derivatives in m, Δ and ω are the equations of `messages`.
    """
    assert messages.spread is not None
    k, (m, n) = messages.k, (problem.m, problem.n)
    mean, spread, field, g = (x[:, :k] for x in (messages.mean, messages.spread, messages.field, messages.g))
    total, back, precision = np.zeros(k), np.zeros((n, k)), np.zeros((n, k))
    for rows, block in problem.blocks():
        z = block @ mean / np.sqrt(n)
        variance = np.broadcast_to(messages.variance[..., :k], (m, k))[rows]
        omega = z - variance * g[rows]
        log_z, _, slope = problem.target.channel(omega, variance)
        total += (log_z + variance * g[rows] ** 2 / 2).sum(axis=0)
        back += block.T @ g[rows] / np.sqrt(n)
        precision -= (block**2).T @ slope / n if messages.full else messages.moment * slope.sum(axis=0) / n
    back += precision * mean
    total += (precision * (mean**2 + spread) / 2 - back * mean).sum(axis=0)
    tilt = back + field
    if isinstance(problem.target.prior, Spherical):
        norm = problem.target.prior.norm_multiplier(precision if messages.full else precision[0], tilt)
        own = norm + precision
        return total + (norm + np.log(2 * np.pi / own) + tilt**2 / own).sum(axis=0) / 2
    return total + (np.logaddexp(tilt, -tilt) - precision / 2).sum(axis=0)
