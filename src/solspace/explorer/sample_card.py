"""The card "Sample" of the page: its controls, the run in progress, a finished run, and patterns of the user."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, fields
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import panel as pn

from solspace.explorer.controls import STYLES, Choice, Field, html_pane
from solspace.explorer.runs import sample
from solspace.explorer.settings import SAMPLERS, Settings, refusal
from solspace.explorer.workers import Stopped, Worker
from solspace.numerics.arrays import Array
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.page import Page

_SYMBOLS = {"prior": "weights", "temperature": "T", "margin": "κ", "alpha": "α", "n": "N"}
_INSTANCE = ("n", "alpha", "patterns", "seed")
"""Settings that do not matter for patterns of the user."""


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run: its settings, the patterns of the user if it had any, and what `runs.sample` returned."""

    settings: Settings
    patterns: Array | None
    value: Values
    ended: float = field(default_factory=time.monotonic)

    @property
    def files(self) -> dict[str, bytes]:
        """Files to download, by name."""
        return self.value["files"]

    @property
    def size(self) -> int:
        """Bytes in memory, about."""
        return sum(map(len, self.files.values())) + (0 if self.patterns is None else self.patterns.nbytes)

    def differences(self, settings: Settings, patterns: Array | None) -> str:
        """Return a sentence on how this run differs from one with `settings` on `patterns`, or ''."""
        ignored = {"time", "theme"} | ({*_INSTANCE} if self.patterns is not None else set())
        ignored |= set() if self.settings.annealed else {"sweeps"}
        words = (
            [] if self.patterns is patterns else ["random patterns" if self.patterns is None else "your own patterns"]
        )
        for name in (f.name for f in fields(Settings) if f.name not in ignored):
            if (drawn := getattr(self.settings, name)) != getattr(settings, name):
                words.append(f"{_SYMBOLS.get(name, name)} = {drawn}")
        return f"This run was drawn with {', '.join(words)}, unlike what the controls show now." if words else ""


class SampleCard:
    """Controls of the sampler, and the run in progress in a process of its own."""

    def __init__(self, page: Page) -> None:
        self.page, s = page, page.settings
        self.worker: Worker | None = None
        self.future: Future[Any] | None = None
        self.patterns: Array | None = None
        self.finished: FinishedRun | None = None
        self._begun = 0.0
        options = {label: name for name, label in SAMPLERS.items()}
        kinds = {"binary (±1)": "binary", "Gaussian": "gaussian"}
        self.fields: Values = {
            "sampler": Choice(page, "sampler", "sampler", options, s.sampler),
            "n": Field(page, "n", "weights N", s.n),
            "samples": Field(page, "samples", "samples", s.samples),
            "sweeps": Field(page, "sweeps", "sweeps", s.sweeps),
            "patterns": Choice(page, "patterns", "random patterns", kinds, s.patterns),
            "seed": Field(page, "seed", "seed", s.seed),
        }
        self.start = self._button("Sample", self.run, button_type="primary", css_classes=["start"])
        self.stop = self._button("Stop", self.halt, disabled=True, css_classes=["stop"])
        self.random = self._button("Back to random patterns", self.use_random, visible=False)
        self.refused, self.outcome, self.upload = html_pane(), html_pane(), html_pane()
        self.controls = pn.Column(
            *(part.layout for part in self.fields.values()), pn.Row(self.start, self.stop, margin=0), self.random,
            self.refused, margin=0, sizing_mode="stretch_width",
        )  # fmt: skip

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
            value = self.finished.value
            colour = {True: "green", False: "red"}.get(value["fair"], "")
            note = self.finished.differences(s, self.patterns)
            self._show_text(value["verdict"], value["rows"], self.finished.files, colour, note)

    def _refusal(self) -> str:
        if self.page.refusals():
            return "A value above is refused: correct it before a run."
        return refusal(self.page.settings, None if self.patterns is None else self.patterns.shape)

    # ---- runs

    @property
    def busy(self) -> bool:
        """Whether a run is in progress."""
        return self.future is not None

    def run(self) -> None:
        """Start a run with the page's settings."""
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
        self.future = service.runs.submit(
            self.worker.call, sample, settings, patterns, on_update=partial(self.page.schedule, self._show_update)
        )
        self.future.add_done_callback(partial(self.page.schedule, self._ended, settings, patterns))
        self.settings_changed()

    def halt(self) -> None:
        """Stop the run."""
        if self.worker is not None:
            self.worker.stop()

    def _show_update(self, update: Values) -> None:
        self.page.charts.show_run(update)
        self._show_progress(update)

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
        done, elapsed = update["fraction"], time.monotonic() - self._begun
        left = f", about {elapsed * (1 - done) / done:.0f} s left" if done > 0.02 and elapsed > 2 else ""
        self.outcome.object = (
            f'<div class="run" role="status"><progress max="1" value="{done:.3f}" aria-label="progress"></progress>'
            f"<div>{escape(update['words'])}{left}</div></div>"
        )

    def _show_text(
        self,
        sentence: str,
        rows: Sequence[tuple[str, str, str]] = (),
        files: Iterable[str] = (),
        colour: str = "",
        note: str = "",
    ) -> None:
        warning = f'<div class="outdated">{escape(note)}</div>' if note else ""
        table = "".join(
            f'<tr><th scope="row">{escape(name)}</th><td>{escape(seen)}</td><td>{escape(theory)}</td></tr>'
            for name, seen, theory in rows
        )
        head = "<tr><th></th><td>samples</td><td>theory</td></tr>" if rows else ""
        links = "".join(f'<a href="files/{self.page.token}/{name}" download="{name}">{name}</a>' for name in files)
        self.outcome.object = (
            f'<div class="run" role="status">{warning}<div class="fair {colour}">{escape(sentence)}</div>'
            f"<table>{head}{table}</table>{'<div>Download: ' + links + '</div>' if links else ''}</div>"
        )

    # ---- patterns of the user

    def take_upload(self, patterns: Array) -> None:
        """Use patterns (m, n) that the user sent, and their load."""
        self.use_patterns(patterns)
        alpha = patterns.shape[0] / patterns.shape[1]
        if self.patterns is patterns and 0.001 <= alpha <= 10_000:
            self.page.fields["alpha"].show(alpha)
            self.page.changed("alpha", alpha)
        self.settings_changed()

    def use_patterns(self, patterns: Array) -> None:
        """Use patterns (m, n) of the user, if the server has the memory."""
        if why := self.page.service.no_memory(self.page, patterns.nbytes):
            self.refuse_upload(why)
            return
        self.patterns, (m, n) = patterns, patterns.shape
        kind = "±1" if patterns.dtype.itemsize == 1 else "real-valued"
        text = (
            f"Your patterns: M = {m}, N = {n}, {kind}, α = {m / n:.4g}. Theory lines hold for random patterns; "
            "a link does not carry yours."
        )
        self.upload.object = f'<div class="run" role="status">{escape(text)}</div>'

    def refuse_upload(self, sentence: str) -> None:
        """Show why a file is refused."""
        self.upload.object = f'<div class="refused" role="alert">Refused: {escape(sentence)}</div>'

    def use_random(self) -> None:
        """Go back to random patterns."""
        self.patterns = None
        self.upload.object = ""
        self.settings_changed()
