"""Bars in a notebook: one line that changes and stays one, no widgets, no warning, no flood."""

from __future__ import annotations

import io
import re
import sys
import types

import pytest

import solspace as ss
from solspace.system import compiled, progress


class Publisher:
    """What a kernel sends to the page: outputs by their name, a later one in the place of an earlier."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, bool]] = []
        self.shown: dict[str, str] = {}

    def publish(self, data, metadata=None, *, transient=None, update=False):
        name = transient["display_id"]
        assert update == (name in self.shown)
        assert set(data) == {"text/plain"}
        self.messages.append((data["text/plain"], update))
        self.shown[name] = data["text/plain"]


@pytest.fixture
def clock(monkeypatch):
    """Time that goes on by a tenth of a second with every look."""
    now = [0.0]

    def monotonic():
        now[0] += 0.1
        return now[0]

    monkeypatch.setattr(progress.time, "monotonic", monotonic)
    return now


def ipython(monkeypatch, **attributes):
    shell = types.SimpleNamespace(display_pub=Publisher(), **attributes)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell))
    return shell.display_pub


def test_a_notebook_has_one_line_that_changes(monkeypatch, clock, capsys):
    page = ipython(monkeypatch, kernel=object())
    with progress.progress(1000, "sampling") as bar:
        for step in range(1000):
            bar.advance(note=f"step {step}")
    assert len(page.shown) == 1
    assert re.match(r"sampling ━+ 100% \d:\d\d:\d\d", *page.shown.values())
    assert 5 < len(page.messages) < 1000
    assert re.search(r"sampling ━+╸? +\d+% .* left .*step \d+$", page.messages[len(page.messages) // 2][0])
    assert capsys.readouterr() == ("", "")


def test_what_is_stopped_says_where(monkeypatch, clock):
    page = ipython(monkeypatch, kernel=object())

    def work() -> None:
        with progress.progress(100, "sampling") as bar:
            for _ in range(60):
                bar.advance()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert re.match(r"sampling .* 60% \d:\d\d:\d\d", *page.shown.values())


def test_short_work_and_work_that_was_told_to_be_silent_show_nothing(monkeypatch, clock):
    page = ipython(monkeypatch, kernel=object())
    with progress.progress(5, "sampling") as bar:
        bar.advance(5)
    with progress.progress(1000, "sampling", enabled=False) as bar:
        for _ in range(1000):
            bar.advance()
    assert page.messages == []


def test_a_bar_says_at_once_that_something_compiles(monkeypatch, clock):
    page = ipython(monkeypatch, kernel=object())
    with progress.progress(1000, "sampling"):
        assert page.messages == []
        assert compiled.import_numba().njit(lambda x: x + 1)(1) == 2
        assert "compiling" in page.messages[0][0]
        page.messages.clear()
    assert compiled.import_numba().njit(lambda x: x + 2)(1) == 3
    assert not any("compiling" in text for text, _ in page.messages)


def test_a_terminal_of_ipython_is_a_terminal(monkeypatch, clock):
    page = ipython(monkeypatch)
    error = io.StringIO()
    error.isatty = lambda: True  # type: ignore[method-assign]
    monkeypatch.setattr(sys, "stderr", error)
    with progress.progress(100, "sampling") as bar:
        for _ in range(100):
            bar.advance()
    assert page.messages == []
    assert "sampling" in error.getvalue()


def test_without_ipython_and_terminal_nobody_looks(monkeypatch, clock, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    with progress.progress(100, "sampling") as bar:
        for _ in range(100):
            bar.advance()
    assert not bar.enabled
    assert capsys.readouterr() == ("", "")


def test_a_sampler_shows_its_progress_in_a_notebook(monkeypatch):
    page = ipython(monkeypatch, kernel=object())
    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    ss.anneal(ss.Perceptron.random(51, 0.3, rng=0), n_chains=2, n_sweeps=50, rng=0)
    (text,) = page.shown.values()
    assert re.match(r"annealing \(tau\) ━+ 100%", text)
