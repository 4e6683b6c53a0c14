"""The package keeps its shape: layers, light import, public names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import solspace as ss

HEAVY = ["matplotlib", "cupy", "dask", "panel", "bokeh", "numba", "sklearn", "pandas", "arviz", "rich", "typer"]


def test_import_is_light():
    code = f"import sys, solspace; print([m for m in {HEAVY} if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


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


def test_layers():
    pytest.importorskip("importlinter")
    linter = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([linter, "--no-cache"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
