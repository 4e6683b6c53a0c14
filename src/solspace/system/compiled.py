"""Numba, at arm's length: compiled kernels with a cache that never gets in the way.

Modules with compiled code are imported at first use, never by ``import solspace``, and Numba with them. Compiled code
is kept next to the source where that can be written, in the user's cache folder where it cannot (a read-only install),
and not at all where neither can or where the disk is full. A damaged file of the cache counts as none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
"""How loops over arrays are compiled: products and sums may be fused, and nothing else that changes a result."""


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

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            dispatcher = numba.njit(cache=True, **options)(function)
        except (RuntimeError, OSError):  # no folder to keep a cache in: Numba says so when it decorates
            return numba.njit(**options)(function)
        _forgive(dispatcher)
        return dispatcher

    return decorate


def _forgive(dispatcher: object) -> None:
    """Let compilation succeed where its result cannot be written or read: the cache folder may vanish or fill up, and
    its files may be empty, cut short or damaged, or hold what another process put there at the same moment.
    """
    cache: Any = getattr(dispatcher, "_cache", None)
    if hasattr(cache, "save_overload") and hasattr(cache, "load_overload"):
        cache.save_overload = _forgiving(cache.save_overload, cache.flush)
        cache.load_overload = _forgiving(_as_asked(cache.load_overload), cache.flush)


def _as_asked(load: Callable[..., Any]) -> Callable[..., object]:
    """Return `load` that takes code for arguments of other types for none.

    Numba numbers the files of a cache by what it finds there: two processes that save at once take the same number, and one
    finds the other's code under its own name.
    """

    def call(asked: Any, *more: object) -> object:
        found = load(asked, *more)
        wanted = tuple(getattr(asked, "args", asked))
        return found if found is None or tuple(found.signature.args) == wanted else None

    return call


def _forgiving(method: Callable[..., object], flush: Callable[[], None]) -> Callable[..., object]:
    def call(*arguments: object) -> object:
        try:
            return method(*arguments)
        except OSError:
            return None
        except Exception:  # the files are pickles: a damaged one can raise anything
            with suppress(Exception):
                flush()  # an empty index in place of the damaged one, so that the next process finds a whole cache
            return None

    return call
