"""Write the gallery page when the site is built: each figure that `solspace reproduce` knows and whose picture is there.

The pictures are `docs/gallery/ID-SIZE.png`, the numbers in them `ID-SIZE.csv`, what to see in them `captions.toml`. Of several
sizes the largest is shown, with links to the others.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from solspace.experiments import figures

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

FOLDER = Path(__file__).parents[1] / "gallery"
START = """# Gallery

Every figure of the paper, made by solspace, and some of our own. Each command computes what it needs, keeps the results
in `figures.db` (an interrupted command continues when repeated), and writes picture and table into `figures/`.
`--size quick` takes minutes on two cores; `--size paper` has the paper's sizes and numbers of instances and is meant for
a large machine, a GPU (`--device gpu`) or a cluster (`--executor dask`). `solspace reproduce ID --size paper --dry-run`
estimates the cost. Each picture has the size that its command names.

"""


def on_files(files: Files, config: Any, **_: Any) -> Files:
    """Add the page to the site."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "gallery.md", content=page()))
    return files


def page() -> str:
    """Return the page in Markdown."""
    captions = tomllib.loads((FOLDER / "captions.toml").read_text(encoding="utf-8"))
    return START + "\n".join(section for name in figures.FIGURES for section in _sections(name, captions[name]))


def _sections(name: str, caption: str) -> Iterator[str]:
    sizes = [size for size in figures.SIZES if (FOLDER / f"{name}-{size}.png").exists()]
    if not sizes:
        return
    figure = figures.find(name)
    place = f"{figure.place} of the paper" if re.match(r"Fig\.|appendix", figure.place) else "an extension of the paper"
    yield f"## {_sentence(figure.title)} {{#{name}}}\n"
    yield f"*{_sentence(place)}.* {' '.join(caption.split())}\n"
    *smaller, size = sizes
    yield f"```bash\nsolspace reproduce {name} --size {size}\n```\n"
    file = f"gallery/{name}-{size}"
    yield f"[![{figure.title}]({file}.png){{ loading=lazy }}]({file}.png)\n"
    others = [f"[what `--size {one}` draws](gallery/{name}-{one}.png)" for one in smaller]
    yield " · ".join([f"[The numbers in this picture]({file}.csv) (CSV)", *others]) + "\n"


def _sentence(text: str) -> str:
    """Return `text` with a capital, unless it begins with a symbol, as "dφ/dq" does."""
    return text[0].upper() + text[1:] if re.match(r"[a-z]+[ ,.]", text) else text
