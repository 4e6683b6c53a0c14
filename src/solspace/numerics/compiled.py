"""Numba, at arm's length: compiled kernels with a cache that never gets in the way.

Numba is imported at the first call of a compiled function's module, never by ``import solspace``. Compiled code is
cached next to the source where that can be written, in the user's cache folder where it cannot (a read-only
install), and not at all where neither can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from typing import Any


@lru_cache(maxsize=1)
def has_numba() -> bool:
    """Tell whether Numba can be imported, without importing it.

    Examples
    --------
    >>> has_numba() in (True, False)
    True
    """
    return find_spec("numba") is not None


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` with a compilation cache where one can be kept.

    Examples
    --------
    >>> @njit(fastmath=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    import numba

    def compile_lazily(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=True, **options)(function)
        except (RuntimeError, OSError):  # no place to keep a cache: Numba says so when it decorates
            return numba.njit(**options)(function)

    return compile_lazily
