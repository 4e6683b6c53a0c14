"""The exact law of a small problem: all weights of a finite set, at most 2^20, by sums of two tables for low and high digits.

An intercept is integrated out for each weight vector, by Gauss–Legendre rules between the points where a constraint turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from solspace.measure.priors import Levels
from solspace.numerics.arrays import Array
from solspace.numerics.rules import legendre
from solspace.numerics.streams import RNG, generator
from solspace.problem import Perceptron

__all__ = ["Enumeration"]
LARGEST = 20  # weights of ±1
MOST = 1 << LARGEST  # weight vectors
PAIRS = 1 << 12  # weight vectors up to which all pairs of levels are compared
REACH = 8.5  # widths of its prior up to which an intercept is integrated


class Enumeration:
    """Exact law of a small problem: the probabilities of all weights.

    Parameters
    ----------
    problem : Perceptron
        Problem with ±1 weights, n <= 20, or L^n <= 2^20 configurations of L levels.

    Attributes
    ----------
    n : int
        Number of weights.
    log_weights : ndarray
        (L^n,) log P(w) ∏_μ exp(-U(s_μ)/T) of each weight vector, an intercept integrated out; vector c has in w_i the level
        of digit i of c (base L): for ±1 weights, +1 where bit i is set. P counts configurations, see `Levels`.
    log_partition : float
        log Z, Z the sum over all weights.

    Raises
    ------
    ValueError
        If there are too many weights, they are not discrete, or none has a probability.

    Examples
    --------
    >>> law = Perceptron.random(n=5, alpha=0.4, rng=1).enumerate()
    >>> float(law.probabilities.sum().round(12))
    1.0
    >>> law.sample(3, rng=0).shape
    (3, 5)
    """

    def __init__(self, problem: Perceptron) -> None:
        self.problem, self.n, self.levels = problem, problem.n, levels_of(problem)
        blocks = _stability_blocks(problem) if problem.intercept is None else None
        if blocks is not None:
            self.log_weights = np.concatenate([problem.log_weights(s) for _, s in blocks])
        else:
            self.log_weights, self.intercept_means, self.intercept_squares = _integrated(problem)
        self.log_weights = self.log_weights + self._prior()
        self.log_partition = float(logsumexp(self.log_weights))
        if np.isnan(self.log_partition):
            raise ValueError(f"the log weight of the {problem.target.potential} potential is NaN at some stabilities.")
        if np.isneginf(self.log_partition) and self.n_solutions:
            raise ValueError(
                f"the {problem.target.potential} potential gives weight zero to all {self.n_solutions} solutions of this "
                "instance: each has a stability at the very end of what is allowed; potential='uniform' counts them."
            )
        if np.isneginf(self.log_partition):
            number = f"{len(self.levels.values)}^{problem.n}"
            none = f"none of its {number} weights meets every constraint; lower the load or the margin"
            raise ValueError(f"this instance (n = {problem.n}, m = {problem.m}) has no solution: {none}.")

    def _prior(self) -> Array | float:
        """Return log P(w) of each weight vector, -inf where a clamped weight has another value."""
        if self.levels.probabilities is None and not self.problem.clamped:
            return 0.0
        digits = _digits(np.arange(len(self.log_weights)), self.n, len(self.levels.values))
        total = self.levels.log_weights[digits].sum(axis=1)
        return np.where(self.problem.supports(self.weights), total, -np.inf)

    @cached_property
    def probabilities(self) -> Array:
        """(L^n,) probability of each weight vector."""
        return np.exp(self.log_weights - self.log_partition)

    @cached_property
    def weights(self) -> Array:
        """(L^n, n) all weights, int8 where levels are small integers."""
        return decode(np.arange(len(self.log_weights)), self.n, self.levels)

    @cached_property
    def n_solutions(self) -> int:
        """Number of weights that meet every constraint, whatever their probability."""
        violated, plain = self.problem.target.violated, not self.problem.clamped
        return sum(
            int((~violated(s).any(axis=1) & (plain or self.problem.supports(self.weights[c : c + len(s)]))).sum())
            for c, s in _stability_blocks(self.problem)
        )

    @property
    def marginals(self) -> Array:
        """(n,) mean of each weight."""
        values = np.array(self.levels.values)
        cube = self.probabilities.reshape((len(values),) * self.n)
        others = [tuple(i for i in range(self.n) if i != axis) for axis in reversed(range(self.n))]
        return np.array([cube.sum(axis=axes) @ values for axes in others])

    @property
    def entropy(self) -> float:
        """-Σ p log p, per weight."""
        p = self.probabilities[self.probabilities > 0]
        return float(-(p * np.log(p)).sum() / self.n)

    def overlap_distribution(self) -> tuple[Array, Array]:
        """Return the law of the overlap ⟨w, w'⟩/n of two independent draws.

        Returns
        -------
        overlaps, probabilities : ndarray
            (j,) each; n + 1 of ±1 weights.

        Raises
        ------
        ValueError
            If weights of other levels have more than 4096 configurations.
        """
        if self.levels.values != (-1.0, 1.0):
            return self._overlaps_of_pairs()
        # w·w' is distributed by the XOR-correlation of the probabilities: two Walsh-Hadamard transforms
        product = _walsh(_walsh(self.probabilities) ** 2) / 2**self.n
        mass = np.bincount(np.bitwise_count(np.arange(2**self.n)), weights=product)
        return 1 - 2 * np.arange(self.n, -1, -1) / self.n, np.clip(mass[::-1], 0, None)

    def _overlaps_of_pairs(self) -> tuple[Array, Array]:
        if len(self.log_weights) > PAIRS:
            raise ValueError(
                f"overlaps of levels are enumerated up to {PAIRS} configurations; got {len(self.log_weights)}."
            )
        weights = self.weights.astype(float)
        distinct, where = np.unique((weights @ weights.T / self.n).round(12), return_inverse=True)
        return distinct, np.bincount(where.ravel(), weights=np.outer(self.probabilities, self.probabilities).ravel())

    def stability_distribution(self) -> tuple[Array, Array]:
        """Return the law of the stability of a random constraint.

        Returns
        -------
        stabilities, probabilities : ndarray
            (j,) distinct values and their probabilities.
        """
        values, mass, m = [], [], self.problem.m
        for first, stabilities in _stability_blocks(self.problem):
            distinct, where = np.unique(stabilities.round(12), return_inverse=True)
            values.append(distinct)
            p = np.repeat(self.probabilities[first : first + len(stabilities)], m) / m
            mass.append(np.bincount(where.ravel(), weights=p))
        distinct, where = np.unique(np.concatenate(values), return_inverse=True)
        return distinct, np.bincount(where, weights=np.concatenate(mass))

    def posterior_mean(self, field: Array, time: Array | float = 0.0) -> Array:
        """Return the marginals of the law tilted by exp(⟨h, w⟩ - t |w|²/2): the exact denoiser.

        Parameters
        ----------
        field : ndarray
            (n,) or (k, n) fields h.
        time : float or ndarray, default 0.0
            t, a number or (k,); it changes nothing for ±1 weights.

        Returns
        -------
        ndarray
            (k, n) means.
        """
        field = np.atleast_2d(np.asarray(field, dtype=float))
        weights = self.weights.astype(float)
        tilted = self.log_weights + field @ weights.T - np.multiply.outer(time, (weights**2).sum(axis=1) / 2)
        tilted = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        return (tilted @ weights) / tilted.sum(axis=1, keepdims=True)

    def sample(self, k: int, rng: RNG = None) -> Array:
        """Draw independent samples.

        Parameters
        ----------
        k : int
            Number of samples.
        rng : int, Generator, SeedSequence or None
            Seed.

        Returns
        -------
        ndarray
            (k, n) weights.
        """
        if not k >= 1:
            raise ValueError(f"the number of samples must be at least 1; got {k!r}.")
        cumulative = np.cumsum(self.probabilities)
        draws = generator(rng).random(k) * cumulative[-1]
        return decode(np.searchsorted(cumulative, draws, side="right"), self.n, self.levels)


def fewest_missed(problem: Perceptron) -> tuple[int, Array]:
    """Return how many constraints must be missed, 0 where there are solutions, and all weights (k, n) that miss no more.

    >>> fewest_missed(Perceptron([[1, 1, 1], [-1, -1, -1]]))[0]
    1
    """
    least, codes = problem.m + 1, list[Array]()
    for first, stabilities in _stability_blocks(problem):
        missed = problem.target.violated(stabilities).sum(axis=1)
        if missed.min() < least:
            least, codes = int(missed.min()), []
        codes.append(first + np.flatnonzero(missed == least))
    return least, decode(np.concatenate(codes), problem.n, levels_of(problem))


def levels_of(problem: Perceptron) -> Levels:
    """Return the values and probabilities of the weights; raise ValueError where there are too many weights, or real ones."""
    prior = problem.target.prior
    levels = Levels((-1.0, 1.0)) if prior.name == "binary" else prior
    if not isinstance(levels, Levels):
        raise ValueError(f"only weights of finitely many values can be enumerated; the prior is {str(prior)!r}.")
    if len(levels.values) ** problem.n > MOST:
        most = int(np.log(MOST) / np.log(len(levels.values)) + 1e-9)
        raise ValueError(f"n must be at most {most} for an enumeration of {prior!s} weights; got {problem.n}.")
    return levels


def decode(codes: Array, n: int, levels: Levels | None = None) -> Array:
    """Return the weights (k, n) numbered by `codes` (k,): w_i is the level of digit i, ±1 by default.

    >>> decode(np.array([1]), 3)
    array([[ 1, -1, -1]], dtype=int8)
    """
    if levels is None or levels.values == (-1.0, 1.0):
        return (2 * _digits(codes, n, 2) - 1).astype(np.int8)
    return levels.array[_digits(codes, n, len(levels.values))]


def _digits(codes: Array, n: int, base: int) -> Array:
    return np.asarray(codes)[:, None] // base ** np.arange(n) % base


def _stability_blocks(problem: Perceptron) -> Iterator[tuple[int, Array]]:
    """Yield (first code, stabilities (base^low, m)), without an intercept, over all weights in the order of their numbers."""
    levels = levels_of(problem)
    base, n = len(levels.values), problem.n
    low = min(n, int(10 * np.log(2) / np.log(base) + 1e-9))
    exact = problem.has_binary_patterns and levels.array.dtype == np.int8
    patterns = problem.patterns.astype(np.int64 if exact else np.float64)
    lower = decode(np.arange(base**low), low, levels).astype(patterns.dtype) @ patterns[:, :low].T
    for high in range(base ** (n - low)):
        weights = decode(np.array([high]), n - low, levels)[0]
        stabilities = (lower + patterns[:, low:] @ weights.astype(patterns.dtype)) / np.sqrt(n)
        if not exact:
            problem._settle(stabilities, np.sqrt(n) * max(map(abs, levels.values)))
        yield high * base**low, stabilities


def _integrated(problem: Perceptron) -> tuple[Array, Array, Array]:
    """Return log ∫ db N(b; 0, width²) ∏ W(s + y b) of each weight vector, and the means of b and b² there, (L^n,) each."""
    width, signs, (x, share) = problem.intercept, problem.signs.astype(float), legendre()
    assert width is not None
    found = [list[Array](), list[Array](), list[Array]()]
    turns = np.array([problem.target.margin + point for point in problem.target.potential.breakpoints])
    even = width * np.linspace(-REACH, REACH, 24)
    for _, block in _stability_blocks(problem):
        for some in np.array_split(block, -(-block.size // (1 << 12))):
            edges = ((turns[:, None, None] - some) * signs).transpose(1, 0, 2).reshape(len(some), -1)
            edges = np.sort(np.clip(np.hstack([edges, np.tile(even, (len(some), 1))]), even[0], even[-1]), axis=1)
            steps = np.diff(edges, axis=1)[..., None]
            b = (edges[:, :-1, None] + steps * x).reshape(len(some), -1)
            with np.errstate(divide="ignore"):
                height = np.log((steps * share).reshape(len(some), -1)) - b**2 / (2 * width**2)
            height = height + problem.log_weights(some[:, None, :] + b[..., None] * signs)
            total = logsumexp(height, axis=1)
            law = np.exp(height - np.where(np.isfinite(total), total, 0.0)[:, None])
            own = (total - np.log(np.sqrt(2 * np.pi) * width), (law * b).sum(axis=1), (law * b**2).sum(axis=1))
            for part, values in zip(found, own):
                part.append(values)
    log_weights, means, squares = map(np.concatenate, found)
    return log_weights, means, squares


def _walsh(values: Array) -> Array:
    cube = values.reshape((2,) * (len(values).bit_length() - 1))
    for axis in reversed(range(cube.ndim)):
        low, high = np.split(cube, 2, axis)
        cube = np.concatenate([low + high, low - high], axis)
    return cube.ravel()
