"""What all verbs share: the application, how an error is told, how a table and JSON are printed.

Bad input is one clear sentence on standard error and exit code 2, anything that fails later one and exit code 1;
`--debug` shows where it came from. Ctrl-C is exit code 130, with what was kept; a reader that has seen enough (`| head`)
ends a verb without a word, with the code of every other tool whose pipe is closed.
"""

from __future__ import annotations

import functools
import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from solspace._version import __version__
from solspace.cli.rules import Rule, check

JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")]
VERBS = {
    "sample": "Draw fair samples of a perceptron's solution space.",
    "solve": "Find any solutions, as far as methods reach, or count them.",
    "predict": "Predict order parameters, thresholds and regimes by replica theory.",
    "phase": "Draw the t–α diagram, or the map of thresholds over margins or widths.",
    "reproduce": "Make a figure of the paper, or all of them.",
    "sweep": "Run a grid of random problems and samplers into a store.",
    "data": "Show which image data sets are found and where.",
    "explore": "Open the interactive page.",
    "bench": "Time samplers and theory beside other tools.",
}


class Verbs(TyperGroup):
    """The verbs; the module of a verb is imported when it is called, not for `solspace --help`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        for name, about in VERBS.items():
            self.add_command(TyperCommand(name, help=about))

    def list_commands(self, ctx: Any) -> list[str]:
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in VERBS:
            app = typer.Typer()
            app.callback()(lambda: None)
            import_module(f"solspace.cli.{args[0]}").register(app)
            self.commands[args[0]] = typer.main.get_group(app).commands[args[0]]
        return super().resolve_command(ctx, args)


def make_app() -> typer.Typer:
    """Return the application."""
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


def _show_version(asked: bool) -> None:
    if asked:
        print(f"solspace {__version__}")
        raise typer.Exit


def verb(function: Callable[..., None], *rules: Rule) -> Callable[..., None]:
    """Return the command `function` with its options held to `rules` and its errors told in a sentence."""
    signature = inspect.signature(function, eval_str=True)
    own = "context" in signature.parameters

    @functools.wraps(function)
    def run(*args: object, context: typer.Context, **values: object) -> None:
        try:
            check(context, values, rules)
            function(*args, **values, **({"context": context} if own else {}))
            sys.stdout.flush()
        except (typer.Exit, typer.Abort):
            raise
        except BrokenPipeError:
            _leave_quietly()
        except KeyboardInterrupt:
            fail("stopped; nothing was written.", code=130)
        except Exception as error:
            if context.find_root().params.get("debug"):
                raise
            fail(*_told(error))

    if not own:
        ours = inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
        run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), ours])  # type: ignore[attr-defined]
        run.__annotations__ = {**inspect.get_annotations(function, eval_str=True), "context": typer.Context}
    return run


def fail(sentence: str, code: int = 2) -> NoReturn:
    """Say `sentence` on standard error and leave with `code`."""
    print(f"solspace: {sentence}", file=sys.stderr, flush=True)
    raise typer.Exit(code)


def _told(error: Exception) -> tuple[str, int]:
    """Return what to say of an error, and the exit code."""
    words = " ".join(str(error).split()) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        words = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    from solspace.samplers.device import NoDevice
    from solspace.system.compiled import JitDisabled

    files = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)
    if isinstance(error, (ValueError, ImportError, NoDevice, JitDisabled, *files)):
        return words, 2
    if isinstance(error, OSError):
        return words, 1
    if isinstance(error, MemoryError):
        return f"there is not enough memory for this ({words}); ask for less.", 1
    what = "the numbers left the range of the computation" if isinstance(error, ArithmeticError) else "this failed"
    return f"{what} ({type(error).__name__}: {words}); `solspace --debug ...` shows where.", 1


def _leave_quietly() -> None:
    """End as a tool does whose output nobody reads any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is still to be flushed
    raise typer.Exit(128 + 13)


def say(text: str = "") -> None:
    """Print a line for the person who waits: on standard error, so that standard output stays the result's."""
    print(text, file=sys.stderr, flush=True)


def show_table(title: str, rows: Iterable[Sequence[str]], columns: Sequence[str]) -> None:
    """Print a table on standard output, outside a terminal as wide as its cells; those over 60 characters are folded."""
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    names = max((len(row[0]) for row in rows), default=0)
    table = Table(show_edge=False, pad_edge=False)
    table.add_column(columns[0], min_width=names)
    for column in columns[1:]:
        table.add_column(column, justify="right", max_width=60, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        console = Console(width=Console(width=10_000).measure(table).maximum)
    console.on_broken_pipe = _leave_quietly  # type: ignore[method-assign]  # Rich would leave with code 1
    console.print(title, style="bold", markup=False, highlight=False, soft_wrap=True)
    console.print(table, crop=False)


def show_json(values: object) -> None:
    """Print `values` as JSON; numbers that JSON cannot say become null."""
    from solspace.system.plain import plain

    print(json.dumps(plain(values), indent=2, allow_nan=False))


PICTURES = (".png", ".pdf", ".svg", ".eps", ".jpg", ".webp", ".tif")


def result_file(out: Path, name: str, endings: Sequence[str] = PICTURES) -> Path:
    """Return the file that `--out` means: `name` in that folder, which is made, or `out` itself where it has one of `endings`."""
    file = out if out.suffix.lower() in endings else out / name
    make_room(file.parent, [file.name])
    return file


def make_room(out: Path, names: Iterable[str]) -> None:
    """Make the folder, and look for what would be in the way of the results before any work is done."""
    out.mkdir(parents=True, exist_ok=True)
    for name in names:
        if (out / name).is_dir():
            raise IsADirectoryError(f"the results go to {out / name}, but that is a folder: give another --out.")
    if not os.access(out, os.W_OK):
        raise PermissionError(f"the results go to {out}, which you may not write to: give another --out.")
