"""The command line: one thin file per verb, imported when the verb is called."""

from __future__ import annotations

import io
import os
import sys


def main() -> None:
    """Run `solspace`."""
    try:
        _prepare_streams()
        from solspace.cli.app import make_app

        app = make_app()
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="solspace")


def _prepare_streams() -> None:
    """Open the null device for standard streams that are closed; let others print ? for characters they lack."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            null = os.open(os.devnull, os.O_RDWR)  # takes the free descriptor, or else a file of results would
            os.set_inheritable(null, True)
            setattr(sys, name, os.fdopen(null, mode))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
