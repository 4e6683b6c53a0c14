"""A process that draws figures while this one computes the next ones: a device would be idle for the seconds that it takes."""

from __future__ import annotations

import traceback
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from solspace.experiments.worker import die_with_driver
from solspace.system.child import Child, ChildEnded, ends, read, write

EXPECTED = (ValueError, ImportError, OSError)
"""What may go wrong with a figure, in a sentence: data that are not there, a disk that is full."""


class Drawer:
    """Draws figures in a process of its own, one after another."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "drawing")
        self._process: Child | None = None

    def draw(self, **asked: Any) -> Future[tuple[Path, ...]]:
        """Return the files of a figure to come; `asked` is what `reproduce.draw` takes."""
        return self._thread.submit(self._draw, asked)

    def _draw(self, asked: dict[str, Any]) -> tuple[Path, ...]:
        if self._process is None:
            self._process = Child(__name__)
        try:
            self._process.send(asked)
            made = self._process.receive()
        except ChildEnded:
            death = self._process.death
            self._process.close()
            self._process = None
            raise ChildProcessError(
                f"the process that draws ended ({death}): out of memory, or killed by the system? The same command draws again."
            ) from None
        if isinstance(made, Exception):
            raise made
        return made

    def close(self) -> None:
        """End the process; what it is drawing is given up."""
        if self._process is not None:
            self._process.kill()
        self._thread.shutdown(cancel_futures=True)
        if self._process is not None:
            self._process.close()


def serve() -> None:
    """Draw what is asked for until standard input ends: the process's main loop."""
    die_with_driver()
    source, sink = ends()
    from solspace.experiments.reproduce import draw

    made: object
    with suppress(ChildEnded):
        while True:
            asked = read(source)
            try:
                made = draw(**asked)
            except EXPECTED as error:
                made = error
            except Exception as error:
                made = RuntimeError("".join(traceback.format_exception(error)))
            write(sink, made)
