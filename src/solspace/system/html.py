"""A small table for notebooks: what `_repr_html_` of an object returns.

Text takes the notebook's own colour, lines are a grey that shows on white and on black; only a verdict has colours, white on a
dark ground, which read in both. Styles are inline, as notebooks that are not trusted drop all others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

COLOURS = {"good": "#1a7f37", "bad": "#b42318", "open": "#57606a"}
"""Grounds on which white text has a contrast of at least 4.5."""
_LINE = "1px solid rgba(128, 128, 128, 0.35)"
_CELL = "padding: 2px 10px 2px 0; border: none; background: none; vertical-align: top"


def table(
    title: str,
    rows: Iterable[Sequence[str]],
    columns: Sequence[str] = (),
    verdict: str = "",
    tone: str = "open",
    notes: Iterable[str] = (),
) -> str:
    """Return a table with `title`; a `verdict` stands below it, its words up to a colon on a ground that its `tone` colours.

    >>> print(table("Target", [("margin", "<0.5>")]))
    <div style="..."><div style="..."><b>Target</b></div><table style="...">...<td ...>&lt;0.5&gt;</td></tr></table></div>
    """
    head = "".join(_cell(name, "th", k) for k, name in enumerate(columns))
    lines = ([f"<tr>{head}</tr>"] if columns else []) + [
        f'<tr style="border-top: {_LINE}; background: none">'
        + "".join(_cell(text, "td", k) for k, text in enumerate(row))
        + "</tr>"
        for row in rows
    ]
    look = "border-collapse: collapse; margin: 2px 0; font-size: inherit; color: inherit"
    body = f'<table style="{look}">{"".join(lines)}</table>'
    below = [_verdict(verdict, tone)] if verdict else []
    below += [f'<div style="opacity: 0.75">{escape(note)}</div>' for note in notes]
    return (
        f'<div style="font-size: 13px; line-height: 1.45"><div style="margin-bottom: 2px"><b>{escape(title)}</b></div>'
        f"{body}{''.join(below)}</div>"
    )


def _cell(text: str, tag: str, place: int) -> str:
    side, weight = ("left" if place == 0 else "right"), ("600" if tag == "th" else "normal")
    return f'<{tag} style="{_CELL}; text-align: {side}; font-weight: {weight}">{escape(text)}</{tag}>'


def _verdict(words: str, tone: str) -> str:
    word, colon, rest = words.partition(":")
    ground = f"background: {COLOURS[tone]}; color: #ffffff; border-radius: 3px; padding: 1px 7px"
    said = f" {escape(rest.strip())}" if colon else ""
    return f'<div style="margin-top: 4px"><span style="{ground}">{escape(word)}</span>{said}</div>'


def tone_of(good: bool | None) -> str:
    """Return the tone of a verdict that is True, False or not known.

    >>> tone_of(None)
    'open'
    """
    return "open" if good is None else "good" if good else "bad"
