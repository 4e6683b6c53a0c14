"""The figures of the paper and extensions of it.

A figure is a function from a size and parameters to its `Content`, decorated with `register`. Sizes are `quick` (minutes on two
cores) and `paper`. The paper's loads are literal numbers, so that stored results keep their keys.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from solspace import data
from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.system.checks import number, one_of
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SIZES = ("quick", "paper")
POSITIVE = ("alpha", "temperature", "width")
LOCALIZE = {"name": "asl", "finish": 0}  # as in the paper: run to the end, where the signs of the means are the sample
TEMPERATURES = (0.5, 0.7)  # of the log potential, where two are compared


class Picture(NamedTuple):
    """A drawing, the rows of its table, and the text above and below it."""

    drawing: Drawing
    table: list[Values]
    heading: str = ""
    note: str = ""


class Content(NamedTuple):
    """A figure of one size: the sweeps and tasks of theory that it needs, and the function that draws their results."""

    picture: Callable[[Results], Picture]
    specs: Sequence[Spec | ImageSpec] = ()
    theory: Sequence[Task] = ()


def drawn_by(name: str, *arguments: Any, **options: Any) -> Callable[[Results], Picture]:
    """Return a function of `pictures`, or of the module before a colon, with these arguments after the results.

    It loads Matplotlib when it is called.
    """
    module, _, function = name.rpartition(":")
    return lambda results: getattr(import_module(f"{__name__}.{module or 'pictures'}"), function)(
        results, *arguments, **options
    )


@dataclass(frozen=True)
class Figure:
    """A figure by its name on the command line and its place in the paper; `changed` are parameters unlike the paper's."""

    name: str
    place: str
    title: str
    make: Callable[..., Content]  # (size, parameters by name) -> content
    changed: Mapping[str, float] = field(default_factory=dict)

    def at(self, size: str) -> Content:
        return self.make(size, **self.changed)

    @property
    def parameters(self) -> dict[str, float]:
        _, *parameters = inspect.signature(self.make).parameters.values()
        return {parameter.name: parameter.default for parameter in parameters}

    def with_parameters(self, values: Mapping[str, float]) -> Figure:
        """Return the figure for other parameters, whose tasks have other keys and whose files have other names.

        >>> find("binary-t-alpha").with_parameters({"temperature": 0.7}).stem("quick")
        'binary-t-alpha-quick-temperature=0.7'
        """
        allowed = self.parameters
        if values and not allowed:
            raise ValueError(f"{self.name} has no parameters to set.")
        for name in values:
            one_of(allowed)(f"parameter of {self.name}", name)
        numbers = {name: number(positive=name in POSITIVE)(name, value) for name, value in values.items()}
        return replace(self, changed={name: value for name, value in numbers.items() if value != allowed[name]})

    def stem(self, size: str) -> str:
        """Return the name of the figure's files: its own, the size unless it is the paper's, and changed parameters."""
        changed = (f"-{name}={value:g}" for name, value in self.changed.items())
        return self.name + f"-{size}" * (size != "paper") + "".join(changed)

    def draw(self, results: Results, size: str) -> Picture:
        from solspace.plots import style, sweeps

        with style.style():
            picture = self.at(size).picture(results)
            if picture.heading:
                picture.drawing.suptitle(picture.heading, fontsize=11)
            if picture.note:
                sweeps.note(picture.drawing, picture.note)
        return picture

    def theory(self, size: str) -> Sequence[Task]:
        return self.at(size).theory

    def specs(self, size: str, device: str | None = None) -> list[Spec | ImageSpec]:
        """Return the sweeps, on `device` where the sampler supports it."""
        specs = self.at(size).specs
        return [spec if device is None else spec.with_options(device=device) for spec in specs]

    def tasks(self, size: str, device: str | None = None) -> Iterator[Task]:
        yield from self.theory(size)
        for spec in self.specs(size, device):
            yield from spec.tasks()

    def missing(self, size: str) -> list[str]:
        """Return the data sets that the figure needs and that are not on this machine."""
        needed = dict.fromkeys(spec.data for spec in self.specs(size) if isinstance(spec, ImageSpec))
        return [name for name in needed if not data.find(name)]

    def count(self, size: str) -> int:
        return len(self.theory(size)) + sum(map(len, self.specs(size)))


FIGURES: dict[str, Figure] = {}  # by their names on the command line, in the paper's order


def register(name: str, place: str, title: str) -> Callable[[Callable[..., Content]], Callable[..., Content]]:
    """Return a decorator that adds a figure: a function from the size and the parameters to its content."""

    def add(make: Callable[..., Content]) -> Callable[..., Content]:
        FIGURES[name] = Figure(name, place, title, make)
        return make

    return add


def find(name: str) -> Figure:
    return FIGURES[one_of(FIGURES)("figure", name)]


def signed(value: float) -> str:
    return f"{value:g}".replace("-", "−")


def at_temperature(temperature: float, margin: float) -> str:
    return f"T = {temperature:g}, κ = {signed(margin)}"


for _module in ("random_patterns", "teachers", "counts", "geometry", "images"):  # each registers its figures
    import_module(f"{__name__}.{_module}")
