"""Look a thing up by name, and when it is not there say which name was probably meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def unknown(kind: str, given: object, allowed: Iterable[str]) -> ValueError:
    """Return the `ValueError` for a `given` name that is not among the `allowed` ones.

    >>> print(unknown("potential", "lgo", ["log", "uniform"]))
    unknown potential 'lgo': did you mean 'log'? Known: 'log', 'uniform'.
    """
    names = sorted(allowed)
    close = get_close_matches(str(given).lower(), names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}? " if close else ""
    return ValueError(f"unknown {kind} {given!r}: {hint}Known: {', '.join(map(repr, names))}.")
