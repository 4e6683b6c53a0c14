"""The package keeps its shape: layers, light import, public names."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

import solspace as ss

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "solspace"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
FOR_DEVELOPERS = ("test", "docs", "bench", "dev")
HOLDERS = packages_distributions()
HEAVY = ["matplotlib", "cupy", "dask", "panel", "bokeh", "numba", "sklearn", "pandas", "arviz", "rich", "typer"]


def test_import_is_light():
    code = (
        f"import sys, solspace as ss; print([m for m in {HEAVY} if m in sys.modules]);"
        "ss.Samples, ss.Prediction, ss.diagnose; print([m for m in ['matplotlib'] if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).split() == ["[]", "[]"]


def test_targets_and_problems_need_no_compiler():
    code = (
        "import sys, solspace as ss; p = ss.Perceptron.random(9, 0.3, rng=0); p.enumerate().sample(2);"
        f"print([m for m in {HEAVY} if m in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_public_names_exist_and_are_listed():
    for name in ss.__all__:
        assert getattr(ss, name) is not None
    assert set(ss.__all__) <= set(dir(ss))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ss.nonsense


def test_a_name_that_is_not_public_gets_a_hint_of_what_is():
    wanted = {
        "theory": "ss.predict",
        "samplers": "ss.localize",
        "learn": "import solspace.learn",
        "localise": "'localize'",
    }
    code = (
        "import solspace as ss\n"
        f"for name, hint in {wanted}.items():\n"
        "    try: getattr(ss, name)\n"
        "    except AttributeError as error: assert hint in str(error), error\n"
        "    else: assert False, name\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)  # where nothing else was imported


def test_layers():
    """The contracts of pyproject.toml, by import-linter itself: in whatever folder the tests are started."""
    linter = shutil.which("lint-imports", path=Path(sys.executable).parent)
    assert linter, "import-linter is in the extra `test`"
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_every_import_is_declared():
    """What is imported anywhere in the package, at whatever moment, is a dependency or in an extra for users."""
    imported = {name for path in (ROOT / "src").rglob("*.py") for name in imports(path)}
    foreign = imported - sys.stdlib_module_names - {"solspace"}
    assert {"numpy", "llvmlite", "distributed", "tornado"} <= foreign
    undeclared = {name for name in foreign if not distributions(name) & declared()}
    assert not undeclared


def imports(path):
    """Return the top-level names that a module imports, inside functions too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def distributions(name):
    """Return the projects that hold a module, by the names that pyproject.toml gives them."""
    if name.startswith("cupy"):  # seldom installed, under a name for each CUDA
        return {"cupy-cuda12x"}
    return {project.lower() for project in HOLDERS.get(name, [name])}


def declared():
    extras = PROJECT["optional-dependencies"]
    groups = [PROJECT["dependencies"], *(extras[extra] for extra in extras if extra not in FOR_DEVELOPERS)]
    return {re.split(r"[\[<>=;]", entry)[0].lower() for group in groups for entry in group}


def test_every_dependency_has_a_lowest_version():
    """CI installs the lowest ones and runs tests with them; without a bound it would take the first release ever."""
    groups = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for entry in (entry for group in groups for entry in group if not entry.startswith("solspace[")):
        assert ">=" in entry, entry


def test_no_test_is_skipped_for_a_missing_library():
    """What the tests need is in the extra `test`: that it does not import is a failure."""
    word = "import" + "orskip"
    assert not [path.name for path in (ROOT / "tests").rglob("*.py") if word in path.read_text(encoding="utf-8")]
