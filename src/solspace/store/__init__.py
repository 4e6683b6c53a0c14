"""Results on disk: one SQLite file, one writer and many readers, safe to kill at any moment.

A result is keyed by the hash of its task (`experiments.tasks`). Rows are added and never changed; the row of a retry is added
behind that of the failed task and counts instead. SQLite's write-ahead log makes each addition whole or absent, and flushes
it to the disk. Every row and every array has a digest, compared whenever it is read: a damaged row is named and computed
anew. Keep the file on a local disk: the log needs memory shared between processes, which network file systems lack.
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
from solspace.store.file import COLUMNS, LATEST, QUOTED, DamagedResult, StoreError, explaining
from solspace.system.plain import Values

__all__ = ["Damage", "DamagedResult", "Result", "Store", "StoreError"]

_CHUNK = 500
_LISTED = "(SELECT value FROM json_each(?))"
_TARGET = ("prior", "temperature", "margin", "potential")
_Packed = tuple[tuple[Any, ...], dict[str, bytes]]
"""A result as the file keeps it: its columns, and its arrays as bytes."""


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


@dataclass(frozen=True)
class Damage:
    """A result that is not what was written.

    Parameters
    ----------
    number : int
        Number of its row.
    key : str
        Key of its task.
    reason : str
        Damage.
    """

    number: int
    key: str
    reason: str


class _Row(NamedTuple):
    """A row as the file has it: the digests of its arrays are `listed`, and `fault` is what is wrong but for its arrays."""

    number: int
    key: str
    columns: tuple[Any, ...]
    listed: Any
    fault: str


class Store:
    """A file of results.

    Parameters
    ----------
    path : str or path-like
        The file; created if it does not exist and `write` is true.
    write : bool
        Whether results may be added. One writer at a time; readers are never held up.

    Attributes
    ----------
    mended : list of Damage or None
        If the writer had to rebuild indexes: the damaged rows that it removed.

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
        self.mended: list[Damage] | None = None
        with ExitStack() as opened, explaining(self.path):
            if write:
                opened.callback(file.lock(self.path).release)
            self._db, damaged = file.open_writer(self.path) if write else (file.open_reader(self.path), False)
            opened.callback(self._db.close)
            if damaged:  # damaged keys too: no task would ever ask for those rows
                self.mended = list(self.damaged(arrays=False))
                file.remove(self._db, "id", [damage.number for damage in self.mended])
            self._opened = opened.pop_all()

    def add(self, *results: Result) -> None:
        """Append results in their order, all or none, with one flush to the disk.

        Parameters
        ----------
        *results : Result
            The results; of two that are "done" for one key the first stands.
        """
        rows = [_packed(result) for result in results]
        with explaining(self.path), file.transaction(self._db):
            last = int(self._db.execute("SELECT IFNULL(MAX(id), 0) FROM results").fetchone()[0])
            new = list(enumerate(self._new(rows), 1 + last))
            arrays = [(None, columns[0], *item) for _, (columns, packed) in new for item in packed.items()]
            file.insert(self._db, "results", [(number, *columns) for number, (columns, _) in new])
            file.insert(self._db, "arrays", arrays)
            file.insert(self._db, "digests", [file.digest_row(number, *row) for number, row in new])

    def _new(self, rows: Sequence[_Packed]) -> Iterator[_Packed]:
        """Yield all rows but 'done' ones of keys that are done already, in the file or by a row before them."""
        finished = [columns[0] for columns, _ in rows if columns[1] == "done"]
        found = self._db.execute(
            f"SELECT key FROM results WHERE status = 'done' AND key IN {_LISTED}", [json.dumps(finished)]
        )
        done = {key for (key,) in found}
        for columns, packed in rows:
            if columns[1] != "done" or columns[0] not in done:
                yield columns, packed
            if columns[1] == "done":
                done.add(columns[0])

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
        return {
            row.key: "damaged" if _fault(row, self._packed(row, arrays)) else row.columns[1]
            for row in self._by_keys(keys)
        }

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
            found = {row.key: row for row in self._by_keys(chunk)}
            yield from (self._result(found[key], arrays) for key in chunk if key in found)

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
        if strange := [name for name in where if not name.isidentifier()]:
            raise ValueError(f"a filter must be a plain name; got {strange[0]!r}.")
        for row in self._rows(LATEST):
            # Verified before it is filtered: a damaged number must not decide whether its row matches.
            result = self._result(row)
            if status in (None, result.status) and all(_matches(result, *item) for item in where.items()):
                yield self._result(row, arrays) if arrays else result

    def count(self) -> dict[str, int]:
        """Count the tasks.

        Returns
        -------
        dict of str to int
            Numbers of tasks "done" and "failed".
        """
        found = dict(self._select(f"SELECT status, COUNT(*) FROM results r WHERE {LATEST} GROUP BY status"))
        return {status: found.get(status, 0) for status in ("done", "failed")}

    def damaged(self, arrays: bool = True) -> Iterator[Damage]:
        """Iterate over what is damaged among all rows of the file.

        Parameters
        ----------
        arrays : bool, default True
            Whether to verify arrays too.
        """
        for row in self._rows("1"):
            if reason := _fault(row, self._packed(row, arrays)):
                yield Damage(row.number, row.key, reason)

    def withdraw(self, keys: Iterable[str]) -> None:
        """Remove damaged results, so that they can be added again.

        Parameters
        ----------
        keys : iterable of str
            Their keys.
        """
        with explaining(self.path):
            file.remove(self._db, "key", list(keys))

    def close(self) -> None:
        """Close the file; what was added stays, in this one file."""
        with self._opened, suppress(sqlite3.Error):  # a reader may hold it up: then the log stays beside the file
            if self.write:
                self._db.execute("PRAGMA busy_timeout = 2000")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _by_keys(self, keys: Iterable[str]) -> Iterator[_Row]:
        return self._rows(f"({LATEST}) AND r.key IN {_LISTED}", [json.dumps(list(keys))])

    def _rows(self, where: str, values: Sequence[object] = ()) -> Iterator[_Row]:
        query = f"""SELECT r.id, d.arrays, d.digest, {QUOTED} FROM results r LEFT JOIN digests d ON d.id = r.id
            WHERE {where} ORDER BY r.id"""
        for number, listed, digest, *columns in self._select(query, values):
            yield _Row(number, str(columns[0]), tuple(columns), listed, file.fault(columns, listed, digest))

    def _select(self, query: str, values: Iterable[object] = ()) -> Iterator[Any]:
        with explaining(self.path):
            cursor = self._db.execute(query, tuple(values))
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows

    def _packed(self, row: _Row, arrays: bool) -> dict[str, bytes] | None:
        query = "SELECT name, data FROM arrays WHERE key = ? ORDER BY id"
        return dict(self._select(query, (row.key,))) if arrays else None

    def _result(self, row: _Row, arrays: bool = False) -> Result:
        packed = self._packed(row, arrays)
        if reason := _fault(row, packed):
            raise DamagedResult(self.path, row.key, reason)
        values = dict(zip(COLUMNS, row.columns))
        try:
            values |= {name: json.loads(values[name]) for name in ("task", "values")}
            return Result(**values, arrays={name: _unpack(data) for name, data in (packed or {}).items()})
        except (ValueError, TypeError, RecursionError, EOFError, zlib.error) as error:  # made up, with digests that fit
            raise DamagedResult(self.path, row.key, f"{type(error).__name__}: {error}") from error


def _fault(row: _Row, packed: Mapping[str, bytes] | None) -> str:
    """Return what is wrong with a row, and with its arrays if they were read."""
    return row.fault or ("" if packed is None else file.fault_of_arrays(packed, row.listed))


def _packed(result: Result) -> _Packed:
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
