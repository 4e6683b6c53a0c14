"""What users install: all that the package needs, nothing that it does not, and metadata that resolves."""

import re
import tomllib
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager

import solspace as ss

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SOURCES = {".py", ".cu", ".cuh", ".html", ".css", ".js", ".typed"}


def files(builder):
    """Return the paths that the archive will hold, as hatchling chooses them."""
    return {file.distribution_path.replace("\\", "/") for file in builder(str(ROOT)).recurse_included_files()}


@pytest.fixture(scope="module")
def wheel():
    return files(WheelBuilder)


def test_the_wheel_holds_every_source_and_nothing_else(wheel):
    package = ROOT / "src" / "solspace"
    there = {f"solspace/{path.relative_to(package).as_posix()}" for path in package.rglob("*") if path.is_file()}
    sources = {name for name in there if Path(name).suffix in SOURCES or name.endswith("py.typed")}
    assert sources == wheel
    assert {"solspace/py.typed", "solspace/samplers/kernels/cuda/chain.cuh", "solspace/explorer/page.html"} <= wheel
    assert all(path.startswith("solspace/") for path in wheel)


def test_no_pictures_and_no_data_are_shipped(wheel):
    assert not [path for path in wheel if re.search(r"\.(npz|npy|gz|idx|png|jpe?g|csv|db|pkl|tar)$", path)]


def test_the_sdist_holds_what_its_tests_need():
    there = files(SdistBuilder)
    for path in ("src/solspace/py.typed", "tests/conftest.py", "conftest.py", "benchmarks/__main__.py", "docs/theory.md",
                 "examples/mnist.py", "mkdocs.yml", "README.md", "LICENSE", ".github/workflows/release.yml"):  # fmt: skip
        assert path in there, path
    assert not [
        path for path in there if path.startswith(("site/", ".venv/", "docs/gallery/")) and path.endswith("png")
    ]


def test_the_metadata_is_valid_and_says_the_version():
    metadata = ProjectMetadata(str(ROOT), PluginManager())
    metadata.validate_fields()  # classifiers among them
    assert metadata.version == ss.__version__


def test_extras_that_pages_and_messages_name_are_there():
    named = set()
    for folder, kind in (("src", "*.py"), ("docs", "*.md"), ("benchmarks", "*.py")):
        for path in (ROOT / folder).rglob(kind):
            text = path.read_text(encoding="utf-8")
            named |= {
                extra for group in re.findall(r"(?:solspace|'\.)\[([a-z0-9,]+)\]", text) for extra in group.split(",")
            }
            named |= set(re.findall(r"\binstall\(['\"]([a-z0-9]+)['\"]\)", text))
    assert {"gpu", "cluster", "bench"} <= named
    assert named <= set(PROJECT["optional-dependencies"])


def test_every_file_that_names_the_version_names_this_one():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", changelog, re.MULTILINE)
    date = re.fullmatch(rf"{re.escape(ss.__version__)} \((\d{{4}}-\d\d-\d\d)\)", sections[1])
    assert sections[0] == "Unreleased"
    assert date is not None, sections[1]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {ss.__version__}\ndate-released: {date[1]}\n" in citation
