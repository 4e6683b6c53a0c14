"""Flips on the processor: chains in groups, one to a thread, for ±1 patterns and for any others.

The kernels compare integer energies with integer thresholds. What is rounded is the potential itself, on ±1 patterns level
by level, never its differences: the walk then obeys detailed balance exactly for the rounded potential, which differs from
the given one by at most half a unit, of which there are hundreds to one kT. On a device the same integers are used.

Where the weight vanishes there is no energy to round: beyond a wall it rises by WALL kT a level away from the nearest level
that is allowed, so that a chain on the wrong side finds its way, and one on the right side never leaves (no threshold exceeds
36 kT, see `kernels.philox`). Finite steps are cut to the same height, or 16 bits would be too coarse for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np

from solspace.measure import Target
from solspace.measure.potentials import Tau
from solspace.numerics.arrays import Array, aligned
from solspace.problem import Perceptron
from solspace.samplers.annealing import real_forms
from solspace.samplers.annealing.chains import Chains, Plan
from solspace.samplers.annealing.real_forms import WALL
from solspace.samplers.annealing.schedules import Stage, heats
from solspace.samplers.kernels.flips import Rows, Sweeps

LEVELS = 1 << 16  # most levels that 16 bits tell apart
NOT_DONE = np.iinfo(np.int64).min  # energy of a sweep that a chain did not come to
_FINEST = float(1 << 20)  # most units to a kT; thresholds of 36 kT then fit 32 bits
_ROOM = 1 << 22  # most numbers laid out at a time for the sweeps to come
CACHE = 1 << 19  # bytes of stabilities of chains that take a column together: half of a usual second-level cache


@dataclass
class Lattice:
    """The values k = -n, -n + 2, ..., n of ⟨x, w⟩ for ±1 patterns and weights, with one more at each end for the differences.

    For weights that are whole multiples of a `step` apart, from -`most` to `most`, they are -n most, -n most + step, ..., n most.
    Number `j` has k = step (j + base - 1) - n most; `base` is 0 unless n is so large that only middle values are kept.

    >>> (Lattice(n=4, m=5).stabilities * 2).tolist()
    [-6.0, -4.0, -2.0, 0.0, 2.0, 4.0, 6.0]
    """

    n: int
    m: int
    step: float = 2.0
    most: float = 1.0

    def __post_init__(self) -> None:
        count = round(2 * self.n * self.most / self.step) + 3
        self.size = min(count, LEVELS)
        self.base = (count - self.size) // 2
        self.stabilities = (self.step * (np.arange(self.size) + self.base - 1) - self.n * self.most) / np.sqrt(self.n)

    def met_range(self, target: Target) -> tuple[int, int]:
        """Return the number of the first level at which a constraint is met, and how many there are."""
        met = np.flatnonzero(~target.violated(self.stabilities))
        if len(met) == 0:
            raise ValueError(f"no stability of ±1 weights and patterns meets {target}.")
        if met[-1] - met[0] + 1 != len(met):
            raise ValueError(f"the stabilities that meet {target} do not form an interval; annealing needs one.")
        return int(met[0]), len(met)


@dataclass(frozen=True)
class Landscapes:
    """Integer energies (k, size) int32 of the levels at each of k stages, zero at a stage's lowest level.

    At stage t, `kt[t]` units make one kT (zero at T = 0), and a level's potential is `floor[t]` + energy · `unit[t]`.
    """

    energies: Array
    kt: Array
    unit: Array
    floor: Array

    def potential(self, energy: Array, stage: Array, m: int) -> Array:
        return energy * self.unit[stage] + m * self.floor[stage]


def landscapes(stages: Sequence[Stage], lattice: Lattice) -> Landscapes:
    """Return the potentials of `stages` rounded on the lattice.

    >>> lattice = Lattice(n=9, m=5)
    >>> rounded = landscapes([Stage.of(Target(potential="hinge", temperature=1.0))], lattice)
    >>> error = rounded.floor + rounded.energies[0] * rounded.unit - np.maximum(0, -lattice.stabilities)
    >>> bool(abs(error).max() <= rounded.unit / 2)
    True
    """
    values = _values(stages, lattice.stabilities)
    slope = np.zeros((len(stages), lattice.size - 1))
    allowed = np.isfinite(values)
    walled = ~allowed.all(axis=1)
    for t in np.flatnonzero(walled):
        nearest = _nearest(allowed[t], stages[int(t)])
        values[t] = values[t, nearest]
        slope[t] = np.diff(np.abs(np.arange(lattice.size) - nearest))
    thermal, heat = heats(stages)
    floor = values.min(axis=1)
    values -= floor[:, None]
    largest = np.abs(np.diff(values)).max(axis=1)
    largest = np.where(thermal, np.where(walled, WALL, np.minimum(largest, WALL)), largest)
    # the largest field must fit 16 bits, and the sum over all constraints 32
    field = min((1 << 15) - 1, ((1 << 31) - 1) // (128 * -(-lattice.m // 128)))
    scale = np.minimum(_FINEST, (field - 2) / 2 / np.maximum(largest, 1e-300))
    # beyond a wall the values are constant and the slope takes over; a step too high is cut, the levels behind it sink
    wall = np.floor(largest * scale)[:, None]
    climb = np.clip(np.diff(np.rint(values * scale[:, None])) + slope * wall, -wall - 1, wall + 1)
    energies = np.zeros(values.shape, np.int64)
    np.cumsum(climb, axis=1, out=energies[:, 1:], dtype=np.int64)
    energies -= energies[np.arange(len(stages)), values.argmin(axis=1)][:, None]
    return Landscapes(energies.astype(np.int32), np.where(thermal, scale, 0.0), heat / scale, heat * floor)


def _values(stages: Sequence[Stage], stabilities: Array) -> Array:
    """Return U/T (or U at T = 0) of each stage at `stabilities`, (k, size); the stages of τ-annealing share log s.

    A stage's values do not depend on which others are computed with it.
    """
    values = np.empty((len(stages), len(stabilities)))
    powers: dict[float, list[int]] = {}
    for t, stage in enumerate(stages):
        if isinstance(stage.potential, Tau) and stage.potential.tau > 0:
            powers.setdefault(stage.margin, []).append(t)
        else:
            values[t] = stage.energies(stabilities)
    for margin, numbers in powers.items():
        s = stabilities - margin
        tau = np.array([stages[t].potential.parameters["tau"] for t in numbers])[:, None]
        heat = np.array([stages[t].temperature or 1.0 for t in numbers])[:, None]
        right = int(np.searchsorted(s, 0.0, side="right"))
        values[numbers, :right] = (1 - s[:right]) / (tau * heat)
        values[numbers, right:] = np.expm1(tau * np.log(s[right:])) / (-tau * heat)
    return values


def _nearest(allowed: Array, stage: Stage) -> Array:
    """Return for each level the number of the nearest allowed one (the lower of two)."""
    if not allowed.any():
        raise ValueError(f"{stage} allows no stability that ±1 weights and patterns can have.")
    levels = np.arange(len(allowed))
    below = np.maximum.accumulate(np.where(allowed, levels, -1))
    above = np.minimum.accumulate(np.where(allowed, levels, 1 << 40)[::-1])[::-1]
    return np.where((below < 0) | (above - levels < levels - below), above, below)


P = TypeVar("P", Landscapes, real_forms.Forms)  # how potentials are laid out


@dataclass(frozen=True)
class Work(Generic[P]):
    """Some sweeps: potentials and orders of sites, shared by all groups of chains."""

    sweeps: slice
    potentials: P
    orders: Array


class CpuFlips(Generic[P]):
    """`chains.Flips` on the processor: groups of chains, and the threads that take them through sweeps."""

    # what the two kinds of patterns differ in
    kernel: str
    kernels: Any  # module of compiled functions, which is imported at the first use
    place: Callable[[Chains], None]
    potentials: Callable[[Sequence[Stage]], P]
    walk: Callable[[Work[P], Chains, slice], None]
    integer_energies: Callable[[Array, P], Array]  # (stage (k,), potentials) -> energies (k,)

    def __init__(
        self, problem: Perceptron, plan: Plan, key: int, n_chains: int, breadth: int, n_threads: int | None
    ) -> None:
        from solspace.samplers.kernels import philox

        self.philox: Any = philox
        self.problem, self.plan, self.key, self.n_chains = problem, plan, np.uint64(key), n_chains
        self.groups = _groups(n_chains, n_threads)
        self.free = np.delete(np.arange(problem.n, dtype=np.int32), list(problem.clamped))  # sites that move
        self.most = max(1, _ROOM // (problem.n + breadth))
        self.pace = 1e9 * len(self.groups) / (n_chains * problem.n * problem.m)
        self._threads = ThreadPoolExecutor(len(self.groups), "flips")
        self._tasks: list[Future[None]] = []
        self._halt = np.zeros(1, np.bool_)

    def first_weights(self) -> Array:
        weights = np.empty((self.n_chains, self.problem.n), np.int8)
        self.philox.first_weights(self.key, 0, weights)
        return self.clamp(weights)

    def clamp(self, weights: Array) -> Array:
        for site, value in self.problem.clamped.items():
            weights[:, site] = value
        return weights

    def first_intercepts(self) -> Array:
        return np.empty((self.n_chains, 0))

    def energies_at(self, stage: Array, prepared: Work[P]) -> tuple[Array, Array]:
        potentials, energy = prepared.potentials, self.integer_energies(stage, prepared.potentials)
        return energy / potentials.kt[stage], potentials.potential(energy, stage, self.problem.m)

    def prepare(self, sweeps: slice) -> Work[P]:
        orders = np.empty((sweeps.stop - sweeps.start, len(self.free)), np.int32)
        self.philox.site_orders(self.key, sweeps.start, orders)
        orders = self.free[orders] if self.problem.clamped else orders
        return Work(sweeps, self.rungs if self.plan.ladder else self.potentials(self.plan.stages[sweeps]), orders)

    @cached_property
    def rungs(self) -> P:
        return self.potentials(self.plan.ladder)

    def launch(self, chains: Chains, sweeps: slice, prepared: Work[P]) -> None:
        self._tasks = [self._threads.submit(self.walk, prepared, chains, rows) for rows in self.groups]

    def collect(self, chains: Chains) -> None:
        for task in self._tasks:
            task.result()

    def weights_of(self, chains: Chains, rows: Array) -> Array:
        return chains.weights[rows]

    def stop(self) -> None:
        self._halt[0] = True
        wait(self._tasks)

    def stabilities(self, weights: Array) -> None:
        return None

    def _arguments(self, work: Work[P], chains: Chains, rows: slice) -> tuple[Sweeps, Rows]:
        """Return the sweeps and the chains `rows` as the kernels take them, with room for the chains' energies."""
        plan, now = self.plan, work.sweeps
        rules = plan.heat_bath(now), plan.draw_at[now], plan.solve
        sweeps = Sweeps(self.key, now.start, work.potentials.kt, plan.stride, work.orders, *rules)
        number = np.arange(len(chains.weights)) if chains.number is None else chains.number
        own = Rows(
            number=np.asarray(number[rows], np.int64),
            stage=chains.stage[rows],
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
        stage = chains.stage[rows, None] + self.plan.stride * np.arange(len(work.orders))
        found = work.potentials.potential(energies, stage, self.problem.m)
        chains.energy[rows, chains.recorded(work.sweeps)] = np.where(energies == NOT_DONE, np.nan, found)


class IntegerFlips(CpuFlips[Landscapes]):
    """Chains on ±1 patterns: packed columns and integer fields (`kernels.flips_integer`)."""

    kernel = "integer"

    def __init__(
        self,
        problem: Perceptron,
        plan: Plan,
        key: int,
        n_chains: int,
        n_threads: int | None = None,
        lattice: Lattice | None = None,
    ) -> None:
        from solspace.samplers.kernels import flips_integer

        self.kernels = flips_integer
        self.lattice = Lattice(problem.n, problem.m) if lattice is None else lattice
        super().__init__(problem, plan, key, n_chains, self.lattice.size, n_threads)
        self.blocks = 4 * -(-problem.m // 128)
        packed = aligned((problem.n, self.blocks), np.uint32)
        flips_integer.pack_columns(problem.patterns, packed)
        valid = np.packbits(np.arange(32 * self.blocks) < problem.m, bitorder="little").view(np.uint32)
        allowed = self.lattice.met_range(plan.target)
        self.patterns = flips_integer.Patterns(packed.reshape(-1), valid, problem.m, allowed)

    def place(self, chains: Chains) -> None:
        self.levels = aligned((len(chains.weights), 32 * self.blocks), np.uint16)
        self.kernels.find_levels(self.patterns.bits, chains.weights, self.lattice.base, self.levels)

    def potentials(self, stages: Sequence[Stage]) -> Landscapes:
        return landscapes(stages, self.lattice)

    def integer_energies(self, stage: Array, potentials: Landscapes) -> Array:
        return potentials.energies[stage[:, None], self.levels[:, : self.problem.m]].sum(axis=1, dtype=np.int64)

    def walk(self, work: Work[Landscapes], chains: Chains, rows: slice) -> None:
        tile, energies = self.kernels.TILE, work.potentials.energies
        scratch = self.kernels.Scratch(
            field=aligned(32 * self.blocks, np.int16),
            table=aligned(self.lattice.size + 512, np.int16),
            halves=aligned(1024, np.uint8),
            raw=aligned(tile, np.uint64),
            threshold=aligned(tile, np.int32),
        )
        sweeps, own = self._arguments(work, chains, rows)
        if not self.run(chains, rows, self.patterns, energies, sweeps, own, self.levels[rows], scratch, self._halt):
            raise ValueError(
                f"with n = {self.problem.n}, a stability left the 2^16 lattice steps around zero that are "
                "distinguished: patterns this correlated can be annealed up to n = 65000."
            )
        self._record(work, chains, rows, own.energy)

    def run(self, chains: Chains, rows: slice, *arguments: Any) -> bool:
        return bool(self.kernels.run_chains(*arguments))


class RealFlips(CpuFlips[real_forms.Forms]):
    """Chains on patterns of any values, in fixed point (`kernels.flips_real`)."""

    kernel = "fixed point"

    def __init__(self, problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> None:
        from solspace.samplers.kernels import flips_real

        self.kernels = flips_real
        self.fixed = real_forms.FixedPoint(problem, real_forms.reach_of(plan.stages))
        self.power = all(real_forms.is_power(stage) for stage in plan.stages)
        breadth = len(self.potentials(plan.stages[:1]).forms[0])
        super().__init__(problem, plan, key, n_chains, breadth, n_threads)
        allowed = self.fixed.met_range(plan.target)
        self.patterns = flips_real.Patterns(self.fixed.columns.reshape(-1), problem.m, allowed)

    def place(self, chains: Chains) -> None:
        first, last = self.patterns.allowed
        self.states = self.fixed.states(chains.weights, first + min(int(self.fixed.step) + 1, (last - first) // 2))

    def potentials(self, stages: Sequence[Stage]) -> real_forms.Forms:
        return real_forms.forms(stages, [self.fixed], self.power).of(0)

    def integer_energies(self, stage: Array, potentials: real_forms.Forms) -> Array:
        energy = np.empty(len(stage), np.int64)
        self.kernels.weigh(self.patterns, self._sampled(potentials), stage, self.states, energy)
        return energy

    def walk(self, work: Work[real_forms.Forms], chains: Chains, rows: slice) -> None:
        potentials = self._sampled(work.potentials)
        together = max(1, CACHE // (4 * self.states.shape[1]))
        for first in range(rows.start, rows.stop, together):
            some = slice(first, min(first + together, rows.stop))
            sweeps, own = self._arguments(work, chains, some)
            self.kernels.run_chains(self.patterns, potentials, sweeps, own, self.states[some], self._halt)
            self._record(work, chains, some, own.energy)

    def _sampled(self, potentials: real_forms.Forms) -> Any:
        return self.kernels.Potentials(potentials.forms, potentials.marks, potentials.margins, potentials.logarithm)


def cpu_flips(problem: Perceptron, plan: Plan, key: int, n_chains: int, n_threads: int | None = None) -> CpuFlips[Any]:
    kind: Callable[..., CpuFlips[Any]] = IntegerFlips if problem.has_binary_patterns else RealFlips
    if problem.target.prior.name != "binary" or problem.intercept is not None or problem.sample_weight is not None:
        from solspace.samplers.annealing.levels import level_flips

        kind = level_flips
    if problem.target.prior.name in ("spherical", "gaussian"):
        from solspace.samplers.annealing.rotations import Rotations

        kind = Rotations
    return kind(problem, plan, key, n_chains, n_threads)


def _groups(n_chains: int, n_threads: int | None) -> list[slice]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    edges = np.linspace(0, n_chains, min(n_threads or cores, n_chains) + 1).astype(int)
    return [slice(int(first), int(last)) for first, last in pairwise(edges)]
