"""Flips on ±1 patterns on a CUDA device: packed columns and integer fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Plan
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.integer_levels import Landscapes, Lattice, landscapes, met_range
from solspace.samplers.annealing.layout import IntegerLayout
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, fetched, sent, sent_together
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.packed import PackedPerceptron

_PART = 1 << 30
"""Entries of the patterns sent to the device at a time."""


class GpuIntegerFlips(GpuFlips):
    """Chains on ±1 patterns: packed columns and integer fields (`kernels/cuda/flips_integer.cu`).

    `bits` (problems, words, n) are the columns in words of 30 constraints each, where a device has them so already.
    """

    kernel = "integer"
    source = "flips_integer"
    layout: IntegerLayout

    def __init__(
        self,
        problems: Sequence[Perceptron],
        plan: Plan,
        keys: Sequence[int],
        n_chains: int,
        company: int = 0,
        share: int = 1,
        layout: IntegerLayout | None = None,
        bits: DeviceArray | None = None,
    ) -> None:
        super().__init__(problems, plan, keys, n_chains, share)
        self.lattice = Lattice(self.n, self.m)
        self.allowed = met_range(plan.target, self.lattice.stabilities)
        self.layout = layout or self._layout(company, n_chains == 1)
        self.low = (self.lattice.size - self.layout.window) // 2
        self.columns = self._pack(bits)

    @property
    def beside(self) -> bool:
        """Whether there are many problems: then columns are nobody else's, and a large cache would not help."""
        return len(self.problems) > 1

    def _layout(self, company: int, own: bool) -> IntegerLayout:
        layout = IntegerLayout.choose(self.m, self.lattice.size, self._crowd(company), processors(), own)
        if layout.shared_bytes > self._shared():
            raise ValueError(f"{self.m} constraints are too many for a chain on this device; use device='cpu'.")
        return layout

    def _pack(self, bits: DeviceArray | None) -> DeviceArray:
        words, threads, number = self.layout.words, self.layout.threads, len(self.problems)
        packed = self.cupy.empty((number, self.n, words, threads), np.uint32)
        drawn = [problem.bits for problem in self.problems if isinstance(problem, PackedPerceptron)]
        if bits is None and len(drawn) < number:
            self._pack_columns(packed)
            return packed
        name, given = ("pack_bits", sent_together(drawn)) if bits is None else ("pack_words", bits)
        sizes = map(np.int32, (given.shape[1], self.m, self.n, words, threads))
        kernel("chains", name)((number * -(-self.n // 128), words * threads), (128,), (given, *sizes, packed))
        return packed

    def _pack_columns(self, packed: DeviceArray) -> None:
        """Pack the patterns of one problem after another."""
        words, threads = self.layout.words, self.layout.threads
        width = max(1, _PART // self.m)
        for number, problem in enumerate(self.problems):
            for first in range(0, self.n, width):
                part = sent(np.ascontiguousarray(problem.patterns[:, first : first + width]))
                columns = part.shape[1]
                sizes = map(np.int32, (self.m, columns, words, threads))
                grid = (-(-columns // 128), words * threads)
                kernel("chains", "pack_columns")(grid, (128,), (part, *sizes, packed[number, first:]))

    def _cache(self) -> DeviceArray:
        return self._levels(self.weights, self.instance_of)

    def _levels(self, weights: DeviceArray, instance_of: DeviceArray) -> DeviceArray:
        layout, k = self.layout, len(weights)
        levels = self.cupy.empty((k, layout.slots, layout.threads), np.uint16)
        sizes = map(np.int32, (self.n, layout.words, layout.threads, layout.slots, self.lattice.base))
        place = kernel("chains", "place")
        grid = (k, -(-layout.words * layout.threads // 128))
        place(grid, (128,), (self.columns, instance_of, weights, *sizes, levels))
        return levels

    def potentials(self, stages: Sequence[Stage]) -> Landscapes:
        """Round the potentials of these stages."""
        return landscapes(stages, self.lattice)

    def stabilities(self, weights: Array) -> Array:
        """Return the stabilities of `weights`, computed from the patterns on the device."""
        draws = len(weights) // len(self.instance_of)
        with self.stream:
            return self._stabilities(self._levels(sent(weights), self.instance_of.repeat(draws)))

    def unmet(self, weights: DeviceArray, numbers: Array) -> Array:
        """Return how many constraints `weights` (k, n) on the device miss, each of the problem whose number (k,) is given."""
        counts = self.cupy.zeros(len(weights), np.int32)
        levels = self._levels(weights, sent(numbers.astype(np.int32)))
        sizes = map(np.int32, (self.layout.slots * self.layout.threads, self.m, *self.allowed))
        kernel("chains", "unmet")((len(weights),), (128,), (levels, *sizes, counts))
        return fetched(counts)

    def _stabilities(self, levels: DeviceArray) -> Array:
        counted = fetched(levels.reshape(len(levels), -1)[:, : self.m]).astype(np.float64)
        counted *= 2
        counted += 2 * self.lattice.base - self.n - 2
        counted /= np.sqrt(self.n)
        return counted

    def _problem(self) -> tuple[object, ...]:
        sizes = (self.n, self.m, self.lattice.size, self.low, *self.allowed)
        return self.columns, *map(np.int32, sizes)

    def described(self, rounded: Landscapes) -> tuple[Any, ...]:
        """Return the energies of the levels, and kT."""
        return sent(rounded.energies), sent(rounded.kt)

    def energies(self, energy: Array, stage: Array, rounded: Landscapes) -> Array:
        """Return energies ΣU."""
        return rounded.potential(energy, stage, self.m)

    def kt(self, stage: Array, rounded: Landscapes) -> Array:
        """Return the units that make one kT where the chains are."""
        return rounded.kt[stage]

    def weigh_into(self, energy: DeviceArray, stage: DeviceArray, given: tuple[object, ...]) -> None:
        """Sum the energies of the levels."""
        sizes = np.int32(self.layout.slots * self.layout.threads), np.int32(self.m)
        arguments = self.cached, *sizes, stage, given[0], np.int32(self.lattice.size), energy
        kernel("chains", "weigh")((len(stage),), (128,), arguments)

    def _more(self) -> tuple[object, ...]:
        return (self.outside,)

    def _refusal(self) -> str:
        return (
            f"with n = {self.n}, a stability left the {self.layout.window} lattice steps around zero that the "
            "device tells apart: anneal patterns this correlated with device='cpu'."
        )
