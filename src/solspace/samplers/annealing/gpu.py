"""Walkers on a CUDA device: many chains over one or several problems of one shape, a launch for some sweeps.

They make the chains of the walkers on the processor, bit for bit: the random numbers are functions of (key, chain,
sweep), and energies are integers. Patterns, weights and cached stabilities stay on the device; a launch brings back
the weights and what was recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms as fixedpoint
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.integer_levels import Lattice, landscapes
from solspace.samplers.annealing.layout import IntegerLayout, RealLayout
from solspace.samplers.annealing.walkers import met_range
from solspace.samplers.device import cupy
from solspace.samplers.kernels.cuda import kernel
from solspace.samplers.packed import PackedPerceptron

Array = NDArray[Any]
NOT_DONE = np.iinfo(np.int64).min
_PART = 1 << 30
"""Entries of the patterns sent to the device at a time."""
_FORM = ("forms", "marks", "margins", "kt", "unit")
_SHARED = 200 << 10
"""Bytes of shared memory within which sites are put in order."""
_streams: list[Any] = []
"""Streams that no walker uses; CuPy's memory belongs to streams, so that they are worth keeping."""


def processors() -> int:
    """Return the number of multiprocessors of the device."""
    return int(cupy().cuda.Device().attributes["MultiProcessorCount"])


class GpuWalker:
    """What both walkers have in common: the chains on the device, and the launch.

    Row r of the chains belongs to problem r // n_chains and is its chain number r % n_chains. `company` is the number
    of chains that the device will carry at a time, those of other walkers included.
    """

    name: str
    source: str
    layout: Any

    def __init__(self, problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int) -> None:
        self.cupy = cupy()
        try:
            self.stream = _streams.pop()
        except IndexError:
            self.stream = self.cupy.cuda.Stream(non_blocking=True)
        weakref.finalize(self, _streams.append, self.stream)
        self.problems, self.plan = problems, plan
        self.n, self.m = problems[0].n, problems[0].m
        rows = np.arange(len(problems) * n_chains, dtype=np.int32)
        self.instance_of = self.cupy.asarray(rows // n_chains)
        self.number_of = self.cupy.asarray(rows % n_chains)
        self.keys = self.cupy.asarray(np.array(keys, np.uint64))

    def prepare(self, sweeps: slice) -> Any:
        """Return the potentials of these sweeps as the kernel takes them."""
        raise NotImplementedError

    def _cache(self) -> Any:
        """Return what the kernel caches of the weights."""
        raise NotImplementedError

    def _problem(self) -> tuple[Any, ...]:
        """Return the kernel's arguments that describe the problems."""
        raise NotImplementedError

    def _potentials(self, potentials: Any) -> tuple[Any, ...]:
        """Return the kernel's arguments that describe what each sweep samples."""
        raise NotImplementedError

    def _energy(self, energy: Array, potentials: Any) -> Array:
        """Return energies ΣU from the kernel's integers."""
        raise NotImplementedError

    def checked(self, weights: Array) -> Array | None:
        """Return the stabilities of `weights` (draws of each chain side by side), or None: the host computes them."""
        return None

    @property
    def idle(self) -> bool:
        """Whether the launch under way is over."""
        return bool(self.stream.done)

    def first_weights(self) -> Array:
        """Return independent fair signs for every chain, (k, n) int8."""
        k, blocks = len(self.instance_of), -(-self.n // 128)
        weights = self.cupy.empty((k, self.n), np.int8)
        draw = kernel("chains", "first_weights")
        grid = (k, -(-blocks // 32))
        draw(grid, (32,), (self.keys, self.instance_of, self.number_of, np.int32(self.n), weights))
        return weights.get()

    def place(self, chains: Chains) -> None:
        """Send the chains to the device and compute their cached stabilities."""
        self.weights = self.cupy.asarray(chains.weights)
        self.solved_at = self.cupy.asarray(chains.solved_at)
        self.stopped = self.cupy.asarray(chains.stopped.astype(np.uint8))
        self.cached = self._cache()
        self.cupy.cuda.get_current_stream().synchronize()  # what comes before the launches, which have their own stream

    def _crowd(self, company: int) -> int:
        return max(company, len(self.instance_of))

    def _shared(self) -> int:
        return int(self.cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])

    def compile(self) -> Any:
        """Return the kernel that walks, compiled."""
        return kernel(self.source, "walk", self.layout.constants(self.plan.solve), self.layout.shared_bytes)

    def orders(self, sweeps: slice) -> tuple[Any, int]:
        """Return the order of the sites in each sweep, for every problem, and the length of its rows."""
        count, length = sweeps.stop - sweeps.start, self.layout.tile * -(-self.n // self.layout.tile)
        orders = self.cupy.empty((len(self.problems), count, length), np.int32)
        inside = 4 * self.n <= _SHARED
        shared = 4 * self.n if inside else 0
        shuffle = kernel("chains", "site_orders", shared_bytes=shared)
        arguments = (self.keys, *map(np.int32, (self.n, sweeps.start, length, inside)), orders)
        shuffle((count, len(self.problems)), (32,), arguments, shared_mem=shared)
        return orders, length

    def launch(self, sweeps: slice, potentials: Any) -> dict[str, Any]:
        """Start the walk of all chains that have not stopped through `sweeps`; return what it will have recorded."""
        with self.stream:
            return self._launch(sweeps, potentials)

    def _launch(self, sweeps: slice, potentials: Any) -> dict[str, Any]:
        device, plan, k = self.cupy, self.plan, len(self.weights)
        count = sweeps.stop - sweeps.start
        draw_at = plan.draw_at[sweeps]
        drawn = np.flatnonzero(draw_at >= 0)
        local = np.full(count, -1, np.int32)
        local[drawn] = np.arange(len(drawn))
        rows = device.flatnonzero(self.stopped == 0).astype(np.int32)
        orders, length = self.orders(sweeps)
        made = {
            "accepted": device.zeros((k, count), np.int32),
            "energy": device.full((k, count), NOT_DONE),
            "draws": device.zeros((k, len(drawn), self.n), np.int8),
            "outside": device.zeros(1, np.int32),
        }
        groups = -(-len(rows) // self.layout.group)
        if groups:
            self.compile()(
                (groups,), (self.layout.group * self.layout.threads,),
                (
                    rows, np.int32(len(rows)), self.instance_of, self.number_of, self.keys, *self._problem(),
                    np.int32(count), np.int32(sweeps.start), *self._potentials(potentials),
                    device.asarray(plan.bath(sweeps).astype(np.uint8)), device.asarray(local), orders, np.int32(length),
                    np.int32(len(drawn)), self.weights, self.cached, made["draws"], made["accepted"], made["energy"],
                    self.solved_at, self.stopped, *([made["outside"]] if self.source == "flips_integer" else []),
                ),
                shared_mem=self.layout.shared_bytes,
            )  # fmt: skip
        return made

    def collect(self, sweeps: slice, made: dict[str, Any], potentials: Any, chains: Chains) -> None:
        """Wait for the walk and take over its results."""
        with self.stream:
            self._collect(sweeps, made, potentials, chains)

    def _collect(self, sweeps: slice, made: dict[str, Any], potentials: Any, chains: Chains) -> None:
        if int(made["outside"][0]):
            raise ValueError(
                f"with n = {self.n}, a stability left the {self.layout.window} lattice steps around zero that the "
                "device tells apart: anneal patterns this correlated with device='cpu'."
            )
        chains.weights[...] = self.weights.get()
        chains.solved_at[...] = self.solved_at.get()
        chains.stopped[...] = self.stopped.get().astype(bool)
        chains.accepted[:, sweeps] = made["accepted"].get()
        energy = made["energy"].get()
        chains.energy[:, sweeps] = np.where(energy == NOT_DONE, np.nan, self._energy(energy, potentials))
        drawn = self.plan.draw_at[sweeps]
        chains.draws[:, drawn[drawn >= 0]] = made["draws"].get()
        chains.sweep = sweeps.stop


class GpuIntegerWalker(GpuWalker):
    """Chains on ±1 patterns: packed columns and integer fields (`kernels/cuda/flips_integer.cu`)."""

    name = "integer"
    source = "flips_integer"

    def __init__(
        self,
        problems: Sequence[Perceptron],
        plan: Plan,
        keys: Sequence[int],
        n_chains: int,
        company: int = 0,
        layout: IntegerLayout | None = None,
    ) -> None:
        super().__init__(problems, plan, keys, n_chains)
        self.lattice = Lattice(self.n, self.m)
        self.allowed = met_range(plan.target, self.lattice.stabilities)
        self.layout = layout or self._layout(company)
        self.low = (self.lattice.size - self.layout.window) // 2
        self.columns = self._pack()

    def _layout(self, company: int) -> IntegerLayout:
        layout = IntegerLayout.choose(self.m, self.lattice.size, self._crowd(company), processors())
        if layout.shared_bytes > self._shared():
            raise ValueError(f"{self.m} constraints are too many for a chain on this device; use device='cpu'.")
        return layout

    def _pack(self) -> Any:
        layout, device = self.layout, self.cupy
        packed = device.empty((len(self.problems), self.n, layout.words, layout.threads), np.uint32)
        width = max(1, _PART // self.m)
        for number, problem in enumerate(self.problems):
            if isinstance(problem, PackedPerceptron):
                self._pack_part("pack_bits", device.asarray(problem.bits), self.n, packed[number])
                continue
            for first in range(0, self.n, width):
                part = device.asarray(np.ascontiguousarray(problem.patterns[:, first : first + width]))
                self._pack_part("pack_columns", part, part.shape[1], packed[number, first:])
        return packed

    def _pack_part(self, name: str, given: Any, columns: int, packed: Any) -> None:
        words, threads = self.layout.words, self.layout.threads
        sizes = map(np.int32, (self.m, columns, words, threads))
        kernel("chains", name)((-(-columns // 128), words * threads), (128,), (given, *sizes, packed))

    def _cache(self) -> Any:
        return self._levels(self.weights, self.instance_of)

    def _levels(self, weights: Any, instance_of: Any) -> Any:
        layout, k = self.layout, len(weights)
        levels = self.cupy.empty((k, layout.slots, layout.threads), np.uint16)
        sizes = map(np.int32, (self.n, layout.words, layout.threads, layout.slots, self.lattice.base))
        place = kernel("chains", "place")
        grid = (k, -(-layout.words * layout.threads // 128))
        place(grid, (128,), (self.columns, instance_of, weights, *sizes, levels))
        return levels

    def prepare(self, sweeps: slice) -> Any:
        """Round the potentials of these sweeps."""
        return landscapes(self.plan.stages[sweeps], self.lattice)

    def stabilities(self) -> Array:
        """Return the stabilities (k, m) of all chains as the kernel keeps them, exactly those of their weights."""
        return self._stabilities(self.cached)

    def checked(self, weights: Array) -> Array:
        """Return the stabilities of `weights`, computed from the patterns on the device."""
        draws = len(weights) // len(self.instance_of)
        with self.stream:
            return self._stabilities(self._levels(self.cupy.asarray(weights), self.instance_of.repeat(draws)))

    def _stabilities(self, levels: Any) -> Array:
        counted = levels.reshape(len(levels), -1)[:, : self.m].get().astype(np.float64)
        counted *= 2
        counted += 2 * self.lattice.base - self.n - 2
        counted /= np.sqrt(self.n)
        return counted

    def _problem(self) -> tuple[Any, ...]:
        sizes = (self.n, self.m, self.lattice.size, self.low, *self.allowed)
        return self.columns, *map(np.int32, sizes)

    def _potentials(self, rounded: Any) -> tuple[Any, ...]:
        return self.cupy.asarray(rounded.energies), self.cupy.asarray(rounded.kt)

    def _energy(self, energy: Array, rounded: Any) -> Array:
        return energy * rounded.unit + self.m * rounded.floor


class GpuRealWalker(GpuWalker):
    """Chains on patterns of any values, in fixed point (`kernels/cuda/flips_real.cu`)."""

    name = "fixed point"
    source = "flips_real"

    def __init__(
        self,
        problems: Sequence[Perceptron],
        plan: Plan,
        keys: Sequence[int],
        n_chains: int,
        company: int = 0,
        layout: RealLayout | None = None,
    ) -> None:
        super().__init__(problems, plan, keys, n_chains)
        margin = max(abs(stage.margin) for stage in plan.stages)
        self.power = all(fixedpoint.is_power(stage) for stage in plan.stages)
        self.layout = layout or self._layout(company)
        self.columns = self.cupy.zeros((len(problems), self.n, self.layout.size), np.int32)
        self.fixed = []
        for number, problem in enumerate(problems):
            fixed = fixedpoint.FixedPoint(problem, margin)
            self.columns[number, :, : self.m] = self.cupy.asarray(fixed.columns[:, : self.m])
            del fixed.columns
            self.fixed.append(fixed)
        self.allowed = self.cupy.asarray(np.array([fixed.met_range(plan.target) for fixed in self.fixed], np.int32))

    def _layout(self, company: int) -> RealLayout:
        return RealLayout.choose(self.m, self.power, self._crowd(company), processors())

    def _cache(self) -> Any:
        states = self.cupy.zeros((len(self.weights), self.layout.size), np.int32)
        for number in range(len(self.problems)):
            rows = self.instance_of == number
            weights = self.weights[rows].astype(np.float64)
            for first in range(0, self.m, 1024):
                part = slice(first, min(first + 1024, self.m))
                halves = (self.columns[number, :, part] // 2).astype(np.float64)
                states[rows, part] = (weights @ halves).astype(np.int32)
        return states

    def prepare(self, sweeps: slice) -> Any:
        """Put the potentials of these sweeps into the kernel's form."""
        made = [fixedpoint.forms(self.plan.stages[sweeps], fixed, self.power) for fixed in self.fixed]
        return fixedpoint.Forms(*(np.stack([getattr(form, name) for form in made]) for name in _FORM))

    def _problem(self) -> tuple[Any, ...]:
        return self.columns, np.int32(self.n), np.int32(self.m), self.allowed

    def _potentials(self, made: Any) -> tuple[Any, ...]:
        integers = (made.marks.astype(np.int32), made.margins.astype(np.int32))
        return self.cupy.asarray(made.forms), *map(self.cupy.asarray, integers), self.cupy.asarray(made.kt)

    def _energy(self, energy: Array, made: Any) -> Array:
        return energy * made.unit[self.instance_of.get()]
