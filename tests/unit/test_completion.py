"""What the shell completes: names come from the tables they are registered in, a name of your own among them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import solspace as ss
from solspace.cli import make_app
from solspace.experiments.figures import FIGURES
from solspace.samplers.registry import SAMPLERS


@pytest.fixture
def completed(monkeypatch, capsys):
    """Return a function: the words that bash would offer behind a line."""

    def complete(line):
        for name, value in environment_of(line).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(SystemExit) as left:
            make_app()(prog_name="solspace")
        assert left.value.code in (None, 0)
        return capsys.readouterr().out.split()

    return complete


def environment_of(line):
    """Return what bash puts into the environment when Tab is pressed at the end of a line."""
    words = line.split(" ")
    return {"_SOLSPACE_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("solspace sample --sampler ", [one.name for one in SAMPLERS.values() if one.fair]),
        ("solspace sample --sampler t", ["tau", "temperature", "tempering"]),
        ("solspace sample --accuracy ca", ["careful"]),
        ("solspace sample --prior s", ["spherical"]),
        ("solspace solve --method re", ["reinforce"]),
        ("solspace sample --scale n", ["none", "norm"]),
        ("solspace sample --data mn", ["mnist"]),
        ("solspace sample --data tab", []),  # the shell goes on with files
        ("solspace reproduce ", [*FIGURES, "all"]),
        ("solspace reproduce spherical-t", ["spherical-t-alpha"]),
        ("solspace data prepare f", ["fashion"]),
        ("solspace ph", ["phase"]),
    ],
)
def test_names_are_completed(completed, line, offered):
    assert completed(line) == offered


@pytest.mark.parametrize("verb", ["sample", "solve", "predict", "phase"])
def test_every_verb_completes_potentials(completed, verb, monkeypatch):
    class Cubic(ss.potentials.Log):
        """U = -3 log s."""

    monkeypatch.setitem(ss.potentials.REGISTRY, "cubic", Cubic)
    assert completed(f"solspace {verb} --potential cu") == ["cubic"]
    assert completed(f"solspace {verb} --potential log") == ["log", "log_band", "log_quadratic", "logistic"]


def test_the_program_itself_completes():
    command = [sys.executable, "-c", "from solspace.cli import main; main()"]
    environment = {**os.environ, **environment_of("solspace sample --potential uni")}
    assert subprocess.run(command, env=environment, capture_output=True, text=True).stdout.split() == ["uniform"]
