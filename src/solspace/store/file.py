"""Open a store's SQLite file for one writer or many readers, and say in words what is wrong with it.

What a digest of a row cannot see is looked at when the file is opened: whether the definitions of the tables are ours
to the letter, and whether tables and their indexes agree (`PRAGMA integrity_check`, 0.2 s for 100,000 rows): a row that
an index does not find would be missing in silence. A writer makes damaged indexes anew; a reader says so and stops. A file
that this process found whole and nobody has written to since is not looked through again.
"""

from __future__ import annotations

import os
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from urllib.parse import quote

from solspace.store import digests
from solspace.system.locks import Lock, Locked

FORMAT = 2
"""1: rows without digests (solspace 0.1), which the first writer adds. 2: a digest for every row and array."""
COLUMNS = ("key", "status", "task", "values", "error", "version", "seed", "host", "seconds", "date")
_APPLICATION = 0x50535053  # "SPSP": tells our files from other programs' SQLite files
_SCHEMA = """
CREATE TABLE results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    task TEXT NOT NULL, "values" TEXT NOT NULL, error TEXT NOT NULL,
    version TEXT NOT NULL, seed TEXT NOT NULL, host TEXT NOT NULL, seconds REAL NOT NULL, date TEXT NOT NULL);
CREATE INDEX results_by_key ON results (key);
CREATE UNIQUE INDEX done_once ON results (key) WHERE status = 'done';
CREATE TABLE arrays (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (key, name));
CREATE VIEW latest AS SELECT * FROM results r WHERE status = 'done' OR NOT EXISTS (
    SELECT 1 FROM results other WHERE other.key = r.key AND (other.status = 'done' OR other.id > r.id));
"""
_DIGESTS = "CREATE TABLE digests (id INTEGER PRIMARY KEY, arrays TEXT NOT NULL, digest TEXT NOT NULL);"
_TABLES = ("results", "arrays", "digests")
_GUARD = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
"""
_VARIABLES = 999
"""Values of a statement that every SQLite takes."""
_TICK = 50_000_000
"""Nanoseconds within which two writes to a file may have the same time."""
_DISK = ("SQLITE_FULL", "SQLITE_IOERR")
_OF_A_ROW = ("CHECK constraint", "NULL value", "NUMERIC value", "TEXT value", "non-unique entry")
"""Findings of `integrity_check` about the content of a row, which its digest judges."""


class StoreError(OSError):
    """What is wrong with a store, and what to do about it."""


class UnusableStore(StoreError, ValueError):
    """A store that cannot be used as it is given: damaged, of a newer version, not to be written, held by another."""


class DamagedResult(UnusableStore):
    """A result whose bytes are not those that were written."""

    def __init__(self, path: Path, key: str, reason: str) -> None:
        super().__init__(
            f"{path}: result {key} is damaged ({reason}). Run the same sweep or figure again: it computes this one anew "
            "and keeps the others."
        )


def _real(path: Path) -> Path:
    """Return where the file really lies: by whatever link it is reached, it has one lock and one log."""
    if str(path) == ":memory:":
        raise UnusableStore("':memory:' is no store: nothing of it would be left. Give the path of a file.")
    return Path(os.path.realpath(path))


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
    """Return a connection that may add rows, and whether indexes had to be made anew; an empty file becomes a store."""
    db = _connect(str(_real(path)))
    try:
        empty = not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        version = FORMAT if empty else _version(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")  # a row that was added is on the disk, also after a power cut
        if empty:
            _create(db)
        if version < FORMAT:
            _add_digests(db)
        return db, _mend(db, _real(path))
    except BaseException:
        db.close()
        raise


def _create(db: sqlite3.Connection) -> None:
    guards = "".join(guard for table in _TABLES for guard in _guards(table))
    # The marks belong to the same transaction: a kill in the middle leaves an empty file, which is made again.
    db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {_DIGESTS} {guards} {_marks()} COMMIT;")


def _guards(table: str) -> list[str]:
    return [_GUARD.format(table=table, verb=verb) for verb in ("UPDATE", "DELETE")]


def _marks() -> str:
    return f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"


def _add_digests(db: sqlite3.Connection) -> None:
    """Give the rows of a store of version 0.1 their digests, in one transaction: all or none."""
    with transaction(db):
        db.execute(_DIGESTS)
        for guard in _guards("digests"):
            db.execute(guard)
        rows = db.execute(f"SELECT id, {quoted(COLUMNS)} FROM results")
        for number, *columns in rows:
            found = db.execute("SELECT name, data FROM arrays WHERE key = ? ORDER BY id", (columns[0],))
            insert(db, "digests", [digest_row(number, columns, dict(found) if columns[1] == "done" else {})])
        db.execute(f"PRAGMA user_version = {FORMAT}")


def digest_row(number: int, columns: Sequence[object], packed: Mapping[str, bytes]) -> tuple[object, ...]:
    """Return the digest of the row `number`, as its table has it."""
    arrays = digests.of_arrays(packed)
    return number, arrays, digests.of_row(columns, arrays)


def insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Add whole rows, many by one statement: where other threads are busy, each statement waits for its turn."""
    while rows:
        width = len(rows[0])
        count = max(1, _VARIABLES // width)
        part, rows = rows[:count], rows[count:]
        slots = ", ".join([f"({', '.join('?' * width)})"] * len(part))
        db.execute(f"INSERT INTO {table} VALUES {slots}", [value for row in part for value in row])


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """All that the block does, or nothing of it."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        with suppress(sqlite3.Error):
            db.execute("ROLLBACK")
        raise


def remove(db: sqlite3.Connection, numbers: Sequence[int], keys: Sequence[str]) -> None:
    """Remove rows that are damaged, by number and by key, and arrays that no row is left for.

    The only place that removes: the guards are lifted within the transaction, and nobody else ever sees them lifted.
    """
    with transaction(db):
        for table in _TABLES:
            db.execute(f"DROP TRIGGER {table}_no_DELETE")
        db.execute("REINDEX arrays")
        db.executemany("DELETE FROM results WHERE id = ?", [(number,) for number in numbers])
        db.executemany("DELETE FROM results WHERE key = ?", [(key,) for key in keys])
        db.execute("DELETE FROM digests WHERE id NOT IN (SELECT id FROM results)")
        db.execute("DELETE FROM arrays WHERE key NOT IN (SELECT key FROM results WHERE status = 'done')")
        for table in _TABLES:
            db.execute(_GUARD.format(table=table, verb="DELETE"))


def open_reader(path: Path) -> tuple[sqlite3.Connection, bool]:
    """Return a connection that cannot change anything, also where the folder cannot be written to, and whether its
    rows have digests."""
    real = _real(path)
    if not real.is_file():
        raise UnusableStore(f"there is no store at {path}.")
    address = f"file:{quote(str(real))}?mode=ro"
    try:
        return _opened(address, path)
    except sqlite3.OperationalError:
        # A read-only folder has no room for the log's index; where there is no log the file is read as it lies.
        if real.with_name(real.name + "-wal").exists():
            raise
        return _opened(address + "&immutable=1", path)


def _opened(address: str, path: Path) -> tuple[sqlite3.Connection, bool]:
    db = _connect(address)
    try:
        verified = _version(db, path) == FORMAT
        if verified and (found := _damage(db, _real(path))):
            raise UnusableStore(
                f"{path} is damaged ({found}). Run the same sweep or figure again: it mends the file and computes anew "
                "what is lost."
            )
    except BaseException:
        db.close()
        raise
    return db, verified


def _connect(address: str) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=address.startswith("file:"), isolation_level=None, timeout=60)
    db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")  # what is no text fails by its digest
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    """Return the file's format; refuse what is not ours, what is newer and what has other tables than its format."""
    ours = db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if not ours:
        raise UnusableStore(f"{path} is not a solspace store. It was left as it is; give another path.")
    if version > FORMAT:
        raise UnusableStore(
            f"{path} was written by a newer solspace (store format {version}, this one knows {FORMAT}): upgrade "
            "solspace to use it. It was left as it is."
        )
    there = set(db.execute("SELECT name, sql FROM sqlite_master"))
    for name, definition in _definitions():
        if (name, definition) not in there and not (version < FORMAT and name.startswith("digests")):
            raise sqlite3.DatabaseError(f"the definition of {name} is not ours")
    # Whoever has the table has digests, whatever became of the number in the file's first bytes.
    return FORMAT if any(name == "digests" for name, _ in there) else version


@cache
def _definitions() -> list[tuple[str, str]]:
    db = sqlite3.connect(":memory:", isolation_level=None)
    _create(db)
    found = db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    db.close()
    return found


def _mend(db: sqlite3.Connection, real: Path) -> bool:
    """Make the indexes anew where they disagree with their tables; whether that was so. What is worse is refused."""
    if not _damage(db, real):
        return False
    db.execute("REINDEX")
    if found := _damage(db, real):
        raise sqlite3.DatabaseError(found)
    return True


def _damage(db: sqlite3.Connection, real: Path) -> str:
    """Return what is wrong with the tables of rows and digests or their indexes; "" when nothing is."""
    before = _stamp(real)
    if before is not None and _whole.get(real) == before:
        return ""
    for table in ("results", "digests"):
        for (finding,) in db.execute(f"PRAGMA integrity_check('{table}')"):
            if finding != "ok" and not finding.startswith(_OF_A_ROW):
                return " ".join(finding.split())
    if before is not None:
        _whole[real] = before
    return ""


_whole: dict[Path, tuple[object, ...]] = {}
"""Files that this process found whole, and when they were written to before."""


def _stamp(real: Path) -> tuple[object, ...] | None:
    """Return what changes when somebody writes to the file or its log; None where that is too recent to tell."""
    found = []
    for part in (real, real.with_name(real.name + "-wal")):
        with suppress(FileNotFoundError):
            found.append(os.stat(part))
    last = max((one.st_mtime_ns for one in found), default=0)
    if time.time_ns() - last < _TICK:
        return None
    return tuple((one.st_dev, one.st_ino, one.st_size, one.st_mtime_ns) for one in found)


def quoted(names: Sequence[str]) -> str:
    """Return the names of columns as SQL wants them."""
    return ", ".join(f'"{name}"' for name in names)


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `StoreError`s that say what to do."""
    try:
        yield
    except (sqlite3.Error, zlib.error, UnicodeDecodeError, MemoryError) as error:  # damaged lengths ask for any memory
        name = getattr(error, "sqlite_errorname", "SQLITE_CORRUPT")
        kind = StoreError if name.startswith(_DISK) else UnusableStore
        raise kind(_explanation(path, error, name)) from error


def _explanation(path: Path, error: Exception, name: str) -> str:
    if name.startswith(_DISK):
        return (
            f"{path} could not be written ({error}): is the disk full? Every result before this one is safe; make room "
            "and run the same command again to go on."
        )
    if name.startswith(("SQLITE_NOTADB", "SQLITE_CORRUPT")):
        return (
            f"{path} is damaged or not a store ({error}). It was left as it is: move it away to begin anew, or save "
            f"what can be read with: sqlite3 {path.name} .recover | sqlite3 recovered.db"
        )
    if name.startswith(("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")):
        return f"cannot write {path} ({error}): give a store in a folder you may write to."
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return f"{path} is held by another program ({error}); close it and run the same command again."
    return f"{path}: {error}."
