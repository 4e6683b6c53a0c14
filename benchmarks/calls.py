"""Files and functions of the package that a warm call passes through: ``python -m benchmarks calls``.

Functions are listed in the order of their first calls; a change of file is where two neighbours of that list are defined in
different files. What Python generates (lambdas, comprehensions, methods of dataclasses) is left out.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import solspace as ss
from benchmarks.timing import Table

ROOT = str(Path(ss.__file__).parent)


def functions(call: Callable[[], Any]) -> list[tuple[str, str]]:
    """Return (file, name) of the package's functions in the order of their first calls, all threads together."""
    seen: dict[tuple[str, str], None] = {}

    def watch(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and "<" not in code.co_qualname.split(".")[-1]:
            seen.setdefault((code.co_filename, code.co_qualname))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    return list(seen)


def command(*arguments: str) -> Callable[[], None]:
    """Return a call of the command line in an empty folder."""

    def run() -> None:
        from solspace.cli import main

        before, sys.argv = sys.argv, ["solspace", *arguments]
        try:
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.suppress(SystemExit):
                main()
        finally:
            sys.argv = before

    return run


def table(quick: bool = False) -> Table:
    """Return the counts for the calls that users make most."""
    easy, hard = (ss.Perceptron.random(501, alpha, rng=0) for alpha in (0.3, 0.5))
    calls: dict[str, Callable[[], Any]] = {
        "ss.localize": lambda: ss.localize(easy, 16, 1),
        "ss.anneal": lambda: ss.anneal(easy, 16, 200, rng=1),
        "ss.solve": lambda: ss.solve(hard, rng=0),
        "solspace sample": command("sample"),
        "solspace reproduce edge": command("reproduce", "edge"),
    }
    found = Table("Calls", __doc__.split("\n\n")[1], ("call", "files", "functions", "changes of file"))
    for name, call in calls.items():
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(open(os.devnull, "w")):
            call()
            files = [file for file, _ in functions(call)]
        found.add(name, len(set(files)), len(files), sum(a != b for a, b in itertools.pairwise(files)))
    return found
