"""A worker process of a sweep: takes tasks, gives results, and dies with its driver."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress

from solspace.experiments.tasks import Task, run
from solspace.store import Result
from solspace.system.child import Child, ChildEnded, ends, read, write


class WorkerDied(RuntimeError):
    """The worker process ended in the middle of a task."""


class Worker:
    """A process that runs one task at a time."""

    def __init__(self) -> None:
        self.process = Child(__name__)
        try:
            self.process.receive()  # "ready"
        except ChildEnded:
            code, death = self.process.code, self.process.death
            self.close()
            if code < 0:
                raise WorkerDied(death) from None
            raise ChildProcessError("a worker process did not start; its message is above.") from None

    def run(self, task: Task) -> Result:
        """Return the task's result, or raise `WorkerDied`."""
        try:
            self.process.send(task)
            return self.process.receive()
        except ChildEnded:
            raise WorkerDied(self.process.death) from None

    def kill(self) -> None:
        """End the process, whatever it is doing: who waits for a result sees it die."""
        self.process.kill()

    def close(self) -> None:
        """End the process and let go of its pipes."""
        self.process.close()


def serve() -> None:
    """Run tasks until standard input ends: the worker's main loop."""
    die_with_driver()
    source, sink = ends()
    with suppress(ChildEnded):
        write(sink, "ready")
        while True:
            write(sink, run(read(source)))


def die_with_driver() -> None:
    """End this process when the one that started it ends, however that does."""
    driver = os.getppid()
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: also in the middle of compiled code

    def watch() -> None:
        while os.getppid() == driver:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
