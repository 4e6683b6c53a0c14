"""The charts of the page, in Bokeh: φ_t(q), F(q), q(t), P(s), the t–α diagram, overlaps, and energies of annealing."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from bokeh import models
from bokeh.plotting import figure

from solspace.explorer.curves import Diagram
from solspace.system.plain import Values

# colours of the regimes: one maximum; a second one, lower; a second one, higher
REGIME = {"green": "#2f9e5f", "yellow": "#e0a800", "red": "#d63a32"}
# data of a run; "lines" are those of the t–α diagram, "around" that of `nearby`, all others those of theory at one (target, α, t)
RUN = ("bars", "pairs", "seen", "energy", "missed")
T_RANGE = (1e-3, 30.0)  # times shown on logarithmic axes
TITLES = {
    "free_entropy": "Free entropy φₜ(q): samples sit at its highest maximum",
    "localization": "F(q): the time at which overlap q is stationary",
    "nearby": "Solutions around a fair sample: log of their number (volume) per weight",
    "path": "Overlap q(t) along localization",
    "stabilities": "Stabilities P(s) of fair samples",
    "diagram": "One maximum (green), a second one (yellow), a higher one (red), replica symmetry broken (grey)",
    "overlaps": "Overlaps of pairs of samples, and theory",
    "annealing": "Annealing: energy and violated constraints, mean over chains",
}
# labels of the axes, place of the legend, and options of the figure
AXES: dict[str, tuple[str, str, str, Values]] = {
    "free_entropy": ("overlap q", "φₜ(q) above its first value", "bottom_left", {"y_range": (-1, 1)}),
    "localization": ("overlap q", "time t", "top_left", {"y_range": (0, 1)}),
    "nearby": ("distance d from the sample", "v", "", {}),
    "path": ("time t", "overlap q", "bottom_right", {"x_axis_type": "log", "x_range": T_RANGE, "y_range": (0, 1.03)}),
    "stabilities": ("stability s", "density", "top_right", {}),
    "diagram": ("load α", "time t", "", {"y_axis_type": "log", "x_range": (0, 1), "y_range": T_RANGE}),
    "overlaps": ("overlap of two samples", "density", "top_left", {"x_range": (0, 1), "y_range": (0, 1)}),
    "annealing": ("sweep", "energy per weight", "top_right", {}),
}
# what happens at the lines of the t–α diagram
_EVENTS = {"first_text": "a second maximum at t", "maxwell_text": "takes over at t", "last_text": "is alone from t"}
_TEXTS = ("name", *_EVENTS)  # columns of text
# the colours of each theme by role; the name of a renderer is its role
_ROLES = ("panel", "ink", "soft", "line", "theory", "seen", "second")
THEMES = {
    "light": dict(zip(_ROLES, ("#f5f7f9", "#1f2933", "#5b6673", "#d5dbe1", "#c8372d", "#3b6fb6", "#8a5a00"))),
    "dark": dict(zip(_ROLES, ("#1c2229", "#e8ecf1", "#a3aebb", "#39424d", "#ff8a7a", "#7fb0f5", "#e3b04b"))),
}


def _line(legend: str, dash: str = "solid", name: str = "theory") -> Values:
    return {"name": name, "line_width": 2, "line_dash": dash, "legend_label": legend}


_BARS: Values = {"name": "bars", "bottom": 0, "fill_alpha": 0.55, "line_alpha": 0.0, "legend_label": "this run"}
_MARK: Values = {"name": "mark", "size": 13, "line_width": 1.5, "fill_color": "colour"}
_SEEN: Values = {"name": "seen", "size": 6, "legend_label": "this run"}
_ENERGY = _line("energy", name="seen")
_MISSED: Values = {**_line("violated", "dashed", "second"), "y_range_name": "missed"}
_HEIGHT = {"q": "overlap q", "phi": "φₜ(q) above its first value"}
_HIDDEN = {"fill_alpha": 0.0, "line_alpha": 0.0}


class Glyph(NamedTuple):
    """What a chart shows: a method of the figure, data and columns for it, and labels of the values shown on hovering."""

    method: str
    data: str
    columns: str
    look: Values
    hover: Mapping[str, str] = MappingProxyType({})


GLYPHS = {
    "free_entropy": [
        Glyph("line", "phi", "q phi", {"name": "theory", "line_width": 2}, _HEIGHT),
        Glyph("scatter", "tops", "q phi", {**_MARK, "legend_group": "name"}, {"name": "", **_HEIGHT}),
    ],
    "localization": [
        Glyph("line", "f", "q rising", _line("maximum of φₜ"), {"q": "overlap q", "rising": "maximum at t"}),
        Glyph("line", "f", "q falling", _line("minimum", "dotted"), {"q": "overlap q", "falling": "minimum at t"}),
    ],
    "nearby": [
        Glyph("line", "around", "d v", {"name": "theory", "line_width": 2}, {"d": "distance d", "v": "v"}),
    ],
    "path": [
        Glyph("line", "low", "t q", _line("theory, low start"), {"t": "time t", "q": "overlap q"}),
        Glyph("line", "high", "t q", _line("high start", "dotted"), {"t": "time t", "q": "q, high start"}),
        Glyph("scatter", "seen", "t q", _SEEN, {"t": "time t", "q": "q of this run"}),
        Glyph("scatter", "here", "t q", {**_MARK, "size": 12}),
    ],
    "stabilities": [
        Glyph("quad", "bars", "left right top", _BARS, {"left": "from s", "right": "to s", "top": "this run"}),
        Glyph("line", "density", "s p", _line("theory"), {"s": "stability s", "p": "theory P(s)"}),
    ],
    "diagram": [
        Glyph("varea", "lines", "alpha bottom top", {"fill_color": REGIME["green"], "fill_alpha": 0.15}),
        Glyph("varea", "lines", "alpha first maxwell", {"fill_color": REGIME["yellow"], "fill_alpha": 0.75}),
        Glyph("varea", "lines", "alpha maxwell last", {"fill_color": REGIME["red"], "fill_alpha": 0.75}),
        # areas have no hover: invisible columns lie over them
        Glyph("quad", "lines", "left right top bottom", _HIDDEN, {"alpha": "load α", **_EVENTS}),
        Glyph("scatter", "point", "alpha t", {**_MARK, "line_width": 2}, {"alpha": "here: load α", "t": "time t"}),
    ],
    "overlaps": [
        Glyph("quad", "pairs", "left right top", _BARS, {"left": "from", "right": "to", "top": "this run"}),
        Glyph("vspan", "typical", "q", _line("theory"), {"q": "theory"}),
    ],
    "annealing": [
        Glyph("line", "energy", "sweep energy", _ENERGY, {"sweep": "sweep", "energy": "energy per weight"}),
        Glyph("line", "missed", "sweep violations", _MISSED, {"sweep": "sweep", "violations": "violated constraints"}),
    ],
}


class Charts:
    def __init__(self) -> None:
        self.data: dict[str, models.ColumnDataSource] = {}
        self.figures: dict[str, figure] = {}
        tools: Values = {"tools": "pan,wheel_zoom,box_zoom,reset,save", "active_drag": None, "active_scroll": None}
        size: Values = {"height": 270, "sizing_mode": "stretch_width", "min_border_right": 12}
        for name, (x, y, legend, options) in AXES.items():
            plot = figure(x_axis_label=x, y_axis_label=y, **tools, **size, **options)
            plot.toolbar.update(logo=None, autohide=True)
            self.figures[name] = plot
            if name == "annealing":
                plot.extra_y_ranges = {"missed": models.DataRange1d(start=0)}
                plot.add_layout(models.LinearAxis(y_range_name="missed", axis_label="violated constraints"), "right")
            for glyph in GLYPHS[name]:
                self._draw(plot, glyph)
            if legend:
                plot.legend.location = legend
        plot.y_range.renderers, plot.extra_y_ranges["missed"].renderers = plot.renderers[:1], plot.renderers[1:]
        plot.js_on_change(
            "visible", models.CustomJS(code="document.getElementById('card-annealing').hidden = !cb_obj.visible")
        )
        self.figures["free_entropy"].yaxis.formatter = models.BasicTickFormatter(power_limit_low=-4)
        self.figures["stabilities"].y_range.start = 0
        self.clock, self.margin, self.frontier, self.none = (
            models.Span(dimension=dimension, line_dash="dashed", line_width=width)
            for dimension, width in (("width", 1.5), ("height", 1.0), ("height", 1.5), ("width", 1.0))
        )
        self.none.location = 0
        self.unstable = models.BoxAnnotation(
            left=0, fill_color="#808080", fill_alpha=0.35, line_color=None, visible=False
        )
        marks = {"localization": self.clock, "stabilities": self.margin, "diagram": self.frontier, "nearby": self.none}
        for name, mark in (*marks.items(), ("diagram", self.unstable)):
            self.figures[name].add_layout(mark)
        self.clear_run()
        self.theme("light")

    def _draw(self, plot: figure, glyph: Glyph) -> None:
        source = self.data.setdefault(glyph.data, models.ColumnDataSource())
        for column in {*glyph.columns.split(), *glyph.hover, "colour"} - {*source.column_names}:
            source.add([], column)
        renderer = getattr(plot, glyph.method)(*glyph.columns.split(), source=source, **glyph.look)
        if glyph.hover:
            formats = {name: "" if name in _TEXTS else "{%.4g}" for name in glyph.hover}
            tool = models.HoverTool(
                renderers=[renderer],
                mode="vline" if glyph.method == "line" or glyph.look is _BARS else "mouse",
                tooltips=[(label, f"@{name}{formats[name]}") for name, label in glyph.hover.items()],
                formatters={f"@{name}": "printf" for name in formats if formats[name]},
                line_policy="nearest",
                point_policy="follow_mouse",
                visible=False,
            )
            plot.add_tools(tool)

    def show_curves(self, curves: Values | None) -> None:
        """Show the curves of theory at one (target, α, t); none where theory has none."""
        if curves is None:
            self._clear(*(name for name in self.data if name not in (*RUN, "lines", "around")))
            return
        colour, tops, q = REGIME[curves["regime"]], curves["tops"], [top["q"] for top in curves["tops"]]
        time, colours = max(curves["time"], T_RANGE[0]), [colour] * len(tops)
        falling = np.convolve(~curves["rising"], [1, 1, 1], mode="same") > 0  # with the points beside, to touch
        self._fill(
            phi={"q": curves["q"], "phi": curves["phi"]},
            tops={**{name: [top[name] for top in tops] for name in ("q", "phi", "name")}, "colour": colours},
            f={
                "q": curves["q"],
                "rising": np.where(curves["rising"], curves["f"], np.nan),
                "falling": np.where(falling, curves["f"], np.nan),
            },
            low={"t": curves["t_low"], "q": curves["low"]},
            high={"t": curves["t_high"], "q": curves["high"]},
            here={"t": [time] * len(tops), "q": q, "colour": colours},
            density={"s": curves["s"], "p": curves["p"]},
            point={"alpha": [curves["alpha"]], "t": [time], "colour": [colour]},
            typical={"q": [curves["overlap"]]},
        )
        self.clock.location, self.margin.location = curves["time"], curves["margin"]
        for name, (start, end) in {"free_entropy": curves["phi_range"], "localization": curves["f_range"]}.items():
            self.figures[name].y_range.update(start=start, end=end)
        norm, first = curves["norm"], min(curves["low"])
        self.figures["path"].y_range.update(start=max(0.0, first - 0.08 * norm), end=1.03 * norm)

    def show_nearby(self, curve: Values | None) -> None:
        """Show how many solutions lie around a fair sample; None while that is not known."""
        self._fill(around=curve or {"d": [], "v": []})

    def show_diagram(self, diagram: Diagram | None) -> None:
        """Show the lines of the t–α diagram that are known so far, none for another target."""
        if diagram is None:
            self._clear("lines")
            self.frontier.location = None
            self.unstable.visible = False
            return
        plot, lines, point = self.figures["diagram"], diagram.lines, self.data["point"].data
        plot.x_range.update(start=diagram.alphas[0], end=diagram.alphas[1])
        self.frontier.location = diagram.thresholds.get("asl", diagram.thresholds.get("localization"))
        unstable = diagram.thresholds.get("dat")
        self.unstable.update(left=unstable, visible=unstable is not None and unstable < diagram.alphas[1])
        floor, top, alpha = T_RANGE[0] / 10, 10 * T_RANGE[1], lines["alpha"]
        middle = (alpha[1:] + alpha[:-1]) / 2
        columns: Values = {
            "alpha": alpha,
            "left": np.concatenate([alpha[:1], middle]),
            "right": np.concatenate([middle, alpha[-1:]]),
            "bottom": np.full(len(alpha), floor),
            "top": np.full(len(alpha), top),
        }
        for name in ("first", "maxwell", "last"):
            columns[name] = np.clip(lines[name], floor, top)
            columns[f"{name}_text"] = [f"{t:.3g}" if np.isfinite(t) else "never" for t in lines[name]]
        self.data["lines"].data = columns
        highest = max(np.nanmax(lines["last"], initial=0.0), *point["t"], 0.1)
        plot.y_range.update(start=min(highest / 300, *point["t"], 1.0) / 2, end=2 * highest)

    def show_run(self, update: Values) -> None:
        """Show the state of a run: any data of `RUN`."""
        self._fill(**{name: dict(update[name]) for name in RUN if name in update})

    def clear_run(self) -> None:
        self._clear(*RUN)
        self.figures["annealing"].visible = False

    def _clear(self, *names: str) -> None:
        self._fill(**{name: {column: [] for column in self.data[name].column_names} for name in names})

    def _fill(self, **data: Values) -> None:
        for name, columns in data.items():
            self.data[name].data = columns
        self._fit_overlaps()
        for plot in self.figures.values():
            for legend in plot.legend:
                for item in legend.items:
                    item.visible = any(_has_points(renderer) for renderer in item.renderers)

    def _fit_overlaps(self) -> None:
        """Zoom to the overlaps of a run and r; show all of [0, 1] without a run."""
        plot, bars, typical = self.figures["overlaps"], self.data["pairs"].data, self.data["typical"].data["q"]
        low, high, top = 0.0, max([1.0, *(1.1 * q for q in typical)]), 1.0
        if len(bars["top"]):
            ends = [*bars["left"], *bars["right"], *typical]
            room = 0.1 * (max(ends) - min(ends))
            low, high, top = min(ends) - room, max(ends) + room, 1.1 * max(bars["top"])
        plot.x_range.update(start=low, end=high)
        plot.y_range.end = top
        plot.legend.location = "top_right" if any(q < (low + high) / 2 for q in typical) else "top_left"

    def theme(self, name: str) -> None:
        for plot in self.figures.values():
            _colour(plot, THEMES[name])


def _has_points(renderer: models.GlyphRenderer) -> bool:
    column = next(name for name in ("y", "top", "x") if hasattr(renderer.glyph, name))
    values = renderer.data_source.data.get(getattr(renderer.glyph, column), ())
    return bool(np.isfinite(np.asarray(values, dtype=float)).any())


def _colour(plot: figure, colours: dict[str, str]) -> None:
    soft, panel, line = colours["soft"], colours["panel"], colours["line"]
    plot.update(background_fill_color=panel, border_fill_color=panel, outline_line_color=line)
    if "border_line_color" in plot.properties():  # newer Bokeh shows half a pixel of its white canvas otherwise
        plot.update(border_line_color=panel, border_line_width=2)
    lines = ("axis_label_text", "major_label_text", "axis_line", "major_tick_line", "minor_tick_line")
    legend = {"background_fill_alpha": 0.0, "border_line_color": None, "padding": 4, "margin": 4, "spacing": 0}
    looks: dict[Any, Values] = {
        models.Axis: {**{f"{name}_color": soft for name in lines}, "axis_label_text_font_style": "normal"},
        models.Grid: {"grid_line_color": line, "grid_line_alpha": 0.6},
        models.Legend: {**legend, "label_text_color": colours["ink"], "label_text_font_size": "11px"},
        models.Span: {"line_color": soft},
    }
    for kind, look in looks.items():
        plot.set_select(kind, look)
    for renderer in plot.renderers:
        glyph, role = renderer.glyph, renderer.name
        if role in ("theory", "seen", "second"):
            glyph.line_color = colours[role]
        if role in ("seen", "bars") and hasattr(glyph, "fill_color"):
            glyph.fill_color = colours["seen"]
        if role == "mark":
            glyph.line_color = colours["ink"]
