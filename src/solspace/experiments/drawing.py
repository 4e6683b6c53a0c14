"""Processes that draw figures while this one computes the next ones: a device would be idle for the seconds that it takes."""

from __future__ import annotations

import threading
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
    """Draws figures, a few at a time, each in a process of its own, which is kept for others."""

    def __init__(self, count: int = 3) -> None:
        self._threads = ThreadPoolExecutor(count, "drawing")
        self._processes: list[Child] = []
        self._idle: list[Child] = []
        self._turn, self._closed = threading.Lock(), False

    def draw(self, **asked: Any) -> Future[tuple[Path, ...]]:
        """Return the files of a figure to come; `asked` is what `reproduce.draw` takes."""
        return self._threads.submit(self._draw, asked)

    def _draw(self, asked: dict[str, Any]) -> tuple[Path, ...]:
        process = self._process()
        try:
            process.send(asked)
            made = process.receive()
        except ChildEnded:
            self._processes.remove(process)
            death = process.death
            process.close()
            raise ChildProcessError(
                f"the process that draws ended ({death}): out of memory, or killed by the system? The same command draws again."
            ) from None
        self._idle.append(process)
        if isinstance(made, Exception):
            raise made
        return made

    def _process(self) -> Child:
        with self._turn:
            if self._closed:
                raise ChildProcessError("what was to be drawn was given up.")
            if not self._idle:
                self._processes.append(Child(__name__))
                return self._processes[-1]
            return self._idle.pop()

    def close(self) -> None:
        """End the processes; what they are drawing is given up."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        with self._turn:
            self._closed = True
        for process in list(self._processes):
            process.kill()
        self._threads.shutdown()
        for process in self._processes:
            process.close()


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
