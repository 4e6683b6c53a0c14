"""The samplers by name: what each takes, returns and needs. Whoever offers samplers reads this table and keeps no list.

`SAMPLERS["tau"].draw(problem, 16, rng=1, n_sweeps=200)` is `ss.anneal(problem, 16, 200, schedule="tau", rng=1)`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import Field, dataclass
from functools import lru_cache, partial
from typing import Any, NamedTuple

from solspace.info import AnnealingInfo, Info, LocalizationInfo, SolvingInfo
from solspace.measure import Target
from solspace.numerics.streams import RNG
from solspace.problem import Perceptron
from solspace.samplers.annealing import anneal, lots, real_forms, schedules
from solspace.samplers.device import own_stream
from solspace.samplers.localization import localize
from solspace.samplers.localization.config import LocalizeConfig
from solspace.samplers.options import Config
from solspace.samplers.solving import solve
from solspace.samples import Samples
from solspace.system.names import unknown


@dataclass(frozen=True)
class Parcel:
    """Problems of one shape, kind of patterns and target that a device takes together, and what is asked of all.

    `problems` is called when their turn comes, and `ready` for what was made of them beforehand; `finish` with the samples, by
    a thread that the device does not wait for; `tag` is for whoever made the parcel.
    """

    sampler: str
    problems: Callable[[], Sequence[Perceptron]]
    seeds: Sequence[RNG]
    n_samples: int
    options: Mapping[str, Any]
    ready: Callable[[], Any] = lambda: None
    finish: Callable[[list[Samples]], Any] = list
    tag: Any = None


Made = Generator[tuple[Parcel, Any], None, None]
"""Parcels, and what their `finish` made or the error that was met."""


class Shape(NamedTuple):
    """What a parcel will ask for, so that it can be compiled ahead."""

    sampler: str
    n: int
    m: int
    signs: bool
    """Whether patterns are ±1."""
    target: Target
    options: Mapping[str, Any]
    samples: int
    """Of all of its problems."""
    each: int
    """Of one problem."""


Shapes = Iterable[Shape]
"""Those of what will come, the longest first."""


Feed = Callable[[Iterable[Parcel], int, Shapes], Made]
"""(parcels, samples in all, shapes among them) -> each parcel with what its `finish` made of the samples, or the error it met,
in any order."""


@dataclass(frozen=True)
class Sampler:
    """A named sampler."""

    name: str
    title: str
    """As it is called in text."""
    about: str
    """What it does, in a line of help."""
    size: int
    """Weights of the instance that it is shown on where nobody says how many."""
    function: Callable[..., Any]
    """(problem or problems, n_samples, rng=…, **options) -> Samples or a list of them."""
    info: type[Info]
    """What it tells about a run."""
    work: Callable[[int, int, int, Mapping[str, Any]], float]
    """(n, m, n_samples, options) -> number of elementary operations, up to a constant: the shape of the cost."""
    config: type[Config]
    """Its options."""
    lacks: Callable[[int, Target], str]
    """(n, target) -> what keeps the sampler from working there, as a sentence; empty if nothing does."""
    any_patterns: bool = True
    """Whether it is meant for a user's own data."""
    fair: bool = True
    """Whether what it returns follows a law; where not, it is offered to those who want any solution."""
    version: int = 1
    """Raised when its results change; old rows then stay in a store but no longer count."""
    feed: Callable[[Mapping[str, Any]], Feed] | None = None
    """options -> what takes parcels that ask for these, many at once on a device. What has the same one is fed together."""
    lot: int = 2048
    """Samples in a parcel at the most."""
    ready: Callable[[Perceptron, Mapping[str, Any]], Any] = lambda problem, options: None
    """(problem, options) -> what a thread can make of a problem before its turn comes, to be held until then."""
    on_device: Callable[[Perceptron, Mapping[str, Any]], bool] = lambda problem, options: True
    """(problem, options) -> whether `feed` can do what is asked for; elsewhere the sampler says what it cannot do."""
    anywhere: bool = False
    """Whether samples are the same on every device: then a result made on one stands for all."""

    @property
    def options(self) -> dict[str, Field[Any]]:
        """The fields of `config` by name."""
        return self.config.options()

    def draw(self, problem: Perceptron, n_samples: int, rng: RNG = None, **options: object) -> Samples:
        """Return samples of one problem."""
        return self.function(problem, n_samples, rng=rng, **options)

    def check(self, n: int, target: Target) -> None:
        """Raise a sentence where the sampler cannot work on `n` weights under `target`."""
        lacking = self.lacks(n, target)
        if lacking:
            raise ValueError(lacking)


_LOCALIZING, _SOLVING, _EXCHANGING = 3, 8, 16
"""Parcels that are localized at a time, problems that are solved, and those with replicas that are exchanged."""
FIRST = "tau-first"
"""Name of τ-annealing that stops at its first solution."""
_LARGE = 10**7
"""Entries of the patterns of a problem that takes the place of two where they are solved: those fill a device by fours."""
Report = Callable[[object], None]
"""Told how far a thread is; raises where it is to stop."""
Draw = Callable[[Sequence[Perceptron], Sequence[RNG], Parcel, Report], list[Samples]]
"""(problems, seeds, their parcel, whom to report to) -> samples of each."""


def find(name: str) -> Sampler:
    """Return the sampler called `name`.

    >>> find("tau").options["n_extra"].default
    0
    """
    if name not in SAMPLERS:
        raise unknown("sampler", name, SAMPLERS)
    return SAMPLERS[name]


def _exact(problem: Perceptron, n_samples: int, rng: RNG = None, progress: bool | None = None) -> Samples:
    return Samples.of(problem, problem.enumerate().sample(n_samples, rng), Info(sampler="exact"))


def _lacks_exact(n: int, target: Target) -> str:
    if n <= 20 and target.prior.name == "binary":
        return ""
    return (
        f"sampler 'exact' needs binary weights and n <= 20, since it enumerates all of them; got n = {n}, "
        f"{target.prior} weights."
    )


def _lacks_annealing(n: int, target: Target) -> str:
    if target.prior.name == "binary":
        return ""
    return f"annealing flips ±1 weights: it needs binary weights; got {target.prior} weights."


def _lacks_tau(n: int, target: Target) -> str:
    if hasattr(target.potential, "softened"):
        return _lacks_annealing(n, target)
    return f"τ-annealing ends in the log potential, a wall or log_band; got {target.potential}."


def _localizes_on_device(problem: Perceptron, options: Mapping[str, Any]) -> bool:
    config = LocalizeConfig(**{**options, "device": "auto"})
    name, _ = localize.choose_denoiser(problem, config)
    return localize.place(problem, config, name) == "gpu"


def localize_parcels(parcels: Iterable[Parcel], samples: int, shapes: Shapes) -> Made:
    """Localize the samples of parcels, a few parcels side by side."""
    ending = [shape for shape in shapes if shape.target.prior.name == "binary" and shape.options.get("finish") != 0]
    # two replicas of each sample
    lots.warm([lots.ChainShape(shape.n, shape.m, shape.signs, 2 * shape.samples, fielded=True) for shape in ending])
    return _side_by_side(parcels, _LOCALIZING, _localized, together=True)


def _localized(problems: Sequence[Perceptron], seeds: Sequence[RNG], parcel: Parcel, report: Report) -> list[Samples]:
    return localize.localized(problems, parcel.n_samples, seeds, report, parcel.options)


def anneal_parcels(parcels: Iterable[Parcel], samples: int, shapes: Shapes) -> Made:
    """Anneal chains, lots of any shapes side by side."""
    lots.warm(
        lots.ChainShape(
            shape.n, shape.m, shape.signs, samples, solve=shape.sampler == FIRST,
            linear=shape.sampler == "temperature", own=shape.each == 1,
        )
        for shape in shapes
    )  # fmt: skip

    def lot(parcel: Parcel) -> lots.Lot:
        plan = anneal.planner(_schedule(parcel.sampler), parcel.options, stop=parcel.sampler == FIRST)
        asked = parcel.problems, parcel.seeds, parcel.n_samples, plan, parcel.ready, parcel.finish
        return lots.Lot(*asked, named=False, tag=parcel)  # a parcel's samples become numbers

    with closing(lots.flow(map(lot, parcels), samples)) as flow:
        yield from ((given.tag, made) for given, made in flow)


def _solve_parcels(parcels: Iterable[Parcel], samples: int, shapes: Shapes) -> Made:
    return _side_by_side(parcels, _SOLVING, _solved, places=lambda problem: 1 + (problem.n * problem.m > _LARGE))


def _exchange_parcels(parcels: Iterable[Parcel], samples: int, shapes: Shapes) -> Made:
    lots.warm(lots.ChainShape(shape.n, shape.m, shape.signs, lots.CHAINS) for shape in shapes)
    return _side_by_side(parcels, _EXCHANGING, _exchanged)


def _side_by_side(
    parcels: Iterable[Parcel],
    count: int,
    draw: Draw,
    together: bool = False,
    places: Callable[[Perceptron], int] = lambda problem: 1,
) -> Made:
    """Sample `count` problems at a time, or parcels whose problems go `together`, each by a thread with a stream of its own.

    One alone leaves a device idle half of the time, since the host looks at what it made before it goes on. `places` says in
    the place of how many a problem comes.
    """
    stopped, turn, free = threading.Event(), threading.Lock(), threading.Semaphore(count)

    def report(state: object) -> None:
        if stopped.is_set():
            raise InterruptedError

    def drawn(parcel: Parcel, *pairs: tuple[Perceptron, RNG]) -> list[Samples]:
        taken = places(pairs[0][0])
        with turn:  # one takes all of its places before another takes any
            for _ in range(taken):
                free.acquire()
        try:
            with own_stream():
                return draw([problem for problem, _ in pairs], [seed for _, seed in pairs], parcel, report)
        finally:
            free.release(taken)

    with ThreadPoolExecutor(count, "samples") as pool:
        waiting: list[tuple[Parcel, list[Future[list[Samples]]]]] = []
        try:
            for parcel in parcels:
                pairs = list(zip(parcel.problems(), parcel.seeds))
                parts = [pairs] if together else [[pair] for pair in pairs]
                waiting.append((parcel, [pool.submit(drawn, parcel, *part) for part in parts]))
                while sum(not each.done() for _, coming in waiting for each in coming) > count:
                    yield from _collected(waiting)
            while waiting:
                yield from _collected(waiting)
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)


def _solved(problems: Sequence[Perceptron], seeds: Sequence[RNG], parcel: Parcel, report: Report) -> list[Samples]:
    return [
        solve.searched(problem, parcel.n_samples, seed, solve.SolveConfig(**parcel.options), report)[0]
        for problem, seed in zip(problems, seeds)
    ]


def _exchanged(problems: Sequence[Perceptron], seeds: Sequence[RNG], parcel: Parcel, report: Report) -> list[Samples]:
    return [
        anneal.exchanged(problem, parcel.n_samples, parcel.sampler, seed, lots.CHAINS, report, parcel.options)
        for problem, seed in zip(problems, seeds)
    ]


def _collected(waiting: list[tuple[Parcel, list[Future[list[Samples]]]]]) -> Iterator[tuple[Parcel, Any]]:
    """Wait for the next that is done; yield the parcels that are done with all of theirs, which no longer wait then."""
    wait([each for _, coming in waiting for each in coming if not each.done()], return_when=FIRST_COMPLETED)
    for one in [one for one in waiting if all(each.done() for each in one[1])]:
        waiting.remove(one)
        yield one[0], _result(*one)


def _result(parcel: Parcel, made: list[Future[list[Samples]]]) -> Any:
    try:
        return parcel.finish([samples for each in made for samples in each.result()])
    except Exception as error:
        return error


def _fixed(problem: Perceptron, options: Mapping[str, Any], schedule: str) -> Any:
    """Return the patterns in fixed point where they are not ±1."""
    if problem.has_binary_patterns:
        return None
    return real_forms.fixed_point(problem, _reach(problem.target, schedule, tuple(sorted(options.items()))))


@lru_cache(maxsize=64)
def _reach(target: Target, schedule: str, options: tuple[tuple[str, Any], ...]) -> float:
    return real_forms.reach_of(anneal.planned(target, schedule, options)[1].stages)


def _schedule(sampler: str) -> str:
    return "tau" if sampler == FIRST else sampler


def _sweeps(n: int, m: int, k: int, options: Mapping[str, Any]) -> float:
    return float(n) * m * k * (options.get("n_sweeps", schedules.DEFAULT_SWEEPS) + options.get("n_extra", 0))


def _annealer(name: str, title: str, about: str, lacks: Callable[[int, Target], str] = _lacks_annealing) -> Sampler:
    return Sampler(
        name, title, about, 1001, partial(anneal.anneal, schedule=name), AnnealingInfo, _sweeps, anneal.AnnealConfig,
        lacks, ready=partial(_fixed, schedule=name), anywhere=True,
        feed=lambda options: _exchange_parcels if options.get("exchange") else anneal_parcels,
    )  # fmt: skip


SAMPLERS: dict[str, Sampler] = {
    sampler.name: sampler
    for sampler in (
        Sampler(
            "asl", "ASL", "stochastic localization with message passing; fair on random patterns below its threshold", 2001,
            localize.localize, LocalizationInfo, lambda n, m, k, options: float(n) * m * k, LocalizeConfig,
            lambda n, target: "", version=5, feed=lambda options: localize_parcels, on_device=_localizes_on_device,
        ),
        _annealer(
            "tau", "τ-annealing",
            "Metropolis with the potential annealed towards -log s; works on any patterns, ±1 weights", _lacks_tau,
        ),
        Sampler(
            FIRST, "τ-annealing to a solution", "τ-annealing that stops at its first solution; follows no law", 1001,
            anneal.first_solutions, AnnealingInfo, _sweeps, anneal.AnnealConfig, _lacks_annealing,
            ready=partial(_fixed, schedule="tau"), fair=False, anywhere=True, feed=lambda options: anneal_parcels,
        ),
        _annealer(
            "temperature", "temperature annealing",
            "Metropolis with the temperature annealed to 0 on the hinge (or errors) potential; for comparison",
        ),
        Sampler(
            "exact", "enumeration", "enumeration of all ±1 weights, n up to 20; the judge of the others", 15, _exact, Info,
            lambda n, m, k, options: 2.0**n * m, Config, _lacks_exact, any_patterns=False,
        ),
        Sampler(
            "solve", "solve", "any solution, by reinforced message passing and what else helps; follows no law", 1001,
            solve.solve, SolvingInfo, lambda n, m, k, options: float(n) * m * k, solve.SolveConfig,
            lambda n, target: solve.lacks(n, target), fair=False, feed=lambda options: _solve_parcels, lot=4,
            on_device=lambda problem, options: solve.on_device(
                problem.target, problem.looks_random(), options.get("method", "auto")
            ),
        ),
    )
}  # fmt: skip
