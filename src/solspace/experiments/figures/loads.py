"""Loads of figures, and loads that show for other parameters what the paper's loads show."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from solspace.measure import Target

if TYPE_CHECKING:
    from solspace.theory.thresholds import Thresholds


def steps(start: float, stop: float, step: float) -> tuple[float, ...]:
    return tuple(round(start + i * step, 6) for i in range(round((stop - start) / step) + 1))


def denser(first: float, start: float, width: float, count: int) -> list[float]:
    """Return the loads of a t–α diagram: the first, and `count` from `start` on, denser close to it."""
    return [first, *(start + width * np.linspace(0, 1, count) ** 2).tolist()]


def fractions(parts: Sequence[float], whole: float) -> tuple[float, ...]:
    """Return these fractions of `whole`, to four digits."""
    return tuple(float(f"{part * whole:.4g}") for part in parts)


@lru_cache(maxsize=32)
def limits(target: Target) -> Thresholds:
    from solspace.theory.thresholds import thresholds

    return thresholds(target)


@lru_cache(maxsize=32)
def telling_times(target: Target, alpha: float) -> tuple[float, ...]:
    """Return the times at which the maxima of φ_t(q) compete, to four digits."""
    from solspace.theory.prediction import predict

    return fractions(predict(target, alpha).telling_times, 1.0)


def rescaled(loads: Sequence[float], target: Target, paper: Target) -> tuple[float, ...]:
    """Return the paper's `loads` for the target `paper` at the same fractions of the capacity of `target`.

    >>> rescaled([0.4, 0.5], Target(temperature=0.7), Target()), rescaled([0.4, 0.5], Target(margin=0.5), Target())
    ((0.4, 0.5), (0.2188, 0.2735))
    """
    if (target.margin, target.potential) == (paper.margin, paper.potential):
        return tuple(loads)
    return fractions([load / _capacity(paper) for load in loads], _capacity(target))


def _capacity(target: Target) -> float:
    from solspace.theory.capacity import capacity

    if (found := capacity(target)) is None:
        words = "the constraints have solutions at every load"
        raise ValueError(f"this figure shows loads up to capacity; {target}: {words}.")
    return found


def sampled(target: Target) -> float:
    """Return the load up to which ASL samples `target`; raise ValueError if there is none, or no end."""
    load = limits(target).asl
    if not load:
        where = "at no load" if load == 0 else "at every load"
        raise ValueError(f"this figure shows loads around the one at which ASL stops; {target}: it samples {where}.")
    return load


def around(target: Target, count: int) -> list[float]:
    """Return loads of a t–α diagram around the cusp of its window of two maxima, or all where it has no cusp."""
    found = limits(target)
    ends = [end for end in (found.dat, found.zero_entropy, found.capacity_rs, found.capacity) if end]
    if not found.asl or found.cusp_time is None:  # red at every load, or green up to the end
        last = min(ends) if ends else 1.0
        return np.linspace(0.03 * last, 0.97 * last, count).tolist()
    last = found.asl + 0.9 * ((ends[0] if ends else 1.2 * found.asl) - found.asl)
    width = last - found.asl
    return denser(found.asl - 0.6 * width, found.asl * (1 + 1e-6), width, count)
