"""`solspace explore`: the interactive page. `solspace bench`: the benchmarks, which are in the repository, not in the wheel."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import typer

from solspace.cli.options import AS_JSON, argument, option, verb
from solspace.cli.output import result_file, say
from solspace.system.checks import install, whole

CLONE = Path(__file__).parents[3]


@verb()
def explore(
    port: int = option(0, "Port; by default any free one.", check=whole(0, most=65535)),
    browser: bool = option(True, "Open the page in a browser.", "--browser/--no-browser"),
    host: str = option("127.0.0.1", "Address to listen on; only this machine can reach the default."),
) -> None:
    """Open a page on which α, κ, T, t are moved and the solution space is seen: theory at once, samplers live.

    Runs until Ctrl-C. Requests under other names than this machine's and that of --host are refused. Needs Panel and
    Bokeh: pip install 'solspace[explorer]'.
    """
    if find_spec("bokeh") is None or find_spec("panel") is None:
        raise ImportError(f"the explorer needs Panel and Bokeh: {install('explorer')}.")
    from solspace.explorer.server import LOOPBACK, serve

    if host not in LOOPBACK:
        reach = "Everyone who can reach this machine can use the page and its processor; there is no password."
        say(f"solspace: warning: listening on {host}. {reach}")
    serve(host, port, browser, say)


@verb()
def bench(
    parts: list[str] | None = argument("Parts to run; by default all.", "[PART]...", default=None),
    quick: bool = option(False, "At most three minutes: fewer rounds, smaller sizes."),
    out: Path | None = option(None, "Folder for benchmarks.md, the tables too; NAME.md names the file itself."),
    as_json: bool = AS_JSON,
) -> None:
    """Time samplers and theory on this machine, side by side with NumPy, SciPy and other solvers: a Markdown table."""
    if not (CLONE / "benchmarks" / "__main__.py").is_file():
        raise FileNotFoundError("the benchmarks come with the repository: in a clone, run `python -m benchmarks`.")
    options = [*(parts or []), *["--quick"] * quick, *["--json"] * as_json]
    if out is not None:
        options += ["--out", str(result_file(out, "benchmarks.md", (".md",)).absolute())]
    done = subprocess.run([sys.executable, "-m", "benchmarks", *options], cwd=CLONE, check=False)
    raise typer.Exit(done.returncode)
