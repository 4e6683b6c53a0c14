"""`solspace sweep` and `solspace reproduce` from the shell."""

from __future__ import annotations

import json
import re
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
    assert json.loads(run("sweep", "small.toml", "--export", "rows.csv", "--json").stdout)["file"] == "rows.csv"


def test_damaged_rows_are_named_and_computed_anew(folder: Path) -> None:
    """A byte changes in an idle file: `--verify` and `--status` name the row, the same command computes it anew."""
    (folder / "small.toml").write_text('n = 9\nalpha = 0.3\ninstances = 4\nsampler = "exact"\n')
    assert run("sweep", "small.toml", "--executor", "serial", "--verify").exit_code == 2  # there is no store yet
    assert run("sweep", "small.toml", "--executor", "serial").exit_code == 0
    assert "4 done, 0 failed, all as they were written" in run("sweep", "small.toml", "--verify").stdout
    before = run("sweep", "small.toml", "--json").stdout
    content = (folder / "runs.db").read_bytes()
    place = content.index(b'"solved_fraction":1.0')
    (folder / "runs.db").write_bytes(content[:place] + b'"solved_fraction":0.0' + content[place + 21 :])

    verified = run("sweep", "small.toml", "--verify")
    assert verified.exit_code == 1
    (key,) = re.findall(r"result ([0-9a-f]{32}) is damaged: it differs from its digest", verified.stderr)
    report = json.loads(run("sweep", "small.toml", "--verify", "--json").stdout)
    assert [damage["key"] for damage in report["damaged"]] == [key]
    assert json.loads(run("sweep", "small.toml", "--status", "--json").stdout)["damaged"] == 1
    exported = run("sweep", "small.toml", "--export", "rows.csv")
    assert exported.exit_code == 2
    assert f"result {key} is damaged" in exported.stderr

    with pytest.warns(UserWarning, match=f"1 of its results were damaged .* computed anew .*{key}"):
        assert run("sweep", "small.toml", "--json").stdout == before
    assert run("sweep", "small.toml", "--verify").exit_code == 0


def test_a_sweep_into_memory_is_refused(folder: Path) -> None:
    done = run("sweep", "small.toml", "--store", ":memory:")
    assert done.exit_code == 2
    assert "':memory:' is no store" in done.stderr


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
