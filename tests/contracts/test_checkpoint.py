"""Checkpoints: whole or not at all, and only for the run they belong to."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint, Entry, fingerprint, within

pytestmark = pytest.mark.slow

STATE = {"state": np.arange(3)}


def entries():
    return {"state": Entry(int, (3,), within(0, 9))}


def test_round_trip(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save(STATE)
    again = Checkpoint(path, {"seed": 1})
    np.testing.assert_array_equal(again.load(entries)["state"], np.arange(3))
    again.finish(lambda: {"state": np.arange(3, 6)})
    np.testing.assert_array_equal(again.load(entries)["state"], np.arange(3, 6))
    assert Checkpoint(tmp_path / "new.ckpt", {"seed": 1}).load(entries) is None


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run.ckpt"
    Checkpoint(path, {"seed": 1}).save(STATE)
    with pytest.raises(ValueError, match="belongs to another run"):
        Checkpoint(path, {"seed": 2}).load(entries)
    path.write_bytes(b"nonsense")
    with pytest.raises(ValueError, match="not an intact solspace checkpoint"):
        Checkpoint(path, {"seed": 1}).load(entries)


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
        store.load(entries)


@pytest.mark.parametrize(
    "state",
    [
        {"state": np.array([0, 1, 127])},
        {"state": np.arange(4)},
        {"state": np.arange(3.0)},
        {"state": np.arange(3), "more": np.arange(3)},
        {},
    ],
)
def test_a_made_up_state_is_refused(tmp_path, state):
    store = Checkpoint(tmp_path / "run.ckpt", {"seed": 1})
    store.save(state)
    with pytest.raises(ValueError, match="its arrays are not those of this run"):
        store.load(entries)


def test_a_state_that_contradicts_itself_is_refused(tmp_path):
    store = Checkpoint(tmp_path / "run.ckpt", {"seed": 1})
    store.save(STATE)
    with pytest.raises(ValueError, match="contradict each other"):
        store.load(entries, lambda state: state["state"].sum() > 10)


def test_other_versions_are_told_what_to_do(tmp_path):
    path = tmp_path / "run.npz"
    store = Checkpoint(path, {"seed": 1})
    np.savez(path, key=np.array(store.key), **STATE)  # what 0.1 wrote
    with pytest.raises(ValueError, match=r"written by solspace 0.1"):
        store.load(entries)
    store.save(STATE)
    rewritten(path, format=np.array("3"))
    with pytest.raises(ValueError, match="newer solspace; upgrade"):
        store.load(entries)


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
    quiet.maybe_save(lambda: pytest.fail("must not be asked"))
    quiet.finish(lambda: pytest.fail("must not be asked"))
    assert quiet.load(entries) is None


def anneal(problem, **options):
    return ss.anneal(problem, 2, 20, rng=0, **options)


def localize(problem, **options):
    return ss.localize(problem, 2, rng=0, **options)


@pytest.mark.parametrize(
    ("run", "name", "value"),
    [
        (anneal, "weights", 0),
        (anneal, "weights", 127),
        (anneal, "weights", -128),
        (anneal, "draws", 0),
        (anneal, "sweep", 10**9),
        (anneal, "accepted", -1),
        (localize, "taken", 10**15),
        (localize, "step", 0),
        (localize, "step", np.nan),
        (localize, "damping", 1),
        (localize, "time", 1e9),
        (localize, "limit", 10**15),
        (localize, "path_t", None),
        (localize, "weights", 0),
        (localize, "left", False),
        (localize, "turn", 0),
    ],
)
def test_no_run_goes_on_from_an_absurd_state(tmp_path, monkeypatch, run, name, value):
    """Its digest is right: somebody wrote it so. Weights of 127 are no weights; steps of length 0 would never end."""
    problem = ss.Perceptron.random(31, 0.3, rng=0)
    path = tmp_path / "run.npz"
    save = Checkpoint.save

    def absurd(self, state):
        if self.path is None:  # the chains of a finish keep nothing
            return
        made = np.zeros((5, 2)) if value is None else np.full_like(state[name], value)
        save(self, {**state, name: made})

    monkeypatch.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
    monkeypatch.setattr(Checkpoint, "save", absurd)
    run(problem, checkpoint=path)
    with pytest.raises(ValueError, match="not an intact solspace checkpoint"):
        run(problem, checkpoint=path)


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
