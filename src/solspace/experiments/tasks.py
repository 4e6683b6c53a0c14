"""A task: plain values that determine a result, the key of the result, and the seeds that follow from it.

The key is the hash of the task's JSON text and of the version of the code that matters for it; seeds are hashes of parts of it.
So a result does not depend on the order of tasks, on where they run or on interruptions, and programs share results.

A *kind* of task is a function of a task that returns numbers and arrays: samples of a random problem, or a prediction that
figures need. Random problems depend on n, alpha, the ensemble, the spec's seed and the instance only: samplers are compared on
the same ones.
"""

from __future__ import annotations

import datetime
import hashlib
import itertools
import json
import socket
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from solspace._version import __version__
from solspace.info import AnnealingInfo
from solspace.measure import Target
from solspace.numerics.arrays import Array
from solspace.numerics.series import mean_pair_product
from solspace.problem import Perceptron
from solspace.samplers.registry import find
from solspace.samples import Samples
from solspace.store import Result
from solspace.system.checks import Config
from solspace.system.plain import Values, plain

if TYPE_CHECKING:
    from solspace.theory.prediction import Prediction

Stream = Generator[list[Result], None, None]
Found = tuple[Values, Values]  # numbers and arrays of a result
KINDS = {  # kind of task: (module and name of its function, version, which is raised when its results change)
    "sample": ("tasks:sample", 1),
    "windows": ("tasks:windows", 1),
    "thresholds": ("tasks:thresholds", 1),
    "free-entropy": ("tasks:free_entropy", 1),
    "stabilities": ("tasks:stabilities", 1),
    "instability": ("tasks:instability", 1),
    "edge": ("tasks:edge", 1),
    "teacher": ("planted:instance", 1),
    "teacher-theory": ("planted:theory", 1),
    "calibration": ("planted:calibration", 1),
    "count": ("figures.counts:counted", 1),
    "franz-parisi": ("geometry:curve", 1),
    "overlap-gap": ("geometry:gap_load", 1),
    "local-entropy": ("geometry:curves", 1),
    "barriers": ("geometry:barriers", 1),
    "images": ("images:solve", 1),
    "mixing": ("images:mix", 1),
    "overlaps": ("images:overlaps", 1),
}
LINES = ("asl", "dat", "dynamical", "condensation", "zero_entropy", "capacity")  # thresholds that are stored
PLANTED = ("information", "spinodal", "localization")
_ARRAYS: dict[str, Callable[[Samples], Array]] = {
    "weights": lambda samples: samples.weights,
    "stabilities": lambda samples: samples.stabilities.astype(np.float32),
    "overlaps": lambda samples: samples.overlaps(),
    "violations": lambda samples: samples.target.violated(samples.stabilities).sum(axis=1),
    "solved": lambda samples: samples.solved,
}
KEEP = (*_ARRAYS, "path")  # arrays that a spec can keep; `path` is what the sampler records of each step
DEATHS = 3  # worker processes that a task may end before it is a failed result


@dataclass(frozen=True)
class Task:
    """One unit of work.

    >>> task = Task({"kind": "sample", "n": 9, "sampler": "exact"})
    >>> task.key == Task({"sampler": "exact", "n": 9, "kind": "sample"}).key
    True
    """

    values: Mapping[str, Any]

    @cached_property
    def text(self) -> str:
        """The task as canonical JSON, without what cannot change its result."""
        values = dict(self.values)
        if "device" in values.get("options", ()) and find(values["sampler"]).anywhere:
            values["options"] = {name: value for name, value in values["options"].items() if name != "device"}
        return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)

    @cached_property
    def key(self) -> str:
        return _digest(f"{self.text}|{results_version(self.values)}")

    @cached_property
    def seed(self) -> int:
        return int(_digest(f"seed|{self.text}"), 16)

    @cached_property
    def config(self) -> Config:
        return _config(self.values["sampler"], json.dumps(self.values["options"]))

    def __reduce__(self) -> tuple[object, ...]:
        # without the cached key: that of a worker differs from the driver's if its code does
        return Task, (dict(self.values),)

    def seed_from(self, *names: str) -> int:
        """Return a seed that depends on some of the task's values only, shared by tasks that are to be compared."""
        part = json.dumps({name: self.values[name] for name in names}, sort_keys=True, separators=(",", ":"))
        return int(_digest(f"part|{part}"), 16)


@lru_cache(maxsize=1024)
def _config(sampler: str, options: str) -> Config:
    return find(sampler).config(**json.loads(options))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def results_version(values: Mapping[str, Any]) -> str:
    """Return the version of the results of a task: its kind's, and its sampler's where it has one."""
    _, version = KINDS[values["kind"]]
    return f"{version}.{find(values['sampler']).version}" if "sampler" in values else str(version)


@cache
def function(kind: str) -> Any:
    module, name = KINDS[kind][0].split(":")
    return getattr(import_module(f"solspace.experiments.{module}"), name)


def instances_of(points: Iterable[Values], instances: int) -> Iterator[Task]:
    """Yield the first instance of every point, then the second, so that a stopped sweep covers the grid."""
    for instance, point in itertools.product(range(instances), points):
        yield Task({**point, "instance": instance})


def unless_empty(tasks: Iterable[Task]) -> Iterable[Task]:
    """Return the tasks, or an empty tuple if there is none: even an idle executor takes seconds to start."""
    tasks = iter(tasks)
    return next((itertools.chain([first], tasks) for first in tasks), ())


def import_modules(names: Iterable[str]) -> None:
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise ValueError(f"modules: cannot import {name!r} ({error}).") from error


def run(task: Task) -> Result:
    """Return the task's result; an error is recorded in a failed result."""
    start, error, values, arrays = time.perf_counter(), "", Values(), Values()
    try:
        import_modules(task.values.get("modules", ()))
        values, arrays = function(task.values["kind"])(task)
    except Exception as problem:
        trace = "".join(traceback.format_exception(problem, limit=-6)).strip()
        error = f"{type(problem).__name__}: {problem}\n\n{trace}"
    return finished(task, plain(values), arrays, error, time.perf_counter() - start)


def finished(task: Task, values: Values, arrays: Values, error: str = "", seconds: float = 0.0) -> Result:
    date = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    return Result(
        task.key, dict(task.values), "failed" if error else "done", values, arrays, error, __version__, str(task.seed),
        socket.gethostname(), seconds, date,
    )  # fmt: skip


def lost(task: Task, cause: str) -> Result:
    """Return the failed result of a task that ended all workers it ran on."""
    message = f"the task ended {DEATHS} worker processes ({cause}): out of memory, or killed by the system?"
    return finished(task, {}, {}, error=message)


def of_the_same_code(task: Task, result: Result) -> Result:
    """Return a worker's result; raise ChildProcessError if another version of the code computed it."""
    if result.key != task.key:
        raise ChildProcessError(
            f"the worker on {result.host} runs another version of solspace ({result.version}), whose results do "
            "not belong into this store: install the same version everywhere."
        )
    return result


def use_one_thread() -> Any:
    """Keep BLAS and Numba to one thread from now on; return a context whose end restores BLAS."""
    import numba
    import scipy.linalg.blas  # noqa: F401  SciPy has a BLAS of its own, which is found once it is loaded
    from threadpoolctl import threadpool_limits

    numba.set_num_threads(1)
    return threadpool_limits(1)


@contextmanager
def one_thread() -> Iterator[None]:
    import numba

    before = numba.get_num_threads()
    try:
        with use_one_thread():
            yield
    finally:
        numba.set_num_threads(before)


@dataclass(frozen=True)
class Sampled:
    """A kind of task that samples a problem, in parts, so that a device can treat many tasks together.

    `problem` depends on the values in `depends`; `observe` returns what is kept of several tasks that differ in instance alone.
    """

    problem: Callable[[Task], Perceptron]
    depends: tuple[str, ...]
    observe: Callable[[Sequence[Task], Sequence[Perceptron], Sequence[Samples]], list[Found]]

    def __call__(self, task: Task) -> Found:
        problem, values = self.problem(task), task.values
        sampler = find(values["sampler"])
        threads = {"n_threads": 1} if issubclass(sampler.info, AnnealingInfo) else {}
        with warnings.catch_warnings():
            # a sweep crosses thresholds on purpose: what did not converge is in the numbers
            warnings.simplefilter("ignore")
            samples = sampler.draw(
                problem, values["n_samples"], rng=task.seed, progress=False, **threads, **values["options"]
            )
        return self.observe([task], [problem], [samples])[0]


def each(observe: Callable[[Task, Perceptron, Samples], Found]) -> Callable[..., list[Found]]:
    return lambda *many: [observe(*one) for one in zip(*many)]


DEPENDS = ("seed", "n", "alpha", "patterns", "instance")


def problem_of(task: Task) -> Perceptron:
    values = task.values
    target = Target.from_dict(values["target"])
    return Perceptron.random(values["n"], values["alpha"], target, values["patterns"], rng=task.seed_from(*DEPENDS))


def _observed(task: Task, problem: Perceptron, samples: Samples) -> Found:
    keep = task.values["keep"]
    arrays = {name: _ARRAYS[name](samples) for name in keep if name != "path"}
    if "path" in keep:
        arrays |= {f"path_{name}": np.asarray(samples.info[name]) for name in samples.info.PATH}
    return plain({**summary(problem, samples), **samples.info.numbers()}), arrays


def summary(problem: Perceptron, samples: Samples) -> Values:
    violated = problem.target.violated(samples.stabilities).sum(axis=1)
    numbers: Values = {
        "m": problem.m,
        "solved": int(samples.solved.sum()),
        "solved_fraction": float(samples.solved.mean()),
        "violations": float(violated.mean()),
        "mean_stability": float(samples.stabilities.mean()),
    }
    if len(samples) > 1:
        numbers["overlap"] = mean_pair_product(samples.weights) / samples.n
    return numbers


sample = Sampled(problem_of, DEPENDS, each(_observed))


def theory_task(kind: str, target: Target, **values: object) -> Task:
    return Task({"kind": kind, "target": target.to_dict(), **values})


def windows_at(target: Target, alphas: Iterable[float], **ensemble: str) -> list[Task]:
    """Return the tasks of a t–α diagram: for each load the times between which φ_t has two maxima."""
    return [theory_task("windows", target, alpha=round(float(alpha), 12), **ensemble) for alpha in alphas]


def thresholds_of(target: Target, margins: Iterable[float] | None = None, **ensemble: str) -> list[Task]:
    """Return the tasks for the thresholds of `target`, at its margin or at several; ``ensemble="planted"`` is passed on."""
    targets = [target] if margins is None else [target.replace(margin=round(float(m), 12)) for m in margins]
    return [theory_task("thresholds", one, **ensemble) for one in targets]


def _prediction(task: Task) -> tuple[Prediction, Values]:
    from solspace.theory.prediction import predict

    ensemble = task.values.get("ensemble", "random")
    p = predict(Target.from_dict(task.values["target"]), task.values["alpha"], ensemble)
    return p, {"overlap": p.overlap, "replicon": p.replicon, "entropy": p.entropy, "stable": p.stable}


def windows(task: Task) -> Found:
    """Return the windows of a load as (low, maxwell, high); None stands for a time before all others."""
    p, about = _prediction(task)
    return {**about, "samplable": p.samplable, "windows": [list(window) for window in p.windows]}, {}


def thresholds(task: Task) -> Found:
    from solspace.theory.thresholds import thresholds as thresholds_at

    ensemble = task.values.get("ensemble", "random")
    found = thresholds_at(Target.from_dict(task.values["target"]), ensemble)
    return {name: getattr(found, name) for name in (LINES if ensemble == "random" else PLANTED)}, {}


def free_entropy(task: Task) -> Found:
    """Return q (k,), φ_t(q) (times, k), and for each time its regime and its maxima (q, φ)."""
    p, about = _prediction(task)
    share = np.linspace(0, 1, 402)[1:-1]
    q = p.overlap + (1 - p.overlap) * share**2 * (3 - 2 * share)  # dense at both ends
    times = task.values["times"]
    phi = np.array([p.free_entropy_at(q, t) for t in times])
    maxima = []
    for t in times:
        tops = dict.fromkeys(round(float(p.overlap_at(t, start=start)), 10) for start in ("low", "high"))
        maxima.append([[top, float(p.free_entropy_at(max(top, p.overlap), t))] for top in tops])
    values = {**about, "regimes": [p.regime(t) for t in times], "maxima": maxima}
    return values | {"at_overlap": [float(p.free_entropy_at(p.overlap, t)) for t in times]}, {"q": q, "phi": phi}


def stabilities(task: Task) -> Found:
    p, about = _prediction(task)
    s = np.linspace(task.values["low"], task.values["high"], 801)
    return {**about, "mean_stability": p.mean_stability}, {"s": s, "density": p.stability_density(s)}


def edge(task: Task) -> Found:
    """Return ε = 1 - q and dφ_0/dq = -F/2 there, with the form it takes as ε → 0."""
    p, about = _prediction(task)
    epsilon = np.logspace(-10, np.log10((1 - p.overlap) * 0.9), 120)
    return {**about, **p.edge().to_dict()}, {"epsilon": epsilon, "slope": -p.localization_time(1 - epsilon) / 2}


def instability(task: Task) -> Found:
    """Return 1 - q and λ(q), the instability of message passing, there."""
    p, about = _prediction(task)
    variance = np.logspace(-5, np.log10(1 - p.overlap), 160)
    variance[-1] = 1 - p.overlap
    return about, {"variance": variance, "instability": p.instability_at(np.maximum(1 - variance, p.overlap))}
