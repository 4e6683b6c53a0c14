"""Exact counts and log Z: sets of bits for ±1 patterns and weights, a search that cuts branches for any others.

Both go depth first through the weights and leave a branch where a constraint can no longer be met (`samplers.kernels.counts`).
For log Z of a potential that forbids something the search hands over all that meets the constraints; soft potentials are
enumerated.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from solspace.enumeration import LARGEST, MOST
from solspace.measure.priors import Levels
from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import interval
from solspace.system.threads import split

HELD = 1 << 14  # configurations handed over at a time
PARTS = 256  # least number of parts of a search, between which it can stop


@dataclass(frozen=True)
class Free:
    """The weights that are not clamped, and the constraints that depend on them, in units of ⟨x, w⟩.

    `problem` has the target that is counted. A constraint is met where `lower` <= `matrix` w + `offset` <= `upper`, up to
    `doubt`; both bounds are infinite where the potential forbids nothing, or no interval is known.
    """

    problem: Perceptron

    @cached_property
    def columns(self) -> Array:
        return np.array([i for i in range(self.problem.n) if i not in self.problem.clamped], int)

    @cached_property
    def levels(self) -> Levels:
        prior = self.problem.target.prior
        return prior if isinstance(prior, Levels) else Levels((-1.0, 1.0))

    @cached_property
    def weights(self) -> Array:
        """(n,) clamped weights, 0 elsewhere."""
        fixed = np.zeros(self.problem.n)
        fixed[list(self.problem.clamped)] = list(self.problem.clamped.values())
        return fixed

    @cached_property
    def rows(self) -> Array:
        """Constraints that depend on the free weights."""
        return np.flatnonzero(self.problem.patterns[:, self.columns].any(axis=1))

    @cached_property
    def matrix(self) -> Array:
        return self.problem.patterns[np.ix_(self.rows, self.columns)].astype(float)

    @cached_property
    def offset(self) -> Array:
        return self.problem.patterns[self.rows].astype(float) @ self.weights

    @cached_property
    def constant(self) -> float:
        """Log weight of the clamped weights, and of the constraints that they alone decide; -inf where one is not met."""
        problem, (values, log_prior) = self.problem, (np.array(self.levels.values), self.levels.log_weights)
        total = sum(float(log_prior[np.argmin(np.abs(values - value))]) for value in problem.clamped.values())
        rest = np.setdiff1d(np.arange(problem.m), self.rows)
        if len(rest) and problem.intercept is None:
            each = problem.target.log_weight(problem.stabilities(self.weights)[rest])
            total += float((each if problem.sample_weight is None else each * problem.sample_weight[rest]).sum())
        return total

    @cached_property
    def integer(self) -> bool:
        """Whether all sums are of small integers, and so exact."""
        return self.problem.has_binary_patterns and self.levels.array.dtype == np.int8

    @cached_property
    def largest(self) -> float:
        return max(map(abs, self.levels.values))

    @cached_property
    def doubt(self) -> Array:
        """(m,) error of the sums, within which the rule of `Perceptron.stabilities` decides."""
        if self.integer:
            return np.zeros(len(self.rows))
        root = np.sqrt(self.problem.n)
        return 4 * root * np.broadcast_to(self.problem._rounding(root * self.largest), self.problem.m)[self.rows]

    @cached_property
    def bounds(self) -> tuple[float, float]:
        target, root = self.problem.target, np.sqrt(self.problem.n)
        if not target.potential.hard:
            return -np.inf, np.inf
        lower, upper = (target.margin + end for end in interval(target.potential))
        if self.integer:
            reach = round(self.problem.n * self.largest)
            sums = np.arange(-reach, reach + 1)
            met = sums[~target.violated(sums / root)]
            if not len(met):
                return np.inf, -np.inf
            return float(met.min()) if lower > -np.inf else lower, float(met.max()) if upper < np.inf else upper
        return lower * root, upper * root

    @cached_property
    def halves(self) -> tuple[Array, Array, Array]:
        """Half spaces `rows` w >= `least`, with `doubt`: those of a band are two for each constraint."""
        (lower, upper), matrix = self.bounds, self.matrix
        parts = [(matrix, lower - self.offset, self.doubt)] * bool(lower > -np.inf)
        parts += [(-matrix, self.offset - upper, self.doubt)] * bool(upper < np.inf)
        if not parts:
            return np.zeros((0, len(self.columns))), np.zeros(0), np.zeros(0)
        rows, least, doubt = (np.concatenate(part) for part in zip(*parts))
        return rows, least, doubt

    @property
    def decided(self) -> bool:
        """Whether the half spaces are all that the target asks for, so that what meets them can be counted."""
        target = self.problem.target
        known = np.isfinite(self.bounds).any() or not len(self.rows)
        return target.potential.athermal and target.potential.hard and bool(known) and not self.levels.log_weights.any()

    def log_weights(self, free: Array) -> Array:
        """Return the log weights (k,) of free weights (k, r), without `constant`."""
        total = self.log_weights_of(free @ self.matrix.T + self.offset)
        if self.levels.log_weights.any():
            total = total + self.levels.log_weights[np.searchsorted(self.levels.values, free)].sum(axis=1)
        return total

    def log_weights_of(self, sums: Array) -> Array:
        """Return the log weights (k,) of sums ⟨x, w⟩ (k, m) of all weights, clamped ones included; `sums` are overwritten."""
        problem, root, whole = self.problem, np.sqrt(self.problem.n), np.zeros((len(sums), self.problem.m))
        sums /= root
        if not self.integer:
            whole[:, self.rows] = sums
            problem._settle(whole, root * self.largest)
            sums = whole[:, self.rows]
        each = problem.target.log_weight(sums)
        return each.sum(axis=1) if problem.sample_weight is None else each @ problem.sample_weight[self.rows]


def seconds(free: Free) -> float:
    """Return about how long `exact_parts` takes on one core."""
    bits = len(free.columns) * math.log2(len(free.levels.values))
    return 2.0 ** (bits - 37) * 3 if _by_signs(free) else 2.0 ** (bits - 31)


def searchable(free: Free) -> bool:
    """Return whether `exact` takes less than about a minute."""
    choices = len(free.columns) * math.log(len(free.levels.values))
    if free.problem.intercept is not None or not free.problem.target.potential.hard:
        return free.problem.n * math.log(len(free.levels.values)) <= math.log(MOST) + 1e-9
    if not np.isfinite(free.bounds).any():
        return choices <= LARGEST * math.log(2)
    return choices <= (40 if _by_signs(free) else 34) * math.log(2)


def exact_parts(free: Free) -> Iterator[tuple[float, float]]:
    """Yield the share of the weights that was considered and log Z over them, a number of solutions for the uniform measure."""
    problem = free.problem
    if np.isneginf(free.constant):
        yield 1.0, -math.inf
    elif problem.intercept is not None or not problem.target.potential.hard:
        yield 1.0, _enumerated(problem)
    elif not len(free.columns) or not len(free.rows):
        yield 1.0, free.constant + len(free.columns) * float(logsumexp(free.levels.log_weights))
    elif free.bounds[0] > free.bounds[1]:
        yield 1.0, -math.inf
    elif _by_signs(free):
        found, done = 0, 0.0
        for share, count in sign_parts(*free.halves[:2]):
            found, done = found + count, done + share
            yield min(done, 1 - 1e-9), math.log(found) if found else -math.inf
        yield 1.0, math.log(found) if found else -math.inf
    else:
        yield from _searched(free)


def exact(free: Free) -> float:
    """Return log Z over all weights, the log of the number of solutions for the uniform measure; -inf where there is none."""
    return list(exact_parts(free))[-1][1]


def _enumerated(problem: Perceptron) -> float:
    try:
        return problem.enumerate().log_partition
    except ValueError:  # weight zero everywhere
        if problem.target.potential.hard:
            return -math.inf
        raise


def _by_signs(free: Free) -> bool:
    return free.integer and free.levels.values == (-1.0, 1.0) and free.decided and len(free.columns) <= 127


def sign_parts(rows: Array, least: Array, parts: int = PARTS) -> Iterator[tuple[float, int]]:
    """Yield the share and the number of ±1 weights with `rows` (m, r) w >= `least` (m,), in parts of all."""
    from solspace.samplers.kernels.counts import expanded, sign_tables, signs

    slack = np.floor((rows.shape[1] - least) / 2)
    if (slack < 0).any():
        return
    some = np.flatnonzero(slack < rows.shape[1])
    order = some[np.argsort(slack[some], kind="stable")]
    tables = sign_tables(rows[order], slack[order].astype(np.uint8))
    starts, first = tables.slack[None], 0
    while first < len(tables.penalties) and 0 < len(starts) < parts:
        starts, first = expanded(starts, tables.penalties[first]), first + 1
    penalties = tables.penalties if len(tables.penalties) else np.zeros((0, tables.slack.size, 32), np.uint64)
    for some in (
        np.array_split(starts, min(len(starts), -(-len(starts) // 32) if parts > 1 else 1)) if len(starts) else ()
    ):
        counts = np.zeros(len(some), np.int64)

        def count(start: int, stop: int, some: Array = some, counts: Array = counts) -> None:
            counts[start] = signs(some[start:stop], first, penalties, tables.sets, tables.bits)

        split(count, len(some))
        yield len(some) / len(starts), int(counts.sum())


def _searched(free: Free) -> Iterator[tuple[float, float]]:
    """Yield shares and log Z over the free weights, from parts that begin with different first choices."""
    base, r = len(free.levels.values), len(free.columns)
    depth = min(r - 1, math.ceil(math.log(PARTS) / math.log(base)))
    search, parts = Search(free), base**depth
    sums, done = np.full(parts, -np.inf), 0
    for piece in np.array_split(np.arange(parts), min(parts, 32)):

        def some(start: int, stop: int, piece: Array = piece) -> None:
            for part in piece[start:stop]:
                sums[part] = search.log_sum(part // base ** np.arange(depth) % base)

        split(some, len(piece))
        done += len(piece)
        yield done / parts, free.constant + float(logsumexp(sums))


class Search:
    """The search of `descend` over the free weights, those with the largest entries first."""

    def __init__(self, free: Free, columns: Array | None = None) -> None:
        """Search over some of the free `columns` (numbers into those of `free`), by default all, in an order of its own."""
        rows, self.least, self.doubt = free.halves
        own = np.arange(len(free.columns)) if columns is None else columns
        order = own[np.argsort(-np.abs(rows[:, own]).sum(axis=0), kind="stable")]
        self.free, self.order, self.values = free, order, np.array(free.levels.values)
        self.rows = rows[:, order]
        terms = self.rows.T[:, None, :] * self.values[:, None]  # (r, levels, m)
        self.best = terms.max(axis=1)
        self.penalties = np.ascontiguousarray(self.best[:, None] - terms)

    def choices(self, first: Array, shift: Array | float = 0.0, everything: bool = True) -> Iterator[tuple[Array, int]]:
        """Yield level numbers (k, r) of what may meet the constraints, and how many others do so for certain.

        `first` are the levels of the first weights, and `shift` (half spaces,) what weights not searched over add.
        """
        from solspace.samplers.kernels.counts import descend

        slack = self.best.sum(axis=0) + shift - self.least
        for i, level in enumerate(first):
            slack = slack - self.penalties[i, level]
        if (slack < -self.doubt).any():
            return
        penalties = np.ascontiguousarray(self.penalties[len(first) :])
        r = len(penalties)
        if not r:
            yield np.array(first, int)[None], 0
            return
        slacks = np.zeros((r + 1, len(slack)))
        slacks[0] = slack
        choice, state, found = np.zeros(r, np.int64), np.zeros(3, np.int64), np.zeros((HELD, r), np.int8)
        while state[0] >= 0:
            certain = int(state[1])
            rows = descend(penalties, self.doubt, slacks, choice, state, found, everything)
            head = np.tile(np.asarray(first, np.int8), (rows, 1))
            yield np.hstack([head, found[:rows]]), int(state[1]) - certain

    def log_sum(self, first: Array) -> float:
        """Return the log of the sum of weights over all choices that begin with `first`."""
        total, certain = -math.inf, 0
        counted = self.free.decided
        for codes, more in self.choices(first, everything=not counted):
            certain += more
            if len(codes):
                weights = np.empty(codes.shape)
                weights[:, self.order] = self.values[codes]
                total = float(np.logaddexp(total, logsumexp(self.free.log_weights(weights))))
        return float(np.logaddexp(total, math.log(certain))) if certain else total


def uniform_limit(free: Free) -> float:
    """Return the log of the number of all weights, which no number of solutions exceeds."""
    return len(free.columns) * math.log(len(free.levels.values))
