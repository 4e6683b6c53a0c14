"""`solspace solve` end to end: exit codes, files, JSON, Ctrl-C, the user's own data, counting."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from terminal import invoke

import solspace as ss

COMMAND = [sys.executable, "-c", "from solspace.cli import main; main()"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_solution_is_exit_code_0(folder):
    done = invoke("solve", "--n", "301", "--alpha", "0.65", "--solutions", "2")
    assert done.exit_code == 0, done.stderr
    assert "2/2" in done.stdout
    assert "no known law" in done.stdout
    samples = ss.Samples.load(folder / "solutions.npz")
    assert samples.solved.all()
    assert json.loads((folder / "report.json").read_text())["solved"] == 2


@pytest.mark.slow
def test_none_is_exit_code_1_with_the_unmet_and_theory(folder):
    done = invoke("solve", "--n", "301", "--alpha", "0.95", "--time-limit", "2")
    assert done.exit_code == 1
    assert "of 286 constraints are unmet" in done.stderr
    assert "no solutions beyond α = 0.833" in done.stderr
    below = invoke("solve", "--n", "501", "--alpha", "0.82", "--time-limit", "1", "--json")
    assert below.exit_code == 1
    assert "nine tenths" in below.stderr
    assert json.loads(below.stdout)["solved"] == 0
    assert not ss.Samples.load(folder / "solutions.npz").solved.any()


@pytest.mark.slow
def test_files_of_the_user_that_contradict_each_other(folder):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(20, 51)), rng.choice([-1, 1], 20)
    np.save("X.npy", np.vstack([X, X[4]]))
    np.save("y.npy", np.append(y, -y[4]))
    began = time.monotonic()
    done = invoke("solve", "--patterns", "X.npy", "--labels", "y.npy")
    assert time.monotonic() - began < 60
    assert done.exit_code == 1
    assert "at best 1 of 21 constraints are unmet. Constraints 5 and 21 are opposite" in done.stderr
    np.save("X.npy", X)
    np.save("y.npy", y)
    assert invoke("solve", "--patterns", "X.npy", "--labels", "y.npy").exit_code == 0


def test_bands_and_margins(folder):
    assert invoke("solve", "--n", "151", "--alpha", "0.8", "--potential", "band(1)").exit_code == 0
    assert invoke("solve", "--n", "151", "--alpha", "0.3", "--margin", "0.2").exit_code == 0


def test_counting_by_solve_is_deprecated(folder):
    problem = ss.Perceptron.random(15, 0.5, rng=0)
    np.save("X.npy", problem.patterns)
    exact = invoke("solve", "--patterns", "X.npy", "--count", "--json", "--out", "here")
    assert exact.exit_code == 0
    assert "use solspace count" in exact.stderr
    report = json.loads(exact.stdout)
    assert math.exp(report["log"]) == pytest.approx(problem.enumerate().n_solutions)
    assert report == json.loads((folder / "here" / "report.json").read_text())
    assert not list(folder.glob("*.npz"))


def test_a_row_with_both_labels_is_counted_as_it_is_solved(folder):
    """Integer features, one row twice with two labels: a tie meets both, so that "there is no solution" would be wrong."""
    row = np.random.default_rng(0).integers(2, 17, 24)
    row[0] += row.sum() % 2
    np.savez("both.npz", X=[row, row], y=[1, -1])
    assert invoke("solve", "--patterns", "both.npz", "--out", "found").exit_code == 0
    counted = invoke("count", "--patterns", "both.npz", "--json")
    assert json.loads(counted.stdout)["log"] > 0


def test_after_a_proof_no_cure_is_advised(folder):
    np.save("X.npy", [[1, 1, 1], [-1, -1, -1]])
    counted = invoke("count", "--patterns", "X.npy")
    assert "no solution" in counted.stdout
    drawn = invoke("sample", "--patterns", "X.npy", "--sampler", "tau", "--sweeps", "10")
    assert drawn.exit_code == 1
    assert "2^3 weights" in drawn.stderr
    assert "try" not in drawn.stderr.lower()


@pytest.mark.slow
def test_ctrl_c_keeps_the_best(tmp_path):
    arguments = ["solve", "--n", "2001", "--alpha", "0.8", "--time-limit", "300"]
    process = subprocess.Popen([*COMMAND, *arguments], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    time.sleep(12)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "stopped; no solution found: at best" in said
    samples = ss.Samples.load(tmp_path / "solutions.npz")
    assert samples.info.ended == "it was stopped"
    assert samples.weights.shape == (1, 2001)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--method", "magic"], "unknown --method 'magic'"),
        (["--method", "exact"], "n must be at most 20"),
        (["--time-limit", "-1"], "--time-limit must be a positive number"),
        (["--solutions", "0"], "--solutions must be an integer of at least 1"),
        (["--potential", "bnad(1)"], "did you mean 'band'"),
    ],
)
def test_nonsense(folder, words, said):
    done = invoke("solve", *words)
    assert done.exit_code == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
