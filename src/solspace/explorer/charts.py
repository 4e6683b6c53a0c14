"""The charts of the page, in Bokeh: φ_t(q), F(q), q(t), P(s), the t–α diagram, overlaps, and energies of annealing."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import (
    Axis,
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    CustomJS,
    DataRange1d,
    GlyphRenderer,
    Grid,
    HoverTool,
    Legend,
    LinearAxis,
    Span,
)
from bokeh.plotting import figure

from solspace.explorer.curves import Diagram
from solspace.system.plain import Values

REGIME = {"green": "#2f9e5f", "yellow": "#e0a800", "red": "#d63a32"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""
CURVES = {
    "phi": "q phi",
    "tops": "q phi colour name",
    "f": "q rising falling",
    "low": "t q",
    "high": "t q",
    "here": "t q colour",
    "density": "s p",
    "point": "alpha t colour",
    "typical": "q",
}
"""The columns of the data of theory at one (target, α, t)."""
RUN = {
    "bars": "left right top",
    "pairs": "left right top",
    "seen": "t q",
    "energy": "sweep energy",
    "missed": "sweep violations",
}
"""The columns of the data of a run."""
DIAGRAM = {"lines": "alpha left right bottom top first maxwell last first_text maxwell_text last_text"}
"""The columns of the data of the t–α diagram."""
T_RANGE = (1e-3, 30.0)
"""Times shown on logarithmic axes."""
TITLES = {
    "free_entropy": "Free entropy φₜ(q): samples sit at its highest maximum",
    "localization": "F(q): the time at which overlap q is stationary",
    "path": "Overlap q(t) along localization",
    "stabilities": "Stabilities P(s) of fair samples",
    "diagram": "One maximum (green), a second one (yellow), a higher one (red), replica symmetry broken (grey)",
    "overlaps": "Overlaps of pairs of samples, and theory's r",
    "annealing": "Annealing: energy and violated constraints, mean over chains",
}
AXES: dict[str, tuple[str, str, Values]] = {
    "free_entropy": ("overlap q", "φₜ(q) − φₜ(r)", {"y_range": (-1, 1)}),
    "localization": ("overlap q", "time t", {"y_range": (0, 1)}),
    "path": ("time t", "overlap q", {"x_axis_type": "log", "x_range": T_RANGE, "y_range": (0, 1.03)}),
    "stabilities": ("stability s", "density", {}),
    "diagram": ("load α", "time t", {"y_axis_type": "log", "x_range": (0, 1), "y_range": T_RANGE}),
    "overlaps": ("overlap of two samples", "density", {"x_range": (0, 1), "y_range": (0, 1)}),
    "annealing": ("sweep", "energy per weight", {}),
}
"""Labels of the axes, and options of the figure."""
LEGENDS = {
    "free_entropy": "bottom_left",
    "localization": "top_left",
    "path": "bottom_right",
    "stabilities": "top_right",
    "annealing": "top_right",
}
_EVENTS = {"first": "a second maximum at t", "maxwell": "takes over at t", "last": "is alone from t"}
"""What happens at the lines of the t–α diagram."""
_TEXTS = ("name", *(f"{line}_text" for line in _EVENTS))
"""Columns of text."""
_ROLES = ("panel", "ink", "soft", "line", "theory", "seen", "second")
THEMES = {
    "light": dict(zip(_ROLES, ("#f5f7f9", "#1f2933", "#5b6673", "#d5dbe1", "#c8372d", "#3b6fb6", "#8a5a00"))),
    "dark": dict(zip(_ROLES, ("#1c2229", "#e8ecf1", "#a3aebb", "#39424d", "#ff8a7a", "#7fb0f5", "#e3b04b"))),
}
"""The colours of each theme by role; the name of a renderer is its role."""


class Charts:
    """All charts of one page and the data they show."""

    def __init__(self) -> None:
        columns = {**CURVES, **RUN, **DIAGRAM}
        self.data = {name: ColumnDataSource({c: [] for c in text.split()}) for name, text in columns.items()}
        self.figures = {name: _figure(x, y, options) for name, (x, y, options) in AXES.items()}
        for name, plot in self.figures.items():
            getattr(self, f"_draw_{name}")(plot)
        for name, place in LEGENDS.items():
            self.figures[name].legend.location = place
        self.clear_run()
        self.theme("light")

    def _line(self, plot: figure, data: str, y: str = "", **options: Any) -> GlyphRenderer:
        """Draw the first column of `data` and its second, or `y`, as a line."""
        source = self.data[data]
        x, second = source.column_names[:2]
        return plot.line(x, y or second, source=source, **{"line_width": 2, "name": "theory", **options})

    def _marks(self, plot: figure, data: str, **options: Any) -> GlyphRenderer:
        """Draw the first two columns of `data` as points in their own colours."""
        source = self.data[data]
        x, y = source.column_names[:2]
        options = {"size": 13, "line_width": 1.5, **options}
        return plot.scatter(x, y, source=source, fill_color="colour", name="mark", **options)

    def _bars(self, plot: figure, data: str) -> GlyphRenderer:
        look = {"fill_alpha": 0.55, "line_alpha": 0.0, "name": "bars", "legend_label": "this run"}
        return plot.quad("left", "right", "top", 0, source=self.data[data], **look)

    def _draw_free_entropy(self, plot: figure) -> None:
        curve = self._line(plot, "phi")
        tops = self._marks(plot, "tops", legend_group="name")
        _hover(plot, curve, q="overlap q", phi="φₜ(q) − φₜ(r)")
        _hover(plot, tops, "mouse", name="", q="overlap q", phi="φₜ(q) − φₜ(r)")
        plot.yaxis.formatter = BasicTickFormatter(power_limit_low=-4)

    def _draw_localization(self, plot: figure) -> None:
        rising = self._line(plot, "f", legend_label="maximum of φₜ")
        falling = self._line(plot, "f", "falling", legend_label="minimum", line_dash="dotted")
        _hover(plot, rising, q="overlap q", rising="maximum at t")
        _hover(plot, falling, q="overlap q", falling="minimum at t")
        self.clock = _span(plot, "width", 1.0)

    def _draw_path(self, plot: figure) -> None:
        low = self._line(plot, "low", legend_label="theory, low start")
        high = self._line(plot, "high", legend_label="high start", line_dash="dotted")
        seen = plot.scatter("t", "q", source=self.data["seen"], size=6, name="seen", legend_label="this run")
        _hover(plot, low, t="time t", q="overlap q")
        _hover(plot, high, t="time t", q="q, high start")
        _hover(plot, seen, "mouse", t="time t", q="q of this run")
        self._marks(plot, "here", size=12)

    def _draw_stabilities(self, plot: figure) -> None:
        plot.y_range.start = 0
        bars = self._bars(plot, "bars")
        _hover(plot, self._line(plot, "density", legend_label="theory"), s="stability s", p="theory P(s)")
        _hover(plot, bars, left="from s", right="to s", top="this run")
        self.margin = _span(plot, "height", 0.0, width=1)

    def _draw_diagram(self, plot: figure) -> None:
        lines = self.data["lines"]
        for low, high, name in (("bottom", "top", "green"), ("first", "maxwell", "yellow"), ("maxwell", "last", "red")):
            alpha = 0.15 if name == "green" else 0.75
            plot.varea("alpha", low, high, source=lines, fill_color=REGIME[name], fill_alpha=alpha)
        # areas have no hover: invisible columns lie over them
        columns = plot.quad("left", "right", "top", "bottom", source=lines, fill_alpha=0.0, line_alpha=0.0)
        _hover(plot, columns, "mouse", alpha="load α", **{f"{name}_text": text for name, text in _EVENTS.items()})
        self.unstable = BoxAnnotation(left=0, fill_color="#808080", fill_alpha=0.35, line_color=None, visible=False)
        plot.add_layout(self.unstable)
        _hover(plot, self._marks(plot, "point", line_width=2), "mouse", alpha="here: load α", t="time t")
        self.frontier = _span(plot, "height")

    def _draw_overlaps(self, plot: figure) -> None:
        bars = self._bars(plot, "pairs")
        typical = plot.vspan("q", source=self.data["typical"], line_width=2, name="theory", legend_label="theory: r")
        _hover(plot, bars, left="from", right="to", top="this run")
        _hover(plot, typical, "mouse", q="theory: r")

    def _draw_annealing(self, plot: figure) -> None:
        energy = self._line(plot, "energy", name="seen", legend_label="energy")
        plot.extra_y_ranges = {"missed": DataRange1d(start=0)}
        plot.add_layout(LinearAxis(y_range_name="missed", axis_label="violated constraints"), "right")
        look = {"name": "second", "line_dash": "dashed", "legend_label": "violated", "y_range_name": "missed"}
        missed = self._line(plot, "missed", **look)
        _hover(plot, energy, sweep="sweep", energy="energy per weight")
        _hover(plot, missed, sweep="sweep", violations="violated constraints")
        plot.extra_y_ranges["missed"].renderers = [missed]
        plot.y_range.renderers = [energy]
        show = CustomJS(code="document.getElementById('card-annealing').hidden = !cb_obj.visible")
        plot.js_on_change("visible", show)

    def show_curves(self, curves: Values) -> None:
        """Show the curves of theory at one (target, α, t)."""
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
        self.figures["path"].y_range.start = max(0.0, curves["overlap"] - 0.08)

    def clear_curves(self) -> None:
        """Remove the curves of theory, where it has none."""
        self._clear(CURVES)

    def show_diagram(self, diagram: Diagram) -> None:
        """Show the lines of the t–α diagram that are known so far."""
        plot, lines, point = self.figures["diagram"], diagram.lines, self.data["point"].data
        plot.x_range.update(start=diagram.alphas[0], end=diagram.alphas[1])
        self.frontier.location = diagram.thresholds["asl"]
        self.unstable.update(left=diagram.unstable_from, visible=diagram.unstable_from is not None)
        floor, top, alpha = T_RANGE[0] / 10, 10 * T_RANGE[1], lines["alpha"]
        middle = (alpha[1:] + alpha[:-1]) / 2
        self.data["lines"].data = {
            "alpha": alpha,
            "left": np.concatenate([alpha[:1], middle]),
            "right": np.concatenate([middle, alpha[-1:]]),
            "bottom": np.full(len(alpha), floor),
            "top": np.full(len(alpha), top),
            **{name: np.clip(lines[name], floor, top) for name in _EVENTS},
            **{f"{name}_text": [f"{t:.3g}" if np.isfinite(t) else "never" for t in lines[name]] for name in _EVENTS},
        }
        highest = max(np.nanmax(lines["last"], initial=0.0), *point["t"], 0.1)
        plot.y_range.update(start=min(highest / 300, *point["t"], 1.0) / 2, end=2 * highest)

    def clear_diagram(self) -> None:
        """Remove the lines of another target."""
        self._clear(DIAGRAM)
        self.frontier.location = None
        self.unstable.visible = False

    def show_run(self, update: Values) -> None:
        """Show the state of a run: any data of `RUN`."""
        self._fill(**{name: dict(update[name]) for name in RUN if name in update})

    def clear_run(self) -> None:
        """Remove the last run."""
        self._clear(RUN)
        self.figures["annealing"].visible = False

    def _clear(self, names: dict[str, str]) -> None:
        self._fill(**{name: {column: [] for column in columns.split()} for name, columns in names.items()})

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
        low, high, top = 0.0, 1.0, 1.0
        if len(bars["top"]):
            ends = [*bars["left"], *bars["right"], *typical]
            room = 0.1 * (max(ends) - min(ends))
            low, high, top = min(ends) - room, max(ends) + room, 1.1 * max(bars["top"])
        plot.x_range.update(start=low, end=high)
        plot.y_range.end = top
        plot.legend.location = "top_right" if any(q < (low + high) / 2 for q in typical) else "top_left"

    def theme(self, name: str) -> None:
        """Colour everything for a light or a dark page."""
        for plot in self.figures.values():
            _colour(plot, THEMES[name])


def _figure(x: str, y: str, options: Values) -> figure:
    tools: Values = {"tools": "pan,wheel_zoom,box_zoom,reset,save", "active_drag": None, "active_scroll": None}
    size: Values = {"height": 270, "sizing_mode": "stretch_width", "min_border_right": 12}
    plot = figure(x_axis_label=x, y_axis_label=y, **tools, **size, **options)
    plot.toolbar.update(logo=None, autohide=True)
    return plot


def _hover(plot: figure, renderer: GlyphRenderer, mode: str = "vline", /, **columns: str) -> None:
    """Show `columns` of a renderer, given with their labels, below the pointer or, for "mouse", on the glyph."""
    tooltips = [(label, f"@{name}" if name in _TEXTS else f"@{name}{{%.4g}}") for name, label in columns.items()]
    formatters = {f"@{name}": "printf" for name in columns if name not in _TEXTS}
    tool = HoverTool(renderers=[renderer], mode=mode, tooltips=tooltips, formatters=formatters, visible=False)
    tool.update(line_policy="nearest", point_policy="follow_mouse")
    plot.add_tools(tool)


def _span(plot: figure, dimension: str, location: float | None = None, width: float = 1.5) -> Span:
    span = Span(location=location, dimension=dimension, line_dash="dashed", line_width=width)
    plot.add_layout(span)
    return span


def _has_points(renderer: GlyphRenderer) -> bool:
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
        Axis: {**{f"{name}_color": soft for name in lines}, "axis_label_text_font_style": "normal"},
        Grid: {"grid_line_color": line, "grid_line_alpha": 0.6},
        Legend: {**legend, "label_text_color": colours["ink"], "label_text_font_size": "11px"},
        Span: {"line_color": soft},
    }
    for kind, look in looks.items():
        for model in plot.select(kind):
            model.update(**look)
    for renderer in plot.renderers:
        glyph, role = renderer.glyph, renderer.name
        if role in ("theory", "seen", "second"):
            glyph.line_color = colours[role]
        if role in ("seen", "bars") and hasattr(glyph, "fill_color"):
            glyph.fill_color = colours["seen"]
        if role == "mark":
            glyph.line_color = colours["ink"]
