"""CUDA sources, compiled at first use for the device and the sizes at hand.

Sizes are compile-time constants: what a chain keeps in registers is an array whose indices the compiler must know. CuPy compiles
in a second or two and keeps the result in the user's cache folder. A sweep over many shapes needs a hundred modules, which
`compile_ahead` compiles side by side.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from typing import Any

Sizes = tuple[tuple[str, int | str], ...]

PARTS = {
    "chains": ("random.cuh", "chains.cu"),
    "finish": ("random.cuh", "finish.cu"),
    "flips_integer": ("random.cuh", "chain.cuh", "flips_integer.cu"),
    "messages": ("messages.cu",),
    "noise": ("random.cuh", "noise.cu"),
    "patterns": ("patterns.cu",),
    "flips_real": ("random.cuh", "chain.cuh", "flips_real.cu"),
    "signs": ("signs.cu",),
}  # source files of each module, in order


def source(name: str) -> str:
    """Return the source of a module.

    >>> "philox" in source("chains")
    True
    """
    folder = resources.files(__package__)
    return "\n".join(folder.joinpath(part).read_text(encoding="utf-8") for part in PARTS[name])


@lru_cache(maxsize=1024)
def module(name: str, sizes: Sizes = ()) -> Any:
    """Return the compiled module `name` with `sizes` as constants, for the current device."""
    from solspace.samplers.device import cupy

    constants = (f"-D{constant}={value}" for constant, value in sizes)
    return cupy().RawModule(code=source(name), options=("--std=c++17", *constants))


@lru_cache(maxsize=2048)
def kernel(name: str, function: str, sizes: Sizes = (), shared_bytes: int = 0, beside: bool = False) -> Any:
    """Return a kernel that may use `shared_bytes` of shared memory, and is to run `beside` others that use some.

    A multiprocessor divides its memory into cache and shared memory, and takes on only what agrees with that division: those
    that run beside each other ask for the same, all that can be shared.
    """
    found = module(name, sizes).get_function(function)
    if shared_bytes > 48 << 10:
        found.max_dynamic_shared_size_bytes = shared_bytes
    if beside:
        found.preferred_shared_memory_carveout = 100
    return found


def compile_ahead(modules: Iterable[tuple[str, Sizes]]) -> None:
    """Compile modules by threads, one to a core, the first ones first; do not wait for them."""
    wanted = list(dict.fromkeys(modules))
    waiting = iter(wanted)

    def compile() -> None:
        with suppress(Exception):  # it is met again where the module is needed
            for one in waiting:
                _ = module(*one).module

    for _ in range(min(len(wanted), os.cpu_count() or 1)):
        threading.Thread(target=compile, daemon=True).start()
