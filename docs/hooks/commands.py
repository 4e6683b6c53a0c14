"""Write the page of the command line when the site is built, from the verbs' own help."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from solspace.cli import VERBS
from solspace.cli.app import make_app

START = """# Command line

`solspace --help` lists the verbs, `solspace VERB --help` teaches each. Every verb takes `--json`, which prints the result
as JSON on standard output and nothing else. Bad input, and an option that cannot apply, is one sentence on
standard error and exit code 2; what fails later is one and exit code 1, and `solspace --debug VERB` shows where; 1 is also the
code of samples none of which is a solution. Ctrl-C exits with 130 and says what is kept and how to go on.

`solspace --install-completion` teaches bash, zsh, fish or PowerShell to complete verbs and options, and behind them the names
of samplers, potentials, priors, figures and image sets: `solspace reproduce sph<Tab>`. `--show-completion` prints what it
would install.

"""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, "cli.md", content=page()))
    return files


def page() -> str:
    """Return the page in Markdown."""
    app = make_app()
    for verb in VERBS:
        import_module(f"solspace.cli.{verb}").register(app)
    group: Any = typer.main.get_command(app)
    return START + "\n".join(line for name in VERBS for line in _section(name, group.commands[name]))


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([p.metavar or p.name.upper() for p in arguments])
    yield f"## solspace {name}\n"
    yield f"{command.help.strip()}\n"
    yield f"```text\nsolspace {name} [OPTIONS] {usage}\n```\n"
    yield "| option | meaning | default |\n|---|---|---|"
    for parameter in command.params:
        yield f"| {_spelled(parameter)} | {_escaped(parameter.help or '')} | {_default(parameter)} |"
    yield ""


def _spelled(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{_escaped(parameter.metavar or parameter.name.upper())}`"
    return ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))


def _default(parameter: Any) -> str:
    value = parameter.default() if callable(parameter.default) else parameter.default
    return "" if value is None or value is False or value == () else f"`{value}`"


def _escaped(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
