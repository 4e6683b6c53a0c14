"""One visitor's page: controls on the left, a verdict on top, charts on the right, and what happens when one is moved.

The page holds a `Settings` value. A move makes a new one, puts it into the URL and asks the shared workers for the
curves; the answer is drawn when it comes, unless the slider has moved on. Thresholds and the t–α diagram follow in the
background, column by column. Moves and answers alike wait for a turn of the page (see `turns`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import panel as pn
from bokeh.events import Tap

from solspace.explorer import tables
from solspace.explorer.charts import Charts
from solspace.explorer.controls import Choice, Field, Scale, scales
from solspace.explorer.diagram import Diagram
from solspace.explorer.running import Running
from solspace.explorer.state import THEMES, Settings, offered, parse, with_parameters
from solspace.explorer.turns import Turns
from solspace.explorer.uploads import MAX_BYTES
from solspace.explorer.verdict import verdict
from solspace.measure import Target
from solspace.measure.potentials import as_potential
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.server import Service

_HERE = files("solspace.explorer")
STYLES = (_HERE / "widgets.css").read_text(encoding="utf-8")
_TITLES = {
    "free_entropy": "Free entropy φₜ(q): samples sit at its highest maximum",
    "localization": "F(q): the time at which overlap q is stationary",
    "path": "Overlap q(t) along localization",
    "stabilities": "Stabilities P(s) of fair samples",
    "diagram": "One maximum (green), a second one (yellow), a higher one (red), replica symmetry broken (grey)",
    "overlaps": "Overlaps of pairs of samples, and theory's r",
    "annealing": "Annealing: energy and violated constraints, mean over chains",
}
_FLAT = ("uniform", "band")
"""Potentials that temperature does not touch."""
SLOW = 400
"""Milliseconds after which a page says that it is computing."""
RESTS = 600
"""Milliseconds after which a slider is taken to be at rest."""


class Page:
    """The session of one visitor."""

    def __init__(self, service: Service, query: dict[str, str]) -> None:
        self.service = service
        self.settings, self._refused = Settings.from_query(query)
        self.token = service.register(self)
        self.turns = Turns(pn.state.curdoc, service.loop)
        self.charts = Charts()
        self.verdict = pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[STYLES])
        self.numbers = pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[STYLES])
        self.fields = self._fields()
        self.facts: Values | None = None
        self.failure = ""
        self.thresholds: Values | None = None
        self._pending = 0
        self.diagram = Diagram(service.background, self.token, self.turns.soon, self._diagram_grew)
        self.running = Running(self, STYLES)
        self.address = pn.widgets.TextInput(value="", visible=False)
        self.address.jscallback(value="history.replaceState(null, '', cb_obj.value || location.pathname)")
        self.scheme = pn.widgets.TextInput(name="scheme", value="light", visible=False, css_classes=["scheme"])
        self.scheme.param.watch(lambda event: self.turns.soon(self._set_theme), "value")
        self.before = pn.widgets.TextInput(name="before", value="", visible=False, css_classes=["before"])
        self.before.param.watch(lambda event: self.turns.soon(partial(self.running.restore, event.new)), "value")
        self.stale = pn.widgets.TextInput(name="stale", value="", visible=False)
        self.stale.jscallback(value="document.documentElement.dataset.stale = cb_obj.value")
        for field in self._typed_fields():
            field.on_refusal = self._refusals_changed
        self.running.settings_changed()
        self.charts.diagram.on_event(Tap, self._tapped)
        self._show_parameters()
        self._set_theme()
        self._ask()
        self._new_target()

    def view(self) -> pn.Template:
        """Return the page."""
        page = _Template((_HERE / "page.html").read_text(encoding="utf-8"))
        for name, root in {
            "tools": self._tools(), "verdict": self.verdict, "controls": self._controls(), "numbers": self.numbers,
            "run": self.running.controls, "upload": self.running.upload, "outcome": self.running.outcome,
            **self.charts.figures,
        }.items():  # fmt: skip
            page.add_panel(name, root)
        for name, value in {
            "page_css": (_HERE / "page.css").read_text(encoding="utf-8"),
            "page_js": (_HERE / "page.js").read_text(encoding="utf-8"),
            "theme": self.settings.theme, "charts": _TITLES,
            "token": self.token, "upload_limit": f"{MAX_BYTES // 2**20} MiB",
            "upload_bytes": MAX_BYTES,
        }.items():  # fmt: skip
            page.add_variable(name, value)
        return page

    def close(self) -> None:
        """End everything this page started."""
        self.turns.close()
        self.service.theory.drop(self.token)
        self.service.background.drop(self.token)
        self.running.close()
        self.service.forget(self.token)

    # ---- controls

    def _fields(self) -> Values:
        s, ranges = self.settings, scales(self.settings)
        parts: Values = {
            "prior": Choice("prior", "weights", {"binary (±1)": "binary", "spherical": "spherical"}, s.prior,
                            self.changed, STYLES),
            "potential": Choice("potential", "potential U(s)", offered(), as_potential(s.potential).name,
                                self._potential_chosen, STYLES),
        }  # fmt: skip
        for k in range(2):
            parts[f"parameter{k}"] = Field(
                f"parameter{k}",
                f"parameter {k + 1}",
                "",
                self._parameter_typed,
                self.turns.soon,
                STYLES,
                read=partial(self._read_parameter, f"parameter{k}"),
            )
        for name, label in {"temperature": "temperature T", "margin": "margin κ", "alpha": "load α = M/N",
                            "time": "time t"}.items():  # fmt: skip
            parts[name] = Field(name, label, getattr(s, name), self.changed, self.turns.soon, STYLES, ranges[name])
        return parts

    def _controls(self) -> pn.Column:
        return pn.Column(*(part.layout for part in self.fields.values()), margin=0, sizing_mode="stretch_width")

    def _tools(self) -> pn.Row:
        self.theme = pn.widgets.Select(
            name="", options=list(THEMES), value=self.settings.theme, width=90, margin=0, stylesheets=[STYLES],
            css_classes=["field-theme"],
        )  # fmt: skip
        self.theme.param.watch(lambda event: self.changed("theme", event.new), "value")
        self.theme.jscallback(value=(
            "document.documentElement.dataset.chosen = cb_obj.value !== 'auto' ? '1' : '';"
            "document.documentElement.dataset.theme = cb_obj.value !== 'auto' ? cb_obj.value : "
            "matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light'"
        ))  # fmt: skip
        link = pn.widgets.Button(name="Copy link", margin=(0, 0, 0, 8), stylesheets=[STYLES])
        link.jscallback(clicks=(
            "navigator.clipboard && navigator.clipboard.writeText(location.href);"
            "cb_obj.label = 'Copied'; setTimeout(() => { cb_obj.label = 'Copy link' }, 1500)"
        ))  # fmt: skip
        return pn.Row(self.theme, link, self.address, self.scheme, self.before, self.stale, margin=0)

    def _potential_chosen(self, name: str, value: str) -> None:
        self.changed("potential", parse("potential", value))

    def _with_parameter(self, name: str, text: str) -> str:
        texts = {f"parameter{k}": self.fields[f"parameter{k}"].accepted for k in range(2)} | {name: text}
        return with_parameters(self.settings.potential, list(texts.values()))

    def _read_parameter(self, name: str, text: str) -> str:
        self._with_parameter(name, text)
        return text

    def _parameter_typed(self, name: str, text: str) -> None:
        self.changed("potential", self._with_parameter(name, text))

    def _show_parameters(self) -> None:
        potential = as_potential(self.settings.potential)
        for k in range(2):
            field, names = self.fields[f"parameter{k}"], list(potential.parameters)
            field.layout.visible = k < len(names)
            if k < len(names):
                field.text.name = names[k]
                field.show("" if (value := potential.parameters[names[k]]) is None else float(value))
        self.fields["temperature"].layout.visible = potential.name not in _FLAT

    # ---- refused values

    def _typed_fields(self) -> list[Field]:
        return [field for field in (*self.fields.values(), *self.running.fields.values()) if isinstance(field, Field)]

    def refusals(self) -> list[str]:
        """Return a sentence for each visible field whose text is not a value that the page shows."""
        return [
            f"{field.refusal} The page still shows {field.accepted}."
            for field in self._typed_fields()
            if field.refusal and field.layout.visible
        ]

    def _refusals_changed(self) -> None:
        self._show_words()
        self.running.settings_changed()

    # ---- what a change does

    def changed(self, name: str, value: object) -> None:
        """Take over a new value of one field at the page's next turn."""
        self.turns.soon(partial(self._change, name, value))

    def _change(self, name: str, value: Any) -> None:
        before, self.settings = self.settings, replace(self.settings, **{name: value})
        if self.settings == before:
            return
        self._refused = []
        self.address.value = f"?{self.settings.query()}"
        if name == "potential":
            self._show_parameters()
        if name == "theme":
            self._set_theme()
        elif name in ("alpha", "time", "prior", "potential", "temperature", "margin"):
            self._ask()
            if self.settings.target != before.target:
                self._new_target()
        self.running.settings_changed()

    def _tapped(self, event: Any) -> None:
        """Go to the point of the t–α diagram that was touched."""
        for name, value in (("alpha", f"{event.x:.4g}"), ("time", f"{event.y:.3g}")):
            self.fields[name].type(value)

    def _ask(self) -> None:
        s = self.settings
        self._pending += 1
        question = (s.target.to_json(), s.alpha, s.time)
        self.service.theory.ask(self.token, "curves", question, partial(self._answered, self._pending))
        self.turns.after(SLOW, partial(self._say_computing, self._pending))

    def _answered(self, number: int, kind: str, value: object) -> None:
        self.turns.soon(partial(self._show_theory, number, kind, value))

    def _show_theory(self, number: int, kind: str, value: Any) -> None:
        if number != self._pending:
            return
        self._pending += 1
        if kind == "failed":
            self.facts, self.failure = None, value
            self.charts.clear_curves()
        else:
            self.facts, self.failure = value, ""
            self.charts.show_curves(value)
        self._show_words()
        self.running.settings_changed()

    def _show_words(self) -> None:
        if self.facts is not None:
            said = verdict(self.facts, self.thresholds)
            self._say(said.colour, said.sentence, " ".join([said.detail, *self._link_notes()]))
        elif self.failure:
            self._say("red", f"Theory has no curves at α = {self.settings.alpha:g}: {self.failure}", "")
        else:
            return
        self.numbers.object = tables.numbers(self.facts, self.thresholds)

    def _link_notes(self) -> list[str]:
        return [f"Not taken from the link: {sentence}" for sentence in self._refused]

    def _say(self, colour: str, sentence: str, detail: str) -> None:
        small = f"<small>{escape(detail)}</small>" if detail else ""
        refused = self.refusals()
        self.stale.value = "yes" if refused else ""
        note = f'<div class="outdated" role="status">{escape(" ".join(refused))}</div>' if refused else ""
        self.verdict.object = f'{note}<div class="verdict {colour}" role="status">{escape(sentence)}{small}</div>'

    def _say_computing(self, number: int) -> None:
        if number == self._pending and "pending" not in self.verdict.object:
            self.verdict.object = self.verdict.object.replace('class="verdict', 'class="verdict pending', 1)

    # ---- thresholds and the diagram

    def _new_target(self) -> None:
        self.thresholds = None
        self.charts.clear_diagram()
        self._show_words()
        self.diagram.target = ""
        # a slider under way asks for every target it passes; only where it rests is worth a diagram
        self.turns.after(RESTS, partial(self._start_diagram, self.settings.target))

    def _start_diagram(self, target: Target) -> None:
        if target == self.settings.target and self.diagram.target == "":
            self.diagram.follow(target)

    def _diagram_grew(self, diagram: Diagram) -> None:
        if diagram.thresholds is not None and diagram.thresholds is not self.thresholds:
            self.thresholds = diagram.thresholds
            top = max(diagram.alphas[1], self.settings.alpha)
            self.fields["alpha"].rescale(Scale(0.001 * top, top), self.settings.alpha)
            self._show_words()
            self.running.settings_changed()
        self.charts.show_diagram(diagram)

    # ---- appearance

    def _set_theme(self) -> None:
        name = self.settings.theme
        self.charts.theme(self.scheme.value if name == "auto" else name)


class _Template(pn.Template):
    """A template that is put into its document in half the time: other visitors wait while one opens the page."""

    def __repr__(self, depth: int = 0) -> str:  # Panel asks for it at every root, and spells out every widget
        return "Template()"

    def _init_doc(self, doc: Any = None, *args: object, **options: object) -> Any:
        doc = doc or pn.state.curdoc
        if doc is None:
            return super()._init_doc(doc, *args, **options)
        with doc.models.freeze():  # else every root makes Bokeh look at all models again
            return super()._init_doc(doc, *args, **options)


def make_page(service: Service) -> Callable[[], pn.Template]:
    """Return the function that Panel calls for every visitor."""

    def visit() -> pn.Template:
        query = {name: values[-1].decode("utf-8", "replace") for name, values in pn.state.session_args.items()}
        page = Page(service, query)
        pn.state.on_session_destroyed(lambda context: page.close())
        return page.view()

    return visit
