"""Columns of a table: which of them holds the labels, which numbers the rows, and what the cells of one mean."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from solspace.system.sources import Damaged, Source, check_size

SHOWN = 4
"""Names of columns that a message lists, from both ends."""


def is_number(word: str) -> bool:
    """Return whether a cell is a number.

    >>> is_number(' "1e3" '), is_number("1x"), is_number("")
    (True, False, False)
    """
    try:
        float(word.strip().strip('"'))
    except ValueError:
        return False
    return True


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
    quoted = [repr(name) for name in names]
    listed = quoted if width <= 2 * SHOWN else [*quoted[:SHOWN], "...", *quoted[-SHOWN:]]
    raise Damaged(source, f"it has no column {column!r}; its {width} columns are {', '.join(listed)}")


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
    said = {"true": 1.0, "false": 0.0}
    found = [said.get(word.strip().lower()) for word in words]
    return None if None in found else np.array(found, dtype=float)
