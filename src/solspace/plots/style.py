"""The style of our pictures: colours, the widths of a journal's columns, new figures, and files.

The style is set while a picture is drawn and while it is written, never for the session: `matplotlib.rcParams` stay the
user's. Fonts are embedded as TrueType, as journals require, and text in SVG stays text. Colours can be distinguished with any
kind of colour blindness (tested by simulation); markers and dashes differ as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.cbook import normalize_kwargs
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from solspace.numerics.arrays import Reals
from solspace.system.checks import unknown
from solspace.system.files import replacing
from solspace.system.plain import Values

__all__ = ["BLUE", "DOUBLE", "GREY", "MARKERS", "RED", "REGIMES", "SERIES", "SINGLE", "TEXT", "panels", "save", "style"]

REGIMES = {"green": "#7fbf7b", "yellow": "#f6d860", "red": "#d7191c"}  # one maximum; a second one, lower; higher
BLUE, RED, GREY = "#3b6fb6", "#c8372d", "#6b6b6b"  # data, theory, auxiliary lines
SERIES = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#1a1a1a")  # by Okabe and Ito
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")
SINGLE, DOUBLE = 86 / 25.4, 178 / 25.4  # widths of one and of two columns of a journal, in inches
TEXT = 8.0  # points of text in a picture of a column's width
FINE = 300  # dots per inch of such a picture
_FONTS: dict[Any, Any] = {"pdf.fonttype": 42, "ps.fonttype": 42, "svg.fonttype": "none"}


@contextmanager
def style(text: float = 10.0) -> Iterator[None]:
    """Draw in our style inside the block; afterwards Matplotlib's settings are as before.

    Parameters
    ----------
    text : float, default 10
        Size of the text in points: 10 for a screen, 8 (`TEXT`) for pictures of a column's width.

    Examples
    --------
    >>> with style(8):
    ...     figure, ax = panels(1, width=SINGLE, height=2.4)
    >>> (figure.get_size_inches() * 25.4).round().tolist()
    [86.0, 61.0]
    """
    settings: dict[Any, Any] = {
        "figure.dpi": 110,
        "savefig.dpi": 160,
        **dict.fromkeys(("font.size", "axes.labelsize", "xtick.labelsize", "ytick.labelsize"), text),
        "axes.titlesize": 1.05 * text,
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
    }
    with matplotlib.rc_context(settings | _FONTS):
        yield


def panels(columns: int, width: float = 5.2, height: float = 3.8, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a new figure and its axes, outside `pyplot`: it is drawn to files only.

    Parameters
    ----------
    columns, rows : int
        Panels side by side, and rows of them.
    width, height : float
        Size of a panel in inches.
    **options : Any
        Arguments of `Figure.subplots`.

    Returns
    -------
    figure : matplotlib.figure.Figure
        The figure.
    axes : matplotlib.axes.Axes or ndarray of Axes
        Its axes: one, or an array.
    """
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    return figure, figure.subplots(rows, columns, **options)


class JournalFigure(Figure):
    """A figure whose `savefig` embeds fonts as TrueType and writes 300 dots per inch by default."""

    def savefig(self, *args: Any, **options: Any) -> None:
        if matplotlib.rcParams["savefig.dpi"] == "figure":
            options.setdefault("dpi", FINE)
        with matplotlib.rc_context(_FONTS):
            super().savefig(*args, **options)


@contextmanager
def drawing(ax: Any = None, columns: int = 1) -> Iterator[Any]:
    """Yield the axes to draw on: `ax` in the user's own style, or new ones in ours; an array of several `columns`.

    New axes belong to a figure of `pyplot`, which notebooks show, one column wide, or two for several.
    """
    if ax is not None:
        axes = np.ravel(np.asarray(ax, dtype=object))
        if len(axes) != columns:
            raise ValueError(f"ax must hold {columns} axes for this picture; got {len(axes)}.")
        yield axes if columns > 1 else axes[0]
        return
    from matplotlib import pyplot

    width = SINGLE if columns == 1 else DOUBLE
    size = width, 0.75 * width / columns if columns < 3 else 0.3 * width
    with style(TEXT):
        yield pyplot.subplots(1, columns, figsize=size, layout="constrained", FigureClass=JournalFigure)[1]


def one_or_all(pictures: Mapping[str, Callable[..., None]], kind: str, ax: Any, title: str, **style: Any) -> Any:
    """Draw one of `pictures` by its name, or "all" under a common title, on given or new axes."""
    if kind == "all":
        if style:
            raise ValueError(f"several pictures have no style in common; give a kind with {', '.join(style)}.")
        with drawing(ax, len(pictures)) as axes:
            for one, draw in zip(axes, pictures.values()):
                draw(one)
            axes[0].figure.suptitle(title)
            return axes
    if kind not in pictures:
        raise unknown("kind of picture", kind, ("all", *pictures))
    with drawing(ax) as one:
        pictures[kind](one, **style)
        return one


def histogram(ax: Axes, values: Reals, edges: Reals, style: Mapping[str, Any] | None = None, **ours: Any) -> Values:
    """Draw a histogram as a density, blue and filled unless said otherwise; return its properties."""
    look = merged(style or {}, Patch, **{"color": BLUE, "alpha": 0.55, **ours})
    ax.hist(values, **{"bins": list(edges), "density": True, **look})
    return look


def thick() -> float:
    """Return the width of an emphasized line."""
    return 1.25 * float(matplotlib.rcParams["lines.linewidth"])


def mark_margin(ax: Axes, margin: float) -> None:
    ax.axvline(margin, color=GREY, lw=1, ls="--", label=f"margin {margin:g}")


def merged(user: Mapping[str, Any], artist: type[Artist] = Line2D, **ours: Any) -> dict[str, Any]:
    """Return our properties of an artist, replaced by those of the `user` under any of their names.

    >>> merged({"linewidth": 3}, color="k", lw=1)
    {'color': 'k', 'linewidth': 3}
    """
    return {**normalize_kwargs(ours, artist), **normalize_kwargs(dict(user), artist)}


def save(figure: Figure, path: str | os.PathLike[str], formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
    """Write a figure to files, each atomically and without dates, so that equal pictures give equal bytes.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        The figure.
    path : str or path-like
        Path of the files; a suffix that names a format is replaced.
    formats : sequence of str, default ("png", "pdf", "svg")
        Formats.

    Returns
    -------
    list of Path
        The files.
    """
    stem = Path(path)
    if stem.suffix.lstrip(".") in figure.canvas.get_supported_filetypes():  # any other suffix belongs to the name
        stem = stem.with_suffix("")
    files = [stem.with_name(f"{stem.name}.{name}") for name in formats]
    for name, file in zip(formats, files):
        dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(name)
        with style(), replacing(file) as target:
            figure.savefig(target, format=name, metadata=dateless)
    return files
