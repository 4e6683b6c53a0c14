"""Loads at which a figure of other constraints, or of another temperature, shows what the paper's shows.

Where solutions end, and where sampling stops, moves with the parameters; so do the loads of a figure. The paper's own are
kept as they are, number by number: results that are in a store stay what they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from solspace.measure import Target

if TYPE_CHECKING:
    from solspace.theory.thresholds import Thresholds


def steps(start: float, stop: float, step: float) -> tuple[float, ...]:
    """Return start, start + step, ..., stop.

    >>> steps(0.1, 0.3, 0.1)
    (0.1, 0.2, 0.3)
    """
    return tuple(round(start + i * step, 6) for i in range(round((stop - start) / step) + 1))


@lru_cache(maxsize=32)
def limits(target: Target) -> Thresholds:
    """Return the thresholds of a target, once found."""
    from solspace.theory.thresholds import thresholds

    return thresholds(target)


@lru_cache(maxsize=32)
def telling_times(target: Target, alpha: float) -> tuple[float, ...]:
    """Return the times at which φ_t(q) of a target tells most, to four digits."""
    from solspace.theory.prediction import predict

    return tuple(float(f"{time:.4g}") for time in predict(target, alpha).telling_times)


def rescaled(loads: Sequence[float], target: Target, paper: Target) -> tuple[float, ...]:
    """Return `loads` of the paper's target at the same shares of the capacity of `target`; as they are where it is the same.

    >>> rescaled([0.4, 0.5], Target(temperature=0.7), Target())
    (0.4, 0.5)
    >>> rescaled([0.4, 0.5], Target(margin=0.5), Target())
    (0.2188, 0.2735)
    """
    if (target.margin, target.potential) == (paper.margin, paper.potential):
        return tuple(loads)
    return shares([load / _capacity(paper) for load in loads], _capacity(target))


def shares(parts: Sequence[float], whole: float) -> tuple[float, ...]:
    """Return the loads that are such parts of a `whole`, to four digits.

    >>> shares([0.25, 0.5], 0.83308)
    (0.2083, 0.4165)
    """
    return tuple(float(f"{part * whole:.4g}") for part in parts)


def sampled(target: Target) -> float:
    """Return the load up to which ASL samples `target`; a sentence where it samples at none, or at all."""
    load = limits(target).asl
    if not load:
        where = "at no load" if load == 0 else "at every load"
        raise ValueError(f"this figure shows loads around the one at which ASL stops; {target}: it samples {where}.")
    return load


def around(target: Target, count: int) -> list[float]:
    """Return the loads of a t–α diagram: one before the window of two maxima opens, `count` behind, denser close to it."""
    found = limits(target)
    ends = [end for end in (found.dat, found.zero_entropy, found.capacity_rs, found.capacity) if end]
    if not found.asl or found.cusp_time is None:  # red at every load, or green up to the end
        last = min(ends) if ends else 1.0
        return np.linspace(0.03 * last, 0.97 * last, count).tolist()
    last = found.asl + 0.9 * ((ends[0] if ends else 1.2 * found.asl) - found.asl)
    inside = found.asl * (1 + 1e-6) + (last - found.asl) * np.linspace(0, 1, count) ** 2
    return [found.asl - 0.6 * (last - found.asl), *inside.tolist()]


def _capacity(target: Target) -> float:
    from solspace.theory.capacity import capacity

    found = capacity(target)
    if found is None:
        raise ValueError(
            f"this figure shows loads up to capacity; {target}: the constraints have solutions at every load."
        )
    return found
