"""Checkpoints: whole or not at all, and only for the run they belong to."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint, fingerprint

pytestmark = pytest.mark.slow

STATE = {"state": np.arange(3)}


def test_round_trip(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save(STATE)
    again = Checkpoint(path, {"seed": 1})
    np.testing.assert_array_equal(again.load()["state"], np.arange(3))
    again.save({"state": np.arange(3, 6)})
    np.testing.assert_array_equal(again.load()["state"], np.arange(3, 6))
    assert Checkpoint(tmp_path / "new.ckpt", {"seed": 1}).load() is None


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save(STATE)
    with pytest.raises(ValueError, match="belongs to another run"):
        Checkpoint(path, {"seed": 2}).load()
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not an intact solspace checkpoint"):
        Checkpoint(path, {"seed": 1}).load()


def rewritten(path, **changes):
    with np.load(path) as file:
        np.savez(path.with_suffix(".npz"), **{**file, **changes})
    path.with_suffix(".npz").replace(path)


def test_a_changed_value_is_noticed_though_the_file_is_whole(tmp_path):
    path = tmp_path / "run.ckpt"
    store = Checkpoint(path, {"seed": 1})
    store.save(STATE)
    rewritten(path, state=np.array([0, 1, 3]))
    with pytest.raises(ValueError, match="its content is damaged"):
        store.load()


@pytest.mark.parametrize(
    ("version", "cure"), [(None, "finish the run"), ("3", "finish the run"), ("99", "newer solspace: upgrade")]
)
def test_files_of_other_versions_are_refused_with_a_cure(tmp_path, version, cure):
    path = tmp_path / "run.npz"
    store = Checkpoint(path, {"seed": 1})
    words = {"key": store.key} if version is None else {"key": store.key, "format": version, "digest": "0"}
    np.savez(path, **{name: np.array(word) for name, word in words.items()}, **STATE)
    with pytest.raises(ValueError, match=cure):
        store.load()


def test_a_checkpoint_that_cannot_be_written_warns_once_and_stops_nothing(tmp_path):
    (tmp_path / "file").write_text("in the way")
    store = Checkpoint(tmp_path / "file" / "run.ckpt", {})
    with pytest.warns(UserWarning, match="cannot keep the state of the run") as seen:
        store.save(STATE)
    assert len(seen) == 1
    store.save(STATE)  # without a word: pytest would make an error of a warning


def test_without_a_path_nothing_happens():
    quiet = Checkpoint(None, {})
    quiet.save({"a": np.ones(1)})
    quiet.maybe_save(lambda: pytest.fail("must not be called"))
    assert quiet.load() is None


def anneal(problem, **options):
    return ss.anneal(problem, 2, 20, rng=0, **options)


def localize(problem, **options):
    return ss.localize(problem, 2, rng=0, **options)


@pytest.mark.parametrize("run", [localize, anneal])
def test_the_checkpoint_of_a_finished_run_gives_its_samples_again(tmp_path, run):
    problem = ss.Perceptron.random(31, 0.3, rng=0)
    path = tmp_path / "run.npz"
    done = run(problem, checkpoint=path)
    assert path.exists()
    again = run(problem, checkpoint=path)
    np.testing.assert_array_equal(done.weights, again.weights)


def test_the_fingerprint_tells_problems_apart():
    problem = ss.Perceptron.random(9, 0.5, rng=0)
    same = ss.Perceptron(problem.patterns)
    assert fingerprint(problem) == fingerprint(same)
    assert fingerprint(problem) != fingerprint(problem.with_target(ss.Target(margin=0.1)))
    assert fingerprint(problem) != fingerprint(ss.Perceptron.random(9, 0.5, rng=1))
