"""Normal deviates for every step of every sample, on the processor and, the same bits, on a device.

They are functions of (seed of the problem, sample, step, weight): sample j sees the same whatever runs beside it, wherever
it runs, and after any interruption. They are single precision at every working precision, so that one seed means one
path of noise.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.device import DeviceArray, cupy
from solspace.system.threads import split

_BLOCK = 128


def _key(seeds: np.random.SeedSequence) -> np.uint64:
    return np.uint64(seeds.generate_state(1, np.uint64)[0])


class Noise:
    """Deviates of the samples of one problem in `columns` (n, width), which they fill."""

    def __init__(self, seeds: np.random.SeedSequence, columns: Array) -> None:
        self.key, self.columns, self.n = _key(seeds), columns, len(columns)

    def draw(self, lanes: Array, steps: Array) -> Array:
        """Return the array with the deviates of `steps` (k,) of the samples `lanes`; the next call writes over it."""
        from solspace.samplers.kernels.normals import cubics, normals

        lanes, table, own = np.asarray(lanes, np.int64), cubics(), np.asarray(steps, np.int64)[lanes]

        def part(first: int, last: int) -> None:
            normals(self.key, lanes, own, table, first, last, self.columns)

        split(part, -(-self.n // 4), max(1, (1 << 14) // max(1, len(lanes))))
        return self.columns


class GpuNoise:
    """Deviates of `k` samples for each of `seeds` in an array (problems, n, k) on the device, which they fill."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence], n: int, k: int) -> None:
        from solspace.samplers.kernels.normals import cubics

        device = cupy()
        self.n, self.k = n, k
        self.keys, self.table = device.asarray(np.array([_key(own) for own in seeds])), device.asarray(cubics())
        self.columns = device.zeros((len(seeds), n, k), np.float32)

    def draw(self, lanes: Array, steps: Array) -> DeviceArray:
        """Return the array with the deviates of `steps` of the samples `lanes`; the next call writes over it."""
        from solspace.samplers.kernels.cuda import kernel
        from solspace.samplers.kernels.normals import CELLS

        device, count = cupy(), len(lanes)
        where = device.asarray(np.asarray(lanes, np.int32)), device.asarray(np.asarray(steps, np.int32)[lanes])
        fill = kernel("noise", "normals", (("CELLS", CELLS),))
        grid = (-(-self.n // 4), -(-count // _BLOCK))
        sizes = np.int32(self.n), np.int32(self.k)
        fill(grid, (_BLOCK,), (*where, np.int32(count), self.keys, *sizes, self.table, self.columns))
        return self.columns
