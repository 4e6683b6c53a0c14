"""The command line: its verbs, whose modules are imported when they are called.

Wrong input is one sentence on standard error and exit code 2, a failure during the run one and exit code 1; `--debug`
prints tracebacks. Ctrl-C is exit code 130, with what was kept.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from solspace._version import __version__

VERBS = {
    "Problems and data": {
        "sample": "Draw fair samples of a perceptron's solution space.",
        "solve": "Find any solutions, as far as methods reach.",
        "count": "Count solutions, with an interval.",
        "fit": "Fit a low-bit classifier to a table, with calibrated probabilities and a C header.",
        "classify": "Classify the rows of a table with a fitted classifier.",
    },
    "Theory": {
        "predict": "Predict order parameters, thresholds and regimes by replica theory.",
        "phase": "Draw the t–α diagram, or the map of thresholds over margins or widths.",
    },
    "Figures and sweeps": {
        "reproduce": "Make a figure of the paper, or all of them.",
        "sweep": "Run a grid of random problems and samplers into a store.",
        "explore": "Open the interactive page.",
    },
    "This machine": {
        "data": "Show which image data sets are found and where.",
        "doctor": "Show versions, device, caches, data sets and missing packages.",
        "bench": "Time samplers and theory beside other tools.",
    },
}  # by task
NAMES = [verb for verbs in VERBS.values() for verb in verbs]
# modules of verbs that have another name than the verb
MODULES = {"classify": "fit", "predict": "theory", "phase": "theory", "explore": "launch", "bench": "launch"}


def main() -> None:
    # most objects live to the end of a run: looking for cycles among them takes a third of a short one
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    _prepare_streams()
    make_app()(prog_name="solspace")


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


def make_app() -> typer.Typer:
    app = typer.Typer(
        name="solspace",
        cls=Verbs,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        help="Sample the solution space of perceptrons fairly, and know from theory whether that can work.",
        epilog="Start with `solspace sample`: 16 fair samples of a random instance, a table and a picture.",
    )

    @app.callback()
    def _options(
        version: Annotated[
            bool, typer.Option("--version", help="Show the version and exit.", is_eager=True, callback=_show_version)
        ] = False,
        debug: Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")] = False,
    ) -> None:
        pass

    return app


class Verbs(TyperGroup):
    """The verbs; the module of a verb is imported when it is called, not for `solspace --help`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for task, verbs in VERBS.items():
            for name, about in verbs.items():
                self.add_command(TyperCommand(name, help=about, rich_help_panel=task))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in NAMES:
            self.commands[args[0]] = _load(args[0])
        return super().resolve_command(ctx, args)


def _load(verb: str) -> Any:
    found = getattr(import_module(f"solspace.cli.{MODULES.get(verb, verb)}"), verb)
    if isinstance(found, typer.Typer):
        return typer.main.get_group(found)
    app = typer.Typer(add_completion=False)
    app.command(verb)(found)
    return typer.main.get_command(app)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"solspace {__version__}")
        raise typer.Exit
