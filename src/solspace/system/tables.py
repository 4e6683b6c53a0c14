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

from solspace.system.arrays import Damaged, Source, check_size, contents, explained, kind_of, opened
from solspace.system.checks import install

_MISSING_WORDS = frozenset({"", "?", "na", "n/a", "#n/a", "<na>", "nan", "null"})
"""Cells without a value, as pandas and other programs write them."""
_TRUTHS = {"true": 1.0, "false": 0.0}
_EMPTY, _MISSING, _INFINITE, _TEXT = "no values", "missing values", "infinite values", "text"
_CURES = {
    _EMPTY: "leave it out",
    _MISSING: "fill them in (scikit-learn's SimpleImputer) or drop these rows (pandas' dropna)",
    _INFINITE: "replace them or drop these rows",
    _TEXT: "encode it as numbers (scikit-learn's OneHotEncoder) or leave it out",
}
"""What cells that are no finite numbers are, and what to do about them."""
_LISTED = 4
"""Names of columns that a message lists, from both ends."""


class _Table(NamedTuple):
    size: int
    """Bytes of the file."""
    names: list[str] | None
    title: list[str]
    """The line that was taken for names: above a column of words it may be one of them."""
    width: int
    rows: Callable[[], Iterator[Sequence[str]]]
    parse: Callable[[Sequence[int], Sequence[int]], np.ndarray]
    """The numbers (rows, k) of some columns, some of which say true and false; ValueError or TypeError if a cell is none."""

    @property
    def has_index(self) -> bool:
        """Whether the first column, without a name, may be pandas' index."""
        return self.width > 1 and self.names is not None and self.names[0] == ""

    def cells(self, columns: Sequence[int]) -> Iterator[Sequence[str]]:
        """The cells of some columns, row by row."""
        return ([row[k] for k in columns] for row in self.rows())


def read_numbers(source: Source, kind: str, limit: int | None) -> np.ndarray:
    """Return the numbers of a table, (rows,) where it has one column; the words of a column that holds no numbers."""
    with explained(source):
        table = _read(source, kind, limit)
        words = _words(source, table)
        if words:
            return _words_array(source, table, words, limit)
        patterns, _ = _split(source, table, None, None, limit)
        return patterns[:, 0] if patterns.shape[1] == 1 else patterns


def read_labelled(
    source: Source, label: str | None = None, index: str | None = None, limit: int | None = None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return patterns (m, n) and labels (m,) of a table: the other columns, and the column `label` where one is named.

    Columns go by name or by number. `index` is left out of the patterns, and so is an index that pandas wrote.

    >>> read_labelled(b",x,y,animal\\n0,1,2,cat\\n1,3,4,dog\\n", "animal")
    (array([[1., 2.],
           [3., 4.]]), array(['cat', 'dog'], dtype='<U3'))
    """
    with explained(source):
        return _split(source, _read(source, kind_of(source), limit, label), label, index, limit)


def _read(source: Source, kind: str, limit: int | None, label: str | None = None) -> _Table:
    return _parquet(source, limit) if kind == ".parquet" else _text(source, limit, label)


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
    separator = "\t" if "\t" in first else ";" if ";" in first and "," not in first else ","
    row, above = (_cells(line.lstrip("# "), separator) for line in (first, comment))
    names, title = None, []
    if len(above) == len(row) > 1:  # as np.savetxt(..., header="a,b") writes them
        names = above
    elif _are_names(row, label):
        names, title, lines = row, row, lines[1:]
    if title and label is None and lines:
        row = _cells(lines[0], separator)  # a title above the table names no columns
        names = names if len(row) == len(title) else None
    width = len(row)

    def rows() -> Iterator[Sequence[str]]:
        for number, row in enumerate(filter(None, csv.reader(lines, delimiter=separator)), 1):
            if len(row) != width:
                raise Damaged(source, f"its row {number} has {len(row)} cells instead of {width}")
            yield row

    def parse(columns: Sequence[int], truths: Sequence[int]) -> np.ndarray:
        how: Any = {"delimiter": separator, "comments": None, "quotechar": '"', "usecols": columns, "ndmin": 2}
        return np.loadtxt(lines, converters=dict.fromkeys(truths, _truth), **how)

    return _Table(len(content), names, title, width, rows, parse)


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
        from pyarrow import parquet, types
    except ImportError:
        raise ValueError(f"reading .parquet needs pyarrow: {install('pandas')}.") from None
    known = (types.is_string, types.is_large_string, types.is_integer, types.is_floating, types.is_boolean)
    with opened(source) as (stream, size):
        about = parquet.read_metadata(stream)
        check_size(source, 8 * about.num_rows * about.num_columns, size, limit)
        stream.seek(0)
        table = parquet.read_table(stream)
        for field in table.schema:
            kind = field.type.value_type if types.is_dictionary(field.type) else field.type
            if not any(is_kind(kind) for is_kind in known):
                raise Damaged(source, f"its column {field.name!r} holds {field.type} instead of numbers or words")
        frame = table.to_pandas()

    def rows() -> Iterator[Sequence[str]]:
        for row in frame.itertuples(index=False, name=None):
            yield ["" if pandas.isna(cell) else str(cell) for cell in row]

    def parse(columns: Sequence[int], truths: Sequence[int]) -> np.ndarray:
        return frame.iloc[:, list(columns)].to_numpy(dtype=float)

    return _Table(size, [str(name) for name in frame.columns], [], frame.shape[1], rows, parse)


def _words(source: Source, table: _Table) -> list[str]:
    """Return the words of a table of one column, or of one beside pandas' index; [] if it holds numbers."""
    at = int(table.has_index)
    if table.width != 1 + at:
        return []
    words = [row[0].strip() for row in table.cells([at])]
    if all(map(_is_number, words)) or not all(map(str.isprintable, words)):
        return []
    if any(map(_is_missing, words)):
        raise Damaged(source, _unusable([[word] for word in words], table.names, [at], words=True))
    return words if at else table.title + words


def _split(
    source: Source, table: _Table, label: str | None, index: str | None, limit: int | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return the patterns (m, n) of a table, and its labels (m,) if a column is named."""
    at, apart = (None if name is None else position(source, name, table.names, table.width) for name in (label, index))
    if at is not None and at == apart:
        raise Damaged(source, f"its column {label!r} cannot be the label and the index at once")
    kept = [k for k in range(table.width) if k not in (at, apart)]
    only_labels = Damaged(source, "it holds no column of numbers beside its labels")
    if not kept:
        raise only_labels
    first = next(table.cells(kept), None)
    if first is None:
        raise Damaged(source, "it holds no rows")
    labels = None if at is None else [row[0].strip() for row in table.cells([at])]
    if at is not None and any(map(_is_missing, labels or ())):
        raise Damaged(source, _unusable(table.cells([at]), table.names, [at], words=True))
    try:
        patterns = table.parse(kept, [k for k, cell in zip(kept, first) if cell.strip().lower() in _TRUTHS])
        if not np.isfinite(patterns).all():
            raise ValueError("NaN or inf")
    except (ValueError, TypeError) as error:
        if reason := _unusable(table.cells(kept), table.names, kept):
            hint = "; --index NAME leaves one column out" if label is not None and index is None else ""
            raise Damaged(source, reason + hint) from None
        raise Damaged(source, f"it is not a table of numbers: {str(error).partition(';')[0]}") from None
    if table.has_index and kept[0] == 0:
        if not np.array_equal(patterns[:, 0], np.arange(len(patterns))):
            raise Damaged(
                source, "its first column has no name and does not count rows: an index is left out by --index 0"
            )
        patterns = patterns[:, 1:]
        if not patterns.size:
            raise only_labels
    if labels is not None and all(map(_is_number, labels)):
        return patterns, np.array([float(word) for word in labels])
    return patterns, None if labels is None else _words_array(source, table, labels, limit)


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
    if names is None:
        raise Damaged(source, f"it has no column {column!r}: columns without names go by number, 0 to {width - 1}")
    raise Damaged(source, f"it has no column {column!r}; its {width} columns are {_listed(list(map(repr, names)))}")


def _words_array(source: Source, table: _Table, words: Sequence[str], limit: int | None) -> np.ndarray:
    room = 4 * len(words) * max(map(len, words), default=0)  # each takes the room of the longest
    check_size(source, room, table.size, limit, "one of its words is very long")
    return np.array(words, dtype=str)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word  # text for NumPy's parser, and numbers for Python's


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in _MISSING_WORDS


def _truth(word: str) -> float:
    return _TRUTHS[word.strip().lower()] if word.strip().lower() in _TRUTHS else float(word)


def _unusable(
    rows: Iterable[Sequence[str]], names: Sequence[str] | None, columns: Sequence[int], words: bool = False
) -> str:
    """Return which cells of `columns` are no finite numbers, and what to do; "" if there are none.

    With `words`, only cells without a value are unusable.

    >>> _unusable([["1"], ["NA"]], ["age", "city"], [0])
    "it has missing values in column 'age' (first 'NA', in row 2 of the data): fill them in ..."
    """
    first: dict[str, dict[int, str]] = {what: {} for what in _CURES}
    filled: set[int] = set()
    for number, row in enumerate(rows, 1):
        for k, cell in zip(columns, row):
            what = _fault(cell)
            if what == _MISSING or (what and not words):
                first[what].setdefault(k, f" (first {cell[:40]!r}, in row {number} of the data)")
            if what != _MISSING:
                filled.add(k)
    first[_EMPTY] = {k: "" for k in first[_MISSING] if k not in filled}
    first[_MISSING] = {k: where for k, where in first[_MISSING].items() if k in filled}
    parts = [
        f"{what} in {_named(sorted(found), names)}{next(iter(found.values()))}: {'drop these rows' if words else _CURES[what]}"
        for what, found in first.items()
        if found
    ]
    return f"it has {'; '.join(parts)}" if parts else ""


def _fault(cell: str) -> str:
    if _is_missing(cell):
        return _MISSING
    if cell.strip().lower() in _TRUTHS:
        return ""
    if not _is_number(cell):
        return _TEXT
    return "" if math.isfinite(float(cell)) else _INFINITE


def _named(columns: Sequence[int], names: Sequence[str] | None) -> str:
    """Return columns by name, or by number where they have no names."""
    listed = _listed([repr(names[k]) if names is not None and names[k] else str(k) for k in columns])
    return f"column{'s'[: len(columns) > 1]} {listed}{', counted from 0' if names is None else ''}"


def _listed(words: list[str]) -> str:
    return ", ".join(words if len(words) <= 2 * _LISTED else [*words[:_LISTED], "...", *words[-_LISTED:]])
