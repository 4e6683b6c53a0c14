"""The part of the page that draws samples: its controls, the run under way, and what is left to download."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import panel as pn

from solspace.explorer.controls import Choice, Field
from solspace.explorer.state import SAMPLERS, Settings, refusal
from solspace.explorer.worker import Worker
from solspace.numerics.arrays import Array
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.page import Page


_NAMES = {"prior": "weights", "temperature": "T", "margin": "κ", "alpha": "α", "n": "N"}
_INSTANCE = ("n", "alpha", "patterns", "seed")


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A run that has ended well: its settings, the patterns that a user sent, and what `runs.sample` returned."""

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
        """Return a sentence on how this run differs from one with `settings` on `patterns`; '' if it does not."""
        words = []
        for name in (f.name for f in fields(Settings) if f.name not in ("time", "theme")):
            then, now = getattr(self.settings, name), getattr(settings, name)
            matters = (name != "sweeps" or self.settings.annealed) and (self.patterns is None or name not in _INSTANCE)
            if then != now and matters:
                words.append(f"{_NAMES.get(name, name)} = {then}")
        if self.patterns is not patterns:
            words.insert(0, "random patterns" if self.patterns is None else "your own patterns")
        return f"This run was drawn with {', '.join(words)}, unlike what the controls show now." if words else ""


class Running:
    """Sampler controls of a page, and its worker process."""

    def __init__(self, page: Page, styles: str) -> None:
        self.page = page
        self.worker: Worker | None = None
        self.patterns: Array | None = None
        self.finished: FinishedRun | None = None
        self._begun = 0.0
        s = page.settings
        options = {label: name for name, label in SAMPLERS.items()}
        self.fields: Values = {
            "sampler": Choice("sampler", "sampler", options, s.sampler, page.changed, styles),
            "n": Field("n", "weights N", s.n, page.changed, page.turns.soon, styles),
            "samples": Field("samples", "samples", s.samples, page.changed, page.turns.soon, styles),
            "sweeps": Field("sweeps", "sweeps", s.sweeps, page.changed, page.turns.soon, styles),
            "patterns": Choice("patterns", "random patterns", {"binary (±1)": "binary", "Gaussian": "gaussian"},
                               s.patterns, page.changed, styles),
            "seed": Field("seed", "seed", s.seed, page.changed, page.turns.soon, styles),
        }  # fmt: skip
        look = {"stylesheets": [styles], "margin": (8, 8, 4, 0)}
        self.start = pn.widgets.Button(name="Sample", button_type="primary", css_classes=["start"], **look)
        self.stop = pn.widgets.Button(name="Stop", disabled=True, css_classes=["stop"], **look)
        self.start.on_click(lambda event: page.turns.soon(self.run))
        self.stop.on_click(lambda event: page.turns.soon(self.halt))
        self.refused = pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[styles])
        self.outcome = pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[styles])
        self.upload = pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[styles])
        self.forget = pn.widgets.Button(name="Back to random patterns", visible=False, **look)
        self.forget.on_click(lambda event: page.turns.soon(self.use_random))
        self.controls = pn.Column(
            *(field.layout for field in self.fields.values()), pn.Row(self.start, self.stop, margin=0), self.forget,
            self.refused, margin=0, sizing_mode="stretch_width",
        )  # fmt: skip

    # ---- what is allowed

    def settings_changed(self) -> None:
        """Look again whether a run is allowed, and say so."""
        s = self.page.settings
        self.fields["sweeps"].layout.visible = s.annealed
        own = self.patterns is not None
        for name in ("n", "patterns"):
            self.fields[name].layout.visible = not own
        self.forget.visible = own
        why = self._refusal()
        self.refused.object = f'<div class="refused" role="alert">{escape(why)}</div>' if why else ""
        self.start.disabled = bool(why) or self.busy
        self.stop.disabled = not self.busy
        if self.finished is not None:
            self._show_finished(self.finished)

    def _refusal(self) -> str:
        # what theory thinks of the load is said on top of the page and keeps nobody from trying
        if self.page.refusals():
            return "A value above is refused: correct it before a run."
        return refusal(self.page.settings, None if self.patterns is None else self.patterns.shape)

    @property
    def busy(self) -> bool:
        """True while a run is under way."""
        return self.worker is not None and self.worker.busy

    # ---- the run

    def run(self) -> None:
        """Start a run with the page's settings."""
        if self.busy or self._refusal():
            return
        if not self.page.service.may_run(self.page):
            self._tell("The machine is busy with other visitors' runs; try again when one has ended.")
            return
        self.page.charts.clear_run()
        self.page.charts.annealing.visible = self.page.settings.annealed
        self.finished = None
        self.page.service.keep(self.page.token, None)
        self.worker = self.worker or Worker()
        self._begun = time.monotonic()
        self._progress({"fraction": 0.0, "words": "starting; the first run compiles, which can take a minute"})
        settings, patterns = self.page.settings, self.patterns
        self.worker.submit("sample", (settings, patterns), partial(self._heard, settings, patterns))
        self.settings_changed()

    def halt(self) -> None:
        """Stop the run."""
        if self.worker is not None:
            self.stop.disabled = True
            self.worker.stop()

    def close(self) -> None:
        """End the worker."""
        if self.worker is not None:
            self.worker.close()

    def _heard(self, settings: Settings, patterns: Array | None, kind: str, value: object) -> None:
        if kind == "update" and not self.page.turns.watched:
            return  # a page that is always drawn on never looks deserted to Bokeh 3.10, which would not end its run
        self.page.turns.soon(partial(self._show, settings, patterns, kind, value))

    def _show(self, settings: Settings, patterns: Array | None, kind: str, value: Any) -> None:
        if kind == "update":
            self.page.charts.show_run(value)
            self._progress(value)
            return
        if kind == "done":
            self._take_over(FinishedRun(settings, patterns, value))
        elif kind == "stopped":
            self._tell("Stopped. Unfinished samples are not fair, so nothing is kept.")
        else:
            self._tell(f"The run failed: {value}")
        self.settings_changed()

    def _progress(self, update: Values) -> None:
        done, elapsed = update["fraction"], time.monotonic() - self._begun
        left = f", about {elapsed * (1 - done) / done:.0f} s left" if done > 0.02 and elapsed > 2 else ""
        self.outcome.object = (
            f'<div class="run" role="status"><progress max="1" value="{done:.3f}" aria-label="progress"></progress>'
            f"<div>{escape(update['words'])}{left}</div></div>"
        )

    def restore(self, token: str) -> None:
        """Show the finished run of the page that this tab showed before."""
        run = self.page.service.runs.get(token)
        if run is None or self.finished is not None or self.busy:
            return
        if run.patterns is not None and self._count("done", run.patterns)[0] == "done":
            self._use(run.patterns)
        self._take_over(run)
        self.settings_changed()

    def _take_over(self, run: FinishedRun) -> None:
        self.finished = run
        self.page.service.keep(self.page.token, run)
        self.page.charts.annealing.visible = run.settings.annealed
        self.page.charts.show_run(run.value)

    def _show_finished(self, run: FinishedRun) -> None:
        colour = {True: "green", False: "red"}.get(run.value["fair"], "")
        note = run.differences(self.page.settings, self.patterns)
        self._tell(run.value["verdict"], run.value["rows"], run.files, colour, note)

    def _tell(
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

    # ---- own patterns

    def uploaded(self, kind: str, value: object) -> None:
        """Take over patterns (m, n) that a user sent, or say why not; called from any thread."""
        self.page.turns.soon(partial(self._show_upload, kind, value))

    def _show_upload(self, kind: str, value: Any) -> None:
        kind, value = self._count(kind, value)
        if kind == "done":
            self._use(value)
            m, n = value.shape
            if 0.001 <= m / n <= 10_000:
                self.page.fields["alpha"].show(m / n)
                self.page.changed("alpha", m / n)
        else:
            self.upload.object = f'<div class="refused" role="alert">Refused: {escape(str(value))}</div>'
        self.settings_changed()

    def _use(self, patterns: Array) -> None:
        self.patterns = patterns
        m, n = patterns.shape
        word = "±1" if patterns.dtype.itemsize == 1 else "real-valued"
        text = (
            f"Your patterns: M = {m}, N = {n}, {word}, α = {m / n:.4g}. Theory lines hold for random patterns; "
            "a link does not carry yours."
        )
        self.upload.object = f'<div class="run" role="status">{escape(text)}</div>'

    def _count(self, kind: str, value: Any) -> tuple[str, Any]:
        """Count patterns instead of the file that they came in, or refuse them."""
        allowance = self.page.service.allowance
        allowance.free(self.page.token, "file")
        try:
            if kind == "done":
                allowance.take(self.page.token, "patterns", value.nbytes)
        except ValueError as error:
            return "failed", str(error)
        return kind, value

    def use_random(self) -> None:
        """Go back to a random instance."""
        self.patterns = None
        self.page.service.allowance.free(self.page.token, "patterns")
        self.upload.object = ""
        self.settings_changed()
