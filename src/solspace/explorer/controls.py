"""The controls of the page: each is dragged, typed or chosen, and shows below why a value is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import panel as pn

from solspace.explorer.settings import Settings, parse

if TYPE_CHECKING:
    from solspace.explorer.page import Page

STYLES = (files("solspace.explorer") / "widgets.css").read_text(encoding="utf-8")
_WIDE: dict[str, Any] = {"width": None, "sizing_mode": "stretch_width", "stylesheets": [STYLES]}


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
        "alpha": Scale(0.001, max(top, settings.alpha)),
        "margin": Scale(-3.0, 1.0),
        "temperature": Scale(0.05, 5.0, logarithmic=True),
        "time": Scale(0.0, 100.0, power=4.0),
    }


def html_pane() -> pn.pane.HTML:
    """Return an empty pane for HTML, styled as the rest of the page."""
    return pn.pane.HTML("", sizing_mode="stretch_width", margin=0, stylesheets=[STYLES])


class _TextInput(pn.widgets.TextInput):
    """A text input that ignores the event of the Enter key.

    That event arrives after the new value, and Panel would write the text as it was typed back into the page.
    """

    def _process_event(self, event: object) -> None:
        pass


class Field:
    """A text input, with a slider if it has a `scale`, and a line that says why a text is refused.

    A new value is passed to `changed`, the page's own method by default. The text is normalized in an update of the
    page, since a text input ignores assignments while it reports its new value.
    """

    def __init__(
        self,
        page: Page,
        name: str,
        label: str,
        value: Any,
        scale: Scale | None = None,
        read: Callable[[str], object] | None = None,
        changed: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.page, self.name, self.scale = page, name, scale
        self.read, self.changed = read or partial(parse, name), changed or page.changed
        self.refusal, self.accepted = "", _text(value)
        self._silent = False
        self.text = _TextInput(
            name=label, value=self.accepted, css_classes=["typed", f"field-{name}"], margin=(4, 0, 0, 0), **_WIDE
        )
        self.text.param.watch(self._typed, "value")
        self.message = html_pane()
        self.slider = None
        if scale is not None:
            self.slider = pn.widgets.FloatSlider(
                name=label, start=0.0, end=1.0, step=0.001, value=scale.position(value), show_value=False,
                tooltips=False, margin=(0, 8, 0, 8), css_classes=["dragged", f"slider-{name}"], **_WIDE,
            )  # fmt: skip
            self.slider.param.watch(self._dragged, "value")
        parts = [part for part in (self.text, self.slider, self.message) if part is not None]
        self.layout = pn.Column(*parts, margin=0, sizing_mode="stretch_width")

    def show(self, value: Any) -> None:
        """Show `value` without reporting a change."""
        self._show_text(value)
        self.rescale(self.scale, value)
        self.refuse("")

    def rescale(self, scale: Scale | None, value: float) -> None:
        """Set the range of the slider."""
        self.scale, self._silent = scale, True
        if self.slider is not None and scale is not None:
            self.slider.value = scale.position(value)
        self._silent = False

    def refuse(self, sentence: str) -> None:
        """Show `sentence` below the field, or nothing if it is empty."""
        if sentence != self.refusal:
            self.refusal = sentence
            self.message.object = f'<div class="refused" role="alert">{escape(sentence)}</div>' if sentence else ""
            self.page.refusals_changed()

    def type(self, text: str) -> None:
        """Do what typing `text` does."""
        try:
            value = self.read(text)
        except ValueError as error:
            self.page.schedule(self.refuse, str(error))
            return
        self.page.schedule(self.show, value)
        self.changed(self.name, value)

    def _typed(self, event: Any) -> None:
        if not self._silent:
            self.type(event.new)

    def _dragged(self, event: Any) -> None:
        if not self._silent and self.scale is not None:
            value = self.scale.value(event.new)
            self._show_text(value)
            self.page.schedule(self.refuse, "")
            self.changed(self.name, value)

    def _show_text(self, value: Any) -> None:
        self._silent = True
        self.text.value = self.accepted = _text(value)
        self._silent = False


class Choice:
    """One of a few names."""

    def __init__(
        self,
        page: Page,
        name: str,
        label: str,
        options: Sequence[str] | Mapping[str, str],
        value: str,
        changed: Callable[[str, Any], None] | None = None,
    ) -> None:
        self.layout = pn.widgets.Select(
            name=label, options=options, value=value, css_classes=["chosen", f"field-{name}"], margin=(4, 0, 0, 0),
            **_WIDE,
        )  # fmt: skip
        self.layout.param.watch(lambda event: (changed or page.changed)(name, event.new), "value")


def _text(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
