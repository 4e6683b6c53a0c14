"""Flips on a CUDA device: many chains over one or several problems of one shape, a launch for some sweeps.

They make the chains of the processor (`cpu`), bit for bit: the random numbers are functions of (key, chain,
sweep), and energies are integers. Patterns, weights and cached stabilities stay on the device; a launch brings back
the weights and what was recorded. With replica exchange sweeps and exchanges follow each other there
(`kernels/cuda/chains.cu`, exchange), and the host looks at some of them at a time.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import BEAT, Chains, Plan
from solspace.samplers.annealing.cpu import NOT_DONE
from solspace.samplers.annealing.exchange import Exchange
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, cupy, fetched, idle_streams, own_stream, sent, stream
from solspace.samplers.kernels.cuda import Sizes, kernel

ROOM = 1 << 27  # most (problem, sweep, site) triples laid out for a launch, four bytes each
_SHARED = 200 << 10  # bytes of shared memory within which sites are put in order
_UNSEEN = 5.0  # seconds of a launch that the host does not wait for, by a first guess of the pace: a tenth of the usual
_FIRST, _MOST = 4, 64  # sweeps with exchange between two looks of the host: at first, and at most


def processors() -> int:
    return int(cupy().cuda.Device().attributes["MultiProcessorCount"])


class Prepared(NamedTuple):
    """What the sweeps of a launch need, on the device: potentials and rules as arguments of the kernel."""

    potentials: Any
    sampled: tuple[Any, ...]  # stride, number of stages, and the arrays of the potentials
    rules: tuple[DeviceArray, DeviceArray]  # for each sweep, whether the heat bath decides, and the number of its draw
    n_draws: int


class GpuFlips:
    """`chains.Flips` on a device: what both kernels have in common.

    Row r of the chains belongs to problem r // n_chains and is its chain number r % n_chains. `total` is the number of chains
    that the device carries at a time, and `share` the number of launches among which the memory of one alone is divided. `bits`
    (problems, words, n) are columns of ±1 in words of 30 constraints each, if the device has them already.
    """

    # what the two kinds of patterns differ in
    kernel: str
    source: str
    layout: Any
    beside = False  # whether launches of other chains are expected beside these
    # (number of chains, whether each has patterns of its own) -> the layout
    choose_layout: Callable[[int, bool], Any]
    potentials: Callable[[Sequence[Stage]], Any]  # stages -> what is sampled there: `Landscapes` or `Forms`
    send_potentials: Callable[[Any], tuple[Any, ...]]  # potentials -> arguments of the kernel, on the device
    # (energy (k,), stage (k,), potentials as sent): writes the integer energies of the chains at their stage
    write_energies: Callable[[DeviceArray, DeviceArray, tuple[Any, ...]], None]
    # bits -> the patterns of all problems by columns, on the device
    _load_patterns: Callable[[DeviceArray | None], Any]
    _cache: Callable[[], DeviceArray]  # what the kernel keeps of the weights
    # the kernel's arguments that describe the problems, and where it notes what it could not do
    _problem: Callable[[], tuple[tuple[Any, ...], tuple[Any, ...]]]

    def __init__(
        self,
        problems: Sequence[Perceptron],
        plan: Plan,
        keys: Sequence[int],
        n_chains: int,
        total: int = 0,
        share: int = 1,
        layout: Any = None,
        bits: DeviceArray | None = None,
    ) -> None:
        self.cupy = cupy()
        self.stream = stream()
        weakref.finalize(self, idle_streams.append, self.stream)
        self.problems, self.plan = problems, plan
        self.n, self.m = problems[0].n, problems[0].m
        rows = np.arange(len(problems) * n_chains, dtype=np.int32)
        self.instance_of, self.number_of = sent(rows // n_chains), sent(rows % n_chains)
        self.keys = sent(np.array(keys, np.uint64))
        self.most = max(1, ROOM // (share * len(problems) * self.n))
        self.pace = 1e11 / (len(rows) * self.n * self.m)
        self.layout = layout or self.choose_layout(max(total, len(rows)), n_chains == 1)
        self.columns = self._load_patterns(bits)

    def stabilities(self, weights: Array) -> Array | None:
        return None

    def unmet(self, weights: DeviceArray, numbers: Array) -> Array | None:
        """Return how many constraints `weights` miss, each of the problem whose number is given; None: ask the problem."""
        return None

    def _index(self, stage: Array, chains: int) -> Any:
        """Return where potentials have the entry of `stage`, (k or 1, …), for the first `chains` chains."""
        return stage

    def energies(self, energy: Array, stage: Array, potentials: Any) -> Array:
        """Return ΣU, (k, sweeps), of the first k chains from the kernel's integers and their stages, (k or 1, sweeps)."""
        found: Array = potentials.potential(energy, self._index(stage, len(energy)), self.m)
        return found

    def kt(self, stage: Array, potentials: Any) -> Array:
        found: Array = potentials.kt[self._index(stage, len(stage))]
        return found

    @cached_property
    def rungs(self) -> Any:
        return self.potentials(self.plan.ladder)

    def prepare(self, sweeps: slice) -> Prepared:
        plan, drawn = self.plan, self.plan.draw_at[sweeps] >= 0
        local = np.where(drawn, np.cumsum(drawn) - 1, -1).astype(np.int32)
        potentials = self.rungs if plan.ladder else self.potentials(plan.stages[sweeps])
        stages = len(plan.ladder or plan.stages[sweeps])
        with own_stream():
            sampled = np.int32(plan.stride), np.int32(stages), *self.send_potentials(potentials)
            rules = sent(plan.heat_bath(sweeps).astype(np.uint8)), sent(local)
        return Prepared(potentials, sampled, rules, int(drawn.sum()))

    def first_weights(self) -> Array:
        k, blocks = len(self.instance_of), -(-self.n // 128)
        weights = self.cupy.empty((k, self.n), np.int8)
        draw = kernel("chains", "first_weights")
        grid = (k, -(-blocks // 32))
        draw(grid, (32,), (self.keys, self.instance_of, self.number_of, np.int32(self.n), weights))
        return fetched(weights)

    def first_intercepts(self) -> Array:
        return np.empty((len(self.instance_of), 0))

    def place(self, chains: Chains) -> None:
        if chains.number is not None:
            self.number_of = sent(np.asarray(chains.number, np.int32))
        field = None if chains.field is None else sent(chains.field)
        self.put(sent(chains.weights), field, sent(chains.stopped.astype(np.uint8)), sent(chains.solved_at))

    def put(
        self, weights: DeviceArray, field: DeviceArray, stopped: DeviceArray, solved_at: DeviceArray | None = None
    ) -> None:
        """Hold chains that lie on the device: `weights` and `field` (k, n), and which do not walk, (k,)."""
        k, self.weights = len(weights), weights
        self.status = self.cupy.zeros(9 * k + 8, np.uint8)  # one array, so that one copy brings all
        self.solved_at, self.stopped = self.status[: 8 * k].view(np.int64), self.status[8 * k + 8 :]
        self.outside = self.status[8 * k : 8 * k + 4].view(np.int32)
        self.solved_at[...] = -1 if solved_at is None else solved_at
        self.stopped[...] = stopped
        self.fielded = field is not None
        self.field = sent(np.zeros(1)) if field is None else field
        self.every, self.at_first = sent(np.arange(k, dtype=np.int32)), sent(np.zeros(k, np.int32))
        self.cached = self._cache()
        self.cupy.cuda.get_current_stream().synchronize()  # what comes before the launches, which have their own stream

    def read_status(self) -> tuple[Array, Array]:
        """Return `solved_at` and which chains have stopped, (k,) each; raise if the last launch left a mark in `outside`."""
        status, k = fetched(self.status), len(self.weights)
        if status[8 * k : 8 * k + 4].any():
            raise ValueError(
                f"with n = {self.n}, a stability left the {self.layout.window} lattice steps around zero that the "
                "device distinguishes: anneal patterns this correlated with device='cpu'."
            )
        return status[: 8 * k].view(np.int64), status[8 * k + 8 :].astype(bool)

    def compile(self, fielded: bool = False) -> Any:
        constants: Sizes = (*self.layout.constants(self.plan.solve), ("FIELD", int(fielded)))
        return kernel(self.source, "walk", constants, self.layout.shared_bytes, self.beside)

    def orders(self, sweeps: slice) -> tuple[DeviceArray, int]:
        """Return the order of the sites in each sweep, for every problem, and the length of its rows."""
        count, length = sweeps.stop - sweeps.start, self.layout.tile * -(-self.n // self.layout.tile)
        orders = self.cupy.empty((len(self.problems), count, length), np.int32)
        inside = 4 * self.n <= _SHARED
        shared = 4 * self.n if inside else 0
        shuffle = kernel("chains", "site_orders", shared_bytes=shared, beside=self.beside)
        arguments = (self.keys, *map(np.int32, (self.n, sweeps.start, length, inside)), orders)
        shuffle((count, len(self.problems)), (32,), arguments, shared_mem=shared)
        return orders, length

    def launch(self, chains: Chains, sweeps: slice, prepared: Prepared) -> None:
        with self.stream:
            # the host has the flags: to ask a device that is full would be to wait until one of its blocks ends
            self.launched = sweeps, prepared, self._launch(~chains.stopped, sweeps, prepared)

    def _launch(self, walking: Array, sweeps: slice, prepared: Prepared) -> dict[str, DeviceArray]:
        """Launch the chains that are `walking` (k,), and return their records."""
        device, k, count = self.cupy, len(self.weights), sweeps.stop - sweeps.start
        records = {
            "accepted": device.zeros((k, count), np.int32),
            "energy": device.full((k, count), NOT_DONE),
            "draws": device.zeros((k, prepared.n_draws, self.n), np.int8),
        }
        rows = self.every if walking.all() else sent(np.flatnonzero(walking).astype(np.int32))
        orders, length = self.orders(sweeps)
        rules = (*prepared.rules, orders, np.int32(length))
        self.walk(rows, self.at_first, sweeps, prepared.sampled, rules, records)
        return records

    def walk(
        self, rows: DeviceArray, stage: DeviceArray, sweeps: slice, sampled: tuple[Any, ...], rules: tuple[Any, ...],
        records: dict[str, DeviceArray],
    ) -> None:  # fmt: skip
        """Let the chains `rows`, at their `stage` (k,), walk through `sweeps`, and fill `records`.

        Those of a block must be at one stage, and rows of -1 fill it up. `rules` are those of `Prepared`, the order of sites, and
        the length of its rows.
        """
        groups, (problem, marks) = -(-len(rows) // self.layout.group), self._problem()
        if groups:
            arguments = (
                *(rows, np.int32(len(rows)), self.instance_of, self.number_of, self.keys, *problem),
                *(np.int32(sweeps.stop - sweeps.start), np.int32(sweeps.start), stage, *sampled, *rules),
                *(np.int32(records["draws"].shape[1]), self.field, self.weights, self.cached, records["draws"]),
                *(records["accepted"], records["energy"], self.solved_at, self.stopped, *marks),
            )
            block = (self.layout.group * self.layout.threads,)
            self.compile(self.fielded)((groups,), block, arguments, shared_mem=self.layout.shared_bytes)

    @cached_property
    def _launches(self) -> list[tuple[slice, Prepared]]:
        """The sweeps of the whole plan, cut into launches, and what they need."""
        count = int(np.clip(_UNSEEN * self.pace, 1, self.most))
        cut = [slice(first, min(first + count, len(self.plan))) for first in range(0, len(self.plan), count)]
        return [(sweeps, self.prepare(sweeps)) for sweeps in cut]

    def run_plan(self) -> DeviceArray:
        """Make all sweeps of the plan, unseen by the host; return the draws (k, draws, n), on the device."""
        with self.stream:
            draws = self.cupy.zeros((len(self.weights), self.plan.n_draws, self.n), np.int8)
            for sweeps, prepared in self._launches:
                own = self._launch(~self.read_status()[1], sweeps, prepared)["draws"]
                last = int(self.plan.draw_at[: sweeps.stop].max()) + 1
                draws[:, last - own.shape[1] : last] = own
            self.read_status()
        return draws

    def collect(self, chains: Chains) -> None:
        launched = self.synchronize(chains)
        with self.stream:
            chains.weights[...] = fetched(self.weights)
        self.copy_records(chains, *launched)

    def synchronize(self, chains: Chains) -> tuple[slice, Prepared, dict[str, DeviceArray]]:
        """Wait for the walk and copy what ended; return its records, which stay on the device."""
        with self.stream:
            chains.solved_at[...], chains.stopped[...] = self.read_status()
        return self.launched

    def copy_records(self, chains: Chains, sweeps: slice, prepared: Prepared, records: dict[str, DeviceArray]) -> None:
        """Copy the records of a walk; any thread may, while the next walk is under way."""
        recorded, drawn = chains.recorded(sweeps), self.plan.draw_at[sweeps]
        with own_stream():
            chains.accepted[:, recorded] = fetched(records["accepted"])
            energy = fetched(records["energy"])
            found = self.energies(energy, np.arange(energy.shape[1])[None], prepared.potentials)
            chains.energy[:, recorded] = np.where(energy == NOT_DONE, np.nan, found)
            chains.draws[:, drawn[drawn >= 0]] = fetched(records["draws"])

    def energies_at(self, stage: Array, prepared: Prepared) -> tuple[Array, Array]:
        with self.stream:
            there = self.cupy.empty(len(stage), np.int64)
            self.write_energies(there, sent(stage.astype(np.int32)), prepared.sampled[2:])
            energy, potentials = fetched(there), prepared.potentials
        return energy / self.kt(stage, potentials), self.energies(energy[:, None], stage[:, None], potentials)[:, 0]

    def weights_of(self, chains: Chains, rows: Array) -> Array:
        with self.stream:
            return fetched(self.weights[sent(rows)])

    def stop(self) -> None:
        self.stream.synchronize()


class GpuExchange(Exchange):
    """Ladders on a device: which replica is at which rung stays there, so that no sweep waits for the host.

    They are those of the processor, bit for bit: energies are integers, and the host draws the thresholds.
    """

    flips: GpuFlips

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.count = _FIRST
        flips, device, chains = self.flips, self.flips.cupy, self.chains
        k, count, group = len(chains.weights), len(self.rungs), flips.layout.group
        self.width = -(-self.n_ladders // group) * group
        rows = np.full((count, self.width), -1, np.int32)
        rows[:, : self.n_ladders] = self.places().T
        stage = chains.stage.astype(np.int32)
        with flips.stream:
            self.rows, self.stage = sent(rows.ravel()), sent(stage)
            self.partner = sent(self.partners(chains.sweep)[stage].astype(np.int32))
            self.there = {name: sent(getattr(self, name)) for name in ("way", "trips")}
            self.other = device.zeros(k, np.int64)
            self.potentials = flips.send_potentials(flips.rungs)
            units = flips.kt(np.arange(k) % count, flips.rungs)[:count]  # row r of the first ladder, at rung r
            self.units = sent(units.astype(np.float64))
            self.sampled = np.int32(0), np.int32(count), *self.potentials
            self.rules = sent(np.ones(1, np.uint8)), sent(np.full(1, -1, np.int32))
            self.records = {
                "accepted": device.zeros((k, 1), np.int32),
                "energy": device.zeros((k, 1), np.int64),
                "draws": device.zeros((k, 0, flips.n), np.int8),
            }
        self.coming = self._next_thresholds()

    def _next_thresholds(self) -> tuple[slice, Array]:
        """Return the next sweeps and what decides their exchanges, (sweeps, C, R - 1)."""
        first = self.chains.sweep
        sweeps = slice(first, min(first + self.count, len(self.plan)))
        thresholds = [self.thresholds(sweep) for sweep in range(first, sweeps.stop)]
        return sweeps, np.array(thresholds).reshape(len(thresholds), self.n_ladders, len(self.rungs) - 1)

    def step(self) -> None:
        begun = time.perf_counter()
        sweeps, thresholds = self.coming
        count, c, device = len(thresholds), self.n_ladders, self.flips.cupy
        drawn = np.flatnonzero(self.plan.draw_at[sweeps] >= 0)
        with self.flips.stream:
            there = sent(thresholds)
            found = {
                "swaps": device.zeros(len(self.rungs) - 1, np.int32),
                "accepted": device.zeros((c, count), np.int32),
                "energy": device.zeros((c, count), np.int64),
                "draws": device.zeros((len(drawn), c, self.flips.n), np.int8),
            }
            orders, length = self.flips.orders(sweeps)
            for at in range(count):
                sweep = sweeps.start + at
                rules = *self.rules, orders[0, at], np.int32(length)
                self.flips.walk(self.rows, self.stage, slice(sweep, sweep + 1), self.sampled, rules, self.records)
                self._swap(sweep, at, there, found)
                if at in drawn:
                    last = self.rows[-self.width :][:c]
                    found["draws"][int(np.searchsorted(drawn, at))] = self.flips.weights[last]
        self.chains.sweep = sweeps.stop
        self.coming = self._next_thresholds()  # while the device is busy
        self._copy_results(sweeps, found)
        pace = BEAT / max(time.perf_counter() - begun, 1e-9)
        self.count = int(np.clip(count * min(pace, 2.0), 1, _MOST))

    def _swap(self, sweep: int, at: int, thresholds: DeviceArray, found: dict[str, DeviceArray]) -> None:
        """Exchange neighbours after `sweep`, the `at`-th of those with these thresholds."""
        self.flips.write_energies(self.other, self.partner, self.potentials)
        sizes = map(np.int32, (len(self.rungs), sweep % 2, at, found["accepted"].shape[1], self.width))
        energy, accepted = self.records["energy"], self.records["accepted"]
        arguments = (
            *(*sizes, self.units, thresholds, energy, self.other, accepted, self.rows, self.stage),
            *(self.partner, found["swaps"], self.there["way"], self.there["trips"], found["accepted"], found["energy"]),
        )
        kernel("chains", "exchange")((self.n_ladders,), (32,), arguments)

    def _copy_results(self, sweeps: slice, there: dict[str, DeviceArray]) -> None:
        chains, flips = self.chains, self.flips
        kept = slice(sweeps.start - self.plan.n_anneal, sweeps.stop - self.plan.n_anneal)
        with flips.stream:
            chains.solved_at[...], _ = flips.read_status()
            found: dict[str, Any] = {name: fetched(values) for name, values in there.items()}
            chains.stage = fetched(self.stage).astype(np.int64)
            self.way[...], self.trips[...] = (fetched(self.there[name]) for name in ("way", "trips"))
        last = np.full(found["energy"].shape, len(self.rungs) - 1)
        self.energy[:, kept] = flips.energies(found["energy"], last, flips.rungs)
        self.accepted[:, kept] = found["accepted"]
        at = self.plan.draw_at[sweeps]
        self.draws[:, at[at >= 0]] = found["draws"].swapaxes(0, 1)
        for sweep in range(sweeps.start, sweeps.stop):
            self.swaps[0, sweep % 2 :: 2] += self.n_ladders
        self.swaps[1] += found["swaps"]
