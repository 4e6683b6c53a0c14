"""The state of annealed chains, the plan of their sweeps, and the loop that takes them through it on any device.

`Chains` is the least that the next sweep needs, and the record of the sweeps done. Random numbers are functions of
(key, chain, sweep), and cached stabilities follow from the weights: weights and a sweep number are all there is to store.
Some sweeps are launched at a time while the next ones are prepared; how they are cut into launches changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.measure.priors import Binary, Levels, Prior
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.checkpoint import Checkpoint
from solspace.samples import Samples
from solspace.system import threads
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.samplers.annealing.exchange import Exchange

BEAT = 0.25  # seconds of a launch


def key_of(rng: RNG) -> int:
    """Return the 64 bits from which all random numbers of a call are made."""
    return int(seed_sequence(rng).generate_state(1, np.uint64)[0])


@dataclass(frozen=True)
class Plan:
    """The sweeps of a call: a stage for each, and which of them end in a draw.

    The first `n_anneal` sweeps follow the schedule by Metropolis' rule. Further sweeps repeat its last stage by the heat
    bath: Metropolis accepts every flip that costs nothing, which two sweeps undo, so that chains that started alike would stay
    alike; the heat bath accepts half of them. With a `ladder`, each chain stays at a rung of it (`exchange`).
    """

    stages: Sequence[Stage]
    n_anneal: int
    draw_at: Array  # (sweeps,) number of the draw that each ends in, or -1
    solve: bool  # whether chains stop at their first solution
    target: Target  # what the last stage samples
    ladder: Sequence[Stage] = ()
    schedule: str = ""

    @classmethod
    def of(
        cls,
        stages: Sequence[Stage],
        n_extra: int,
        thin: int,
        solve: bool,
        target: Target | None = None,
        schedule: str = "",
        last: Stage | None = None,
    ) -> Plan:
        """Return the plan of a schedule's `stages` towards `target`, then `n_extra` sweeps with a draw after every `thin`.

        The further sweeps are at the stage `last`, by default that of the schedule.
        """
        sweeps, last = np.arange(1, len(stages) + n_extra + 1), stages[-1] if last is None else last
        after = sweeps - len(stages)
        drawn = (sweeps == len(sweeps)) if n_extra == 0 else (after > 0) & (after % thin == 0)
        draw_at = np.where(drawn & (not solve), np.cumsum(drawn) - 1, -1)
        # by identity: a user's own potentials may not be comparable
        same = target is not None and last.potential is target.potential
        if target is None or not same or (last.temperature, last.margin) != (target.temperature, target.margin):
            prior: Prior = Binary() if target is None else target.prior
            if last.temperature == 0 and isinstance(prior, Levels):
                prior = Levels(prior.values)  # moves that cost nothing are made whatever the probabilities
            target = last.target.replace(prior=prior)
        return cls([*stages, *[last] * n_extra], len(stages), draw_at, solve, target, schedule=schedule)

    def __len__(self) -> int:
        return len(self.stages)

    @property
    def stride(self) -> int:
        return 0 if self.ladder else 1

    @property
    def n_draws(self) -> int:
        return int(self.draw_at.max(initial=-1)) + 1

    @cached_property
    def record(self) -> Values:
        """Entries of an `AnnealingInfo`; τ where all stages have one."""
        record = {
            "sampler": self.schedule,
            "mode": "solve" if self.solve else "sample",
            "n_anneal": self.n_anneal,
            "draw_sweep": np.flatnonzero(self.draw_at >= 0),
            "temperature": np.array([stage.temperature for stage in self.stages]),
        }
        taus = [getattr(stage.potential, "tau", None) for stage in self.stages]
        return record if None in taus else {**record, "tau": np.array(taus)}

    def heat_bath(self, sweeps: slice) -> Array:
        return np.arange(len(self))[sweeps] >= self.n_anneal

    def problem(self, problem: Perceptron) -> Perceptron:
        """Return the problem that the last stage samples."""
        return problem if problem.target is self.target else problem.with_target(self.target)


_ARRAYS = ("weights", "intercepts", "draws", "shifts", "accepted", "energy", "solved_at", "stopped")


@dataclass
class Chains:
    """Chains after `sweep` sweeps: weights (k, n) and what was recorded of each sweep, (k, sweeps).

    `intercepts` are (k, 1) and their draws `shifts` (k, draws, 1); (k, 0) and (k, draws, 0) of a problem without an intercept.
    """

    weights: Array
    intercepts: Array
    draws: Array
    shifts: Array
    accepted: Array
    energy: Array
    solved_at: Array
    stopped: Array
    stage: Array  # (k,) rung of the plan's ladder that each chain is at; 0 without a ladder
    field: Array | None = None  # (k, n) h of the measure p(w) exp(⟨h, w⟩ - t |w|²/2)
    time: Array | None = None  # (k,) t of that measure, 0 by default; of no effect on ±1 weights
    number: Array | None = None  # (k,) from which, and the call's key, random numbers are made; None: 0 … k - 1
    sweep: int = 0
    begun: int = 0  # sweep that the first record is of

    @classmethod
    def start(
        cls,
        weights: Array,
        plan: Plan,
        field: Array | None = None,
        number: Array | None = None,
        records: int | None = None,
        intercepts: Array | None = None,
        time: Array | None = None,
    ) -> Chains:
        """Return chains at `weights` before the first sweep of `plan`, with room to record all sweeps or so many."""
        k, n = weights.shape
        records = len(plan) if records is None else records
        intercepts = np.empty((k, 0)) if intercepts is None else intercepts
        return cls(
            weights=weights,
            intercepts=intercepts,
            draws=np.zeros((k, plan.n_draws, n), weights.dtype),
            shifts=np.zeros((k, plan.n_draws, intercepts.shape[1])),
            accepted=np.zeros((k, records), np.int32),
            energy=np.full((k, records), np.nan),
            solved_at=np.full(k, -1, np.int64),
            stopped=np.zeros(k, np.bool_),
            stage=np.zeros(k, np.int64),
            field=None if field is None else np.ascontiguousarray(field, dtype=np.float64),
            time=None if time is None else np.ascontiguousarray(time, dtype=np.float64),
            number=number,
        )

    def recorded(self, sweeps: slice) -> slice:
        return slice(sweeps.start - self.begun, sweeps.stop - self.begun)

    def state(self) -> dict[str, Array]:
        """Return what `restore` needs: copies of what the next sweep overwrites, and records, which sweeps only add to."""
        overwritten = {name: getattr(self, name).copy() for name in ("weights", "intercepts", "solved_at", "stopped")}
        records = {name: getattr(self, name) for name in ("draws", "shifts", "accepted", "energy")}
        return {**records, **overwritten, "sweep": np.array(self.sweep)}

    def restore(self, stored: Mapping[str, Array]) -> None:
        for name in _ARRAYS:
            getattr(self, name)[...] = stored[name]
        self.sweep = int(stored["sweep"])
        # an interrupted run may have written on beyond the sweeps that count
        self.accepted[:, self.sweep :] = 0
        self.energy[:, self.sweep :] = np.nan

    def of(self, rows: slice) -> Chains:
        return replace(self, **{name: getattr(self, name)[rows] for name in (*_ARRAYS, "stage")})

    def drawn(self, plan: Plan) -> Array:
        """Return the weights that the chains drew, those of a chain side by side."""
        return self.weights if plan.solve else self.draws.reshape(-1, self.weights.shape[1])

    def samples(
        self, problem: Perceptron, plan: Plan, stabilities: Array | None = None, named: bool = True, **record: Any
    ) -> Samples:
        """Return the samples of the chains; `stabilities` if a device computed them, `record` for their info."""
        k, n = len(self.weights), max(1, problem.n - len(problem.clamped))
        draws = 1 if plan.solve else plan.n_draws
        shifts = self.intercepts if plan.solve else self.shifts
        intercepts = None if problem.intercept is None else shifts.reshape(-1)
        info = AnnealingInfo(
            n_chains=k,
            n_draws=draws,
            chain=np.repeat(np.arange(k), draws),
            draw=np.tile(np.arange(draws), k),
            acceptance=np.where(np.isfinite(self.energy), self.accepted / n, np.nan),
            energy=self.energy,
            solved_at=self.solved_at,
            **plan.record,
            **record,
        )
        return Samples.of(plan.problem(problem), self.drawn(plan), info, stabilities, named, intercepts)


class Flips(Protocol):
    """What moves chains by single flips: on the processor or on a device, for ±1 patterns or any others."""

    kernel: str  # its arithmetic: "integer" or "fixed point"
    most: int  # sweeps that fit into memory at a time
    pace: float  # sweeps a second, as a first guess

    def first_weights(self) -> Array: ...

    def first_intercepts(self) -> Array:
        """Return (k, 1), (k, 0) for a problem without an intercept."""
        ...

    def place(self, chains: Chains) -> None:
        """Compute from the weights what the kernel caches."""

    def prepare(self, sweeps: slice) -> Any:
        """Return what these sweeps need; called from other threads."""
        ...

    def launch(self, chains: Chains, sweeps: slice, prepared: Any) -> None: ...

    def collect(self, chains: Chains) -> None:
        """Wait for what was launched, and copy its results to the chains."""

    def energies_at(self, stage: Array, prepared: Any) -> tuple[Array, Array]:
        """Return the energies (k,) of the chains, each at its `stage` of those prepared: in kT, and as ΣU."""
        ...

    def weights_of(self, chains: Chains, rows: Array) -> Array: ...

    def stop(self) -> None:
        """End what is under way, at once and in mid-sweep."""

    def stabilities(self, weights: Array) -> Array | None:
        """Return the stabilities of the chains' `weights` (draws of a chain side by side); None: the problem computes them."""
        ...


def pool() -> ThreadPoolExecutor:
    """Return the threads that prepare sweeps, and copy what was recorded of some, while others run."""
    return threads.pool(8, "sweeps")


class Run:
    """Chains on their way through a plan: at most one launch under way, the next one prepared."""

    def __init__(self, flips: Flips, chains: Chains, plan: Plan) -> None:
        self.flips, self.chains, self.plan = flips, chains, plan
        flips.place(chains)
        self.count = _power_below(np.clip(BEAT * flips.pace, 1, flips.most))
        self.sweeps = slice(chains.sweep, chains.sweep)
        self._prepare_next()

    @property
    def done(self) -> bool:
        return self.chains.sweep >= len(self.plan) or bool(self.chains.stopped.all())

    def _prepare_next(self) -> None:
        first = min(self.sweeps.stop, len(self.plan) - 1)
        self.ahead = slice(first, min(first + self.count, len(self.plan)))
        self.prepared: Future[Any] = pool().submit(self.flips.prepare, self.ahead)

    def launch(self) -> None:
        self.sweeps = self.ahead
        prepared = self.prepared.result()
        self.begun = time.perf_counter()
        self.flips.launch(self.chains, self.sweeps, prepared)
        self._prepare_next()

    def collect(self, beat: float = 0.0) -> None:
        """Wait for the launch under way and copy its results; the next ones will take some `beat` seconds."""
        self.copy_results()
        self.chains.sweep = self.sweeps.stop
        pace = max(beat, BEAT) / max(time.perf_counter() - self.begun, 1e-9)
        done = self.sweeps.stop - self.sweeps.start
        # powers of two, so that the memory of one launch serves for the next
        self.count = _power_below(np.clip(done * pace, 1, min(self.flips.most, 8 * self.count)))

    def copy_results(self) -> None:
        self.flips.collect(self.chains)

    def step(self) -> None:
        self.launch()
        self.collect()

    def state(self) -> dict[str, Array]:
        return self.chains.state()

    def stop(self) -> None:
        self.flips.stop()


Report = Callable[[Chains], None]  # called with the chains a few times a second


def _power_below(count: float) -> int:
    return 1 << (int(count).bit_length() - 1)


def run_to_end(
    run: Run | Exchange,
    report: Report = lambda chains: None,
    store: Checkpoint | None = None,
    complete: Callable[[dict[str, Array]], Mapping[str, Array]] = dict,
) -> None:
    """Make all sweeps; `report` is called a few times a second.

    `store` keeps `complete(state)`. However the run ends, a state of at most `BEAT` seconds before is stored.
    """
    safe, copied = run.state() if store else {}, time.monotonic()
    try:
        while not run.done:
            run.step()
            if store and (run.done or time.monotonic() - copied >= BEAT):
                safe, copied = run.state(), time.monotonic()
                store.maybe_save(lambda state=safe: complete(state))
            report(run.chains)
    except BaseException:
        try:
            run.stop()
        finally:  # a lost device cannot be stopped either
            if store:
                store.save(complete(safe))
        raise
    if store:
        store.save(complete(safe))
