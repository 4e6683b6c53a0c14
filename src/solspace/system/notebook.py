"""A line of text in a notebook that changes as work goes on.

In a Jupyter kernel standard error is no terminal, and Rich draws its bars there by ipywidgets, which most do not have: it
would warn and show nothing. A kernel can show one output and replace it later: one line, however often it changes, in
JupyterLab, VS Code, Colab and in notebooks that are run without anybody looking. IPython is never imported here: a kernel
has done it already.
"""

from __future__ import annotations

import sys
import time
import uuid
from typing import Any

_EVERY = 0.5
"""Seconds between two changes of the line."""
_WIDTH = 24


def shell() -> Any:
    """Return the shell of the Jupyter kernel that runs this process; None elsewhere, in IPython's terminal too."""
    ipython = sys.modules.get("IPython")
    found = ipython.get_ipython() if ipython is not None else None
    return found if getattr(found, "kernel", None) is not None else None


class Line:
    """A bar of text on one line, with the time that is left."""

    def __init__(self, shell: Any, label: str, total: float, start: float) -> None:
        self.shell, self.label, self.total, self.start = shell, label, total, start
        self.display = uuid.uuid4().hex
        self._shown = -1.0

    def update(self, done: float, note: str = "") -> None:
        """Show how much is done, at most twice a second."""
        now = time.monotonic()
        if self._shown >= 0 and now - self._shown < _EVERY:
            return
        self._publish(bar(self.label, done, self.total, now - self.start, note))
        self._shown = now

    def stop(self, done: float) -> None:
        """Leave a line that says how long it took, or where it stopped."""
        spent = clock(time.monotonic() - self.start)
        share = min(done / self.total, 1.0) if self.total else 1.0
        self._publish(
            f"{self.label}: {f'done in {spent}' if share == 1.0 else f'stopped at {share:.0%} after {spent}'}"
        )

    def _publish(self, text: str) -> None:
        self.shell.display_pub.publish(
            {"text/plain": text}, {}, transient={"display_id": self.display}, update=self._shown >= 0
        )


def bar(label: str, done: float, total: float, spent: float, note: str = "") -> str:
    """Return the line.

    >>> bar("annealing", 30, 120, 10.0, "T = 0.5")
    'annealing ██████░░░░░░░░░░░░░░░░░░  25%  0:10, 0:30 left  T = 0.5'
    """
    share = min(done / total, 1.0) if total else 1.0
    full = int(_WIDTH * share)
    left = f", {clock(spent * (1 - share) / share)} left" if share else ""
    line = f"{label} {'█' * full}{'░' * (_WIDTH - full)} {share:>4.0%}  {clock(spent)}{left}"
    return f"{line}  {note}".rstrip()


def clock(seconds: float) -> str:
    """Return a duration as hours, minutes and seconds.

    >>> clock(75), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
