"""The two looks of the charts: a role of each thing drawn, and a colour of each role."""

from __future__ import annotations

from collections.abc import Mapping

from bokeh.models import GlyphRenderer, Span
from bokeh.plotting import figure

_ROLES = ("panel", "ink", "soft", "line", "theory", "seen", "second")
PALETTES = {
    "light": dict(zip(_ROLES, ("#f5f7f9", "#1f2933", "#5b6673", "#d5dbe1", "#c8372d", "#3b6fb6", "#8a5a00"))),
    "dark": dict(zip(_ROLES, ("#1c2229", "#e8ecf1", "#a3aebb", "#39424d", "#ff8a7a", "#7fb0f5", "#e3b04b"))),
}


def paint(plot: figure, theme: str) -> None:
    """Colour a chart for a light or a dark page; a renderer's name is its role."""
    colours = PALETTES[theme]
    plot.background_fill_color = plot.border_fill_color = colours["panel"]
    plot.outline_line_color = colours["line"]
    if "border_line_color" in plot.properties():  # newer Bokeh: else half a pixel of its white canvas shows
        plot.border_line_color, plot.border_line_width = colours["panel"], 2
    for axis in plot.axis:
        axis.axis_label_text_color = axis.major_label_text_color = colours["soft"]
        axis.axis_line_color = axis.major_tick_line_color = axis.minor_tick_line_color = colours["soft"]
        axis.axis_label_text_font_style = "normal"
    plot.grid.grid_line_color = colours["line"]
    plot.grid.grid_line_alpha = 0.6
    for legend in plot.legend:
        legend.background_fill_alpha = 0.0
        legend.border_line_color = None
        legend.label_text_color = colours["ink"]
        legend.label_text_font_size = "11px"
        legend.padding, legend.margin, legend.spacing = 4, 4, 0
    for renderer in plot.renderers:
        _paint(renderer, colours)
    for span in plot.select(Span):
        span.line_color = colours["soft"]


def _paint(renderer: GlyphRenderer, colours: Mapping[str, str]) -> None:
    glyph, role = renderer.glyph, renderer.name
    if role in ("theory", "seen", "second"):
        glyph.line_color = colours[role]
        if hasattr(glyph, "fill_color"):
            glyph.fill_color = colours[role]
    elif role == "bars":
        glyph.fill_color = colours["seen"]
    elif role == "mark":
        glyph.line_color = colours["ink"]
