"""The deviates of `samplers.walk.Noise`, drawn on the device from the same streams: one seed means one path of noise.

NumPy's generator and its ziggurat are integer arithmetic and comparisons, which a device repeats bit for bit
(`kernels/cuda/noise.cu`). A thread draws what one sample needs for a step; thousands of them do it side by side, and
nothing is sent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.numerics.streams import generator
from solspace.samplers.device import cupy
from solspace.samplers.kernels.cuda import kernel

Array = NDArray[Any]
_EDGE = 3.6541528853610087963519472518
"""Where the ziggurat's tail begins."""
_BLOCK = 32
_LOW = (1 << 64) - 1


@lru_cache(maxsize=1)
def ziggurat() -> Array:
    """Return widths, heights and inner widths of the 256 layers, (3, 256) float32, as NumPy has them.

    >>> widths, heights, inner = ziggurat()
    >>> float(heights[0]), int(inner[1])
    (1.0, 0)
    """
    scale = 2.0**23
    area = _EDGE * math.exp(-0.5 * _EDGE**2) + math.sqrt(math.pi / 2) * math.erfc(_EDGE / math.sqrt(2))
    widths, heights, inner = np.zeros(256), np.zeros(256), np.zeros(256)
    x = _EDGE
    widths[255], heights[255] = x, math.exp(-0.5 * x * x)
    inner[0], widths[0], heights[0] = x * heights[255] / area, area / heights[255], 1.0
    for layer in range(254, 0, -1):
        wider, x = x, math.sqrt(-2 * math.log(area / x + heights[layer + 1]))
        inner[layer + 1], widths[layer], heights[layer] = x / wider, x, math.exp(-0.5 * x * x)
    return np.stack([widths / scale, heights, np.rint(inner * scale)]).astype(np.float32)


class GpuNoise:
    """Streams of `k` samples for each of `seeds`, and an array (problems, n, k) on the device that they fill."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence], n: int, k: int) -> None:
        device = cupy()
        self.n, self.k, self.width = n, k, k * len(seeds)
        states = [generator(own, j, 0).bit_generator.state["state"] for own in seeds for j in range(k)]
        words = np.zeros((5, self.width), np.uint64)
        for column, numbers in enumerate(states):
            state, add = int(numbers["state"]), int(numbers["inc"])
            words[:4, column] = state >> 64, state & _LOW, add >> 64, add & _LOW
        self.state, self.tables = device.asarray(words), device.asarray(ziggurat())
        self.columns = device.zeros((len(seeds), n, k), np.float32)
        self.everyone = np.arange(self.width, dtype=np.int32)
        self.chosen = device.asarray(self.everyone)

    def draw(self, lanes: Array) -> Any:
        """Return the array with the next deviates of the samples `lanes`; it is written over by the next call."""
        count = len(lanes)
        chosen = self.chosen if count == self.width else cupy().asarray(np.asarray(lanes, np.int32))
        sizes = map(np.int32, (count, self.width, self.n, self.k))
        draw = kernel("noise", "deviates")
        draw((-(-count // _BLOCK),), (_BLOCK,), (chosen, *sizes, self.tables, self.state, self.columns))
        return self.columns

    def replay(self, taken: Array) -> None:
        """Draw and forget what `taken[j]` steps of each sample used."""
        for step in range(int(np.max(taken, initial=0))):
            self.draw(self.everyone[taken > step])
