"""Checkpoints: what a long run needs to go on, written whole or not at all.

A checkpoint belongs to one run: it carries the run's identity (problem, options, seed) as a hash, and a run whose
identity differs refuses it in words rather than going on with somebody else's state.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solspace.problem import Perceptron
from solspace.system.files import read_npz, replacing

Array = NDArray[Any]


class Checkpoint:
    """The state of a run on disk.

    Parameters
    ----------
    path
        The file, or None: nothing is ever written.
    key
        The run's identity: anything JSON can say. Two runs with equal keys must make equal results.
    resume
        Whether `load` may return what is there.
    every
        Least time in seconds between two writes of `maybe_save`.
    """

    def __init__(
        self, path: str | os.PathLike[str] | None, key: Mapping[str, Any], resume: bool = False, every: float = 5.0
    ) -> None:
        self.path = None if path is None else Path(path)
        self.key = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        self.resume, self.every = resume, every
        self._last = time.monotonic()

    def load(self) -> dict[str, Array] | None:
        """Return the stored arrays, or None where there is nothing to go on from."""
        if self.path is None or not self.resume or not self.path.exists():
            return None
        try:
            state = read_npz(self.path)
            key = str(state.pop("key"))
        except (KeyError, ValueError) as error:
            raise ValueError(f"{self.path} is not a solspace checkpoint; remove it or start without resume.") from error
        if key != self.key:
            raise ValueError(
                f"{self.path} belongs to another run (other problem, options or seed); "
                "give the same options to go on, or start without resume."
            )
        return state

    def save(self, state: Mapping[str, Array]) -> None:
        """Write the arrays of `state` in place of what was there."""
        if self.path is None:
            return
        with replacing(self.path) as file:
            np.savez(file, key=np.array(self.key), **state)  # type: ignore[arg-type]
        self._last = time.monotonic()

    def maybe_save(self, make_state: Any) -> None:
        """Write `make_state()` if the last write is longer ago than `every` seconds."""
        if self.path is not None and time.monotonic() - self._last >= self.every:
            self.save(make_state())

    def remove(self) -> None:
        """Delete the file: the run is done."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def fingerprint(problem: Perceptron) -> str:
    """Return a hash of the problem's patterns and target."""
    digest = hashlib.sha256(problem.target.to_json().encode())
    digest.update(str((problem.patterns.shape, problem.patterns.dtype.str)).encode())
    digest.update(np.ascontiguousarray(problem.patterns).view(np.uint8).data)
    return digest.hexdigest()
