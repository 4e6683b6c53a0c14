"""The card "Sample" of the page: its controls, the run in progress, a finished run, and patterns of the user."""

from __future__ import annotations

import time
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import panel as pn

from solspace.explorer.controls import STYLES, Field, Select, html_pane
from solspace.explorer.runs import sample
from solspace.explorer.settings import NUMBERS, Settings, refusal
from solspace.explorer.workers import Stopped, Worker
from solspace.numerics.arrays import Array
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.page import Page

_CONTROLS = {"sampler": Select, "n": Field, "samples": Field, "sweeps": Field, "patterns": Select, "seed": Field}
_INSTANCE = {"ensemble", "n", "alpha", "patterns", "seed"}  # settings that do not matter for patterns of the user


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run: its settings, the patterns of the user if it had any, and what `runs.sample` returned."""

    settings: Settings
    patterns: Array | None
    value: Values
    ended: float = field(default_factory=time.monotonic)

    @property
    def files(self) -> dict[str, bytes]:
        return self.value["files"]

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values())) + (0 if self.patterns is None else self.patterns.nbytes)

    def differences(self, settings: Settings, patterns: Array | None) -> str:
        """Return a sentence on how this run differs from one with `settings` on `patterns`, or ''."""
        ignored = {"time", "theme"} | (_INSTANCE if self.patterns is not None else set())
        ignored |= set() if self.settings.annealed else {"sweeps"}
        words = []
        if self.patterns is not patterns:
            words.append("random patterns" if self.patterns is None else "your own patterns")
        for name in (f.name for f in fields(Settings) if f.name not in ignored):
            if (drawn := getattr(self.settings, name)) != getattr(settings, name):
                words_of = {"prior": "weights", "ensemble": "labels"}
                symbol = NUMBERS[name].symbol if name in NUMBERS else words_of.get(name, name)
                words.append(f"{symbol} = {drawn}")
        return f"This run was drawn with {', '.join(words)}, unlike what the controls show now." if words else ""


class SampleCard:
    """Controls of the sampler, and the run in progress in a process of its own."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.worker: Worker | None = None
        self.future: Future[Any] | None = None
        self.patterns: Array | None = None
        self.finished: FinishedRun | None = None
        self._begun = 0.0
        self.fields: Values = {name: kind(page, name) for name, kind in _CONTROLS.items()}
        self.start = self._button("Sample", self.run, button_type="primary", css_classes=["start"])
        self.stop = self._button("Stop", self.halt, disabled=True, css_classes=["stop"])
        self.random = self._button("Back to random patterns", self.use_random, visible=False)
        self.refused, self.outcome, self.upload = html_pane(), html_pane(), html_pane()
        buttons = pn.Row(self.start, self.stop, margin=0), self.random, self.refused
        parts = *(part.layout for part in self.fields.values()), *buttons
        self.controls = pn.Column(*parts, margin=0, sizing_mode="stretch_width")

    def _button(self, name: str, action: Any, **options: Any) -> pn.widgets.Button:
        button = pn.widgets.Button(name=name, stylesheets=[STYLES], margin=(8, 8, 4, 0), **options)
        button.on_click(lambda event: self.page.schedule(action))
        return button

    def settings_changed(self) -> None:
        """Show which controls matter, whether a run is possible, and whether the finished one fits the settings."""
        s, own = self.page.settings, self.patterns is not None
        self.fields["sweeps"].layout.visible = s.annealed
        for name in ("n", "patterns"):
            self.fields[name].layout.visible = not own
        self.random.visible = own
        why = self._refusal()
        self.refused.object = f'<div class="refused" role="alert">{escape(why)}</div>' if why else ""
        self.start.disabled = bool(why) or self.busy
        self.stop.disabled = not self.busy
        if self.finished is not None:
            self._show_outcome(self.finished)

    def _refusal(self) -> str:
        if self.page.refusals():
            return "A value above is refused: correct it before a run."
        return refusal(self.page.settings, None if self.patterns is None else self.patterns.shape)

    # ---- runs

    @property
    def busy(self) -> bool:
        return self.future is not None

    def run(self) -> None:
        if self.busy or self._refusal():
            return
        service, settings, patterns = self.page.service, self.page.settings, self.patterns
        if not service.may_run():
            self._show_text("The machine is busy with other visitors' runs; try again when one has ended.")
            return
        self.page.charts.clear_run()
        self.page.charts.figures["annealing"].visible = settings.annealed
        self.finished = None
        service.keep(self.page.token, None)
        self._begun = time.monotonic()
        self._show_progress({"fraction": 0.0, "words": "starting; the first run compiles, which can take a minute"})
        if self.worker is None or not self.worker.alive:
            self.worker = Worker()
        show = partial(self.page.schedule, self._show_progress)
        self.future = service.runs.submit(self.worker.call, sample, settings, patterns, on_update=show)
        self.future.add_done_callback(partial(self.page.schedule, self._ended, settings, patterns))
        self.settings_changed()

    def halt(self) -> None:
        if self.worker is not None:
            self.worker.stop()

    def _ended(self, settings: Settings, patterns: Array | None, future: Future[Any]) -> None:
        self.future, error = None, future.exception()
        if error is None:
            self._show_run(FinishedRun(settings, patterns, future.result()))
        elif isinstance(error, Stopped):
            self._show_text("Stopped. Unfinished samples are not fair, so nothing is kept.")
        else:
            self._show_text(f"The run failed: {error}")
        self.settings_changed()

    def restore(self, token: str) -> None:
        """Show the finished run of the page that this tab showed before a reload, if it is still kept."""
        run = self.page.service.finished.get(token)
        if run is None or self.busy or self.finished is not None:
            return
        if run.patterns is not None:
            self.use_patterns(run.patterns)
        self._show_run(run)
        self.settings_changed()

    def _show_run(self, run: FinishedRun) -> None:
        self.finished = run
        self.page.service.keep(self.page.token, run)
        self.page.charts.figures["annealing"].visible = run.settings.annealed
        self.page.charts.show_run(run.value)

    def _show_progress(self, update: Values) -> None:
        self.page.charts.show_run(update)
        done, elapsed = update["fraction"], time.monotonic() - self._begun
        left = f", about {elapsed * (1 - done) / done:.0f} s left" if done > 0.02 and elapsed > 2 else ""
        bar = f'<progress max="1" value="{done:.3f}" aria-label="progress"></progress>'
        self._show(f"{bar}<div>{escape(update['words'])}{left}</div>")

    def _show_outcome(self, run: FinishedRun) -> None:
        note, value = run.differences(self.page.settings, self.patterns), run.value
        colour = {True: "green", False: "red"}.get(value["fair"], "")
        table = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(seen)}</td><td>{escape(theory)}</td></tr>'
            for name, seen, theory in value["rows"]
        )
        links = "".join(f'<a href="files/{self.page.token}/{name}" download="{name}">{name}</a>' for name in run.files)
        self._show(
            (f'<div class="outdated">{escape(note)}</div>' if note else "")
            + f'<div class="fair {colour}">{escape(value["verdict"])}</div>'
            + f"<table><tr><th></th><td>samples</td><td>theory</td></tr>{table}</table><div>Download: {links}</div>"
        )

    def _show_text(self, sentence: str) -> None:
        self._show(f'<div class="fair">{escape(sentence)}</div>')

    def _show(self, html: str) -> None:
        self.outcome.object = f'<div class="run" role="status">{html}</div>'

    # ---- patterns of the user

    def take_upload(self, patterns: Array) -> None:
        """Use patterns (m, n) that the user sent, and their load."""
        self.use_patterns(patterns)
        alpha = patterns.shape[0] / patterns.shape[1]
        if 0.001 <= alpha <= 10_000:
            self.page.fields["alpha"].show(alpha)
            self.page.schedule(self.page.change, "alpha", alpha)
        self.settings_changed()

    def use_patterns(self, patterns: Array) -> None:
        self.patterns, (m, n) = patterns, patterns.shape
        kind = "±1" if patterns.dtype.itemsize == 1 else "real-valued"
        text = f"Your patterns: M = {m}, N = {n}, {kind}, α = {m / n:.4g}. Theory lines hold for random patterns; "
        self.upload.object = f'<div class="run" role="status">{text}a link does not carry yours.</div>'

    def refuse_upload(self, sentence: str) -> None:
        self.upload.object = f'<div class="refused" role="alert">Refused: {escape(sentence)}</div>'

    def use_random(self) -> None:
        self.patterns = None
        self.upload.object = ""
        self.settings_changed()
