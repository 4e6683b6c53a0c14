"""Tasks on a GPU: many at a time, packed by this process, since one card is best fed by one process.

Tasks of one shape that ask the same of the same sampler make a lot. Lots go to the sampler's own `feed`, the
longest ones first and short ones between them, which runs them side by side and hands each back when it is
done. The device must never wait for the host: threads draw the problems of the next lots, those that several tasks share
once, and others turn the samples of the last ones into results, which are yielded together, so that one flush to the disk
makes a lot durable. A lot that fails is tried again task by task, so that one bad task does not cost the others their
results.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from solspace.experiments.executors import cores, one_thread
from solspace.experiments.sampling import Sampled, sample
from solspace.experiments.tasks import Task, finished, function, plain, run
from solspace.measure import Target
from solspace.problem import Perceptron
from solspace.samplers.annealing.lots import CHAINS
from solspace.samplers.device import answering, check_answer, resolve
from solspace.samplers.registry import Parcel, Shape, anneal_parcels, find, localize_parcels
from solspace.samples import Samples
from solspace.store import Result

_WINDOW = 75_000
"""Tasks that are sorted at a time, so that those of one shape come together."""
_AHEAD = 3
"""Lots whose problems are drawn before their turn."""
_MIXED = (anneal_parcels, localize_parcels)
"""What takes short lots between long ones; `solve` does not, whose time is limited and must not depend on what runs beside it."""
_FEW, _LONG = 3, 4e-3
"""Threads that draw problems which take less than so many seconds each: more of them would wait for the interpreter, and wake
each other, for longer than they draw."""


@dataclass(frozen=True)
class Drawn:
    """A problem, and what its sampler could make of it beforehand."""

    problem: Perceptron
    ready: Any


class Waiting(NamedTuple):
    """A task, and what says when its turn comes: the same for all that share everything but instance and seed."""

    order: tuple[str, float, str, str]
    task: Task


class Batch:
    """Tasks of one shape and the problems that threads draw for them."""

    def __init__(self, tasks: Sequence[Task], coming: Iterable[Future[Drawn]]) -> None:
        self.tasks, self._coming = tasks, list(coming)
        self._ready: list[Any] = []

    def problems(self) -> list[Perceptron]:
        """Return the problems."""
        return self._problems

    @cached_property
    def _problems(self) -> list[Perceptron]:
        drawn, target = [each.result() for each in self._coming], Target.from_dict(self.tasks[0].values["target"])
        self._ready, self._coming = [each.ready for each in drawn], []
        # tasks that share their patterns may differ in their target
        return [one.problem if one.problem.target == target else one.problem.with_target(target) for one in drawn]

    def ready(self) -> list[Any]:
        """Return what was made of the problems beforehand, and let go of it."""
        ready, self._ready = self._ready, []
        return ready

    def results(self, samples: list[Samples]) -> list[Result]:
        """Return the results of all tasks."""
        kept = function(self.tasks[0].values["kind"]).observe(self.tasks, self.problems(), samples)
        return [
            finished(task, {name: plain(value) for name, value in numbers.items()}, arrays, seconds=self._seconds(own))
            for task, (numbers, arrays), own in zip(self.tasks, kept, samples)
        ]

    def _seconds(self, samples: Samples) -> float:
        """Return the time that a task took: its own where others ran beside it, else its share of that of all."""
        info = samples.info
        alone = info.sampler == "solve" or getattr(info, "ladder", None) is not None
        return (info.wall_time or 0.0) / (1 if alone else len(self.tasks))


def packs(task: Task) -> bool:
    """Return whether the task is for this process: it asks for a GPU, or takes one where it can share it with others."""
    values = task.values
    wanted = "sampler" in values and values["options"].get("device") in ("gpu", "auto")
    if not wanted:
        return False
    try:
        if resolve(values["options"]["device"]) == "cpu":
            return False
    except RuntimeError as lack:
        raise ValueError(str(lack)) from None
    # one process for one card: each further one would take memory of its own there, and a turn of the others
    return values["options"]["device"] == "gpu" or _shares(task)


def _shares(task: Task) -> bool:
    """Return whether the task can share a device with others."""
    values = task.values
    return _fits(
        json.dumps([values["sampler"], values["kind"], values.get("patterns"), values["target"], values["options"]])
    )


@lru_cache(maxsize=4096)
def _fits(asked: str) -> bool:
    """Return whether many can do at once what is asked: (sampler, kind of task, ensemble, target, options) as JSON."""
    name, kind, patterns, target, options = json.loads(asked)
    sampler = find(name)
    if sampler.feed is None or not isinstance(function(kind), Sampled):
        return False
    if patterns is None:  # given patterns: chains take them all, what else does depends on what they are like
        return sampler.anywhere and sampler.on_device(_like("gaussian", target), options)
    return sampler.on_device(_like(patterns, target), options)


def _like(patterns: str, target: Any) -> Perceptron:
    """Return the smallest problem with a target and a kind of patterns."""
    return Perceptron.random(1, 1.0, Target.from_dict(target), patterns, rng=0)


def on_device(
    tasks: Iterable[Task], n_workers: int | None = None, scheduler: str | None = None
) -> Iterator[list[Result]]:
    """Yield the results of tasks that `packs` accepts, a lot at a time."""
    tasks, room = iter(tasks), _room()
    count = n_workers or cores()
    with _threads(count) as pool, _threads(min(_FEW, count)) as few, one_thread(), _quick_turns():
        while found := list(itertools.islice(tasks, _WINDOW)):
            shares = [_shares(task) for task in found]
            yield from ([_single(task)] for task, shared in zip(found, shares) if not shared)
            # those of the same patterns come together, whatever samples them: they are drawn and sent once
            window = [
                Waiting((_feed(task).__name__, -_work(task), _patterns(task), _company(task)), task)
                for task in itertools.compress(found, shares)
            ]
            window.sort(key=lambda waiting: waiting.order)
            drawing = Drawing(pool, few, 3 * room)
            for feed, own in itertools.groupby(window, key=lambda waiting: _feed(waiting.task)):
                mine = list(own)
                samples, lots = sum(each.task.values["n_samples"] for each in mine), list(_lots(mine, room))
                if feed in _MIXED:
                    lots = _mixed(lots)
                with closing(feed(map(_parcel, _ahead(lots, drawing)), samples, _shapes(lots))) as fed:
                    while (handed := _next(fed)) is not None:
                        parcel, made = handed
                        if isinstance(made, Exception):
                            yield _alone(parcel.tag.tasks, made)
                        else:
                            yield made


def _single(task: Task) -> Result:
    """Return the result of a task that has the device to itself."""
    result = run(task)
    if result.status == "failed":
        check_answer()
    return result


def _feed(task: Task) -> Callable[..., Any]:
    feed = find(task.values["sampler"]).feed
    assert feed is not None
    return feed(task.values["options"])


def _next(fed: Any) -> tuple[Parcel, Any] | None:
    with answering():
        return next(fed, None)


def _alone(tasks: Sequence[Task], error: Exception) -> list[Result]:
    """Return the results of tasks that failed together, one by one; raise where it is the device that failed."""
    check_answer(error)
    results = [run(task) for task in tasks]
    if any(result.status == "failed" for result in results):
        check_answer(error)
    return results


def _parcel(batch: Batch) -> Parcel:
    values, seeds = batch.tasks[0].values, [task.seed for task in batch.tasks]
    asked = values["n_samples"], values["options"]
    return Parcel(values["sampler"], batch.problems, seeds, *asked, batch.ready, batch.results, tag=batch)


def _shapes(lots: Iterable[list[Task]]) -> list[Shape]:
    """Return what lots ask for, in their order."""
    return [
        Shape(
            task.values["sampler"], task.values["n"], _m(task), _of_signs(task), Target.from_dict(task.values["target"]),
            task.values["options"], sum(each.values["n_samples"] for each in lot), task.values["n_samples"],
        )
        for lot in lots
        for task in lot[:1]
    ]  # fmt: skip


def _of_signs(task: Task) -> bool:
    return task.values.get("patterns") == "binary"


def _m(task: Task) -> int:
    """Return the number of constraints of a random problem."""
    return max(1, round(task.values["alpha"] * task.values["n"]))


@contextmanager
def _threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Give the block threads; when it ends, what they have not begun is left undone."""
    pool = ThreadPoolExecutor(count, "problems")
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _quick_turns() -> Iterator[None]:
    """Let threads hand on the interpreter soon: the one that feeds the device must not wait for those that draw."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(2e-4)
    try:
        yield
    finally:
        sys.setswitchinterval(usual)


def _lots(tasks: Iterable[Waiting], room: float) -> Iterator[list[Task]]:
    """Yield lists of tasks that share everything but instance and seed, and fit into the device's memory."""
    for _, group in itertools.groupby(tasks, key=lambda waiting: waiting.order):
        lot: list[Task] = []
        for _, task in group:
            count = len(lot) + 1
            if lot and (
                count * _bytes(task) > room or count * task.values["n_samples"] > find(task.values["sampler"]).lot
            ):
                yield lot
                lot = []
            lot.append(task)
        yield lot


def _mixed(lots: list[list[Task]]) -> list[list[Task]]:
    """Return lots, the longest of which come first, with the shortest ones between those that a full device has no room for yet.

    A long lot costs the device's time, a short one the host's, about the same for each task: once the device is full, both are
    spent at the same pace. Lots with the same problems, which are drawn once, stay together.
    """
    chains = itertools.accumulate(len(lot) * lot[0].values["n_samples"] for lot in lots)
    full = sum(held < CHAINS // 2 for held in chains)
    groups = deque(
        list(own) for _, own in itertools.groupby(lots[full:], key=lambda lot: (_work(lot[0]), _patterns(lot[0])))
    )
    work, count = (sum(map(cost, groups)) for cost in (_device_cost, _host_cost))
    mixed, worked, counted = lots[:full], 0.0, 0
    while groups:
        own = groups.popleft() if worked * count <= counted * work else groups.pop()
        mixed += own
        worked, counted = worked + _device_cost(own), counted + _host_cost(own)
    return mixed


def _device_cost(lots: list[list[Task]]) -> float:
    return sum(len(lot) * _work(lot[0]) for lot in lots)


def _host_cost(lots: list[list[Task]]) -> int:
    return sum(map(len, lots))


def _ahead(lots: Iterable[list[Task]], drawing: Drawing) -> Iterator[Batch]:
    """Yield the lots with their problems; threads draw those of the next ones meanwhile."""
    drawn: deque[Batch] = deque()
    for lot in lots:
        drawn.append(Batch(lot, [drawing.ask(task) for task in lot]))
        if len(drawn) > _AHEAD:
            yield drawn.popleft()
    while drawn:
        yield drawn.popleft()


class Drawing:
    """Problems that threads draw, a `few` where that is soon done; the last ones, of `room` bytes, are kept for tasks that ask
    for the same patterns."""

    def __init__(self, pool: ThreadPoolExecutor, few: ThreadPoolExecutor, room: float) -> None:
        self.pool, self.few, self.room, self.held = pool, few, room, 0.0
        self.taken: dict[tuple[str, int], float] = {}
        """Seconds that the last problem of a kind and a size took."""
        self.kept: OrderedDict[str, tuple[Future[Drawn], float]] = OrderedDict()

    def ask(self, task: Task) -> Future[Drawn]:
        """Return the problem of a task, under way or drawn for another one; it may have that one's target."""
        key = _patterns(task, "instance")
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key][0]
        long = self.taken.get(_kind(task), 0.0) > _LONG
        future, size = (self.pool if long else self.few).submit(self._drawn, task), _bytes(task)
        self.kept[key] = future, size
        self.held += size
        while self.held > self.room and len(self.kept) > 1:
            self.held -= self.kept.popitem(last=False)[1][1]
        return future

    def _drawn(self, task: Task) -> Drawn:
        begun = time.thread_time()
        found = _drawn(task)
        self.taken[_kind(task)] = time.thread_time() - begun
        return found


def _kind(task: Task) -> tuple[str, int]:
    return task.values["kind"], task.values["n"]


def _drawn(task: Task) -> Drawn:
    problem = _problem(task)
    return Drawn(problem, find(task.values["sampler"]).ready(problem, task.values["options"]))


def _problem(task: Task) -> Perceptron:
    """Return the problem of a task; random ±1 patterns stay packed, since only the device looks at them."""
    values = task.values
    if not _of_signs(task):
        return function(values["kind"]).problem(task)
    from solspace.samplers.packed import PackedPerceptron

    return PackedPerceptron(
        values["n"], _m(task), Target.from_dict(values["target"]), rng=task.seed_from(*sample.depends)
    )


def _patterns(task: Task, *more: str) -> str:
    """Return what the patterns of a task depend on but for the instance, and `more` of its values."""
    names = [name for name in function(task.values["kind"]).depends if name != "instance"]
    return json.dumps([task.values["kind"], *(task.values[name] for name in (*names, *more))])


def _company(task: Task) -> str:
    return json.dumps({name: value for name, value in task.values.items() if name != "instance"}, sort_keys=True)


def _work(task: Task) -> float:
    values = task.values
    return find(values["sampler"]).work(values["n"], _m(task), values["n_samples"], values["options"])


def _bytes(task: Task) -> float:
    """Return the size of what a task keeps in memory: chains take patterns of ±1 as bits, others twice, in fixed point too."""
    values, options = task.values, task.values["options"]
    entry = (1 / 8 if values["sampler"] != "asl" else 1 / 4) if _of_signs(task) else 8
    draws = options.get("n_extra", 0) // options.get("thin", 10)
    return values["n"] * (_m(task) * entry + values["n_samples"] * (1 + draws))


def _room() -> float:
    """Return the bytes of a lot's patterns: a fraction of the memory, since several lots are held at a time."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 32
    except (AttributeError, ValueError, OSError):
        return 1e9
