"""CUDA sources, compiled at first use for the device and the sizes at hand.

Sizes are compile-time constants: what a chain keeps in registers is an array whose indices the compiler must know. CuPy compiles
in a second or two and keeps the result in the user's cache folder. A sweep over many shapes needs a hundred modules, which
`compile_ahead` lets other processes compile into that folder side by side. They set up no device: that takes longer.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from importlib import resources
from pathlib import Path
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

    binary, compiling = _binary(name, sizes), _ahead.get((name, sizes))
    while compiling is not None and compiling.is_alive() and not binary.exists():
        time.sleep(0.01)
    if binary.exists():
        found = cupy().RawModule(path=str(binary))
        with suppress(Exception):  # a file that was damaged: as if it were not there
            _ = found.module
            return found
    return cupy().RawModule(code=source(name), options=_options(sizes))


def _options(sizes: Sizes) -> tuple[str, ...]:
    return ("--std=c++17", *(f"-D{constant}={value}" for constant, value in sizes))


def _ahead_options(sizes: Sizes) -> tuple[str, ...]:
    from solspace.samplers.device import cupy

    return (*_options(sizes), "-ftz=true", f"-arch=sm_{cupy().cuda.Device().compute_capability}")


def _binary(name: str, sizes: Sizes) -> Path:
    """Return the file, in CuPy's folder, of a module that was compiled ahead for the current device."""
    from solspace.samplers.device import cupy

    known = json.dumps([source(name), _ahead_options(sizes), cupy().cuda.nvrtc.getVersion()])
    folder = os.environ.get("CUPY_CACHE_DIR") or Path.home() / ".cupy" / "kernel_cache"
    return Path(folder) / f"solspace-{hashlib.sha256(known.encode()).hexdigest()[:32]}.cubin"


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


_FEW = 2  # modules that are sooner compiled one after another
_COMPILE = """
import json, os, sys
sys.path[:] = json.loads(sys.stdin.readline())
from cupy.cuda import nvrtc
for line in sys.stdin:
    code, options, path = json.loads(line)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    program = nvrtc.createProgram(code, "kernel.cu", (), ())
    nvrtc.compileProgram(program, tuple(options))
    own = f"{path}.{os.getpid()}"
    with open(own, "wb") as file:
        file.write(nvrtc.getCUBIN(program) + b"\\0")  # CuPy leaves the last byte, which is 0, out
    os.replace(own, path)
    nvrtc.destroyProgram(program)
    print(flush=True)
"""  # compiles what it is sent, each into a file that is there as a whole or not at all
_ahead: dict[tuple[str, Sizes], threading.Thread] = {}  # the threads that wait for the processes that compile modules


def compile_ahead(modules: Iterable[tuple[str, Sizes]]) -> None:
    """Compile modules into CuPy's folder by processes, one to a core, the first ones first; do not wait for them.

    `module` waits for one of these until it is there; where that failed, it compiles the source itself.

    >>> compile_ahead([])
    """
    files = {one: _binary(*one) for one in dict.fromkeys(modules) if one not in _ahead}
    wanted = [one for one, file in files.items() if not file.exists()]
    if len(wanted) <= _FEW:
        return
    count = min(len(wanted), os.cpu_count() or 1)
    for own in (wanted[k::count] for k in range(count)):
        tasks = [(source(name), _ahead_options(sizes), str(files[name, sizes])) for name, sizes in own]
        lines = "\n".join(map(json.dumps, (sys.path, *tasks)))
        thread = threading.Thread(target=_compile, args=(lines,), daemon=True)
        _ahead.update(dict.fromkeys(own, thread))
        thread.start()


def _compile(lines: str) -> None:
    with suppress(OSError):
        command = [sys.executable, "-P", "-c", _COMPILE]
        subprocess.run(command, input=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
