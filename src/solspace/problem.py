"""A perceptron problem: patterns with their labels folded in, and the target measure on the weights.

Each row of `patterns` is a constraint: its stability ⟨x, w⟩/√n must reach the margin. Patterns of ±1 are stored as int8 and
multiplied in blocks of rows, so that large problems need no second copy.
"""

from __future__ import annotations

import copy
import hashlib
import mmap
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from solspace.measure import Target
from solspace.measure.priors import Prior, Spherical
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.system.checks import instance, number, one_of, optional, reals, shown, whole
from solspace.system.plain import html_table

if TYPE_CHECKING:
    from solspace.enumeration import Enumeration

BLOCK = 1 << 22  # entries of the patterns converted to floating point at a time
LARGEST = 1e15  # largest entry of a pattern: its square, summed over a row, is finite in single precision
_LARGE_SPARSE = 1 << 24  # entries from which making a sparse matrix dense is worth a warning
ENSEMBLES = ("binary", "gaussian")


class Perceptron:
    """A perceptron problem: patterns with labels folded in, and a target.

    Parameters
    ----------
    patterns : array_like
        (m, n) array, nested lists, SciPy sparse matrix or pandas frame of finite real numbers, at most 1e15 in size. A
        writable array is copied; a read-only one that needs no conversion is shared.
    labels : array_like, optional
        (m,) of ±1; None if the patterns are already multiplied by their labels. `from_data` takes any two classes.
    target : Target, optional
        Measure over the weights; by default the log potential at T = 0.5 on ±1 weights.
    intercept : float, optional
        Width of the Gaussian prior of an intercept b: stabilities are then y(⟨x, w⟩/√n + b), with y the labels (1 without).
        It is a variable of its own, beside the weights.
    clamped : mapping, optional
        Weights that are fixed, as {number: value}.
    sample_weight : array_like, optional
        (m,) positive powers to which the factors exp(-U/T) of the constraints are raised; 1 by default.

    Attributes
    ----------
    patterns : ndarray
        (m, n) patterns times labels, read-only.
    labels : ndarray or None
        (m,) labels ±1, if there are any.
    n, m : int
        Number of weights, and of constraints.
    teacher : ndarray or None
        (n,) weights that drew the labels of a `planted` problem, and `teacher_intercept` their intercept.
    alpha : float
        Load m/n.
    has_binary_patterns : bool
        Whether all entries are ±1; they are then stored as int8.
    ensemble : str or None
        "binary" or "gaussian" for patterns drawn by `random`.

    Raises
    ------
    ValueError
        If the patterns are not a matrix of finite numbers, or the labels are not ±1.

    Examples
    --------
    >>> problem = Perceptron([[1, -1, 1], [1, 1, 1]], labels=[1, -1])
    >>> problem.patterns
    array([[ 1, -1,  1],
           [-1, -1, -1]], dtype=int8)
    >>> problem.violations([-1, -1, 1])
    0
    """

    ensemble: str | None = None
    labels: Array | None = None
    intercept: float | None = None
    sample_weight: Array | None = None
    teacher: Array | None = None
    teacher_intercept: float | None = None
    clamped: Mapping[int, float] = MappingProxyType({})

    def __init__(
        self,
        patterns: ArrayLike,
        labels: ArrayLike | None = None,
        *,
        target: Target | None = None,
        intercept: float | None = None,
        clamped: Mapping[int, float] | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> None:
        matrix = original = _matrix(patterns)
        rows = max(1, BLOCK // matrix.shape[1])
        parts = (matrix[start : start + rows] for start in range(0, len(matrix), rows))
        if matrix.dtype.kind not in "bu" and all((np.abs(part) == 1).all() for part in parts):
            matrix = matrix.astype(np.int8, copy=False)
        elif matrix.dtype not in (np.float32, np.float64):
            matrix = matrix.astype(np.float64)
        if labels is not None:
            self.labels = _signs(labels, len(matrix))
            matrix = matrix * self.labels[:, None].astype(matrix.dtype)
        elif np.may_share_memory(matrix, original) and not _frozen(original):
            matrix = matrix.copy()
        self._keep(np.ascontiguousarray(matrix), Target() if target is None else instance(Target)("target", target))
        self.intercept = optional(number(positive=True))("intercept", intercept)
        if sample_weight is not None:
            self.sample_weight = _powers(sample_weight, self.m)
        if clamped:
            self.clamped = _clamped(clamped, self.n, self.target.prior)

    def _keep(self, patterns: Array, target: Target) -> None:
        patterns.flags.writeable = False
        self.patterns, self.target, (self.m, self.n) = patterns, target, patterns.shape
        self.alpha, self.has_binary_patterns = self.m / self.n, patterns.dtype == np.int8

    @classmethod
    def random(
        cls, n: int, alpha: float, target: Target | None = None, patterns: str = "binary", rng: RNG = None
    ) -> Perceptron:
        """Draw a random problem with independent entries.

        Parameters
        ----------
        n : int
            Weights.
        alpha : float
            Load; there are m = round(alpha n) constraints, at least one.
        target : Target, optional
            Measure over the weights; by default the log potential at T = 0.5 on ±1 weights.
        patterns : {"binary", "gaussian"}, default "binary"
            Entries ±1 or standard normal.
        rng : int, Generator, SeedSequence or None
            Seed.

        Returns
        -------
        Perceptron
            The problem.

        Examples
        --------
        >>> Perceptron.random(n=11, alpha=0.5, rng=0)
        Perceptron(n=11, m=6, patterns int8, binary weights, log potential, T = 0.5, margin 0)
        """
        n, alpha = whole(1, 1 << 40)("n", n), number(positive=True)("alpha", alpha)
        one_of(ENSEMBLES)("patterns", patterns)
        target = Target() if target is None else instance(Target)("target", target)
        size = n * max(1.0, alpha * n) * (1 if patterns == "binary" else 4)
        if size > (memory := physical_memory()):
            raise ValueError(
                f"n = {n} and alpha = {alpha:g} give {size / 1e9:.3g} GB of patterns, and this machine has "
                f"{memory / 1e9:.3g} GB of memory; take smaller ones."
            )
        m = constraints(alpha, n)
        random = generator(rng)
        problem, binary = cls.__new__(cls), patterns == "binary"
        if binary:
            matrix = unpacked(np.frombuffer(random.bytes((m * n + 7) // 8), np.uint8), m, n)
        problem._keep(matrix if binary else random.standard_normal((m, n), dtype=np.float32), target)
        problem.ensemble = patterns
        return problem

    @classmethod
    def from_data(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        alpha: float | None = None,
        features: int | None = None,
        preprocess: str | None = None,
        target: Target | None = None,
        rng: RNG = None,
        balanced: bool = False,
    ) -> Perceptron:
        """Draw a problem with m = round(alpha n) rows from a pool of labelled data.

        Parameters
        ----------
        X : array_like
            (k, d) pool; a (k, height, width) stack of images is flattened.
        y : array_like
            (k,) labels of two classes; the smaller becomes -1.
        alpha : float, optional
            Load m/n; by default every row is taken.
        features : int, optional
            Number n of random linear features F x with F ~ N(0, 1), drawn for every problem; by default n = d.
        preprocess : {"centred", "raw", "binarised"}, optional
            See `solspace.data.load`; means are taken over the whole pool. By default bytes are centred and other numbers kept
            (features of rows of norm √d are rescaled to norm √n).
        target : Target, optional
            Measure over the weights.
        rng : int, Generator, SeedSequence or None
            Seed.
        balanced : bool, default False
            Whether to draw both classes equally often.

        Returns
        -------
        Perceptron
            The problem.

        Raises
        ------
        ValueError
            If the labels are not of two classes, or the pool has fewer than `alpha` n rows.

        Examples
        --------
        >>> X = np.array([[0, 9, 3], [7, 1, 3], [2, 8, 5], [9, 0, 1]], dtype=np.uint8)
        >>> problem = Perceptron.from_data(X, [3, 8, 3, 8], alpha=1.0, rng=0)
        >>> problem.m, float((problem.patterns[0] ** 2).sum().round(4))
        (3, 3.0)
        """
        from solspace.data import instances

        pool = _matrix(X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 else X)
        labels = instances.signs(y, len(pool))
        patterns, labels = instances.drawn(
            pool, labels, alpha, features=features, preprocess=preprocess, balanced=balanced, rng=rng
        )
        return cls(patterns, labels, target=target)

    @classmethod
    def planted(
        cls,
        n: int | None = None,
        alpha: float | None = None,
        target: Target | None = None,
        *,
        X: ArrayLike | None = None,
        patterns: str = "binary",
        intercept: float | None = None,
        rng: RNG = None,
    ) -> Perceptron:
        """Draw a problem whose labels come from a teacher: weights drawn from the prior, and labels from the likelihood.

        The target is then the posterior of the teacher's weights, given patterns and labels, and the teacher is one more of its
        samples: a test of samplers on any patterns.

        Parameters
        ----------
        n : int, optional
            Weights of a random problem.
        alpha : float, optional
            Load of a random problem; there are m = round(alpha n) patterns, at least one.
        target : Target, optional
            Prior and likelihood: "uniform" (labels are the signs of the stabilities), "logistic", "probit" or "flip", at T = 1
            and margin 0; by default the uniform potential on ±1 weights.
        X : array_like, optional
            (m, n) patterns of your own, in place of random ones.
        patterns : {"binary", "gaussian"}, default "binary"
            Entries of random patterns.
        intercept : float, optional
            Width of the prior from which an intercept is drawn; none by default.
        rng : int, Generator, SeedSequence or None
            Seed.

        Returns
        -------
        Perceptron
            With `teacher`, `teacher_intercept` and `labels`.

        Raises
        ------
        ValueError
            If the potential is not a likelihood at T = 1 and margin 0, or not exactly one of `X` and `n`, `alpha` is set.

        Examples
        --------
        >>> problem = Perceptron.planted(n=11, alpha=2.0, target=Target(potential="probit(0.5)"), rng=0)
        >>> problem.m, problem.teacher.shape, problem.labels.shape
        (22, (11,), (22,))
        """
        target = Target(potential="uniform") if target is None else instance(Target)("target", target)
        potential = target.potential
        if not potential.likelihood or target.margin or (target.temperature != 1 and not potential.athermal):
            raise ValueError(
                "planted problems need a likelihood (uniform, logistic, probit or flip) at temperature 1 and margin 0, from "
                f"which labels can be drawn; got {target}."
            )
        if (X is None) != (n is not None and alpha is not None) or (X is not None and (n, alpha) != (None, None)):
            raise ValueError("a planted problem has either patterns X of your own, or n and alpha of random ones.")
        random = generator(rng)
        if X is not None:
            rows = cls(X, target=target)
        else:
            assert n is not None and alpha is not None  # noqa: PT018
            rows = cls.random(n, alpha, target, patterns, random)
        teacher = target.prior.draw(rows.n, random)
        shift = None if intercept is None else number(positive=True)("intercept", intercept) * random.standard_normal()
        fields = sum_of_products(rows, teacher) + (shift or 0.0)
        labels = np.where(np.log(random.random(rows.m)) < target.log_weight(fields), 1, -1)
        problem = cls(rows.patterns, labels, target=target, intercept=intercept)
        problem.teacher = teacher.astype(float)  # products of int8 weights with it do not overflow
        problem.teacher_intercept, problem.ensemble = shift, rows.ensemble
        return problem

    @cached_property
    def digest(self) -> str:
        """128-bit digest of the patterns, from a few entries of each, and of intercept, clamped and sample weights."""
        rows = -(-self.m // 4096)
        seen = self._entries(rows, max(1, self.n * self.m // rows // 2**14))
        head = str(((self.m, self.n), seen.dtype.str)).encode() + self.extras
        return hashlib.sha256(head + np.ascontiguousarray(seen).tobytes()).hexdigest()[:32]

    @property
    def extras(self) -> bytes:
        """What belongs to the problem beside patterns and target; empty where nothing does."""
        if not self.plain:
            powers = b"" if self.sample_weight is None else self.sample_weight.tobytes()
            signs = b"" if self.intercept is None else self.signs.tobytes()
            return str((self.intercept, sorted(self.clamped.items()))).encode() + signs + powers
        return b""

    @property
    def plain(self) -> bool:
        """Whether there is no intercept, no clamped weight and no sample weight."""
        return self.intercept is None and not self.clamped and self.sample_weight is None

    @property
    def signs(self) -> Array:
        """(m,) what the intercept is multiplied by: the labels, 1 without."""
        return np.ones(self.m, np.int8) if self.labels is None else self.labels

    def _entries(self, rows: int, columns: int) -> Array:
        return self.patterns[::rows, ::columns]

    def with_target(self, target: Target) -> Perceptron:
        """Return the same patterns under another target.

        Parameters
        ----------
        target : Target
            Measure over the weights.

        Returns
        -------
        Perceptron
            A problem that shares the patterns.
        """
        problem = copy.copy(self)
        problem.target = instance(Target)("target", target)
        return problem

    def blocks(self, dtype: DTypeLike = np.float64) -> Iterator[tuple[slice, Array]]:
        """Iterate over the patterns in blocks of rows.

        Parameters
        ----------
        dtype : dtype, default float64
            Type of the blocks.

        Yields
        ------
        tuple of slice and ndarray
            Rows and `patterns[rows]` as `dtype`.
        """
        rows = max(1, BLOCK // self.n)
        for start in range(0, self.m, rows):
            part = slice(start, min(start + rows, self.m))
            yield part, self.patterns[part].astype(dtype, copy=False)

    def stabilities(self, weights: ArrayLike, intercepts: ArrayLike | None = None) -> Array:
        """Return the stabilities ⟨x, w⟩/√n, with an intercept b those plus y b.

        For small integer weights on ±1 patterns the sums are exact. Any other stability within rounding error of the margin, or
        of an edge of a band, is returned as exactly that value and its constraint counts as met, whatever the order of summation.
        The rounding error is taken as ε √n |x| |w|, ε = 2.2e-16, and for patterns in single precision at least
        4.8e-7 |x| |w| / n.

        Parameters
        ----------
        weights : array_like
            (n,) or (k, n).
        intercepts : array_like, optional
            () or (k,), of a problem with an intercept.

        Returns
        -------
        ndarray
            (m,) or (k, m), float64.

        Raises
        ------
        ValueError
            If the shapes do not fit, or intercepts are missing or too many.
        """
        weights = np.asarray(weights)
        if weights.ndim not in (1, 2) or weights.shape[-1] != self.n:
            raise ValueError(f"weights must have shape ({self.n},) or (k, {self.n}); got {weights.shape}.")
        # sums of small integers are exact in float32 below 2^24, and twice as fast
        small = self.has_binary_patterns and self.n * float(np.abs(weights).max(initial=0)) < 1 << 24
        exact = small and np.array_equal(weights, np.rint(weights))
        dtype = np.float32 if exact else np.float64
        columns = np.atleast_2d(weights).astype(dtype).T
        result = np.empty((columns.shape[1], self.m))
        for rows, block in self.blocks(dtype):
            result[:, rows] = (block @ columns).T
        result /= np.sqrt(self.n)
        if self.intercept is not None or intercepts is not None:
            result += self._shifts(intercepts, weights)
        if not exact or self.intercept is not None:
            self._settle(result, np.linalg.norm(columns, axis=0)[:, None])
        return result[0] if weights.ndim == 1 else result

    def _shifts(self, intercepts: ArrayLike | None, weights: Array) -> Array:
        if (self.intercept is None) != (intercepts is None):
            need = "has no intercept" if self.intercept is None else "has an intercept: give those of the weights"
            raise ValueError(f"the problem {need}; got intercepts={shown(intercepts)}.")
        values = np.asarray(intercepts, dtype=float)
        if values.shape != weights.shape[:-1]:
            raise ValueError(
                f"intercepts must have shape {weights.shape[:-1]}, one for each row of weights; got {values.shape}."
            )
        return np.atleast_1d(values)[:, None] * self.signs

    def _rounding(self, norms: Array | float) -> Array:
        """Return the rounding error (m,) or (k, m) of the stabilities of weights of these `norms`, a number or (k, 1)."""
        single = 4 * np.finfo(np.float32).eps / self.n if self.patterns.dtype == np.float32 else 0.0
        return max(np.sqrt(self.n) * np.finfo(np.float64).eps, single) * self._lengths * norms

    def _settle(self, stabilities: Array, norms: Array | float) -> None:
        """Set `stabilities` (k, m) within rounding error of the margin or an edge to exactly that, in place."""
        rounding, violated = self._rounding(norms), self.target.violated
        for point in self.target.potential.breakpoints:
            edge: Any = self.target.margin + point
            nearest = (edge, np.nextafter(edge, -np.inf), np.nextafter(edge, np.inf))  # on the allowed side, if one is
            stabilities[np.abs(stabilities - edge) <= rounding] = next((x for x in nearest if not violated(x)), edge)

    @cached_property
    def _lengths(self) -> Array:
        """(m,) norms of the patterns."""
        return np.concatenate([np.linalg.norm(block, axis=1) for _, block in self.blocks()])

    def violations(self, weights: ArrayLike, intercepts: ArrayLike | None = None) -> Any:
        """Return the number of constraints that weights violate.

        Parameters
        ----------
        weights : array_like
            (n,) or (k, n).
        intercepts : array_like, optional
            () or (k,), of a problem with an intercept.

        Returns
        -------
        int or ndarray of int
            () or (k,).
        """
        missed = self.target.violated(self.stabilities(weights, intercepts)).sum(axis=-1)
        return int(missed) if missed.ndim == 0 else missed

    def is_solution(self, weights: ArrayLike, intercepts: ArrayLike | None = None) -> Any:
        """Return whether weights meet every constraint and the prior, and clamped ones have their values.

        A constraint is met if its stability is at least the margin, ties included (see `stabilities`), whatever weight the
        potential gives to it: under the log potential a solution with a tie has weight zero.

        Parameters
        ----------
        weights : array_like
            (n,) or (k, n).
        intercepts : array_like, optional
            () or (k,), of a problem with an intercept.

        Returns
        -------
        bool or ndarray of bool
            () or (k,).
        """
        solved = (np.asarray(self.violations(weights, intercepts)) == 0) & self.supports(np.asarray(weights))
        return bool(solved) if solved.ndim == 0 else solved

    def supports(self, weights: Array) -> Any:
        """Return whether weights lie in the support of the prior, and clamped ones have their values.

        Parameters
        ----------
        weights : ndarray
            (n,) or (k, n).

        Returns
        -------
        bool or ndarray of bool
            () or (k,).

        Examples
        --------
        >>> problem = Perceptron([[1, -1, 1]], clamped={0: 1})
        >>> problem.supports(np.array([[1, 1, -1], [-1, 1, -1], [1, 0, 1]]))
        array([ True, False, False])
        """
        inside = self.target.prior.contains(weights)
        for i, value in self.clamped.items():
            inside = inside & (weights[..., i] == value)
        return inside

    def log_weights(self, stabilities: Array) -> Array:
        """Return the log weight -ΣU/T of stabilities, each constraint to the power of its sample weight.

        Parameters
        ----------
        stabilities : ndarray
            (..., m).

        Returns
        -------
        ndarray
            (...,).

        Examples
        --------
        >>> problem = Perceptron([[1, -1, 1], [1, 1, 1]], target=Target(potential="logistic"), sample_weight=[1, 2])
        >>> float(problem.log_weights(np.array([0.0, 0.0])).round(4))
        -2.0794
        """
        each = self.target.log_weight(stabilities)
        return each.sum(axis=-1) if self.sample_weight is None else each @ self.sample_weight

    def looks_random(self) -> bool:
        """Return whether the patterns look like independent entries of unit variance, as theory assumes.

        Returns
        -------
        bool
            True if `structure` finds no reason against it.
        """
        return not self.structure()

    def structure(self) -> str:
        """Return why the patterns do not look like independent entries of unit variance.

        Three properties are checked: rows of unequal norm, columns with a mean, and a direction in which the patterns vary more
        than the edge (1 + √α)² of the Marchenko–Pastur law allows.

        Returns
        -------
        str
            The reason; empty if none was found.

        Examples
        --------
        >>> Perceptron(np.outer(np.arange(1.0, 60.0), np.ones(200))).structure()
        'their rows differ in length'
        """
        if self.ensemble is not None:
            return ""
        lengths, sums = self._lengths**2 / self.n, sum(block.sum(axis=0) for _, block in self.blocks())
        slack = 10 / np.sqrt(self.n) + 10 / np.sqrt(self.m * self.n)
        if lengths.std() > slack:
            return "their rows differ in length"
        if abs(lengths.mean() - 1) > slack or not lengths.any():
            return f"their entries have a mean square of {lengths.mean():.3g} instead of 1"
        if (sums**2).mean() / self.m > 1 + 6 * np.sqrt(2 / self.n):
            return "their columns, times the labels, have means"
        direction: Any = generator(0).standard_normal(self.n)
        for _ in range(12):
            direction /= np.linalg.norm(direction)
            direction = sum(block.T @ (block @ direction) for _, block in self.blocks())
        edge = (1 + np.sqrt(self.alpha)) ** 2 * (1 + 3 * self.n ** (-2 / 3))
        largest = np.linalg.norm(direction) / self.n
        return f"they vary {largest / edge:.2g} times too much along one direction" if largest >= edge else ""

    def enumerate(self) -> Enumeration:
        """Enumerate all weights: 2^n of ±1 weights, L^n of L levels, at most 2^20.

        Returns
        -------
        Enumeration
            The exact law.
        """
        from solspace.enumeration import Enumeration

        return Enumeration(self)

    def __repr__(self) -> str:
        more = "" if self.intercept is None else f", intercept {self.intercept:g}"
        more += f", {len(self.clamped)} clamped" if self.clamped else ""
        return f"Perceptron(n={self.n}, m={self.m}, patterns {self.patterns.dtype}, {self.target}{more})"

    def _repr_html_(self) -> str:
        origin = "given" if self.ensemble is None else f"random, {self.ensemble}"
        rows = {
            "weights n": f"{self.n:,}",
            "constraints m": f"{self.m:,}",
            "load α = m/n": f"{self.alpha:.4g}",
            "patterns": f"{origin} ({self.patterns.dtype})",
            "target": str(self.target),
        }
        if self.intercept is not None:
            rows["intercept"] = f"Gaussian prior of width {self.intercept:g}"
        if self.clamped:
            rows["clamped weights"] = f"{len(self.clamped):,}"
        return html_table("Perceptron", rows.items())


def constraints(alpha: float, n: int) -> int:
    """Return how many constraints a random problem of `n` weights has at the load `alpha`.

    >>> constraints(0.3, 101)
    30
    """
    return max(1, round(alpha * n))


def physical_memory() -> float:
    """Return the bytes of memory of this machine, 2^40 where that is not known."""
    known = hasattr(os, "sysconf") and {"SC_PAGE_SIZE", "SC_PHYS_PAGES"} <= set(os.sysconf_names)
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) if known else 2.0**40


def unpacked(bits: Array, m: int, n: int) -> Array:
    """Return the patterns (m, n) of ±1, int8, whose signs are `bits`, eight to a byte."""
    return (2 * np.unpackbits(bits, count=m * n).view(np.int8) - 1).reshape(m, n)


def sum_of_products(problem: Perceptron, weights: Array) -> Array:
    """Return ⟨x, w⟩/√n (m,), without an intercept, as it comes out of the sum."""
    columns = np.asarray(weights, dtype=float)
    return np.concatenate([block @ columns for _, block in problem.blocks()]) / np.sqrt(problem.n)


def problem_list(problem: Any) -> list[Perceptron]:
    found = list(problem) if isinstance(problem, Iterable) else [problem]
    if not all(isinstance(one, Perceptron) for one in found):
        raise ValueError(f"problem must be a solspace Perceptron or a list of them; got {shown(problem)}.")
    return found


def _matrix(patterns: Any) -> Array:
    if hasattr(patterns, "toarray"):
        if np.prod(patterns.shape, dtype=float) > _LARGE_SPARSE:
            size = f"{patterns.shape[0]} x {patterns.shape[1]}"
            warnings.warn(f"a sparse matrix of {size} is made dense: solspace works on dense patterns.", stacklevel=3)
        patterns = patterns.toarray()
    if np.ma.is_masked(patterns):
        raise ValueError("patterns must have no masked entries; fill them first, as in patterns.filled(0).")
    try:
        matrix = np.asarray(patterns)
        if matrix.dtype.kind == "c":
            raise TypeError
        if matrix.dtype.kind not in "biuf" or matrix.dtype.itemsize > 8:
            with np.errstate(over="ignore"):  # numbers beyond double precision become infinite, and are refused
                matrix = matrix.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"patterns must be a rectangular array of real numbers; got {shown(patterns)}.") from None
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"patterns must have shape (m, n) with m, n >= 1; got {matrix.shape}.")
    largest = max(abs(float(matrix.min())), abs(float(matrix.max())))  # neither makes a copy; NaN if there is one
    if not largest <= LARGEST:
        allowed = f"finite, without NaN or inf, and at most {LARGEST:g} in size"
        raise ValueError(f"patterns must be {allowed}; the largest is {largest:.3g}.")
    return matrix


def _frozen(array: object) -> bool:
    """Return whether the memory of an array is read-only, also for the arrays that it is a view of."""
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, (bytes, mmap.mmap))


def _signs(labels: Any, m: int) -> Array:
    if np.ma.is_masked(labels):
        raise ValueError("labels must have no masked entries.")
    signs = np.asarray(labels)
    if signs.shape not in ((m,), (m, 1)):
        raise ValueError(f"labels must have shape ({m},), one for each pattern; got {signs.shape}.")
    if signs.dtype.kind not in "if" or not np.isin(signs, (-1, 1)).all():
        advice = "Perceptron.from_data(X, y) takes labels of any two classes"
        raise ValueError(f"labels must be +1 or -1; got {shown(labels)}. {advice}.")
    return signs.reshape(m).astype(np.int8)


def _powers(sample_weight: Any, m: int) -> Array:
    powers = reals("sample_weight", sample_weight)
    if powers.shape != (m,) or not (np.isfinite(powers) & (powers > 0)).all():
        raise ValueError(
            f"sample_weight must be {m} positive, finite numbers, one for each pattern (leave out patterns of weight 0); "
            f"got {shown(sample_weight)}."
        )
    return powers


def _clamped(clamped: Any, n: int, prior: Prior) -> dict[int, float]:
    if not isinstance(clamped, Mapping):
        raise ValueError(f"clamped must be a mapping {{number of a weight: value}}; got {shown(clamped)}.")
    if isinstance(prior, Spherical):
        raise ValueError("weights on the sphere cannot be clamped; binary, levels and gaussian priors can.")
    found = {whole(0, n - 1)("a number of a clamped weight", i): number()("value", v) for i, v in clamped.items()}
    wrong = [value for value in found.values() if not prior.contains(np.array([value]))]
    if wrong:
        raise ValueError(f"clamped weights must have values of the prior ({prior}); got {wrong[0]:g}.")
    return dict(sorted(found.items()))
