"""`localize`: options, records, determinism, independence, failures said in words."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def problem():
    return ss.Perceptron.random(401, 0.3, rng=0)


@pytest.fixture(scope="module")
def samples(problem):
    return ss.localize(problem, 6, rng=1)


def test_binary_samples_are_signs_and_solve(problem, samples):
    assert samples.weights.dtype == np.int8
    assert samples.solved.all()
    assert np.array_equal(samples.solved, problem.is_solution(samples.weights))
    assert samples.info["status"] == ["localized; message passing converged at every step"] * 6


def test_spherical_samples_lie_on_the_sphere():
    problem = ss.Perceptron.random(301, 2, ss.Target("spherical", "uniform", margin=-1.5), rng=0)
    samples = ss.localize(problem, 3, rng=1)
    np.testing.assert_allclose(np.linalg.norm(samples.weights, axis=1), np.sqrt(301), rtol=1e-6)
    assert samples.solved.all()
    assert samples.info["integrator"] == "mixed"


def test_the_record_of_a_run(problem):
    info = ss.localize(problem, 6, rng=1, finish=0).info
    steps = len(info["t"])
    for name in ("t", "overlap", "iterations", "converged", "instability"):
        assert info[name].shape == (steps, 6)
    assert np.isnan(info.left).all()
    assert (info["t"][0] == 0).all()
    assert (info["t"][-1] == 20).all()
    assert (np.diff(info["t"], axis=0) > 0).all()
    assert (info["overlap"][-1] > 0.999).all()
    assert (info["overlap"][0] == info["overlap"][0, 0]).all()
    assert 20 <= steps <= 30
    assert info["variances"] == "scalar"
    assert info["wall_time"] > 0


def test_samples_leave_early_where_flips_mix_and_late_where_they_freeze(samples):
    assert (samples.info.denoiser, samples.info.finish) == ("amp", 32)
    assert "look random" in samples.info.reason
    assert (samples.info.left == 3).all()
    assert (samples.info["t"][-1] == 3).all()
    frozen = ss.localize(ss.Perceptron.random(501, 0.6, rng=2), 2, rng=2)
    assert (frozen.info.left == 20).all()


def test_a_number_of_sweeps_leaves_at_the_final_time(problem):
    given = ss.localize(problem, 2, rng=1, finish=20, final_time=2.0)
    assert (given.info.finish, given.info.final_time) == (20, 2.0)
    assert (given.info.left == 2).all()
    assert given.solved.all()


def test_patterns_with_structure_are_given_to_expectation_propagation():
    random = np.random.default_rng(0)
    problem = ss.Perceptron(np.tanh(2 * random.standard_normal((60, 24)) @ random.standard_normal((24, 301)) / 5))
    samples = ss.localize(problem, 3, rng=0)
    assert (samples.info.denoiser, samples.info.precision) == ("ep", "float64")
    assert samples.info.reason.startswith("the patterns do not look random: ")
    assert samples.solved.all()
    assert np.array_equal(ss.localize(problem, 2, rng=0).weights, samples.weights[:2])
    assert ss.localize(problem, 2, rng=0, denoiser="amp").info.denoiser == "amp"


def test_same_call_same_bits(problem, samples):
    again = ss.localize(problem, 6, rng=1)
    assert np.array_equal(again.weights, samples.weights)
    assert np.array_equal(again.info["overlap"], samples.info["overlap"])
    assert not np.array_equal(ss.localize(problem, 6, rng=2).weights, samples.weights)


@pytest.mark.parametrize("k", [1, 3])
def test_noise_does_not_depend_on_the_batch(problem, samples, k):
    """At n = 401 rounding cannot push a weight over: samples are the same, not merely their noise."""
    few = ss.localize(problem, k, rng=1)
    assert np.array_equal(few.weights, samples.weights[:k])
    np.testing.assert_allclose(few.info["overlap"], samples.info["overlap"][:, :k], atol=1e-3)


def test_both_precisions_see_the_same_noise(problem, samples):
    double = ss.localize(problem, 6, rng=1, precision="float64")
    assert (double.weights == samples.weights).mean() > 0.999


def test_own_grid_callback_and_final_time(problem):
    seen = []
    grid = np.concatenate([[0], np.geomspace(0.2, 9, 12)])
    samples = ss.localize(problem, 2, rng=0, step=grid, finish=0, callback=lambda path: seen.append(path.t[-1, 0]))
    np.testing.assert_allclose(seen, grid)
    np.testing.assert_allclose(samples.info["t"][:, 1], grid)
    assert ss.localize(problem, 1, rng=0, final_time=3.0).info["t"][-1, 0] == 3


def test_samples_with_records_survive_the_disk(samples, tmp_path):
    samples.save(tmp_path / "samples.npz")
    back = ss.Samples.load(tmp_path / "samples.npz")
    np.testing.assert_array_equal(back.info["instability"], samples.info["instability"])
    assert back.info["status"] == samples.info["status"]


@pytest.mark.parametrize("potential", ["hinge", "tau(0.5)", "band(1.5)", "log_quadratic(1.0, 0.9)"])
def test_every_potential_can_be_localized(potential):
    problem = ss.Perceptron.random(201, 0.2, ss.Target(potential=potential, temperature=0.7), rng=0)
    samples = ss.localize(problem, 2, rng=0)
    assert samples.info["converged"].all()
    assert samples.solved.all() or not problem.target.potential.hard


def test_a_user_potential():
    class Cubic:
        breakpoints = (0.0,)

        def log_weight(self, s):
            return np.where(s > 0, 3 * np.log(np.maximum(s, 1e-300)) - s**2 / 4, -np.inf)

    problem = ss.Perceptron.random(201, 0.2, ss.Target(potential=Cubic(), temperature=1.0), rng=0)
    assert ss.localize(problem, 2, rng=0).solved.all()


def test_careful_runs_where_instability_is_near():
    problem = ss.Perceptron.random(501, 0.6, rng=4)
    auto, fast = (ss.localize(problem, 4, rng=0, accuracy=method, finish=0) for method in ("auto", "fast"))
    slowed = auto.info["careful"]
    assert slowed.any()
    assert not fast.info["careful"].any()
    peak = np.nanmax(auto.info["instability"], axis=0)
    assert (peak[slowed] > 0.7).all()
    assert (auto.info["damping"][slowed] >= 0.3).all()
    assert len(auto.info["t"]) > len(fast.info["t"])


def test_beyond_the_threshold_the_failure_is_said():
    problem = ss.Perceptron.random(301, 1.2, rng=0)
    with pytest.warns(UserWarning, match="samples miss constraints.*Try|diverged.*Try"):
        samples = ss.localize(problem, 2, rng=0, accuracy="fast")
    assert not samples.solved.any()
    assert all("missed" in word or "diverged" in word for word in samples.info["status"])


def test_divergence_is_detected_and_damping_cures_it():
    random = np.random.default_rng(0)
    features = np.tanh(2 * random.standard_normal((60, 24)) @ random.standard_normal((24, 301)) / np.sqrt(24))
    problem = ss.Perceptron(features)
    with pytest.warns(UserWarning, match="message passing diverged in 2 of 2 samples. Try damping"):
        failed = ss.localize(problem, 2, rng=0, damping=0.0)
    assert not failed.solved.all()
    assert all("diverged" in word for word in failed.info["status"])
    cured = ss.localize(problem, 2, rng=0, denoiser="amp")
    assert cured.solved.all()
    assert (cured.info["damping"] > 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_random_features_of_digits_need_damping_and_get_it(seed):
    """3 against 8: undamped message passing diverges within five iterations."""
    images, labels = ss.data.load("digits", classes=(3, 8))
    problem = ss.Perceptron.from_data(images, labels, 150 / 501, features=501, rng=seed)
    assert (problem.m, problem.n) == (150, 501)
    with pytest.warns(UserWarning, match="diverged.*Try damping"):
        assert ss.amp(problem, damping=0.0).status.name == "DIVERGED"
    with pytest.warns(UserWarning, match="diverged in 2 of 2 samples"):
        assert not ss.localize(problem, 2, rng=0, damping=0.0).solved.any()
    assert ss.amp(problem, damping="auto").converged
    cured = ss.localize(problem, 2, rng=0, denoiser="amp")
    assert cured.solved.all()
    assert cured.info["converged"].all()
    assert (cured.info["damping"] >= 0.3).all()


def test_divergence_on_the_sphere_still_gives_points_of_it():
    random = np.random.default_rng(0)
    features = random.standard_normal((400, 6)) @ random.standard_normal((6, 201)) + 3
    problem = ss.Perceptron(features, target=ss.Target("spherical", "uniform"))
    with pytest.warns(UserWarning, match="Try"):
        failed = ss.localize(problem, 2, rng=0, damping=0.0, accuracy="fast")
    np.testing.assert_allclose(np.linalg.norm(failed.weights, axis=1), np.sqrt(201), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1; got 0"),
        ({"accuracy": "quick"}, "unknown accuracy 'quick'"),
        ({"integrator": "rk4"}, "unknown integrator"),
        ({"step": -1}, "step must be a positive number"),
        ({"step": [0, 2, 1]}, "increasing list of times"),
        ({"step": [0, 1, 2], "final_time": 3}, "the grid in step ends at 2"),
        ({"final_time": 0}, "final_time must be a positive number"),
        ({"longest_step": "long"}, "longest_step must be a positive number"),
        ({"rng": None, "checkpoint": "run.npz"}, "checkpoint needs a seed"),
    ],
)
def test_nonsense_gets_a_sentence(problem, options, words):
    with pytest.raises(ValueError, match=words):
        ss.localize(problem, **{"n_samples": 2, "rng": 0, **options})


@pytest.mark.parametrize(
    "returned", [None, 0.0, np.zeros(15), np.zeros((15, 4)), np.zeros((4, 15), complex), [["a"] * 15] * 4, [[0.0], []]]
)
def test_a_denoiser_must_return_means(returned):
    problem = ss.Perceptron.random(15, 0.3, rng=0)
    with pytest.raises(ValueError, match="denoiser"):
        ss.localize(problem, 4, denoiser=lambda field, time: returned, rng=0)


@pytest.mark.parametrize("prior", ["spherical", "gaussian(2)"])
def test_real_weights_are_finished_by_rotations(prior):
    target = ss.Target(prior, "uniform", margin=-0.5)
    problem = ss.Perceptron.random(101, 1.0, target, rng=0)
    means, few, auto = (ss.localize(problem, 4, rng=1, finish=finish) for finish in (0, 3, "auto"))
    unit = 1.0 if prior == "spherical" else 0.5
    assert np.isnan(means.info.left).all() if prior == "spherical" else True
    assert (few.info.left == 1e3 * unit).all()
    assert few.info.finish == 3
    assert (auto.info.left == 10 * unit).all()
    assert few.solved.all()
    assert auto.solved.all()
    assert np.array_equal(auto.weights, ss.localize(problem, 4, rng=1).weights)
