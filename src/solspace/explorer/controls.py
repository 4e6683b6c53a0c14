"""The controls of the page: each is dragged, typed or chosen, and shows below why a value is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import panel as pn

from solspace.explorer.settings import CHOICES, NUMBERS, Settings, parse

if TYPE_CHECKING:
    from solspace.explorer.page import Page

STYLES = (files("solspace.explorer") / "widgets.css").read_text(encoding="utf-8")
_LOOK: dict[str, Any] = {"width": None, "sizing_mode": "stretch_width", "stylesheets": [STYLES], "margin": (4, 0, 0, 0)}


@dataclass(frozen=True)
class Scale:
    """The map from a slider's position in [0, 1] to a value, low + (high - low) position^power or logarithmic."""

    low: float
    high: float
    power: float = 1.0
    logarithmic: bool = False

    def value(self, position: float) -> float:
        """Return the value at `position`, rounded to four digits."""
        if self.logarithmic:
            exact = self.low * (self.high / self.low) ** position
        else:
            exact = self.low + (self.high - self.low) * position**self.power
        return round(float(f"{exact:.4g}"), 6)

    def position(self, value: float) -> float:
        """Return the position of `value`, clipped to the ends."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return ((inside - self.low) / (self.high - self.low)) ** (1 / self.power)


def scales(settings: Settings) -> dict[str, Scale]:
    """Return the ranges of the sliders before thresholds are known."""
    top = 1.0 if settings.prior == "binary" else max(3.0, 2 * settings.alpha)
    return {
        "temperature": Scale(0.05, 5.0, logarithmic=True),
        "margin": Scale(-3.0, 1.0),
        "alpha": Scale(0.001, max(top, settings.alpha)),
        "time": Scale(0.0, 100.0, power=4.0),
    }


def html_pane() -> pn.pane.HTML:
    return pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[STYLES])


class _TextInput(pn.widgets.TextInput):
    """A text input that ignores the event of the Enter key.

    That event arrives after the new value, and Panel would write the text as it was typed back into the page.
    """

    def _process_event(self, event: object) -> None:
        pass


class Field:
    """A text input, with a slider if it has a `scale`, and a line that states why a text is refused.

    `read` returns which setting a text changes, and its new value; by default that of the setting `name`. The text is
    normalized in an update of the page, since a text input ignores assignments while it reports its new value.
    """

    def __init__(
        self,
        page: Page,
        name: str,
        scale: Scale | None = None,
        read: Callable[[str], tuple[str, Any]] | None = None,
    ) -> None:
        self.page, self.name, self.scale = page, name, scale
        self.read = read or (lambda text: (name, parse(name, text)))
        value: Any = getattr(page.settings, name, "")
        label = NUMBERS[name].label if name in NUMBERS else name
        self.refusal, self.accepted, self._silent = "", _text(value), False
        self.text = _TextInput(name=label, value=self.accepted, css_classes=["typed", f"field-{name}"], **_LOOK)
        self.text.param.watch(self._typed, "value")
        self.message = html_pane()
        self.layout = pn.Column(self.text, self.message, margin=0, sizing_mode="stretch_width")
        if scale is not None:
            look = {**_LOOK, "margin": (0, 8, 0, 8), "css_classes": [f"slider-{name}"], "tooltips": False}
            self.slider = pn.widgets.FloatSlider(name=label, end=1.0, step=0.001, show_value=False, **look)
            self.slider.value = scale.position(value)
            self.slider.param.watch(self._dragged, "value")
            self.layout.insert(1, self.slider)

    def show(self, value: Any) -> None:
        """Show `value` without reporting a change."""
        self._show_text(value)
        if self.scale is not None:
            self.rescale(self.scale, value)
        self.refuse("")

    def rescale(self, scale: Scale, value: float) -> None:
        self.scale, self._silent = scale, True
        self.slider.value = scale.position(value)
        self._silent = False

    def refuse(self, sentence: str) -> None:
        """Show `sentence` below the field, or nothing if it is empty."""
        if sentence != self.refusal:
            self.refusal = sentence
            self.message.object = f'<div class="refused" role="alert">{escape(sentence)}</div>' if sentence else ""
            self.page.refusals_changed()

    def type(self, text: str) -> None:
        try:
            setting, value = self.read(text)
        except ValueError as error:
            self.page.schedule(self.refuse, str(error))
        else:
            self.page.schedule(self.show, value if setting == self.name else text)
            self.page.schedule(self.page.change, setting, value)

    def _typed(self, event: Any) -> None:
        if not self._silent:
            self.type(event.new)

    def _dragged(self, event: Any) -> None:
        if not self._silent and self.scale is not None:
            value = self.scale.value(event.new)
            self._show_text(value)
            self.page.schedule(self.refuse, "")
            self.page.schedule(self.page.change, self.name, value)

    def _show_text(self, value: Any) -> None:
        self._silent = True
        self.text.value = self.accepted = _text(value)
        self._silent = False


class Select:
    """A setting with a few values, shown by their labels; `value` is the first one, by default that of the page."""

    def __init__(self, page: Page, name: str, value: str = "") -> None:
        choice, classes = CHOICES[name], ["chosen", f"field-{name}"]
        value = value or getattr(page.settings, name)
        self.layout = pn.widgets.Select(
            name=choice.label, options=dict(choice.values), value=value, css_classes=classes, **_LOOK
        )
        self.layout.param.watch(lambda event: page.schedule(page.change, name, parse(name, event.new)), "value")


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
