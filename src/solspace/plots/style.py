"""How our pictures look: one style, one set of colours, two widths of a journal's column, one way to write them to files.

The style is set while a picture is drawn and while it is written, never for the session: `matplotlib.rcParams` stay the
user's. Fonts are embedded as TrueType, which journals ask for, and text in SVG stays text. Colours keep apart for people who
do not see red and green, or blue and yellow, apart (a test simulates them); markers and dashes differ as well.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.cbook import normalize_kwargs
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from solspace.system.files import replacing

__all__ = ["BLUE", "DOUBLE", "GREY", "MARKERS", "RED", "REGIMES", "SERIES", "SINGLE", "TEXT", "panels", "save", "style"]

REGIMES = {"green": "#7fbf7b", "yellow": "#f6d860", "red": "#d7191c"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""
BLUE, RED, GREY = "#3b6fb6", "#c8372d", "#6b6b6b"
"""Data, theory, and lines that help the eye."""
SERIES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#1a1a1a")
"""Colours of series, by Okabe and Ito."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")
SINGLE, DOUBLE = 86 / 25.4, 178 / 25.4
"""Widths of one and of two columns of a journal, in inches: 86 and 178 mm."""
TEXT = 8.0
"""Points of text in a picture of such a width."""
FINE = 300
"""Dots per inch of a picture of such a width, where it is written as dots."""
_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}


def _style(text: float) -> dict[Any, Any]:
    return {
        "figure.dpi": 110,
        "savefig.dpi": 160,
        "font.size": text,
        "axes.titlesize": 1.05 * text,
        "axes.labelsize": text,
        "xtick.labelsize": text,
        "ytick.labelsize": text,
        "figure.titlesize": 1.1 * text,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.08 * text,
        "axes.grid": True,
        "grid.color": "0.92",
        "grid.linewidth": 0.06 * text,
        "axes.axisbelow": True,
        "legend.frameon": False,
        "legend.fontsize": 0.85 * text,
        "lines.linewidth": 0.16 * text,
        "svg.hashsalt": "solspace",
        **_FONTS,
    }


@contextmanager
def style(text: float = 10.0) -> Iterator[None]:
    """Draw in our style inside the block, with text of so many points; everything after it is as before.

    10 points are for pictures on a screen, 8 (`TEXT`) for those of a column's width.

    >>> with style(8):
    ...     figure, ax = panels(1, width=SINGLE, height=2.4)
    >>> (figure.get_size_inches() * 25.4).round().tolist()
    [86.0, 61.0]
    """
    with matplotlib.rc_context(_style(text)):
        yield


def panels(columns: int, width: float = 5.2, height: float = 3.8, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of `columns` panels side by side, in `rows` rows, and its axes: one, or an array.

    The figure belongs to no window system and no global list: it is drawn to files only.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, **options)
    return figure, axes


class JournalFigure(Figure):
    """A figure whose `savefig` embeds fonts as journals want them, and writes 300 dots per inch unless told otherwise."""

    def savefig(self, *args: Any, **options: Any) -> None:
        """Write the figure, as Matplotlib's `savefig` does."""
        if matplotlib.rcParams["savefig.dpi"] == "figure":
            options.setdefault("dpi", FINE)
        with matplotlib.rc_context(_FONTS):
            super().savefig(*args, **options)


@contextmanager
def drawing(ax: Any = None, columns: int = 1) -> Iterator[Any]:
    """Yield the axes to draw on: `ax` in the user's own style, or new ones in ours.

    New ones are those of a figure of Matplotlib's `pyplot`, which notebooks show: a column wide, or two where several
    `columns` lie side by side; then the axes are an array.
    """
    if ax is not None:
        given = np.ravel(np.asarray(ax, dtype=object))
        if len(given) != columns:
            raise ValueError(f"ax must hold {columns} axes for this picture; got {len(given)}.")
        yield given if columns > 1 else given[0]
        return
    from matplotlib import pyplot

    width = SINGLE if columns == 1 else DOUBLE
    with style(TEXT):
        _, axes = pyplot.subplots(
            1, columns, figsize=(width, 0.75 * width / columns if columns < 3 else 0.3 * width), layout="constrained",
            FigureClass=JournalFigure,
        )  # fmt: skip
        yield axes


def thick() -> float:
    """Return the width of a line that stands before others."""
    return 1.25 * float(matplotlib.rcParams["lines.linewidth"])


def merged(given: Mapping[str, Any], artist: type[Artist] = Line2D, **ours: Any) -> dict[str, Any]:
    """Return our own properties of an artist with those `given` by the user in their place, whatever short names they have.

    >>> merged({"linewidth": 3}, color="k", lw=1)
    {'color': 'k', 'linewidth': 3}
    """
    return {**normalize_kwargs(ours, artist), **normalize_kwargs(dict(given), artist)}


def save(figure: Figure, path: str | os.PathLike[str], formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
    """Write the figure beside `path` in each of `formats`, each file whole or not at all; return the files.

    Dates are left out, so that the same picture gives the same bytes.
    """
    written, stem = [], Path(path)
    if stem.suffix.lstrip(".") in figure.canvas.get_supported_filetypes():  # anything else behind a dot is a name's own
        stem = stem.with_suffix("")
    for name in formats:
        file = stem.with_name(f"{stem.name}.{name}")
        dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(name)
        with style(), replacing(file) as target:
            figure.savefig(target, format=name, metadata=dateless)
        written.append(file)
    return written
