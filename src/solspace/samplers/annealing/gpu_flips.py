"""Flips on a CUDA device for ±1 patterns, by packed columns and integer fields, and for any others, in fixed point.

A layout says how chains lie there: warps to a chain, constraints to a thread, chains to a block. A chain's proposals come one
after another, so that its speed is set by the time from one decision to the next; a device is kept busy by many chains. Where
there are many, a chain gets one warp and no barrier; where there are few, its constraints are spread over more warps, each
decision then costing a barrier. Names of fields are those of the CUDA sources.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from solspace.numerics.arrays import Array
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.cpu import LEVELS, Landscapes, Lattice, landscapes
from solspace.samplers.annealing.gpu import GpuFlips, processors
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, cupy, fetched, sent, sent_together
from solspace.samplers.kernels.cuda import Sizes, kernel
from solspace.samplers.packed import PackedPerceptron

_PART = 1 << 30  # entries of the patterns sent to the device at a time
_WINDOW = 1 << 14  # levels of the table that are kept where levels and table do not both fit
_MOST_PAIRS = 79  # pairs of constraints whose fields and levels fit the registers of a thread
_MOST_WARPS = 16
_IN_REGISTERS = 64 * 40 * _MOST_WARPS  # constraints above which levels lie in shared memory
# Chains to a block at the most where each has a problem of its own. Launches of other shapes run beside such chains, and what
# waits first in line for room on a multiprocessor keeps all behind it waiting: small blocks find room sooner.
_OWN_GROUP = 4
_RING = 1 << 16  # bytes of columns on their way that a block may keep
_OWN = 200 << 10  # shared memory of a multiprocessor within which chains keep columns of their own

Constants = tuple[tuple[str, int], ...]


@dataclass
class Layout:
    """What the kernels for both kinds of patterns have in common."""

    warps: int  # to a chain
    group: int  # chains to a block
    resident: int  # blocks to a multiprocessor

    def __post_init__(self) -> None:
        self.threads = 32 * self.warps  # to a chain
        # chains on a multiprocessor: those that the kernel is compiled for, or eight warps of those that are spread
        self.held = max(self.group * self.resident, 8 // self.warps)
        self.tile = 2 * self.threads  # proposals laid out together
        self.proposal_bytes = 8 * (self.tile + 24)  # of a tile, with those that may be read ahead
        self.sum_bytes = 32 * self.warps  # through which the warps of a chain add up
        self.sizes: dict[str, int] = {}
        self.shared_bytes = 0  # shared memory of a block

    def constants(self, solve: bool) -> Constants:
        named = {"WARPS": self.warps, "GROUP": self.group, "RESIDENT": self.resident, "SOLVE": solve, **self.sizes}
        return tuple((name, int(value)) for name, value in named.items())


@dataclass
class IntegerLayout(Layout):
    """Sizes of the kernel for ±1 patterns (`kernels/cuda/flips_integer.cu`)."""

    pairs: int  # of constraints to a thread
    batch: int  # proposals summed at a time
    size: int  # levels of the lattice
    levels_shared: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.slots = 2 * self.pairs  # constraints to a thread, padding included
        self.words = -(-self.slots // 32)  # words of 32 bits that a thread reads of a column
        self.window = min(self.size, _WINDOW) if self.levels_shared else self.size  # levels in the table
        guarded = self.window < self.size or self.size > LEVELS - 128  # whether levels might leave the table
        # columns of one word to each lane of a single warp come into registers
        direct = self.warps == self.words == 1 and self.batch <= 2
        room = _RING // (16 * self.words * self.threads * self.group)
        # columns fetched together; four times as many are kept
        self.hop = 0 if direct else max(hop for hop in (1, 2, 4, 8) if hop <= max(room, self.batch))
        table, ring = 16 * -(-2 * self.window // 16), 16 * self.hop * self.words * self.threads
        levels = 4 * self.pairs * self.threads if self.levels_shared else 0
        self.shared_bytes = table + self.group * (self.proposal_bytes + ring) + self.sum_bytes + levels
        self.sizes = {
            "PAIRS": self.pairs,
            "BATCH": self.batch,
            "DIRECT": direct,
            "HOP": self.hop,
            "UNIT": 2 if self.window <= LEVELS // 2 and not guarded else 1,
            "WINDOW": self.window,
            "GUARDED": guarded,
            "LEVELS_SHARED": self.levels_shared,
        }

    @classmethod
    def of(cls, m: int, size: int, warps: int, group: int = 1, resident: int = 1, batch: int = 1) -> IntegerLayout:
        pairs = -(-m // (64 * warps))
        return cls(warps, group, resident, pairs, batch, size, levels_shared=pairs * warps > 640)

    @classmethod
    def choose(cls, m: int, size: int, chains: int, processors: int, own: bool = False) -> IntegerLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> IntegerLayout.choose(m=500, size=1004, chains=4224, processors=132).warps
        1
        >>> IntegerLayout.choose(m=2500, size=5004, chains=100, processors=132).warps
        4
        """
        if m > _IN_REGISTERS:
            return cls.of(m, size, _MOST_WARPS)
        warps = -(-m // (64 * _MOST_PAIRS))
        if chains < 8 * processors:
            # few chains: spread each over more warps, down to about ten pairs a thread
            warps = max(warps, min(-(-m // 640), 8 * processors // chains, 8))
            if chains * warps <= 8 * processors and warps <= 8:
                return cls.of(m, size, warps, batch=4)
        # keep a multiprocessor as full as its registers allow
        pairs = -(-m // (64 * warps))
        held = 32 if pairs <= 16 else 16 if pairs <= 32 else 12 if pairs <= 48 else 8
        if warps > 1:
            return cls.of(m, size, warps, 1, max(1, held // warps))
        group = min(16 if pairs <= 16 else 4, _OWN_GROUP if own else 16)
        return cls.of(m, size, 1, group, held // group)


@dataclass
class RealLayout(Layout):
    """Sizes of the kernel for real-valued patterns (`kernels/cuda/flips_real.cu`)."""

    quads: int  # of constraints to a thread
    power: bool
    linear: bool = False  # whether power forms have no powers: linear below the edge, 0 above
    own: bool = False  # whether columns are kept in shared memory, two at a time: for chains with patterns of their own

    def __post_init__(self) -> None:
        super().__post_init__()
        self.size = 4 * self.quads * self.threads  # constraints, padding included
        table, columns = 8 * (32 if self.power else 2 * 31 * 128), 8 * self.size if self.own else 0
        self.shared_bytes = self.group * (table + self.proposal_bytes + columns) + self.sum_bytes
        self.weighing_bytes = table + self.sum_bytes  # shared memory of a block that sums energies
        self.sizes = {"QUADS": self.quads, "POWER": self.power, "LINEAR": self.linear, "OWN": self.own}

    @classmethod
    def of(cls, m: int, power: bool, warps: int, group: int = 1, resident: int = 1, linear: bool = False) -> RealLayout:
        return cls(warps, group, resident, -(-m // (128 * warps)), power, linear)

    @classmethod
    def choose(
        cls, m: int, power: bool, chains: int, processors: int, linear: bool = False, own: bool = False
    ) -> RealLayout:
        """Return the layout for `chains` chains of `m` constraints on so many multiprocessors.

        `own`: each has patterns of its own.

        >>> RealLayout.choose(m=5000, power=True, chains=528, processors=132).warps
        4
        """
        few = chains < 4 * processors
        warps = max(1, min(-(-m // (128 * (2 if few else 10))), 8 if few else 16), -(-m // (128 * 16)))
        warps = min(warps, 32)
        if not power or warps > 1 or few:
            warps = warps if power else max(4, warps)
            found = cls.of(m, power, warps, 1, max(1, (16 if power else 12) // warps), linear)
        else:  # as many chains to a multiprocessor as registers allow without spilling
            found = cls.of(m, power, 1, *((8, 3) if m <= 512 else (4, 4)), linear)
        keeping = replace(found, own=own)
        return keeping if found.resident * keeping.shared_bytes <= _OWN else found


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
