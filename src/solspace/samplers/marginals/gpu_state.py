"""What message passing keeps on a CUDA device, for problems of one shape and target."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.problem import Perceptron
from solspace.samplers.device import DeviceArray, cupy, sent
from solspace.samplers.marginals.gpu_channel import response_table
from solspace.samplers.marginals.gpu_patterns import GpuPatterns
from solspace.samplers.marginals.gpu_signs import FEW, GpuSigns

Patterns = GpuPatterns | GpuSigns
"""Patterns on a device: as bits where they are ±1 and samples are few."""


class State:
    """Fields and means (problems, n, k), responses (problems, m, k), variances and the rest (problems k,), float32.

    `k` columns, samples, to a problem.
    """

    def __init__(self, problems: Sequence[Perceptron], k: int) -> None:
        self.cupy, self.k = cupy(), k
        self.target, self.n, self.m = problems[0].target, problems[0].n, problems[0].m
        few = k <= FEW and all(problem.has_binary_patterns for problem in problems)
        self.patterns: Patterns = GpuSigns(problems) if few else GpuPatterns(problems)
        self.width = len(problems) * k
        self.table = sent(response_table(self.target))
        zeros = self.cupy.zeros
        self.field, self.mean = (zeros((len(problems), self.n, k), np.float32) for _ in range(2))
        self.g = zeros((len(problems), self.m, k), np.float32)
        moments = np.repeat(self.patterns.moments, k).astype(np.float32)
        self.moment, self.variance = sent(moments), sent(moments)
        self.instability, self.spread = (sent(np.full(self.width, x, np.float32)) for x in (0.0, 1.0))

    def messages(self) -> list[DeviceArray]:
        """Return the arrays that the next iteration depends on, columns last."""
        return [self.mean, self.g, self.variance, self.instability, self.spread]

    def by_problem(self, part: DeviceArray) -> DeviceArray:
        """Return an array with its columns as (problems, ..., k)."""
        return part.reshape(len(self.patterns), self.k) if part.ndim == 1 else part
