"""The controls of the page: each is dragged or typed, and says in its own place why a value is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import panel as pn

from solspace.explorer.state import Settings, parse

Changed = Callable[[str, Any], None]
"""Called with (field, value) when a user gives a value that is allowed."""
Soon = Callable[[Callable[[], None]], None]
"""Called with what is to be done at the page's next turn."""


@dataclass(frozen=True)
class Scale:
    """How a slider's position in [0, 1] and a value go together: value = low + (high - low) position^power."""

    low: float
    high: float
    power: float = 1.0
    logarithmic: bool = False

    def value(self, position: float) -> float:
        """Return the value at `position`, to three or four digits: nobody drags to more."""
        if self.logarithmic:
            exact = self.low * (self.high / self.low) ** position
        else:
            exact = self.low + (self.high - self.low) * position**self.power
        digits = 3 - math.floor(math.log10(max(abs(exact), 1e-3)))
        step = 1e-3 * (self.high - self.low)
        return round(exact, min(digits, max(0, math.ceil(-math.log10(step))) + (2 if self.power > 1 else 0)))

    def position(self, value: float) -> float:
        """Return where the slider stands at `value`, at an end if beyond."""
        inside = min(max(value, self.low), self.high)
        if self.logarithmic:
            return math.log(inside / self.low) / math.log(self.high / self.low)
        return ((inside - self.low) / (self.high - self.low)) ** (1 / self.power)


class _Typed(pn.widgets.TextInput):
    """A text that a browser tells once, by its new value, not a second time by Enter.

    The second time comes late, for a key is down for a while, and by a way of its own: Panel would write the typed text
    back into the page, at times after the text that was spelled as usual, and there it stayed.
    """

    def _process_event(self, event: object) -> None:
        """Enter tells nothing that the value does not."""


class Field:
    """A value that is typed, with a slider where it has a `scale`, and a line for a sentence.

    What was typed is spelled as usual at the page's next turn: while a field tells its new text it hears no other.
    """

    def __init__(
        self,
        name: str,
        label: str,
        value: Any,
        changed: Changed,
        soon: Soon,
        styles: str,
        scale: Scale | None = None,
        read: Callable[[str], object] | None = None,
    ) -> None:
        self.name, self.changed, self.soon, self.scale = name, changed, soon, scale
        self._read = read or partial(parse, name)
        self._quiet = False
        self.refusal, self.accepted = "", _shown(value)
        self.on_refusal: Callable[[], None] = lambda: None
        self.text = _Typed(
            name=label, value=_shown(value), width=None, sizing_mode="stretch_width", stylesheets=[styles],
            css_classes=["typed", f"field-{name}"], margin=(4, 0, 0, 0),
        )  # fmt: skip
        self.message = pn.pane.HTML("", margin=0, sizing_mode="stretch_width", stylesheets=[styles], visible=False)
        self.text.param.watch(self._typed, "value")
        parts: list[Any] = [self.text]
        self.slider = None
        if scale is not None:
            self.slider = pn.widgets.FloatSlider(
                name=label, start=0.0, end=1.0, step=0.001, value=scale.position(value), show_value=False,
                tooltips=False, width=None, sizing_mode="stretch_width", stylesheets=[styles], margin=(0, 8, 0, 8),
                css_classes=["dragged", f"slider-{name}"],
            )  # fmt: skip
            self.slider.param.watch(self._dragged, "value")
            parts.append(self.slider)
        self.layout = pn.Column(*parts, self.message, margin=0, sizing_mode="stretch_width")

    def show(self, value: Any) -> None:
        """Show `value` without calling anyone."""
        self._quiet = True
        self.text.value = self.accepted = _shown(value)
        if self.slider is not None and self.scale is not None:
            self.slider.value = self.scale.position(value)
        self._quiet = False
        self.refuse("")

    def rescale(self, scale: Scale, value: float) -> None:
        """Give the slider another range."""
        self.scale = scale
        self._quiet = True
        if self.slider is not None:
            self.slider.value = scale.position(value)
        self._quiet = False

    def refuse(self, sentence: str) -> None:
        """Say `sentence` below the field; nothing if empty."""
        if sentence == self.refusal:
            return
        self.refusal = sentence
        self.message.object = f'<div class="refused" role="alert">{escape(sentence)}</div>' if sentence else ""
        self.message.visible = bool(sentence)
        self.on_refusal()

    def _typed(self, event: Any) -> None:
        if not self._quiet:
            self.type(event.new)

    def type(self, text: str) -> None:
        """Do what typing `text` does."""
        try:
            value = self._read(text)
        except ValueError as error:
            self.soon(partial(self.refuse, str(error)))
            return
        self.soon(partial(self.show, value))
        self.changed(self.name, value)

    def _dragged(self, event: Any) -> None:
        if self._quiet or self.scale is None:
            return
        value = self.scale.value(event.new)
        self._quiet = True
        self.text.value = self.accepted = _shown(value)
        self._quiet = False
        self.refuse("")
        self.changed(self.name, value)


class Choice:
    """One of a few names."""

    def __init__(
        self,
        name: str,
        label: str,
        options: Sequence[str] | Mapping[str, str],
        value: str,
        changed: Changed,
        styles: str,
    ) -> None:
        self.name, self.changed = name, changed
        self._quiet = False
        self.layout = pn.widgets.Select(
            name=label, options=options, value=value, width=None, sizing_mode="stretch_width", stylesheets=[styles],
            css_classes=["chosen", f"field-{name}"], margin=(4, 0, 0, 0),
        )  # fmt: skip
        self.layout.param.watch(self._chosen, "value")

    def show(self, value: str) -> None:
        """Show `value` without calling anyone."""
        self._quiet = True
        self.layout.value = value
        self._quiet = False

    def _chosen(self, event: Any) -> None:
        if not self._quiet:
            self.changed(self.name, event.new)


def scales(settings: Settings) -> dict[str, Scale]:
    """Return the ranges of the sliders before thresholds are known."""
    top = 1.0 if settings.prior == "binary" else max(3.0, 2 * settings.alpha)
    return {
        "alpha": Scale(0.001, max(top, settings.alpha)),
        "margin": Scale(-3.0, 1.0),
        "temperature": Scale(0.05, 5.0, logarithmic=True),
        "time": Scale(0.0, 100.0, power=4.0),
    }


def _shown(value: object) -> str:
    return f"{value:.10g}" if isinstance(value, float) else str(value)
