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
import threading
from collections.abc import Iterable
from functools import lru_cache
from importlib.resources import files
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

    if (name, sizes) in _ahead:
        _ahead[name, sizes].wait()
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
    print(flush=True)
"""
_ahead: dict[tuple[str, Sizes], threading.Event] = {}
"""Modules that were given to other processes, and whether they are done."""


def compile_ahead(modules: Iterable[tuple[str, Sizes]]) -> None:
    """Let processes, one to a core, compile modules into CuPy's cache, the first ones first; do not wait for them.

    Who asks for one of these modules waits until it is there; what failed there is compiled again here.

    >>> compile_ahead([])
    """
    wanted = [one for one in dict.fromkeys(modules) if one not in _ahead]
    if len(wanted) <= _FEW:
        return
    _ahead.update((one, threading.Event()) for one in wanted)
    count = min(len(wanted), os.cpu_count() or 1)
    for k in range(count):
        threading.Thread(target=_compile, args=(wanted[k::count],), daemon=True).start()


def _compile(modules: list[tuple[str, Sizes]]) -> None:
    """Let one process compile `modules`; say of each when it is done."""
    try:
        with subprocess.Popen(
            [sys.executable, "-P", "-c", _COMPILE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True,
        ) as process:  # fmt: skip
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.write("\n".join([json.dumps(sys.path), *map(json.dumps, modules)]) + "\n")
            process.stdin.close()
            for one, _ in zip(modules, process.stdout):
                _ahead[one].set()
    except OSError:
        pass
    for one in modules:
        _ahead[one].set()
