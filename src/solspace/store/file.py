"""The SQLite file of a store: opened for one writer or many readers, rows with digests, errors in words.

SQLite has no checksums of its own: the table `digests` holds, for each row, the digests of its arrays by name and one of the row
with that list. A row that a damaged index does not find would be missing unseen, so tables and indexes are compared when a file
is opened (`PRAGMA integrity_check`): a writer rebuilds the indexes, a reader refuses the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

from solspace.system.files import Lock, Locked

FORMAT = 2
"""Version of the file; 1 was that of solspace 0.1, without digests."""
COLUMNS = ("key", "status", "task", "values", "error", "version", "seed", "host", "seconds", "date")
QUOTED = ", ".join(f'"{name}"' for name in COLUMNS)
LATEST = """r.status = 'done' OR NOT EXISTS (
    SELECT 1 FROM results other WHERE other.key = r.key AND (other.status = 'done' OR other.id > r.id))"""
"""Condition for the row that counts among those of one key: the one that is done, or else the last."""
_APPLICATION = 0x50535053  # "SPSP" marks a SQLite file as a store
_SCHEMA = """
CREATE TABLE results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    task TEXT NOT NULL, "values" TEXT NOT NULL, error TEXT NOT NULL,
    version TEXT NOT NULL, seed TEXT NOT NULL, host TEXT NOT NULL, seconds REAL NOT NULL, date TEXT NOT NULL);
CREATE INDEX results_by_key ON results (key);
CREATE UNIQUE INDEX done_once ON results (key) WHERE status = 'done';
CREATE TABLE arrays (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (key, name));
CREATE TABLE digests (id INTEGER PRIMARY KEY, arrays TEXT NOT NULL, digest TEXT NOT NULL);
"""
_VARIABLES = 999
"""Values of a statement that every SQLite takes."""
_OF_A_ROW = ("CHECK constraint", "NULL value", "NUMERIC value", "TEXT value", "non-unique entry")
"""Findings of `integrity_check` about the content of a row, which is judged by its digest."""


class StoreError(OSError):
    """What is wrong with a store, and what to do about it."""


class UnusableStore(StoreError, ValueError):
    """A store that cannot be used as it is: damaged, of a newer version, not writable, or locked by another writer."""


class DamagedResult(UnusableStore):
    """A result whose bytes are not those that were written."""

    def __init__(self, path: Path, key: str, reason: str) -> None:
        super().__init__(
            f"{path}: result {key} is damaged ({reason}). Run the same sweep or figure again: it computes this one anew "
            "and keeps the others."
        )


def lock(path: Path) -> Lock:
    """Return the lock that makes its holder the only writer of the store at `path`."""
    real = _real(path)
    if real.exists() and not real.is_file():
        raise UnusableStore(f"{path} is not a file: give another store.")
    try:
        real.parent.mkdir(parents=True, exist_ok=True)
        return Lock(real.with_name(real.name + ".lock"))
    except Locked as holder:
        raise UnusableStore(
            f"{path} is being written by {holder}. One sweep writes at a time: wait, or give another store."
        ) from None
    except OSError as error:
        raise UnusableStore(
            f"cannot write {path}: {error.strerror}. Give a store in a folder you may write to."
        ) from error


def open_writer(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Return a connection that may add rows, and whether indexes had to be rebuilt; an empty file becomes a store."""
    with _connected(str(_real(path))) as db:
        filled = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if filled:
            _check_format(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a row that was added is on the disk, also after a power cut
        if not filled:
            # One transaction: a kill in the middle leaves an empty file, which becomes a store next time.
            marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {marks} COMMIT;")
        damaged = bool(_damage(db))
        if damaged:
            db.execute("REINDEX")
            if found := _damage(db):
                raise sqlite3.DatabaseError(found)
        return db, damaged


def open_reader(path: Path) -> sqlite3.Connection:
    real = _real(path)
    if not real.is_file():
        raise UnusableStore(f"there is no store at {path}.")
    address = f"file:{quote(str(real))}?mode=ro"
    try:
        return _checked(address, path)
    except sqlite3.OperationalError:
        # A read-only folder has no room for the log's index; where there is no log the file is read as it lies.
        if real.with_name(real.name + "-wal").exists():
            raise
        return _checked(address + "&immutable=1", path)


def _checked(address: str, path: Path) -> sqlite3.Connection:
    with _connected(address) as db:
        _check_format(db, path)
        if found := _damage(db):
            raise UnusableStore(
                f"{path} is damaged ({found}). Run the same sweep or figure again: it mends the file and computes anew "
                "what is lost."
            )
        return db


def _real(path: Path) -> Path:
    """Return where the file really is: by whatever link it is reached, it has one lock and one log."""
    if str(path) == ":memory:":
        raise UnusableStore("':memory:' is no store: nothing of it would be left. Give the path of a file.")
    return Path(os.path.realpath(path))


@contextmanager
def _connected(address: str) -> Iterator[sqlite3.Connection]:
    """Yield a connection, which is closed if the block fails."""
    db = sqlite3.connect(address, uri=address.startswith("file:"), isolation_level=None, timeout=60)
    db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")  # damaged text fails by its digest
    try:
        yield db
    except BaseException:
        db.close()
        raise


def _check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise UnusableStore if the file is of another program or of another format."""
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise UnusableStore(f"{path} is not a solspace store. It was left as it is; give another path.")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        writer, advice = ("a newer solspace", "upgrade solspace to use it")
        if version < FORMAT:
            writer, advice = ("solspace 0.1", "give another path, into which the sweep is computed anew")
        raise UnusableStore(
            f"{path} was written by {writer} (store format {version}, this one reads {FORMAT}): {advice}. It was left as "
            "it is."
        )
    with closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(_SCHEMA)
        if wrong := _definitions(fresh) - _definitions(db):
            raise sqlite3.DatabaseError(f"the definition of {min(wrong)[0]} is damaged")


def _definitions(db: sqlite3.Connection) -> set[tuple[str, str]]:
    return set(db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))


def _damage(db: sqlite3.Connection) -> str:
    """Return what is wrong with the tables of rows and digests or their indexes; "" if nothing is."""
    for table in ("results", "digests"):
        for (finding,) in db.execute(f"PRAGMA integrity_check('{table}')"):
            if finding != "ok" and not finding.startswith(_OF_A_ROW):
                return " ".join(finding.split())
    return ""


def insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Add whole rows, many by one statement: each statement waits for its turn when other threads are busy."""
    while rows:
        width = len(rows[0])
        part, rows = rows[: _VARIABLES // width], rows[_VARIABLES // width :]
        slots = ", ".join([f"({', '.join('?' * width)})"] * len(part))
        db.execute(f"INSERT INTO {table} VALUES {slots}", [value for row in part for value in row])


def remove(db: sqlite3.Connection, column: str, values: Iterable[object]) -> None:
    with transaction(db):
        for table in ("results", "arrays", "digests"):  # files of 0.2 have triggers against removal
            db.execute(f"DROP TRIGGER IF EXISTS {table}_no_DELETE")
        db.execute("REINDEX arrays")
        db.executemany(f"DELETE FROM results WHERE {column} = ?", [(value,) for value in values])
        db.execute("DELETE FROM digests WHERE id NOT IN (SELECT id FROM results)")
        db.execute("DELETE FROM arrays WHERE key NOT IN (SELECT key FROM results WHERE status = 'done')")


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]


def digest_row(number: int, columns: Sequence[object], packed: Mapping[str, bytes]) -> tuple[int, str, str]:
    """Return a row of the table of digests: the number of a result, the digests of its arrays and its own."""
    arrays = json.dumps({name: _digest(data) for name, data in packed.items()}, separators=(",", ":"))
    return number, arrays, _of_row(columns, arrays)


def _of_row(columns: Sequence[object], arrays: object) -> str:
    # A damaged column may come back as another type, which JSON does not take: any text that differs will do then.
    return _digest(json.dumps([*columns, arrays], separators=(",", ":"), default=repr).encode())


def fault(columns: Sequence[object], arrays: object, wanted: object) -> str:
    """Return what is wrong with a row as it was read; "" if nothing is."""
    if wanted is None:
        return "its digest is gone"
    return "" if _of_row(columns, arrays) == wanted else "it differs from its digest"


def fault_of_arrays(packed: Mapping[str, Any], listed: str) -> str:
    """Return what is wrong with the arrays of a row that is sound itself; "" if nothing is."""
    wanted = json.loads(listed)
    for name in sorted(wanted.keys() | packed.keys()):
        if name not in packed:
            return f"its array {name!r} is gone"
        if not isinstance(packed[name], bytes) or _digest(packed[name]) != wanted.get(name):
            return f"its array {name!r} differs from its digest"
    return ""


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `StoreError`s that say what to do."""
    try:
        yield
    except (sqlite3.Error, zlib.error, UnicodeDecodeError, MemoryError) as error:  # damaged lengths ask for any memory
        name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
            raise StoreError(
                f"{path} could not be written ({error}): is the disk full? Every result before this one is safe; make room "
                "and run the same command again to go on."
            ) from error
        if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
            words = f"cannot write {path} ({error}): give a store in a folder you may write to."
        elif name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            words = f"{path} is held by another program ({error}); close it and run the same command again."
        else:
            words = (
                f"{path} is damaged or not a store ({error}). It was left as it is: move it away to begin anew, or save "
                f"what can be read with: sqlite3 {path.name} .recover | sqlite3 recovered.db"
            )
        raise UnusableStore(words) from error
