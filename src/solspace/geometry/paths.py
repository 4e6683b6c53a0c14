"""Ways through the solutions of one problem: between two of them, and those of annealed chains.

±1 weights: single flips lead from one solution to the other, each time the one that leaves least missing: the sum over
constraints of their squared distance to safety, some way inside what is allowed. Several such distances, forwards and backwards,
give several orders; the best is kept. Its worst moment bounds the barrier from above. Weights on the sphere: along the great
circle every stability is a cosine, and its least value is known.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from solspace.geometry.local_entropy import references_of
from solspace.info import AnnealingInfo
from solspace.measure.priors import Binary, Spherical
from solspace.numerics.arrays import Array, Reals
from solspace.problem import Perceptron
from solspace.samplers.constraints import interval
from solspace.samples import Samples
from solspace.system.checks import instance
from solspace.system.plain import Record
from solspace.system.progress import progress as progress_bar
from solspace.theory.prediction import Prediction, predict

SAFE = (0.05, 0.1, 0.25, 0.5)  # distances inside what is allowed at which a stability counts as safe
POINTS = 101  # of a geodesic
ROUNDING = 1e-9  # of stabilities along a path


@dataclass(frozen=True)
class Barrier(Record):
    """The way between two solutions, or the barriers between all of several; returned by `barrier`.

    Attributes
    ----------
    worst : int, float or ndarray
        ±1 weights: largest number of unmet constraints on the way, 0 if every step is a solution; another way may be better.
        Sphere: smallest stability on the geodesic. (k, k) for several solutions, with their own values on the diagonal.
    path : ndarray or None
        (j, n) weights along the way, ends included; None for several solutions.
    profile : ndarray or None
        (j,) unmet constraints, or smallest stability, at each.
    discrete : bool
        Whether unmet constraints are counted.
    """

    worst: Any
    path: Array | None
    profile: Array | None
    discrete: bool

    @property
    def positions(self) -> Reals:
        """(j,) share of the way made at each step."""
        return np.linspace(0, 1, 0 if self.profile is None else len(self.profile))

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the unmet constraints, or the smallest stability, along the way; for several solutions those of all pairs.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide.
        **style : Any
            Properties of the line, or of the image, as in Matplotlib.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> from matplotlib import pyplot
        >>> ax = Barrier(2, None, np.array([0, 1, 2, 0]), True).plot(color="k")
        >>> ax.get_ylabel()
        'unmet constraints'
        >>> pyplot.close(ax.figure)
        """
        from solspace.plots.geometry import plot_barrier

        return plot_barrier(self, ax, **style)

    def __repr__(self) -> str:
        if self.profile is None:
            return f"Barrier({len(self.worst)} solutions, all pairs)"
        what = f"at most {self.worst} unmet constraints" if self.discrete else f"stability at least {self.worst:.4g}"
        return f"Barrier({len(self.profile) - 1} steps, {what})"


def barrier(
    problem: Perceptron,
    w1: Samples | ArrayLike,
    w2: Samples | ArrayLike | None = None,
    *,
    progress: bool | None = None,
) -> Barrier:
    """Find a way between two solutions, and the worst moment on it.

    ±1 weights: single flips, greedily those that keep the constraints safest, best of eight orders: an upper bound. Sphere: the
    geodesic.

    Parameters
    ----------
    problem : Perceptron
        Patterns and constraints.
    w1 : Samples or array_like
        (n,) weights at one end; or, without `w2`, several (k, n), of which all pairs are taken.
    w2 : Samples or array_like, optional
        (n,) weights at the other end.
    progress : bool, optional
        Whether to show a progress bar; if None, when stderr is a terminal.

    Returns
    -------
    Barrier
        The path and its worst moment, or the matrix of all pairs.

    Raises
    ------
    ValueError
        If the weights are neither ±1 nor on the sphere, or two ends are opposite points of the sphere.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=201, alpha=0.3, rng=0)
    >>> found = ss.anneal(problem, 3, rng=1)
    >>> way = barrier(problem, found[0], found[1])
    >>> bool(problem.violations(way.path).max() == way.worst), barrier(problem, found).worst.shape
    (True, (3, 3))
    """
    prior, target = instance(Perceptron)("problem", problem).target.prior, problem.target
    if not isinstance(prior, (Binary, Spherical)) or problem.intercept is not None:
        raise ValueError("barrier takes binary and spherical weights, without an intercept.")
    first = references_of(problem, w1)
    rows = first if w2 is None else np.vstack([first, references_of(problem, w2)])
    if w2 is not None and len(rows) != 2:
        raise ValueError(f"w1 and w2 must be one weight vector each; got {len(first)} and {len(rows) - len(first)}.")
    if not np.all(prior.contains(rows)):
        raise ValueError(f"weights must be those of the prior ({prior}).")
    discrete = isinstance(prior, Binary)
    low, high = interval(target.potential)
    if discrete and not (np.isfinite(low) or np.isfinite(high)):
        raise ValueError("barrier takes constraints that allow one interval of stabilities, as s >= margin or a band.")
    ends = low + target.margin, high + target.margin
    if len(rows) == 2 and w2 is not None:
        path, profile = _flips(problem, rows, ends) if discrete else _geodesic(problem, rows)
        worst = int(profile.max()) if discrete else _least(problem, rows)
        return Barrier(worst, path, profile, discrete)
    k = len(rows)
    matrix = np.zeros((k, k), int if discrete else float)
    own = problem.violations(rows) if discrete else problem.stabilities(rows).min(axis=1)
    matrix[np.diag_indices(k)] = own
    with progress_bar(k * (k - 1) / 2, "barriers", progress) as bar:
        for i, j in combinations(range(k), 2):
            pair = rows[[i, j]]
            matrix[i, j] = matrix[j, i] = _flips(problem, pair, ends)[1].max() if discrete else _least(problem, pair)
            bar.advance()
    return Barrier(matrix, None, None, discrete)


def _flips(problem: Perceptron, rows: Reals, ends: tuple[float, float]) -> tuple[Array, Array]:
    """Return the weights (j, n) and the unmet constraints (j,) of the best path of single flips."""
    from solspace.samplers.kernels.paths import greedy

    low, high = ends[0] - ROUNDING, ends[1] + ROUNDING
    sites = np.flatnonzero(rows[0] != rows[1])
    best: tuple[tuple[int, int], Array, Array] | None = None
    for backwards in (False, True):
        start = rows[int(backwards)]
        stabilities = problem.stabilities(start)
        changes = np.ascontiguousarray(
            (-2 / np.sqrt(problem.n)) * (problem.patterns[:, sites] * start[sites]).T.astype(float)
        )
        for safe in SAFE:
            order, unmet = greedy(stabilities, changes, low, high, safe)
            rank = int(unmet.max()), int(unmet.sum())
            if best is None or rank < best[0]:
                best = rank, (order[::-1] if backwards else order), (unmet[::-1] if backwards else unmet)
    assert best is not None
    _, order, unmet = best
    path = np.tile(rows[0].astype(np.int8), (len(sites) + 1, 1))
    for step, site in enumerate(sites[order], start=1):
        path[step:, site] *= -1
    return path, unmet


def _angle(rows: Reals) -> float:
    cosine = float(rows[0] @ rows[1] / rows.shape[1])
    if cosine < -1 + 1e-12:
        raise ValueError("two ends are opposite points of the sphere, between which there are many geodesics.")
    return float(np.arccos(min(cosine, 1.0)))


def _geodesic(problem: Perceptron, rows: Reals) -> tuple[Array, Array]:
    angle = _angle(rows)
    t = np.linspace(0, 1, POINTS)[:, None]
    path = rows[0] * (1 - t) + rows[1] * t
    if angle > 1e-9:
        path = (rows[0] * np.sin((1 - t) * angle) + rows[1] * np.sin(t * angle)) / np.sin(angle)
    return path, problem.stabilities(path).min(axis=1)


def _least(problem: Perceptron, rows: Reals) -> float:
    """Return the smallest stability on the geodesic: s(θ) = s₁ cos θ + s' sin θ is least at an end, or at -√(s₁² + s'²)."""
    angle, (first, last) = _angle(rows), problem.stabilities(rows)
    least = np.minimum(first, last)
    if angle > 1e-9:
        rise = (last - first * np.cos(angle)) / np.sin(angle)
        bottom = np.arctan2(-rise, -first)  # in (-π, π]
        inside = (bottom > 0) & (bottom < angle)
        least = np.where(inside, -np.hypot(first, rise), least)
    return float(least.min())


@dataclass(frozen=True)
class Displacement(Record):
    """The overlap of chains with their start; returned by `Samples.displacement`.

    Attributes
    ----------
    sweeps : ndarray
        (draws,) sweeps since the first draw.
    overlaps : ndarray
        (chains, draws) overlap of each draw with its chain's first one.
    plateau : float or None
        Theory's overlap r of independent samples, where chains end that travel through the whole measure.

    Examples
    --------
    >>> import solspace as ss
    >>> problem = ss.Perceptron.random(n=101, alpha=0.3, rng=0)
    >>> moved = ss.anneal(problem, 4, n_extra=60, rng=1).displacement()
    >>> moved.overlaps.shape, round(moved.plateau, 3), float(moved.overlaps[0, 0])
    ((4, 6), 0.508, 1.0)
    """

    sweeps: Array
    overlaps: Array
    plateau: float | None

    def plot(self, ax: Any = None, **style: Any) -> Any:
        """Draw the overlaps against sweeps.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; by default a new figure, one column (86 mm) wide.
        **style : Any
            Properties of the lines, as in `Axes.plot`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Examples
        --------
        >>> from matplotlib import pyplot
        >>> ax = Displacement(np.arange(3), np.array([[1.0, 0.7, 0.5]]), 0.5).plot()
        >>> pyplot.close(ax.figure)
        """
        from solspace.plots.geometry import plot_displacement

        return plot_displacement(self, ax, **style)


def displacement(samples: Samples, prediction: Prediction | bool | None = None) -> Displacement:
    """Return how far the chains of `samples` have travelled; see `Samples.displacement`."""
    info = samples.info
    if not isinstance(info, AnnealingInfo) or info.mode != "sample" or info.n_draws < 2:
        raise ValueError(
            "displacement needs whole chains with several draws, as ss.anneal(problem, n_extra=100) returns them."
        )
    chains = samples.weights.reshape(info.n_chains, info.n_draws, samples.n)
    overlaps = np.stack([own @ own[0] for own in chains.astype(float)]) / samples.n
    sweeps = np.asarray(info.draw_sweep)
    if prediction is None:
        with suppress(ValueError, NotImplementedError):  # no theory of these weights, or no solution at this load
            prediction = predict(samples.target, samples.m / samples.n)
    return Displacement(
        sweeps - sweeps[0], overlaps, prediction.overlap if isinstance(prediction, Prediction) else None
    )
