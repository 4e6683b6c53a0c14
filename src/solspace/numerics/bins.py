"""Bins for histograms of values that may lie on a lattice, as the stabilities of ±1 weights on ±1 patterns do.

Bins that hold now more, now fewer points of the lattice draw stripes which are not there. So a bin holds a whole number of
them, and its edges lie between them.
"""

from __future__ import annotations

import numpy as np

from solspace.numerics.arrays import Reals


def spacing(values: Reals, n: int) -> float | None:
    """Return 2/√n where `values` (any number,) lie on a lattice of that step; None where they do not.

    >>> spacing(np.array([0.5, -0.5, 2.5]), 16), spacing(np.array([0.5, 0.6]), 16)
    (0.5, None)
    """
    step = 2 / np.sqrt(n)
    place = (values - values[0]) / step
    return float(step) if np.abs(place - np.rint(place)).max() < 1e-3 else None


def bins(values: Reals, margin: float, lattice: float | None = None) -> Reals:
    """Return edges of bins for stabilities, none of which reaches across the margin where none lies below it.

    `lattice` is the spacing of the values.

    >>> bins(np.array([0.25, 0.25, 0.75, 1.25]), 0.0, 0.5)
    array([0., 1., 2.])
    """
    width = max(3.5 * values.std() / len(values) ** (1 / 3), (values.max() - values.min()) / 100, 1e-12)
    if lattice is None:
        low = margin + width * np.floor((values.min() - margin) / width)
    else:
        width = lattice * max(1, round(width / lattice))
        low = values.min() - lattice / 2
    return np.arange(low, values.max() + 1.01 * width, width)
