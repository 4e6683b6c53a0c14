"""Checks of single values: each returns the value in its proper type or says in a sentence what is allowed."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from typing import Any

from solspace.system.names import unknown

Check = Callable[[str, Any], Any]
"""(name of the entry, value) -> the value in its proper type, or `ValueError`."""


def whole(least: int) -> Check:
    """Return a check for integers of at least `least`."""

    def check(name: str, value: Any) -> int:
        value = value.item() if hasattr(value, "item") else value
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
            raise ValueError(f"{name} must be an integer of at least {least}; got {value!r}.")
        return int(value)

    return check


def number(positive: bool = False) -> Check:
    """Return a check for numbers; only a temperature may be infinite."""

    def check(name: str, value: Any) -> float:
        value = value.item() if hasattr(value, "item") else value
        fine = isinstance(value, numbers.Real) and not isinstance(value, bool) and not math.isnan(value)
        if not fine or (positive and value <= 0) or (math.isinf(value) and name != "temperature"):
            raise ValueError(f"{name} must be a {'positive ' if positive else ''}number; got {value!r}.")
        return float(value)

    return check


def one_of(kind: str, allowed: tuple[str, ...]) -> Check:
    """Return a check for one of the `allowed` names."""

    def check(name: str, value: Any) -> str:
        if value not in allowed:
            raise unknown(kind, value, allowed)
        return value

    return check


def sweeps(name: str, value: Any) -> Any:
    """Return a number of sweeps: an integer, or `"n"`, `"2n"`, ... for multiples of the number of weights."""
    if isinstance(value, str):
        if sized(value, 1) == value:
            raise ValueError(
                f"{name} must be a positive integer or a multiple of n such as 'n' or '2n'; got {value!r}."
            )
        return value.lower()
    return whole(1)(name, value)


def sized(value: Any, n: int) -> Any:
    """Return an option's value; `"n"` and `"2n"` stand for multiples of the number of weights."""
    if isinstance(value, str) and value[-1:] in "nN" and value[:-1].isdigit() | (value[:-1] == ""):
        return n * int(value[:-1] or 1)
    return value
