"""The SQLite file of a store: opened for one writer or many readers, rows with digests, errors that say what to do.

SQLite has no checksums of its own: the table `digests` holds, for each row, the digests of its arrays by name and one of the row
with that list. A row that a damaged index does not find would be missing unseen, so tables and indexes are compared when a file
is opened (`PRAGMA integrity_check`): a writer rebuilds the indexes, a reader refuses the file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import warnings
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote

FORMAT = 2  # version of the file; 1 was that of solspace 0.1, without digests
COLUMNS = ("key", "status", "task", "values", "error", "version", "seed", "host", "seconds", "date")
QUOTED = ", ".join(f'r."{name}"' for name in COLUMNS)
# condition for the row that counts among those of one key: the one that is done, or else the last
LATEST = """(r.status = 'done' OR NOT EXISTS (
    SELECT 1 FROM results other WHERE other.key = r.key AND (other.status = 'done' OR other.id > r.id)))"""
_APPLICATION = 0x50535053  # "SPSP" marks a SQLite file as a store
_SCHEMA = f"""
CREATE TABLE results (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, status TEXT NOT NULL CHECK (status IN ('done', 'failed')),
    task TEXT NOT NULL, "values" TEXT NOT NULL, error TEXT NOT NULL,
    version TEXT NOT NULL, seed TEXT NOT NULL, host TEXT NOT NULL, seconds REAL NOT NULL, date TEXT NOT NULL);
CREATE INDEX results_by_key ON results (key);
CREATE UNIQUE INDEX done_once ON results (key) WHERE status = 'done';
CREATE TABLE arrays (
    id INTEGER PRIMARY KEY, key TEXT NOT NULL, name TEXT NOT NULL, data BLOB NOT NULL, UNIQUE (key, name));
CREATE TABLE digests (id INTEGER PRIMARY KEY, arrays TEXT NOT NULL, digest TEXT NOT NULL);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {FORMAT};
"""
_VARIABLES = 999  # values of a statement that every SQLite takes
# findings of `integrity_check` about the content of a row, which is judged by its digest
_OF_A_ROW = ("CHECK constraint", "NULL value", "NUMERIC value", "TEXT value", "non-unique entry")


class StoreError(OSError):
    """What is wrong with a store, and what to do about it."""


class UnusableStore(StoreError, ValueError):
    """A store that cannot be used as it is: damaged, of a newer version, not writable, or locked by another writer."""


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, zlib.error, UnicodeDecodeError, MemoryError) as error:  # damaged lengths need any memory
        name = getattr(error, "sqlite_errorname", "")
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
                f"{path} is damaged or not a store ({error}). It was left as it is: move it away to start again, or save "
                f"what can be read with: sqlite3 {path.name} .recover | sqlite3 recovered.db"
            )
        raise UnusableStore(words) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock of the only writer of the store at `path`.

    SQLite has locks on its own file, but POSIX drops them when any part of the process closes that file.
    """
    from filelock import FileLock, Timeout

    place = _real(path)
    lock = FileLock(f"{place}.lock", timeout=0)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except Timeout:
        raise UnusableStore(
            f"{path} is being written by another process. One sweep writes at a time: wait, or use another store."
        ) from None
    except OSError as error:
        raise UnusableStore(
            f"cannot write {path}: {error.strerror}. Give a store in a folder you may write to."
        ) from error
    try:
        yield
    finally:
        lock.release()


@contextmanager
def opened(path: Path, write: bool) -> Iterator[tuple[sqlite3.Connection, bool]]:
    """Open a store; yield a connection, and whether indexes had to be rebuilt. A writer makes a store of an empty file."""
    place = _real(path)
    if not write and not place.exists():
        raise UnusableStore(f"there is no store at {path}.")
    # A read-only folder has no room for the log's index; where there is no log the file is read as it lies.
    logged = os.access(place.parent, os.W_OK) or Path(f"{place}-wal").exists()
    address = f"file:{quote(str(place))}?{'mode=rwc' if write else 'mode=ro' if logged else 'immutable=1'}"
    with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=60)) as db:
        db.text_factory = lambda data: data.decode("utf-8", "surrogateescape")  # damaged text fails by its digest
        filled = db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if filled or not write:
            _check_format(db, path)
        if write:
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = FULL")  # a row that was added is on the disk, also after a power cut
            # One transaction: a kill in the middle leaves an empty file, which becomes a store next time.
            db.executescript("" if filled else f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        damage = _damage(db)
        if damage and not write:
            raise UnusableStore(
                f"{path} is damaged ({damage}). Run the same sweep or figure again: it mends the file and computes again "
                "what is lost."
            )
        if damage:
            db.execute("REINDEX")
            if remaining := _damage(db):
                raise sqlite3.DatabaseError(remaining)
        yield db, bool(damage)


def _real(path: Path) -> Path:
    """Return where the file really is: by whatever link it is reached, it has one lock and one log."""
    place = Path(os.path.realpath(path))
    if str(path) == ":memory:" or (place.exists() and not place.is_file()):
        raise UnusableStore(f"{path} is not a file: give another store.")
    return place


def _check_format(db: sqlite3.Connection, path: Path) -> None:
    """Raise UnusableStore if the file is of another program or of another format."""
    if db.execute("PRAGMA application_id").fetchone()[0] != _APPLICATION:
        raise UnusableStore(f"{path} is not a solspace store. It was left as it is; give another path.")
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version != FORMAT:
        newer = "a newer solspace", "upgrade solspace to use it"
        writer, advice = (
            newer if version > FORMAT else ("solspace 0.1", "give another path for the results of this version")
        )
        raise UnusableStore(
            f"{path} was written by {writer} (store format {version}, this one reads {FORMAT}): {advice}. It was left as "
            "it is."
        )


def _damage(db: sqlite3.Connection) -> str:
    """Return what is wrong with the tables of rows and digests or their indexes; "" if nothing is."""
    for table in ("results", "digests"):
        for (finding,) in db.execute(f"PRAGMA integrity_check('{table}')"):
            if finding != "ok" and not finding.startswith(_OF_A_ROW):
                return " ".join(finding.split())
    return ""


def warn_damaged(path: Path, words: str, keys: Iterable[str]) -> None:
    removed = ", ".join(keys)
    words += (
        f"; removed, to be computed again by the sweep they belong to: {removed}" if removed else "; nothing is lost"
    )
    warnings.warn(f"{path}: {words}. A disk or a copy changed bytes in it.", stacklevel=3)


def insert(db: sqlite3.Connection, table: str, rows: Sequence[Sequence[object]]) -> None:
    """Add rows, many by one statement: each statement waits for its turn when other threads are busy."""
    count = _VARIABLES // len(rows[0]) if rows else 1
    for start in range(0, len(rows), count):
        part = rows[start : start + count]
        slots = ", ".join([f"({', '.join('?' * len(rows[0]))})"] * len(part))
        db.execute(f"INSERT INTO {table} VALUES {slots}", [value for row in part for value in row])


def remove(db: sqlite3.Connection, column: str, values: Iterable[object]) -> None:
    with db:
        db.execute("BEGIN IMMEDIATE")
        for table in ("results", "arrays", "digests"):  # files of 0.2 have triggers against removal
            db.execute(f"DROP TRIGGER IF EXISTS {table}_no_DELETE")
        db.execute("REINDEX arrays")
        db.executemany(f"DELETE FROM results WHERE {column} = ?", [(value,) for value in values])
        db.execute("DELETE FROM digests WHERE id NOT IN (SELECT id FROM results)")
        db.execute("DELETE FROM arrays WHERE key NOT IN (SELECT key FROM results WHERE status = 'done')")


def digests(packed: Mapping[str, bytes]) -> dict[str, str]:
    return {name: _digest(data) for name, data in packed.items()}


def digest_of_row(columns: Sequence[object], arrays: object) -> str:
    """Return the digest of the columns of a result and of `arrays`, the JSON text of the digests of its arrays."""
    # A damaged column may come back as another type, which JSON does not take: any text that differs will do then.
    return _digest(json.dumps([*columns, arrays], separators=(",", ":"), default=repr).encode())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:32]
