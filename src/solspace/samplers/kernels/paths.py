"""Greedy orders of flips between two weight vectors."""

from __future__ import annotations

import numpy as np

from solspace.system.compiled import FAST, njit


@njit(**FAST)
def greedy(stabilities, changes, low, high, safe):
    """Return the order (k,) in which k flips are made and the unmet constraints (k + 1,) before, between and after them.

    `stabilities` (m,) at the start and their `changes` (k, m) by each flip; a constraint is met between `low` and `high`. The
    next flip is the one after which the squared distances of the stabilities to [low + safe, high - safe] add up to least.
    """
    k, m = changes.shape
    current = stabilities.copy()
    left = np.arange(k)
    order = np.empty(k, np.int64)
    unmet = np.empty(k + 1, np.int64)
    for step in range(k + 1):
        missed = 0
        for j in range(m):
            missed += not (low <= current[j] <= high)
        unmet[step] = missed
        if step == k:
            break
        best, chosen = np.inf, 0
        for i in range(k - step):
            change = changes[left[i]]
            cost = 0.0
            for j in range(m):
                s = current[j] + change[j]
                short = max(low + safe - s, s - high + safe, 0.0)
                cost += short * short
            if cost < best:
                best, chosen = cost, i
        site = left[chosen]
        left[chosen] = left[k - step - 1]
        order[step] = site
        for j in range(m):
            current[j] += changes[site, j]
    return order, unmet
