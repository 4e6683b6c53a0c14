"""Walkers carry chains through sweeps: the one for ±1 patterns, and the one for any others.

A walker computes from the weights what its kernel caches (`place`), prepares what a few sweeps need (`prepare`), and
moves a group of chains (`walk`), beside other groups in other threads. Whoever adds a device adds a walker.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from solspace.measure import Target
from solspace.numerics.arrays import aligned
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms as fixedpoint
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.integer_levels import Lattice, landscapes

Array = NDArray[Any]
_CACHE = 1 << 19
"""Bytes of stabilities that chains taking a column together may fill: half of a usual second-level cache."""
_NOT_DONE = np.iinfo(np.int64).min


@dataclass(frozen=True)
class Work:
    """What some sweeps need, shared by all groups of chains."""

    sweeps: slice
    potentials: Any
    orders: Array
    bath: Array
    draw_at: Array
    solve: bool


class Walker(Protocol):
    """What `anneal` asks of the code that moves chains."""

    name: str
    breadth: int
    """Numbers that a sweep needs: sites, levels or coefficients."""

    def place(self, chains: Chains) -> None:
        """Compute from the weights what the kernel caches."""

    def prepare(self, sweeps: slice) -> Work:
        """Return what these sweeps need."""
        ...

    def walk(self, work: Work, chains: Chains, rows: slice, halt: Array) -> None:
        """Take the chains `rows` through the sweeps of `work`, or give up soon after halt[0] is set."""


class IntegerWalker:
    """Chains on ±1 patterns: packed columns and integer fields (`kernels.flips_integer`)."""

    name = "integer"

    def __init__(self, problem: Perceptron, plan: Plan, key: int) -> None:
        from solspace.samplers.kernels.columns import pack_columns

        self.problem, self.plan, self.key = problem, plan, np.uint64(key)
        self.lattice = Lattice(problem.n, problem.m)
        self.breadth = problem.n + self.lattice.size
        self.blocks = 4 * -(-problem.m // 128)
        packed = aligned((problem.n, self.blocks), np.uint32)
        pack_columns(problem.patterns, packed)
        self.bits = packed.reshape(-1)
        self.valid = np.packbits(np.arange(32 * self.blocks) < problem.m, bitorder="little").view(np.uint32)
        self.allowed = met_range(plan.target, self.lattice.stabilities)

    def place(self, chains: Chains) -> None:
        """Compute every chain's levels."""
        from solspace.samplers.kernels.columns import find_levels

        self.levels = aligned((len(chains.weights), 32 * self.blocks), np.uint16)
        find_levels(self.bits, chains.weights, self.lattice.base, self.levels)

    def prepare(self, sweeps: slice) -> Work:
        """Round the potentials of these sweeps and order their sites."""
        return _work(self.plan, sweeps, self.key, self.problem.n, landscapes(self.plan.stages[sweeps], self.lattice))

    def walk(self, work: Work, chains: Chains, rows: slice, halt: Array) -> None:
        """Run the kernel on the chains `rows`."""
        from solspace.samplers.kernels.flips_integer import run_chains

        field, table = aligned(32 * self.blocks, np.int16), aligned(self.lattice.size + 512, np.int16)
        halves = aligned(1024, np.uint8)
        energies = np.full((rows.stop - rows.start, len(work.orders)), _NOT_DONE)
        rounded = work.potentials
        inside = run_chains(
            self.bits, self.valid, self.problem.m, rounded.energies, rounded.kt, work.orders, work.bath, work.draw_at,
            self.allowed, self.key, np.arange(rows.start, rows.stop), work.sweeps.start, work.solve, halt, field, table,
            halves, chains.weights[rows], self.levels[rows], chains.draws[rows], chains.accepted[rows, work.sweeps],
            energies, chains.solved_at[rows], chains.stopped[rows],
        )  # fmt: skip
        if not inside:
            raise ValueError(
                f"with n = {self.problem.n}, a stability left the 2^16 lattice steps around zero that are told "
                "apart: patterns this correlated can be annealed up to n = 65000."
            )
        chains.energy[rows, work.sweeps] = np.where(
            energies == _NOT_DONE, np.nan, energies * rounded.unit + self.problem.m * rounded.floor
        )


class RealWalker:
    """Chains on patterns of any values, in fixed point (`kernels.flips_real`)."""

    name = "fixed point"

    def __init__(self, problem: Perceptron, plan: Plan, key: int) -> None:
        self.problem, self.plan, self.key = problem, plan, np.uint64(key)
        self.fixed = fixedpoint.FixedPoint(problem, max(abs(stage.margin) for stage in plan.stages))
        self.power = all(fixedpoint.is_power(stage) for stage in plan.stages)
        self.allowed = self.fixed.met_range(plan.target)
        self.breadth = problem.n + len(fixedpoint.forms(plan.stages[:1], self.fixed, self.power).forms[0])

    def place(self, chains: Chains) -> None:
        """Compute every chain's stabilities."""
        first, last = self.allowed
        self.states = self.fixed.states(chains.weights, first + min(int(self.fixed.step) + 1, (last - first) // 2))

    def prepare(self, sweeps: slice) -> Work:
        """Put the potentials of these sweeps into the kernel's form and order their sites."""
        stages = self.plan.stages[sweeps]
        return _work(self.plan, sweeps, self.key, self.problem.n, fixedpoint.forms(stages, self.fixed, self.power))

    def walk(self, work: Work, chains: Chains, rows: slice, halt: Array) -> None:
        """Run the kernel on the chains `rows`."""
        from solspace.samplers.kernels.flips_real import run_chains

        made = work.potentials
        together = max(1, _CACHE // (4 * self.states.shape[1]))
        for first in range(rows.start, rows.stop, together):
            some = slice(first, min(first + together, rows.stop))
            energies = np.full((some.stop - first, len(work.orders)), _NOT_DONE)
            run_chains(
                self.fixed.columns.reshape(-1), self.problem.m, made.forms, made.marks, made.margins, made.kt,
                work.orders, work.bath, work.draw_at, self.allowed, self.key, np.arange(first, some.stop),
                work.sweeps.start, work.solve, halt, chains.weights[some], self.states[some], chains.draws[some],
                chains.accepted[some, work.sweeps], energies, chains.solved_at[some], chains.stopped[some],
            )  # fmt: skip
            chains.energy[some, work.sweeps] = np.where(energies == _NOT_DONE, np.nan, energies * made.unit)


def walker_for(problem: Perceptron, plan: Plan, key: int) -> Walker:
    """Return the walker that suits the patterns."""
    return (IntegerWalker if problem.has_binary_patterns else RealWalker)(problem, plan, key)


def met_range(target: Target, stabilities: Array) -> tuple[int, int]:
    """Return the number of the first stability at which a constraint is met, and how many there are."""
    met = np.flatnonzero(~target.violated(stabilities))
    if len(met) == 0:
        raise ValueError(f"no stability of ±1 weights and patterns meets {target}.")
    if met[-1] - met[0] + 1 != len(met):
        raise ValueError(f"the stabilities that meet {target} do not form an interval; annealing needs one.")
    return int(met[0]), len(met)


def _work(plan: Plan, sweeps: slice, key: Any, n: int, potentials: Any) -> Work:
    from solspace.samplers.kernels.philox import site_orders

    orders = np.empty((sweeps.stop - sweeps.start, n), np.int32)
    site_orders(key, sweeps.start, orders)
    return Work(sweeps, potentials, orders, plan.bath(sweeps), plan.draw_at[sweeps], plan.solve)
