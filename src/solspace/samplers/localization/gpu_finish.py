"""The end of a localization on a CUDA device: patterns, fields and draws stay there, and only weights that leave come back."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing.batches import gpu_flips
from solspace.samplers.annealing.gpu import GpuFlips
from solspace.samplers.annealing.gpu_integer import GpuIntegerFlips
from solspace.samplers.device import DeviceArray, cupy, fetched, sent
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.localization.denoisers import Denoiser
from solspace.samplers.localization.finish import Bath, Draw

_BLOCK = 128


@dataclass(frozen=True)
class GpuBath(Bath):
    """The heat bath on a device: chains of all samples of all problems, those that walk in one launch."""

    bits: DeviceArray | None = None
    """Patterns of ±1 as `GpuSigns` keeps them by columns, where it does."""

    @cached_property
    def flips(self) -> GpuFlips:
        """What moves the chains in every turn; it holds the patterns."""
        asked = self.problems, self.plan, self.keys(0), 2 * self.each
        return gpu_flips(*asked) if self.bits is None else GpuIntegerFlips(*asked, bits=self.bits)

    def leave(self, denoiser: Denoiser, lanes: Array, turn: int) -> Draw:
        """Return a draw for each of the samples `lanes` in the fields of `denoiser`."""
        device, n, k = cupy(), self.problems[0].n, len(self.problems) * self.each
        self.flips.keys.set(np.array(self.keys(turn), np.uint64))
        resting = np.ones(k, np.uint8)
        resting[lanes] = 0
        self.flips.put(*self._begin(denoiser), sent(np.repeat(resting, 2)))
        draws = self.flips.carried()
        shared = device.zeros((2, k), np.int32)
        kernel("finish", "overlaps", (("REAL", "float"),))((k,), (_BLOCK,), (draws, np.int32(n), *shared))
        # of the first replica's draws, (samples, replicas, draws, n), the second
        weights = draws.reshape(4 * k, n)[sent(4 * lanes + 1)]
        missed = self.flips.unmet(weights, lanes // self.each)
        if missed is None:
            missed = self.missed(lanes // self.each, fetched(weights))
        own, cross = fetched(shared)[:, lanes] / (2 * n)
        return Draw(lambda rows: fetched(weights[sent(np.flatnonzero(rows))]), missed, self.mixed(own, cross))

    def _begin(self, denoiser: Denoiser) -> tuple[DeviceArray, DeviceArray]:
        """Return the first weights (2 k, n) of two replicas of each sample, and their fields (2 k, n)."""
        device, number, n = cupy(), len(self.problems), self.problems[0].n
        found = (sent(part) if isinstance(part, np.ndarray) else part for part in (denoiser.field, denoiser.mean))
        field, mean = (part.reshape(number, n, self.each) for part in found)
        k = number * self.each
        weights, fields = device.empty((2 * k, n), np.int8), device.empty((2 * k, n), np.float64)
        begin = kernel("finish", "begin", (("REAL", "float" if mean.dtype == np.float32 else "double"),))
        sizes = map(np.int32, (n, self.each, k))
        grid = (-(-n // 4), -(-k // _BLOCK))
        begin(grid, (_BLOCK,), (field, mean, self.flips.keys, *sizes, weights, fields))
        return weights, fields
