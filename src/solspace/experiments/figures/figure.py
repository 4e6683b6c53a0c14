"""What a figure is: the tasks it needs at each size, and how their results become a picture and a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task
from solspace.system.checks import number
from solspace.system.names import unknown
from solspace.system.plain import Values

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SIZES = ("quick", "paper")
"""Minutes on two cores, and the paper's parameters."""
POSITIVE = ("alpha", "temperature", "width")
"""Parameters that must be."""
LOCALIZE = {"name": "asl", "finish": 0}
"""ASL as the paper runs it, to the end, where the signs of the means are the sample."""


@dataclass(frozen=True)
class Picture:
    """A drawing and the numbers in it, a mapping for each row of the CSV file."""

    drawing: Drawing
    table: list[Values]


def nothing(size: str) -> Sequence[Any]:
    """Return no specs and no tasks."""
    return ()


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, from its tasks to its picture.

    Attributes
    ----------
    name, title, place
        What it is called on the command line, what it shows, and where in the paper it is.
    specs
        size -> the sweeps it needs.
    theory
        size -> the tasks of theory it needs.
    draw
        (results, size) -> `Picture`; reads the store, computes nothing that costs time.
    make
        Makes the figure anew with other parameters, which are its keywords; their defaults are the paper's.
    changed
        The parameters that are not the paper's.
    """

    name: str
    title: str
    place: str
    draw: Callable[[Results, str], Picture]
    specs: Callable[[str], Sequence[Spec | ImageSpec]] = nothing
    theory: Callable[[str], Sequence[Task]] = nothing
    make: Callable[..., Figure] | None = None
    changed: Mapping[str, float] = field(default_factory=dict)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters that can be others, with their values in the paper."""
        given = {} if self.make is None else inspect.signature(self.make).parameters
        return {name: parameter.default for name, parameter in given.items()}

    def with_parameters(self, values: Mapping[str, float]) -> Figure:
        """Return the figure with other parameters; its tasks have other keys, its files other names.

        >>> from solspace.experiments import figures
        >>> figures.find("binary-t-alpha").with_parameters({"temperature": 0.7}).stem("quick")
        'binary-t-alpha-quick-temperature=0.7'
        """
        if not values:
            return self
        allowed = self.parameters
        if self.make is None:
            raise ValueError(f"{self.name} has no parameters to set.")
        for name in values:
            if name not in allowed:
                raise unknown(f"parameter of {self.name}", name, allowed)
        numbers = {name: number(positive=name in POSITIVE)(name, value) for name, value in values.items()}
        changed = {name: value for name, value in numbers.items() if value != allowed[name]}
        return replace(self.make(**changed), make=self.make, changed=changed)

    def stem(self, size: str) -> str:
        """Return the name of the figure's files: its own, the size unless it is the paper's, and what was changed."""
        words = [self.name, *([] if size == "paper" else [size])]
        return "-".join([*words, *(f"{name}={value:g}" for name, value in self.changed.items())])

    def tasks(self, size: str, device: str | None = None) -> Iterator[Task]:
        """Yield all tasks at `size`, theory first."""
        yield from self.theory(size)
        for spec in self.sweeps(size, device):
            yield from spec.tasks()

    def sweeps(self, size: str, device: str | None = None) -> list[Spec | ImageSpec]:
        """Return the sweeps at `size`, on `device` where the sampler has a choice."""
        return [spec if device is None else spec.with_options(device=device) for spec in self.specs(size)]

    def missing(self, size: str) -> list[str]:
        """Return the data sets that the figure needs and this machine does not have."""
        from solspace.data import find

        wanted = dict.fromkeys(spec.data for spec in self.specs(size) if isinstance(spec, ImageSpec))
        return [name for name in wanted if not find(name)]

    def count(self, size: str) -> int:
        """Return the number of tasks at `size`."""
        return len(self.theory(size)) + sum(len(spec) for spec in self.specs(size))


def adjustable(make: Callable[..., Figure]) -> Figure:
    """Return the figure that `make` makes, and can make with other parameters."""
    return replace(make(), make=make)


def signed(value: float) -> str:
    """Return a number as a title has it.

    >>> signed(-2.5)
    '−2.5'
    """
    return f"{value:g}".replace("-", "−")
