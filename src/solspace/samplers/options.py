"""What a user may ask of message passing, checked once and turned into numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from solspace.problem import Perceptron
from solspace.system.names import unknown

PRECISIONS = ("float32", "float64")
VARIANCES = ("auto", "scalar", "full")


def working_type(precision: str) -> np.dtype[Any]:
    """Return the NumPy type of a `precision`.

    >>> working_type("float32")
    dtype('float32')
    """
    if precision not in PRECISIONS:
        raise unknown("precision", precision, PRECISIONS)
    return np.dtype(precision)


def starting_damping(damping: Any) -> tuple[float, bool]:
    """Return the damping to start from and whether it may grow.

    >>> starting_damping("auto"), starting_damping(0.5)
    ((0.0, True), (0.5, False))
    """
    if isinstance(damping, str):
        if damping != "auto":
            raise ValueError(f'damping must be "auto" or a number from 0 to below 1; got {damping!r}.')
        return 0.0, True
    if isinstance(damping, bool) or not isinstance(damping, (int, float, np.number)) or not 0 <= float(damping) < 1:
        raise ValueError(f'damping must be "auto" or a number from 0 to below 1; got {damping!r}.')
    return float(damping), False


def positive(name: str, value: Any) -> float:
    """Return `value` as a float, which must be positive and finite."""
    if (
        isinstance(value, bool)
        or not isinstance(value, (int, float, np.number))
        or not (np.isfinite(value) and value > 0)
    ):
        raise ValueError(f"{name} must be a positive number; got {value!r}.")
    return float(value)


def counting(name: str, value: Any) -> int:
    """Return `value` as an int, which must be at least 1."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 1:
        raise ValueError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


def choose_variances(problem: Perceptron, variances: str) -> str:
    """Return "scalar" or "full": what is asked for, or for "auto" what the patterns need.

    Patterns of ±1 have x² = 1: both forms are the same and the scalar one is cheaper. For others full variances are
    taken: late in a run few weights are undecided, and what a constraint feels of them is a sum over just these few.
    """
    if variances not in VARIANCES:
        raise unknown("variances", variances, VARIANCES)
    if variances != "auto":
        return variances
    return "scalar" if problem.has_binary_patterns else "full"
