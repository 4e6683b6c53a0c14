"""What a search for solutions has found so far, how long it may go on, and who is told.

Methods offer weights; what is said to be a solution is checked against the patterns at once, the best of the others at the
end, here and nowhere else. Of each row that is asked for the best weights are kept, so that whatever ends the search, a time
limit, Ctrl-C or the end of what can be tried, leaves the most that was found.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from solspace.info import SolvingInfo
from solspace.numerics.arrays import Array
from solspace.numerics.streams import generator
from solspace.problem import Perceptron
from solspace.samples import Samples
from solspace.system import compiled


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
        """Say that `runs` more runs of a method start."""
        self.method, self.runs = method, self.runs + runs
        if method not in self.tried:
            self.tried.append(method)

    def go_on(self, iterations: int = 0, field: Callable[[], float] = lambda: 0.0) -> None:
        """Count iterations, tell whoever looks, and raise `OutOfTime` where there is none left.

        `field` gives the size of the fields fed back to whoever asks.
        """
        self.iterations, self.field = self.iterations + iterations, field
        self.report(self)
        if self.left <= 0:
            raise OutOfTime

    def offer(self, weights: Array, unmet: Array | None = None) -> Array:
        """Take what is new or better among `weights` (j, n) of ±1; return how many constraints each misses, (j,).

        `unmet` (j,) is what the method has counted: where it is not 0 it is believed for the time being.
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
