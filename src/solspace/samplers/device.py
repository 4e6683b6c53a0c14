"""Where samplers run: the processor, or a CUDA device through CuPy.

CuPy is imported at the first use of a device, never by ``import solspace``. `"auto"` takes a device where there is one
and falls back to the processor without a word; `"gpu"` says in words what is missing.
"""

from __future__ import annotations

import os
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeAlias

from solspace.system.extras import install
from solspace.system.names import unknown

if TYPE_CHECKING:
    from cupy import ndarray

DeviceArray: TypeAlias = "ndarray"
"""An array of CuPy's, which lies on the device."""
DEVICES = ("cpu", "gpu", "auto")


class NoDevice(RuntimeError):
    """A device was asked for that is not there; the message says what is missing."""


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
    """Return the CuPy module; raise in words where there is no device to use."""
    resolve("gpu")
    import cupy

    return cupy
