"""The folder that a verb writes its results to."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path


def make_room(out: Path, names: Iterable[str]) -> None:
    """Make the folder, and look for what would be in the way of the results before any work is done."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (out / name).is_dir():
            raise IsADirectoryError(f"the results go to {out / name}, but that is a folder: give another --out.")
    if not os.access(out, os.W_OK):
        raise PermissionError(f"the results go to {out}, which you may not write to: give another --out.")
