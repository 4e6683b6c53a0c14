"""What a figure is: the tasks it needs at each size, and how their results become a picture and a table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from solspace.experiments.images import ImageSpec
from solspace.experiments.results import Results
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

SIZES = ("quick", "paper")
"""Minutes on two cores, and the paper's parameters."""
LOCALIZE = {"name": "asl", "finish": 0}
"""ASL as the paper runs it, to the end, where the signs of the means are the sample."""


@dataclass(frozen=True)
class Picture:
    """A drawing and the numbers in it, a mapping for each row of the CSV file."""

    drawing: Drawing
    table: list[dict[str, Any]]


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
    """

    name: str
    title: str
    place: str
    draw: Callable[[Results, str], Picture]
    specs: Callable[[str], Sequence[Spec | ImageSpec]] = nothing
    theory: Callable[[str], Sequence[Task]] = nothing

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
