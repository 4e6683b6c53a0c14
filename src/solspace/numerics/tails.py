"""Tails that fall to zero: where a number too small to be told from zero is the right answer, nobody is warned of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import numpy as np

P = ParamSpec("P")
R = TypeVar("R")


def vanishing(function: Callable[P, R]) -> Callable[P, R]:
    """Let numbers underflow inside of `function`, also for those who told NumPy to warn of it.

    >>> with np.errstate(all="raise"):
    ...     float(vanishing(np.exp)(-1e3))
    0.0
    """

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with np.errstate(under="ignore"):
            return function(*args, **kwargs)

    return call
