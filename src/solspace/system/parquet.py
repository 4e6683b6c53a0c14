"""Tables in Parquet files: columns of numbers, words and truth values, with the index that pandas keeps left out.

Words stay in the dictionary in which the file packs them until it is known how much room they take unpacked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from solspace.system.columns import places, unusable, words_array
from solspace.system.extras import install
from solspace.system.sources import Damaged, Source, check_size, opened


def numbers(source: Source, limit: int | None) -> np.ndarray:
    """Return the columns of a table, all numbers or all words, (rows,) where there is one."""
    names, columns = _columns(source, limit)
    words = [column.dtype.kind == "U" for column in columns]
    if any(words) and not all(words):
        raise Damaged(source, "its columns must all be numbers, or all be words")
    _check(source, names, columns, range(len(names)), words=all(words))
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def labelled(
    source: Source, label: str | None, index: str | None, limit: int | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return patterns (m, n) and labels (m,) of a table; no labels where `label` is None."""
    names, columns = _columns(source, limit)
    at, kept = places(source, label, index, names, len(names))
    _check(source, names, columns, kept)
    if at is not None:
        _check(source, names, columns, [at], words=True)
    return np.column_stack([columns[k] for k in kept]), None if at is None else columns[at]


def _check(
    source: Source, names: list[str], columns: list[np.ndarray], chosen: Sequence[int], words: bool = False
) -> None:
    """Raise a sentence where one of the columns `chosen` holds anything but finite numbers or, with `words`, words."""
    suspects = [k for k in chosen if columns[k].dtype.kind == "U" or not np.isfinite(columns[k]).all()]
    if reason := unusable(zip(*(columns[k] for k in suspects)), [names[k] for k in suspects], words=words):
        raise Damaged(source, reason)


def _columns(source: Source, limit: int | None) -> tuple[list[str], list[np.ndarray]]:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"reading .parquet needs pyarrow: {install('pandas')}.") from None
    with opened(source) as (stream, size):
        about = parquet.read_metadata(stream)
        check_size(source, 8 * about.num_rows * about.num_columns, size, limit)
        schema = about.schema.to_arrow_schema()
        names = [name for name in schema.names if name not in _index(schema)]
        if not names:
            raise Damaged(source, "it holds no columns")
        words = [name for name in names if _checked(source, schema.field(name)) == "words"]
        stream.seek(0)
        table = parquet.read_table(stream, columns=names, read_dictionary=words)
        return names, [_values(source, name, table[name], size, limit) for name in names]


def _index(schema: Any) -> set[str]:
    """Return the names of the columns that pandas keeps its index in."""
    listed = (schema.pandas_metadata or {}).get("index_columns", [])
    return {name for name in listed if isinstance(name, str)}


def _checked(source: Source, field: Any) -> str:
    """Return "words" or "numbers", whatever a column holds; no other kind is read."""
    from pyarrow import types

    kind = field.type.value_type if types.is_dictionary(field.type) else field.type
    if types.is_string(kind) or types.is_large_string(kind):
        return "words"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return "numbers"
    raise Damaged(source, f"its column {field.name!r} holds {field.type} instead of numbers or words")


def _values(source: Source, name: str, column: Any, size: int, limit: int | None) -> np.ndarray:
    from pyarrow import types

    if types.is_dictionary(column.type):
        return _unpacked(source, name, column, size, limit)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return _unpacked(source, name, column.dictionary_encode(), size, limit)
    found = column.to_numpy()
    if found.dtype.kind not in "biuf":
        raise Damaged(source, f"its column {name!r} lacks values in some rows")
    return found


def _unpacked(source: Source, name: str, column: Any, size: int, limit: int | None) -> np.ndarray:
    """Return the entries of a column that is packed with a dictionary."""
    if column.null_count:
        raise Damaged(source, f"its column {name!r} lacks values in some rows")
    parts = [(chunk.dictionary.to_pylist(), chunk.indices.to_numpy()) for chunk in column.chunks]
    if all(not isinstance(word, str) for words, _ in parts for word in words):
        return np.concatenate([np.asarray(words)[codes] for words, codes in parts]) if parts else np.empty(0)
    longest = max((len(word) for words, _ in parts for word in words), default=0)
    check_size(source, 4 * len(column) * longest, size, limit, "one of its words is very long")
    return words_array(source, [words[code] for words, codes in parts for code in codes], size, limit)
