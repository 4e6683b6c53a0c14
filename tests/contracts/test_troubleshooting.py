"""Every sentence that the page on troubleshooting quotes is one that the package says, and no warning is missing."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
QUOTED = re.findall(r"^\| `([^`]+)`", PAGE, re.MULTILINE)
GAP = "…"

pytestmark = pytest.mark.slow


def template(node):
    """Return a string of the source with a gap for everything that is filled in; None if `node` is no string."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
    return None


@cache
def trees():
    return [ast.parse(file.read_text(encoding="utf-8")) for file in sorted((ROOT / "src").rglob("*.py"))]


@cache
def sentences():
    """Return all strings of the package but docstrings."""
    found = []
    for tree in trees():
        documented = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [template(node) for node in ast.walk(tree) if id(node) not in documented and template(node)]
    return [" ".join(text.split()) for text in found]


def parts(quoted):
    """Return the fixed parts of a quotation, without what a sentence may end in."""
    return [part for part in re.split(r"[… ]*…[… ]*", quoted.rstrip(".")) if re.search(r"\w", part)]


def says(sentence, fixed):
    """Return whether the `fixed` parts of a quotation come one after the other in `sentence`."""
    place = 0
    for part in fixed:
        place = sentence.find(part, place)
        if place < 0:
            return False
        place += len(part)
    return True


def warned():
    """Return the words of every warning that the source writes where it warns."""
    for tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "warnings.warn" and template(node.args[0]):
                yield " ".join(template(node.args[0]).split())


def test_there_are_many():
    assert len(QUOTED) > 80


@pytest.mark.parametrize("quoted", QUOTED)
def test_a_quoted_sentence_is_said(quoted):
    fixed = parts(quoted)
    assert fixed
    assert any(says(sentence, fixed) for sentence in sentences()), f"nothing in src says {quoted!r} any more"


@pytest.mark.parametrize("warning", list(warned()))
def test_a_warning_is_on_the_page(warning):
    assert any(says(warning, parts(quoted)) for quoted in QUOTED), f"docs/troubleshooting.md does not know {warning!r}"


def test_a_sentence_that_changed_is_noticed():
    assert says("the time limit of 3 s has passed", parts("the … has passed."))
    assert not says("the time limit of 3 s is over", parts("the … has passed."))
