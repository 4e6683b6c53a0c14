"""Write a file whole or not at all.

The new content goes to a temporary file in the same folder, is flushed to the disk and then takes the old one's place
in one step. A crash, a kill or a full disk at any moment leaves either the old file or the new one, never half of one.
"""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a binary file that becomes `path` when the block ends without an error."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, path)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(name)
        raise


def read_npz(path: str | os.PathLike[str]) -> dict[str, NDArray[Any]]:
    """Return all arrays of a `.npz` file; `ValueError` where it is none. Nothing in the file is executed."""
    with open(path, "rb") as handle:
        try:
            with np.load(handle, allow_pickle=False) as file:
                return {name: file[name] for name in file.files}
        except (AttributeError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise ValueError(f"{os.fspath(path)} is not an intact .npz file.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
