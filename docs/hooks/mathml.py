"""Turn the formulas of a page into MathML when the site is built, so that reading needs neither scripts nor network."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula that the Markdown extension marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(match: re.Match[str]) -> str:
    text = html.unescape(match.group(2)).strip()
    display = text.startswith(r"\[")
    body = text[2:-2].strip()
    return convert(body, display="block" if display else "inline")
