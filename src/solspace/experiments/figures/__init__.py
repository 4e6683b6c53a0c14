"""The figures of the paper and extensions of it, and loads for other parameters that show what the paper's loads show.

A figure is a function that returns a `Figure`, decorated with `register`. Its keyword parameters, whose defaults are the
paper's values, can be changed by `solspace reproduce --set`. A figure has two sizes: `quick` takes minutes on two cores,
`paper` has the paper's parameters. The paper's loads are literal numbers, so that stored results keep their keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.measure import Target
from solspace.system.checks import number, unknown
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from solspace.theory.thresholds import Thresholds

SIZES = ("quick", "paper")
POSITIVE = ("alpha", "temperature", "width")
LOCALIZE = {"name": "asl", "finish": 0}
"""ASL as in the paper: run to the end, where the signs of the means are the sample."""


@dataclass(frozen=True)
class Picture:
    """A drawing, the rows of its table, and the text above and below it."""

    drawing: Drawing
    table: list[Values]
    heading: str = ""
    note: str = ""


def no_tasks(size: str) -> Sequence[Any]:
    return ()


@dataclass(frozen=True)
class Figure:
    """A figure: the tasks that it needs at each size, and how their results are drawn.

    Parameters
    ----------
    title : str
        What the figure shows.
    picture : callable
        (results, size) -> `Picture`. Reads stored results and computes nothing expensive.
    specs : callable
        size -> sweeps.
    theory : callable
        size -> tasks of theory.
    name, place : str
        Name on the command line, and place in the paper; set by `register`.
    make : callable
        Returns the figure for other parameters; set by `register`.
    changed : mapping
        The parameters that differ from the paper's.
    """

    title: str
    picture: Callable[[Results, str], Picture]
    specs: Callable[[str], Sequence[Spec | ImageSpec]] = no_tasks
    theory: Callable[[str], Sequence[Task]] = no_tasks
    name: str = ""
    place: str = ""
    make: Callable[..., Figure] | None = None
    changed: Mapping[str, float] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that can be changed, with the paper's values."""
        signature = {} if self.make is None else inspect.signature(self.make).parameters
        return {name: parameter.default for name, parameter in signature.items()}

    def with_parameters(self, values: Mapping[str, float]) -> Figure:
        """Return the figure for other parameters, whose tasks have other keys and whose files have other names.

        >>> find("binary-t-alpha").with_parameters({"temperature": 0.7}).stem("quick")
        'binary-t-alpha-quick-temperature=0.7'
        """
        allowed = self.parameters
        if values and (self.make is None or not allowed):
            raise ValueError(f"{self.name} has no parameters to set.")
        for name in values:
            if name not in allowed:
                raise unknown(f"parameter of {self.name}", name, allowed)
        numbers = {name: number(positive=name in POSITIVE)(name, value) for name, value in values.items()}
        changed = {name: value for name, value in numbers.items() if value != allowed[name]}
        if self.make is None or not changed:
            return self
        return replace(self.make(**changed), name=self.name, place=self.place, make=self.make, changed=changed)

    def stem(self, size: str) -> str:
        """Return the name of the figure's files: its own, the size unless it is the paper's, and changed parameters."""
        words = [self.name, *([] if size == "paper" else [size])]
        return "-".join([*words, *(f"{name}={value:g}" for name, value in self.changed.items())])

    def draw(self, results: Results, size: str) -> Picture:
        """Return the picture of stored results."""
        from solspace.plots import style, sweeps

        with style.style():
            picture = self.picture(results, size)
            if picture.heading:
                picture.drawing.suptitle(picture.heading, fontsize=11)
            if picture.note:
                sweeps.note(picture.drawing, picture.note)
        return picture

    def tasks(self, size: str, device: str | None = None) -> Iterator[Task]:
        """Yield all tasks, theory first."""
        yield from self.theory(size)
        for spec in self.sweeps(size, device):
            yield from spec.tasks()

    def sweeps(self, size: str, device: str | None = None) -> list[Spec | ImageSpec]:
        """Return the sweeps, on `device` where the sampler supports it."""
        return [spec if device is None else spec.with_options(device=device) for spec in self.specs(size)]

    def missing(self, size: str) -> list[str]:
        """Return the data sets that the figure needs and that are not on this machine."""
        from solspace.data import find

        needed = dict.fromkeys(spec.data for spec in self.specs(size) if isinstance(spec, ImageSpec))
        return [name for name in needed if not find(name)]

    def count(self, size: str) -> int:
        """Return the number of tasks."""
        return len(self.theory(size)) + sum(len(spec) for spec in self.specs(size))


FIGURES: dict[str, Callable[[], Figure]] = {}
"""The figures by their names on the command line, in the paper's order."""


def register(name: str, place: str) -> Callable[[Callable[..., Figure]], Callable[..., Figure]]:
    """Return a decorator that adds the figure which a function returns."""

    def add(make: Callable[..., Figure]) -> Callable[..., Figure]:
        FIGURES[name] = cache(lambda: replace(make(), name=name, place=place, make=make))
        return make

    return add


def find(name: str) -> Figure:
    """Return the figure called `name`.

    >>> find("mcmc-comparison").place
    'Fig. 3'
    """
    if name not in FIGURES:
        raise unknown("figure", name, FIGURES)
    return FIGURES[name]()


def signed(value: float) -> str:
    """Return a number with a typographic minus sign.

    >>> signed(-2.5)
    '−2.5'
    """
    return f"{value:g}".replace("-", "−")


def steps(start: float, stop: float, step: float) -> tuple[float, ...]:
    """Return start, start + step, ..., stop.

    >>> steps(0.1, 0.3, 0.1)
    (0.1, 0.2, 0.3)
    """
    return tuple(round(start + i * step, 6) for i in range(round((stop - start) / step) + 1))


@lru_cache(maxsize=32)
def limits(target: Target) -> Thresholds:
    from solspace.theory.thresholds import thresholds

    return thresholds(target)


@lru_cache(maxsize=32)
def telling_times(target: Target, alpha: float) -> tuple[float, ...]:
    """Return the times at which the maxima of φ_t(q) compete, to four digits."""
    from solspace.theory.prediction import predict

    return tuple(float(f"{time:.4g}") for time in predict(target, alpha).telling_times)


def rescaled(loads: Sequence[float], target: Target, paper: Target) -> tuple[float, ...]:
    """Return `loads`, which are the paper's for the target `paper`, at the same fractions of the capacity of `target`.

    >>> rescaled([0.4, 0.5], Target(temperature=0.7), Target())
    (0.4, 0.5)
    >>> rescaled([0.4, 0.5], Target(margin=0.5), Target())
    (0.2188, 0.2735)
    """
    if (target.margin, target.potential) == (paper.margin, paper.potential):
        return tuple(loads)
    return fractions([load / _capacity(paper) for load in loads], _capacity(target))


def fractions(parts: Sequence[float], whole: float) -> tuple[float, ...]:
    """Return these fractions of `whole`, to four digits.

    >>> fractions([0.25, 0.5], 0.83308)
    (0.2083, 0.4165)
    """
    return tuple(float(f"{part * whole:.4g}") for part in parts)


def sampled(target: Target) -> float:
    """Return the load up to which ASL samples `target`; raise ValueError if there is none, or no end."""
    load = limits(target).asl
    if not load:
        where = "at no load" if load == 0 else "at every load"
        raise ValueError(f"this figure shows loads around the one at which ASL stops; {target}: it samples {where}.")
    return load


def around(target: Target, count: int) -> list[float]:
    """Return loads of a t–α diagram: one below the cusp of its window of two maxima, `count` above, denser close to it."""
    found = limits(target)
    ends = [end for end in (found.dat, found.zero_entropy, found.capacity_rs, found.capacity) if end]
    if not found.asl or found.cusp_time is None:  # red at every load, or green up to the end
        last = min(ends) if ends else 1.0
        return np.linspace(0.03 * last, 0.97 * last, count).tolist()
    last = found.asl + 0.9 * ((ends[0] if ends else 1.2 * found.asl) - found.asl)
    inside = found.asl * (1 + 1e-6) + (last - found.asl) * np.linspace(0, 1, count) ** 2
    return [found.asl - 0.6 * (last - found.asl), *inside.tolist()]


def _capacity(target: Target) -> float:
    from solspace.theory.capacity import capacity

    found = capacity(target)
    if found is None:
        raise ValueError(
            f"this figure shows loads up to capacity; {target}: the constraints have solutions at every load."
        )
    return found


for _module in ("paper", "extensions", "images"):  # each registers its figures
    import_module(f"{__name__}.{_module}")
