"""Numba's compiler with a cache that never gets in the way, timed.

Modules with compiled code, and Numba with them, are imported at first use. Compiled code is cached next to the source, in the
user's cache folder where the source is read-only, and not at all where neither can be written. The first run on a machine
compiles for half a minute, which time limits do not count (`seconds`) and progress bars show (`watchers`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from types import ModuleType
from typing import Any

FAST = {"nogil": True, "error_model": "numpy", "fastmath": {"contract", "nsz"}}
"""How loops over arrays are compiled: products and sums may be fused, and nothing else that changes a result."""
watchers: list[Callable[[bool], None]] = []
"""Called with True when a kernel starts to compile, and with False when it is compiled."""
_spent, _begun, _depth = 0.0, 0.0, 0


class JitDisabled(RuntimeError):
    """NUMBA_DISABLE_JIT is set, but kernels are needed that run only when compiled."""


@cache
def import_numba() -> ModuleType:
    """Import Numba, time what it compiles, and let forks wait until no thread compiles.

    In a child that is forked while another thread compiles, Numba's lock would never be released.
    """
    import numba
    from numba.core import event
    from numba.core.compiler_lock import global_compiler_lock as lock

    class Timing(event.Listener):
        def on_start(self, event: object) -> None:
            _start(watchers)

        def on_end(self, event: object) -> None:
            _stop(watchers)

    event.register("numba:compile", Timing())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)
        os.register_at_fork(after_in_child=watchers.clear)  # bars are the parent's
    return numba


def require_jit() -> None:
    """Raise JitDisabled where Numba is kept from compiling."""
    if import_numba().config.DISABLE_JIT:
        raise JitDisabled(
            "samplers need compiled kernels, but NUMBA_DISABLE_JIT keeps Numba from compiling: unset it, or set it to 0."
        )


def seconds() -> float:
    """Return the seconds that this process has spent on compiling and on the cache."""
    return _spent + (time.monotonic() - _begun if _depth else 0.0)


# Numba holds its lock around all of these: one thread at a time, though calls nest
def _start(watchers: Sequence[Callable[[bool], None]] = ()) -> None:
    global _begun, _depth
    if not _depth:
        _begun = time.monotonic()
        for watcher in tuple(watchers):
            watcher(True)
    _depth += 1


def _stop(watchers: Sequence[Callable[[bool], None]] = ()) -> None:
    global _spent, _depth
    _depth -= 1
    if not _depth:
        for watcher in tuple(watchers):
            watcher(False)
        _spent += time.monotonic() - _begun


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator: `numba.njit` with a compilation cache where one can be kept.

    >>> @njit(fastmath=True)
    ... def double(x):
    ...     return 2 * x
    >>> double(3)
    6
    """
    compile = import_numba().njit

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            dispatcher = compile(cache=True, **options)(function)
        except (RuntimeError, OSError):  # no folder for a cache, which Numba notices when it decorates
            return compile(**options)(function)
        if (kept := getattr(dispatcher, "_cache", None)) is not None:
            for name in ("save_overload", "load_overload"):
                setattr(kept, name, _guarded(getattr(kept, name), kept.flush))
        return dispatcher

    return decorate


def variant(value: object) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds `value`, on which a closure depends, to the closure's name.

    Numba names compiled code by a function's name and a counter that starts anew in each process. Where code cached by two
    processes meets in a third, names may coincide; the linker then takes the code that was loaded first for both.
    """

    def rename(function: Callable[..., Any]) -> Callable[..., Any]:
        function.__qualname__ += f"_{value}"
        return function

    return rename


def _guarded(method: Callable[..., Any], flush: Callable[[], None]) -> Callable[..., Any]:
    """Return a method of a cache, timed and without errors: its folder may vanish or fill up, its files may be damaged.

    Numba numbers the files: two processes that save at once take the same number, and one finds the other's code, which counts
    as none.
    """

    def call(signature: Any, *more: object) -> object:
        _start()
        try:
            found = method(signature, *more)
            wanted = tuple(getattr(signature, "args", signature))
            return found if found is None or tuple(found.signature.args) == wanted else None
        except OSError:
            return None
        except Exception:  # the files are pickles: a damaged one can raise anything
            with suppress(Exception):
                flush()  # an empty index in place of the damaged one, so that the next process finds a whole cache
            return None
        finally:
            _stop()

    return call
