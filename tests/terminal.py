"""The command line in this process, for tests: quick, where no signal and no pipe is needed."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import typer
from typer.testing import CliRunner

from solspace.cli import VERBS
from solspace.cli.app import make_app


def application() -> typer.Typer:
    """Return `solspace` with all its verbs."""
    app = make_app()
    for verb in VERBS:
        import_module(f"solspace.cli.{verb}").register(app)
    return app


def invoke(*words: str) -> Any:
    """Return what `solspace` does with `words`: exit code, standard output and, apart from it, standard error."""
    mixes = "mix_stderr" in inspect.signature(CliRunner).parameters  # before Click 8.2 they were one unless told so
    return CliRunner(**{"mix_stderr": False} if mixes else {}).invoke(application(), list(words))
