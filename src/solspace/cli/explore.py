"""`solspace explore`: the interactive page, served on this machine alone."""

from __future__ import annotations

from typing import Annotated

import typer

from solspace.cli.app import say, verb
from solspace.system.checks import install


def register(app: typer.Typer) -> None:
    """Add the verb to `app`."""
    app.command("explore")(verb(explore))


def explore(
    port: Annotated[int, typer.Option(help="Port; any free one unless given.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    host: Annotated[str, typer.Option(help="Address to listen on; only this machine can reach the default.")] = (
        "127.0.0.1"
    ),
) -> None:
    """Open a page on which α, κ, T, t are moved and the solution space is seen: theory at once, samplers live.

    Runs until Ctrl-C. Requests under other names than this machine's and that of --host are refused. Needs Panel and
    Bokeh: pip install 'solspace[explorer]'.
    """
    try:
        import bokeh  # noqa: F401
        import panel  # noqa: F401
    except ImportError:
        raise ImportError(f"the explorer needs Panel and Bokeh: {install('explorer')}.") from None
    from solspace.explorer.server import LOOPBACK, serve

    if host not in LOOPBACK:
        say(
            f"solspace: warning: listening on {host}. Whoever can reach this machine can use the page and its "
            "processor; there is no password."
        )
    serve(host, port, browser, say)
