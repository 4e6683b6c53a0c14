"""Columns of a table: which of them holds the labels, which numbers the rows, what cells mean and which are unusable."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from solspace.system.sources import Damaged, Source, check_size

SHOWN = 4
"""Names of columns that a message lists, from both ends."""
MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null"})
"""Cells without a value, as pandas and other programs write them."""
TRUTHS = {"true": 1.0, "false": 0.0}
_EMPTY, _MISSING, _INFINITE, _TEXT = "no values", "missing values", "infinite values", "text"
_CURES = {
    _EMPTY: "leave it out",
    _MISSING: "fill them in (scikit-learn's SimpleImputer) or drop these rows (pandas' dropna)",
    _INFINITE: "replace them or drop these rows",
    _TEXT: "encode it as numbers (scikit-learn's OneHotEncoder) or leave it out",
}
"""What cells that are no finite numbers are, and what to do about them."""


def is_number(word: str) -> bool:
    """Return whether a cell is a number.

    >>> is_number(' "1e3" '), is_number("1x"), is_number(""), is_number("1_000")
    (True, False, False, False)
    """
    word = word.strip().strip('"')
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word  # which NumPy's parser takes for text, and Python's does not


def is_missing(cell: object) -> bool:
    """Return whether a cell of a table, as text or as a number, is without a value.

    >>> is_missing("NA"), is_missing(np.float64("nan")), is_missing("0")
    (True, True, False)
    """
    return str(cell).strip().strip('"').lower() in MISSING


def unusable(
    rows: Iterable[Sequence[object]],
    names: Sequence[str] | None = None,
    columns: Sequence[int] | None = None,
    words: bool = False,
) -> str:
    """Return which cells of `columns` (all unless given) are no finite numbers, and what to do; "" if there are none.

    With `words`, only cells without a value are unusable.

    >>> unusable([["1", "Paris"], ["NA", "Rome"]], ["age", "city"], columns=[0])
    "it has missing values in column 'age' (first 'NA', in row 2 of the data): fill them in ..."
    """
    first: dict[str, dict[int, str]] = {what: {} for what in _CURES}
    missing: Counter[int] = Counter()
    number = 0
    for number, row in enumerate(rows, 1):
        for k in range(len(row)) if columns is None else columns:
            what = _fault(row[k])
            if what == _MISSING or (what and not words):
                missing[k] += what == _MISSING
                first[what].setdefault(k, f" (first {str(row[k])[:40]!r}, in row {number} of the data)")
    first[_EMPTY] = {k: "" for k, count in missing.items() if count == number}
    first[_MISSING] = {k: where for k, where in first[_MISSING].items() if k not in first[_EMPTY]}
    told = [
        f"{what} in {_named(sorted(found), names)}{next(iter(found.values()))}: {'drop these rows' if words else _CURES[what]}"
        for what, found in first.items()
        if found
    ]
    return f"it has {'; '.join(told)}" if told else ""


def _fault(cell: object) -> str:
    word = str(cell)
    if is_missing(word):
        return _MISSING
    if word.strip().lower() in TRUTHS:
        return ""
    if not is_number(word):
        return _TEXT
    return "" if math.isfinite(float(word.strip().strip('"'))) else _INFINITE


def _named(columns: Sequence[int], names: Sequence[str] | None) -> str:
    """Return columns as a message calls them: by name, or by number where they have no names."""
    told = _listed([repr(names[k]) if names is not None and names[k] else str(k) for k in columns])
    return f"column{'s'[: len(columns) > 1]} {told}{', counted from 0' if names is None else ''}"


def _listed(words: list[str]) -> str:
    return ", ".join(words if len(words) <= 2 * SHOWN else [*words[:SHOWN], "...", *words[-SHOWN:]])


def position(source: Source, column: str, names: Sequence[str] | None, width: int) -> int:
    """Return where a column is, which goes by its name or, counted from 0 and backwards from -1, by its number.

    >>> position("t.csv", "b", ["a", "b"], 2), position("t.csv", "-2", ["a", "b"], 2)
    (1, 0)
    """
    if names is not None and column in names:
        if list(names).count(column) > 1:
            raise Damaged(source, f"two of its columns are called {column!r}; give the column by its number")
        return list(names).index(column)
    if re.fullmatch(r"-?[0-9]{1,9}", column) and -width <= int(column) < width:
        return int(column) % width
    if names is None:
        raise Damaged(source, f"it has no column {column!r}: columns without names go by number, 0 to {width - 1}")
    listed = _listed([repr(name) for name in names])
    raise Damaged(source, f"it has no column {column!r}; its {width} columns are {listed}")


def places(
    source: Source, label: str | None, index: str | None, names: Sequence[str] | None, width: int
) -> tuple[int | None, list[int]]:
    """Return where the labels are, and which columns are neither those nor the index.

    >>> places("t.csv", "y", "0", ["id", "a", "b", "y"], 4)
    (3, [1, 2])
    """
    at, apart = (None if column is None else position(source, column, names, width) for column in (label, index))
    if at is not None and at == apart:
        raise Damaged(source, f"its column {label!r} cannot be the label and the index at once")
    kept = [k for k in range(width) if k not in (at, apart)]
    if not kept:
        raise Damaged(source, "it holds no column of numbers beside its labels")
    return at, kept


def counts_rows(values: np.ndarray) -> bool:
    """Return whether a column counts 0, 1, 2, ... as the index does that pandas writes unless told otherwise."""
    return values.dtype.kind in "iuf" and np.array_equal(values, np.arange(len(values)))


def words_array(source: Source, words: Sequence[str], size: int, limit: int | None) -> np.ndarray:
    """Return words (m,) as an array, in which each takes the room of the longest."""
    check_size(source, 4 * len(words) * max(map(len, words), default=0), size, limit, "one of its words is very long")
    return np.array(words, dtype=str)


def values(source: Source, words: Sequence[str], size: int, limit: int | None) -> np.ndarray:
    """Return the cells of a column as numbers where all are, else as words.

    >>> values("t.csv", ["1", "-1"], 9, None), values("t.csv", ["cat", "1"], 9, None)
    (array([ 1., -1.]), array(['cat', '1'], dtype='<U3'))
    """
    if all(map(is_number, words)):
        return np.array([float(word) for word in words])
    return words_array(source, words, size, limit)


def truths(words: Sequence[str]) -> np.ndarray | None:
    """Return 1.0 for every cell that says true and 0.0 for false; None where one says anything else.

    >>> truths(["True", "false"])
    array([1., 0.])
    """
    found = [TRUTHS.get(word.strip().lower()) for word in words]
    return None if None in found else np.array(found, dtype=float)
