"""Compiled loops of `mixtures`."""

from __future__ import annotations

import math

import numpy as np

from solspace.system.compiled import njit

HALF = 16
"""Centres on either side of the middle of a block: rounding grows with the square of their number, 3e-14 at 16."""
LANES = 64
"""Points worked on together."""


@njit()
def mixture_rows(x, factor, centres, bias, variance):
    """Return the densities (q, n); see `mixtures`."""
    density = np.empty(x.shape)
    count, step = len(centres), centres[1] - centres[0]
    value, ratio = np.empty(LANES), np.empty(LANES)
    middle_value, middle_ratio, total = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    weight = np.empty(2 * HALF + 1)
    steepest = 1e-300
    for j in range(count - 1):
        steepest = max(steepest, abs(bias[j + 1] - bias[j]))
    half = max(1, min(HALF, int(300.0 / steepest)))  # e^±300 inside a block is safe
    for row in range(x.shape[0]):
        tau = variance[row]
        norm, shrink = 1 / math.sqrt(2 * math.pi * tau), math.exp(-step * step / tau)
        for first in range(0, x.shape[1], LANES):
            lanes = min(LANES, x.shape[1] - first)
            total[:lanes] = 0.0
            for start in range(0, count, 2 * half + 1):
                stop = min(start + 2 * half + 1, count)
                middle = (start + stop) // 2
                for j in range(start, stop):
                    weight[j - start] = math.exp(bias[j] - bias[middle])
                for i in range(lanes):
                    distance = x[row, first + i] - centres[middle]
                    middle_value[i] = math.exp(bias[middle] + factor[row, first + i] - distance * distance / (2 * tau))
                    # where nothing is left there is nothing to carry on, and the ratio may overflow
                    alive = middle_value[i] > 0.0
                    middle_ratio[i] = math.exp(step * (distance - step / 2) / tau) if alive else 1.0
                    value[i], ratio[i] = middle_value[i], middle_ratio[i]
                    total[i] += middle_value[i]
                for j in range(middle + 1, stop):
                    share = weight[j - start]
                    for i in range(lanes):
                        value[i] *= ratio[i]
                        ratio[i] *= shrink
                        total[i] += share * value[i]
                for i in range(lanes):
                    value[i], ratio[i] = middle_value[i], shrink / middle_ratio[i]
                for j in range(middle - 1, start - 1, -1):
                    share = weight[j - start]
                    for i in range(lanes):
                        value[i] *= ratio[i]
                        ratio[i] *= shrink
                        total[i] += share * value[i]
            for i in range(lanes):
                density[row, first + i] = norm * total[i]
    return density
