"""CUDA sources, compiled at first use for the device and the sizes at hand.

Sizes are compile-time constants: what a chain keeps in registers is an array whose indices the compiler must know. CuPy
compiles in a second or two and keeps what it compiled in the user's cache folder.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from typing import Any

PARTS = {
    "chains": ("random.cuh", "chains.cu"),
    "flips_integer": ("random.cuh", "chain.cuh", "flips_integer.cu"),
    "messages": ("messages.cu",),
    "flips_real": ("random.cuh", "chain.cuh", "flips_real.cu"),
}
"""Source files of each module, in order."""


def source(name: str) -> str:
    """Return the source of a module.

    >>> "philox" in source("chains")
    True
    """
    folder = files(__package__)
    return "\n".join(folder.joinpath(part).read_text(encoding="utf-8") for part in PARTS[name])


@lru_cache(maxsize=64)
def module(name: str, sizes: tuple[tuple[str, int], ...] = ()) -> Any:
    """Return the compiled module `name` with `sizes` as constants, for the current device."""
    from solspace.samplers.device import cupy

    options = ("--std=c++17", *(f"-D{constant}={value}" for constant, value in sizes))
    return cupy().RawModule(code=source(name), options=options)


@lru_cache(maxsize=256)
def kernel(name: str, function: str, sizes: tuple[tuple[str, int], ...] = (), shared_bytes: int = 0) -> Any:
    """Return a kernel that may use `shared_bytes` of shared memory."""
    found = module(name, sizes).get_function(function)
    if shared_bytes > 48 << 10:
        found.max_dynamic_shared_size_bytes = shared_bytes
    return found
