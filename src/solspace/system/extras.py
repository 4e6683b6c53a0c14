"""What to install where a package is missing that only some need."""

from __future__ import annotations


def install(extra: str) -> str:
    """Return the command that brings what `extra` needs, from an index and in a clone.

    >>> install("gpu")
    "pip install 'solspace[gpu]' (in a clone: pip install -e '.[gpu]')"
    """
    return f"pip install 'solspace[{extra}]' (in a clone: pip install -e '.[{extra}]')"
