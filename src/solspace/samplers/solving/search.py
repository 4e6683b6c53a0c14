"""A search for solutions: what was found so far, how long it may go on, and the methods beside reinforced message passing.

Methods offer weights; what is reported as a solution is checked against the patterns at once, the best of the others at the
end. The best weights are kept, so that whatever ends the search, a time limit, Ctrl-C or the end of what can be tried, leaves
the most that was found.

* `tau`: annealed chains that stop at the first solution, for half-spaces and bands, and any patterns; `fewest`: other
  constraints, and data that cannot be solved, by the number of unmet constraints, annealed from T = 1 down to 0.
* `reinforce_sites`: expectation propagation, for patterns on which AMP's averages do not hold; after every sweep of its
  updates the field that each weight feels, cavity and own, is fed back with some noise,
  h ← r_k (h + r) + σ (1 - r_k) z, with r_k = k δ.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from solspace.info import SolvingInfo
from solspace.measure import Target
from solspace.measure.potentials import Band, Log, LogBand, Potential, Uniform
from solspace.numerics.arrays import Array
from solspace.numerics.streams import child, generator
from solspace.problem import Perceptron
from solspace.samplers.annealing.anneal import first_solutions
from solspace.samplers.annealing.chains import Chains
from solspace.samplers.annealing.schedules import Stage, TauAnnealing
from solspace.samplers.constraints import Unmet, flat, nonzero
from solspace.samplers.marginals.ep import propagation
from solspace.samples import Samples
from solspace.system import compiled

HEAT = 1.0
"""Temperature, in constraints, at which the number of unmet ones is first annealed."""
SWEEPS = (100, 1000, 4000)
"""Sweeps of one attempt of chains after another."""
CHAINS = 4
"""Chains side by side, for each solution that is still to be found."""
RATES = (0.02, 0.005, 0.002)
"""Rates δ of one pass of `reinforce_sites` after another."""
NOISE = 0.2
"""Size σ of the noise on the fields, by which runs differ."""
LARGEST = 6.0
"""Largest field: beyond it a weight has decided, and the Gaussian's variances would vanish."""
DECIDED = 0.9999
"""|m|²/n from which on no sign changes."""


class OutOfTime(Exception):
    """The time limit of a search has passed."""


class Search:
    """The search for `n_solutions` of `problem`.

    Attributes
    ----------
    weights, unmet
        (k, n) int8 the best weights so far, solutions first found first, and (k,) the constraints they miss.
    left
        Seconds that are left, infinite without a limit.
    note
        How it goes, in a few words.
    """

    def __init__(
        self,
        problem: Perceptron,
        n_solutions: int,
        seeds: np.random.SeedSequence,
        time_limit: float | None = None,
        where: str = "cpu",
        report: Callable[[Search], object] = lambda search: None,
    ) -> None:
        self.problem, self.n_solutions, self.seeds, self.where, self.report = problem, n_solutions, seeds, where, report
        if time_limit is not None:
            compiled.import_numba()  # which takes a second of its own
        self.begun, self.prepared, self.limit = time.monotonic(), compiled.seconds(), time_limit
        first = generator(seeds, 0).integers(0, 2, (n_solutions, problem.n), dtype=np.int8)
        self.weights = 2 * first - 1
        self.unmet = np.full(n_solutions, problem.m + 1)
        self._stabilities: dict[bytes, Array] = {}
        self.tried: list[str] = []
        self.method, self.iterations, self.runs = "", 0, 0
        self.impossible = ""
        self.field: Callable[[], float] = lambda: 0.0

    @property
    def lacking(self) -> int:
        """How many solutions are still to be found."""
        return int((self.unmet > 0).sum())

    @property
    def seconds(self) -> float:
        """Seconds that the search has taken, compilation aside."""
        return time.monotonic() - self.begun - (compiled.seconds() - self.prepared)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return np.inf if self.limit is None else self.limit - self.seconds

    @property
    def note(self) -> str:
        """How it goes, in a few words."""
        met = f"{self.n_solutions - self.lacking} of {self.n_solutions} found, " if self.n_solutions > 1 else ""
        size = self.field()
        field = f", field {size:.2g}" if size else ""
        return f"{self.method}: {met}{int(self.unmet.min(where=self.unmet > 0, initial=self.problem.m))} unmet{field}"

    def begin(self, method: str, runs: int) -> None:
        """Record that `runs` more runs of a method start."""
        self.method, self.runs = method, self.runs + runs
        if method not in self.tried:
            self.tried.append(method)

    def go_on(self, iterations: int = 0, field: Callable[[], float] = lambda: 0.0) -> None:
        """Count iterations, report, and raise `OutOfTime` if no time is left; `field` gives the size of the fields fed back."""
        self.iterations, self.field = self.iterations + iterations, field
        self.report(self)
        if self.left <= 0:
            raise OutOfTime

    def offer(self, weights: Array, unmet: Array | None = None) -> Array:
        """Take what is new or better among `weights` (j, n) of ±1; return how many constraints each misses, (j,).

        `unmet` (j,) are the method's own counts, of which only zeros are checked at once.
        """
        weights = np.asarray(weights, np.int8)
        missed = np.zeros(len(weights), int) if unmet is None else np.array(unmet)
        check = np.flatnonzero(missed == 0)
        if len(check):
            stabilities = self.problem.stabilities(weights[check])
            missed[check] = self.problem.target.violated(stabilities).sum(axis=1)
            solved = missed[check] == 0
            self._stabilities |= {weights[row].tobytes(): s for row, s in zip(check[solved], stabilities[solved])}
        for row in np.argsort(missed, kind="stable"):
            worst = int(np.argmax(self.unmet))
            again = (self.weights[self.unmet == missed[row]] == weights[row]).all(axis=1).any()
            if missed[row] < self.unmet[worst] and not again:
                self.weights[worst], self.unmet[worst] = weights[row], missed[row]
        return missed

    def samples(self, ended: str = "") -> Samples:
        """Return the best weights so far as samples, solutions first."""
        known = [self._stabilities.get(row.tobytes()) for row in self.weights]
        rest = [row for row, stabilities in enumerate(known) if stabilities is None]
        stabilities = np.empty((self.n_solutions, self.problem.m))
        for row, own in enumerate(known):
            if own is not None:
                stabilities[row] = own
        if rest:
            stabilities[rest] = self.problem.stabilities(self.weights[rest])
        self.unmet = self.problem.target.violated(stabilities).sum(axis=1)
        order = np.argsort(self.unmet, kind="stable")
        info = SolvingInfo(
            sampler="solve",
            seed=str(self.seeds.entropy),
            device=self.where,
            wall_time=time.monotonic() - self.begun,
            method=self.method,
            tried=list(self.tried),
            iterations=self.iterations,
            restarts=max(0, self.runs - self.n_solutions),
            seconds=self.seconds,
            unmet=self.unmet[order],
            ended=ended if self.lacking else "",
            impossible=self.impossible if self.lacking else "",
        )
        return Samples.of(self.problem, self.weights[order], info, stabilities[order])


@dataclass(frozen=True)
class Fewest:
    """The number of constraints that a potential does not allow, from T = HEAT to 0."""

    potential: Potential
    name = "fewest"

    def stages(self, target: Target, n_sweeps: int) -> Sequence[Stage]:
        """Return T = HEAT, ..., 0."""
        return [Stage(Unmet(self.potential), float(heat), target.margin) for heat in np.linspace(HEAT, 0.0, n_sweeps)]


def tau(search: Search, sweeps: Sequence[int] = SWEEPS) -> None:
    """Search by chains, each attempt longer than the one before."""
    for number, count in enumerate(sweeps):
        if not search.lacking:
            return
        _anneal(search, "tau", count, number)


def fewest(search: Search, sweeps: int = 1000) -> None:
    """Lower the number of unmet constraints: by τ-annealing, which leaves fewer but on the smallest problems, first."""
    if search.lacking and "tau" not in search.tried:
        tau(search, (sweeps,))
    if search.lacking:
        _anneal(search, "fewest", sweeps, len(SWEEPS))


def _annealing(target: Target, method: str) -> tuple[Target, object]:
    """Return the target that chains end in, and the schedule."""
    plain = flat(target)
    if method == "tau" and isinstance(plain.potential, (Uniform, Band)):
        walls = Log() if isinstance(plain.potential, Uniform) else LogBand(plain.potential.width)
        return Target(potential=walls, margin=plain.margin), TauAnnealing()
    return plain, Fewest(plain.potential)


def _anneal(search: Search, method: str, sweeps: int, number: int) -> None:
    n_chains = CHAINS * search.lacking
    search.begin(method, n_chains)
    target, schedule = _annealing(search.problem.target, method)
    last, done = None, 0

    def look(chains: Chains) -> None:
        nonlocal last, done
        last, made, done = chains.weights, chains.sweep - done, chains.sweep
        search.go_on(made)

    try:
        found = first_solutions(
            search.problem.with_target(target),
            n_chains,
            sweeps,
            schedule,
            rng=child(search.seeds, 2, number),
            device=search.where,
            progress=False,
            callback=look,
        )
    except (OutOfTime, KeyboardInterrupt):
        if last is not None:
            search.offer(last)
        raise
    search.offer(found.weights)


def reinforce_sites(search: Search, runs: int = 1) -> None:
    """Search by one pass after another, `runs` for each solution that is still to be found."""
    for number, rate in enumerate(RATES):
        if search.lacking:
            _pass(search, rate, runs * search.lacking, number)


def _pass(search: Search, rate: float, k: int, number: int) -> None:
    search.begin("ep", k)
    problem = nonzero(search.problem).with_target(flat(search.problem.target))
    sites = propagation(problem, k, where=search.where)
    random = generator(child(search.seeds, 3, number))
    sites.field[...] = NOISE * random.standard_normal((k, problem.n))
    every, at_once, moving = np.full(k, np.inf), np.ones(k, int), np.arange(k)
    for step in range(1, int(1 / rate) + 20):
        try:
            with np.errstate(all="ignore"):
                sites.run(every, at_once, moving)  # any change will do: one sweep of updates
        except (ValueError, np.linalg.LinAlgError):
            return  # sites ran away, as they do where weights decide against a constraint
        felt = np.arctanh(np.clip(sites.mean, -np.tanh(LARGEST), np.tanh(LARGEST)))
        share = min(rate * step, 1.0)
        sites.field[...] = share * felt + NOISE * (1 - share) * random.standard_normal((k, problem.n))
        search.go_on(1, lambda: float(np.abs(sites.field).mean()))
        missed = search.offer(np.where(sites.mean[moving] >= 0, 1, -1))
        moving = moving[(missed > 0) & ((sites.mean[moving] ** 2).mean(axis=1) < DECIDED)]
        if not search.lacking or not len(moving):
            return
