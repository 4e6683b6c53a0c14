"""A progress bar with the time left, for anything that lasts over two seconds; silent otherwise and where nobody looks.

While kernels compile, the bar is there at once and says so. Rich is imported only when a bar is to be drawn. The bar is
drawn on standard error, so that `--json` output stays clean; in a notebook it is a line of text that changes (`notebook`).
"""

from __future__ import annotations

import sys
import time
from threading import Lock
from types import TracebackType
from typing import Any, Self

from solspace.system import compiled, notebook

_PATIENCE = 2.0
"""Seconds of silence before a bar appears."""
COMPILING = "compiling (once per machine)"


class progress:
    """Show how far a task of `total` steps has come.

    Parameters
    ----------
    total
        Number of steps.
    label
        What is being done, in a few words.
    enabled
        True, False, or None: only when standard error is a terminal, or in a notebook.

    >>> with progress(3, "counting", enabled=False) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """

    def __init__(self, total: float, label: str, enabled: bool | None = None) -> None:
        self.total, self.label = total, label
        self._shell = notebook.shell() if enabled is not False else None
        self.enabled = (sys.stderr.isatty() or self._shell is not None) if enabled is None else enabled
        self.done = 0.0
        self.note = ""
        self._bar: Any = None
        self._opening = Lock()
        self._start = time.monotonic()

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        if self.enabled:
            compiled.watchers.append(self._compiles)
        return self

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Count `steps` more as done; `note` is shown behind the bar."""
        self.done += steps
        self.note = note
        if not self.enabled:
            return
        if time.monotonic() - self._start > _PATIENCE:
            self._open()
        if self._bar is not None:
            self._bar.update(self.done, note)

    def _compiles(self, compiling: bool) -> None:
        """Say that a kernel compiles, from the thread that does it."""
        self._open()
        self._bar.update(self.done, COMPILING if compiling else self.note)

    def _open(self) -> None:
        with self._opening:
            if self._bar is None and self._shell is not None:
                self._bar = notebook.Line(self._shell, self.label, self.total, self._start)
            elif self._bar is None:
                self._bar = _Terminal(self.label, self.total, self.done, self.note)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._compiles in compiled.watchers:
            compiled.watchers.remove(self._compiles)
        if self._bar is not None:
            self._bar.stop(self.done)


class _Terminal:
    """Rich's bar, which goes when the work is done."""

    def __init__(self, label: str, total: float, done: float, note: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task(label, total=total, completed=int(done), note=note)

    def update(self, done: float, note: str = "") -> None:
        self._bar.update(self._task, completed=done, note=note)

    def stop(self, done: float) -> None:
        self._bar.stop()
