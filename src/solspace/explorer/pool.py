"""Theory for all pages: a few worker processes shared fairly, and a memory of what was asked before.

A page asks under its own name and at most one of its questions waits: a newer one takes the older one's place, since a
slider that moved on has made it pointless. Pages are served in the order in which they began to wait, so ten of them
get a tenth each. Equal questions are answered once. A question that takes too long costs its process, not the page.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from solspace.explorer.worker import Worker

Answer = Callable[[str, Any], None]
"""Called with ("done", value) or ("failed", sentence), from any thread."""


@dataclass
class _Question:
    job: str
    args: tuple[object, ...]
    remember: bool = True
    askers: dict[Hashable, Answer] = field(default_factory=dict)

    @property
    def key(self) -> Hashable:
        return self.job, self.args


STARTING = 120.0
"""Seconds more for the first answer of a process: it imports, and on its first day compiles."""


class Pool:
    """Workers that answer questions.

    Parameters
    ----------
    size
        Number of processes.
    niceness
        How far they step back behind the server.
    patience
        Seconds after which an answer is given up.
    memory
        Number of answers kept.
    """

    def __init__(self, size: int, niceness: int = 0, patience: float = 20.0, memory: int = 512) -> None:
        self._workers = [Worker(niceness) for _ in range(size)]
        self._free = list(self._workers)
        self._waiting: OrderedDict[Hashable, tuple[_Question, Answer]] = OrderedDict()
        self._running: dict[Hashable, _Question] = {}
        self._known: OrderedDict[Hashable, Any] = OrderedDict()
        self._lock = threading.RLock()
        self.patience, self._memory = patience, memory
        self._closed = False

    def start(self, job: str, args: tuple[object, ...]) -> None:
        """Start all processes now and have each do `job` once: the first visitor need not wait for compilers."""
        with self._lock:
            while self._free:
                self._work(self._free.pop(), _Question(job, args))

    def ask(self, asker: Hashable, job: str, args: tuple[object, ...], answer: Answer, remember: bool = True) -> None:
        """Have `job` done for `asker`; what the same asker asked before and still waits is dropped."""
        question = _Question(job, args, remember)
        with self._lock:
            self._forget(asker)
            if self._closed:
                return
            if question.key not in self._known:
                if question.key in self._running:
                    self._running[question.key].askers[asker] = answer
                else:
                    self._waiting[asker] = question, answer
                    self._advance()
                return
            self._known.move_to_end(question.key)
            value = self._known[question.key]
        answer("done", value)

    def drop(self, asker: Hashable) -> None:
        """Forget what `asker` asked."""
        with self._lock:
            self._forget(asker)

    def close(self) -> None:
        """End all processes."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            self._running.clear()
        for worker in self._workers:
            worker.close()

    def _forget(self, asker: Hashable) -> None:
        self._waiting.pop(asker, None)
        for question in self._running.values():
            question.askers.pop(asker, None)

    def _advance(self) -> None:
        while self._free and self._waiting and not self._closed:
            question, _ = next(iter(self._waiting.values()))
            for asker, (equal, answer) in list(self._waiting.items()):  # all who wait for this are served at once
                if equal.key == question.key:
                    question.askers[asker] = answer
                    del self._waiting[asker]
            self._running[question.key] = question
            self._work(self._free.pop(), question)

    def _work(self, worker: Worker, question: _Question) -> None:
        timer = threading.Timer(self.patience + (STARTING if worker.pid is None else 0.0), worker.stop)
        timer.daemon = True
        timer.start()

        def deliver(kind: str, value: object) -> None:
            timer.cancel()
            with self._lock:
                self._running.pop(question.key, None)
                self._free.append(worker)
                answers = list(question.askers.values())
                if kind == "done" and question.remember:
                    self._known[question.key] = value
                    while len(self._known) > self._memory:
                        self._known.popitem(last=False)
                self._advance()
            if kind == "stopped":
                kind, value = "failed", f"no answer within {self.patience:g} seconds; try values nearer the ordinary."
            for answer in answers:
                with suppress(Exception):  # a page that has gone must not keep the others waiting
                    answer(kind, value)

        worker.submit(question.job, question.args, deliver)
