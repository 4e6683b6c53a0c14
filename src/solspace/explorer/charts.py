"""The charts of the page, in Bokeh: φ_t(q), F(q), q(t), P(s), the t–α diagram, and what an annealed run does.

A chart takes arrays that theory or a sampler made and shows them; both themes change colours only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from bokeh.models import (
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    CustomJS,
    DataRange1d,
    LinearAxis,
    Range1d,
    Span,
)
from bokeh.plotting import figure

if TYPE_CHECKING:
    from solspace.explorer.diagram import Diagram

REGIME = {"green": "#2f9e5f", "yellow": "#e0a800", "red": "#d63a32"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""
_ROLES = ("panel", "ink", "soft", "line", "theory", "seen", "second")
PALETTES = {
    "light": dict(zip(_ROLES, ("#f5f7f9", "#1f2933", "#5b6673", "#d5dbe1", "#c8372d", "#3b6fb6", "#8a5a00"))),
    "dark": dict(zip(_ROLES, ("#1c2229", "#e8ecf1", "#a3aebb", "#39424d", "#ff8a7a", "#7fb0f5", "#e3b04b"))),
}
HEIGHT = 270
T_RANGE = (1e-3, 30.0)
"""Times shown on logarithmic axes."""

Data = Mapping[str, Any]


class Charts:
    """All charts of one page and the data they show."""

    def __init__(self) -> None:
        self.data = {
            name: ColumnDataSource({c: [] for c in columns.split()})
            for name, columns in {
                "phi": "q phi", "tops": "q phi colour name", "f": "q rising falling", "low": "t q", "high": "t q",
                "here": "t q colour", "density": "s p", "bars": "left right top", "seen": "t q",
                "lines": "alpha bottom top first maxwell last", "point": "alpha t colour", "energy": "sweep energy",
                "missed": "sweep violations",
            }.items()
        }  # fmt: skip
        self.free_entropy = self._free_entropy()
        self.localization = self._localization()
        self.path = self._path()
        self.stabilities = self._stabilities()
        self.diagram = self._diagram()
        self.annealing = self._annealing()
        self.figures = {
            "free_entropy": self.free_entropy, "localization": self.localization, "path": self.path,
            "stabilities": self.stabilities, "diagram": self.diagram, "annealing": self.annealing,
        }  # fmt: skip
        self.clear_run()
        self.theme("light")

    def _figure(self, x: str, y: str, **options: Any) -> figure:
        plot = figure(
            height=HEIGHT, sizing_mode="stretch_width", tools="pan,wheel_zoom,box_zoom,reset,save",
            active_drag=None, active_scroll=None, x_axis_label=x, y_axis_label=y, **options,
        )  # fmt: skip
        plot.toolbar.logo = None
        plot.toolbar.autohide = True
        plot.min_border_right = 12
        return plot

    def _free_entropy(self) -> figure:
        plot = self._figure("overlap q", "φₜ(q) − φₜ(r)")
        plot.line("q", "phi", source=self.data["phi"], line_width=2, name="theory")
        plot.scatter(
            "q", "phi", source=self.data["tops"], size=13, fill_color="colour", line_width=1.5, name="mark",
            legend_group="name",
        )  # fmt: skip
        plot.y_range = Range1d(-1, 1)
        plot.yaxis.formatter = BasicTickFormatter(power_limit_low=-4)
        plot.legend.location = "bottom_left"
        return plot

    def _localization(self) -> figure:
        plot = self._figure("overlap q", "time t")
        plot.line("q", "rising", source=self.data["f"], line_width=2, name="theory", legend_label="maximum of φₜ")
        plot.line(
            "q", "falling", source=self.data["f"], line_width=2, line_dash="dotted", name="theory",
            legend_label="minimum",
        )  # fmt: skip
        self.clock = Span(location=1.0, dimension="width", line_dash="dashed", line_width=1.5)
        plot.add_layout(self.clock)
        plot.y_range = Range1d(0, 1)
        plot.legend.location = "top_left"
        return plot

    def _path(self) -> figure:
        plot = self._figure("time t", "overlap q", x_axis_type="log")
        plot.line("t", "q", source=self.data["low"], line_width=2, name="theory", legend_label="theory, low start")
        plot.line(
            "t", "q", source=self.data["high"], line_width=2, line_dash="dotted", name="theory",
            legend_label="high start",
        )  # fmt: skip
        plot.scatter("t", "q", source=self.data["seen"], size=6, name="seen", legend_label="this run")
        plot.scatter("t", "q", source=self.data["here"], size=12, fill_color="colour", line_width=1.5, name="mark")
        plot.x_range = Range1d(*T_RANGE)
        plot.y_range = Range1d(0, 1.03)
        plot.legend.location = "bottom_right"
        return plot

    def _stabilities(self) -> figure:
        plot = self._figure("stability s", "density")
        plot.quad(
            "left", "right", "top", 0, source=self.data["bars"], name="bars", fill_alpha=0.55, line_alpha=0.0,
            legend_label="this run",
        )  # fmt: skip
        plot.line("s", "p", source=self.data["density"], line_width=2, name="theory", legend_label="theory")
        self.margin = Span(location=0.0, dimension="height", line_dash="dashed", line_width=1)
        plot.add_layout(self.margin)
        plot.y_range = DataRange1d(start=0)
        plot.legend.location = "top_right"
        return plot

    def _diagram(self) -> figure:
        plot = self._figure("load α", "time t", y_axis_type="log")
        lines = self.data["lines"]
        plot.varea("alpha", "bottom", "top", source=lines, fill_color=REGIME["green"], fill_alpha=0.15)
        for low, high, name in (("first", "maxwell", "yellow"), ("maxwell", "last", "red")):
            plot.varea("alpha", low, high, source=lines, fill_color=REGIME[name], fill_alpha=0.75)
        self.unstable = BoxAnnotation(left=0, fill_color="#808080", fill_alpha=0.35, line_color=None, visible=False)
        plot.add_layout(self.unstable)
        plot.scatter("alpha", "t", source=self.data["point"], size=13, fill_color="colour", line_width=2, name="mark")
        plot.y_range = Range1d(*T_RANGE)
        plot.x_range = Range1d(0, 1)
        self.frontier = Span(location=None, dimension="height", line_dash="dashed", line_width=1.5)
        plot.add_layout(self.frontier)
        return plot

    def _annealing(self) -> figure:
        plot = self._figure("sweep", "energy per weight")
        plot.line("sweep", "energy", source=self.data["energy"], line_width=2, name="seen", legend_label="energy")
        plot.extra_y_ranges = {"missed": DataRange1d(start=0)}
        plot.add_layout(LinearAxis(y_range_name="missed", axis_label="violated constraints"), "right")
        plot.line(
            "sweep", "violations", source=self.data["missed"], line_width=2, line_dash="dashed", name="second",
            y_range_name="missed", legend_label="violated",
        )  # fmt: skip
        plot.extra_y_ranges["missed"].renderers = [plot.renderers[-1]]
        plot.y_range.renderers = [plot.renderers[0]]
        plot.legend.location = "top_right"
        show = CustomJS(code="document.getElementById('card-annealing').hidden = !cb_obj.visible")
        plot.js_on_change("visible", show)
        return plot

    def show_curves(self, curves: Data) -> None:
        """Show what theory says at one (target, α, t)."""
        colour = REGIME[curves["regime"]]
        self.data["phi"].data = {"q": curves["q"], "phi": curves["phi"]}
        tops = curves["tops"]
        self.data["tops"].data = {
            "q": [top["q"] for top in tops], "phi": [top["phi"] for top in tops], "name": [top["name"] for top in tops],
            "colour": [colour] * len(tops),
        }  # fmt: skip
        self.free_entropy.y_range.update(start=curves["phi_range"][0], end=curves["phi_range"][1])
        rising = curves["rising"]
        touching = ~rising | np.append(~rising[1:], False) | np.insert(~rising[:-1], 0, False)
        self.data["f"].data = {
            "q": curves["q"], "rising": np.where(rising, curves["f"], np.nan),
            "falling": np.where(touching, curves["f"], np.nan) if not rising.all() else np.full(len(rising), np.nan),
        }  # fmt: skip
        self.clock.location = curves["time"]
        self.localization.y_range.update(start=curves["f_range"][0], end=curves["f_range"][1])
        for start in ("low", "high"):
            self.data[start].data = {"t": curves[f"t_{start}"], "q": curves[start]}
        shown = max(curves["time"], T_RANGE[0])
        self.data["here"].data = {
            "t": [shown] * len(tops), "q": [top["q"] for top in tops], "colour": [colour] * len(tops),
        }  # fmt: skip
        self.path.y_range.start = max(0.0, curves["overlap"] - 0.08)
        self.data["density"].data = {"s": curves["s"], "p": curves["p"]}
        self.margin.location = curves["margin"]
        self.data["point"].data = {"alpha": [curves["alpha"]], "t": [shown], "colour": [colour]}
        self._tidy_legends()

    def show_diagram(self, diagram: Diagram) -> None:
        """Show the exact lines of the t–α diagram that are known so far."""
        lines = diagram.lines
        self.diagram.x_range.update(start=diagram.alphas[0], end=diagram.alphas[1])
        self.frontier.location = diagram.frontier
        self.unstable.update(left=diagram.unstable_from, visible=diagram.unstable_from is not None)
        floor, count = T_RANGE[0] / 10, len(lines["alpha"])
        self.data["lines"].data = {
            "alpha": lines["alpha"], "bottom": np.full(count, floor), "top": np.full(count, 10 * T_RANGE[1]),
            **{name: np.clip(lines[name], floor, T_RANGE[1] * 10) for name in ("first", "maxwell", "last")},
        }  # fmt: skip
        highest = max(np.nanmax(lines["last"], initial=0.0), *self.data["point"].data["t"], 0.1)
        self.diagram.y_range.update(start=min(highest / 300, *self.data["point"].data["t"], 1.0) / 2, end=2 * highest)

    def clear_diagram(self) -> None:
        """Take the lines of another target off the diagram."""
        self.data["lines"].data = {name: [] for name in self.data["lines"].data}
        self.frontier.location = None
        self.unstable.visible = False

    def show_run(self, update: Data) -> None:
        """Show how a run stands: any of `bars`, `seen`, `energy`, `missed`."""
        for name in ("bars", "seen", "energy", "missed"):
            if name in update:
                self.data[name].data = dict(update[name])
        self._tidy_legends()

    def clear_run(self) -> None:
        """Take the last run off the charts."""
        for name in ("bars", "seen", "energy", "missed"):
            self.data[name].data = {column: [] for column in self.data[name].data}
        self.annealing.visible = False
        self._tidy_legends()

    def _tidy_legends(self) -> None:
        """Name in a legend only what the chart shows."""
        for plot in self.figures.values():
            for legend in plot.legend:
                for item in legend.items:
                    item.visible = any(_has_points(renderer) for renderer in item.renderers)

    def theme(self, name: str) -> None:
        """Colour everything for a light or a dark page."""
        colours = PALETTES[name]
        for plot in self.figures.values():
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
                self._paint(renderer, colours)
        for span in (self.clock, self.margin, self.frontier):
            span.line_color = colours["soft"]

    @staticmethod
    def _paint(renderer: Any, colours: Mapping[str, str]) -> None:
        glyph, role = renderer.glyph, renderer.name
        if role in ("theory", "seen", "second"):
            glyph.line_color = colours[role]
            if hasattr(glyph, "fill_color"):
                glyph.fill_color = colours[role]
        elif role == "bars":
            glyph.fill_color = colours["seen"]
        elif role == "mark":
            glyph.line_color = colours["ink"]


def _has_points(renderer: Any) -> bool:
    values = renderer.data_source.data.get(getattr(renderer.glyph, "y", None) or "top", ())
    return bool(np.isfinite(np.asarray(values, dtype=float)).any())
