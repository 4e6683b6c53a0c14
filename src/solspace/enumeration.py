"""The exact law of a small problem: all 2^n weights, n <= 20, by sums of two tables for the lower and the upper bits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.problem import Perceptron

__all__ = ["Enumeration"]
LARGEST = 20  # weights


class Enumeration:
    """Exact law of a ±1 problem: the probabilities of all weights.

    Parameters
    ----------
    problem : Perceptron
        Problem with ±1 weights, n <= 20.

    Attributes
    ----------
    n : int
        Number of weights.
    log_weights : ndarray
        (2^n,) log ∏_μ exp(-U(s_μ)/T) of each weight vector; vector c has w_i = +1 where bit i of c is set.
    log_partition : float
        log Z, Z the sum over all weights.

    Raises
    ------
    ValueError
        If n > 20, the prior is not "binary", or no weights have a probability.

    Examples
    --------
    >>> law = Perceptron.random(n=5, alpha=0.4, rng=1).enumerate()
    >>> float(law.probabilities.sum().round(12))
    1.0
    >>> law.sample(3, rng=0).shape
    (3, 5)
    """

    def __init__(self, problem: Perceptron) -> None:
        if problem.target.prior.name != "binary":
            raise ValueError(f"only ±1 weights can be enumerated; the prior is {problem.target.prior.name!r}.")
        self.problem, self.n = problem, problem.n
        log_weight = problem.target.log_weight
        self.log_weights = np.concatenate([log_weight(s).sum(axis=1) for _, s in _stability_blocks(problem)])
        self.log_partition = float(logsumexp(self.log_weights))
        if np.isnan(self.log_partition):
            raise ValueError(f"the log weight of the {problem.target.potential} potential is NaN at some stabilities.")
        if np.isneginf(self.log_partition) and self.n_solutions:
            raise ValueError(
                f"the {problem.target.potential} potential gives weight zero to all {self.n_solutions} solutions of this "
                "instance: each has a stability at the very end of what is allowed; potential='uniform' counts them."
            )
        if np.isneginf(self.log_partition):
            none = f"none of its 2^{problem.n} weights meets every constraint; lower the load or the margin"
            raise ValueError(f"this instance (n = {problem.n}, m = {problem.m}) has no solution: {none}.")

    @cached_property
    def probabilities(self) -> Array:
        """(2^n,) probability of each weight."""
        return np.exp(self.log_weights - self.log_partition)

    @cached_property
    def weights(self) -> Array:
        """(2^n, n) all weights, int8."""
        return decode(np.arange(1 << self.n), self.n)

    @cached_property
    def n_solutions(self) -> int:
        """Number of weights that meet every constraint, whatever their probability."""
        violated = self.problem.target.violated
        return sum(int((~violated(s).any(axis=1)).sum()) for _, s in _stability_blocks(self.problem))

    @property
    def marginals(self) -> Array:
        """(n,) mean of each weight."""
        cube = self.probabilities.reshape((2,) * self.n)
        return 2 * np.array([cube.take(1, axis).sum() for axis in reversed(range(self.n))]) - 1

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
            (n + 1,) each.
        """
        # w·w' is distributed by the XOR-correlation of the probabilities: two Walsh-Hadamard transforms
        product = _walsh(_walsh(self.probabilities) ** 2) / 2**self.n
        mass = np.bincount(np.bitwise_count(np.arange(2**self.n)), weights=product)
        return 1 - 2 * np.arange(self.n, -1, -1) / self.n, np.clip(mass[::-1], 0, None)

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

    def posterior_mean(self, field: Array) -> Array:
        """Return the marginals of the law tilted by exp(⟨h, w⟩): the exact denoiser.

        Parameters
        ----------
        field : ndarray
            (n,) or (k, n) fields h.

        Returns
        -------
        ndarray
            (k, n) means.
        """
        field = np.atleast_2d(np.asarray(field, dtype=float))
        tilted = self.log_weights + field @ self.weights.T
        tilted = np.exp(tilted - tilted.max(axis=1, keepdims=True))
        return (tilted @ self.weights) / tilted.sum(axis=1, keepdims=True)

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
            (k, n) weights, int8.
        """
        if not k >= 1:
            raise ValueError(f"the number of samples must be at least 1; got {k!r}.")
        cumulative = np.cumsum(self.probabilities)
        draws = generator(rng).random(k) * cumulative[-1]
        return decode(np.searchsorted(cumulative, draws, side="right"), self.n)


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
    return least, decode(np.concatenate(codes), problem.n)


def decode(codes: Array, n: int) -> Array:
    """Return the weights (k, n) numbered by `codes` (k,): w_i = +1 where bit i is set.

    >>> decode(np.array([1]), 3)
    array([[ 1, -1, -1]], dtype=int8)
    """
    return (2 * ((np.asarray(codes)[:, None] >> np.arange(n)) & 1) - 1).astype(np.int8)


def _stability_blocks(problem: Perceptron) -> Iterator[tuple[int, Array]]:
    """Yield (first code, stabilities (2^low, m)) over all weights in the order of their numbers."""
    if problem.n > LARGEST:
        raise ValueError(f"n must be at most {LARGEST} for enumeration (2^n weights); got n = {problem.n}.")
    low = min(problem.n, 10)
    patterns = problem.patterns.astype(np.int64 if problem.has_binary_patterns else np.float64)
    lower = decode(np.arange(1 << low), low).astype(patterns.dtype) @ patterns[:, :low].T
    for high in range(1 << (problem.n - low)):
        upper = patterns[:, low:] @ decode(np.array([high]), problem.n - low)[0].astype(patterns.dtype)
        stabilities = (lower + upper) / np.sqrt(problem.n)
        if not problem.has_binary_patterns:
            problem._settle(stabilities, np.sqrt(problem.n))
        yield high << low, stabilities


def _walsh(values: Array) -> Array:
    cube = values.reshape((2,) * (len(values).bit_length() - 1))
    for axis in reversed(range(cube.ndim)):
        low, high = np.split(cube, 2, axis)
        cube = np.concatenate([low + high, low - high], axis)
    return cube.ravel()
