"""Read the user's patterns and labels: .npy, .npz, .csv, .parquet. Nothing in a file is ever executed."""

from __future__ import annotations

import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
KINDS = (".npy", ".npz", ".csv", ".parquet")


def read_array(path: Path) -> Array:
    """Return the array in `path`; a .npz must hold one array, or one named `patterns`, `X`, `labels` or `y`."""
    kind = path.suffix.lower()
    if kind not in KINDS:
        raise ValueError(f"cannot read {path}: known kinds are {', '.join(KINDS)}.")
    if not path.exists():
        raise ValueError(f"there is no file {path}.")
    try:
        return _READERS[kind](path)
    except (ValueError, EOFError, OSError, zipfile.BadZipFile) as error:
        reason = "its arrays must be plain numbers, not pickled objects" if "pickle" in str(error) else str(error)
        raise ValueError(f"cannot read {path}: {reason}") from error


def _npy(path: Path) -> Array:
    with path.open("rb") as file:
        if file.read(6) != b"\x93NUMPY":
            raise ValueError("it is not a NumPy .npy file.")
    return np.load(path, allow_pickle=False)


def _npz(path: Path) -> Array:
    with np.load(path, allow_pickle=False) as file:
        names = list(file.files)
        for name in ("patterns", "X", "labels", "y"):
            if name in names:
                return file[name]
        if len(names) == 1:
            return file[names[0]]
    raise ValueError(f"it holds several arrays ({', '.join(names[:6])}); name one of them 'patterns' or 'labels'.")


def _csv(path: Path) -> Array:
    """Numbers separated by commas; a first line of words is skipped."""
    with path.open(encoding="utf-8", errors="replace") as file:
        first = file.readline()
    header = int(any(not _is_number(word) for word in first.split(",")))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return np.loadtxt(path, delimiter=",", skiprows=header, ndmin=1)
        except UserWarning:
            raise ValueError("it holds no numbers.") from None


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _parquet(path: Path) -> Array:
    try:
        import pandas
    except ImportError:
        raise ValueError("reading .parquet needs pandas: pip install 'solspace[pandas]'.") from None
    try:
        frame = pandas.read_parquet(path)
    except ImportError:
        raise ValueError("reading .parquet needs pyarrow: pip install 'solspace[pandas]'.") from None
    values = frame.to_numpy()
    return values[:, 0] if values.shape[1] == 1 else values


_READERS = {".npy": _npy, ".npz": _npz, ".csv": _csv, ".parquet": _parquet}
