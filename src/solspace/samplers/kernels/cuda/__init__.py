"""CUDA sources, compiled at first use for the device and the sizes at hand.

Sizes are compile-time constants: what a chain keeps in registers is an array whose indices the compiler must know. CuPy
compiles in a second or two and keeps what it compiled in the user's cache folder. A sweep over many shapes needs a
hundred modules: `compile_ahead` lets processes of their own fill that folder side by side.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
from typing import Any

Sizes = tuple[tuple[str, int], ...]

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


@lru_cache(maxsize=1024)
def module(name: str, sizes: Sizes = ()) -> Any:
    """Return the compiled module `name` with `sizes` as constants, for the current device."""
    from solspace.samplers.device import cupy

    options = ("--std=c++17", *(f"-D{constant}={value}" for constant, value in sizes))
    return cupy().RawModule(code=source(name), options=options)


@lru_cache(maxsize=2048)
def kernel(name: str, function: str, sizes: Sizes = (), shared_bytes: int = 0) -> Any:
    """Return a kernel that may use `shared_bytes` of shared memory."""
    found = module(name, sizes).get_function(function)
    if shared_bytes > 48 << 10:
        found.max_dynamic_shared_size_bytes = shared_bytes
    return found


_FEW = 6
"""Modules that are sooner compiled one after another."""
_COMPILE = """
import json, sys
sys.path[:] = json.loads(sys.stdin.readline())
from solspace.samplers.kernels.cuda import module
for line in sys.stdin:
    name, sizes = json.loads(line)
    module(name, tuple(map(tuple, sizes))).compile()
"""
_compiled: set[tuple[str, Sizes]] = set()


def compile_ahead(modules: Iterable[tuple[str, Sizes]]) -> None:
    """Compile modules into CuPy's cache, side by side on all cores; whatever fails there is compiled again at its use.

    >>> compile_ahead([])
    """
    wanted = [one for one in dict.fromkeys(modules) if one not in _compiled]
    if len(wanted) > _FEW:
        count = min(len(wanted), os.cpu_count() or 1)
        command = [sys.executable, "-c", _COMPILE]
        at_work = []
        for k in range(count):
            lines = [json.dumps(sys.path), *map(json.dumps, wanted[k::count])]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            assert process.stdin is not None
            process.stdin.write("\n".join(lines) + "\n")
            process.stdin.close()
            at_work.append(process)
        for process in at_work:
            process.wait()
    _compiled.update(wanted)
