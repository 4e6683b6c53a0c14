"""What message passing works on: the weights that are free, and the constraints that act on them.

Clamped weights add constants to the stabilities; constraints of one sample weight share a temperature; an intercept is one more
weight with a Gaussian prior. Where a problem has none of these, its patterns are used as they are.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from solspace.measure import Target
from solspace.measure.priors import Binary, Gaussian, Levels, Prior
from solspace.numerics.arrays import Array, Channel
from solspace.problem import Perceptron


class Factors:
    """The free weights of `problem` and its constraints.

    Attributes
    ----------
    free : ndarray or slice
        Numbers of the weights that are not clamped, n' in all.
    reduced : Perceptron
        Problem of the free weights alone: patterns rescaled to theirs over √n', no stabilities of clamped weights.
    offset : ndarray or None
        (m,) stabilities of the clamped weights.
    groups : list of (Target, ndarray or slice)
        Targets at the temperature of a sample weight, and the constraints that have it.
    mean, variance, deviation : float
        Mean, variance and standard deviation of a weight under the prior.
    """

    def __init__(self, problem: Perceptron) -> None:
        self.problem, self.n = problem, problem.n
        self.free: Array | slice = slice(None)
        self.reduced, self.offset = problem, None
        if problem.clamped:
            self.free = np.setdiff1d(np.arange(problem.n), list(problem.clamped))
            if not len(self.free):
                raise ValueError("all weights are clamped: there is nothing to compute.")
            self.offset = self.blank() @ problem.patterns.T.astype(float) / np.sqrt(problem.n)
            scale = np.sqrt(len(self.free) / problem.n)
            self.reduced = Perceptron(problem.patterns[:, self.free] * scale, target=problem.target)
        self.groups: list[tuple[Target, Array | slice]] = [(problem.target, slice(None))]
        if problem.sample_weight is not None:
            target, powers = problem.target, problem.sample_weight
            self.groups = [
                (target.replace(temperature=target.temperature / power), np.flatnonzero(powers == power))
                for power in np.unique(powers).tolist()
            ]
        mean, variance = problem.target.prior.marginals(0.0, np.zeros(1))
        self.mean, self.variance, self.deviation = float(mean[0]), float(variance[0]), float(np.sqrt(variance[0]))

    def blank(self) -> Array:
        """Return (n,) zeros, with clamped weights at their values."""
        weights = np.zeros(self.n)
        weights[list(self.problem.clamped)] = list(self.problem.clamped.values())
        return weights

    @cached_property
    def matrix(self) -> Array:
        """(m, n') stabilities per free weight in units of `deviation`; with an intercept, in units of its width, (m, n' + 1)."""
        matrix = self.reduced.patterns.astype(np.float64) / np.sqrt(self.reduced.n)
        matrix *= self.deviation
        width = self.problem.intercept
        return matrix if width is None else np.hstack([matrix, width * self.problem.signs[:, None]])

    def channel(self, omega: Array, variance: Array) -> Channel:
        """Return log Z, g and dg (k, m) at the means `omega` of the free weights' stabilities."""
        if self.offset is not None:
            omega = omega + self.offset
        if len(self.groups) == 1:
            return self.groups[0][0].channel(omega, variance)
        found = np.empty((3, *omega.shape))
        for target, rows in self.groups:
            found[:, :, rows] = target.channel(omega[:, rows], variance[:, rows])
        return found[0], found[1], found[2]

    def whole(self, rows: Array, fill: bool = True) -> Array:
        """Return rows (k, n) of all weights for rows (k, n') of the free ones; clamped ones at their values, or zero."""
        if isinstance(self.free, slice):
            return rows
        values = np.tile(self.blank() if fill else np.zeros(self.n), (len(rows), 1))
        values = values.astype(np.result_type(rows.dtype, self.fixed.dtype if fill else rows.dtype))
        values[:, self.free] = rows
        return values

    @cached_property
    def fixed(self) -> Array:
        """Values of the clamped weights, in the type of the prior's weights."""
        values = np.array(list(self.problem.clamped.values()))
        integer = (values == np.rint(values)).all() and np.abs(values).max(initial=0) < 128
        return values.astype(np.int8) if integer else values

    def log_constant(self, field: Array, time: Array) -> Array:
        """Return (k,) log of what clamped weights contribute: exp(⟨h, w⟩ - t |w|²/2) in the fields (k, n), and their prior."""
        values = np.array(list(self.problem.clamped.values()))
        prior = self.problem.target.prior
        if isinstance(prior, Levels):
            total = float(sum(prior.log_weights[prior.values.index(value)] for value in values))
        elif isinstance(prior, Gaussian):
            total = float(-(np.log(2 * np.pi * prior.variance) + values**2 / prior.variance).sum() / 2)
        else:
            total = 0.0
        return field[:, list(self.problem.clamped)] @ values - time * (values @ values) / 2 + total


def gap(prior: Prior) -> float | None:
    """Return the smallest distance of two values of a weight, None for real ones.

    >>> from solspace.measure.priors import as_prior
    >>> gap(as_prior("binary")), gap(as_prior("levels(-3,0,1)")), gap(as_prior("gaussian"))
    (2.0, 1.0, None)
    """
    if isinstance(prior, Levels):
        return float(np.diff(prior.values).min())
    return 2.0 if isinstance(prior, Binary) else None
