"""`--long` gives the fuzz tests a large budget."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option here: pytest reads those of a folder's conftest only when the folder is named."""
    parser.addoption("--long", action="store_true", help="tests/fuzz: thousands of tries instead of a few")
