"""Flips on a CUDA device: many chains over one or several problems of one shape, a launch for some sweeps.

They make the chains of the processor (`cpu`), bit for bit: the random numbers are functions of (key, chain,
sweep), and energies are integers. Patterns, weights and cached stabilities stay on the device; a launch brings back
the weights and what was recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.cpu import NOT_DONE
from solspace.samplers.annealing.layout import IntegerLayout, RealLayout
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.device import DeviceArray, cupy, fetched, idle_streams, own_stream, sent, stream
from solspace.samplers.kernels.cuda import Sizes, kernel

_SHARED = 200 << 10
"""Bytes of shared memory within which sites are put in order."""
ROOM = 1 << 27
"""Most (problem, sweep, site) triples laid out for a launch, four bytes each."""
_UNSEEN = 5.0
"""Seconds of a launch that nobody looks at, by the first guess of the pace, which is a tenth of what many chains reach."""


def processors() -> int:
    """Return the number of multiprocessors of the device."""
    return int(cupy().cuda.Device().attributes["MultiProcessorCount"])


class Prepared(NamedTuple):
    """What the sweeps of a launch need: what they sample, and that and their draws as the kernel takes them, on the device."""

    potentials: Any
    given: tuple[Any, ...]
    told: tuple[DeviceArray, DeviceArray]
    n_draws: int


class Walked(NamedTuple):
    """A walk that is over: its sweeps, the stage (k,) of each chain at the first of them, and what it recorded, on the device."""

    sweeps: slice
    stage: Array
    potentials: Any
    made: dict[str, DeviceArray]


class GpuFlips:
    """What both kernels have in common: the chains on the device, and the launch.

    Row r of the chains belongs to problem r // n_chains and is its chain number r % n_chains. `company` is the number
    of chains that the device will carry at a time, those of other launches included, and `share` the number of launches
    among which the memory of one alone is divided.
    """

    kernel: str
    source: str
    layout: IntegerLayout | RealLayout
    columns: Any
    """The patterns of all problems, by columns."""

    def __init__(
        self, problems: Sequence[Perceptron], plan: Plan, keys: Sequence[int], n_chains: int, share: int = 1
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

    @property
    def nbytes(self) -> int:
        """Memory that the problems and a launch take on the device, about."""
        return int(self.columns.nbytes) + 4 * min(self.most, len(self.plan)) * len(self.problems) * self.n

    @property
    def places(self) -> float:
        """Multiprocessors that the chains fill."""
        return len(self.instance_of) / self.layout.held

    def prepare(self, sweeps: slice) -> Prepared:
        """Return what these sweeps need, sent to the device."""
        plan, drawn = self.plan, self.plan.draw_at[sweeps] >= 0
        local = np.where(drawn, np.cumsum(drawn) - 1, -1).astype(np.int32)
        potentials = self.rungs if plan.ladder else self.potentials(plan.stages[sweeps])
        with own_stream():
            given = np.int32(plan.stride), np.int32(len(plan.sampled(sweeps))), *self.described(potentials)
            told = sent(plan.bath(sweeps).astype(np.uint8)), sent(local)
        return Prepared(potentials, given, told, int(drawn.sum()))

    @cached_property
    def rungs(self) -> Any:
        """The potentials of the plan's ladder."""
        return self.potentials(self.plan.ladder)

    def _cache(self) -> DeviceArray:
        """Return what the kernel caches of the weights."""
        raise NotImplementedError

    def _problem(self) -> tuple[object, ...]:
        """Return the kernel's arguments that describe the problems."""
        raise NotImplementedError

    def described(self, potentials: Any) -> tuple[Any, ...]:
        """Return the kernel's arguments that describe what each sweep samples, sent to the device."""
        raise NotImplementedError

    def potentials(self, stages: Sequence[Stage]) -> Any:
        """Return what is sampled at these stages, as the kernel takes it."""
        raise NotImplementedError

    def energies(self, energy: Array, stage: Array, potentials: Any) -> Array:
        """Return energies ΣU, (k, sweeps), from the kernel's integers and the stages they are of, (k or 1, sweeps)."""
        raise NotImplementedError

    def weigh_into(self, energy: DeviceArray, stage: DeviceArray, potentials: tuple[object, ...]) -> None:
        """Put the integer energies of the chains at `stage` (k,) into `energy` (k,); `potentials` as the kernel takes them."""
        raise NotImplementedError

    def kt(self, stage: Array, potentials: Any) -> Array:
        """Return the units that make one kT where the chains are, at `stage` (k,)."""
        raise NotImplementedError

    def _more(self) -> tuple[object, ...]:
        """Return arguments that this kernel takes beyond those that both do."""
        return ()

    def look(self) -> tuple[Array, Array]:
        """Return `solved_at` and who has stopped, (k,) each; raise where the last launch met something that it could not do."""
        status, k = fetched(self.status), len(self.weights)
        if status[8 * k : 8 * k + 4].any():
            raise ValueError(self._refusal())
        return status[: 8 * k].view(np.int64), status[8 * k + 8 :].astype(bool)

    def _refusal(self) -> str:
        """Return in words what a launch could not do that left a mark in `outside`."""
        raise NotImplementedError

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities of `weights` (draws of each chain side by side), or None: the host computes them."""
        return None

    def unmet(self, weights: DeviceArray, numbers: Array) -> Array | None:
        """Return how many constraints `weights` miss, each of the problem whose number is given; None: ask the problem."""
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
        return fetched(weights)

    def place(self, chains: Chains) -> None:
        """Send the chains to the device and compute their cached stabilities."""
        if chains.number is not None:
            self.number_of = sent(np.asarray(chains.number, np.int32))
        field = None if chains.field is None else sent(chains.field)
        self.put(sent(chains.weights), field, sent(chains.stopped.astype(np.uint8)), sent(chains.solved_at))

    def put(
        self, weights: DeviceArray, field: DeviceArray, stopped: DeviceArray, solved_at: DeviceArray | None = None
    ) -> None:
        """Take up chains that lie on the device: `weights` and `field` (k, n), and who does not walk, (k,)."""
        k, self.weights = len(weights), weights
        self.status = self.cupy.zeros(9 * k + 8, np.uint8)  # one array, so that one copy tells all
        self.solved_at, self.outside = (
            self.status[: 8 * k].view(np.int64),
            self.status[8 * k : 8 * k + 4].view(np.int32),
        )
        self.stopped = self.status[8 * k + 8 :]
        self.solved_at[...] = -1 if solved_at is None else solved_at
        self.stopped[...] = stopped
        self.fielded = field is not None
        self.field = sent(np.zeros(1)) if field is None else field
        self.every, self.at_first = sent(np.arange(k, dtype=np.int32)), sent(np.zeros(k, np.int32))
        self.cached = self._cache()
        self.cupy.cuda.get_current_stream().synchronize()  # what comes before the launches, which have their own stream

    def _crowd(self, company: int) -> int:
        return max(company, len(self.instance_of))

    def _shared(self) -> int:
        return int(self.cupy.cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])

    def compile(self, fielded: bool = False) -> Any:
        """Return the kernel that walks, compiled."""
        constants: Sizes = (*self.layout.constants(self.plan.solve), ("FIELD", int(fielded)))
        return kernel(self.source, "walk", constants, self.layout.shared_bytes, self.beside)

    @property
    def beside(self) -> bool:
        """Whether launches of other chains are expected beside these."""
        return False

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
        """Start the walk of all chains that have not stopped through `sweeps`."""
        with self.stream:
            self.sweeps, self.prepared = sweeps, prepared
            # the host knows who walks: to ask a device that is full would be to wait until one of its blocks ends
            self.made = self._launch(*self._walkers(chains.first_stage(), ~chains.stopped), sweeps, prepared)

    def _walkers(self, stage: Array, walking: Array) -> tuple[DeviceArray, DeviceArray]:
        """Return the rows that walk, and the `stage` (k,) of each; those of a block must be at one, and -1 fills up."""
        if not self.plan.ladder:
            rows = self.every if walking.all() else sent(np.flatnonzero(walking).astype(np.int32))
            return rows, self.at_first
        group = self.layout.group
        parts = [np.flatnonzero(stage == rung) for rung in range(len(self.plan.ladder))]
        padded = [np.append(part, np.full(-len(part) % group, -1)) for part in parts]
        return sent(np.concatenate(padded).astype(np.int32)), sent(stage.astype(np.int32))

    def _launch(
        self, rows: DeviceArray, stage: DeviceArray, sweeps: slice, prepared: Prepared
    ) -> dict[str, DeviceArray]:
        device, k, count = self.cupy, len(self.weights), sweeps.stop - sweeps.start
        made = {
            "accepted": device.zeros((k, count), np.int32),
            "energy": device.full((k, count), NOT_DONE),
            "draws": device.zeros((k, prepared.n_draws, self.n), np.int8),
        }
        orders, length = self.orders(sweeps)
        self.walk(rows, stage, sweeps.start, count, prepared.given, (*prepared.told, orders, np.int32(length)), made)
        return made

    def walk(
        self, rows: DeviceArray, stage: DeviceArray, start: int, count: int, given: tuple[object, ...],
        told: tuple[object, ...], made: dict[str, DeviceArray],
    ) -> None:  # fmt: skip
        """Let the chains `rows`, at their `stage` (k,), walk through `count` sweeps from `start` on.

        `given` describes what is sampled; `told` are, for each sweep, whether the heat bath decides, which draw it ends in, and
        the order of sites; `made` takes what is recorded.
        """
        groups = -(-len(rows) // self.layout.group)
        if groups:
            self.compile(self.fielded)(
                (groups,), (self.layout.group * self.layout.threads,),
                (
                    rows, np.int32(len(rows)), self.instance_of, self.number_of, self.keys, *self._problem(),
                    np.int32(count), np.int32(start), stage, *given, *told, np.int32(made["draws"].shape[1]), self.field,
                    self.weights, self.cached, made["draws"], made["accepted"], made["energy"], self.solved_at, self.stopped,
                    *self._more(),
                ),
                shared_mem=self.layout.shared_bytes,
            )  # fmt: skip

    @cached_property
    def _launches(self) -> list[tuple[slice, Prepared]]:
        """The sweeps of the whole plan, cut into launches that nobody looks at, and what they need."""
        count = int(np.clip(_UNSEEN * self.pace, 1, self.most))
        cut = [slice(first, min(first + count, len(self.plan))) for first in range(0, len(self.plan), count)]
        return [(sweeps, self.prepare(sweeps)) for sweeps in cut]

    def carried(self) -> DeviceArray:
        """Carry the chains through the whole plan, unseen by the host; return their draws (k, draws, n), on the device."""
        stage = np.zeros(len(self.weights), np.int64)
        with self.stream:
            draws = self.cupy.zeros((len(self.weights), self.plan.n_draws, self.n), np.int8)
            for sweeps, prepared in self._launches:
                made = self._launch(*self._walkers(stage, ~self.look()[1]), sweeps, prepared)["draws"]
                last = int(self.plan.draw_at[: sweeps.stop].max()) + 1
                draws[:, last - made.shape[1] : last] = made
            self.look()
        return draws

    def collect(self, chains: Chains, weights: bool = True) -> None:
        """Wait for the walk and take over its results."""
        self.settle(chains, self.meet(chains, weights))

    def meet(self, chains: Chains, weights: bool = True) -> Walked:
        """Wait for the walk and take over where the chains are; return what it recorded, which is left on the device."""
        with self.stream:
            chains.solved_at[...], chains.stopped[...] = self.look()
            if weights:
                chains.weights[...] = fetched(self.weights)
        return Walked(self.sweeps, chains.first_stage(), self.prepared.potentials, self.made)

    def settle(self, chains: Chains, walked: Walked) -> None:
        """Take over what a walk recorded; any thread may, while the next walk is under way."""
        sweeps, stage, potentials, made = walked
        recorded, drawn = chains.recorded(sweeps), self.plan.draw_at[sweeps]
        with own_stream():
            chains.accepted[:, recorded] = fetched(made["accepted"])
            energy = fetched(made["energy"])
            first = stage if self.plan.ladder else stage[:1]  # without a ladder all chains are at one
            stages = first[:, None] + self.plan.stride * np.arange(energy.shape[1])
            found = self.energies(energy, stages, potentials)
            chains.energy[:, recorded] = np.where(energy == NOT_DONE, np.nan, found)
            chains.draws[:, drawn[drawn >= 0]] = fetched(made["draws"])

    def weigh(self, stage: Array, prepared: Prepared) -> tuple[Array, Array]:
        """Return the energies (k,) of the chains, each at its `stage` of those prepared: in kT, and as ΣU."""
        with self.stream:
            there = self.cupy.empty(len(stage), np.int64)
            self.weigh_into(there, sent(stage.astype(np.int32)), prepared.given[2:])
            energy, potentials = fetched(there), prepared.potentials
        return energy / self.kt(stage, potentials), self.energies(energy[:, None], stage[:, None], potentials)[:, 0]

    def weights_of(self, chains: Chains, rows: Array) -> Array:
        """Return the weights of the chains `rows`."""
        with self.stream:
            return fetched(self.weights[sent(rows)])

    def stop(self) -> None:
        """A launch is short: let it end."""
        self.stream.synchronize()
