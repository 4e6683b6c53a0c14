"""Any solution of a perceptron problem with ±1 weights, as fast and as far as methods reach, and how many there are.

Solutions found follow no known law; their number comes from enumeration, or else from log Z of EP under the uniform measure.

`reinforce` feeds the field of message passing back, `ep` that of expectation propagation, `tau` anneals chains (`searches`),
`exact` enumerates. `auto` goes by the data:

* up to 20 weights: exact;
* rows that contradict each other, or that no weights can meet: reported at once, with the weights that miss the fewest;
  rows that only an exact tie can meet: a short search, as its failure proves nothing;
* patterns that look random: reinforce, faster rates first; others: chains, then ep where it is affordable, then reinforce.
"""

from __future__ import annotations

import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from solspace.enumeration import LARGEST, fewest_missed
from solspace.info import SolvingInfo
from solspace.measure import Target
from solspace.measure.priors import Spherical
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, generator, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.annealing.rotations import is_real
from solspace.samplers.constraints import (
    contradiction,
    flat,
    inseparable,
    nonzero,
    nowhere_on_the_sphere,
    tie,
    zero_rows,
)
from solspace.samplers.device import device_option, resolve
from solspace.samplers.marginals.ep import ep, site_variances
from solspace.samplers.marginals.gpu_problem import form
from solspace.samplers.solving.descent import descend
from solspace.samplers.solving.searches import Pass, fewest, passes_for, reinforce, reinforce_sites, tau
from solspace.samples import Samples
from solspace.system import compiled
from solspace.system import progress as bars
from solspace.system.checks import Config, choice, instance, positive_or_none, shown, whole

METHODS = ("auto", "reinforce", "tau", "ep", "exact", "descent")
PROOF_SECONDS = 5.0  # limit of a proof that patterns cannot be separated
ERROR = 0.1  # median difference of EP's log Z from enumeration at n = 16, `python -m benchmarks ep-accuracy`
OUT_OF_TIME, TRIED = "the time limit has passed", "all that can be tried has been"


@dataclass(frozen=True, kw_only=True)
class SolveConfig(Config):
    """Options of `solve`, which documents them: defaults, checks, and help for the command line."""

    method: str = choice("auto", METHODS, "reinforce, tau, ep, exact, or auto: by data, load and size")
    time_limit: float | None = positive_or_none("seconds after which the best so far is returned")
    device: str = device_option()


class OutOfTime(Exception):
    """The time limit of a search has passed."""


def solve(
    problem: Perceptron,
    n_solutions: int = 1,
    rng: RNG = None,
    method: str = "auto",
    time_limit: float | None = None,
    device: str = "cpu",
    *,
    progress: bool | None = None,
    callback: Callable[[Search], object] | None = None,
) -> Samples:
    """Search for any solutions of a problem with ±1 or real weights; they follow no known law.

    Parameters
    ----------
    problem : Perceptron
        Any patterns; only the stabilities that the potential allows matter.
    n_solutions : int, default 1
        Different solutions to find.
    rng : int, Generator, SeedSequence or None
        Seed. With a time limit, or on patterns that are not ±1, a seed does not fix the result.
    method : {"auto", "reinforce", "tau", "ep", "exact", "descent"}, default "auto"
        Reinforced message passing, chains, reinforced expectation propagation, enumeration (n <= 20), or chosen by the data. Of
        real weights descent on the squares of the distances by which constraints are missed, or "tau".
    time_limit : float, optional
        Seconds, compilation excluded. Without one the search ends when the slowest pass has been made once; with one that
        pass is repeated.
    device : {"cpu", "gpu", "auto"}, default "cpu"
        Where to run message passing.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.
    callback : callable, optional
        Called with the `Search` at its start and every few iterations; its `samples()` are the best so far.

    Returns
    -------
    Samples
        Solutions first; the others miss the fewest constraints. `info.impossible` states why no solution exists, where that
        is known.

    Raises
    ------
    ValueError
        If the prior is neither binary nor of real weights, or a method or device cannot be used.

    Warns
    -----
    UserWarning
        If fewer solutions were found.

    See Also
    --------
    localize, anneal : Fair samples.

    Examples
    --------
    >>> problem = Perceptron.random(n=301, alpha=0.6, rng=0)
    >>> solve(problem, 2, rng=1)
    Samples(k=2, n=301, m=181, solved 2/2, solve)
    """
    instance(Perceptron)("problem", problem)
    whole(1)("n_solutions", n_solutions)
    config = SolveConfig(method=method, time_limit=time_limit, device=device)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of the search, or None; got {shown(callback)}.")
    if refusal := lacks(problem.n, problem.target, method, device):
        raise ValueError(refusal)
    if not problem.plain:
        raise ValueError(
            "solve takes problems without an intercept, clamped weights and sample_weight; ss.anneal takes these, and ends in "
            "solutions below the loads at which its chains get stuck."
        )
    with bars.progress(time_limit or 1.0, "solving", progress) as bar:

        def report(search: Search) -> None:
            done = search.seconds if time_limit else search.iterations / (search.iterations + 1000)
            bar.advance(min(done, bar.total) - bar.done, search.note)
            if callback is not None:
                callback(search)

        samples, shortfall = searched(problem, n_solutions, rng, config, report)
    if shortfall:
        warnings.warn(shortfall, stacklevel=2)
    return samples


class Search:
    """The search for `n_solutions` of `problem`: what was found so far, and how long it may go on.

    `weights` (k, n) int8 are the best so far and `unmet` (k,) the constraints they miss, at most. Methods offer weights; a
    solution is checked against the patterns at once, the others at the end. So whatever ends the search, a time limit, Ctrl-C
    or the end of what can be tried, leaves the best that was found.
    """

    def __init__(
        self, problem: Perceptron, n_solutions: int, rng: RNG, config: SolveConfig, report: Callable[[Search], object]
    ) -> None:
        self.problem, self.n_solutions, self.seeds, self.report = problem, n_solutions, seed_sequence(rng), report
        on_host = config.device == "cpu" or config.method in ("exact", "ep")
        self.where = "cpu" if on_host else resolve(config.device)
        if config.time_limit is not None:
            compiled.import_numba()  # takes a second of its own
        self.begun, self.prepared, self.limit = time.monotonic(), compiled.seconds(), config.time_limit
        first = generator(self.seeds, 0)
        if is_real(problem.target):
            self.weights = np.array([problem.target.prior.draw(problem.n, first) for _ in range(n_solutions)])
        else:
            self.weights = 2 * first.integers(0, 2, (n_solutions, problem.n), dtype=np.int8) - 1
        self.unmet = np.full(n_solutions, problem.m + 1)
        self._stabilities: dict[bytes, Array] = {}  # of solutions
        self.tried: list[str] = []
        self.method, self.impossible, self.iterations, self.runs = "", "", 0, 0
        self.field: Callable[[], float] = lambda: 0.0

    @property
    def lacking(self) -> int:
        return int((self.unmet > 0).sum())

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.begun - (compiled.seconds() - self.prepared)

    @property
    def left(self) -> float:
        return np.inf if self.limit is None else self.limit - self.seconds

    @property
    def note(self) -> str:
        """Method, solutions found and unmet constraints, in a few words."""
        met = f"{self.n_solutions - self.lacking} of {self.n_solutions} found, " if self.n_solutions > 1 else ""
        size = self.field()
        field = f", field {size:.2g}" if size else ""
        return f"{self.method}: {met}{int(self.unmet.min(where=self.unmet > 0, initial=self.problem.m))} unmet{field}"

    def begin(self, method: str, runs: int) -> None:
        """Record that `runs` more runs of a method start."""
        self.method, self.runs = method, self.runs + runs
        if method not in self.tried:
            self.tried.append(method)

    def advance(self, iterations: int, field: Callable[[], float] = lambda: 0.0) -> None:
        """Count iterations, report, and raise `OutOfTime` if no time is left; `field` gives the size of the fields fed back."""
        self.iterations, self.field = self.iterations + iterations, field
        self.report(self)
        if self.left <= 0:
            raise OutOfTime

    def offer(self, weights: Array, unmet: Array | None = None) -> Array:
        """Keep what is new and better among `weights` (j, n); return how many constraints each misses, (j,).

        `unmet` (j,) are the method's own counts, of which only zeros are checked.
        """
        weights = np.asarray(weights, self.weights.dtype)
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
        known = self._stabilities
        rest = [row for row, weights in enumerate(self.weights) if weights.tobytes() not in known]
        if rest:
            found = self.problem.stabilities(self.weights[rest])
            known = known | {self.weights[row].tobytes(): own for row, own in zip(rest, found)}
        stabilities = np.array([known[weights.tobytes()] for weights in self.weights])
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


def searched(
    problem: Perceptron, n_solutions: int, rng: RNG, config: SolveConfig,
    report: Callable[[Search], object] = lambda search: None,
) -> tuple[Samples, str]:  # fmt: skip
    """Return the samples of `solve`, and a sentence about those that are no solutions."""
    search = Search(problem, n_solutions, rng, config, report)
    report(search)
    ended = _run(search, config.method)
    samples = search.samples(ended)
    if not search.lacking:
        return samples, ""
    least = int(search.unmet[search.unmet > 0].min())
    found = f"{n_solutions - search.lacking} of {n_solutions} solutions found"
    why = search.impossible or f"{ended}."
    return samples, f"{found}; the best of the others miss {least} of {problem.m} constraints: {why}"


def on_device(target: Target, random: bool, method: str = "auto") -> bool:
    """Return whether a device would do the work, on patterns that look `random` or not: that of message passing."""
    return random and method in ("auto", "reinforce") and form(flat(target)) is not None


def lacks(n: int, target: Target, method: str = "auto", device: str = "cpu") -> str:
    """Return in a sentence why `method` cannot solve `n` weights under `target` on `device`; empty if it can."""
    if is_real(target):
        if device == "gpu":
            return f"solutions with {target.prior} weights are looked for on the processor: give solve device='cpu' or 'auto'."
        others = method not in ("auto", "descent", "tau")
        return (
            f"method {method!r} looks for ±1 weights; take 'descent' or 'tau' for {target.prior} ones."
            if others
            else ""
        )
    if method == "descent":
        return f"method 'descent' looks for real weights; {target.prior} ones need another."
    if target.prior.name != "binary":
        return f"solve looks for ±1 and real weights, but the target's prior is {target.prior}; use localize or anneal for it."
    if method == "exact" and n > LARGEST:
        return f"method 'exact' enumerates 2^n weights: n must be at most {LARGEST}; got n = {n}."
    if device != "gpu" or method in ("auto", "tau") or on_device(target, True, method):
        return ""
    what = f"method {method!r}" if method != "reinforce" else f"method 'reinforce' under {target.potential}"
    return f"{what} runs on the processor: give solve device='cpu' or 'auto' for it."


def _run(search: Search, method: str) -> str:
    """Search by `method`; return in words why it ended."""
    try:
        if method == "descent" or (method == "auto" and is_real(search.problem.target)):
            if isinstance(search.problem.target.prior, Spherical) and (why := nowhere_on_the_sphere(search.problem)):
                search.impossible = f"{why}."
            else:
                descend(search)
        elif method == "exact" or (method == "auto" and search.problem.n <= LARGEST):
            exact(search)
        elif method == "auto":
            doubt, likely = tie(search.problem)
            _auto(search, bool(doubt) and not likely)
            return f"{doubt}, and none were found" if doubt else TRIED
        elif method == "reinforce":
            reinforce(search, _ladder(search, passes_for(search.problem)))
        else:
            run = tau if method == "tau" else reinforce_sites
            run(search)
            _repeat(search, run)
    except OutOfTime:
        return OUT_OF_TIME
    return TRIED


def _auto(search: Search, unlikely: bool) -> None:
    search.impossible = contradiction(search.problem)
    passes = passes_for(search.problem)
    if search.impossible or unlikely:
        reinforce(search, passes[:1])
    elif search.problem.looks_random():
        reinforce(search, passes[:3])
        if search.problem.n <= 500:
            tau(search)
        if _possible(search):
            reinforce(search, _ladder(search, passes[3:]))
    else:
        tau(search, (100, 1000))
        if _possible(search):
            if site_variances(search.problem) == "full":
                reinforce_sites(search)
            reinforce(search, passes)
            _repeat(search, tau)
    if search.lacking:
        fewest(search)


def _possible(search: Search) -> bool:
    """Return whether solutions are missing, and a linear program does not prove that there are none."""
    if search.lacking:
        search.impossible = inseparable(search.problem, min(PROOF_SECONDS, max(search.left, 0.1)))
    return search.lacking > 0 and not search.impossible


def _ladder(search: Search, passes: Sequence[Pass]) -> Iterable[Pass]:
    return itertools.chain(passes, itertools.repeat(passes[-1]) if search.limit is not None else ())


def _repeat(search: Search, method: Callable[[Search], None]) -> None:
    """Repeat a method with other seeds until a time limit ends it."""
    while search.limit is not None and search.lacking:
        (search.seeds,) = search.seeds.spawn(1)
        method(search)


def exact(search: Search) -> None:
    """Choose solutions at random among all, or weights that miss the fewest if there are none."""
    search.begin("exact", search.n_solutions)
    missed, best = fewest_missed(search.problem)
    take = min(len(best), search.n_solutions)
    search.offer(generator(search.seeds, 4).permutation(best)[:take])
    looked = f"every one of the 2^{search.problem.n} weights was looked at"
    if missed:
        search.impossible = f"no weights meet every constraint ({looked})."
    elif take < search.n_solutions:
        search.impossible = f"there are {take} solutions in all ({looked})."


@dataclass(frozen=True)
class Count:
    """The logarithm of the number of solutions, -inf if it is proved that there are none."""

    log_number: float
    error: float  # typical, as measured on small problems; 0 after enumeration
    method: str  # "exact" or "ep"
    doubt: str = ""  # why not to trust the number

    def __str__(self) -> str:
        if math.isnan(self.log_number):
            return f"unknown: {self.doubt}"
        if math.isinf(self.log_number):
            return "there is no solution"
        return f"{self.log_number:.3f}" + (f" ± {self.error:g}" if self.error else "")


def count(problem: Perceptron, device: str = "cpu") -> Count:
    """Return the number of solutions of `problem` with ±1 weights, each counted once whatever its energy.

    >>> problem = Perceptron.random(n=15, alpha=0.5, rng=0)
    >>> found = count(problem)
    >>> found.method, round(math.exp(found.log_number)) == problem.enumerate().n_solutions
    ('exact', True)
    """
    if emptiness(problem):
        return Count(-math.inf, 0.0, "exact")
    if problem.n <= LARGEST:
        return Count(math.log(len(fewest_missed(problem)[1])), 0.0, "exact")
    if len(zero_rows(problem)) == problem.m:
        return Count(problem.n * math.log(2), 0.0, "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # reported as a doubt
        found = ep(nonzero(problem).with_target(flat(problem.target)), device=device)
    assert found.log_partition is not None
    value = float(found.log_partition) if math.isfinite(found.log_partition) else math.nan
    doubts = (
        (not found.converged, f"expectation propagation has {found.status}"),
        (value < 1, "so few solutions are beyond what expectation propagation can tell from none"),
        (found.variances == "scalar", "one variance was kept for all weights: exact for large random patterns only"),
    )
    doubt = tie(problem)[0] or next((why for holds, why in doubts if holds), "")
    return Count(value, ERROR, "ep", doubt)


def emptiness(problem: Perceptron) -> str:
    """Return in a sentence why no ±1 weights meet every constraint; '' if that is not proved.

    >>> emptiness(Perceptron([[1, 1, 1], [-1, -1, -1]]))
    'every one of the 2^3 weights was looked at, and the best miss 1 of 2 constraints.'
    """
    if problem.n > LARGEST:
        return contradiction(problem)
    missed, _ = fewest_missed(problem)
    looked = f"every one of the 2^{problem.n} weights was looked at"
    return f"{looked}, and the best miss {missed} of {problem.m} constraints." if missed else ""
