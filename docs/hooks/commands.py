"""Write the page of the command line when the site is built, from the verbs' own help."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from mkdocs.structure.files import File, Files

from solspace.cli import NAMES, make_app

START = """# Command line

`solspace --help` lists the verbs, `solspace VERB --help` describes each. With `--json` a verb prints its result as JSON on
standard output. Exit codes: 2 for wrong input, 1 for a failure during the run or if no sample is a solution, 130 after Ctrl-C;
`solspace --debug VERB` prints tracebacks.

`solspace --install-completion` installs completion of verbs, options and names for bash, zsh, fish or PowerShell.

"""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the page to the site."""
    files.append(File.generated(config, "cli.md", content=page()))
    return files


def page() -> str:
    """Return the page in Markdown."""
    group: Any = typer.main.get_command(make_app())
    return START + "\n".join(line for name in NAMES for line in _section(name, group.resolve_command(None, [name])[1]))


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
