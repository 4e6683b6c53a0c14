"""The results of a sweep: its rows, read from the store when needed, and their averages with errors."""

from __future__ import annotations

import csv
import io
import itertools
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from solspace.experiments.tasks import Task
from solspace.store import Result, Store
from solspace.system.checks import install, unknown
from solspace.system.files import replacing
from solspace.system.plain import Values


class Results:
    """The results of a sweep's tasks in a store.

    Rows are read from the file each time, so that the results of a sweep that still runs are those so far.

    Parameters
    ----------
    tasks : callable
        Returns the tasks, each time from the first.
    store : path
        The file of results.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import solspace as ss
    >>> spec = ss.Spec(n=[9, 11], alpha=0.3, sampler="exact", instances=3)
    >>> results = ss.sweep(spec, pathlib.Path(tempfile.mkdtemp()) / "runs.db", executor="serial")
    >>> results.status()
    {'done': 6, 'failed': 0, 'to do': 0}
    >>> [(point["n"], point["mean"]) for point in results.mean("solved_fraction", by=["n"])]
    [(9, 1.0), (11, 1.0)]
    """

    def __init__(self, tasks: Callable[[], Iterable[Task]], store: str | os.PathLike[str]) -> None:
        self._tasks, self.path = tasks, Path(store)

    def rows(self, arrays: bool = False, status: str | None = "done", kind: str | None = None) -> Iterator[Result]:
        """Yield results in the order of their tasks.

        Parameters
        ----------
        arrays : bool
            Whether to read the arrays too.
        status : {"done", "failed"}, optional
            Which results. If None, all.
        kind : str, optional
            The kind of tasks. If None, all.
        """
        keys = (task.key for task in self._tasks() if kind in (None, task.values["kind"]))
        with Store(self.path) as store:
            for result in store.get(keys, arrays):
                if status in (None, result.status):
                    yield result

    def __iter__(self) -> Iterator[Result]:
        return self.rows()

    def __len__(self) -> int:
        return self.status()["done"]

    def status(self) -> dict[str, int]:
        """Return how many tasks are done, failed and still to do.

        Returns
        -------
        dict
            Numbers of tasks by "done", "failed" and "to do", and by "damaged" if there are any.
        """
        counts = Counter({"done": 0, "failed": 0, "to do": 0})
        keys = (task.key for task in self._tasks())
        with Store(self.path) as store:
            while chunk := list(itertools.islice(keys, 500)):
                statuses = store.statuses(chunk)
                counts.update(statuses.get(key, "to do") for key in chunk)
        return dict(counts)

    @property
    def failed(self) -> list[Result]:
        """The failed results, each with its error."""
        return list(self.rows(status="failed"))

    def mean(self, value: str | Callable[[Values], float | None], by: Sequence[str]) -> list[Values]:
        """Return the mean of a number over instances for each combination of `by`.

        Parameters
        ----------
        value : str or callable
            A number of the results, or a function of a row that returns a number, or None to leave the row out.
        by : sequence of str
            Entries that distinguish the points.

        Returns
        -------
        list of dict
            For each point the entries in `by`, `mean`, its standard error `error`, the bounds `low` and `high` of the
            one-sigma interval, and the number of `instances`. The interval of a fraction (a name that ends so) is Wilson's,
            with instances as trials, which does not vanish if all or none are solved.
        """
        name = value.__name__ if callable(value) else value
        groups: dict[tuple[object, ...], list[float]] = {}
        for result in self.rows():
            row = result.flat()
            number = value(row) if callable(value) else row.get(value)
            if number is not None:
                groups.setdefault(tuple(row.get(key) for key in by), []).append(number)
        table = []
        for point, found in groups.items():
            mean, count = float(np.mean(found)), len(found)
            error = float(np.std(found, ddof=1) / math.sqrt(count)) if count > 1 else math.nan
            low, high = wilson(mean, count) if name.endswith("fraction") else (mean - error, mean + error)
            statistics = {"mean": mean, "error": error, "low": low, "high": high, "instances": count}
            table.append({**dict(zip(by, point)), **statistics})
        return table

    def plot(self, value: str = "solved_fraction", x: str | None = None, ax: Any = None, **style: Any) -> Any:
        """Draw the mean of a number with its error, with a line for each combination of what differs besides `x`.

        Parameters
        ----------
        value : str
            A number of the results, as in `mean`.
        x : str, optional
            Entry of the horizontal axis. If None, the load, or what differs first in the sweep.
        ax : matplotlib.axes.Axes, optional
            Where to draw. If None, a new figure of a column's width (86 mm).
        **style : object
            Properties of the points and lines, as for `Axes.errorbar`.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.

        Raises
        ------
        ValueError
            If no task is done, or `value` or `x` is unknown.
        """
        from solspace.plots.sweeps import sweep_curves

        names = self.varying()
        x = x if x is not None else "alpha" if "alpha" in names or not names else names[0]
        series = [name for name in names if name != x]
        row = next(iter(self), None)
        if row is None:
            raise ValueError("there is nothing to draw: no task of the sweep is done.")
        numbers = [name for name, one in row.values.items() if isinstance(one, (int, float))]
        for name, word, allowed in (("value", value, numbers), ("x", x, row.flat())):
            if word not in row.flat():
                raise unknown(name, word, allowed)
        return sweep_curves(self.mean(value, [x, *series]), ax, value, x, series, **style)

    def varying(self) -> list[str]:
        """Return what differs between the tasks, except the instance.

        Returns
        -------
        list of str
            Names of entries, as `mean` takes them in `by`.
        """
        about = set(Result("", {}).flat())
        points: list[Values] = []
        for task in self._tasks():
            row = Result("", dict(task.values)).flat()
            points.append({name: value for name, value in row.items() if name not in about and name != "instance"})
        names = dict.fromkeys(name for point in points for name in point)
        return [name for name in names if len({point.get(name) for point in points}) > 1]

    def to_pandas(self) -> Any:
        """Return all rows as a table.

        Returns
        -------
        pandas.DataFrame
            A row for each task done or failed.

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise ImportError(f"this needs pandas: {install('pandas')}.") from None
        return pandas.DataFrame([row.flat() for row in self.rows(status=None)])

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as CSV.

        Parameters
        ----------
        path : path
            The file, which is replaced.
        """
        write_csv(lambda: (row.flat() for row in self.rows(status=None)), path)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write all rows as Parquet.

        Parameters
        ----------
        path : path
            The file, which is replaced.

        Raises
        ------
        ImportError
            If pandas or pyarrow is not installed.
        """
        table = self.to_pandas()
        try:
            with replacing(path) as file:
                table.to_parquet(file)
        except ImportError:
            raise ImportError(f"Parquet needs pyarrow: {install('pandas')}.") from None

    def __repr__(self) -> str:
        counts = ", ".join(f"{count} {status}" for status, count in self.status().items() if count)
        return f"Results({counts or 'none'}, in {self.path})"


def wilson(mean: float, trials: int) -> tuple[float, float]:
    """Return Wilson's one-sigma interval for a fraction seen in `trials`.

    >>> low, high = wilson(1.0, 20)
    >>> round(low, 3), round(high, 3)
    (0.952, 1.0)
    """
    centre = (mean + 0.5 / trials) / (1 + 1 / trials)
    width = math.sqrt(mean * (1 - mean) / trials + 0.25 / trials**2) / (1 + 1 / trials)
    return max(0.0, centre - width), min(1.0, centre + width)


def write_csv(rows: Callable[[], Iterable[Values]], path: str | os.PathLike[str]) -> None:
    """Write rows as CSV in two passes: one for the columns, one for the values.

    Columns that a running sweep adds between them are left out.
    """
    columns = dict.fromkeys(name for row in rows() for name in row)
    with replacing(path) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        writer = csv.DictWriter(text, list(columns), lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows())
        text.flush()
        text.detach()
