"""Make the notebooks from their sources, outputs included: ``python docs/notebooks/build.py [NAME...]`` (a minute).

`NAME.py` holds the cells in the percent format, which editors open as a notebook; `NAME.ipynb` is made from it without
Jupyter. Outputs of a cell are what it prints, the value of its last line and the Matplotlib figures that it leaves open.
The site shows the notebooks as they are stored.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import io
import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
DPI = 130
"""Dots per inch of the pictures: notebooks stay below a megabyte."""
MARK = "# %%"


class Cell(NamedTuple):
    """A cell: its kind (`markdown` or `code`) and its text."""

    kind: str
    text: str


def cells(source: str) -> list[Cell]:
    """Return the cells of a source in the percent format.

    >>> cells("# %% [markdown]\\n# # Title\\n#\\n# Words.\\n\\n# %%\\nx = 1\\nx\\n")
    [Cell(kind='markdown', text='# Title\\n\\nWords.'), Cell(kind='code', text='x = 1\\nx')]
    """
    found = []
    for part in f"\n{source}".split(f"\n{MARK}")[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip("\n").splitlines())
            found.append(Cell("markdown", text))
        else:
            found.append(Cell("code", body.strip("\n")))
    return found


def run(code: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Execute one cell in `names` and return its outputs, as a notebook stores them."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", UserWarning)
        value = _value(code, names)
    outputs = [_stream("stdout", printed.getvalue())] if printed.getvalue() else []
    outputs += [_stream("stderr", f"{type(w.message).__name__}: {w.message}\n") for w in warned]
    outputs += [_shown({"image/png": picture}) for picture in _pictures()]
    if value is not None and not code.rstrip().endswith(";"):
        outputs.append({**_shown(_spelled(value)), "output_type": "execute_result", "execution_count": None})
    return outputs


def _value(code: str, names: dict[str, Any]) -> Any:
    """Return the value of the last line of `code`; None if it is no expression."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)


def _pictures() -> Iterator[str]:
    import matplotlib.pyplot as plt

    for number in plt.get_fignums():
        content = io.BytesIO()
        plt.figure(number).savefig(content, dpi=DPI, bbox_inches="tight", metadata={"Software": None})
        yield base64.b64encode(content.getvalue()).decode()
    plt.close("all")


def _spelled(value: Any) -> dict[str, Any]:
    html = getattr(value, "_repr_html_", None)
    rich = {"text/html": _lines(html())} if html is not None else {}
    return {**rich, "text/plain": _lines(repr(value))}


def _stream(name: str, text: str) -> dict[str, Any]:
    return {"output_type": "stream", "name": name, "text": _lines(text)}


def _shown(data: dict[str, Any]) -> dict[str, Any]:
    return {"output_type": "display_data", "data": data, "metadata": {}}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook(source: str, name: str) -> dict[str, Any]:
    """Return the notebook of a source, its cells executed one after the other."""
    names: dict[str, Any] = {"__name__": "__main__"}
    entries = []
    for number, cell in enumerate(cells(source)):
        entry = {"cell_type": cell.kind, "id": f"{name}-{number}", "metadata": {}, "source": _lines(cell.text)}
        if cell.kind == "code":
            entry |= {"execution_count": None, "outputs": run(cell.text, names)}
        entries.append(entry)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": entries, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def sources() -> list[Path]:
    """Return the sources of all notebooks."""
    return sorted(set(FOLDER.glob("*.py")) - {Path(__file__)})


def main() -> None:
    """Make the named notebooks, or all."""
    import matplotlib
    import matplotlib.pyplot as plt

    matplotlib.use("agg")
    plt.show = lambda: None  # figures are collected at the end of a cell
    for source in sources():
        if len(sys.argv) == 1 or source.stem in sys.argv[1:]:
            content = notebook(source.read_text(encoding="utf-8"), source.stem)
            text = json.dumps(content, indent=1, ensure_ascii=False)
            source.with_suffix(".ipynb").write_text(f"{text}\n", encoding="utf-8")
            print(source.with_suffix(".ipynb").name, flush=True)


if __name__ == "__main__":
    main()
