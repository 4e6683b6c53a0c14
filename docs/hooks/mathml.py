"""Turn the formulas of a page into MathML when the site is built, so that reading needs neither scripts nor network."""

from __future__ import annotations

import html
import re

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">(.*?)</\1>', re.DOTALL)
_SPACING = (
    # a function's name stands apart from its argument, unless that is in brackets
    (re.compile(r"(?<!<msup>)(<mi>(?:log|cosh|tanh|exp)</mi>)(?!<mo[^>]*>&#x00028;)"), r'\1<mspace width="0.17em"/>'),
    # a sign behind an operator or an opening bracket belongs to what follows
    (re.compile(r"(<mo[^>]*>(?!&#x000(?:29|7C);|\])[^<]*</mo>)<mo>(&#x0(?:2212|002B);)"), r'\1<mo form="prefix">\2'),
    # slashes and bars keep close to what they stand beside
    (re.compile(r"<mo(?: stretchy=\"false\")?>(&#x000(?:2F|7C);)"), r'<mo lspace="0" rspace="0" stretchy="false">\1'),
    (re.compile(r"<mo>&#x0221E;</mo>"), "<mi>&#x0221E;</mi>"),
)


def on_page_content(content: str, **_: object) -> str:
    """Replace every formula that the Markdown extension marked."""
    return _FORMULA.sub(lambda match: mathml(html.unescape(match.group(2)).strip()), content)


def mathml(text: str) -> str:
    r"""Return a formula in LaTeX, between \( \) or \[ \], as MathML.

    >>> mathml(r"\(\log x\)")[-66:]
    '<mrow><mi>log</mi><mspace width="0.17em"/><mi>x</mi></mrow></math>'
    """
    made = convert(text[2:-2].strip(), display="block" if text.startswith(r"\[") else "inline")
    for pattern, better in _SPACING:
        made = pattern.sub(better, made)
    return made
