"""Digests of rows and arrays, so that no byte of a result changes unseen.

Disks, cables and copies flip bits, and SQLite has no checksum of its own. Beside every row lie the digests of its
arrays by name, and one digest of the row with that list: a changed number, a lost array, a text of another row, each
gives another digest. A digest says that the content is what was written, not who wrote it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence


def of_bytes(data: bytes) -> str:
    """Return 128 bits of SHA-256 of `data`, as 32 hexadecimal digits.

    >>> of_bytes(b"")
    'e3b0c44298fc1c149afbf4c8996fb924'
    """
    return hashlib.sha256(data).hexdigest()[:32]


def of_arrays(packed: Mapping[str, bytes]) -> str:
    """Return the digests of a row's arrays by name, as JSON text."""
    return json.dumps({name: of_bytes(data) for name, data in packed.items()}, separators=(",", ":"))


def of_row(columns: Sequence[object], arrays: object) -> str:
    """Return the digest of a row's columns and of the list of its arrays.

    A damaged column may have come back as another type, which JSON may not know: any text that differs will do then.
    """
    return of_bytes(json.dumps([*columns, arrays], separators=(",", ":"), default=repr).encode())


def fault(columns: Sequence[object], arrays: object, digest: object) -> str:
    """Return what is wrong with a row as it was read; "" when nothing is."""
    if digest is None:
        return "its digest is gone"
    return "" if of_row(columns, arrays) == digest else "it differs from its digest"


def fault_of_arrays(packed: Mapping[str, bytes], listed: str) -> str:
    """Return what is wrong with the arrays of a row that is sound itself; "" when nothing is."""
    wanted = json.loads(listed)
    if lost := sorted(set(wanted) - set(packed)):
        return f"its array {lost[0]!r} is gone"
    changed = sorted(name for name, data in packed.items() if not _is(data, wanted.get(name)))
    return f"its array {changed[0]!r} differs from its digest" if changed else ""


def _is(data: object, digest: str | None) -> bool:
    return isinstance(data, bytes) and of_bytes(data) == digest
