"""The command line in this process, for tests: quick, where no signal and no pipe is needed."""

from __future__ import annotations

import inspect
from typing import Any

import typer
from typer.testing import CliRunner

from solspace.cli import NAMES, make_app


def commands() -> dict[str, Any]:
    """Return the command of each verb."""
    group: Any = typer.main.get_command(make_app())
    return {verb: group.resolve_command(None, [verb])[1] for verb in NAMES}


def invoke(*words: str) -> Any:
    """Return what `solspace` does with `words`: exit code, standard output and, apart from it, standard error."""
    mixes = (
        "mix_stderr" in inspect.signature(CliRunner).parameters
    )  # before Click 8.2 they were one unless set otherwise
    return CliRunner(**{"mix_stderr": False} if mixes else {}).invoke(make_app(), list(words))
