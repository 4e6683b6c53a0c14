"""Intercepts given the weights, from their exact law on a line: N(b; 0, width²) ∏_μ W(s_μ + y_μ b).

The weights are localized with the intercept integrated out. Its law is then tabulated where it has mass, by grids that close in
on it, and drawn from; some steps of slice sampling, which leave the law as it is, remove what the grid has rounded.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.problem import Perceptron

REACH = 8.5  # widths of the prior within which intercepts lie
POINTS = 128  # of a grid
ZOOMS = 5
NEGLIGIBLE = 30.0  # the log density, below its maximum, that a grid leaves out
STEPS = 6  # of slice sampling


def draw_intercepts(problem: Perceptron, weights: Array, seeds: np.random.SeedSequence) -> Array:
    """Return intercepts (k,) of `weights` (k, n), each from its own stream.

    Where no intercept meets a hard constraint, it is one of those that miss the fewest.
    """
    bare = problem.stabilities(weights, np.zeros(len(weights)))
    grid, height, allowed = _grids(problem, bare)
    chance = np.exp(height - height.max(axis=1, keepdims=True))
    cumulative = np.cumsum(chance, axis=1) / chance.sum(axis=1, keepdims=True)
    found = np.empty(len(weights))
    for i, own in enumerate(bare):
        random = generator(seeds, i, 2)
        found[i] = grid[i, min(int(np.searchsorted(cumulative[i], random.random(), side="right")), POINTS - 1)]
        if allowed[i]:
            found[i] = _sliced(problem, own, found[i], grid[i, 0], grid[i, -1], random)
    return found


def _grids(problem: Perceptron, bare: Array) -> tuple[Array, Array, Array]:
    """Return grids (k, POINTS) where the laws have their mass, the log densities there, and whether there is any, (k,)."""
    width, signs, every = _width(problem), problem.signs.astype(float), np.arange(len(bare))
    low, high = np.full(len(bare), -REACH * width), np.full(len(bare), REACH * width)
    for _ in range(ZOOMS):
        grid = low[:, None] + ((high - low) / (POINTS - 1))[:, None] * np.arange(POINTS)
        height = np.empty(grid.shape)
        for j in range(POINTS):
            height[:, j] = problem.log_weights(bare + grid[:, j, None] * signs)
        height -= grid**2 / (2 * width**2)
        allowed = np.asarray(np.isfinite(height).any(axis=1))
        for i in np.flatnonzero(~allowed):  # closer to where the fewest constraints are missed
            missed = problem.target.violated(bare[i] + grid[i, :, None] * signs).sum(axis=1)
            height[i] = np.where(missed == missed.min(), 0.0, -np.inf)
        inside = height > height.max(axis=1, keepdims=True) - NEGLIGIBLE
        first, last = inside.argmax(axis=1), POINTS - 1 - inside[:, ::-1].argmax(axis=1)
        low, high = grid[every, np.maximum(first - 1, 0)], grid[every, np.minimum(last + 1, POINTS - 1)]
    return grid, height, allowed


def _sliced(
    problem: Perceptron, bare: Array, start: float, low: float, high: float, random: np.random.Generator
) -> float:
    """Return an intercept after some steps of slice sampling between `low` and `high`, from `start`, which is allowed."""

    def log_density(b: float) -> float:
        return float(problem.log_weights(bare + b * problem.signs)) - b * b / (2 * _width(problem) ** 2)

    here = start
    for _ in range(STEPS):
        level = log_density(here) - random.exponential()
        left, right = low, high
        while True:
            there = random.uniform(left, right)
            if log_density(there) >= level or right - left < 1e-12 * (high - low):
                break
            left, right = (there, right) if there < here else (left, there)
        here = there if log_density(there) >= level else here
    return here


def _width(problem: Perceptron) -> float:
    assert problem.intercept is not None
    return problem.intercept
