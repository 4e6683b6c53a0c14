"""How many solutions a problem has, or log Z of any target, with an interval; which method, and how far to trust it.

`exact` looks at all weights, `epar` draws weights by expectation propagation and averages importance weights, `smc` follows
particles along the τ ladder, `ep` is the approximation alone, without an interval. A chain is no method: it counts the solutions
that hang together, and most solutions at higher loads are isolated.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from solspace.counting import smc
from solspace.counting.epar import Epar, tail_signs
from solspace.counting.exact import Free, exact_parts, searchable, seconds, uniform_limit
from solspace.counting.result import Count, interval
from solspace.measure import Target
from solspace.measure.priors import Binary, Levels
from solspace.numerics.arrays import Array
from solspace.numerics.streams import RNG, child, seed_sequence
from solspace.problem import Perceptron
from solspace.samplers.constraints import contradiction, flat, nonzero
from solspace.samplers.marginals.ep import ep
from solspace.system import progress as bars
from solspace.system.checks import instance, number, one_of, optional
from solspace.system.plain import Values

METHODS = ("auto", "exact", "epar", "smc", "ep")
LANES, ROUND = 256, 32  # lanes of EPAR, and those between which it can stop
FEW, MORE = 100, 1024  # effective lanes below which `auto` draws more, and how many then
LEAST = 30.0  # effective lanes from which an interval is trusted
SPREAD = 0.7  # largest standard deviation of log Z among runs of SMC from which an interval is trusted
LONG = 2e12  # operations of EPAR beyond which `auto` leaves it out


def count(
    problem: Perceptron,
    target: Target | None = None,
    confidence: float = 0.95,
    method: str = "auto",
    rng: RNG = None,
    time_limit: float | None = None,
    device: str = "cpu",
    progress: bool | None = None,
) -> Count:
    """Count the solutions of a problem, or compute log Z of a target, with an interval.

    Parameters
    ----------
    problem : Perceptron
        Any patterns; weights ±1 or `Levels`.
    target : Target, optional
        Measure whose log Z is computed. By default solutions are counted: weights that meet every constraint of the problem,
        each once whatever its energy. Where the problem's potential is a likelihood (logistic, probit, flip), which forbids
        nothing, the default is log Z of its own target: less n log L (L levels) the log evidence of the data.
    confidence : float, default 0.95
        Confidence of the interval.
    method : {"auto", "exact", "epar", "smc", "ep"}, default "auto"
        All weights (n to about 40); draws guided by expectation propagation with an exact tail; particles along the τ ladder
        (±1 weights and patterns, log or uniform potential); expectation propagation, which has no interval; or exact where that
        takes less than a minute and else epar, with smc as a second opinion.
    rng : int, Generator, SeedSequence or None
        Seed.
    time_limit : float, optional
        Seconds after which the result so far is returned.
    device : {"cpu"}, default "cpu"
        Counting runs on the processor.
    progress : bool, optional
        Whether to show a progress bar; by default if stderr is a terminal, or in a notebook.

    Returns
    -------
    Count
        With `log`, `low`, `high`, `exact`, `method`, `effective_samples` and `status`.

    Raises
    ------
    ValueError
        If the prior is not discrete, or a method cannot take the problem.

    Notes
    -----
    An interval is trusted where at least 30 lanes are effective and expectation propagation converged: to n of about 100 at
    loads to 0.5, and 200 at 0.3, for the uniform measure on ±1 weights. Elsewhere `low` is Markov's bound, which always holds,
    and `high` that of the prior.

    See Also
    --------
    solve : Find solutions.
    ep : The guide of the draws.

    Examples
    --------
    >>> from solspace import Perceptron, Target
    >>> problem = Perceptron.random(n=45, alpha=0.4, rng=0)
    >>> found = count(problem, method="epar", rng=1)
    >>> found.method, found.low < found.log < found.high
    ('epar', True)
    >>> round(count(Perceptron.random(n=15, alpha=0.3, rng=0), target=Target(temperature=1.0)).log, 4)
    6.2449
    """
    free, config = prepared(problem, target, confidence, method, time_limit, device)
    with bars.progress(1.0, "counting", progress) as bar:
        last: Count | None = None
        for share, found in counted(free, config, rng):
            bar.advance(max(0.0, share - bar.done), str(found).partition(";")[0] if not math.isinf(found.log) else "")
            last = found
    assert last is not None
    return last


@dataclass(frozen=True)
class CountConfig:
    """Options of `count` after their checks."""

    confidence: float
    method: str
    time_limit: float | None
    solutions: bool


def prepared(
    problem: Perceptron, target: Target | None = None, confidence: float = 0.95, method: str = "auto",
    time_limit: float | None = None, device: str = "cpu",
) -> tuple[Free, CountConfig]:  # fmt: skip
    """Return the checked problem and options of `count`."""
    instance(Perceptron)("problem", problem)
    own, potential = optional(instance(Target))("target", target), problem.target.potential
    if own is None:
        own = problem.target if potential.likelihood and not potential.hard else flat(problem.target)
    number(positive=True, most=1 - 1e-9)("confidence", confidence)
    optional(number(positive=True))("time_limit", time_limit)
    one_of(METHODS)("method", method)
    if device != "cpu":
        raise ValueError(f"counting runs on the processor: device must be 'cpu'; got {device!r}.")
    if not isinstance(own.prior, (Binary, Levels)):
        raise ValueError(
            f"only weights of finitely many values can be counted: ±1 or Levels; the prior is {own.prior}."
        )
    free = Free(problem.with_target(own))
    if method == "exact" and not searchable(free):
        raise ValueError(
            "method 'exact' takes about 40 ±1 weights on ±1 patterns, 34 on others, and 20 where the potential forbids nothing "
            f"or there is an intercept (for L levels 2/log2 L as many); got n = {problem.n}. Take 'epar'."
        )
    if method in ("epar", "smc") and (
        problem.intercept is not None or (problem.sample_weight is not None and not free.decided)
    ):
        raise ValueError(f"method {method!r} takes no intercept and no sample weights; 'exact' does, to 20 weights.")
    if method == "smc" and (why := smc.refusal(free)):
        raise ValueError(why)
    solutions = own.potential.athermal and own.potential.hard and not free.levels.log_weights.any()
    return free, CountConfig(confidence, method, time_limit, solutions)


def counted(free: Free, config: CountConfig, rng: RNG = None) -> Iterator[tuple[float, Count]]:
    """Yield the share that is done and the count so far; the last is the result of `count`."""
    seeds, begun = seed_sequence(rng), time.monotonic()
    for share, found in _METHODS[config.method](free, config, seeds):
        spent = time.monotonic() - begun
        found = replace(found, seconds=spent)
        if config.time_limit is not None and spent > config.time_limit and share < 1:
            yield 1.0, replace(found, status=f"stopped by the time limit: {found.status}")
            return
        yield share, found


def _count(free: Free, config: CountConfig, method: str, **values: Any) -> Count:
    problem = free.problem
    defaults = {"exact": False, "effective_samples": None, "trusted": False}
    own: Values = {"confidence": config.confidence, "solutions": config.solutions, "target": problem.target}
    own |= {"n": problem.n, "m": problem.m, "method": method}
    return Count(**{**defaults, **own, **values})


Steps = Iterator[tuple[float, Count]]


def _auto(free: Free, config: CountConfig, seeds: np.random.SeedSequence) -> Steps:
    why = ""
    if free.problem.intercept is None and free.levels.values == (-1.0, 1.0) and free.problem.target.potential.hard:
        why = contradiction(free.problem)
    if why:
        empty = {"log": -math.inf, "low": -math.inf, "high": -math.inf, "exact": True, "trusted": True}
        yield 1.0, _count(free, config, "exact", status=f"there is no solution: {why}", **empty)
        return
    if searchable(free) and (config.time_limit is None or seconds(free) < config.time_limit):
        yield from _exact(free, config, seeds)
        return
    if free.problem.intercept is not None or (free.problem.sample_weight is not None and not free.decided):
        raise ValueError("problems with an intercept or sample weights are counted by enumeration, up to 20 weights.")
    second = 0.2 if not smc.refusal(free) and smc.cost(free) < LONG else 0.0
    found = None
    if _cost(free) < LONG:
        for share, found in _epar(free, config, seeds):
            yield (1 - second) * share * (1 - 1e-9), found
    if second:
        other = None
        for share, other in _smc(free, config, seeds):
            yield 1 - second + second * share * (1 - 1e-9), other if found is None else found
        assert other is not None
        found = other if found is None else _with_second(found, other)
    if found is None or not found.trusted:
        found = _bounded(free, config, found)
    yield 1.0, found


def _exact(free: Free, config: CountConfig, seeds: np.random.SeedSequence) -> Steps:
    limit = uniform_limit(free) if config.solutions else math.inf
    words = "every weight vector was considered"
    for share, value in exact_parts(free):
        if share < 1:
            status = f"{100 * share:.0f}% of the weights were considered: a lower bound"
            yield share, _count(free, config, "exact", log=value, low=value, high=limit, status=status)
        else:
            status = f"there is no solution: {words}" if math.isinf(value) and config.solutions else words
            found = {"log": value, "low": value, "high": value, "exact": True, "trusted": True}
            yield 1.0, _count(free, config, "exact", status=status, **found)


def _epar(free: Free, config: CountConfig, seeds: np.random.SeedSequence) -> Steps:
    sampler, logs = Epar.chosen(free, child(seeds, 3)), np.zeros(0)
    seeds, total = child(seeds, 1), LANES
    while len(logs) < total:
        logs = np.append(logs, sampler.lanes(np.arange(len(logs), len(logs) + ROUND), seeds))
        found = _from_lanes(free, config, logs, sampler.converged)
        if len(logs) == LANES and config.method == "auto" and (found.effective_samples or 0) < FEW:
            total = MORE
        yield len(logs) / total, found


def _from_lanes(free: Free, config: CountConfig, logs: Array, converged: bool) -> Count:
    centre, low, high, effective = interval(logs, config.confidence)
    limit = uniform_limit(free) if config.solutions else math.inf
    words = f"{len(logs)} lanes, {effective:.0f} of them effective"
    if effective >= LEAST and converged:
        ends = {"log": centre, "low": low, "high": min(high, limit), "trusted": True}
        return _count(free, config, "epar", effective_samples=effective, status=f"an interval from {words}", **ends)
    if math.isinf(centre):
        status = f"no solution was met by {len(logs)} lanes: there may be none, and the lower end is log 0 = −inf"
        return _count(free, config, "epar", effective_samples=0.0, status=status, log=centre, low=centre, high=limit)
    why = words if converged else f"{words}, and expectation propagation has not converged"
    bound = centre + math.log1p(-config.confidence)
    status = f"no interval ({why}): only the lower end holds, by Markov's inequality; more than that cannot be known this way"
    return _count(free, config, "epar", effective_samples=effective, status=status, log=centre, low=bound, high=limit)


def _smc(free: Free, config: CountConfig, seeds: np.random.SeedSequence) -> Steps:
    logs: list[float] = []
    limit = uniform_limit(free) if config.solutions else math.inf
    for estimate in smc.runs(free, child(seeds, 2)):
        logs.append(estimate)
        if len(logs) < 2:
            continue
        centre, low, high, effective = interval(np.array(logs), config.confidence)
        spread = float(np.std(logs, ddof=1)) if np.isfinite(logs).all() else math.inf
        words = f"{len(logs)} runs of {smc.PARTICLES} particles"
        if spread <= SPREAD:
            ends = {"log": centre, "low": low, "high": min(high, limit), "trusted": True}
            status = f"an interval from {words}"
        elif math.isinf(centre):
            ends = {"log": centre, "low": centre, "high": limit}
            status = f"no solution was met by {words}: there may be none, and the lower end is log 0 = −inf"
        else:
            ends = {"log": centre, "low": centre + math.log1p(-config.confidence), "high": limit}
            status = f"no interval ({words} differ too much): only the lower end holds, by Markov's inequality"
        yield len(logs) / smc.RUNS, _count(free, config, "smc", effective_samples=effective, status=status, **ends)


def _with_second(found: Count, other: Count) -> Count:
    """Return a count with what a second method says of it: where both are trusted and disagree, an interval that holds both."""
    if not other.trusted:
        return found
    if not found.trusted:
        return replace(other, status=f"{other.status}; epar has no interval: {found.status}")
    if other.low <= found.high and found.low <= other.high:
        return replace(found, status=f"{found.status}; {other.method} agrees: {other.log:.2f}")
    words = f"{other.method} disagrees: {other.log:.2f} ({other.low:.2f} … {other.high:.2f})"
    ends: dict[str, Any] = {"low": min(found.low, other.low), "high": max(found.high, other.high), "trusted": False}
    return replace(found, **ends, status=f"{words}; the ends hold both intervals. Do not trust either")


def _bounded(free: Free, config: CountConfig, found: Count | None) -> Count:
    """Return EP's value in place of draws that have no interval, with their lower bound; the draws where EP has none."""
    try:
        value = _ep_value(free)
    except ValueError:
        value = math.nan
    none = found is not None and math.isinf(found.low)
    if math.isnan(value) or none:
        if found is None:
            limit = uniform_limit(free) if config.solutions else math.inf
            status = "unknown: expectation propagation did not converge, and draws would take too long; method='epar' makes them"
            return _count(free, config, "ep", log=-math.inf, low=-math.inf, high=limit, status=status)
        return found
    words = "the value is expectation propagation's, on average too large at higher loads, and has no interval"
    if found is None:
        limit = uniform_limit(free) if config.solutions else math.inf
        status = f"{words}; draws would take too long (method='epar' makes them)"
        return _count(free, config, "ep", log=value, low=-math.inf, high=limit, status=status)
    return replace(found, log=max(value, found.low), method="ep", status=f"{words}; {found.method}: {found.status}")


def _ep(free: Free, config: CountConfig, seeds: np.random.SeedSequence) -> Steps:
    value = _ep_value(free)
    limit = uniform_limit(free) if config.solutions else math.inf
    words = "the value of expectation propagation, which is on average too large at higher loads: no interval"
    if math.isnan(value):
        value, words = -math.inf, "expectation propagation did not converge: take method='epar'"
    yield 1.0, _count(free, config, "ep", log=value, low=-math.inf, high=limit, status=words)


def _ep_value(free: Free) -> float:
    """Return log Z of expectation propagation, NaN where it did not converge."""
    if not free.problem.plain:
        raise ValueError(
            "method 'ep' takes no intercept, clamped or sample weights here; 'exact' and 'epar' clamped ones."
        )
    if math.isinf(free.constant):
        return -math.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the status says it
        found = ep(nonzero(free.problem))
    assert found.log_partition is not None
    return float(found.log_partition) + free.constant


def _cost(free: Free) -> float:
    """Return about how many operations EPAR takes."""
    m, n = free.matrix.shape
    few = min(m, n)
    blocks = max(1, (n - (26 if tail_signs(free) else 18)) // (16 if n >= 500 else 4))
    return 5.0 * LANES * blocks * (few**2 * n + few**3)


_METHODS = {"auto": _auto, "exact": _exact, "epar": _epar, "smc": _smc, "ep": _ep}
