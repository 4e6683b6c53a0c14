"""The notebooks run from their first to their last cell without Jupyter, and are those of their sources."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


def script(path):
    """Return a script of the documentation as a module."""
    spec = spec_from_file_location(f"docs_{path.stem}", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def cells(path):
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def source(cell):
    return "".join(cell["source"])


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plt, "show", lambda: None)
    plt.switch_backend("agg")
    names = {"__name__": "__main__"}
    try:
        for cell in cells(path):
            if cell["cell_type"] == "code":
                exec(compile(source(cell), f"{path.name}, {cell['id']}", "exec"), names)
        assert plt.get_fignums()
    finally:
        plt.close("all")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_that_of_its_source_and_has_its_outputs(path):
    build = script(DOCS / "notebooks" / "build.py")
    made = build.cells(path.with_suffix(".py").read_text(encoding="utf-8"))
    again = f"{path.stem}.py was changed: run python docs/notebooks/build.py {path.stem}"
    assert [(cell["cell_type"], source(cell)) for cell in cells(path)] == [tuple(cell) for cell in made], again
    outputs = [output for cell in cells(path) for output in cell.get("outputs", ())]
    assert {"stream", "display_data"} <= {output["output_type"] for output in outputs}
    assert not [output for output in outputs if output.get("name") == "stderr"]
    assert path.stat().st_size < 2**20


def test_a_source_is_cut_into_cells_and_a_cell_gives_what_it_prints_and_what_it_is_worth():
    build = script(DOCS / "notebooks" / "build.py")
    first, second = build.cells("# %% [markdown]\n# # Title\n#\n# Words.\n\n# %%\nprint(1)\n2 + 1\n")
    assert first == ("markdown", "# Title\n\nWords.")
    printed, worth = build.run(second.text, {})
    assert printed == {"output_type": "stream", "name": "stdout", "text": ["1\n"]}
    assert worth["data"] == {"text/plain": ["3"]}


def test_a_page_shows_cells_words_tables_and_pictures():
    hook = script(DOCS / "hooks" / "notebooks.py")
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["said\n"]},
        {"output_type": "execute_result", "data": {"text/html": ["<b>table</b>"], "text/plain": ["table"]}},
        {"output_type": "display_data", "data": {"image/png": "aGVsbG8="}},
    ]
    made = [
        {"cell_type": "markdown", "source": ["# One\n", "\n", "See [two](two.ipynb)."]},
        {"cell_type": "code", "source": ["print('said')"], "outputs": outputs},
    ]
    page, pictures = hook.page({"cells": made}, "one")
    assert pictures == {"one-1.png": b"hello"}
    for part in (
        "# One\n",
        "[two](two.md)",
        "```python\nprint('said')",
        "\nsaid\n",
        "<b>table</b>",
        "![One](one-1.png)",
    ):
        assert part in page
