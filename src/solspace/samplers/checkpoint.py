"""Checkpoints: what a long run needs to go on, written whole or not at all.

A checkpoint belongs to one run: it carries a hash of the run's identity (problem, options, seed), and loading it from
another run raises ValueError. It also carries a digest of its content, and a sampler states what each array must be, so
that a damaged file is never continued from.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike

from solspace.numerics.arrays import Array, Bools
from solspace.problem import Perceptron
from solspace.system.arrays import Damaged, read_npz
from solspace.system.files import replacing

FORMAT = 2
"""Version of the file; 1, of solspace 0.1, had no digest."""
EVERY = 5.0
"""Least time in seconds between two writes."""


def anything(values: Array) -> bool:
    """Return True: the values of an array that may hold any."""
    return True


@dataclass(frozen=True)
class Entry:
    """What an array of a state must be: its type, its shape (None: any number of rows), the values it may hold."""

    dtype: DTypeLike
    shape: tuple[int | None, ...]
    allowed: Callable[[Array], Bools | bool] = anything

    @classmethod
    def like(cls, array: Array, allowed: Callable[[Array], Bools | bool] = anything) -> Entry:
        """Return the entry for arrays of the type and shape of `array`."""
        return cls(array.dtype, array.shape, allowed)

    def fits(self, array: Array) -> bool:
        """Return whether `array` is of this kind.

        >>> Entry(np.int8, (None,), within(-1, 1)).fits(np.array([1, -1, 127], np.int8))
        False
        """
        sizes = zip(array.shape, self.shape)
        shaped = array.ndim == len(self.shape) and all(wanted in (None, size) for size, wanted in sizes)
        return shaped and array.dtype == self.dtype and bool(np.all(self.allowed(array)))


def within(low: float, high: float) -> Callable[[Array], Bools | bool]:
    """Return the test whether values lie between `low` and `high`; NaN does not."""
    return lambda values: (values >= low) & (values <= high)


def among(choices: Sequence[float]) -> Callable[[Array], Bools | bool]:
    """Return the test whether values are some of `choices`."""
    return lambda values: np.isin(values, choices)


class Checkpoint:
    """The state of a run on disk.

    Parameters
    ----------
    path
        The file, or None: nothing is ever written.
    key
        The run's identity: anything JSON can say. Two runs with equal keys must make equal results.
    every
        Least time in seconds between two writes of `maybe_save`.
    """

    def __init__(self, path: str | os.PathLike[str] | None, key: Mapping[str, object], every: float = EVERY) -> None:
        self.path = None if path is None else Path(path)
        self.key = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
        self.every = every
        self._last = time.monotonic()
        self._warned = False

    def load(
        self,
        entries: Callable[[], Mapping[str, Entry]],
        sound: Callable[[Mapping[str, Array]], object] = lambda state: True,
    ) -> dict[str, Array] | None:
        """Return the stored arrays; None where there is nothing to go on from.

        They must be those of `entries()`, and together a state that is `sound`.
        """
        if self.path is None or not self.path.exists():
            return None
        try:
            state = read_npz(self.path)
        except Damaged as error:
            raise self._refused(error.reason) from error
        if "key" in state and "format" not in state:
            raise ValueError(
                f"{self.path} was written by solspace 0.1, whose checkpoints this version cannot go on from: finish "
                "the run with 0.1, or delete the file to start anew."
            )
        about = {name: str(state.pop(name, "")) for name in ("format", "digest", "key")}
        if about["format"].isdecimal() and int(about["format"]) > FORMAT:
            raise ValueError(f"{self.path} was written by a newer solspace; upgrade, or delete the file to start anew.")
        if about["format"] != str(FORMAT) or about["digest"] != digest(about["key"], state):
            raise self._refused("its content is damaged")
        if about["key"] != self.key:
            raise ValueError(
                f"{self.path} belongs to another run (other problem, options or seed); "
                "give the same options to go on, or another file to start anew."
            )
        wanted = entries()
        if set(state) != set(wanted) or not all(entry.fits(state[name]) for name, entry in wanted.items()):
            raise self._refused("its arrays are not those of this run")
        if not sound(state):
            raise self._refused("its arrays contradict each other")
        return state

    def _refused(self, reason: str) -> ValueError:
        return ValueError(f"{self.path} is not an intact solspace checkpoint ({reason}): delete it to start anew.")

    def save(self, state: Mapping[str, Array]) -> None:
        """Write the arrays of `state` in place of what was there; where that fails, warn once and let the run go on."""
        if self.path is None:
            return
        about = {
            "format": np.array(str(FORMAT)),
            "digest": np.array(digest(self.key, state)),
            "key": np.array(self.key),
        }
        try:
            with replacing(self.path) as file:
                np.savez(file, **about, **state)  # type: ignore[arg-type]
        except OSError as error:
            if not self._warned:
                self._warned = True
                reason = error.strerror or error
                warnings.warn(f"cannot keep the state of the run in {self.path} ({reason}); it goes on.", stacklevel=2)
        self._last = time.monotonic()

    def maybe_save(self, make_state: Callable[..., Mapping[str, Array]]) -> None:
        """Write `make_state()` if the last write is longer ago than `every` seconds."""
        if self.path is not None and time.monotonic() - self._last >= self.every:
            self.save(make_state())

    def finish(self, make_state: Callable[[], Mapping[str, Array]]) -> None:
        """Write the final state."""
        if self.path is not None:
            self.save(make_state())


def digest(key: str, state: Mapping[str, Array]) -> str:
    """Return a hash of a run's identity and of the names, types, shapes and bytes of its arrays."""
    total = hashlib.sha256(key.encode())
    for name in sorted(state):
        array = np.ascontiguousarray(state[name])
        total.update(f"{name} {array.dtype.str} {state[name].shape}".encode())
        total.update(array.reshape(-1).view(np.uint8).data)
    return total.hexdigest()


def fingerprint(problem: Perceptron) -> str:
    """Return a hash of the problem's patterns and target."""
    total = hashlib.sha256(problem.target.to_json().encode())
    total.update(str((problem.patterns.shape, problem.patterns.dtype.str)).encode())
    total.update(np.ascontiguousarray(problem.patterns).view(np.uint8).data)
    return total.hexdigest()
