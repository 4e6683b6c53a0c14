"""How our pictures look: one style, one set of colours, one way to write them to files."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solspace.system.files import replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REGIMES = {"green": "#7fbf7b", "yellow": "#f6d860", "red": "#d7191c"}
"""Colours of the regimes: one maximum; a second one, lower; a second one, higher."""
BLUE, RED, GREY = "#3b6fb6", "#c8372d", "#6b6b6b"
"""Data, theory, and lines that help the eye."""
SERIES = ("#1b4f8f", "#2a9d8f", "#e9a23b", "#d1495b", "#7a5195", "#6b8e23", "#8c564b", "#17becf")
"""Colours of series, told apart also by people who do not see red and green apart: the markers differ too."""
MARKERS = ("o", "s", "D", "^", "v", "P", "X", "<")

_STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "savefig.dpi": 160,
    "font.size": 10,
    "axes.titlesize": 10.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "0.92",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "lines.linewidth": 1.6,
    "svg.fonttype": "none",
    "svg.hashsalt": "solspace",
    "pdf.fonttype": 42,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in our style inside the block.

    >>> with style():
    ...     figure, ax = panels(1)
    >>> figure.get_size_inches().round(1).tolist()
    [5.2, 3.8]
    """
    import matplotlib

    with matplotlib.rc_context(_STYLE):
        yield


def panels(columns: int, width: float = 5.2, height: float = 3.8, rows: int = 1, **options: Any) -> tuple[Figure, Any]:
    """Return a figure of `columns` panels side by side, in `rows` rows, and its axes: one, or an array.

    The figure belongs to no window system and no global list: it is drawn to files only.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, **options)
    return figure, axes


def save(figure: Figure, path: str | os.PathLike[str], formats: Sequence[str] = ("png", "pdf", "svg")) -> list[Path]:
    """Write the figure beside `path` in each of `formats`, each file whole or not at all; return the files.

    Dates are left out, so that the same picture gives the same bytes.
    """
    written = []
    for name in formats:
        file = Path(path).with_suffix(f".{name}")
        dateless = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(name)
        with style(), replacing(file) as target:
            figure.savefig(target, format=name, metadata=dateless)
        written.append(file)
    return written
