"""Any solution of a perceptron problem with ±1 weights, as fast and as far as methods reach; no law is claimed for it.

Sampling has to be fair; solving only has to arrive. `reinforce` feeds the field of message passing back (`reinforce`),
`tau` anneals chains (`chains`), `ep` feeds the field of expectation propagation back (`sites`), `exact` looks at all
weights and so proves it where there is no solution. `auto` goes by the data:

* up to 20 weights: exact;
* rows that contradict each other, or that no weights can meet: said at once, with the weights that miss the fewest;
  rows that only an exact tie can meet: a short search, as its failure proves nothing;
* patterns that look random: reinforce, faster rates first, slower ones and more runs side by side after them;
* others: chains, then ep where it is affordable, then reinforce with damping.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from solspace.enumeration import LARGEST, fewest_missed
from solspace.measure import Target
from solspace.numerics.streams import RNG, generator, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.constraints import contradiction, flat, inseparable, tie
from solspace.samplers.device import resolve
from solspace.samplers.marginals.ep import site_variances
from solspace.samplers.marginals.gpu_channel import form
from solspace.samplers.options import Config, choice, device_option, positive_or_none
from solspace.samplers.solving.reinforce import Pass, passes_for, reinforce
from solspace.samplers.solving.search import OutOfTime, Search, fewest, reinforce_sites, tau
from solspace.samples import Samples
from solspace.system import progress as bars
from solspace.system.checks import instance, shown, whole

METHODS = ("auto", "reinforce", "tau", "ep", "exact")


@dataclass(frozen=True, kw_only=True)
class SolveConfig(Config):
    """Options of `solve`, where they are documented."""

    method: str = choice("auto", METHODS, "reinforce, tau, ep, exact, or auto: by data, load and size")
    time_limit: float | None = positive_or_none("seconds after which the best so far is returned")
    device: str = device_option()


PROOF_SECONDS = 5.0
"""What a proof that patterns cannot be separated may take."""
OUT_OF_TIME, TRIED = "the time limit has passed", "all that can be tried has been"


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
    """Search for any solutions of a problem with ±1 weights; they follow no known law.

    Parameters
    ----------
    problem : Perceptron
        Any patterns; only the stabilities that the potential allows matter.
    n_solutions : int, default 1
        Different solutions to find.
    rng : int, Generator, SeedSequence or None
        Seed. With a time limit, or on patterns that are not ±1, a seed does not fix the result.
    method : {"auto", "reinforce", "tau", "ep", "exact"}, default "auto"
        Reinforced message passing, chains, reinforced expectation propagation, enumeration (n <= 20), or chosen by the data.
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
        If the prior is not binary, or a method or device cannot be used.

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
    refusal = lacks(problem.n, problem.target, method) or _lacks_device(problem.target, method, device)
    if refusal:
        raise ValueError(refusal)
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


def searched(
    problem: Perceptron, n_solutions: int, rng: RNG, config: SolveConfig,
    report: Callable[[Search], object] = lambda search: None,
) -> tuple[Samples, str]:  # fmt: skip
    """Return the samples of `solve`, and a sentence about those that are no solutions."""
    where = "cpu" if config.method in ("exact", "ep") else resolve(config.device)
    search = Search(problem, n_solutions, seed_sequence(rng), config.time_limit, where, report)
    report(search)
    ended = _run(search, config.method)
    samples = search.samples(ended)
    return samples, _shortfall(search, ended) if search.lacking else ""


def on_device(target: Target, random: bool, method: str = "auto") -> bool:
    """Return whether a device does the work on patterns that are `random` or not: that of message passing."""
    return random and method in ("auto", "reinforce") and form(flat(target)) is not None


def lacks(n: int, target: Target, method: str = "auto") -> str:
    """Return what keeps `method` from working on `n` weights under `target`, as a sentence; empty if nothing does."""
    if target.prior.name != "binary":
        return f"solve looks for ±1 weights, but the target's prior is {target.prior}; use localize for it."
    if method == "exact" and n > LARGEST:
        return f"method 'exact' enumerates 2^n weights: n must be at most {LARGEST}; got n = {n}."
    return ""


def _lacks_device(target: Target, method: str, device: str) -> str:
    """Return in a sentence why a device that was asked for by name would not be used; empty if it would."""
    if device != "gpu" or method in ("auto", "tau") or on_device(target, True, method):
        return ""
    what = f"method {method!r}" if method != "reinforce" else f"method 'reinforce' under {target.potential}"
    return f"{what} runs on the processor: give solve device='cpu' or 'auto' for it."


def _shortfall(search: Search, ended: str) -> str:
    found = search.n_solutions - search.lacking
    missed = (
        f"the best of the others miss {int(search.unmet[search.unmet > 0].min())} of {search.problem.m} constraints"
    )
    why = search.impossible or f"{ended}."
    return f"{found} of {search.n_solutions} solutions found; {missed}: {why}"


def _run(search: Search, method: str) -> str:
    """Search by `method`; return in words why it ended."""
    try:
        if method == "exact" or (method == "auto" and search.problem.n <= LARGEST):
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
    if search.impossible or unlikely:
        reinforce(search, iter(passes_for(search.problem)[:1]))
        fewest(search)
        return
    if search.problem.looks_random():
        passes = passes_for(search.problem)
        reinforce(search, iter(passes[:3]))
        if search.problem.n <= 500:
            tau(search)
        _proof(search)
        if search.lacking and not search.impossible:
            reinforce(search, _ladder(search, passes[3:]))
    else:
        tau(search, (100, 1000))
        _proof(search)
        if search.lacking and not search.impossible:
            if site_variances(search.problem) == "full":
                reinforce_sites(search)
            reinforce(search, iter(passes_for(search.problem)))
            _repeat(search, tau)
    fewest(search)


def _ladder(search: Search, passes: Sequence[Pass]) -> Iterator[Pass]:
    """Return the passes, the last of them again and again while a time limit allows."""
    return itertools.chain(passes, itertools.repeat(passes[-1]) if search.limit is not None else ())


def _repeat(search: Search, method: Callable[[Search], None]) -> None:
    """Let a method go on until a time limit ends it, each time from other seeds."""
    while search.limit is not None and search.lacking:
        (search.seeds,) = search.seeds.spawn(1)
        method(search)


def _proof(search: Search) -> None:
    if search.lacking:
        search.impossible = inseparable(search.problem, min(PROOF_SECONDS, max(search.left, 0.1)))


def exact(search: Search) -> None:
    """Take solutions at random among all; where there are none, say so and take weights that miss the fewest."""
    search.begin("exact", search.n_solutions)
    missed, best = fewest_missed(search.problem)
    take = min(len(best), search.n_solutions)
    search.offer(generator(search.seeds, 4).permutation(best)[:take])
    looked = f"every one of the 2^{search.problem.n} weights was looked at"
    if missed:
        search.impossible = f"no weights meet every constraint ({looked})."
    elif take < search.n_solutions:
        search.impossible = f"there are {take} solutions in all ({looked})."
