"""Values by name, as JSON can hold them, and as a small table in a notebook: what `_repr_html_` of an object returns."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, TypeAlias

import numpy as np

Values: TypeAlias = dict[str, Any]
"""Values of any kind by name: a line of a table, a part of a report, the options of a call."""
COLOURS = {"good": "#1a7f37", "bad": "#b42318", "open": "#57606a"}
"""Backgrounds on which white text has a contrast of at least 4.5."""
_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_CELL = "padding: 2px 10px 2px 0; border: none; background: none; vertical-align: top"


class Record:
    """A result that JSON can hold."""

    def to_dict(self) -> Values:
        """Return the result as plain values.

        Returns
        -------
        dict
            Values by name; None where there is none.
        """
        return self._values()

    def _values(self) -> Values:
        return {name: value.to_dict() if hasattr(value, "to_dict") else value for name, value in vars(self).items()}


def plain(value: object) -> Any:
    """Return `value` with NumPy's types made Python's, and numbers that are not finite, which JSON lacks, made None.

    >>> plain({"r": np.float32(0.5), "path": np.array([1.0, np.nan]), "by": ("dat", np.bool_(True))})
    {'r': 0.5, 'path': [1.0, None], 'by': ['dat', True]}
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {str(name): plain(item) for name, item in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value


def html_table(
    title: str,
    rows: Iterable[Sequence[str]],
    columns: Sequence[str] = (),
    verdict: str = "",
    good: bool | None = None,
    notes: Iterable[str] = (),
) -> str:
    """Return a table with `title`, and below it a `verdict`, coloured up to its colon, and notes.

    Text takes the notebook's own colour and lines are a grey that shows on white and on black. Styles are inline: notebooks that
    are not trusted drop all others.

    >>> print(html_table("Target", [("margin", "<0.5>")]))
    <div style="..."><div style="..."><b>Target</b></div><table style="...">...<td ...>&lt;0.5&gt;</td></tr></table></div>
    """
    lines = [f"<tr>{_cells(columns, 'th', 600)}</tr>"] if columns else []
    lines += [f'<tr style="border-top: {_LINE}; background: none">{_cells(row, "td")}</tr>' for row in rows]
    look = "border-collapse: collapse; margin: 2px 0; font-size: inherit; color: inherit"
    below = [_verdict(verdict, good)] if verdict else []
    below += [f'<div style="opacity: 0.75">{escape(note)}</div>' for note in notes]
    return (
        f'<div style="font-size: 13px; line-height: 1.45"><div style="margin-bottom: 2px"><b>{escape(title)}</b></div>'
        f'<table style="{look}">{"".join(lines)}</table>{"".join(below)}</div>'
    )


def _cells(texts: Sequence[str], tag: str, weight: int = 400) -> str:
    sides = ["left"] + ["right"] * len(texts)
    return "".join(
        f'<{tag} style="{_CELL}; text-align: {side}; font-weight: {weight}">{escape(text)}</{tag}>'
        for side, text in zip(sides, texts)
    )


def _verdict(text: str, good: bool | None) -> str:
    word, colon, rest = text.partition(":")
    colour = COLOURS["open" if good is None else "good" if good else "bad"]
    look = f"background: {colour}; color: #ffffff; border-radius: 3px; padding: 1px 7px"
    more = f" {escape(rest.strip())}" if colon else ""
    return f'<div style="margin-top: 4px"><span style="{look}">{escape(word)}</span>{more}</div>'
