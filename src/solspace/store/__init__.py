"""Results on disk: one SQLite file, append-only, one writer and many readers, safe to kill at any moment.

A result is keyed by the hash of its task (`experiments.tasks`) and stands for it for ever: rows are added, never
changed or removed, and the file's own triggers refuse both. A task that failed is a row with its error; when it is
tried again the new row is added behind the old one and counts in its place. SQLite's write-ahead log makes each
addition whole or absent, so that `kill -9`, a full disk or a power cut leave every result that was there. Numbers are
kept as JSON, which SQLite can filter; arrays as compressed `.npy`. Keep the file on a local disk: the log needs memory
shared between processes, which network file systems do not give.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from solspace.store.file import StoreError, explaining, lock, open_reader, open_writer
from solspace.store.result import Result
from solspace.system.locks import Lock

__all__ = ["Result", "Store", "StoreError"]

Array = NDArray[Any]
_CHUNK = 500
_COLUMNS = ("key", "status", "task", "values", "error", "version", "seed", "host", "seconds", "date")
_TARGET = {"prior": "prior", "temperature": "temperature", "margin": "margin", "potential": "potential.name"}


class Store:
    """A file of results.

    Parameters
    ----------
    path
        The file; made when it is not there and `write` is true.
    write
        Whether results may be added. One writer at a time; readers are never held up.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "runs.db"
    >>> with Store(path, write=True) as store:
    ...     store.add(Result("a", {"n": 9}, values={"solved": 3}, arrays={"s": np.arange(3)}))
    ...     [row.values for row in store.rows(n=9)], store.arrays("a")["s"], store.count()
    ([{'solved': 3}], array([0, 1, 2]), {'done': 1, 'failed': 0})
    """

    def __init__(self, path: str | os.PathLike[str], write: bool = False) -> None:
        self.path, self.write = Path(path), write
        self._lock: Lock | None = None
        if write:
            self._lock = lock(self.path)
        try:
            with explaining(self.path):
                self._db = open_writer(self.path) if write else open_reader(self.path)
        except BaseException:
            self._unlock()
            raise

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def add(self, result: Result) -> None:
        """Append one result, whole or not at all; a second 'done' row for a key is dropped, the first one stands."""
        row = {name: getattr(result, name) for name in _COLUMNS}
        row["task"], row["values"] = _json(result.task), _json(result.values)
        with explaining(self.path):
            self._db.execute("BEGIN IMMEDIATE")
            try:
                added = self._db.execute(
                    f"INSERT OR IGNORE INTO results ({_names()}) VALUES ({', '.join('?' * len(_COLUMNS))})",
                    tuple(row.values()),
                ).rowcount
                if added and result.status == "done":
                    self._db.executemany(
                        "INSERT INTO arrays (key, name, data) VALUES (?, ?, ?)",
                        [(result.key, name, _pack(array)) for name, array in result.arrays.items()],
                    )
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    def statuses(self, keys: Iterable[str]) -> dict[str, str]:
        """Return 'done' or 'failed' for those of `keys` that have a row."""
        return dict(self._by_keys("key, status", keys))

    def get(self, keys: Iterable[str], arrays: bool = False) -> Iterator[Result]:
        """Yield the results of `keys`, in their order; keys without a row are passed over."""
        for chunk in _chunks(keys):
            found = {row[0]: row for row in self._by_keys(_names(), chunk)}
            yield from (self._result(found[key], arrays) for key in chunk if key in found)

    def _by_keys(self, columns: str, keys: Iterable[str]) -> Iterator[Any]:
        for chunk in _chunks(keys):
            marks = ", ".join("?" * len(chunk))
            yield from self._select(f"SELECT {columns} FROM latest WHERE key IN ({marks})", chunk)

    def rows(self, arrays: bool = False, status: str | None = None, **where: Any) -> Iterator[Result]:
        """Yield results in the order they were added.

        `where` filters by a task's parts or its numbers: `n=1001`, a list for any of several values, a pair `(low,
        high)` for a closed interval.
        """
        conditions = [_condition(name, wanted) for name, wanted in where.items()]
        if status is not None:
            conditions.append(("status = ?", [status]))
        clauses = " AND ".join(clause for clause, _ in conditions) or "1"
        given = [value for _, values in conditions for value in values]
        query = f"SELECT {_names()} FROM latest WHERE {clauses} ORDER BY id"
        yield from (self._result(row, arrays) for row in self._select(query, given))

    def _select(self, query: str, given: Iterable[Any]) -> Iterator[Any]:
        with explaining(self.path):
            cursor = self._db.execute(query, tuple(given))
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows

    def _result(self, row: Any, arrays: bool) -> Result:
        values = dict(zip(_COLUMNS, row))
        values["task"], values["values"] = json.loads(values["task"]), json.loads(values["values"])
        return Result(**values, arrays=self.arrays(values["key"]) if arrays else {})

    def arrays(self, key: str) -> dict[str, Array]:
        """Return the arrays of one result by name."""
        with explaining(self.path):
            found = list(self._select("SELECT name, data FROM arrays WHERE key = ? ORDER BY id", (key,)))
            return {name: _unpack(data) for name, data in found}

    def count(self) -> dict[str, int]:
        """Return the number of tasks done and failed."""
        found = dict(self._select("SELECT status, COUNT(*) FROM latest GROUP BY status", ()))
        return {status: found.get(status, 0) for status in ("done", "failed")}

    def close(self) -> None:
        """Close the file; what was added stays."""
        self._db.close()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _names() -> str:
    return ", ".join(f'"{name}"' for name in _COLUMNS)


def _json(values: Mapping[str, Any]) -> str:
    return json.dumps(values, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _condition(name: str, wanted: Any) -> tuple[str, list[Any]]:
    if not name.isidentifier():
        raise ValueError(f"a filter must be a plain name; got {name!r}.")
    places = [f"json_extract(task, '$.target.{_TARGET[name]}')"] if name in _TARGET else []
    places += [
        f"json_extract(task, '$.{name}')",
        f"json_extract(task, '$.options.{name}')",
        f"json_extract(\"values\", '$.{name}')",
    ]
    place = f"COALESCE({', '.join(places)})"
    if isinstance(wanted, tuple) and len(wanted) == 2:
        return f"{place} BETWEEN ? AND ?", list(wanted)
    if isinstance(wanted, (list, set, tuple, np.ndarray)):
        wanted = list(wanted)
        return f"{place} IN ({', '.join('?' * len(wanted))})", wanted
    return f"{place} = ?", [wanted]


def _chunks(keys: Iterable[str]) -> Iterator[list[str]]:
    keys = iter(keys)
    while chunk := list(itertools.islice(keys, _CHUNK)):
        yield chunk


def _pack(array: Array) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(array), allow_pickle=False)
    return zlib.compress(buffer.getvalue(), 6)


def _unpack(data: bytes) -> Array:
    return np.load(io.BytesIO(zlib.decompress(data)), allow_pickle=False)
