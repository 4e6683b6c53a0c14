"""Checkpoints: the state of a long run in one file, which is replaced as a whole.

A file holds arrays and three words: the version of the format, the key of the run (a hash of its problem, options and
seed), and a digest of all of it. A file of another version, of another run or with damaged bytes is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from solspace.numerics.arrays import Array
from solspace.problem import Perceptron
from solspace.system.files import Damaged, read_npz, replacing

FORMAT = 5  # version of the file
_EVERY = 5.0  # least time in seconds between two writes


class Checkpoint:
    """The state of a run in the file `path`; without one nothing is written.

    `key` is the run's identity, in types of JSON: runs with equal keys must give equal results.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, key: Mapping[str, object] | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.key = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        self._last = time.monotonic()
        self._warned = False

    def load(self) -> dict[str, Array] | None:
        if self.path is None or not self.path.exists():
            return None
        try:
            state = read_npz(self.path)
        except Damaged as error:
            raise self._refused(error.reason) from error
        version, stored, key = (str(state.pop(name, "")) for name in ("format", "digest", "key"))
        if key and version != str(FORMAT) and (version.isdecimal() or not version):
            newer = int(version or 0) > FORMAT
            raise ValueError(
                f"{self.path} was written by {'a newer' if newer else 'an older'} solspace: "
                f"{'upgrade' if newer else 'finish the run with that version'}, or delete the file to start anew."
            )
        if version != str(FORMAT) or stored != _digest(key, state):
            raise self._refused("its content is damaged")
        if key != self.key:
            raise ValueError(
                f"{self.path} belongs to another run (other problem, options or seed); "
                "give the same options to go on, or another file to start anew."
            )
        return state

    def _refused(self, reason: str) -> ValueError:
        return ValueError(f"{self.path} is not an intact solspace checkpoint ({reason}): delete it to start anew.")

    def save(self, state: Mapping[str, Array]) -> None:
        """Replace the file by the arrays of `state`; if that fails, warn once and let the run go on."""
        if self.path is None:
            return
        words = {"format": str(FORMAT), "digest": _digest(self.key, state), "key": self.key}
        try:
            with replacing(self.path) as file:
                np.savez(file, **{name: np.array(word) for name, word in words.items()}, **state)  # type: ignore[arg-type]
        except OSError as error:
            if not self._warned:
                self._warned = True
                reason = error.strerror or error
                warnings.warn(f"cannot keep the state of the run in {self.path} ({reason}); it goes on.", stacklevel=2)
        self._last = time.monotonic()

    def maybe_save(self, make_state: Callable[..., Mapping[str, Array]]) -> None:
        """Write `make_state()` if the last write is some seconds ago."""
        if self.path is not None and time.monotonic() - self._last >= _EVERY:
            self.save(make_state())


def _digest(key: str, state: Mapping[str, Array]) -> str:
    """Return a hash of the key and of the names, types, shapes and bytes of the arrays."""
    total = hashlib.sha256(key.encode())
    for name in sorted(state):
        array = np.ascontiguousarray(state[name])
        total.update(f"{name} {array.dtype.str} {state[name].shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def fingerprint(problem: Perceptron) -> str:
    """Return a hash of the problem: patterns, target, intercept, clamped and sample weights."""
    total = hashlib.sha256(problem.target.to_json().encode() + problem.extras)
    total.update(str((problem.patterns.shape, problem.patterns.dtype.str)).encode())
    total.update(np.ascontiguousarray(problem.patterns).view(np.uint8).data)
    return total.hexdigest()
