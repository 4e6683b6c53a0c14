"""Reinforced runs on the processor: `marginals.cpu.Messages` whose field is fed back."""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.kernels.products import narrower
from solspace.samplers.localization.noise import Noise
from solspace.samplers.marginals.cpu import Messages
from solspace.samplers.marginals.relaxation import BLOWN, MOVING, Terms, judge

FIRST = 0.05
"""Size of the means that runs start from."""


class CpuRuns:
    """`k` runs of one problem, as columns; those that have ended are left behind once they are many."""

    def __init__(self, problem: Perceptron, k: int, seeds: np.random.SeedSequence, full: bool) -> None:
        self.k, self.messages = k, Messages(problem, k, np.float32, full=full)
        self.noise = Noise(seeds, np.zeros_like(self.messages.mean))
        self.lanes, self.outcome = np.arange(k), np.full(k, MOVING)
        self.best, self.overlap, self.damping = np.full(k, np.inf), np.zeros(k), 0.0

    def start(self, damping: float) -> None:
        """Set out from small random means."""
        self.damping = damping
        self.messages.mean[...] = FIRST * self.noise.draw(self.lanes, np.zeros(self.k, int))

    def advance(self, steps: Array, shares: Array, noise: Array) -> None:
        """Make iterations number `steps`, with `shares` of B + h fed back and this much noise added to them."""
        self._narrow()
        own = len(self.lanes)
        for step, share, size in zip(steps, shares, noise):
            moving = self.outcome[self.lanes] == MOVING
            with np.errstate(all="ignore"):
                change, residual = self.messages.iterate(np.where(moving, 1 - self.damping, 0.0), np.full(own, share))
            found = judge(change, residual, self._terms(own), np.zeros(own), self.best[self.lanes])
            self.outcome[self.lanes[moving & (found == BLOWN)]] = BLOWN
            self.best[self.lanes] = np.fmin(self.best[self.lanes], residual)
            if size:
                drawn = self.noise.draw(self.lanes, np.full(self.k, step))
                self.messages.field[:, :own] += np.float32(size) * drawn[:, self.lanes]
        self.overlap[self.lanes] = self.messages.overlaps()

    def _terms(self, count: int) -> Terms:
        never = np.zeros(count)
        return Terms(never - 1, never, never + np.inf, never > 0, never, never)

    def _narrow(self) -> None:
        """Go on with the columns that move, where so few of them are narrower."""
        moving = self.outcome[self.lanes] == MOVING
        if 0 < moving.sum() <= narrower(self.messages.mean.shape[1], np.float32):
            self.messages, self.lanes = self.messages.take(np.flatnonzero(moving)), self.lanes[moving]

    def moving(self) -> Array:
        """Return the columns (j,) that have neither been stopped nor begun to toss about."""
        return np.flatnonzero(self.outcome == MOVING)

    def stop(self, lanes: Array) -> None:
        """Leave the columns `lanes` as they are."""
        self.outcome[lanes] = BLOWN

    def overlaps(self) -> Array:
        """Return |m|²/n of each column."""
        return self.overlap

    def size(self) -> float:
        """Return the mean size of the fields fed back."""
        return float(np.abs(self.messages.field[:, : len(self.lanes)]).mean())

    def unmet(self) -> Array:
        """Return how many constraints the signs of each column miss, (k,), up to rounding; all of them where it ended."""
        messages, own = self.messages, len(self.lanes)
        signs = np.where(messages.mean >= 0, np.float32(1), np.float32(-1))
        product = messages.products.forward(signs, out=messages._scratch["forward"])[:, :own]
        missed = np.full(self.k, messages.problem.m)
        missed[self.lanes] = messages.problem.target.violated(product).sum(axis=0)
        return missed

    def signs(self, lanes: Array) -> Array:
        """Return the signs (j, n) of the means of the columns `lanes`."""
        place = np.searchsorted(self.lanes, lanes)
        return np.where(self.messages.mean[:, place].T >= 0, 1, -1).astype(np.int8)
