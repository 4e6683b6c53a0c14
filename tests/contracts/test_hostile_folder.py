"""A folder full of files that are named like modules, and a file that tells Numba to take compiled code from there.

Whatever is run in it, none of them is.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

NAMES = {*sys.stdlib_module_names, "numpy", "scipy", "numba", "matplotlib", "sklearn", "typer", "rich", "filelock",
         "threadpoolctl", "distributed", "dask", "tornado", "cloudpickle", "solspace", "sitecustomize"}  # fmt: skip
SPEC = 'n = 9\nalpha = 0.3\ninstances = 3\nsampler = "exact"\n'
PROGRAM = shutil.which("solspace", path=Path(sys.executable).parent) or "solspace"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "downloads"
    place.mkdir()
    (place / "spec.toml").write_text(SPEC)
    (place / ".numba_config.yaml").write_text("cache_dir: compiled\n")  # unpickled: it would be code of the folder's
    for name in NAMES:
        (place / f"{name}.py").write_text(f"open({str(tmp_path / 'run')!r}, 'a').write({name!r} + ' ')\n")
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "spec.toml", "--executor", "processes", "--workers", "1"],
        ["sweep", "spec.toml", "--executor", "dask", "--workers", "1"],
        ["sample", "--n", "51", "--samples", "2", "--sampler", "tau", "--sweeps", "5"],
    ],
    ids=["processes", "dask", "sample"],
)
def test_nothing_in_the_current_folder_is_run(folder: Path, arguments: list[str]) -> None:
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True, timeout=300)
    assert not (folder.parent / "run").exists(), (folder.parent / "run").read_text()
    assert not (folder / "compiled").exists()
    assert done.returncode == 0, done.stderr
