"""Every code block of the documentation runs, and every public name is documented with an example that runs."""

from __future__ import annotations

import inspect
import re
import shlex
import sys
import tomllib
import types
from importlib import import_module
from pathlib import Path

import pytest

import solspace as ss
from solspace.cli import main
from solspace.experiments import figures

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
API = sorted((ROOT / "docs" / "api").glob("*.md"))
BLOCK = re.compile(r'^```(\w+)(?: title="([^"]+)")?\n(.*?)^```', re.MULTILINE | re.DOTALL)
ENTRY = re.compile(r"^::: solspace\.([\w.]+)$", re.MULTILINE)
CITED = re.compile(r"theory notes(?:, sections)? (\d+(?:\.\d+)?)(?: and (\d+(?:\.\d+)?))?")
SAID = {"to_arviz", "to_onnx", "to_pandas", "to_parquet", "from_toml", "fetch", "add_all", "join"}
"""What needs a package beyond the core, a file or a network, or several runs: the pages name it in a sentence."""
INSIDE = "theory.localization.Localization"
"""Not a public name; the page shows only the method that its example uses."""


def blocks(page, language="python"):
    return [code for given, _, code in BLOCK.findall(page.read_text(encoding="utf-8")) if given == language]


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    known = set(ss.potentials.REGISTRY)
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    try:
        for language, title, code in BLOCK.findall(page.read_text(encoding="utf-8")):
            if title:
                Path(title).write_text(code, encoding="utf-8")
            elif language == "python":
                exec(compile(code, str(page), "exec"), module.__dict__)
            elif language == "bash":
                for line in filter(runs_anywhere, code.splitlines()):
                    run_command(line, monkeypatch)
    finally:
        for name in set(ss.potentials.REGISTRY) - known:
            del ss.potentials.REGISTRY[name]


def runs_anywhere(line):
    """Return whether a line of a shell is ours and needs no other machine, no clone and no minutes."""
    return line.startswith("solspace ") and not re.search(r"gpu|tcp://|reproduce|explore|bench|paper", line)


def run_command(line, monkeypatch):
    monkeypatch.setattr(sys, "argv", shlex.split(line))
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code in (None, 0), line


def entries():
    """Return everything that the API pages document, by its name below `solspace`."""
    return {name: resolve(name) for page in API for name in ENTRY.findall(page.read_text(encoding="utf-8"))}


def resolve(name):
    thing = ss
    for part in name.split("."):
        thing = getattr(thing, part) if hasattr(thing, part) else import_module(f"{thing.__name__}.{part}")
    return thing


def members(thing):
    """Return the public classes and functions of a module, or the public methods of a class, by name."""
    if inspect.ismodule(thing):
        names = getattr(thing, "__all__", None) or [n for n in vars(thing) if not n.startswith("_")]
        found = {n: getattr(thing, n) for n in names}
        return {n: x for n, x in found.items() if inspect.isfunction(x) or does_something(x) if home(x, thing)}
    hidden = ("_", "set_")  # scikit-learn adds its own setters
    return {n: x for n, x in vars(thing).items() if not n.startswith(hidden) and callable(getattr(thing, n))}


def does_something(thing):
    """Return whether `thing` is a class with methods: neither a record nor a protocol."""
    return inspect.isclass(thing) and not getattr(thing, "_is_protocol", False) and bool(members(thing))


def home(thing, module):
    return hasattr(module, "__all__") or thing.__module__ == module.__name__


def shown():
    """Return all code that readers of the API pages see: blocks of the pages, examples of the docstrings."""
    text = [code for page in API for code in blocks(page)]
    for thing in entries().values():
        text += examples(thing)
        for member in members(thing).values() if inspect.ismodule(thing) or inspect.isclass(thing) else ():
            text += examples(member)
    return "\n".join(text)


def examples(thing):
    return [line for line in (inspect.getdoc(thing) or "").splitlines() if line.lstrip().startswith((">>>", "..."))]


@pytest.mark.parametrize("name", [name for name in ss.__all__ if not name.startswith("__")])
def test_a_public_name_is_documented_with_an_example(name):
    assert name in entries(), f"{name} is missing from docs/api"
    thing = getattr(ss, name)
    if not inspect.ismodule(thing):
        assert examples(thing), f"{name} has no example in its docstring"


def test_everything_on_the_api_pages_is_shown_at_work():
    code, missing = shown(), []
    for name, thing in entries().items():
        grouped = (inspect.isclass(thing) or inspect.ismodule(thing)) and name != INSIDE
        wanted = [member for member in members(thing) if member not in SAID] if grouped else [name.split(".")[-1]]
        missing += [f"{name}: {member}" for member in wanted if not re.search(rf"\b{member}\b", code)]
    assert not missing, f"no example shows {missing}"


def test_docstrings_cite_sections_of_the_theory_notes_that_are_there():
    anchors = set(re.findall(r"\{ #theory-([\d.]+) \}", (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")))
    for file in (ROOT / "src").rglob("*.py"):
        for match in CITED.finditer(file.read_text(encoding="utf-8")):
            assert {section for section in match.groups() if section} <= anchors, f"{file}: {match.group()}"


def test_every_figure_has_a_caption_and_no_picture_is_without_a_figure():
    folder = ROOT / "docs" / "gallery"
    assert set(tomllib.loads((folder / "captions.toml").read_text(encoding="utf-8"))) == set(figures.FIGURES)
    known = {f"{name}-{size}" for name in figures.FIGURES for size in figures.SIZES}
    assert {picture.stem for picture in folder.glob("*.png")} <= known


@pytest.mark.slow
def test_the_glossary_names_what_is_there():
    from solspace.diagnostics import Report

    text = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    problem = ss.Perceptron.random(n=7, alpha=0.4, rng=0)
    homes = {"ss": ss, "problem": problem, "samples": ss.anneal(problem, 1, 2, rng=0), "target": problem.target,
             "prediction": ss.predict(problem.target, 0.4), "report": Report(1, 1, None, "")}  # fmt: skip
    homes["thresholds"] = types.SimpleNamespace(
        **dict.fromkeys(("dat", "dynamical", "condensation", "capacity", "overlap_gap"))
    )
    found = re.findall(rf"`({'|'.join(homes)})\.(\w+)", text)
    assert len(found) > 30
    assert not [f"{home}.{name}" for home, name in found if not hasattr(homes[home], name)]


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_links_of_a_page_beside_the_site_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)", (ROOT / page).read_text(encoding="utf-8"))
    assert not [link for link in links if "://" not in link and not (ROOT / link).exists()]
