"""Reinforced runs on a CUDA device: `marginals.gpu.GpuMessages` whose field is fed back.

Launches of a burst follow each other without the host; it looks at the end of the burst which runs still move.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.constraints import interval
from solspace.samplers.device import DeviceArray, fetched
from solspace.samplers.localization.noise import GpuNoise
from solspace.samplers.marginals.gpu import GpuMessages
from solspace.samplers.marginals.relaxation import MOVING, Terms
from solspace.samplers.solving.cpu import FIRST


class GpuRuns:
    """`k` runs of one problem, as columns."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence) -> None:
        self.k, self.n, self.messages = k, problem.n, GpuMessages([problem], k)
        self.noise = GpuNoise([seeds], problem.n, k)
        self.stopped = np.zeros(k, bool)
        self.every = np.arange(k)

    def start(self, damping: float) -> None:
        """Set out from small random means."""
        self.messages.mean[...] = np.float32(FIRST) * self.noise.draw(self.every, np.zeros(self.k, int))
        never = np.zeros(self.k)
        terms = Terms(never - 1, never + damping, never + np.inf, never > 0, np.zeros(self.k, int), never + np.inf)
        self.columns = self.messages.columns(self.every, terms)

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations number `steps`, with `shares` of B + h fed back and this much noise added to them."""
        self.columns.share.fill(shares[0])
        for step, size, following in zip(steps, noise, (*shares[1:], shares[-1])):
            self.columns.advance()
            self.noise.stir(self.columns.field, step, size, self.columns.share, following)

    def moving(self) -> Array:
        """Return the columns (j,) that have neither been stopped nor begun to toss about."""
        outcome = fetched(self.columns.whole_numbers)[1]
        return np.flatnonzero((outcome == MOVING) & ~self.stopped)

    def stop(self, lanes: Array) -> None:
        """Leave the columns `lanes` as they are."""
        self.stopped[lanes] = True

    def overlaps(self) -> Array:
        """Return |m|²/n of each column."""
        return self.messages.overlaps()

    def size(self) -> float:
        """Return the mean size of the fields fed back."""
        return float(fetched(abs(self.columns.field).mean()))

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding."""
        whole = self.messages.whole
        lower, upper = (whole.target.margin + end for end in interval(whole.target.potential))
        return fetched(whole.patterns.outside(self._signs(), lower, upper)).ravel()

    def _signs(self) -> DeviceArray:
        return (2 * (self.messages.mean >= 0) - 1).astype(np.int8)

    def signs(self, lanes: Array) -> Array:
        """Return the signs (j, n) of the means of the columns `lanes`."""
        signs = self._signs()
        return fetched(self.messages.cupy.ascontiguousarray(signs.transpose(0, 2, 1))).reshape(self.k, -1)[lanes]
