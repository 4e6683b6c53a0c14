"""The verbs end to end: tables, files and JSON; stopped runs go on; theory's numbers reach the user."""

from __future__ import annotations

import csv
import json
import shlex
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import solspace as ss

COMMAND = [sys.executable, "-c", "from solspace.cli import main; main()"]


def run(*arguments, cwd, code=0):
    done = subprocess.run([*COMMAND, *arguments], cwd=cwd, capture_output=True, text=True, timeout=300)
    assert done.returncode == code, done.stderr
    return done


@pytest.mark.slow
def test_the_main_job(tmp_path):
    done = run("sample", "--n", "501", "--samples", "8", cwd=tmp_path)
    assert "8/8" in done.stdout
    assert "theory:" in done.stderr
    samples = ss.Samples.load(tmp_path / "samples.npz")
    assert samples.solved.all()
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["prediction"]["samplable"] is True
    assert (tmp_path / "samples.png").stat().st_size > 20_000
    assert not list(tmp_path.glob("*.checkpoint*"))


@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["tau", "sa"])
def test_annealing(tmp_path, sampler):
    done = run("sample", "--sampler", sampler, "--n", "201", "--alpha", "0.1", "--sweeps", "60", "--json", cwd=tmp_path)
    report = json.loads(done.stdout)
    assert report["solved"] >= 12
    assert report["samples"] == 16


@pytest.mark.slow
def test_own_structured_data_gets_no_prediction(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "X.npy", rng.normal(size=(60, 301)) + 2 * rng.normal(size=(60, 1)))
    np.save(tmp_path / "y.npy", rng.choice([-1, 1], size=60))
    done = run("sample", "--sampler", "tau", "--patterns", "X.npy", "--labels", "y.npy", "--sweeps", "50", cwd=tmp_path)
    assert "prediction" not in json.loads((tmp_path / "report.json").read_text())
    assert done.stdout


OFTEN = (
    "from solspace.samplers.checkpoint import Checkpoint as C; C.maybe_save = lambda self, make: self.save(make()); "
)
"""Checkpoints at every chance instead of every five seconds."""


def interrupted(arguments, cwd, ready, first=""):
    """Return what a command says when Ctrl-C is pressed as soon as `ready()`, and its exit code."""
    process = subprocess.Popen(
        [*COMMAND[:2], first + COMMAND[2], *arguments],
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while process.poll() is None and not ready() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    return said, process.returncode


@pytest.mark.slow
def test_a_stopped_run_names_the_command_that_goes_on_to_the_same_samples(tmp_path):
    arguments = ["sample", "--sampler", "tau", "--n", "1501", "--alpha", "0.4", "--samples", "8", "--sweeps", "3000"]
    checkpoint = tmp_path / "a folder" / "tau.checkpoint.npz"
    said, code = interrupted([*arguments, "--out", "a folder"], tmp_path, checkpoint.exists, OFTEN)
    assert code == 130
    assert checkpoint.exists()
    command = said.strip().partition("To go on: ")[2]
    assert command == f"solspace {' '.join(arguments)} --out 'a folder' --resume"
    run(*shlex.split(command)[1:], cwd=tmp_path)
    run(*arguments, "--out", "whole", cwd=tmp_path)
    first, second = (ss.Samples.load(tmp_path / name / "samples.npz") for name in ("whole", "a folder"))
    np.testing.assert_array_equal(first.weights, second.weights)
    assert not checkpoint.exists()


def test_a_run_that_was_stopped_too_early_promises_nothing(tmp_path):
    arguments = ["sample", "--n", "4001", "--alpha", "0.5", "--samples", "64", "--out", "o"]
    said, code = interrupted(arguments, tmp_path, (tmp_path / "o").exists)
    assert code == 130
    assert "stopped; nothing was" in said
    assert "--resume" not in said


@pytest.mark.slow
def test_ctrl_c_in_a_verb_that_keeps_nothing_says_so(tmp_path):
    place, sign = tmp_path / "here", tmp_path / "at work"
    place.mkdir()
    first = (
        f"import solspace.theory.phases as p; p._column = lambda *_, f=p._column: open({str(sign)!r}, 'w') and f(*_); "
    )
    said, code = interrupted(["phase", "--alphas", "0.1:0.8:4000"], place, sign.exists, first)
    assert code == 130
    assert said.strip().endswith("solspace: stopped; nothing was written.")
    assert not list(place.iterdir())


@pytest.mark.slow
def test_predict(tmp_path):
    arguments = ["--prior", "spherical", "--potential", "uniform", "--margin", "-2.5", "--alpha", "278"]
    done = run("predict", *arguments, "--json", cwd=tmp_path)
    values = json.loads(done.stdout)
    assert values["overlap"] == pytest.approx(0.15026564742, rel=1e-9)
    assert values["thresholds"]["asl"] == pytest.approx(269.735956, rel=1e-6)
    assert values["samplable"] is False
    assert (tmp_path / "prediction.png").stat().st_size > 20_000
    beyond = run("predict", "--alpha", "0.75", "--no-thresholds", cwd=tmp_path).stdout
    assert "typical samples end at a smaller load" in beyond
    assert "solutions up to capacity (0.8331)" in beyond


@pytest.mark.slow
def test_phase(tmp_path):
    run("phase", "--alphas", "0.64:0.68:3", "--times", "0:0.5:6", cwd=tmp_path)
    with (tmp_path / "phase.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["samplable"] for row in rows] == ["True", "False", "False"]
    assert float(rows[1]["maxwell"]) == pytest.approx(0.255530, abs=1e-5)
    assert (tmp_path / "phase.png").stat().st_size > 10_000
