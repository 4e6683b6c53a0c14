"""A stand-in for CuPy that runs the package's kernels on the processor: arrays of NumPy, sources compiled as C++."""

from __future__ import annotations

import ctypes
import re
import subprocess
import tempfile
import threading
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

_SCALARS = {
    "int": (np.int32, ctypes.c_int),
    "float": (np.float32, ctypes.c_float),
    "long long": (np.int64, ctypes.c_longlong),
}
_turn = threading.Lock()
"""The emulation keeps its state in globals."""


class _Recording(threading.local):
    launches: list[Any] | None = None
    """What a thread launches while its stream records."""


_recording = _Recording()
_HEADER = Path(__file__).with_name("cuda_on_cpu.h")


class ndarray(np.ndarray):
    def get(self) -> np.ndarray:
        _ask()
        return np.array(self)

    def set(self, given: np.ndarray) -> None:
        assert (given.shape, given.dtype) == (self.shape, self.dtype)
        self[...] = given


def _own(array: Any) -> ndarray:
    return np.array(array).view(ndarray)


def asarray(array: Any) -> ndarray:
    return _own(array)


def empty(shape: Any, dtype: Any) -> ndarray:
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return np.full(size, 0xA5, np.uint8).view(dtype).reshape(shape).view(ndarray)


def zeros(shape: Any, dtype: Any) -> ndarray:
    return _own(np.zeros(shape, dtype))


def full(shape: Any, value: Any) -> ndarray:
    return _own(np.full(shape, value))


def maximum(left: Any, right: Any) -> ndarray:
    return _own(np.maximum(left, right))


def where(condition: Any, left: Any, right: Any) -> ndarray:
    return _own(np.where(condition, left, right))


def ascontiguousarray(array: Any) -> ndarray:
    return _own(np.ascontiguousarray(array))


def flatnonzero(array: Any) -> ndarray:
    return _own(np.flatnonzero(array))


sqrt, log, isfinite = np.sqrt, np.log, np.isfinite


def eye(n: int) -> ndarray:
    return _own(np.eye(n))


def arange(n: int) -> ndarray:
    return _own(np.arange(n))


class linalg:
    @staticmethod
    def cholesky(matrices: Any) -> ndarray:
        """Factorise as the device does, which leaves a matrix that is not positive definite half done."""
        found = np.tril(matrices)
        for own, matrix in zip(found, matrices):
            try:
                own[...] = np.linalg.cholesky(matrix)
            except np.linalg.LinAlgError:
                continue
        return _own(found)

    inv = staticmethod(lambda matrices: _own(np.linalg.inv(matrices)))


class CUDARuntimeError(RuntimeError):
    pass


class failing:
    """From its `launches`-th launch on, the device is lost: whatever asks it for anything raises."""

    left: ClassVar[float] = np.inf

    def __init__(self, launches: int) -> None:
        failing.left = launches

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        failing.left = np.inf


def _ask() -> None:
    if failing.left <= 0:
        raise CUDARuntimeError("cudaErrorIllegalAddress: an illegal memory access was encountered")


class _Device:
    compute_capability = "90"
    attributes: ClassVar = {"MultiProcessorCount": 2, "MaxSharedMemoryPerBlockOptin": 227 << 10, "L2CacheSize": 4096}

    @property
    def mem_info(self) -> tuple[int, int]:
        _ask()
        return 1 << 30, 1 << 30

    def synchronize(self) -> None:
        _ask()


class get_default_memory_pool:
    def free_bytes(self) -> int:
        return 1 << 30

    def free_all_blocks(self) -> None:
        _ask()


class _Stream(nullcontext):
    """A stream; one that could not be made speaks of its own inside when it goes, as CuPy's do."""

    def __init__(self, non_blocking: bool = False, priority: int | None = None) -> None:
        super().__init__()
        _ask()
        self._foreign_stream_ref = None

    def __del__(self) -> None:
        assert self._foreign_stream_ref is None

    @property
    def done(self) -> bool:
        _ask()
        return True

    def begin_capture(self) -> None:
        _ask()
        _recording.launches = []

    def end_capture(self) -> Graph:
        made, _recording.launches = Graph(_recording.launches), None
        return made

    def synchronize(self) -> None:
        _ask()


class Graph:
    """Launches that were recorded; one speaks of its own inside when it goes after its device, as CuPy's do."""

    made: ClassVar[int] = 0

    def __init__(self, launches: list[Any]) -> None:
        self.launches = launches

    def launch(self) -> None:
        Graph.made += 1
        for own, given in self.launches:
            own(*given)

    def __del__(self) -> None:
        _ask()


class _Compiler:
    @staticmethod
    def getVersion() -> tuple[int, int]:
        return 12, 0


_current = _Stream()


class cuda:
    nvrtc = _Compiler
    Device = _Device
    Stream = _Stream
    get_current_stream = staticmethod(lambda: _current)
    alloc_pinned_memory = staticmethod(bytearray)


class RawModule:
    def __init__(self, code: str, options: tuple[str, ...]) -> None:
        defines = tuple(option for option in options if option.startswith("-D"))
        self.library, self.parameters = _compiled(code, defines)

    def get_function(self, name: str) -> Kernel:
        return Kernel(getattr(self.library, f"launch_{name}"), self.parameters[name])


@cache
def _compiled(code: str, defines: tuple[str, ...]) -> tuple[ctypes.CDLL, dict[str, list[str]]]:
    """Return a module's library, compiled once for all tests, and the types of its kernels' parameters."""
    code = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"\1 *\2 = (\1 *)shared_memory;", code)
    code = re.sub(r"__shared__", "static", code)
    text = f'#include "{_HEADER}"\n{code}\n'
    parameters: dict[str, list[str]] = {}
    for name, inside in re.findall(r"__global__ void[^(]*(?:\([^)]*\)\s*)?\b(\w+)\(([^)]*)\)", code):
        inside = re.sub(r"//[^\n]*", "", inside)
        types = [re.match(r"(.*?)\w+$", " ".join(each.split()))[1].strip() for each in inside.split(",")]
        parameters[name] = types
        given = ", ".join(f"*({kind}*)a[{k}]" for k, kind in enumerate(types))
        text += (
            f'extern "C" void launch_{name}(int x, int y, int p, int q, void **a)'
            f" {{ run(x, y, p, q, [=] {{ {name}({given}); }}); }}\n"
        )
    folder = Path(tempfile.mkdtemp())
    (folder / "kernel.cpp").write_text(text)
    command = ["g++", "-std=c++17", "-O1", "-w", "-ffp-contract=off", "-fPIC", "-shared"]
    subprocess.run([*command, *defines, "-o", folder / "kernel.so", folder / "kernel.cpp"], check=True)
    return ctypes.CDLL(str(folder / "kernel.so")), parameters


class Kernel:
    max_dynamic_shared_size_bytes = 0

    def __init__(self, function: Any, parameters: list[str]) -> None:
        self.function, self.parameters = function, parameters

    def __call__(self, grid: tuple[int, ...], block: tuple[int, ...], arguments: Any, shared_mem: int = 0) -> None:
        if _recording.launches is not None:
            _recording.launches.append((self, (grid, block, arguments, shared_mem)))
            return
        failing.left -= 1
        _ask()
        assert len(arguments) == len(self.parameters), (len(arguments), self.parameters)
        assert shared_mem <= 227 << 10
        held = []
        for value, kind in zip(arguments, self.parameters):
            if isinstance(value, np.ndarray):
                assert kind.endswith("*"), kind
                assert value.flags.c_contiguous, (kind, value.shape, value.strides)
                held.append(ctypes.c_void_p(value.ctypes.data))
            else:
                wanted, own = _SCALARS[kind]
                assert type(value) is wanted, (kind, value)
                held.append(own(value.item()))
        pointers = (ctypes.c_void_p * len(held))(*(ctypes.addressof(each) for each in held))
        with _turn:
            self.function(*(*grid, 1)[:2], *(*block, 1)[:2], pointers)
