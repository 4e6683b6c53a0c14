"""The charts of the page, in Bokeh: φ_t(q), F(q), q(t), P(s), the t–α diagram, overlaps, and what an annealed run does.

A chart takes arrays that theory or a sampler made and shows them; a pointer on it reads them. Themes change colours only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from bokeh.models import (
    BasicTickFormatter,
    BoxAnnotation,
    ColumnDataSource,
    CustomJS,
    DataRange1d,
    GlyphRenderer,
    HoverTool,
    LinearAxis,
    Range1d,
    Span,
)
from bokeh.plotting import figure

from solspace.explorer.themes import paint
from solspace.numerics.arrays import Reals
from solspace.system.plain import Values

if TYPE_CHECKING:
    from solspace.explorer.diagram import Diagram

REGIME = {"green": "#2f9e5f", "yellow": "#e0a800", "red": "#d63a32"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""
RUN = ("bars", "pairs", "seen", "energy", "missed")
"""What a run may tell, by the names of its data."""
CURVES = ("phi", "tops", "f", "low", "high", "here", "density", "point", "typical")
"""The data of theory at one (target, α, t)."""
HEIGHT = 270
T_RANGE = (1e-3, 30.0)
"""Times shown on logarithmic axes."""

_LINES = {"first": "a second maximum at t", "maxwell": "takes over at t", "last": "is alone from t"}
"""What happens at the lines of the t–α diagram, in the order of time."""
_TEXTS = ("name", *(f"{line}_text" for line in _LINES))
"""Columns that hold words."""


class Charts:
    """All charts of one page and the data they show."""

    def __init__(self) -> None:
        self.data = {
            name: ColumnDataSource({c: [] for c in columns.split()})
            for name, columns in {
                "phi": "q phi", "tops": "q phi colour name", "f": "q rising falling", "low": "t q", "high": "t q",
                "here": "t q colour", "density": "s p", "bars": "left right top", "seen": "t q",
                "lines": "alpha left right bottom top first maxwell last first_text maxwell_text last_text",
                "point": "alpha t colour",
                "energy": "sweep energy", "missed": "sweep violations", "pairs": "left right top", "typical": "q",
            }.items()
        }  # fmt: skip
        self.free_entropy = self._free_entropy()
        self.localization = self._localization()
        self.path = self._path()
        self.stabilities = self._stabilities()
        self.diagram = self._diagram()
        self.overlaps = self._overlaps()
        self.annealing = self._annealing()
        self.figures = {
            "free_entropy": self.free_entropy, "localization": self.localization, "path": self.path,
            "stabilities": self.stabilities, "diagram": self.diagram, "overlaps": self.overlaps,
            "annealing": self.annealing,
        }  # fmt: skip
        self.clear_run()
        self.theme("light")

    def _figure(self, x: str, y: str, **options: object) -> figure:
        plot = figure(
            height=HEIGHT, sizing_mode="stretch_width", tools="pan,wheel_zoom,box_zoom,reset,save",
            active_drag=None, active_scroll=None, x_axis_label=x, y_axis_label=y, **options,
        )  # fmt: skip
        plot.toolbar.logo = None
        plot.toolbar.autohide = True
        plot.min_border_right = 12
        return plot

    @staticmethod
    def _read(plot: figure, renderer: GlyphRenderer, mode: str = "vline", /, **columns: str) -> None:
        """Have a pointer read `columns`, each given with its words, off `renderer`: above it, or on it for "mouse"."""
        tooltips = [(words, f"@{name}" if name in _TEXTS else f"@{name}{{%.4g}}") for name, words in columns.items()]
        formatters = {f"@{name}": "printf" for name in columns if name not in _TEXTS}
        reader = HoverTool(renderers=[renderer], mode=mode, tooltips=tooltips, formatters=formatters, visible=False)
        reader.update(line_policy="nearest", point_policy="follow_mouse")
        plot.add_tools(reader)

    def _free_entropy(self) -> figure:
        plot = self._figure("overlap q", "φₜ(q) − φₜ(r)")
        curve = plot.line("q", "phi", source=self.data["phi"], line_width=2, name="theory")
        tops = plot.scatter(
            "q", "phi", source=self.data["tops"], size=13, fill_color="colour", line_width=1.5, name="mark",
            legend_group="name",
        )  # fmt: skip
        self._read(plot, curve, q="overlap q", phi="φₜ(q) − φₜ(r)")
        self._read(plot, tops, "mouse", name="", q="overlap q", phi="φₜ(q) − φₜ(r)")
        plot.y_range = Range1d(-1, 1)
        plot.yaxis.formatter = BasicTickFormatter(power_limit_low=-4)
        plot.legend.location = "bottom_left"
        return plot

    def _localization(self) -> figure:
        plot = self._figure("overlap q", "time t")
        rising = plot.line(
            "q", "rising", source=self.data["f"], line_width=2, name="theory", legend_label="maximum of φₜ"
        )
        falling = plot.line(
            "q", "falling", source=self.data["f"], line_width=2, line_dash="dotted", name="theory",
            legend_label="minimum",
        )  # fmt: skip
        self._read(plot, rising, q="overlap q", rising="maximum at t")
        self._read(plot, falling, q="overlap q", falling="minimum at t")
        self.clock = Span(location=1.0, dimension="width", line_dash="dashed", line_width=1.5)
        plot.add_layout(self.clock)
        plot.y_range = Range1d(0, 1)
        plot.legend.location = "top_left"
        return plot

    def _path(self) -> figure:
        plot = self._figure("time t", "overlap q", x_axis_type="log")
        low = plot.line(
            "t", "q", source=self.data["low"], line_width=2, name="theory", legend_label="theory, low start"
        )
        high = plot.line(
            "t", "q", source=self.data["high"], line_width=2, line_dash="dotted", name="theory",
            legend_label="high start",
        )  # fmt: skip
        seen = plot.scatter("t", "q", source=self.data["seen"], size=6, name="seen", legend_label="this run")
        self._read(plot, low, t="time t", q="overlap q")
        self._read(plot, high, t="time t", q="q, high start")
        self._read(plot, seen, "mouse", t="time t", q="q of this run")
        plot.scatter("t", "q", source=self.data["here"], size=12, fill_color="colour", line_width=1.5, name="mark")
        plot.x_range = Range1d(*T_RANGE)
        plot.y_range = Range1d(0, 1.03)
        plot.legend.location = "bottom_right"
        return plot

    def _stabilities(self) -> figure:
        plot = self._figure("stability s", "density")
        bars = plot.quad(
            "left", "right", "top", 0, source=self.data["bars"], name="bars", fill_alpha=0.55, line_alpha=0.0,
            legend_label="this run",
        )  # fmt: skip
        curve = plot.line("s", "p", source=self.data["density"], line_width=2, name="theory", legend_label="theory")
        self._read(plot, curve, s="stability s", p="theory P(s)")
        self._read(plot, bars, left="from s", right="to s", top="this run")
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
        # nothing is read off areas: columns that nobody sees lie over them
        columns = plot.quad("left", "right", "top", "bottom", source=lines, fill_alpha=0.0, line_alpha=0.0)
        self._read(plot, columns, "mouse", alpha="load α", **{f"{name}_text": words for name, words in _LINES.items()})
        self.unstable = BoxAnnotation(left=0, fill_color="#808080", fill_alpha=0.35, line_color=None, visible=False)
        plot.add_layout(self.unstable)
        point = plot.scatter(
            "alpha", "t", source=self.data["point"], size=13, fill_color="colour", line_width=2, name="mark"
        )
        self._read(plot, point, "mouse", alpha="here: load α", t="time t")
        plot.y_range = Range1d(*T_RANGE)
        plot.x_range = Range1d(0, 1)
        self.frontier = Span(location=None, dimension="height", line_dash="dashed", line_width=1.5)
        plot.add_layout(self.frontier)
        return plot

    def _overlaps(self) -> figure:
        plot = self._figure("overlap of two samples", "density")
        bars = plot.quad(
            "left", "right", "top", 0, source=self.data["pairs"], name="bars", fill_alpha=0.55, line_alpha=0.0,
            legend_label="this run",
        )  # fmt: skip
        typical = plot.vspan("q", source=self.data["typical"], line_width=2, name="theory", legend_label="theory: r")
        self._read(plot, bars, left="from", right="to", top="this run")
        self._read(plot, typical, "mouse", q="theory: r")
        plot.x_range = Range1d(0, 1)
        plot.y_range = Range1d(0, 1)
        return plot

    def _annealing(self) -> figure:
        plot = self._figure("sweep", "energy per weight")
        energy = plot.line(
            "sweep", "energy", source=self.data["energy"], line_width=2, name="seen", legend_label="energy"
        )
        plot.extra_y_ranges = {"missed": DataRange1d(start=0)}
        plot.add_layout(LinearAxis(y_range_name="missed", axis_label="violated constraints"), "right")
        missed = plot.line(
            "sweep", "violations", source=self.data["missed"], line_width=2, line_dash="dashed", name="second",
            y_range_name="missed", legend_label="violated",
        )  # fmt: skip
        self._read(plot, energy, sweep="sweep", energy="energy per weight")
        self._read(plot, missed, sweep="sweep", violations="violated constraints")
        plot.extra_y_ranges["missed"].renderers = [missed]
        plot.y_range.renderers = [energy]
        plot.legend.location = "top_right"
        show = CustomJS(code="document.getElementById('card-annealing').hidden = !cb_obj.visible")
        plot.js_on_change("visible", show)
        return plot

    def show_curves(self, curves: Values) -> None:
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
        self.data["typical"].data = {"q": [curves["overlap"]]}
        self._fit_overlaps()
        self._tidy_legends()

    def clear_curves(self) -> None:
        """Remove the curves of theory, where it has none."""
        for name in CURVES:
            self.data[name].data = {column: [] for column in self.data[name].data}
        self._fit_overlaps()
        self._tidy_legends()

    def show_diagram(self, diagram: Diagram) -> None:
        """Show the exact lines of the t–α diagram that are known so far."""
        lines = diagram.lines
        self.diagram.x_range.update(start=diagram.alphas[0], end=diagram.alphas[1])
        self.frontier.location = diagram.frontier
        self.unstable.update(left=diagram.unstable_from, visible=diagram.unstable_from is not None)
        floor, count = T_RANGE[0] / 10, len(lines["alpha"])
        self.data["lines"].data = {
            "alpha": lines["alpha"], "left": _halfway(lines["alpha"], -1), "right": _halfway(lines["alpha"], 1),
            "bottom": np.full(count, floor), "top": np.full(count, 10 * T_RANGE[1]),
            **{name: np.clip(lines[name], floor, T_RANGE[1] * 10) for name in _LINES},
            **{f"{name}_text": [_when(time) for time in lines[name]] for name in _LINES},
        }  # fmt: skip
        highest = max(np.nanmax(lines["last"], initial=0.0), *self.data["point"].data["t"], 0.1)
        self.diagram.y_range.update(start=min(highest / 300, *self.data["point"].data["t"], 1.0) / 2, end=2 * highest)

    def clear_diagram(self) -> None:
        """Take the lines of another target off the diagram."""
        self.data["lines"].data = {name: [] for name in self.data["lines"].data}
        self.frontier.location = None
        self.unstable.visible = False

    def show_run(self, update: Values) -> None:
        """Show how a run stands: any of `RUN`."""
        for name in RUN:
            if name in update:
                self.data[name].data = dict(update[name])
        self._fit_overlaps()
        self._tidy_legends()

    def clear_run(self) -> None:
        """Take the last run off the charts."""
        for name in RUN:
            self.data[name].data = {column: [] for column in self.data[name].data}
        self.annealing.visible = False
        self._fit_overlaps()
        self._tidy_legends()

    def _fit_overlaps(self) -> None:
        """Show overlaps of a run and r, large; all of [0, 1] as long as there is no run."""
        bars, low, high, top = self.data["pairs"].data, 0.0, 1.0, 1.0
        if len(bars["top"]):
            ends = [*bars["left"], *bars["right"], *self.data["typical"].data["q"]]
            room = 0.1 * (max(ends) - min(ends))
            low, high, top = min(ends) - room, max(ends) + room, 1.1 * max(bars["top"])
        self.overlaps.x_range.update(start=low, end=high)
        self.overlaps.y_range.end = top
        on_the_left = [q < (low + high) / 2 for q in self.data["typical"].data["q"]]
        self.overlaps.legend.location = "top_right" if any(on_the_left) else "top_left"

    def _tidy_legends(self) -> None:
        """Name in a legend only what the chart shows."""
        for plot in self.figures.values():
            for legend in plot.legend:
                for item in legend.items:
                    item.visible = any(_has_points(renderer) for renderer in item.renderers)

    def theme(self, name: str) -> None:
        """Colour everything for a light or a dark page."""
        for plot in self.figures.values():
            paint(plot, name)


def _has_points(renderer: GlyphRenderer) -> bool:
    column = next(name for name in ("y", "top", "x") if hasattr(renderer.glyph, name))
    values = renderer.data_source.data.get(getattr(renderer.glyph, column), ())
    return bool(np.isfinite(np.asarray(values, dtype=float)).any())


def _halfway(x: Reals, way: int) -> Reals:
    """Return the places half way from each of `x`, in rising order, to the next one (`way` 1) or the one before (-1).

    >>> _halfway(np.array([1.0, 2.0, 4.0]), 1), _halfway(np.array([1.0, 2.0, 4.0]), -1)
    (array([1.5, 3. , 4. ]), array([1. , 1.5, 3. ]))
    """
    middle = (x[1:] + x[:-1]) / 2
    return np.concatenate([middle, x[-1:]] if way > 0 else [x[:1], middle])


def _when(time: float) -> str:
    return f"{time:.3g}" if np.isfinite(time) else "never"
