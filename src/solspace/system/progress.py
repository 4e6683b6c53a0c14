"""A progress bar with the time left, for work of more than two seconds.

While kernels compile, the bar is shown at once with a note. Rich is imported only when a bar is drawn: on standard error, so that
`--json` output stays clean. In a Jupyter kernel Rich needs ipywidgets and shows nothing without them; there the same columns
are one line of text, which the kernel replaces as work goes on.
"""

from __future__ import annotations

import io
import math
import sys
import time
import uuid
from threading import Lock
from typing import Any, Self

from solspace.system import compiled

_PATIENCE = 2.0  # seconds of silence before a bar appears
_EVERY = 0.5  # seconds between two changes of the line in a notebook
COMPILING = "compiling (once per machine)"


class progress:
    """Show how far a task of `total` steps has come; by default on a terminal and in a notebook.

    >>> with progress(3, "counting", enabled=False) as bar:
    ...     for _ in range(3):
    ...         bar.advance()
    """

    def __init__(self, total: float, label: str, enabled: bool | None = None) -> None:
        self.total, self.label = total, label
        self._shell: Any = _kernel() if enabled is not False else None
        self.enabled = (sys.stderr.isatty() or self._shell is not None) if enabled is None else enabled
        self.done, self.note = 0.0, ""
        self._bar: Any = None
        self._opening = Lock()
        self._start, self._published = time.monotonic(), -math.inf
        self._place = {"display_id": uuid.uuid4().hex}

    def __enter__(self) -> Self:
        self._start = time.monotonic()
        if self.enabled:
            compiled.watchers.append(self._compiles)
        return self

    def advance(self, steps: float = 1, note: str = "") -> None:
        """Count `steps` more as done; `note` is shown behind the bar."""
        self.done += steps
        self.note = note
        if self.enabled and (self._bar is not None or time.monotonic() - self._start > _PATIENCE):
            self._show(note)

    def __exit__(self, *error: object) -> None:
        if self._compiles in compiled.watchers:
            compiled.watchers.remove(self._compiles)
        if self._bar is not None:
            self._bar.stop() if self._shell is None else self._publish()

    def _compiles(self, compiling: bool) -> None:
        self._show(COMPILING if compiling else self.note)

    def _show(self, note: str) -> None:
        with self._opening:  # kernels may compile in several threads
            if self._bar is None:
                self._bar = self._open()
        self._bar.update(self._bar.task_ids[0], completed=self.done, note=note)
        if self._shell is not None and time.monotonic() - self._published >= _EVERY:
            self._publish()

    def _open(self) -> Any:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        page = Console(file=io.StringIO(), width=120, force_jupyter=False)
        columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f}%")]
        columns += [TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}")]
        console = Console(stderr=True) if self._shell is None else page
        bar = Progress(*columns, console=console, transient=True, get_time=time.monotonic)
        bar.add_task(self.label, total=self.total, note="")
        bar.tasks[0].start_time = self._start
        if self._shell is None:
            bar.start()
        return bar

    def _publish(self) -> None:
        """Write the line into the page, in the place of the one before."""
        with self._bar.console.capture() as line:
            self._bar.console.print(self._bar.get_renderable())
        text, update = {"text/plain": line.get().strip()}, self._published > -math.inf
        self._shell.display_pub.publish(text, {}, transient=self._place, update=update)
        self._published = time.monotonic()


def _kernel() -> Any:
    """Return the shell of the Jupyter kernel that runs this process; None elsewhere, in IPython's terminal too."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return shell if getattr(shell, "kernel", None) is not None else None
