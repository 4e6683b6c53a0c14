"""Flips on the processor: chains in groups, one to a thread, for ±1 patterns and for any others."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from solspace.numerics.arrays import Array, aligned
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.integer_levels import Landscapes, Lattice, landscapes, met_range
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.kernels.flips import Rows, Sweeps

if TYPE_CHECKING:
    from solspace.samplers.kernels import flips_real

_ROOM = 1 << 22
"""Most numbers laid out at a time for the sweeps to come."""
_CACHE = 1 << 19
"""Bytes of stabilities that chains taking a column together may fill: half of a usual second-level cache."""
NOT_DONE = np.iinfo(np.int64).min
"""Energy of a sweep that a chain did not come to."""

P = TypeVar("P", Landscapes, real_forms.Forms)
"""How potentials are laid out."""


@dataclass(frozen=True)
class Work(Generic[P]):
    """What some sweeps need, shared by all groups of chains."""

    sweeps: slice
    potentials: P
    orders: Array


class CpuFlips(Generic[P]):
    """What both kernels have in common: groups of chains, and the threads that take them through sweeps."""

    kernel: str

    def __init__(
        self, problem: Perceptron, plan: Plan, key: int, n_chains: int, breadth: int, n_threads: int | None
    ) -> None:
        self.problem, self.plan, self.key, self.n_chains = problem, plan, np.uint64(key), n_chains
        self.groups = _groups(n_chains, n_threads)
        self.most = max(1, _ROOM // (problem.n + breadth))
        self.pace = 1e9 * len(self.groups) / (n_chains * problem.n * problem.m)
        self._threads = ThreadPoolExecutor(len(self.groups), "flips")
        self._tasks: list[Future[None]] = []
        self._halt = np.zeros(1, np.bool_)

    def place(self, chains: Chains) -> None:
        """Compute from the weights what the kernel caches."""
        raise NotImplementedError

    def potentials(self, stages: Sequence[Stage]) -> P:
        """Return what is sampled at these stages, as the kernel takes it."""
        raise NotImplementedError

    def walk(self, work: Work[P], chains: Chains, rows: slice) -> None:
        """Run the kernel on the chains `rows`."""
        raise NotImplementedError

    def integer_energies(self, stage: Array, potentials: P) -> Array:
        """Return the kernel's energies (k,) of the chains, each at its `stage`."""
        raise NotImplementedError

    def first_weights(self) -> Array:
        """Return independent fair signs for every chain, (k, n) int8."""
        from solspace.samplers.kernels.philox import first_weights

        weights = np.empty((self.n_chains, self.problem.n), np.int8)
        first_weights(self.key, 0, weights)
        return weights

    def energies_at(self, stage: Array, prepared: Work[P]) -> tuple[Array, Array]:
        """Return the energies (k,) of the chains, each at its `stage` of those prepared: in kT, and as ΣU."""
        potentials, energy = prepared.potentials, self.integer_energies(stage, prepared.potentials)
        return energy / potentials.kt[stage], potentials.potential(energy, stage, self.problem.m)

    def prepare(self, sweeps: slice) -> Work[P]:
        """Lay out the potentials of these sweeps and order their sites."""
        from solspace.samplers.kernels.philox import site_orders

        orders = np.empty((sweeps.stop - sweeps.start, self.problem.n), np.int32)
        site_orders(self.key, sweeps.start, orders)
        return Work(sweeps, self.rungs if self.plan.ladder else self.potentials(self.plan.stages[sweeps]), orders)

    @cached_property
    def rungs(self) -> P:
        """The potentials of the plan's ladder."""
        return self.potentials(self.plan.ladder)

    def launch(self, chains: Chains, sweeps: slice, prepared: Work[P]) -> None:
        """Let every thread take its group through the sweeps."""
        self._tasks = [self._threads.submit(self.walk, prepared, chains, rows) for rows in self.groups]

    def collect(self, chains: Chains, weights: bool = True) -> None:
        """Wait for all groups."""
        for task in self._tasks:
            task.result()

    def weights_of(self, chains: Chains, rows: Array) -> Array:
        """Return the weights of the chains `rows`."""
        return chains.weights[rows]

    def stop(self) -> None:
        """Have all groups give up."""
        self._halt[0] = True
        wait(self._tasks)

    def stabilities(self, weights: Array) -> None:
        """The problem computes them."""
        return None

    def _arguments(self, work: Work[P], chains: Chains, rows: slice) -> tuple[Sweeps, Rows]:
        """Return the sweeps and the chains `rows` as the kernels take them, with room for the chains' energies."""
        plan, now = self.plan, work.sweeps
        baths, draws = plan.bath(now), plan.draw_at[now]
        sweeps = Sweeps(self.key, now.start, work.potentials.kt, plan.stride, work.orders, baths, draws, plan.solve)
        number = np.arange(rows.start, rows.stop) if chains.number is None else chains.number[rows]
        own = Rows(
            number=np.asarray(number, np.int64),
            stage=chains.first_stage()[rows],
            field=np.empty((0, 0)) if chains.field is None else chains.field[rows],
            weights=chains.weights[rows],
            draws=chains.draws[rows],
            accepted=chains.accepted[rows, chains.recorded(now)],
            energy=np.full((rows.stop - rows.start, len(work.orders)), NOT_DONE),
            solved_at=chains.solved_at[rows],
            stopped=chains.stopped[rows],
        )
        return sweeps, own

    def _record(self, work: Work[P], chains: Chains, rows: slice, energies: Array) -> None:
        """Keep the integer energies of the chains `rows` as ΣU."""
        stage = chains.first_stage()[rows, None] + self.plan.stride * np.arange(len(work.orders))
        found = work.potentials.potential(energies, stage, self.problem.m)
        chains.energy[rows, chains.recorded(work.sweeps)] = np.where(energies == NOT_DONE, np.nan, found)


class IntegerFlips(CpuFlips[Landscapes]):
    """Chains on ±1 patterns: packed columns and integer fields (`kernels.flips_integer`)."""

    kernel = "integer"

    def __init__(self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> None:
        from solspace.samplers.kernels.flips_integer import Patterns, pack_columns

        self.lattice = Lattice(problem.n, problem.m)
        super().__init__(problem, plan, key, n_chains, self.lattice.size, n_threads)
        self.blocks = 4 * -(-problem.m // 128)
        packed = aligned((problem.n, self.blocks), np.uint32)
        pack_columns(problem.patterns, packed)
        valid = np.packbits(np.arange(32 * self.blocks) < problem.m, bitorder="little").view(np.uint32)
        self.patterns = Patterns(packed.reshape(-1), valid, problem.m, met_range(plan.target, self.lattice.stabilities))

    def place(self, chains: Chains) -> None:
        """Compute every chain's levels."""
        from solspace.samplers.kernels.flips_integer import find_levels

        self.levels = aligned((len(chains.weights), 32 * self.blocks), np.uint16)
        find_levels(self.patterns.bits, chains.weights, self.lattice.base, self.levels)

    def potentials(self, stages: Sequence[Stage]) -> Landscapes:
        """Round the potentials of these stages."""
        return landscapes(stages, self.lattice)

    def integer_energies(self, stage: Array, potentials: Landscapes) -> Array:
        """Return the kernel's energies (k,) of the chains, each at its `stage`."""
        return potentials.energies[stage[:, None], self.levels[:, : self.problem.m]].sum(axis=1, dtype=np.int64)

    def walk(self, work: Work[Landscapes], chains: Chains, rows: slice) -> None:
        """Run the kernel on the chains `rows`."""
        from solspace.samplers.kernels.flips_integer import Scratch, run_chains

        scratch = Scratch(
            aligned(32 * self.blocks, np.int16), aligned(self.lattice.size + 512, np.int16), aligned(1024, np.uint8)
        )
        sweeps, own = self._arguments(work, chains, rows)
        if not run_chains(self.patterns, work.potentials.energies, sweeps, own, self.levels[rows], scratch, self._halt):
            raise ValueError(
                f"with n = {self.problem.n}, a stability left the 2^16 lattice steps around zero that are told "
                "apart: patterns this correlated can be annealed up to n = 65000."
            )
        self._record(work, chains, rows, own.energy)


class RealFlips(CpuFlips[real_forms.Forms]):
    """Chains on patterns of any values, in fixed point (`kernels.flips_real`)."""

    kernel = "fixed point"

    def __init__(self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> None:
        from solspace.samplers.kernels.flips_real import Patterns

        self.fixed = real_forms.FixedPoint(problem, real_forms.reach_of(plan.stages))
        self.power = all(real_forms.is_power(stage) for stage in plan.stages)
        breadth = len(self.potentials(plan.stages[:1]).forms[0])
        super().__init__(problem, plan, key, n_chains, breadth, n_threads)
        self.patterns = Patterns(self.fixed.columns.reshape(-1), problem.m, self.fixed.met_range(plan.target))

    def place(self, chains: Chains) -> None:
        """Compute every chain's stabilities."""
        first, last = self.patterns.allowed
        self.states = self.fixed.states(chains.weights, first + min(int(self.fixed.step) + 1, (last - first) // 2))

    def potentials(self, stages: Sequence[Stage]) -> real_forms.Forms:
        """Put the potentials of these stages into the kernel's form."""
        return real_forms.forms(stages, [self.fixed], self.power).of(0)

    def integer_energies(self, stage: Array, potentials: real_forms.Forms) -> Array:
        """Return the kernel's energies (k,) of the chains, each at its `stage`."""
        from solspace.samplers.kernels.flips_real import weigh

        energy = np.empty(len(stage), np.int64)
        weigh(self.patterns, _kernel_potentials(potentials), stage, self.states, energy)
        return energy

    def walk(self, work: Work[real_forms.Forms], chains: Chains, rows: slice) -> None:
        """Run the kernel on the chains `rows`, as many together as the cache takes."""
        from solspace.samplers.kernels.flips_real import run_chains

        potentials = _kernel_potentials(work.potentials)
        together = max(1, _CACHE // (4 * self.states.shape[1]))
        for first in range(rows.start, rows.stop, together):
            some = slice(first, min(first + together, rows.stop))
            sweeps, own = self._arguments(work, chains, some)
            run_chains(self.patterns, potentials, sweeps, own, self.states[some], self._halt)
            self._record(work, chains, some, own.energy)


def _kernel_potentials(forms: real_forms.Forms) -> flips_real.Potentials:
    from solspace.samplers.kernels.flips_real import Potentials

    return Potentials(forms.forms, forms.marks, forms.margins, forms.logarithm)


def flips_for(problem: Perceptron) -> Callable[..., IntegerFlips | RealFlips]:
    """Return what moves chains on these patterns."""
    return IntegerFlips if problem.has_binary_patterns else RealFlips


def _groups(n_chains: int, n_threads: int | None) -> list[slice]:
    """Return the rows of each thread, as even as can be."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    edges = np.linspace(0, n_chains, min(n_threads or cores, n_chains) + 1).astype(int)
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
