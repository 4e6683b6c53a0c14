"""Open a store's SQLite file for one writer or many readers, and say in words what is wrong with it."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from solspace.system.locks import Lock, Locked

FORMAT = 1
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
_GUARD = """
CREATE TRIGGER {table}_no_{verb} BEFORE {verb} ON {table} BEGIN SELECT RAISE(ABORT, 'results are only ever added'); END;
"""
_DISK = ("SQLITE_FULL", "SQLITE_IOERR")


class StoreError(OSError):
    """What is wrong with a store, and what to do about it."""


class UnusableStore(StoreError, ValueError):
    """A store that cannot be used as it is given: damaged, of a newer version, not to be written, held by another."""


def lock(path: Path) -> Lock:
    """Return the lock that makes its holder the only writer of the store at `path`."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return Lock(path.with_name(path.name + ".lock"))
    except Locked as holder:
        raise UnusableStore(
            f"{path} is being written by {holder}. One sweep writes at a time: wait, or give another store."
        ) from None
    except OSError as error:
        raise UnusableStore(
            f"cannot write {path}: {error.strerror}. Give a store in a folder you may write to."
        ) from error


def open_writer(path: Path) -> sqlite3.Connection:
    """Return a connection that may add rows; an empty file becomes a store."""
    db = sqlite3.connect(path, isolation_level=None, timeout=60)
    try:
        empty = not db.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchone()
        if not empty:
            _check(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        if empty:
            guards = [_GUARD.format(table=t, verb=v) for t in ("results", "arrays") for v in ("UPDATE", "DELETE")]
            # The marks belong to the same transaction: a kill in the middle leaves an empty file, which is made again.
            marks = f"PRAGMA application_id = {_APPLICATION}; PRAGMA user_version = {FORMAT};"
            db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} {''.join(guards)} {marks} COMMIT;")
    except BaseException:
        db.close()
        raise
    return db


def open_reader(path: Path) -> sqlite3.Connection:
    """Return a connection that cannot change anything, also where the folder cannot be written to."""
    if not path.is_file():
        raise UnusableStore(f"there is no store at {path}.")
    address = f"file:{quote(str(path.absolute()))}?mode=ro"
    try:
        return _opened(address, path)
    except sqlite3.OperationalError:
        # A read-only folder has no room for the log's index; where there is no log the file is read as it lies.
        if path.with_name(path.name + "-wal").exists():
            raise
        return _opened(address + "&immutable=1", path)


def _opened(address: str, path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(address, uri=True, isolation_level=None, timeout=60)
    try:
        _check(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _check(db: sqlite3.Connection, path: Path) -> None:
    ours = db.execute("PRAGMA application_id").fetchone()[0] == _APPLICATION
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if not ours:
        raise UnusableStore(f"{path} is not a solspace store. It was left as it is; give another path.")
    if version > FORMAT:
        raise UnusableStore(
            f"{path} was written by a newer solspace (store format {version}, this one knows {FORMAT}): upgrade "
            "solspace to use it. It was left as it is."
        )


@contextmanager
def explaining(path: Path) -> Iterator[None]:
    """Turn SQLite's errors into `StoreError`s that say what to do."""
    try:
        yield
    except (sqlite3.Error, zlib.error) as error:
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
