"""`solspace sweep` and `solspace reproduce` from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SPEC = 'n = [7, 9]\nalpha = {start = 0.2, stop = 0.4, step = 0.1}\ninstances = 4\nsampler = "exact"\n'


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from solspace.cli import main; main()", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "small.toml").write_text(SPEC)
    return tmp_path


def test_sweep_status_export(folder: Path) -> None:
    done = run("sweep", "small.toml", "--json", cwd=folder)
    report = json.loads(done.stdout)
    assert report["done"] + report["failed"] == 24
    assert done.returncode == (1 if report["failed"] else 0)
    assert len(report["solved_fraction"]) == 6
    status = json.loads(run("sweep", "small.toml", "--status", "--json", cwd=folder).stdout)
    assert (status["name"], status["tasks"], status["done"], status["to do"]) == ("small", 24, report["done"], 0)
    again = run("sweep", "small.toml", cwd=folder)
    assert "24" in again.stderr or report["failed"]
    assert run("sweep", "small.toml", "--export", "rows.csv", cwd=folder).returncode == 0
    assert len((folder / "rows.csv").read_text().splitlines()) == 25


def test_dry_run_counts_estimates_and_writes_nothing(folder: Path) -> None:
    done = run("sweep", "small.toml", "--dry-run", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "24 tasks, about" in done.stdout
    assert "timed: n 7" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["small.toml"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none.toml"], "there is no spec at none.toml"),
        (["small.toml", "--status"], "there is no store at runs.db"),
        (["small.toml", "--executor", "proceses"], "did you mean 'processes'"),
        (["small.toml", "--export", "rows.txt"], "--export writes .csv or .parquet"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    done = run("sweep", *arguments, cwd=folder)
    assert done.returncode in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
