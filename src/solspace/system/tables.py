"""Tables: text with a row a line, compressed or not, and Parquet.

In text, cells are separated by commas, tabs or semicolons. The first line names the columns if it holds no number, if its numbers
only count the columns from 0, as those that pandas makes up do, or if it holds the name of the label. A first column without
a name that counts the rows is pandas' index, and left out.

Numbers are read by NumPy's parser; only labels, and columns of true and false, become Python strings.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from solspace.system.checks import install
from solspace.system.files import Damaged, Source, check_size, contents, explained, kind_of, opened

_MISSING = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null"})
"""Cells without a value, as pandas and other programs write them."""
_TRUTHS = {"true": 1.0, "false": 0.0}
_CURES = {
    "missing values": "fill them in (scikit-learn's SimpleImputer), drop these rows (pandas' dropna) or leave it out",
    "infinite values": "replace them or drop these rows",
    "text": "encode it as numbers (scikit-learn's OneHotEncoder) or leave it out",
}
"""What cells that are no finite numbers are, and what to do about them."""
_LISTED = 8  # columns that a message lists


class _Table(NamedTuple):
    size: int
    """Bytes of the file."""
    names: list[str] | None
    width: int
    rows: Callable[[], Iterator[Sequence[str]]]
    numbers: Callable[[list[int]], np.ndarray]
    """Returns the numbers (rows, k) of some columns; ValueError or TypeError if a cell is none."""


class Columns(NamedTuple):
    """What is read of a table: patterns (m, n), labels (m,) and the names of the columns of the patterns, if there are any."""

    patterns: np.ndarray
    labels: np.ndarray | None
    names: list[str] | None


def read_table(
    source: Source,
    label: str | None = None,
    index: str | None = None,
    limit: int | None = None,
    wanted: Sequence[str] | None = None,
) -> Columns:
    """Return patterns (m, n) and labels (m,) of a table: the other columns, and the column `label` where one is named.

    Columns go by name or by number. `index` is left out of the patterns, and so is an index that pandas wrote. A table of one
    column and without a label is returned as (m,), and may hold words. Of a table with names the columns `wanted` are
    read, in their order.

    >>> read_table(b",x,y,animal\\n0,1,2,cat\\n1,3,4,dog\\n", "animal").labels
    array(['cat', 'dog'], dtype='<U3')
    >>> read_table(b"x,y\\n1,2\\n3,4\\n", wanted=["y", "x"]).patterns
    array([[2., 1.],
           [4., 3.]])
    """
    with explained(source):
        table = _parquet(source, limit) if kind_of(source) == ".parquet" else _text(source, limit, label)
        if next(table.rows(), None) is None:
            raise Damaged(source, "it holds no rows")
        unnamed = table.width > 1 and table.names is not None and table.names[0] == ""
        if label is None and index is None and table.width == 1 + unnamed:
            return Columns(_labels(source, table, table.width - 1, limit), None, None)
        at, apart = (
            None if name is None else position(source, name, table.names, table.width) for name in (label, index)
        )
        if at is not None and at == apart:
            raise Damaged(source, f"its column {label!r} cannot be the label and the index at once")
        labels = None if at is None else _labels(source, table, at, limit)
        columns = [k for k in range(table.width) if k not in (at, apart)]
        if wanted is not None and table.names is not None:
            columns = [position(source, name, table.names, table.width) for name in wanted]
        counts = unnamed and columns[:1] == [0]
        if len(columns) == counts:
            raise Damaged(source, "it holds no column of numbers beside its labels")
        try:
            patterns = table.numbers(columns)
            if not np.isfinite(patterns).all():
                raise ValueError("NaN or inf")
        except (ValueError, TypeError) as error:
            hint = "; --index NAME leaves one column out" if label is not None and index is None else ""
            raise Damaged(source, (_reason(table, columns) or str(error).partition(";")[0]) + hint) from None
        if counts and not np.array_equal(patterns[:, 0], np.arange(len(patterns))):
            reason = "its first column has no name and does not count rows: an index is left out by --index 0"
            raise Damaged(source, reason)
        names = None if table.names is None else [table.names[k] for k in columns[counts:]]
        return Columns(patterns[:, counts:], labels, names)


def _text(source: Source, limit: int | None, label: str | None) -> _Table:
    content = contents(source, limit)
    try:
        lines = list(io.StringIO(content.decode("utf-8-sig"), newline=None))
    except UnicodeDecodeError:
        raise Damaged(source, "it is not text in UTF-8") from None
    start = next((k for k, line in enumerate(lines) if not line.startswith("#")), 0)
    comment = lines[start - 1] if start else ""
    lines = [line for line in lines if not line.startswith("#")]
    first = lines[0] if lines else ""
    separator = max(",;\t", key=first.count)
    row, above = (_cells(line.lstrip("# "), separator) for line in (first, comment))
    names = above if len(above) == len(row) > 1 else None  # as np.savetxt(..., header="a,b") writes them
    if names is None and _are_names(row, label):
        names, lines = row, lines[1:]
        row = _cells(lines[0], separator) if lines else row
        names = names if len(names) == len(row) else None  # a title above the table

    def rows() -> Iterator[Sequence[str]]:
        for number, cells in enumerate(filter(None, csv.reader(lines, delimiter=separator)), 1):
            if len(cells) != len(row):
                raise Damaged(source, f"its row {number} has {len(cells)} cells instead of {len(row)}")
            yield cells

    def numbers(columns: list[int]) -> np.ndarray:
        cells = next(rows())
        truths: Any = {k: _truth for k in columns if cells[k].strip().lower() in _TRUTHS}
        some = columns if len(columns) < len(row) else None  # without it a row may not be longer than the others
        found = np.loadtxt(
            lines, delimiter=separator, comments=None, quotechar='"', converters=truths, usecols=some, ndmin=2
        )
        return found if some else found[:, columns]

    return _Table(len(content), names, len(row), rows, numbers)


def _cells(line: str, separator: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])] or [""]


def _are_names(cells: list[str], label: str | None) -> bool:
    """Return whether the first line of a table, in which the column `label` may be looked for, names the columns."""
    numbers = [cell for cell in cells if _is_number(cell)]
    counted = numbers == [str(k) for k in range(len(numbers))]
    if not numbers or (counted and cells[0] == ""):
        return True
    return label is not None and ((counted and len(numbers) > 2) or (label in cells and not _is_number(label)))


def _parquet(source: Source, limit: int | None) -> _Table:
    try:
        import pandas
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"reading .parquet needs pyarrow: {install('pandas')}.") from None
    with opened(source) as (stream, size):
        about = parquet.read_metadata(stream)
        check_size(source, 8 * about.num_rows * about.num_columns, size, limit)
        stream.seek(0)
        frame = parquet.read_table(stream).to_pandas()
    for name, kind in frame.dtypes.items():
        if kind.kind in "mM":
            raise Damaged(source, f"its column {name!r} holds {kind} instead of numbers or words")

    def rows() -> Iterator[Sequence[str]]:
        for row in frame.itertuples(index=False, name=None):
            yield ["" if pandas.isna(cell) else str(cell) for cell in row]

    def numbers(columns: list[int]) -> np.ndarray:
        return frame.iloc[:, columns].to_numpy(dtype=float)

    return _Table(size, [str(name) for name in frame.columns], frame.shape[1], rows, numbers)


def _labels(source: Source, table: _Table, column: int, limit: int | None) -> np.ndarray:
    """Return a column as numbers if it holds nothing else, else as words."""
    words = [row[column].strip() for row in table.rows()]
    if any(_fault(word) not in ("", "text") for word in words):
        raise Damaged(source, _reason(table, [column], ("missing values", "infinite values")))
    if all(map(_is_number, words)):
        return np.array([float(word) for word in words])
    if table.width == 1 and kind_of(source) != ".parquet":
        words = [*(table.names or ()), *words]  # the first word may be no name
    check_size(source, 4 * len(words) * max(map(len, words)), table.size, limit)  # each takes the room of the longest
    return np.array(words)


def position(source: Source, column: str, names: Sequence[str] | None, width: int) -> int:
    """Return the place of a column, from its name or from its number: counted from 0, or backwards from -1.

    >>> position("t.csv", "b", ["a", "b"], 2), position("t.csv", "-2", ["a", "b"], 2)
    (1, 0)
    """
    if names is not None and column in names:
        if list(names).count(column) > 1:
            raise Damaged(source, f"two of its columns are called {column!r}; give the column by its number")
        return list(names).index(column)
    if re.fullmatch(r"-?[0-9]{1,9}", column) and -width <= int(column) < width:
        return int(column) % width
    known = f"columns without names go by number, 0 to {width - 1}" if names is None else f"it has {_listed(names)}"
    raise Damaged(source, f"it has no column {column!r}: {known}")


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word  # text for NumPy's parser, and numbers for Python's


def _truth(word: str) -> float:
    word = word.strip().lower()
    return _TRUTHS[word] if word in _TRUTHS else float(word)


def _reason(table: _Table, columns: Sequence[int], kinds: Iterable[str] = _CURES) -> str:
    """Return which cells of the first row with such are no finite numbers, and what to do; "" if there are none."""
    for number, row in enumerate(table.rows(), 1):
        faults = {k: _fault(row[k]) for k in columns}
        for kind in kinds:
            if found := [k for k in columns if faults[k] == kind]:
                listed = _listed([k if table.names is None else table.names[k] or k for k in found])
                counted = ", counted from 0" if table.names is None else ""
                place = f"column{'s'[: len(found) > 1]} {listed}{counted}, as in row {number} of the data"
                return f"it has {kind} in {place} ({row[found[0]][:40]!r}): {_CURES[kind]}"
    return ""


def _fault(cell: str) -> str:
    """Return what is wrong with a cell that should be a finite number; "" if nothing is."""
    cell = cell.strip().lower()
    if cell in _MISSING:
        return "missing values"
    if not _is_number(cell):
        return "" if cell in _TRUTHS else "text"
    return "" if math.isfinite(float(cell)) else "infinite values"


def _listed(columns: Sequence[object]) -> str:
    return ", ".join([*map(repr, columns[:_LISTED]), *["..."][: len(columns) > _LISTED]])
