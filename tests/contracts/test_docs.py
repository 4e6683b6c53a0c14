"""Every code block of the documentation runs, and every public name is documented with an example."""

from __future__ import annotations

import inspect
import re
import sys
import types
from pathlib import Path

import pytest

import solspace as ss

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
    if not blocks:
        return
    monkeypatch.chdir(tmp_path)
    known = set(ss.potentials.REGISTRY)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    try:
        for block in blocks:
            exec(compile(block, str(page), "exec"), module.__dict__)
    finally:
        for name in set(ss.potentials.REGISTRY) - known:
            del ss.potentials.REGISTRY[name]


@pytest.mark.parametrize("name", [name for name in ss.__all__ if not name.startswith("__")])
def test_a_public_name_is_documented_with_an_example(name):
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert re.search(rf"^::: solspace\.(\w+\.)*{name}$", text, re.MULTILINE), f"{name} is missing from docs/api.md"
    thing = getattr(ss, name)
    if inspect.ismodule(thing):
        return
    assert ">>>" in (inspect.getdoc(thing) or ""), f"{name} has no example"
