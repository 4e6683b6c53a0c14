"""Where samplers run: the processor, or a CUDA device through CuPy, which is imported at the first use of a device."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from solspace.numerics.arrays import Array
from solspace.system.checks import choice, install, unknown

if TYPE_CHECKING:
    from cupy import ndarray

T = TypeVar("T")
DeviceArray: TypeAlias = "ndarray"  # an array of CuPy's, which lies on the device
DEVICES = ("cpu", "gpu", "auto")
_SMALL = 1 << 16  # bytes that a driver copies at once, page-locked or not
_BUFFER = 1 << 24


class NoDevice(RuntimeError):
    """There is no device; the message says what is missing."""


class LostDevice(OSError):
    """A device stopped answering in the middle of a run."""


def device_option() -> Any:
    return choice("cpu", DEVICES, "cpu, gpu, or auto: a GPU if there is one")


def resolve(device: str) -> str:
    """Return `"cpu"` or `"gpu"`, whichever `device` stands for on this machine.

    >>> resolve("cpu")
    'cpu'
    """
    if device not in DEVICES:
        raise unknown("device", device, DEVICES)
    if device == "auto":
        return "cpu" if missing() else "gpu"
    if device == "gpu" and missing():
        raise NoDevice(f"device='gpu' {missing()} device='auto' falls back to the CPU.")
    return device


@lru_cache(maxsize=1)
def missing() -> str:
    """Return what a GPU run lacks on this machine, as the end of a sentence; empty if nothing.

    >>> isinstance(missing(), str)
    True
    """
    if find_spec("cupy") is None:
        return f"needs CuPy: {install('gpu')} for CUDA 12, gpu13 in place of gpu for CUDA 13."
    # as many launches side by side as the driver allows; read when a process first turns to the device
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    try:
        import cupy

        if cupy.cuda.runtime.getDeviceCount() > 0:
            return ""
    except ImportError as error:
        return f"needs CuPy, which is installed but cannot be imported: {error}"
    except Exception as error:  # the driver's absence shows as one of several CuPy errors
        return f"needs a CUDA device and its driver; CuPy finds none ({error})."
    return "needs a CUDA device; CuPy finds none."


def cupy() -> Any:
    """Return the CuPy module; raise `NoDevice` if there is no device."""
    resolve("gpu")
    import cupy

    return cupy


def _reuse(idle: list[T], make: Callable[[], T]) -> T:
    try:
        return idle.pop()  # one statement: other threads take from the list too
    except IndexError:
        return make()


@lru_cache(maxsize=1)
def _stream_type() -> Any:
    # Streams live as long as the process: CuPy's memory belongs to them. CuPy's own way to end one prints errors where a stream
    # could not be made: when a device is lost, or a process ends while its threads still make streams.
    return type("Stream", (cupy().cuda.Stream,), {"__del__": lambda self: None})


idle_streams: list[Any] = []
_urgent_streams: list[Any] = []
_idle_buffers: list[Array] = []


def stream() -> Any:
    """Return a stream that is not in use; to be given to `idle_streams` afterwards."""
    return _reuse(idle_streams, lambda: _stream_type()(non_blocking=True))


@contextmanager
def own_stream() -> Iterator[None]:
    """Let what the block asks of the device go beside what other threads ask, and before launches that wait for room there."""

    def make() -> Any:
        try:
            return _stream_type()(non_blocking=True, priority=-1)
        except TypeError:  # CuPy 13 knows no priorities
            return _stream_type()(non_blocking=True)

    own = _reuse(_urgent_streams, make)
    with own:
        yield
        own.synchronize()
    _urgent_streams.append(own)


def fetched(array: DeviceArray) -> Array:
    """Return a copy of `array` on the host, once the current stream is through."""
    # a copy into ordinary memory that has to wait keeps other threads from launching anything; waiting for a stream does not
    cupy().cuda.get_current_stream().synchronize()
    found: Array = array.get()
    return found


def sent(array: Array) -> DeviceArray:
    array = np.ascontiguousarray(array)
    if array.nbytes > _SMALL:
        # CuPy would take new page-locked memory of this very size, and while it is made, no other thread can send anything
        return sent_together([array])[0]
    there = cupy().empty(array.shape, array.dtype)
    if array.size:
        there.set(array)
    return there


def sent_together(arrays: Sequence[Array]) -> DeviceArray:
    """Return copies of arrays of one shape and type on the device, as one array, by way of page-locked memory that is kept."""
    there = cupy().empty((len(arrays), *arrays[0].shape), arrays[0].dtype)
    to, own = there.reshape(-1).view(np.uint8), cupy().cuda.get_current_stream()
    buffer = _reuse(_idle_buffers, lambda: np.frombuffer(cupy().cuda.alloc_pinned_memory(_BUFFER), np.uint8, _BUFFER))
    begun, filled = 0, 0

    def flush() -> None:
        nonlocal begun, filled
        to[begun : begun + filled].set(buffer[:filled])
        own.synchronize()
        begun, filled = begun + filled, 0

    for array in arrays:
        rest = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        while len(rest):
            part = rest[: _BUFFER - filled]
            buffer[filled : filled + len(part)] = part
            filled, rest = filled + len(part), rest[len(part) :]
            if filled == _BUFFER:
                flush()
    if filled:
        flush()
    _idle_buffers.append(buffer)
    return there


def recorded(launches: Callable[[], None]) -> Recorded | None:
    """Return what makes `launches` again at the cost of one, or None where CuPy cannot record them.

    They must be of kernels alone, loaded before, with the same arguments every time.
    """
    own = stream()
    try:
        with own:
            own.begin_capture()
            launches()
            graph = own.end_capture()
    except Exception:  # a device that will say what is wrong when they are made one by one
        return None
    idle_streams.append(own)
    return Recorded(graph)


class Recorded:
    """Launches that were recorded."""

    def __init__(self, graph: Any) -> None:
        self.graph = graph

    def launch(self) -> None:
        self.graph.launch()

    def __del__(self) -> None:
        # CuPy prints errors where a graph goes after its device, or with the process: such a one stays
        if sys.is_finalizing() or not _answers():
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.graph))


def _answers() -> bool:
    try:
        return bool(cupy().cuda.Device().mem_info)
    except Exception:
        return False


@contextmanager
def device_errors() -> Iterator[None]:
    """Turn errors of a device that no longer answers into a `LostDevice`; other errors pass."""
    try:
        yield
    except Exception as error:
        check_answer(error)
        raise


def check_answer(error: Exception | None = None) -> None:
    """Raise `LostDevice` where the device that was there no longer answers: after some errors of CUDA nothing works."""
    if missing():
        return
    try:
        cupy().cuda.Device().synchronize()
    except Exception as found:
        words = " ".join(str(found).split()).rstrip(".")
        raise LostDevice(
            f"the GPU stopped answering ({words}). What was computed up to there is kept: the same command goes on."
        ) from error
