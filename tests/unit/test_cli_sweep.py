"""`solspace sweep` and `solspace reproduce` from the shell."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from terminal import invoke as run

from solspace.experiments import figures, runner
from solspace.experiments.spec import Spec
from solspace.experiments.tasks import Task, finished
from solspace.store import Result

SPEC = 'n = [7, 9]\nalpha = {start = 0.2, stop = 0.4, step = 0.1}\ninstances = 4\nsampler = "exact"\n'


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

    with pytest.warns(UserWarning, match=f"1 of its results were damaged.*computed again.*{key}"):
        assert run("sweep", "small.toml", "--json").stdout == before
    assert run("sweep", "small.toml", "--verify").exit_code == 0


def test_a_sweep_into_memory_is_refused(folder: Path) -> None:
    done = run("sweep", "small.toml", "--store", ":memory:")
    assert done.exit_code == 2
    assert ":memory: is not a file" in done.stderr


def test_dry_run_counts_estimates_and_writes_nothing(folder: Path) -> None:
    done = run("sweep", "small.toml", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "24 tasks, about" in done.stdout
    assert "timed: n 7" in done.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["small.toml"]
    report = json.loads(run("sweep", "small.toml", "--dry-run", "--json").stdout)
    assert report["tasks"] == 24
    assert report["axes"]["alpha"] == [0.2, 0.3, 0.4]


def test_a_dry_run_counts_what_the_store_holds(folder: Path) -> None:
    assert run("sweep", "small.toml", "--executor", "serial").exit_code == 0
    report = json.loads(run("sweep", "small.toml", "--dry-run", "--json").stdout)
    assert (report["tasks"], report["done"]) == (0, 24)
    other = json.loads(run("sweep", "small.toml", "--dry-run", "--store", "other.db", "--json").stdout)
    assert (other["tasks"], other["done"]) == (24, 0)


GRID = """
n = [7, 9]
alpha = 0.3
instances = 2
temperature = [0.5, 1.0]
[[sampler]]
name = "tau"
n_sweeps = [5, "n"]
[[sampler]]
name = "exact"
"""


def test_the_summary_averages_nothing_but_instances(folder: Path) -> None:
    (folder / "grid.toml").write_text(GRID)
    done = json.loads(run("sweep", "grid.toml", "--executor", "serial", "--json").stdout)
    points = done["solved_fraction"]
    assert all(point["instances"] <= 2 for point in points)
    lines = {(p["sampler"], p["n"], p["temperature"], p["n_sweeps"]) for p in points}
    assert len(lines) == len(points) >= 10
    assert {t[3] for t in lines if t[0] == "tau"} == {5, 7, 9}
    table = run("sweep", "grid.toml", "--executor", "serial").stdout
    assert "n_sweeps" in table
    assert "temperature" in table
    assert "margin" not in table


def test_an_estimate_does_not_depend_on_what_had_to_be_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run of a task compiles for minutes, once; every further one takes 1 ms and what its work asks for."""
    seen = set()

    def timed(task: Task) -> Result:
        cold = task.text not in seen
        seen.add(task.text)
        return finished(task, {}, {}, seconds=200.0 if cold else 1e-3 + 1e-9 * task.values["n"] ** 2)

    monkeypatch.setattr(runner, "run", timed)
    spec = Spec(n=[11, 101, 1001, 10001], alpha=0.5, sampler={"name": "tau", "n_sweeps": 100}, instances=100)
    first, second = runner.estimate([spec]), runner.estimate([spec])
    assert first == second
    assert first.seconds == pytest.approx(100 * sum(1e-3 + 1e-9 * n**2 for n in spec.n), rel=0.5)


def test_a_task_that_fails_is_no_measure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "run", lambda task: finished(task, {}, {}, "OSError: no disk\n\ntrace"))
    done = run("sweep", "small.toml", "--dry-run")
    assert done.exit_code == 2
    assert "OSError: no disk" in done.stderr


def test_a_dry_run_names_the_data_that_are_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOLSPACE_DATA", str(folder))
    monkeypatch.setenv("HOME", str(folder))
    done = run("reproduce", "mnist", "--dry-run")
    assert done.exit_code == 0, done.stderr
    assert "mnist: needs mnist, which is not on this machine: `solspace data prepare mnist` fetches it." in done.stdout
    report = json.loads(run("reproduce", "mnist", "--dry-run", "--json").stdout)
    assert report["figures"][0]["core_seconds"] is None


@pytest.mark.parametrize("columns", ["20", "80"])
def test_names_are_never_cut(folder: Path, monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    lines = run("reproduce", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == list(figures.FIGURES)
    monkeypatch.setattr(runner, "run", lambda task: finished(task, {}, {}, seconds=0.01))
    monkeypatch.setattr(figures.Figure, "missing", lambda self, size: [])
    table = run("reproduce", "all", "--dry-run").stdout
    assert all(f"{name} │" in table or f"{name}  " in table for name in figures.FIGURES)


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
