"""A perceptron problem: patterns with their labels folded in, and the target measure on the weights.

Every row of `patterns` is one constraint: its stability ⟨x, w⟩/√n must reach the margin. Patterns of ±1 are kept as
int8 and their products are formed in blocks of rows, so that a problem of 80,000 × 1,000 needs no second copy of
itself. The patterns belong to the problem: nothing done later to the array they came from changes it.
"""

from __future__ import annotations

import hashlib
import mmap
import warnings
from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator
from solspace.system import html
from solspace.system.names import unknown

if TYPE_CHECKING:
    from solspace.enumeration import Enumeration

BLOCK = 1 << 22
"""Entries of the patterns turned into floating point at a time."""
_LARGE_SPARSE = 1 << 24
"""Entries above which making a sparse matrix dense is worth a warning."""
LARGEST = 1e15
"""Largest size of a pattern's entry: its square, summed over a row, is still a number in single precision."""
MOST = 1 << 40
"""Most entries of a random problem."""
ENSEMBLES = ("binary", "gaussian")


class Perceptron:
    """Patterns (m, n) with labels folded in, and a target.

    Parameters
    ----------
    patterns
        (m, n) array, nested lists, SciPy sparse matrix or pandas frame of finite real numbers, at most 1e15 in size. A
        writable array is copied; a read-only one (`X.flags.writeable = False`, a file mapped with `mmap_mode="r"`) of
        numbers that need no conversion is shared, where memory for two is short.
    labels
        (m,) of ±1, or None when every pattern is already multiplied by its label. For labels of any other two
        classes there is `Perceptron.from_data`.
    target
        What is sampled; the log potential at T = 0.5 on ±1 weights unless given.

    >>> problem = Perceptron([[1, -1, 1], [1, 1, 1]], labels=[1, -1])
    >>> problem.patterns
    array([[ 1, -1,  1],
           [-1, -1, -1]], dtype=int8)
    >>> problem.violations([-1, -1, 1])
    0
    """

    ensemble: str | None = None
    """"binary" or "gaussian" where `random` drew the patterns, None for patterns that were given."""

    def __init__(self, patterns: ArrayLike, labels: ArrayLike | None = None, *, target: Target | None = None) -> None:
        given = _matrix(patterns)
        signs = None if labels is None else _signs(labels, len(given))
        matrix = given
        if _all_signs(matrix):
            matrix = matrix.astype(np.int8, copy=signs is not None)
            if signs is not None:
                matrix *= signs[:, None]
        else:
            matrix = matrix if matrix.dtype in (np.float32, np.float64) else matrix.astype(np.float64)
            if signs is not None:
                matrix = matrix * signs[:, None].astype(matrix.dtype)
        if np.may_share_memory(matrix, given) and not _frozen(given):
            matrix = matrix.copy()
        self._keep(np.ascontiguousarray(matrix), Target() if target is None else target)

    def _keep(self, patterns: Array, target: Target) -> None:
        # `patterns` are nobody else's to write
        if not isinstance(target, Target):
            raise ValueError(f"target must be a solspace.Target; got {target!r}.")
        self.patterns = patterns
        self.patterns.flags.writeable = False
        self.target = target

    @classmethod
    def random(
        cls, n: int, alpha: float, target: Target | None = None, patterns: str = "binary", rng: RNG = None
    ) -> Perceptron:
        """Return a random problem: m = round(alpha n) patterns with independent entries, ±1 or standard Gaussian.

        >>> Perceptron.random(n=11, alpha=0.5, rng=0)
        Perceptron(n=11, m=6, patterns int8, binary weights, log potential, T = 0.5, margin 0)
        """
        if not (isinstance(n, (int, np.integer)) and not isinstance(n, bool) and n >= 1):
            raise ValueError(f"n must be a positive integer; got {n!r}.")
        if not (isinstance(alpha, (int, float, np.integer, np.floating)) and 0 < alpha < np.inf):
            raise ValueError(f"alpha must be a positive number; got {alpha!r}.")
        if patterns not in ENSEMBLES:
            raise unknown("patterns", patterns, ENSEMBLES)
        if n > MOST or alpha > MOST or float(n) * max(1.0, float(alpha) * float(n)) > MOST:
            raise ValueError(f"n and alpha ask for more than {MOST:.2g} entries of patterns; take smaller ones.")
        n, m = int(n), constraints(alpha, n)
        random = generator(rng)
        problem = cls.__new__(cls)
        if patterns == "binary":
            bits = np.unpackbits(np.frombuffer(random.bytes((m * n + 7) // 8), np.uint8), count=m * n)
            matrix: Array = (2 * bits.view(np.int8) - 1).reshape(m, n)
        else:
            matrix = random.standard_normal((m, n), dtype=np.float32)
        problem._keep(matrix, Target() if target is None else target)
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
        """Return a problem of m = round(alpha n) images drawn at random from a pool, as patterns with labels ±1.

        Parameters
        ----------
        X
            (k, d) pool of images; a (k, height, width) stack is flattened.
        y
            (k,) labels of two classes; the smaller becomes -1.
        alpha
            Load m/n; None takes every image.
        features
            Number n of random linear features F x with F ~ N(0, 1), drawn anew for every problem; None: n = d.
        preprocess
            `"centred"`, `"raw"` or `"binarised"`, see `solspace.data.load`; means are taken over the whole pool. None:
            bytes are centred, other numbers taken as they are (features of rows of norm √d are rescaled to norm √n).
        target
            What is sampled, as in `Perceptron`.
        balanced
            Whether to draw both classes equally often.

        >>> X = np.array([[0, 9, 3], [7, 1, 3], [2, 8, 5], [9, 0, 1]], dtype=np.uint8)
        >>> problem = Perceptron.from_data(X, [3, 8, 3, 8], alpha=1.0, rng=0)
        >>> problem.m, float((problem.patterns[0] ** 2).sum().round(4))
        (3, 3.0)
        """
        from solspace.data.instances import instance

        pool = _matrix(X.reshape(len(X), -1) if isinstance(X, np.ndarray) and X.ndim > 2 else X)
        patterns, labels = instance(
            pool, y, alpha, features=features, preprocess=preprocess, balanced=balanced, rng=rng
        )
        return cls(patterns, labels, target=target)

    @property
    def n(self) -> int:
        """Number of weights."""
        return self.patterns.shape[1]

    @property
    def m(self) -> int:
        """Number of constraints."""
        return self.patterns.shape[0]

    @property
    def alpha(self) -> float:
        """Load m/n."""
        return self.m / self.n

    @property
    def has_binary_patterns(self) -> bool:
        """True when every pattern entry is ±1 (kept as int8)."""
        return self.patterns.dtype == np.int8

    @cached_property
    def digest(self) -> str:
        """128-bit name of the patterns, by which samples of one problem are told from those of another.

        It looks at a few entries of each pattern (of some patterns, where there are thousands), so that it costs no time
        beside a sampler: patterns that differ in a few entries alone may share it.

        >>> Perceptron([[1, -1]], [1]).digest == Perceptron([[-1.0, 1.0]], [-1]).digest
        True
        """
        rows = -(-self.m // 4096)
        seen = self._entries(rows, max(1, self.n * self.m // rows // 2**14))
        total = hashlib.sha256(str(((self.m, self.n), seen.dtype.str)).encode())
        total.update(np.ascontiguousarray(seen).view(np.uint8).data)
        return total.hexdigest()[:32]

    def _entries(self, rows: int, columns: int) -> Array:
        """Return every so many-th entry of every so many-th pattern."""
        return self.patterns[::rows, ::columns]

    def with_target(self, target: Target) -> Perceptron:
        """Return the same patterns under another target; the patterns are shared."""
        problem = type(self).__new__(type(self))
        problem._keep(self.patterns, target)
        problem.ensemble = self.ensemble
        return problem

    def blocks(self, dtype: DTypeLike = np.float64) -> Iterator[tuple[slice, Array]]:
        """Yield (rows, patterns[rows] as `dtype`), block by block, so that no second copy of the patterns is made."""
        rows = max(1, BLOCK // self.n)
        for start in range(0, self.m, rows):
            part = slice(start, min(start + rows, self.m))
            yield part, self.patterns[part].astype(dtype, copy=False)

    def stabilities(self, weights: ArrayLike) -> Array:
        """Return ⟨x, w⟩/√n for `weights` (n,) or (k, n): shape (m,) or (k, m), float64.

        For ±1 weights on ±1 patterns the sums are exact. Any other stability within rounding error of the margin (or of the
        edge of a band) is returned as exactly that, and its constraint counts as met: a tie such as 0.1 + 0.2 - 0.3 then
        does not depend on the order of summation, the memory layout or the scale of the rows. The rounding error is taken
        as ε √n |x| |w|, ε = 2.2e-16, and for patterns in single precision at least 4.8e-7 |x| |w| / n.
        """
        weights = self._weights(weights)
        # ±1 times ±1 summed in float32 is exact below 2^24 and twice as fast; anything else goes through float64.
        exact = self.has_binary_patterns and self.n < 1 << 24 and np.array_equal(np.abs(weights), np.ones_like(weights))
        dtype = np.float32 if exact else np.float64
        columns = np.atleast_2d(weights).astype(dtype).T
        result = np.empty((columns.shape[1], self.m))
        for rows, block in self.blocks(dtype):
            result[:, rows] = (block @ columns).T
        result /= np.sqrt(self.n)
        if not exact:
            self._settle(result, np.linalg.norm(columns, axis=0)[:, None])
        return result[0] if weights.ndim == 1 else result

    def _rounding(self, norms: Array | float) -> Array:
        """Return the rounding error (m,) or (k, m) of the stabilities of weights of these `norms`, a number or (k, 1)."""
        share = np.sqrt(self.n) * np.finfo(np.float64).eps
        if self.patterns.dtype == np.float32:
            share = max(share, 4 * np.finfo(np.float32).eps / self.n)
        return share * self._lengths * norms

    def _settle(self, stabilities: Array, norms: Array | float) -> None:
        """Set `stabilities` (k, m) within rounding error of the margin or an edge to exactly that, in place."""
        rounding = self._rounding(norms)
        for edge in _edges(self.target):
            stabilities[np.abs(stabilities - edge) <= rounding] = edge

    @cached_property
    def _lengths(self) -> Array:
        """(m,) norms of the patterns."""
        return np.concatenate([np.linalg.norm(block, axis=1) for _, block in self.blocks()])

    def violations(self, weights: ArrayLike) -> Any:
        """Return the number of constraints that `weights` (n,) or (k, n) miss: an int or (k,) ints."""
        missed = self.target.violated(self.stabilities(weights)).sum(axis=-1)
        return int(missed) if missed.ndim == 0 else missed

    def is_solution(self, weights: ArrayLike) -> Any:
        """Return whether `weights` (n,) or (k, n) meet every constraint and the prior: a bool or (k,) bools.

        A constraint is met where its stability is at least the margin, a tie included (see `stabilities`), whatever weight
        the potential gives to it: under the log potential a solution with a tie has weight zero.
        """
        solved = (np.asarray(self.violations(weights)) == 0) & self.target.prior.contains(self._weights(weights))
        return bool(solved) if solved.ndim == 0 else solved

    def looks_random(self) -> bool:
        """Return whether theory for independent entries of unit variance can be expected to hold for these patterns."""
        return not self.structure()

    def structure(self) -> str:
        """Return in words what keeps the patterns from looking like independent entries of unit variance; else ''.

        Three signs are looked for: rows of uneven or wrong length, columns with a mean, and a direction in which the
        patterns vary more than the edge (1 + √α)² of the Marchenko-Pastur law allows (by power iteration).

        >>> Perceptron(np.outer(np.arange(1.0, 60.0), np.ones(200))).structure()
        'their rows differ in length'
        """
        if self.ensemble is not None:
            return ""
        lengths, sums = np.empty(self.m), np.zeros(self.n)
        for rows, block in self.blocks():
            lengths[rows] = (block**2).mean(axis=1)
            sums += block.sum(axis=0)
        slack = 10 / np.sqrt(self.n) + 10 / np.sqrt(self.m * self.n)
        if lengths.std() > slack:
            return "their rows differ in length"
        if abs(lengths.mean() - 1) > slack or not lengths.any():
            return f"their entries have a mean square of {lengths.mean():.3g} instead of 1"
        if (sums**2).mean() / self.m > 1 + 6 * np.sqrt(2 / self.n):
            return "their columns, times the labels, have means"
        direction = generator(0).standard_normal(self.n)
        for _ in range(12):
            direction /= np.linalg.norm(direction)
            image = sum(block.T @ (block @ direction) for _, block in self.blocks())
            direction = np.asarray(image)
        edge = (1 + np.sqrt(self.alpha)) ** 2 * (1 + 3 * self.n ** (-2 / 3))
        largest = np.linalg.norm(direction) / self.n
        return f"they vary {largest / edge:.2g} times too much along one direction" if largest >= edge else ""

    def enumerate(self) -> Enumeration:
        """Return the exact law of all 2^n weights (±1 weights, n <= 20)."""
        from solspace.enumeration import Enumeration

        return Enumeration(self)

    def _weights(self, weights: ArrayLike) -> Array:
        weights = np.asarray(weights)
        if weights.ndim not in (1, 2) or weights.shape[-1] != self.n:
            raise ValueError(f"weights must have shape ({self.n},) or (k, {self.n}); got {weights.shape}.")
        return weights

    def __repr__(self) -> str:
        return f"Perceptron(n={self.n}, m={self.m}, patterns {self.patterns.dtype}, {self.target})"

    def _repr_html_(self) -> str:
        made = "given" if self.ensemble is None else f"random, {self.ensemble}"
        rows = [
            ("weights n", f"{self.n:,}"),
            ("constraints m", f"{self.m:,}"),
            ("load α = m/n", f"{self.alpha:.4g}"),
            ("patterns", f"{made} ({self.patterns.dtype})"),
            ("target", str(self.target)),
        ]
        return html.table("Perceptron", rows)


def constraints(alpha: float, n: int) -> int:
    """Return how many constraints a random problem of `n` weights has at the load `alpha`.

    >>> constraints(0.3, 101)
    30
    """
    return max(1, round(alpha * n))


def _edges(target: Target) -> list[float]:
    """Return the stabilities at which constraints may end, next to which rounding decides nothing."""
    places = [target.margin + point for point in target.potential.breakpoints]
    nearest = [(x, np.nextafter(x, -np.inf), np.nextafter(x, np.inf)) for x in places]
    return [float(next((x for x in three if not target.violated(x)), three[0])) for three in nearest]


def _matrix(patterns: Any) -> Array:
    if hasattr(patterns, "toarray"):
        if np.prod(patterns.shape, dtype=float) > _LARGE_SPARSE:
            size = f"{patterns.shape[0]} x {patterns.shape[1]}"
            warnings.warn(f"a sparse matrix of {size} is made dense: solspace works on dense patterns.", stacklevel=3)
        patterns = patterns.toarray()
    elif hasattr(patterns, "to_numpy"):
        patterns = patterns.to_numpy()
    if np.ma.is_masked(patterns):
        raise ValueError("patterns must have no masked entries; fill them first, as in patterns.filled(0).")
    matrix = _real(patterns)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"patterns must have shape (m, n) with m, n >= 1; got {matrix.shape}.")
    largest = _size(matrix)
    if not np.isfinite(largest):
        raise ValueError("patterns must be finite; they contain NaN or inf.")
    if largest > LARGEST:
        raise ValueError(f"patterns must be at most {LARGEST:g} in size; the largest is {largest:.3g}. Rescale them.")
    return matrix


def _real(patterns: object) -> Array:
    nonsense = ValueError("patterns must be a rectangular array of numbers; got something else.")
    try:
        matrix = np.asarray(patterns)
    except ValueError:
        raise nonsense from None
    if matrix.dtype.kind == "c":
        raise ValueError(f"patterns must be real numbers; got {matrix.dtype}, whose imaginary part would be lost.")
    if matrix.dtype.kind in "biuf" and matrix.dtype.itemsize <= 8:
        return matrix
    try:
        with np.errstate(over="ignore"):  # what does not fit into double precision becomes infinite, and is refused
            return matrix.astype(float)
    except (TypeError, ValueError, OverflowError):
        raise nonsense from None


def _size(matrix: Array) -> float:
    # the largest absolute value, NaN where there is one
    rows = max(1, BLOCK // matrix.shape[1])
    ends = [(matrix[i : i + rows].min(), matrix[i : i + rows].max()) for i in range(0, len(matrix), rows)]
    return float(np.abs(np.array(ends, dtype=float)).max())


def _frozen(array: object) -> bool:
    # whether nobody can write to the memory of `array`, neither through it nor through what it is a view of
    while isinstance(array, np.ndarray):
        if array.flags.writeable:
            return False
        array = array.base
    return array is None or isinstance(array, (bytes, mmap.mmap))


def _all_signs(matrix: Array) -> bool:
    if matrix.dtype.kind in "bu":
        return False
    rows = max(1, BLOCK // matrix.shape[1])
    return all((np.abs(matrix[i : i + rows]) == 1).all() for i in range(0, len(matrix), rows))


def _signs(labels: ArrayLike, m: int) -> Array:
    if np.ma.is_masked(labels):
        raise ValueError("labels must have no masked entries.")
    labels = np.asarray(labels.to_numpy() if hasattr(labels, "to_numpy") else labels)
    if labels.shape == (m, 1):
        labels = labels[:, 0]
    if labels.shape != (m,):
        raise ValueError(f"labels must have shape ({m},), one for each pattern; got {labels.shape}.")
    if labels.dtype.kind not in "if" or not np.isin(labels, (-1, 1)).all():
        found = list(dict.fromkeys(map(str, labels.tolist())))
        raise ValueError(
            f"labels must be +1 or -1; got {' and '.join(found if len(found) < 3 else [*found[:2], 'others'])}. "
            "Perceptron.from_data(X, y) takes labels of any two classes."
        )
    return labels.astype(np.int8)
