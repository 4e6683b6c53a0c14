"""Show the notebooks of `docs/notebooks` as pages when the site is built: their cells, and the outputs stored in them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

FOLDER = Path(__file__).parents[1] / "notebooks"
_BESIDE = re.compile(r"\]\(([\w-]+)\.ipynb\)")
_ELSEWHERE = re.compile(r"\]\(((?:\.\./)*notebooks/[\w-]+)\.ipynb\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
START = (
    "*A notebook: [download it]({name}.ipynb), or read its source, `docs/notebooks/{name}.py`. It runs in seconds.*\n"
)


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add a page for every notebook, and its pictures."""
    from mkdocs.structure.files import File

    for path in sorted(FOLDER.glob("*.ipynb")):
        text, pictures = page(json.loads(path.read_text(encoding="utf-8")), path.stem)
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=text))
        for name, content in pictures.items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Lead links to a notebook to its page; where Markdown is read as it is they lead to the notebook."""
    return _ELSEWHERE.sub(r"](\1.md)", markdown)


def page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """Return the page of a notebook in Markdown, and its pictures by file name.

    >>> said = {"output_type": "stream", "text": ["1\\n"]}
    >>> cells = [{"cell_type": "markdown", "source": ["# One"]},
    ...          {"cell_type": "code", "source": ["print(1)"], "outputs": [said]}]
    >>> print(page({"cells": cells}, "one")[0].replace("`" * 3, "~~~"))
    # One
    <BLANKLINE>
    *A notebook: [download it](one.ipynb), or read its source, `docs/notebooks/one.py`. It runs in seconds.*
    <BLANKLINE>
    ~~~python
    print(1)
    ~~~
    <BLANKLINE>
    ~~~ { .text .output }
    1
    ~~~
    <BLANKLINE>
    """
    parts, pictures, heading = [], {}, name
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            heading = ([heading, *_HEADING.findall(text)])[-1]
            title, rest = text.partition("\n")[::2] if not parts else ("", text)
            parts += [f"{title}\n", START.format(name=name)] if title else []
            parts.append(_BESIDE.sub(r"](\1.md)", rest).strip() + "\n")
            continue
        parts.append(f"```python\n{text}\n```\n")
        for output in cell["outputs"]:
            picture = output.get("data", {}).get("image/png")
            if picture:
                file = f"{name}-{len(pictures) + 1}.png"
                pictures[file] = base64.b64decode(picture)
                parts.append(f"![{heading}]({file}){{ loading=lazy }}\n")
            else:
                parts += _words(output)
    return "\n".join(part for part in parts if part.strip()), pictures


def _words(output: dict[str, Any]) -> Iterator[str]:
    data = output.get("data", {"text/plain": output.get("text", [])})
    if "text/html" in data:
        yield f'<div class="output">\n{"".join(data["text/html"])}\n</div>\n'
    else:
        yield f"``` {{ .text .output }}\n{''.join(data['text/plain']).rstrip()}\n```\n"
