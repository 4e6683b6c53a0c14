"""Doctests of modules whose library is not installed are left out."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if find_spec("panel") is None or find_spec("bokeh") is None:
    collect_ignore_glob += [
        f"src/solspace/explorer/{name}.py" for name in ("charts", "controls", "page", "running", "server")
    ]
