"""The command line: one thin file per verb. Each verb module has `register(app)`; this one puts them together."""

from __future__ import annotations

import sys
from importlib import import_module

VERBS = ("sample", "solve", "predict", "phase", "reproduce", "sweep", "data", "explore", "bench")


def main() -> None:
    """Run `solspace`."""
    try:
        from solspace.cli.app import make_app

        app = make_app()
        for verb in VERBS:
            import_module(f"solspace.cli.{verb}").register(app)
    except KeyboardInterrupt:
        sys.exit(130)
    app(prog_name="solspace")
