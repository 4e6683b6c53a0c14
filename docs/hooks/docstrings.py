"""Prepare docstrings for the API page: name their examples as a section, link the theory notes that they cite."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^>>> ", re.MULTILINE)
_HEADED = re.compile(r"^Examples\n-+$", re.MULTILINE)
_SHARED = re.compile(r"^(\w+(?:, \w+)+)\n((?: {4}.*\n)+)", re.MULTILINE)
_CITED = re.compile(r"theory notes (\d+(?:\.\d+)?)(?: and (\d+(?:\.\d+)?))?")


class Docstrings(griffe.Extension):
    """Rewrite every docstring once, before it is parsed."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrite the docstring of `obj`."""
        if obj.docstring is not None:
            obj.docstring.value = linked(one_by_one(with_example_section(obj.docstring.value)))


def with_example_section(text: str) -> str:
    """Return `text` with the heading that numpydoc wants above the first example.

    >>> with_example_section("Return 1.\\n\\n>>> one()\\n1")
    'Return 1.\\n\\nExamples\\n--------\\n>>> one()\\n1'
    """
    if _HEADED.search(text):
        return text
    return _EXAMPLE.sub("Examples\n--------\n>>> ", text, count=1)


def one_by_one(text: str) -> str:
    """Return `text` with parameters that share a description listed one by one, each with its own type.

    >>> print(one_by_one("Parameters\\n----------\\na, b\\n    Two numbers."))
    Parameters
    ----------
    a
        Two numbers.
    b
        See `a`.
    """

    def split(match: re.Match[str]) -> str:
        first, *others = match.group(1).split(", ")
        return "".join([f"{first}\n{match.group(2)}", *(f"{name}\n    See `{first}`.\n" for name in others)])

    return _SHARED.sub(split, text if text.endswith("\n") else f"{text}\n").rstrip("\n")


def linked(text: str) -> str:
    """Return `text` with citations of the theory notes made links to their sections.

    >>> linked("the curve (theory notes 3.1)")
    'the curve ([theory notes 3.1][theory-3.1])'
    """

    def link(match: re.Match[str]) -> str:
        first, second = match.groups()
        also = f" and [{second}][theory-{second}]" if second else ""
        return f"[theory notes {first}][theory-{first}]{also}"

    return _CITED.sub(link, text)
