"""Doctests of modules whose library is not installed are left out; `--long` gives the fuzz tests a large budget."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

collect_ignore_glob: list[str] = []
if find_spec("panel") is None or find_spec("bokeh") is None:
    collect_ignore_glob += [
        f"src/solspace/explorer/{name}.py" for name in ("charts", "controls", "page", "running", "server")
    ]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option here: pytest reads those of a folder's conftest only when the folder is named."""
    parser.addoption("--long", action="store_true", help="tests/fuzz: thousands of tries instead of a few")
