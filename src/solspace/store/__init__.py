"""Results on disk: one SQLite file, one writer and many readers, safe to kill at any moment.

A result is keyed by the hash of its task (`experiments.tasks`). Rows are added and never changed; the row of a retry is added
behind that of the failed task and counts instead. SQLite's write-ahead log makes each addition whole or absent, and flushes
it to the disk. Every row and every array has a digest, compared whenever it is read: a damaged row is named and computed
again. Keep the file on a local disk: the log needs memory shared between processes, which network file systems lack.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from solspace.numerics.arrays import Array
from solspace.store import file
from solspace.store.file import COLUMNS, LATEST, QUOTED, StoreError, UnusableStore, explaining
from solspace.system.plain import Values

__all__ = ["Result", "Store", "StoreError"]

_CHUNK = 500
_TARGET = ("prior", "temperature", "margin", "potential")


@dataclass
class Result:
    """Outcome of one task.

    Parameters
    ----------
    key : str
        Hash of the task.
    task : dict
        The task as plain values.
    status : {"done", "failed"}, default "done"
        Whether it has numbers, or an error.
    values : dict
        Numbers by name.
    arrays : dict of str to ndarray
        Arrays by name.
    error : str
        Error that ended a failed task.
    version, seed, host, date : str
        Version of the results, seed, computer, and time of the computation.
    seconds : float
        Duration.
    """

    key: str
    task: Values
    status: str = "done"
    values: Values = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)
    error: str = ""
    version: str = ""
    seed: str = ""
    host: str = ""
    seconds: float = 0.0
    date: str = ""

    def flat(self) -> Values:
        """Return task, numbers and provenance as one level of names, for tables.

        Returns
        -------
        dict
            Plain values by name.

        Examples
        --------
        >>> result = Result("k", {"n": 9, "options": {"n_sweeps": 3}}, values={"solved": 1})
        >>> result.flat()["n_sweeps"], result.flat()["solved"]
        (3, 1)
        """
        row: Values = {"key": self.key, "status": self.status}
        for name, value in self.task.items():
            inner = value if name in ("target", "options") and isinstance(value, dict) else {name: value}
            row.update({k: _short(v) for k, v in inner.items()})
        row.update(self.values)
        for name in ("error", "version", "seed", "host", "seconds", "date"):
            row[name if name not in row else f"result_{name}"] = getattr(self, name)
        return row


def _short(value: object) -> object:
    if isinstance(value, dict) and "name" in value:
        parameters = ", ".join(f"{v:g}" for k, v in value.items() if k != "name")
        return f"{value['name']}({parameters})" if parameters else value["name"]
    return json.dumps(value) if isinstance(value, (dict, list)) else value


class Store:
    """A file of results.

    Parameters
    ----------
    path : str or path-like
        The file; created if it does not exist and `write` is true.
    write : bool
        Whether results may be added. One writer at a time; readers are never held up.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.db"
    >>> with Store(path, write=True) as store:
    ...     store.add(Result("a", {"n": 9}, values={"solved": 3}, arrays={"s": np.arange(3)}))
    ...     [(row.values, row.arrays["s"]) for row in store.rows(arrays=True, n=9)], store.count()
    ([({'solved': 3}, array([0, 1, 2]))], {'done': 1, 'failed': 0})
    """

    def __init__(self, path: str | os.PathLike[str], write: bool = False) -> None:
        self.path, self.write = Path(path), write
        with ExitStack() as stack, explaining(self.path):
            if write:
                stack.enter_context(file.locked(self.path))
            self._db, rebuilt = stack.enter_context(file.opened(self.path, write))
            if rebuilt:  # damaged keys too: no task would ever look for those rows
                lost = {row.number: row.key for row in self._rows("1") if row.fault}
                file.remove(self._db, "id", lost)
                file.warn_damaged(self.path, "its indexes were damaged and were rebuilt", lost.values())
            self._open = stack.pop_all()

    def add(self, *results: Result) -> None:
        """Append results in their order, all or none, with one flush to the disk.

        Parameters
        ----------
        *results : Result
            The results; of two that are "done" for one key the first stands.
        """
        packed = [_packed(result) for result in results]
        finished = json.dumps([result.key for result in results if result.status == "done"])
        query = "SELECT key FROM results WHERE status = 'done' AND key IN (SELECT value FROM json_each(?))"
        with explaining(self.path), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            done = {key for (key,) in self._db.execute(query, [finished])}
            number = self._db.execute("SELECT IFNULL(MAX(id), 0) FROM results").fetchone()[0]
            tables: dict[str, list[tuple[Any, ...]]] = {"results": [], "arrays": [], "digests": []}
            for result, (columns, arrays) in zip(results, packed):
                if result.status == "done" and result.key in done:
                    continue
                done |= {result.key} if result.status == "done" else set()
                number += 1
                digests = json.dumps(file.digests(arrays), separators=(",", ":"))
                tables["results"].append((number, *columns))
                tables["arrays"] += [(None, result.key, *item) for item in arrays.items()]
                tables["digests"].append((number, digests, file.digest_of_row(columns, digests)))
            for name, rows in tables.items():
                file.insert(self._db, name, rows)

    def statuses(self, keys: Iterable[str], arrays: bool = False) -> dict[str, str]:
        """Return the statuses of tasks.

        Parameters
        ----------
        keys : iterable of str
            Keys of the tasks.
        arrays : bool, default False
            Whether to verify arrays too.

        Returns
        -------
        dict of str to str
            "done", "failed" or "damaged" for those that have a row.
        """
        return {row.key: "damaged" if row.fault else row.status for row in self._rows(LATEST, list(keys), arrays)}

    def get(self, keys: Iterable[str], arrays: bool = False) -> Iterator[Result]:
        """Iterate over the results of some tasks in the order of `keys`; those without a row are left out.

        Parameters
        ----------
        keys : iterable of str
            Keys of the tasks.
        arrays : bool, default False
            Whether to read arrays too.
        """
        keys = iter(keys)
        while chunk := list(itertools.islice(keys, _CHUNK)):
            yield from map(self._result, self._rows(LATEST, chunk, arrays))

    def rows(self, arrays: bool = False, status: str | None = None, **where: object) -> Iterator[Result]:
        """Iterate over results in the order in which they were added.

        Parameters
        ----------
        arrays : bool, default False
            Whether to read arrays too.
        status : {"done", "failed"}, optional
            Only results with this status.
        **where : object
            Filters by parts of the task or numbers: `n=1001`, a list for any of several values, a pair `(low, high)` for a
            closed interval.
        """
        for result in map(self._result, self._rows(LATEST)):  # verified before a damaged number can decide
            if status in (None, result.status) and all(_matches(result, *item) for item in where.items()):
                yield next(self.get([result.key], arrays=True)) if arrays else result

    def count(self) -> dict[str, int]:
        """Count the tasks.

        Returns
        -------
        dict of str to int
            Numbers of tasks "done" and "failed".
        """
        found = dict(self._select(f"SELECT status, COUNT(*) FROM results r WHERE {LATEST} GROUP BY status"))
        return {status: found.get(status, 0) for status in ("done", "failed")}

    def damaged(self) -> dict[str, str]:
        """Compare all rows of the file and their arrays with their digests.

        Returns
        -------
        dict of str to str
            What is wrong, by the keys of damaged results.
        """
        return {row.key: row.fault for row in self._rows("1", arrays=True) if row.fault}

    def withdraw(self, keys: Iterable[str]) -> None:
        """Remove damaged results, so that they can be added again.

        Parameters
        ----------
        keys : iterable of str
            Their keys.
        """
        with explaining(self.path):
            file.remove(self._db, "key", keys)

    def close(self) -> None:
        """Close the file; what was added stays, in this one file."""
        with self._open, suppress(sqlite3.Error):  # a reader may hold it up: then the log stays beside the file
            if self.write:
                self._db.execute("PRAGMA busy_timeout = 2000")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _rows(self, where: str, keys: Sequence[str] | None = None, arrays: bool = False) -> Iterator[_Row]:
        """Yield rows in the order in which they were added, or those of `keys` in their order."""
        wanted, order = ("", "r.id") if keys is None else ("json_each(?) k JOIN", "k.key")
        query = f"""SELECT r.id, d.arrays, d.digest, {QUOTED}
            FROM {wanted} results r {"" if keys is None else "ON r.key = k.value"} LEFT JOIN digests d ON d.id = r.id
            WHERE {where} ORDER BY {order}"""
        for number, listed, digest, *columns in self._select(query, *([] if keys is None else [json.dumps(keys)])):
            key, status, packed = str(columns[0]), columns[1], {}
            fault = "" if digest == file.digest_of_row(columns, listed) else "it differs from its digest"
            if arrays and not fault and status == "done":
                query = "SELECT name, CAST(data AS BLOB) FROM arrays WHERE key = ? ORDER BY id"
                packed = dict(self._select(query, key))
                fault = "" if file.digests(packed) == json.loads(listed) else "its arrays differ from their digests"
            yield _Row(number, key, status, columns, packed, fault)

    def _select(self, query: str, *values: object) -> Iterator[Any]:
        with explaining(self.path):
            cursor = self._db.execute(query, values)
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows

    def _result(self, row: _Row) -> Result:
        if row.fault:
            raise UnusableStore(
                f"{self.path}: result {row.key} is damaged ({row.fault}). Run the same sweep or figure again: it computes this "
                "one again and keeps the others."
            )
        values = dict(zip(COLUMNS, row.columns))
        values |= {name: json.loads(values[name]) for name in ("task", "values")}
        return Result(**values, arrays={name: _unpack(data) for name, data in row.packed.items()})


class _Row(NamedTuple):
    number: int
    key: str
    status: str
    columns: list[Any]
    packed: dict[str, Any]
    fault: str


def _packed(result: Result) -> tuple[tuple[Any, ...], dict[str, bytes]]:
    """Return a result as the file keeps it: its columns, and its arrays as bytes."""
    written: Values = {"task": _json(result.task), "values": _json(result.values), "seconds": float(result.seconds)}
    columns = tuple(written[name] if name in written else str(getattr(result, name)) for name in COLUMNS)
    arrays = result.arrays if result.status == "done" else {}
    return columns, {name: _pack(array) for name, array in arrays.items()}


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _matches(result: Result, name: str, wanted: object) -> bool:
    found = _part(result, name)
    if isinstance(wanted, tuple) and len(wanted) == 2:
        return isinstance(found, (int, float)) and wanted[0] <= found <= wanted[1]
    if isinstance(wanted, (list, set, tuple, np.ndarray)):
        return found in list(wanted)
    return found == wanted


def _part(result: Result, name: str) -> Any:
    """Return the value of `name` in a result's target, task, options of the sampler, or numbers."""
    target = result.task.get("target", {}) if name in _TARGET else {}
    places = (target, result.task, result.task.get("options", {}), result.values)
    found = next((place[name] for place in places if place.get(name) is not None), None)
    return found["name"] if name == "potential" and isinstance(found, dict) else found


def _pack(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return zlib.compress(buffer.getvalue(), 6)


def _unpack(data: bytes) -> Array:
    return np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False)
