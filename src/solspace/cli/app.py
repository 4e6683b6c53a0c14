"""What all verbs share: the application, how an error is told, how a table and JSON are printed.

Bad input is one clear sentence on standard error and exit code 2; Ctrl-C is exit code 130, after what is done was kept.
"""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any

import numpy as np
import typer

from solspace._version import __version__

JSON = Annotated[bool, typer.Option("--json", help="Print the result as JSON on standard output, nothing else.")]


def make_app() -> typer.Typer:
    """Return the application without its verbs."""
    app = typer.Typer(
        name="solspace",
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
    ) -> None:
        pass

    return app


def _show_version(asked: bool) -> None:
    if asked:
        print(f"solspace {__version__}")
        raise typer.Exit


def verb(function: Callable[..., None]) -> Callable[..., None]:
    """Tell a user's mistakes in one sentence: `ValueError` and the like end with exit code 2 and no traceback."""

    @functools.wraps(function)
    def run(*args: Any, **kwargs: Any) -> None:
        try:
            function(*args, **kwargs)
        except (ValueError, ImportError, FileNotFoundError, IsADirectoryError, PermissionError) as error:
            fail(_sentence(error))
        except OSError as error:
            fail(_sentence(error), code=1)
        except KeyboardInterrupt:
            fail("stopped; what was done so far is kept.", code=130)

    return run


def fail(sentence: str, code: int = 2) -> None:
    """Say `sentence` on standard error and leave with `code`."""
    print(f"solspace: {sentence}", file=sys.stderr)
    raise typer.Exit(code)


def _sentence(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return " ".join(str(error).split())


def say(text: str = "") -> None:
    """Print a line for the person who waits: on standard error, so that standard output stays the result's."""
    print(text, file=sys.stderr)


def show_table(title: str, rows: Iterable[Sequence[str]], columns: Sequence[str]) -> None:
    """Print a table on standard output."""
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", show_edge=False, pad_edge=False)
    for k, column in enumerate(columns):
        table.add_column(column, justify="left" if k == 0 else "right")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def show_json(values: Any) -> None:
    """Print `values` as JSON; numbers that JSON cannot say become null."""
    print(json.dumps(plain(values), indent=2, allow_nan=False))


def plain(values: Any) -> Any:
    """Return `values` with NumPy's types made Python's and non-finite numbers made None."""
    if isinstance(values, dict):
        return {str(key): plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    if isinstance(values, np.ndarray):
        return plain(values.tolist())
    if isinstance(values, np.generic):
        return plain(values.item())
    if isinstance(values, float) and not np.isfinite(values):
        return None
    return values
