"""Flips on a CUDA device for ±1 patterns, by packed columns and integer fields, and for any others, in fixed point."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.cpu import Landscapes, Lattice, landscapes
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.layout import IntegerLayout, RealLayout
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, cupy, fetched, sent, sent_together
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.packed import PackedPerceptron

_PART = 1 << 30  # entries of the patterns sent to the device at a time


class GpuIntegerFlips(GpuFlips):
    """Chains on ±1 patterns (`kernels/cuda/flips_integer.cu`)."""

    kernel = "integer"
    source = "flips_integer"
    layout: IntegerLayout

    def choose_layout(self, chains: int, own: bool) -> IntegerLayout:
        layout = IntegerLayout.choose(self.m, Lattice(self.n, self.m).size, chains, processors(), own)
        if layout.shared_bytes > int(self.cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"]):
            raise ValueError(f"{self.m} constraints are too many for a chain on this device; use device='cpu'.")
        return layout

    def _load_patterns(self, bits: DeviceArray | None) -> DeviceArray:
        self.lattice = Lattice(self.n, self.m)
        self.allowed = self.lattice.met_range(self.plan.target)
        # columns of many problems are read by their own chains alone, and a large cache would not help
        self.beside = len(self.problems) > 1
        words, threads, number = self.layout.words, self.layout.threads, len(self.problems)
        packed = self.cupy.empty((number, self.n, words, threads), np.uint32)
        drawn = [problem.bits for problem in self.problems if isinstance(problem, PackedPerceptron)]
        if bits is None and len(drawn) < number:
            self._pack_columns(packed)
            return packed
        name, source = ("pack_bits", sent_together(drawn)) if bits is None else ("pack_words", bits)
        sizes = map(np.int32, (source.shape[1], self.m, self.n, words, threads))
        kernel("chains", name)((number * -(-self.n // 128), words * threads), (128,), (source, *sizes, packed))
        return packed

    def _pack_columns(self, packed: DeviceArray) -> None:
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
        grid = (k, -(-layout.words * layout.threads // 128))
        kernel("chains", "place")(grid, (128,), (self.columns, instance_of, weights, *sizes, levels))
        return levels

    def potentials(self, stages: Sequence[Stage]) -> Landscapes:
        return landscapes(stages, self.lattice)

    def stabilities(self, weights: Array) -> Array:
        draws = len(weights) // len(self.instance_of)
        with self.stream:
            levels = self._levels(sent(weights), self.instance_of.repeat(draws))
            counted = fetched(levels.reshape(len(levels), -1)[:, : self.m]).astype(np.float64)
        counted *= 2
        counted += 2 * self.lattice.base - self.n - 2
        counted /= np.sqrt(self.n)
        return counted

    def unmet(self, weights: DeviceArray, numbers: Array) -> Array:
        counts = self.cupy.zeros(len(weights), np.int32)
        levels = self._levels(weights, sent(numbers.astype(np.int32)))
        sizes = map(np.int32, (self.layout.slots * self.layout.threads, self.m, *self.allowed))
        kernel("chains", "unmet")((len(weights),), (128,), (levels, *sizes, counts))
        return fetched(counts)

    def _problem(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        low = (self.lattice.size - self.layout.window) // 2
        sizes = map(np.int32, (self.n, self.m, self.lattice.size, low, *self.allowed))
        return (self.columns, *sizes), (self.outside,)

    def send_potentials(self, potentials: Landscapes) -> tuple[Any, ...]:
        return sent(potentials.energies), sent(potentials.kt)

    def write_energies(self, energy: DeviceArray, stage: DeviceArray, potentials: tuple[Any, ...]) -> None:
        sizes = np.int32(self.layout.slots * self.layout.threads), np.int32(self.m)
        arguments = self.cached, *sizes, stage, potentials[0], np.int32(self.lattice.size), energy
        kernel("chains", "weigh")((len(stage),), (128,), arguments)


@dataclass(eq=False)
class _Columns:
    """Columns on the device, once the first flips that need them have sent them."""

    array: Any = None
    sending: threading.Lock = field(default_factory=threading.Lock)


# columns on the device: chains that follow different schedules on the same patterns share them
_sent: weakref.WeakValueDictionary[tuple[int, ...], _Columns] = weakref.WeakValueDictionary()
_asking = threading.Lock()


class GpuRealFlips(GpuFlips):
    """Chains on patterns of any values, in fixed point (`kernels/cuda/flips_real.cu`)."""

    kernel = "fixed point"
    source = "flips_real"
    layout: RealLayout

    def choose_layout(self, chains: int, own: bool) -> RealLayout:
        power, linear = (all(map(held, self.plan.stages)) for held in (real_forms.is_power, real_forms.is_linear))
        return RealLayout.choose(self.m, power, chains, processors(), linear, own)

    def _load_patterns(self, bits: DeviceArray | None) -> DeviceArray:
        margin = real_forms.reach_of(self.plan.stages)
        fixed = [real_forms.fixed_point(problem, margin) for problem in self.problems]
        self.held = _send(fixed, self.layout.size)
        self.fixed = [own.without_columns() for own in fixed]
        self.allowed = sent(np.array([own.met_range(self.plan.target) for own in self.fixed], np.int32))
        return self.held.array

    def _cache(self) -> DeviceArray:
        size = self.layout.size
        states = self.cupy.empty((len(self.weights), size), np.int32)
        grid = (len(self.weights), -(-size // 128))
        arguments = self.columns, self.instance_of, self.weights, np.int32(self.n), np.int32(size), states
        kernel("chains", "add_columns")(grid, (128,), arguments)
        return states

    def potentials(self, stages: Sequence[Stage]) -> real_forms.Forms:
        return real_forms.forms(stages, self.fixed, self.layout.power)

    def _problem(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return (self.columns, np.int32(self.n), np.int32(self.m), self.allowed), ()

    def _index(self, stage: Array, chains: int) -> tuple[Array, Array]:
        instance = fetched(self.instance_of)[:chains]
        return instance.reshape(-1, *[1] * (stage.ndim - 1)), stage

    def send_potentials(self, potentials: real_forms.Forms) -> tuple[Any, ...]:
        integers = (potentials.marks.astype(np.int32), potentials.margins.astype(np.int32))
        return sent(potentials.forms), *map(sent, integers), sent(potentials.kt)

    def write_energies(self, energy: DeviceArray, stage: DeviceArray, potentials: tuple[Any, ...]) -> None:
        *coefficients, kt = potentials
        shared = self.layout.weighing_bytes
        constants: Sizes = (*self.layout.constants(self.plan.solve), ("FIELD", 0))
        sizes = np.int32(self.m), stage, np.int32(kt.shape[1])
        arguments = self.instance_of, *sizes, *coefficients, self.cached, energy
        weigh = kernel(self.source, "weigh", constants, shared)
        weigh((len(stage),), (self.layout.threads,), arguments, shared_mem=shared)


def _send(fixed: Sequence[real_forms.FixedPoint], size: int) -> _Columns:
    """Return the columns of all problems on the device, padded with zeros to `size`: others' if they are there."""
    key = (*(own.number for own in fixed), size)
    with _asking:
        if (held := _sent.get(key)) is None:
            _sent[key] = held = _Columns()
    with held.sending:  # other columns are sent meanwhile
        if held.array is None:
            columns = cupy().zeros((len(fixed), fixed[0].n, size), np.int32)
            columns[..., : fixed[0].columns.shape[1]] = sent_together([own.columns for own in fixed])
            held.array = columns
    return held
