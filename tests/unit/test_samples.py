"""Samples keep everything through a file, and a broken file is recognized."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

import solspace as ss
from solspace.info import LocalizationInfo
from solspace.samplers.annealing.anneal import first_solutions


@pytest.fixture
def samples():
    problem = ss.Perceptron.random(9, 0.4, rng=1)
    info = {"sampler": "exact", "acceptance": np.linspace(0, 1, 5), "n_sweeps": 3, "words": ["a", "b"], "path": "north"}
    return ss.Samples.of(problem, problem.enumerate().sample(6, rng=0), info)


def test_round_trip(samples, tmp_path):
    samples.save(tmp_path / "s.npz")
    again = ss.Samples.load(tmp_path / "s.npz")
    for name in ("weights", "stabilities", "solved"):
        np.testing.assert_array_equal(getattr(again, name), getattr(samples, name))
    assert again.target == samples.target
    np.testing.assert_array_equal(again.info["acceptance"], samples.info["acceptance"])
    plain = {name: value for name, value in again.info.items() if name != "acceptance"}
    assert plain == {"sampler": "exact", "n_sweeps": 3, "words": ["a", "b"], "path": "north"}


@pytest.mark.parametrize("draw", [
    lambda problem: ss.localize(problem, 3, rng=1),
    lambda problem: ss.anneal(problem, 3, 20, rng=1, n_extra=10, thin=5),
], ids=["localize", "anneal"])  # fmt: skip
def test_what_a_sampler_tells_is_kept_with_its_samples(draw, tmp_path):
    samples = draw(ss.Perceptron.random(51, 0.3, rng=1))
    samples.save(tmp_path / "s.npz")
    again = ss.Samples.load(tmp_path / "s.npz")
    assert type(again.info) is type(samples.info)
    assert set(again.info) == set(samples.info)
    for name, value in samples.info.items():
        np.testing.assert_array_equal(again.info[name], value)


def rewrite(path, change):
    """Change the description in a file of samples."""
    with np.load(path) as file:
        arrays = dict(file)
    meta = json.loads(str(arrays["meta"]))
    change(meta)
    np.savez_compressed(path, **arrays | {"meta": np.array(json.dumps(meta))})


def test_files_of_version_0_2_load(tmp_path):
    path = tmp_path / "s.npz"
    samples = ss.localize(ss.Perceptron.random(51, 0.3, rng=1), 3, rng=1)
    samples.save(path)
    rewrite(path, lambda meta: meta["info"].update(method=meta["info"].pop("accuracy")))
    again = ss.Samples.load(path)
    assert isinstance(again.info, LocalizationInfo)
    assert again.info.accuracy == samples.info.accuracy
    rewrite(path, lambda meta: meta.update(format=1))
    with pytest.raises(ValueError, match=r"version 0\.1"):
        ss.Samples.load(path)


def test_overlaps_are_those_of_all_pairs(samples):
    w = samples.weights.astype(float)
    expected = [w[a] @ w[b] / 9 for a in range(6) for b in range(a + 1, 6)]
    np.testing.assert_allclose(samples.overlaps(), expected)


def test_a_failed_write_keeps_the_old_file(samples, tmp_path, monkeypatch):
    path = tmp_path / "s.npz"
    samples.save(path)
    before = path.read_bytes()

    def full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez_compressed", full)
    with pytest.raises(OSError, match="No space left"):
        samples.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["s.npz"]


def test_foreign_and_broken_files_are_refused(samples, tmp_path):
    path = tmp_path / "s.npz"
    np.savez(path, a=np.ones(3))
    with pytest.raises(ValueError, match="not a file of solspace samples"):
        ss.Samples.load(path)
    samples.save(path)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match="not a file of solspace samples"):
        ss.Samples.load(path)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"weights": np.ones((5, 9))}, "have the shapes"),
        ({"weights": np.ones(9)}, "have the shapes"),
        ({"weights": np.array([["a"] * 9] * 6)}, "another type"),
        ({"weights": np.full((6, 9), np.nan)}, "not finite"),
        ({"solved": np.full(6, 7)}, "another type"),
        ({"meta": np.array("[" * 100_000)}, "description is damaged"),
        ({"meta": np.array("[]")}, "description is damaged"),
        ({"meta": np.array("{}")}, "description is damaged"),
        ({"meta": np.array('{"format": 2}')}, "description is damaged"),
        ({"meta": np.array('{"format": 3}')}, "newer solspace"),
        (
            {"meta": np.array('{"format": 2, "info": {}, "target": {"potential": {"name": "lgo"}}}')},
            "did you mean 'log'",
        ),
    ],
)
def test_made_up_files_are_refused_in_a_sentence(samples, tmp_path, changes, words):
    path = tmp_path / "s.npz"
    samples.save(path)
    with np.load(path) as file:
        arrays = dict(file)
    np.savez(path, **{**arrays, **changes})
    with pytest.raises(ValueError, match=rf"s.npz is not a file of solspace samples: .*{words}.*\.$"):
        ss.Samples.load(path)


def test_a_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        ss.Samples.load(tmp_path / "none.npz")


def test_solved_is_recomputed_from_the_patterns():
    problem = ss.Perceptron([[1, 1, 1], [1, -1, 1]])
    samples = ss.Samples.of(problem, np.array([[1, 1, 1], [1, -1, -1]], np.int8))
    np.testing.assert_array_equal(samples.solved, [True, False])


def test_arviz_of_any_version_finds_chains_and_draws():
    problem = ss.Perceptron.random(9, 0.4, rng=1)
    samples = ss.anneal(problem, n_chains=2, n_sweeps=5, n_extra=6, thin=2, rng=0)
    found = samples.to_arviz()
    posterior, stats = found["posterior"], found["sample_stats"]
    for group in (posterior, stats):
        assert (dict(group.sizes)["chain"], dict(group.sizes)["draw"]) == (2, 3)
    np.testing.assert_array_equal(posterior["weights"].values.reshape(-1, 9), samples.weights)
    np.testing.assert_array_equal(stats["energy"].values, samples.info.energy[:, [6, 8, 10]])
    np.testing.assert_array_equal(stats["acceptance"].values, samples.info.acceptance[:, [6, 8, 10]])
    np.testing.assert_array_equal(stats["solved"].values.ravel(), samples.solved)
    first, second = samples.weights[:3].astype(float), samples.weights[3:].astype(float)
    np.testing.assert_allclose(stats["overlap"].values, [first @ second.mean(0) / 9, second @ first.mean(0) / 9])


@pytest.mark.slow
def test_arviz_announces_nothing_on_the_first_day(tmp_path):
    """It does once a day, by a file in the user's cache: a user who turns warnings into errors would see one a day."""
    code = (
        "import solspace as ss; ss.localize(ss.Perceptron.random(9, 0.4, rng=1), 2, rng=0, progress=False).to_arviz()"
    )
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-W", "error::FutureWarning", "-c", code], check=True, env=environment)


def test_arviz_takes_independent_samples_as_chains_of_one_draw():
    problem = ss.Perceptron.random(51, 0.2, rng=1)
    samples = ss.localize(problem, 4, rng=0, progress=False)
    stats = samples.to_arviz()["sample_stats"]
    assert dict(stats.sizes)["chain"] == 4
    assert stats["overlap"].values.mean() == pytest.approx(samples.overlaps().mean())
    np.testing.assert_allclose(stats["energy"].values[:, 0], -np.log(samples.stabilities).sum(axis=1))
    solved = first_solutions(problem, n_chains=3, n_sweeps=40, rng=0)
    energy = solved.to_arviz()["sample_stats"]["energy"].values[:, 0]
    assert np.isfinite(energy).all()
