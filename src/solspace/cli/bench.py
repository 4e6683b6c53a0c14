"""`solspace bench`: measure this machine beside other tools. The programs are in the repository, not in the wheel."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from solspace.cli.app import JSON, result_file, verb

CLONE = Path(__file__).parents[3]


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("bench")(verb(bench))


def bench(
    parts: Annotated[
        list[str] | None, typer.Argument(help="Parts to run; all unless given.", metavar="[PART]...")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="At most three minutes: fewer rounds, smaller sizes.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for benchmarks.md, the tables too; NAME.md names the file itself.")
    ] = None,
    as_json: JSON = False,
) -> None:
    """Time samplers and theory on this machine, side by side with NumPy, SciPy and other solvers: a Markdown table."""
    if not (CLONE / "benchmarks" / "__main__.py").is_file():
        raise FileNotFoundError("the benchmarks come with the repository: in a clone, run `python -m benchmarks`.")
    options = [*(parts or []), *(["--quick"] if quick else []), *(["--json"] if as_json else [])]
    if out is not None:
        options += ["--out", str(result_file(out, "benchmarks.md", (".md",)).absolute())]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *options], cwd=CLONE, check=False)
    raise typer.Exit(done.returncode)
