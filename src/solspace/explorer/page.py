"""The page of a session: controls on the left, a verdict on top, charts on the right.

The page holds a `Settings` value. A change replaces it, puts it into the URL, and submits the
curves to the shared workers; thresholds and the t–α diagram follow in the background.

Models of Bokeh may be changed only under the document's lock, which watchers of widgets, tasks and threads do not hold:
they all pass their changes to `Page.schedule`.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import panel as pn
from bokeh.document import Document
from bokeh.events import Tap

from solspace.explorer.charts import TITLES, Charts
from solspace.explorer.controls import STYLES, Field, Scale, Select, html_pane, scales
from solspace.explorer.curves import Diagram, curves, diagrams, nearby, numbers, verdict
from solspace.explorer.runs import MAX_BYTES
from solspace.explorer.sample_card import SampleCard
from solspace.explorer.settings import Settings, with_parameters
from solspace.explorer.workers import Failure
from solspace.measure.potentials import as_potential
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.server import Service

_HERE = files("solspace.explorer")
_THEORY = ("ensemble", "prior", "potential", "temperature", "margin")
SLOW = 0.4  # seconds after which the page shows that it is computing
REST = 0.6  # seconds after which a slider is taken to be at rest


class Page:
    """The session of one browser tab."""

    def __init__(self, service: Service, query: dict[str, str]) -> None:
        self.service, self.token = service, secrets.token_hex(16)
        self.settings, self._not_in_link = Settings.from_query(query)
        self._doc: Document | None = pn.state.curdoc
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.facts: Values | None = None
        self.failure = ""
        self.thresholds: Values | None = None
        self.charts = Charts()
        self.verdict, self.numbers = html_pane(), html_pane()
        self.fields = self._fields()
        self.sample = SampleCard(self)
        self.address = self._hidden("address", "history.replaceState(null, '', cb_obj.value || location.pathname)")
        self.outdated = self._hidden("stale", "document.documentElement.dataset.outdated = cb_obj.value")
        self.scheme = self._hidden("scheme", changed=lambda value: self._set_theme())
        self.before = self._hidden("before", changed=self.sample.restore)
        self.charts.figures["diagram"].on_event(Tap, self._tapped)
        service.pages[self.token] = self
        self._show_parameters()
        self._set_theme()
        self._follow("curves", self._compute_curves())
        self._follow("nearby", self._compute_nearby())
        self._new_target()
        self.sample.settings_changed()

    def view(self) -> pn.Template:
        page = _Template((_HERE / "page.html").read_text(encoding="utf-8"))
        controls = pn.Column(*(part.layout for part in self.fields.values()), margin=0, sizing_mode="stretch_width")
        roots = {"tools": self._tools(), "verdict": self.verdict, "controls": controls, "numbers": self.numbers}
        sample = {"run": self.sample.controls, "upload": self.sample.upload, "outcome": self.sample.outcome}
        for name, root in {**roots, **sample, **self.charts.figures}.items():
            page.add_panel(name, root)
        texts = {f"page_{kind}": (_HERE / f"page.{kind}").read_text(encoding="utf-8") for kind in ("css", "js")}
        values = {"theme": self.settings.theme, "charts": TITLES, "token": self.token, "upload_bytes": MAX_BYTES}
        for name, value in {**texts, **values}.items():
            page.add_variable(name, value)
        return page

    def close(self) -> None:
        """End all that this page started; its finished run is kept for a reload."""
        self._doc = None
        for task in self._tasks.values():
            task.cancel()
        self.sample.halt()
        self.service.pages.pop(self.token, None)

    # ---- updates

    def schedule(self, action: Callable[..., None], *args: object) -> None:
        """Call `action(*args)` under the document's lock and send its changes together; from any thread."""

        def update() -> None:
            if (doc := self._doc) is not None:
                doc.hold("combine")  # Panel's own `hold` loses changes made while the browser draws the page
                try:
                    action(*args)
                finally:
                    doc.unhold()

        def enter() -> None:
            if self._doc is not None:
                self._doc.add_next_tick_callback(update)

        # by way of the loop: called inside an update, Bokeh would hold the new callback back with the other changes
        self.service.loop.add_callback(enter)

    def _follow(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` in place of the earlier one of this name."""
        if name in self._tasks:
            self._tasks[name].cancel()
        self._tasks[name] = asyncio.ensure_future(work)

    # ---- controls

    def _fields(self) -> Values:
        potential = Select(self, "potential", as_potential(self.settings.potential).name)
        parts: Values = {name: Select(self, name) for name in ("ensemble", "prior")} | {"potential": potential}
        for name in ("parameter0", "parameter1"):
            parts[name] = Field(self, name, read=partial(self._with_parameter, name))
        return parts | {name: Field(self, name, scale) for name, scale in scales(self.settings).items()}

    def _hidden(self, name: str, code: str = "", changed: Callable[[str], None] | None = None) -> pn.widgets.TextInput:
        """Return an invisible input: its value runs `code` in the browser, or is set there and passed to `changed`."""
        hidden = pn.widgets.TextInput(name=name, value="", visible=False, css_classes=[name])
        if code:
            hidden.jscallback(value=code)
        if changed is not None:
            hidden.param.watch(lambda event: self.schedule(changed, event.new), "value")
        return hidden

    def _tools(self) -> pn.Row:
        theme = Select(self, "theme").layout
        theme.param.update(width=90, sizing_mode=None, margin=0, css_classes=["field-theme"])
        theme.jscallback(value="window.setTheme(cb_obj.value)")
        link = pn.widgets.Button(name="Copy link", margin=(0, 0, 0, 8), stylesheets=[STYLES])
        copy = "navigator.clipboard && navigator.clipboard.writeText(location.href); cb_obj.label = 'Copied'"
        link.jscallback(clicks=f"{copy}; setTimeout(() => {{ cb_obj.label = 'Copy link' }}, 1500)")
        return pn.Row(theme, link, self.address, self.outdated, self.scheme, self.before, margin=0)

    def _with_parameter(self, name: str, text: str) -> tuple[str, str]:
        """Return the setting "potential" with one of its parameters replaced."""
        texts = {key: self.fields[key].accepted for key in ("parameter0", "parameter1")} | {name: text}
        return "potential", with_parameters(self.settings.potential, list(texts.values()))

    def _show_parameters(self) -> None:
        potential = as_potential(self.settings.potential)
        names = list(potential.parameters)
        for k in range(2):
            field = self.fields[f"parameter{k}"]
            field.layout.visible = k < len(names)
            if k < len(names):
                field.text.name = names[k]
                field.show("" if (value := potential.parameters[names[k]]) is None else float(value))
        self.fields["temperature"].layout.visible = not potential.athermal

    def refusals(self) -> list[str]:
        """Return a sentence for each visible field with a text that was refused."""
        return [
            f"{field.refusal} The page still shows {field.accepted}."
            for field in (*self.fields.values(), *self.sample.fields.values())
            if isinstance(field, Field) and field.refusal and field.layout.visible
        ]

    def refusals_changed(self) -> None:
        """Show which values are refused, and that the rest of the page is out of date."""
        self._show_summary()
        self.sample.settings_changed()

    # ---- what a change does

    def change(self, name: str, value: Any) -> None:
        before, self.settings = self.settings, self.settings.replace(name, value)
        if self.settings == before:
            return
        self._not_in_link = []
        self.address.value = f"?{self.settings.query()}"
        if name == "potential":
            self._show_parameters()
            if self.settings.temperature != before.temperature:
                self.fields["temperature"].show(self.settings.temperature)
        if name == "theme":
            self._set_theme()
        elif name in (*_THEORY, "alpha", "time"):
            self._follow("curves", self._compute_curves())
            if name != "time":
                self._follow("nearby", self._compute_nearby())
            if self.settings.theory != before.theory:
                self._new_target()
        self.sample.settings_changed()

    def _tapped(self, event: Any) -> None:
        self.fields["alpha"].type(f"{event.x:.4g}")
        self.fields["time"].type(f"{event.y:.3g}")

    # ---- curves, thresholds and the diagram

    async def _compute_curves(self) -> None:
        s, task = self.settings, asyncio.current_task()
        target, ensemble = s.theory
        slow = asyncio.get_running_loop().call_later(SLOW, self.schedule, self._show_computing)
        facts, failure = None, ""
        try:
            facts = await self.service.theory.ask(curves, target, s.alpha, s.time, ensemble)
        except Failure as error:
            failure = str(error)
        finally:
            slow.cancel()
        self.schedule(self._show_theory, task, facts, failure)

    def _show_theory(self, task: asyncio.Task[None], facts: Values | None, failure: str) -> None:
        if task is not self._tasks["curves"]:  # a later one has begun
            return
        self.facts, self.failure = facts, failure
        self.charts.show_curves(facts)
        self._show_summary()

    async def _compute_nearby(self) -> None:
        s, (target, ensemble) = self.settings, self.settings.theory
        self.schedule(self.charts.show_nearby, None)
        await asyncio.sleep(REST)  # as the diagram
        with suppress(Failure):
            found = await self.service.background.ask(nearby, target, s.alpha, ensemble)
            if (s.theory, s.alpha) == (self.settings.theory, self.settings.alpha):
                self.schedule(self.charts.show_nearby, found)

    def _show_summary(self) -> None:
        if self.facts is None and not self.failure:
            return
        colour, sentence, detail = "red", f"Theory has no curves at α = {self.settings.alpha:g}: {self.failure}", ""
        if self.facts is not None:
            colour, sentence, detail = verdict(self.facts, self.thresholds)
        detail = " ".join([detail, *(f"Not taken from the link: {refused}" for refused in self._not_in_link)])
        small = f"<small>{escape(detail)}</small>" if detail else ""
        refused = " ".join(self.refusals())
        note = f'<div class="outdated" role="status">{escape(refused)}</div>' if refused else ""
        self.outdated.value = "yes" if refused else ""
        self.verdict.object = f'{note}<div class="verdict {colour}" role="status">{escape(sentence)}{small}</div>'
        self.numbers.object = numbers(self.facts, self.thresholds, self.settings.ensemble)

    def _show_computing(self) -> None:
        if "pending" not in self.verdict.object:
            self.verdict.object = self.verdict.object.replace('class="verdict', 'class="verdict pending', 1)

    def _new_target(self) -> None:
        self.thresholds = None
        self.charts.show_diagram(None)
        self._show_summary()
        self._follow("diagram", self._compute_diagram(self.settings.theory))

    async def _compute_diagram(self, theory: tuple[str, str]) -> None:
        await asyncio.sleep(REST)  # not for every target that a moving slider passes
        try:
            async for diagram in diagrams(self.service.background, *theory):
                self.schedule(self._show_diagram, theory, diagram)
        except Failure:
            self.schedule(self._show_diagram, theory, None)

    def _show_diagram(self, theory: tuple[str, str], diagram: Diagram | None) -> None:
        if theory != self.settings.theory:
            return
        if diagram is None:
            self.thresholds = self.thresholds or {}
            self._show_summary()
            return
        if self.thresholds is None:
            self.thresholds = diagram.thresholds
            top = max(diagram.alphas[1], self.settings.alpha)
            self.fields["alpha"].rescale(Scale(0.001 * top, top), self.settings.alpha)
            self._show_summary()
        self.charts.show_diagram(diagram)

    def _set_theme(self) -> None:
        name = self.settings.theme
        self.charts.theme((self.scheme.value or "light") if name == "auto" else name)


class _Template(pn.Template):
    """A template that is built in half the time; the server answers nothing else meanwhile."""

    def __repr__(self, depth: int = 0) -> str:  # Panel calls it for every root, and would describe every widget
        return "Template()"

    def _init_doc(self, doc: Any, *args: object, **options: object) -> Any:
        with doc.models.freeze():  # else Bokeh collects all models again for every root
            return super()._init_doc(doc, *args, **options)


def make_page(service: Service) -> Callable[[], pn.Template]:

    def visit() -> pn.Template:
        query = {name: values[-1].decode("utf-8", "replace") for name, values in pn.state.session_args.items()}
        page = Page(service, query)
        pn.state.on_session_destroyed(lambda context: page.close())
        return page.view()

    return visit
