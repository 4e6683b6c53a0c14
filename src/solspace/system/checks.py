"""Checks of single values, the only ones: each returns the value in its proper type or says what is allowed.

A check is a function (name, value) -> value. Options of samplers, entries of a spec and fields of the page all go
through these.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

from solspace.system.names import unknown

Check = Callable[[str, Any], Any]
"""(name of the entry, value) -> the value in its proper type, or `ValueError`."""


def whole(least: int) -> Check:
    """Return a check for integers of at least `least`.

    >>> whole(1)("n_samples", 16)
    16
    """

    def check(name: str, value: Any) -> int:
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
        return int(value)

    return check


def number(positive: bool = False, infinite: bool = False) -> Check:
    """Return a check for numbers, finite ones unless they may be `infinite`.

    >>> number(positive=True)("alpha", 0.3)
    0.3
    """

    def check(name: str, value: Any) -> float:
        value = value.item() if hasattr(value, "item") and getattr(value, "ndim", 0) == 0 else value
        fine = isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)
        if not fine or (positive and value <= 0) or (math.isinf(value) and not infinite):
            raise ValueError(f"{name} must be a {'positive ' if positive else ''}number; got {value!r}.")
        return float(value)

    return check


def one_of(allowed: Iterable[str], kind: str = "") -> Check:
    """Return a check for one of the `allowed` names.

    >>> one_of(("cpu", "gpu"))("device", "gpu")
    'gpu'
    """
    names = tuple(allowed)

    def check(name: str, value: Any) -> str:
        if not isinstance(value, str) or value not in names:
            raise unknown(kind or name, value, names)
        return value

    return check


def optional(check: Check) -> Check:
    """Return a check that lets None pass."""
    return lambda name, value: None if value is None else check(name, value)


def damping(name: str, value: Any) -> float | str:
    """Return "auto" or a share of the old state from 0 to below 1.

    >>> damping("damping", "auto"), damping("damping", 0)
    ('auto', 0.0)
    """
    if isinstance(value, str) and value == "auto":
        return "auto"
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or not 0 <= float(value) < 1:
        raise ValueError(f'{name} must be "auto" or a number from 0 to below 1; got {value!r}.')
    return float(value)


def sized(value: Any, n: int) -> Any:
    """Return an option's value; `"n"` and `"2n"` stand for multiples of the number of weights.

    >>> sized("2n", 101), sized(100, 101)
    (202, 100)
    """
    if isinstance(value, str) and value[-1:] in "nN" and value[:-1].isdigit() | (value[:-1] == ""):
        return n * int(value[:-1] or 1)
    return value
