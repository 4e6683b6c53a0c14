"""Checkpoints: whole or not at all, and only for the run they belong to."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint, fingerprint


def test_round_trip_and_removal(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save({"state": np.arange(3)})
    assert Checkpoint(path, {"seed": 1}).load() is None  # not asked to resume
    again = Checkpoint(path, {"seed": 1}, resume=True)
    np.testing.assert_array_equal(again.load()["state"], np.arange(3))
    again.remove()
    assert again.load() is None


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save({"state": np.arange(3)})
    with pytest.raises(ValueError, match="belongs to another run"):
        Checkpoint(path, {"seed": 2}, resume=True).load()
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not a solspace checkpoint"):
        Checkpoint(path, {"seed": 1}, resume=True).load()


def test_without_a_path_nothing_happens():
    quiet = Checkpoint(None, {}, resume=True)
    quiet.save({"a": np.ones(1)})
    quiet.maybe_save(lambda: pytest.fail("must not be asked"))
    assert quiet.load() is None


def test_the_fingerprint_tells_problems_apart():
    problem = ss.Perceptron.random(9, 0.5, rng=0)
    same = ss.Perceptron(problem.patterns)
    assert fingerprint(problem) == fingerprint(same)
    assert fingerprint(problem) != fingerprint(problem.with_target(ss.Target(margin=0.1)))
    assert fingerprint(problem) != fingerprint(ss.Perceptron.random(9, 0.5, rng=1))
