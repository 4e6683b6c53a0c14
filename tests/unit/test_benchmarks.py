"""The benchmarks measure and tell what they say: their tables, their solvers, their command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import solspace as ss
from benchmarks import laptop, solvers
from benchmarks.timing import Spread, Table, Times
from solspace.cli import launch as bench
from solspace.cli import make_app

ROOT = Path(__file__).parents[2]


def test_a_spread_is_told_in_the_unit_of_its_median():
    assert str(Spread.of([0.002, 0.0015, 0.0031])) == "2 ms (1.5–3.1)"
    assert str(Spread.of([1234.0])) == "1,234 s"
    assert str(Spread.of([8e-6]).per(4)) == "2 µs"


def test_calls_are_timed_in_turns():
    order = []
    times = Times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3
    assert times["a"].low <= times["a"].median <= times["a"].high


def test_a_table_is_markdown_whatever_its_cells_hold():
    table = Table("Title", "How.", ("what", "value"))
    table.add("|m|²", 3)
    assert table.markdown() == "### Title\n\nHow.\n\n| what | value |\n| --- | --- |\n| ∣m∣² | 3 |\n"


@pytest.mark.parametrize("name", [name for name in solvers.SOLVERS if "CP-SAT" not in name and "dwave" not in name])
def test_a_solver_returns_signs_or_nothing(name):
    problem = ss.Perceptron.random(31, 0.2, rng=0)
    weights = solvers.SOLVERS[name](problem, 0, 10.0)
    assert weights is not None
    assert set(np.unique(weights)) <= {-1, 1}


def test_the_integer_program_says_what_the_problem_says():
    problem = ss.Perceptron.random(9, 0.6, rng=1)
    rows, least = solvers.integer_program(problem)
    weights = ss.Perceptron.random(9, 1 / 9, rng=0).enumerate().weights
    meets = ((weights + 1) // 2 @ rows.T >= least).all(axis=1)
    assert np.array_equal(meets, problem.is_solution(weights))


def test_solutions_are_counted_from_the_patterns():
    problems = [ss.Perceptron.random(31, 0.2, rng=i) for i in range(3)]
    assert solvers.attempts(lambda *_: None, problems, 1.0)[0] == 0
    assert solvers.attempts(lambda p, *_: np.ones(p.n), problems, 1.0)[0] == sum(
        p.is_solution(np.ones(31)) for p in problems
    )


def test_the_command_writes_a_table(tmp_path):
    run = [sys.executable, "-m", "benchmarks", "floors", "--quick", "--json", "--out", str(tmp_path / "table.md")]
    report = json.loads(subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    assert report["tables"][0]["title"] == "Floors of this machine"
    assert "| matrix product" in (tmp_path / "table.md").read_text(encoding="utf-8")


def test_without_a_clone_the_verb_says_what_to_do(monkeypatch, tmp_path):
    app = make_app()
    monkeypatch.setattr(bench, "CLONE", tmp_path)
    result = CliRunner().invoke(app, ["bench"])
    assert result.exit_code == 2
    assert "python -m benchmarks" in result.stderr


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_part_of_the_solving_benchmark_goes_on_where_its_file_ends(tmp_path):
    run = [
        sys.executable,
        "-m",
        "benchmarks.solve",
        "--part",
        "small",
        "--limit",
        "0.2",
        "--out",
        str(tmp_path / "rows"),
    ]
    first, again = (
        subprocess.run([*run, "--instances", count], cwd=ROOT, capture_output=True, text=True) for count in "12"
    )
    assert first.returncode == again.returncode == 0, first.stderr + again.stderr
    assert "| ±1 | 13 | 0.83 | solve, exact |" in first.stdout
    assert len((tmp_path / "rows").read_text().splitlines()) == 30
    assert "#0" not in again.stdout


def test_kinds_of_processors_are_compared_with_this_one(monkeypatch):
    monkeypatch.setattr(laptop, "kinds", lambda: list(laptop.KINDS))
    slower = iter([1, 2, 3, 4] * 3)
    monkeypatch.setattr(
        laptop, "_apart", lambda variables: laptop.Measured(dict.fromkeys(laptop.WORK, 1e-9 * next(slower)), "same")
    )
    rows = laptop.table().rows
    assert len(rows) == len(laptop.WORK)
    assert rows[0][2:] == ("1 ns", "2 ns = 2 times", "3 ns = 3 times", "4 ns = 4 times")
    digests = iter("abcd")
    monkeypatch.setattr(
        laptop, "_apart", lambda variables: laptop.Measured(dict.fromkeys(laptop.WORK, 1.0), next(digests))
    )
    with pytest.raises(RuntimeError, match="not the same"):
        laptop.table(quick=True)


@pytest.mark.slow
@pytest.mark.parametrize("kind", laptop.kinds()[1:])
def test_a_kind_of_processor_is_what_the_kernels_see(kind):
    program = "from solspace.samplers.kernels.machine_vectors import FEATURES, WIDE; print(WIDE, *sorted(FEATURES))"
    variables = {**os.environ, **laptop.KINDS[kind]}
    seen = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, check=True
    ).stdout
    assert seen.startswith("False")
    assert ("+avx2" in seen) == (kind == "AVX2")
    assert ("+fma" in seen) == (kind != "plain x86-64")
