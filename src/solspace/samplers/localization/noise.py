"""Normal deviates for every step of every sample, on the processor and, the same bits, on a device.

They are functions of (seed of the problem, sample, step, weight): sample j sees the same whatever runs beside it, wherever
it runs, and after any interruption. They are single precision at every working precision, so that one seed means one
path of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.device import DeviceArray, cupy, sent
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
        from solspace.samplers.kernels.philox import cubics, normals

        lanes, table, own = np.asarray(lanes, np.int64), cubics(), np.asarray(steps, np.int64)[lanes]

        def part(first: int, last: int) -> None:
            normals(self.key, lanes, own, table, first, last, self.columns)

        split(part, -(-self.n // 4), max(1, (1 << 14) // max(1, len(lanes))))
        return self.columns


class GpuNoise:
    """Deviates of `k` samples for each of `seeds` in an array (problems, n, k) on the device, which they fill."""

    def __init__(self, seeds: Sequence[np.random.SeedSequence], n: int, k: int) -> None:
        from solspace.samplers.kernels.philox import cubics

        self.n, self.k = n, k
        self.keys, self.table = sent(np.array([_key(own) for own in seeds])), sent(cubics())
        self.columns = cupy().zeros((len(seeds), n, k), np.float32)

    def draw(self, lanes: Array, steps: Array) -> DeviceArray:
        """Return the array with the deviates of `steps` of the samples `lanes`; the next call writes over it."""
        where, count = (sent(np.asarray(part, np.int32)) for part in (lanes, np.asarray(steps)[lanes])), len(lanes)
        grid = (-(-self.n // 4), -(-count // _BLOCK))
        sizes = np.int32(self.n), np.int32(self.k)
        self._kernel("normals")(grid, (_BLOCK,), (*where, np.int32(count), self.keys, *sizes, self.table, self.columns))
        return self.columns

    def stir(self, field: DeviceArray, step: int, size: float, share: DeviceArray, following: float) -> None:
        """Add `size` times the deviates of a step to the fields (n, k) of one problem; then let `share` be `following`."""
        grid = (-(-(-(-self.n // 4) * self.k) // _BLOCK),)
        sizes = np.int32(self.n), np.int32(self.k), self.table, np.int32(step), np.float32(size)
        self._kernel("stir")(grid, (_BLOCK,), (self.keys, *sizes, field, np.float32(following), share))

    @staticmethod
    def _kernel(name: str) -> Any:
        from solspace.samplers.kernels.cuda import kernel
        from solspace.samplers.kernels.philox import CELLS

        return kernel("noise", name, (("CELLS", CELLS),))
