"""Results on disk: one SQLite file, append-only, one writer and many readers, safe to kill at any moment.

A result is keyed by the hash of its task (`experiments.tasks`) and stands for it for ever: rows are added, never
changed or removed, and the file's own triggers refuse both. A task that failed is a row with its error; when it is
tried again the new row is added behind the old one and counts in its place. SQLite's write-ahead log makes each
addition whole or absent and flushes it to the disk, so that `kill -9`, a full disk or a power cut leave every result
that was there. Every row and every array has a digest that is verified whenever it is read (`store.digests`): a bit
that flipped on the disk costs its row, which is named and computed anew, and never changes a result. Numbers are kept
as JSON, arrays as compressed `.npy`. Keep the file on a local disk: the log needs memory shared between processes,
which network file systems do not give.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from solspace.numerics.arrays import Array
from solspace.store import digests
from solspace.store.file import (
    COLUMNS,
    DamagedResult,
    StoreError,
    digest_row,
    explaining,
    insert,
    lock,
    open_reader,
    open_writer,
    quoted,
    remove,
    transaction,
)
from solspace.store.result import Result
from solspace.system.locks import Lock
from solspace.system.plain import Values

__all__ = ["Damage", "DamagedResult", "Result", "Store", "StoreError"]

_CHUNK = 500
_TARGET = ("prior", "temperature", "margin", "potential")


@dataclass(frozen=True)
class Damage:
    """A result that is not what was written: its row's number and key, and what is wrong."""

    number: int
    key: str
    reason: str


class Store:
    """A file of results.

    Parameters
    ----------
    path
        The file; made when it is not there and `write` is true.
    write
        Whether results may be added. One writer at a time; readers are never held up.

    Attributes
    ----------
    mended
        None; or, where the writer had to make the file's indexes anew, the damaged rows that it took out.

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
                self._db, self._verified, mended = _opened(self.path, write)
        except BaseException:
            self._unlock()
            raise
        try:
            self.mended = self._withdraw_all() if mended else None
        except BaseException:
            self.close()
            raise

    def _unlock(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def add(self, result: Result) -> None:
        """Append one result, whole or not at all; a second 'done' row for a key is dropped, the first one stands."""
        self.add_all([result])

    def add_all(self, results: Iterable[Result]) -> None:
        """Append results in their order, all or none: one flush to the disk, which costs more than many rows.

        >>> import tempfile
        >>> with Store(Path(tempfile.mkdtemp()) / "runs.db", write=True) as store:
        ...     store.add_all([Result("a", {"n": 9}), Result("b", {"n": 11})])
        ...     store.count()
        {'done': 2, 'failed': 0}
        """
        rows = [_columns(result) for result in results]
        with explaining(self.path), transaction(self._db):
            new = list(enumerate(self._new(rows), 1 + self._last()))
            insert(self._db, "results", [(number, *columns) for number, (columns, _) in new])
            insert(
                self._db,
                "arrays",
                [(None, columns[0], name, data) for _, (columns, packed) in new for name, data in packed.items()],
            )
            insert(self._db, "digests", [digest_row(number, *row) for number, row in new])

    def _new(self, rows: Sequence[_Packed]) -> Iterator[_Packed]:
        """Yield the rows but those that say 'done' of what is done already, in the file or by a row before them."""
        done: set[str] = set()
        for keys in _chunks(columns[0] for columns, _ in rows if columns[1] == "done"):
            slots = ", ".join("?" * len(keys))
            found = self._db.execute(f"SELECT key FROM results WHERE status = 'done' AND key IN ({slots})", keys)
            done |= {key for (key,) in found}
        for columns, packed in rows:
            if columns[1] == "done":
                if columns[0] in done:
                    continue
                done.add(columns[0])
            yield columns, packed

    def _last(self) -> int:
        """Return the number of the last row."""
        return int(self._db.execute("SELECT IFNULL(MAX(id), 0) FROM results").fetchone()[0])

    def statuses(self, keys: Iterable[str], arrays: bool = False) -> dict[str, str]:
        """Return 'done', 'failed' or 'damaged' for those of `keys` that have a row; `arrays` are verified on request."""
        found = {}
        for chunk in _chunks(keys):
            for row in self._by_keys(chunk):
                found[row.key] = "damaged" if self._fault(row, arrays) else row.columns[1]
        return found

    def get(self, keys: Iterable[str], arrays: bool = False) -> Iterator[Result]:
        """Yield the results of `keys`, in their order; keys without a row are passed over."""
        for chunk in _chunks(keys):
            found = {row.key: row for row in self._by_keys(chunk)}
            yield from (self._result(found[key], arrays) for key in chunk if key in found)

    def _by_keys(self, keys: Sequence[str]) -> Iterator[_Row]:
        return self._rows("latest", f"key IN ({', '.join('?' * len(keys))})", keys)

    def rows(self, arrays: bool = False, status: str | None = None, **where: object) -> Iterator[Result]:
        """Yield results in the order they were added.

        `where` filters by a task's parts or its numbers: `n=1001`, a list for any of several values, a pair `(low,
        high)` for a closed interval.
        """
        if strange := [name for name in where if not name.isidentifier()]:
            raise ValueError(f"a filter must be a plain name; got {strange[0]!r}.")
        for row in self._rows("latest"):
            # Read and verified before it is filtered: a damaged number must not decide that its row is not asked for.
            result = self._result(row)
            if status in (None, result.status) and all(_matches(result, *item) for item in where.items()):
                yield self._with_arrays(row, result) if arrays else result

    def _rows(self, table: str, where: str = "1", given: Sequence[object] = ()) -> Iterator[_Row]:
        digest, join = (
            ("d.arrays, d.digest", "LEFT JOIN digests d ON d.id = r.id") if self._verified else ("'', ''", "")
        )
        columns = ", ".join(f"r.{quoted([name])}" for name in COLUMNS)
        query = f"SELECT r.id, {columns}, {digest} FROM {table} r {join} WHERE {where} ORDER BY r.id"
        for number, *values, listed, digest in self._select(query, given):
            yield _Row(number, str(values[0]), tuple(values), listed, digest)

    def _select(self, query: str, given: Iterable[object]) -> Iterator[Any]:
        with explaining(self.path):
            cursor = self._db.execute(query, tuple(given))
            while rows := cursor.fetchmany(_CHUNK):
                yield from rows

    def _fault(self, row: _Row, arrays: bool) -> str:
        """Return what is wrong with a row, "" when nothing is; also with its arrays, if these are asked for."""
        if not self._verified:
            return ""
        reason = digests.fault(row.columns, row.listed, row.digest)
        return reason or (digests.fault_of_arrays(self._packed(row.key), row.listed) if arrays else "")

    def _result(self, row: _Row, arrays: bool = False) -> Result:
        if reason := self._fault(row, arrays=False):
            raise DamagedResult(self.path, row.key, reason)
        values = dict(zip(COLUMNS, row.columns))
        try:
            values["task"], values["values"] = json.loads(values["task"]), json.loads(values["values"])
        except (ValueError, TypeError, RecursionError) as error:  # a store of version 0.1, without digests
            raise DamagedResult(self.path, row.key, f"{type(error).__name__}: {error}") from error
        result = Result(**values)
        return self._with_arrays(row, result) if arrays else result

    def _with_arrays(self, row: _Row, result: Result) -> Result:
        packed = self._packed(row.key) if result.status == "done" else {}
        if self._verified and (reason := digests.fault_of_arrays(packed, row.listed)):
            raise DamagedResult(self.path, row.key, reason)
        try:
            result.arrays = {name: _unpack(data) for name, data in packed.items()}
        except Exception as error:  # a store of version 0.1: damaged bytes make `np.load` raise anything
            raise DamagedResult(self.path, row.key, f"{type(error).__name__}: {error}") from error
        return result

    def _packed(self, key: str) -> dict[str, bytes]:
        return dict(self._select("SELECT name, data FROM arrays WHERE key = ? ORDER BY id", (key,)))

    def arrays(self, key: str) -> dict[str, Array]:
        """Return the arrays of one result by name."""
        return next((result.arrays for result in self.get([key], arrays=True)), {})

    def count(self) -> dict[str, int]:
        """Return the number of tasks done and failed."""
        found = dict(self._select("SELECT status, COUNT(*) FROM latest GROUP BY status", ()))
        return {status: found.get(status, 0) for status in ("done", "failed")}

    def damaged(self, arrays: bool = True) -> Iterator[Damage]:
        """Yield what is damaged among all rows of the file and, unless `arrays` is false, their arrays."""
        for row in self._rows("results"):
            if reason := self._fault(row, arrays):
                yield Damage(row.number, row.key, reason)

    def withdraw(self, keys: Iterable[str]) -> None:
        """Remove results that were found damaged, so that they can be added again."""
        with explaining(self.path):
            remove(self._db, [], list(keys))

    def _withdraw_all(self) -> list[Damage]:
        """Withdraw all damaged rows: their keys may be damaged too, and then nobody would ask for them."""
        found = list(self.damaged(arrays=False))
        with explaining(self.path):
            remove(self._db, [damage.number for damage in found], [])
        return found

    @property
    def verified(self) -> bool:
        """Whether rows have digests; those of version 0.1 get them when the store is next written to."""
        return self._verified

    def close(self) -> None:
        """Close the file; what was added stays, in this one file."""
        if self.write:
            with suppress(sqlite3.Error):  # where a reader holds it up, what was added stays in the log beside the file
                self._db.execute("PRAGMA busy_timeout = 2000")
                self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._db.close()
        self._unlock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class _Row:
    """A row as the file has it: its number, key and columns, the digests of its arrays and its own."""

    number: int
    key: str
    columns: tuple[Any, ...]
    listed: Any
    digest: Any


def _opened(path: Path, write: bool) -> tuple[sqlite3.Connection, bool, bool]:
    """Return the connection, whether rows have digests, and whether indexes had to be mended."""
    if write:
        db, mended = open_writer(path)
        return db, True, mended
    return *open_reader(path), False


_Packed = tuple[tuple[Any, ...], dict[str, bytes]]
"""A result as the file keeps it: its columns, and its arrays as bytes."""


def _columns(result: Result) -> _Packed:
    """Return a result as the file keeps it: its columns, and its arrays as bytes."""
    written: Values = {"task": _json(result.task), "values": _json(result.values), "seconds": float(result.seconds)}
    columns = tuple(written[name] if name in written else str(getattr(result, name)) for name in COLUMNS)
    packed = {name: _pack(array) for name, array in result.arrays.items()} if result.status == "done" else {}
    return columns, packed


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
    """Return what a result says about `name`: its target, its task, the options of its sampler, its numbers."""
    target, options = result.task.get("target", {}), result.task.get("options", {})
    places = [target] if name in _TARGET else []
    found = next((p[name] for p in (*places, result.task, options, result.values) if p.get(name) is not None), None)
    return found["name"] if name == "potential" and isinstance(found, dict) else found


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
