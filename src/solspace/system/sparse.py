"""Sparse matrices as `scipy.sparse.save_npz` writes them, made dense once it is known that there is room.

A matrix that announces any shape takes no more bytes in its file than its entries do: its shape is held to the limits of
compressed files, and its indices to its shape before compiled code follows them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from solspace.system.sources import Damaged, Source, check_size

PARTS = {
    "csr": ("indices", "indptr"),
    "csc": ("indices", "indptr"),
    "bsr": ("indices", "indptr"),
    "coo": ("row", "col"),
    "dia": ("offsets",),
}
"""The arrays beside `format`, `shape` and `data` that each format has."""


def is_sparse(arrays: Mapping[str, np.ndarray]) -> bool:
    """Return whether the arrays of a .npz are the parts of a sparse matrix."""
    return {"format", "shape", "data"} <= set(arrays)


def dense(source: Source, arrays: Mapping[str, np.ndarray], size: int, limit: int | None) -> np.ndarray:
    """Return the matrix (m, n) whose parts are `arrays`, of a file of `size` bytes."""
    name, shape, data = _format(arrays["format"]), arrays["shape"], arrays["data"]
    if not set(PARTS.get(name, "?")) <= set(arrays):
        raise Damaged(source, f"it holds no sparse matrix of a known format ({', '.join(PARTS)})")
    parts = [arrays[part] for part in PARTS[name]]
    if shape.shape != (2,) or data.dtype.kind not in "biuf" or any(a.dtype.kind not in "iu" for a in (shape, *parts)):
        raise Damaged(source, "its sparse matrix has parts of a wrong type")
    rows, columns = (int(length) for length in shape)
    if rows < 1 or columns < 1:
        raise Damaged(source, f"its sparse matrix has the shape {(rows, columns)}")
    room = math.prod((rows, columns, data.dtype.itemsize))
    check_size(source, room, size, limit, "it is made dense, so take fewer columns")
    return np.asarray(_matrix(name, (rows, columns), data, parts).toarray())


def _format(word: np.ndarray) -> str:
    held = word.item() if word.size == 1 else ""
    return held.decode("ascii", "replace") if isinstance(held, bytes) else str(held)


def _matrix(name: str, shape: tuple[int, int], data: np.ndarray, parts: list[np.ndarray]) -> Any:
    from scipy import sparse

    if name == "coo":
        return sparse.coo_array((data, tuple(parts)), shape=shape)
    if name == "dia":
        return sparse.dia_array((data, *parts), shape=shape)
    kind = {"csr": sparse.csr_array, "csc": sparse.csc_array, "bsr": sparse.bsr_array}[name]
    matrix = kind((data, *parts), shape=shape)
    matrix.check_format(full_check=True)
    return matrix
