"""Tables as text, a row a line: all of their numbers, or patterns from some columns and labels from one.

A table may be compressed by gzip. Cells are separated by commas, tabs or semicolons. The first line holds the names of
the columns where it holds no number; where its numbers only count the columns from 0, as those that pandas makes up do;
or where it holds the name of the column that is asked for. A first column without a name that counts the rows is
pandas' index, and left out.

Numbers are read by NumPy's own parser. Columns that need not hold numbers (the labels, true and false) are read apart,
so that a table of a hundred megabytes never becomes as many Python strings.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from solspace.system.columns import counts_rows, is_missing, is_number, places, truths, unusable, values, words_array
from solspace.system.sources import Damaged, Source, check_size, opened, short

_CHUNK = 1 << 20


def numbers(source: Source, limit: int | None) -> np.ndarray:
    """Return the numbers of a table, (rows,) where it has one column; the words of a column that holds no numbers."""
    with _text(source, limit) as (text, size):
        head = _head(text)
        try:
            table = _parsed(text, head)
        except (UserWarning, ValueError) as error:
            words = _words(text, head)
            reason = unusable(_rows(text, head), head.names, words=bool(words))
            if reason or not words:
                raise Damaged(source, reason or _unparsed(error)) from None
            return words_array(source, words, size, limit)
    if head.names is not None and head.names[0] == "" and table.shape[1] > 1 and counts_rows(table[:, 0]):
        table = table[:, 1:]
    return table[:, 0] if table.shape[1] == 1 else table


def labelled(
    source: Source, label: str | None, index: str | None, limit: int | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return patterns (m, n) and labels (m,) of a table; no labels where `label` is None."""
    with _text(source, limit) as (text, size):
        head = _head(text, label)
        names, first = head.names, next(_rows(text, head), None)
        if first is None:
            raise Damaged(source, "it holds no rows")
        width = len(first if names is None else names)
        at, kept = places(source, label, index, names, width)
        spoken = [k for k in kept if k < len(first) and not is_number(first[k])]
        cells = _picked(source, _rows(text, head), width, spoken if at is None else [*spoken, at])
        if at is not None and any(map(is_missing, cells[at])):
            raise Damaged(source, unusable(_rows(text, head), names, [at], words=True))
        try:
            patterns = _patterns(text, head, kept, {k: cells[k] for k in spoken})
        except (UserWarning, ValueError) as error:
            reason = unusable(_rows(text, head), names, kept)
            hint = "; --index NAME leaves one column out" if index is None else ""
            raise Damaged(source, f"{reason}{hint}" if reason else _unparsed(error)) from None
        if names is not None and names[0] == "" and kept[0] == 0:
            patterns = _without_index(source, patterns)
        return patterns, None if at is None else values(source, cells[at], size, limit)


def _without_index(source: Source, patterns: np.ndarray) -> np.ndarray:
    """Return patterns without their first column, which has no name."""
    if not counts_rows(patterns[:, 0]):
        raise Damaged(source, "its first column has no name and does not count rows: an index is left out by --index 0")
    if patterns.shape[1] == 1:
        raise Damaged(source, "it holds no column of numbers beside its labels")
    return patterns[:, 1:]


@contextmanager
def _text(source: Source, limit: int | None) -> Iterator[tuple[io.TextIOWrapper, int]]:
    with opened(source) as (stream, size):
        if stream.read(2) == b"\x1f\x8b":
            stream, size = _inflated(source, stream, size, limit)
        if limit is not None and size > limit:
            raise Damaged(source, f"it has {size:,} bytes, more than the {limit:,} allowed")
        text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline=None)
        try:
            yield text, size
        except UnicodeDecodeError:
            raise Damaged(source, "it is not text in UTF-8") from None
        finally:
            text.detach()


def _inflated(source: Source, stream: BinaryIO, size: int, limit: int | None) -> tuple[BinaryIO, int]:
    """Return what a gzip-compressed stream of `size` bytes holds, as a stream, and its size, which is checked first."""
    stream.seek(0)
    inflated, held = cast(BinaryIO, gzip.GzipFile(fileobj=stream)), 0
    while chunk := inflated.read(_CHUNK):
        held += len(chunk)
        check_size(source, held, size, limit, "unpack it")
    return inflated, held


class _Head(NamedTuple):
    """How a table begins: what separates its cells, the names of its columns, and whether they take its first line."""

    separator: str
    names: list[str] | None
    skip: bool


def _head(text: io.TextIOBase, label: str | None = None) -> _Head:
    text.seek(0)
    comment, first = "", text.readline()
    while first.startswith("#"):
        comment, first = first, text.readline()
    separator = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    cells, said = (_cells(line.lstrip("# "), separator) for line in (first, comment))
    if len(said) == len(cells) > 1:  # as np.savetxt(..., header="a,b") writes them
        return _Head(separator, said, skip=False)
    named = _are_names(cells, label)
    return _Head(separator, cells if named else None, skip=named)


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])] or [""]


def _are_names(cells: list[str], label: str | None) -> bool:
    """Return whether the first line of a table, in which the column `label` may be asked for, names the columns."""
    numbers = [cell for cell in cells if is_number(cell)]
    counted = numbers == [str(k) for k in range(len(numbers))]
    if not numbers or (counted and cells[0] == ""):
        return True
    return label is not None and ((counted and len(numbers) > 2) or (label in cells and not is_number(label)))


def _rows(text: io.TextIOBase, head: _Head) -> Iterator[list[str]]:
    """Yield the cells of each line below the names, those of comments and of empty lines left out."""
    return (row for row in csv.reader(_lines(text, head), delimiter=head.separator) if row)


def _lines(text: io.TextIOBase, head: _Head) -> Iterator[str]:
    text.seek(0)
    lines = (line for line in text if not line.startswith("#"))
    if head.skip:
        next(lines, None)
    return lines


def _parsed(
    text: io.TextIOBase, head: _Head, columns: Sequence[int] | None = None, comments: str | None = "#"
) -> np.ndarray:
    """Return the finite numbers (rows, columns) of a table; `UserWarning` where it has none."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy warns of a table without rows
        lines = _lines(text, head)
        table = np.loadtxt(lines, delimiter=head.separator, comments=comments, quotechar='"', ndmin=2, usecols=columns)
    if not np.isfinite(table).all():
        raise ValueError("NaN or inf")
    return table


def _unparsed(error: Exception) -> str:
    return f"it is not a table of numbers: {'it holds no numbers' if isinstance(error, UserWarning) else short(error)}"


def _words(text: io.TextIOBase, head: _Head) -> list[str]:
    """Return the lines of a table of one column of words, or of such a column beside pandas' index; else nothing."""
    indexed = head.names is not None and len(head.names) == 2 and head.names[0] == ""
    words = []
    for row in _rows(text, head if indexed else head._replace(skip=False)):  # a word above others may be one of them
        if len(row) != 1 + indexed or not row[-1].isprintable():
            return []
        words.append(row[-1].strip().strip('"'))
    return [word for word in words if word]


def _picked(source: Source, rows: Iterator[list[str]], width: int, columns: Sequence[int]) -> dict[int, list[str]]:
    """Return the cells of some columns; every row of the table must be `width` cells long."""
    found: dict[int, list[str]] = {k: [] for k in columns}
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise Damaged(source, f"its row {number} has {len(row)} cells instead of {width}")
        for k in columns:
            found[k].append(sys.intern(row[k].strip()))
    return found


def _patterns(text: io.TextIOBase, head: _Head, kept: Sequence[int], spoken: Mapping[int, Sequence[str]]) -> np.ndarray:
    """Return the columns `kept`, of which those in `spoken` must say true and false."""
    told = {k: truths(cells) for k, cells in spoken.items()}
    if any(column is None for column in told.values()):
        raise ValueError("text")
    plain = [k for k in kept if k not in told]
    table = _parsed(text, head, plain, comments=None) if plain else np.empty((0, 0))
    if not told:
        return table
    both = {**told, **dict(zip(plain, table.T))}
    return np.column_stack([both[k] for k in kept])
