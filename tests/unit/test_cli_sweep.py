"""`solspace sweep` and `solspace reproduce` from the shell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from solspace.cli import reproduce, sweep
from solspace.cli.app import make_app

SPEC = 'n = [7, 9]\nalpha = {start = 0.2, stop = 0.4, step = 0.1}\ninstances = 4\nsampler = "exact"\n'


def run(*arguments: str) -> Any:
    app = make_app()
    sweep.register(app)
    reproduce.register(app)
    return CliRunner().invoke(app, list(arguments))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "small.toml").write_text(SPEC)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_sweep_status_export(folder: Path) -> None:
    command = [sys.executable, "-c", "from solspace.cli import main; main()", "sweep", "small.toml", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    report = json.loads(done.stdout)
    assert report["done"] + report["failed"] == 24
    assert done.returncode == (1 if report["failed"] else 0)
    assert len(report["solved_fraction"]) == 6
    status = json.loads(run("sweep", "small.toml", "--status", "--json").stdout)
    assert (status["name"], status["tasks"], status["done"], status["to do"]) == ("small", 24, report["done"], 0)
    again = run("sweep", "small.toml")
    assert f"{report['done']} done" in again.stderr
    assert "fraction solved" in again.stdout
    assert run("sweep", "small.toml", "--export", "rows.csv").exit_code == 0
    assert len((folder / "rows.csv").read_text().splitlines()) == 25


def test_dry_run_counts_estimates_and_writes_nothing(folder: Path) -> None:
    done = run("sweep", "small.toml", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "24 tasks, about" in done.stdout
    assert "timed: n 7" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["small.toml"]
    report = json.loads(run("sweep", "small.toml", "--dry-run", "--json").stdout)
    assert report["tasks"] == 24
    assert report["axes"]["alpha"] == [0.2, 0.3, 0.4]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sweep", "none.toml"], "there is no spec at none.toml"),
        (["sweep", "small.toml", "--status"], "there is no store at runs.db"),
        (["sweep", "small.toml", "--executor", "proceses"], "did you mean 'processes'"),
        (["sweep", "small.toml", "--export", "rows.txt"], "--export writes .csv or .parquet"),
        (["reproduce", "edg"], "unknown figure 'edg': did you mean 'edge'"),
        (["reproduce", "edge", "--size", "big"], "unknown size 'big'"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder: Path, arguments: list[str], sentence: str) -> None:
    done = run(*arguments)
    assert done.exit_code in (1, 2)
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr


def test_reproduce_lists_figures() -> None:
    rows = json.loads(run("reproduce", "--list", "--json").stdout)
    assert {"mcmc-comparison", "threshold-temperature"} <= {row["id"] for row in rows}
    assert all(row["quick"] > 0 and row["paper"] >= row["quick"] for row in rows)
    assert "Fig. 3" in run("reproduce", "--list").stdout
