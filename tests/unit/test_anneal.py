"""Shapes, modes and words of `anneal`."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.measure import Target
from solspace.measure.potentials import Tau
from solspace.samplers.annealing.anneal import first_solutions
from solspace.samplers.annealing.cpu import Lattice, landscapes
from solspace.samplers.annealing.schedules import Stage, TauAnnealing

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem():
    return ss.Perceptron.random(121, 0.3, rng=1)


def test_sample_mode_draws(problem):
    samples = ss.anneal(problem, n_chains=3, n_sweeps=50, n_extra=30, thin=10, rng=0)
    assert samples.weights.shape == (9, 121)
    assert samples.info["chain"].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert samples.info["draw"].tolist() == [0, 1, 2] * 3
    assert samples.info["acceptance"].shape == samples.info["energy"].shape == (3, 80)
    assert samples.target == problem.target
    assert samples.solved.all()
    # the last draw is the state after all sweeps: its energy is the last one recorded
    last = samples.stabilities[samples.info["draw"] == 2]
    np.testing.assert_allclose(samples.info["energy"][:, -1], -np.log(last).sum(axis=1), atol=0.2)


def test_a_search_stops_at_the_first_solution(problem):
    solved = first_solutions(problem, n_chains=4, n_sweeps=100, rng=0)
    sampled = ss.anneal(problem, n_chains=4, n_sweeps=100, rng=0)
    assert solved.solved.all()
    first = solved.info["solved_at"]
    assert ((first > 0) & (first < 100)).all()
    assert (first <= sampled.info["solved_at"]).all()  # a solution in the middle of a sweep counts too
    for chain, sweep in enumerate(first):
        np.testing.assert_array_equal(
            solved.info["acceptance"][chain, :sweep], sampled.info["acceptance"][chain, :sweep]
        )
        assert np.isnan(solved.info["energy"][chain, sweep + 1 :]).all()


def test_a_start_that_solves_is_returned_as_it_is():
    problem = ss.Perceptron(np.ones((1, 9)), target=ss.Target(margin=-2.9))
    samples = first_solutions(problem, n_chains=8, n_sweeps=5, rng=0)
    assert samples.solved.all()
    assert (samples.info["solved_at"] == 0).all()


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_ties_count_as_met(factor):
    """Even n: stabilities of exactly 0 meet margin 0 on both paths, and hinge costs nothing there."""
    pattern = factor * np.array([[1.0, 1.0]])
    problem = ss.Perceptron(np.vstack([pattern, -pattern]), target=ss.Target(potential="hinge"))
    samples = ss.anneal(problem, n_chains=16, n_sweeps=20, schedule="temperature", rng=0)
    assert (samples.weights.sum(axis=1) == 0).all()
    assert samples.solved.all()
    assert (samples.info["energy"][:, -1] == 0).all()


@pytest.mark.parametrize("margin", [-0.3, 0.25])
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_margins(margin, patterns):
    problem = ss.Perceptron.random(200, 0.2, ss.Target(margin=margin), patterns, rng=2)
    samples = ss.anneal(problem, n_chains=4, n_sweeps=100, rng=1)
    assert samples.solved.all()
    assert samples.stabilities.min() >= margin
    assert samples.stabilities.min() < margin + 0.5


@pytest.mark.parametrize("factor", [1.0, 1.5])
def test_infinite_temperature_is_the_uniform_measure(factor):
    """Only what is forbidden counts: every solution is as likely."""
    target = ss.Target(temperature=np.inf)
    problem = ss.Perceptron(factor * np.ones((1, 3)), target=target)
    samples = ss.anneal(problem, n_chains=4000, schedule=[target] * 5, n_extra=50, thin=50, rng=0)
    codes, counts = np.unique(samples.weights, axis=0, return_counts=True)
    assert len(codes) == 4
    assert samples.solved.all()
    np.testing.assert_allclose(counts, 1000, atol=120)


def test_zero_patterns():
    problem = ss.Perceptron(np.zeros((2, 5)), target=ss.Target(potential="hinge"))
    assert ss.anneal(problem, n_chains=2, n_sweeps=3, schedule="temperature", rng=0).solved.all()


def test_labels_and_user_data():
    rng = np.random.default_rng(0)
    patterns, teacher = rng.random((40, 81)), rng.choice([-1, 1], 81)
    labels = np.where((patterns - 0.5) @ teacher > 0, 1, -1)
    problem = ss.Perceptron(patterns - 0.5, labels, target=ss.Target(temperature=0.2))
    samples = ss.anneal(problem, n_chains=4, n_sweeps=200, rng=1)
    assert samples.solved.any()
    assert samples.info.kernel == "fixed point"


def test_band_through_own_schedule():
    target = ss.Target(potential="band(1.0)")
    for patterns in ("binary", "gaussian"):
        problem = ss.Perceptron.random(101, 0.3, target, patterns, rng=2)
        samples = ss.anneal(problem, n_chains=4, schedule=[target] * 60, rng=0)
        assert samples.solved.all()
        assert np.abs(samples.stabilities).max() <= 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_chains": 0}, "n_chains must be an integer of at least 1"),
        ({"n_sweeps": 2.5}, "n_sweeps must be"),
        ({"n_sweeps": True}, "n_sweeps must be"),
        ({"n_chains": True}, "n_chains must be"),
        ({"thin": 0}, "thin must be"),
        ({"n_extra": 5, "thin": 10}, "give no draw"),
        ({"device": "tpu"}, "device"),
        ({"rng": -1}, "rng"),
    ],
)
def test_wrong_arguments_are_explained(problem, options, words):
    with pytest.raises(ValueError, match=words):
        ss.anneal(problem, **options)


def test_save_and_load(problem, tmp_path):
    samples = ss.anneal(problem, n_chains=2, n_sweeps=20, rng=0)
    samples.save(tmp_path / "samples.npz")
    back = ss.Samples.load(tmp_path / "samples.npz")
    assert (back.weights == samples.weights).all()
    np.testing.assert_array_equal(back.info["energy"], samples.info["energy"])


def test_a_stage_is_rounded_alike_whatever_is_prepared_beside_it():
    stages = [*TauAnnealing().stages(Target(temperature=0.7, margin=0.2), 40), Stage(Tau(0.3), 0.7, -0.1)]
    lattice = Lattice(n=40, m=20)
    together = landscapes(stages, lattice)
    for t, stage in enumerate(stages):
        alone = landscapes([stage], lattice)
        np.testing.assert_array_equal(alone.energies[0], together.energies[t])
        assert (alone.kt[0], alone.unit[0], alone.floor[0]) == (together.kt[t], together.unit[t], together.floor[t])
    same_margin = stages[:-1]
    together = landscapes(same_margin, lattice)
    for t, stage in enumerate(same_margin):
        assert landscapes([stage], lattice).floor[0] == together.floor[t]
