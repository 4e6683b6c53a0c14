"""What a sweep returns: its rows, read from the store when asked for, and their averages with errors."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solspace.experiments.tasks import Task
from solspace.numerics.arrays import Reals
from solspace.store import Result, Store
from solspace.system.extras import install
from solspace.system.files import replacing
from solspace.system.names import unknown
from solspace.system.plain import Values


class Results:
    """The results of some tasks in a store.

    Rows are read from the file each time, so a `Results` of a sweep that still runs shows what is there by now.
    """

    def __init__(self, tasks: Callable[[], Iterable[Task]], store: str | os.PathLike[str]) -> None:
        self._tasks, self.path = tasks, Path(store)

    def rows(self, arrays: bool = False, status: str | None = "done", kind: str | None = None) -> Iterator[Result]:
        """Yield results in the order of their tasks; `status=None` for failed ones too, `kind` for one kind only."""
        wanted = (task.key for task in self._tasks() if kind in (None, task.values["kind"]))
        with Store(self.path) as store:
            for result in store.get(wanted, arrays):
                if status in (None, result.status):
                    yield result

    def __iter__(self) -> Iterator[Result]:
        return self.rows()

    def __len__(self) -> int:
        return self.status()["done"]

    def status(self) -> dict[str, int]:
        """Return the number of tasks done, failed and still to do; and damaged, where there are any."""
        counts = {"done": 0, "failed": 0, "to do": 0}
        with Store(self.path) as store:
            for task_keys in _by(500, (task.key for task in self._tasks())):
                there = store.statuses(task_keys)
                for key in task_keys:
                    status = there.get(key, "to do")
                    counts[status] = counts.get(status, 0) + 1
        return counts

    @property
    def failed(self) -> list[Result]:
        """The failed results, each with its error."""
        return list(self.rows(status="failed"))

    def mean(self, value: str | Callable[[Values], float | None], by: Sequence[str]) -> list[Values]:
        """Return the mean of a number over instances, with its standard error, for each combination of `by`.

        The number is one of the results' or a function of a row. `low` and `high` bound the one-sigma interval; for a
        fraction (`solved_fraction`, and whatever else is called so) it is Wilson's, which does not shrink to nothing
        where all or none are solved, with instances as trials.
        """
        name = value.__name__ if callable(value) else value
        groups: dict[tuple[object, ...], list[float]] = {}
        for result in self.rows():
            row = result.flat()
            number = value(row) if callable(value) else row.get(value)
            if number is not None:
                groups.setdefault(tuple(row.get(key) for key in by), []).append(number)
        return [dict(zip(by, point)) | _statistics(name, np.array(found)) for point, found in groups.items()]

    def plot(self, value: str = "solved_fraction", x: str | None = None, ax: Any = None, **style: Any) -> Any:
        """Draw the mean of a number with its error against what differs in the sweep, and return the axes.

        Parameters
        ----------
        value
            A number of the results, as in `mean`.
        x
            What it is drawn against: the load, else what differs first, unless given. There is a line for each combination
            of what differs besides.
        ax
            Matplotlib axes; a new figure of a column's width (86 mm) unless given.
        style
            Properties of the points and lines, as `Axes.errorbar` takes them.
        """
        from solspace.plots.methods import plot_sweep

        names = self.varying()
        x = x if x is not None else "alpha" if "alpha" in names or not names else names[0]
        series = [name for name in names if name != x]
        row = next(iter(self), None)
        if row is None:
            raise ValueError("there is nothing to draw: no task of the sweep is done.")
        known = row.flat()
        numbers = [name for name, one in row.values.items() if isinstance(one, (int, float))]
        for name, word, allowed in (("value", value, numbers), ("x", x, [*known])):
            if word not in known:
                raise unknown(name, word, allowed)
        return plot_sweep(self.mean(value, [x, *series]), value, x, series, ax, **style)

    def varying(self) -> list[str]:
        """Return the names of what differs between the tasks, but for the instance: what averages must tell apart."""
        about = set(Result("", {}).flat())
        points: list[Values] = []
        for task in self._tasks():
            row = Result("", dict(task.values)).flat()
            points.append({name: value for name, value in row.items() if name not in about and name != "instance"})
        names = dict.fromkeys(name for point in points for name in point)
        return [name for name in names if len({point.get(name) for point in points}) > 1]

    def to_pandas(self) -> Any:
        """Return a pandas frame, a row for each task done or failed."""
        return frame(self.rows(status=None))

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as CSV."""
        to_csv(lambda: self.rows(status=None), path)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as Parquet; needs pandas and pyarrow."""
        to_parquet(self.rows(status=None), path)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.status().items() if count)
        return f"Results({counts or 'none'}, in {self.path})"


def _by(size: int, items: Iterable[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    for item in items:
        chunk.append(item)
        if len(chunk) == size:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def wilson(mean: float, trials: int) -> tuple[float, float]:
    """Return Wilson's one-sigma interval for a fraction seen in `trials`.

    >>> low, high = wilson(1.0, 20)
    >>> round(low, 3), round(high, 3)
    (0.952, 1.0)
    """
    centre = (mean + 0.5 / trials) / (1 + 1 / trials)
    width = math.sqrt(mean * (1 - mean) / trials + 0.25 / trials**2) / (1 + 1 / trials)
    return max(0.0, centre - width), min(1.0, centre + width)


def _statistics(value: str, found: Reals) -> Values:
    mean = float(found.mean())
    error = float(found.std(ddof=1) / math.sqrt(len(found))) if len(found) > 1 else math.nan
    low, high = wilson(mean, len(found)) if value.endswith("fraction") else (mean - error, mean + error)
    return {"mean": mean, "error": error, "low": low, "high": high, "instances": len(found)}


def frame(rows: Iterable[Result]) -> Any:
    """Return results as a pandas frame."""
    try:
        import pandas
    except ImportError:
        raise ImportError(f"this needs pandas: {install('pandas')}.") from None
    return pandas.DataFrame([row.flat() for row in rows])


def to_csv(rows: Callable[[], Iterable[Result]], path: str | os.PathLike[str]) -> None:
    """Write results as CSV, in two passes over `rows()`: one for the columns, one for the values."""
    columns = dict.fromkeys(name for row in rows() for name in row.flat())
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        # Rows that a running sweep adds between the passes may bring columns of their own: those wait for the next
        # export.
        writer = csv.DictWriter(text, list(columns), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(row.flat() for row in rows())
        text.flush()
        text.detach()


def to_parquet(rows: Iterable[Result], path: str | os.PathLike[str]) -> None:
    """Write results as Parquet."""
    table = frame(rows)
    try:
        with replacing(path) as file:
            table.to_parquet(file)
    except ImportError:
        raise ImportError(f"Parquet needs pyarrow: {install('pandas')}.") from None
