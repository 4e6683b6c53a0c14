"""Chains of real weights: options, reproducibility, checkpoints, and what they refuse."""

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.annealing import chains as chains_module
from solspace.samplers.annealing.schedules import Stage
from solspace.samplers.registry import SAMPLERS

SPHERE = ss.Target("spherical", "log", margin=-0.2)
GAUSS = ss.Target("gaussian(2)", "log", margin=-0.2)


def problem(target=SPHERE, n=31, alpha=1.2, patterns="binary"):
    return ss.Perceptron.random(n, alpha, target, patterns, rng=0)


def run(problem, **options):
    return ss.anneal(problem, **{"n_chains": 4, "n_sweeps": 30, "rng": 1, "n_threads": 1, **options})


@pytest.mark.parametrize("target", [SPHERE, GAUSS])
@pytest.mark.parametrize("schedule", ["tau", "temperature"])
@pytest.mark.parametrize("patterns", ["binary", "gaussian"])
def test_schedules_end_in_solutions(target, schedule, patterns):
    samples = run(problem(target, patterns=patterns), schedule=schedule, n_extra=20)
    assert samples.solved.all()
    assert samples.weights.dtype == np.float64
    assert samples.target.prior == target.prior
    assert (samples.info.energy[:, -1] == 0).all() if schedule == "temperature" else True
    assert target.prior.contains(samples.weights).all()


def test_energies_are_those_of_the_weights():
    samples = run(problem(), n_extra=20)
    at_draws = samples.info.at_draws()["energy"].ravel()
    assert np.allclose(at_draws, samples.energies(), rtol=1e-9)


@pytest.mark.parametrize("target", [SPHERE, GAUSS])
def test_chains_do_not_depend_on_those_beside_them(target):
    one, more = (run(problem(target), n_chains=k, n_threads=threads) for k, threads in ((2, 1), (5, 2)))
    assert np.array_equal(one.weights, more.weights[:2])


@pytest.mark.parametrize("target", [SPHERE, GAUSS])
def test_interrupted_runs_go_on(tmp_path, monkeypatch, target):
    monkeypatch.setattr(chains_module, "BEAT", 1e-4)  # launches of a few sweeps
    whole, calls = run(problem(target), n_sweeps=100, n_extra=40), []

    def stop(chains):
        calls.append(chains.sweep)
        if len(calls) == 2:
            raise KeyboardInterrupt

    options = {"n_sweeps": 100, "n_extra": 40, "checkpoint": tmp_path / "run"}
    with pytest.raises(KeyboardInterrupt):
        run(problem(target), **options, callback=stop)
    assert 0 < calls[-1] < 140
    assert np.array_equal(run(problem(target), **options).weights, whole.weights)


def test_replicas_are_exchanged():
    samples = run(problem(), n_sweeps=60, n_extra=60, exchange=True, n_rungs=3)
    assert samples.solved.all()
    assert (samples.info.swap_acceptance > 0.05).all()


def test_chains_start_from_given_weights_and_go_on():
    found = ss.localize(problem(ss.Target("spherical", "uniform", margin=-0.2)), 4, rng=0)
    chains = ss.anneal(problem(SPHERE), initial=found, n_extra=20, rng=1)
    assert chains.solved.all()
    assert len(chains.extend(3, problem=problem(SPHERE))) == 4 * 5


def test_a_wall_that_was_missed_is_found():
    """Chains start at random weights, on the wrong side of a hard wall, with no softer stage before it."""
    target = ss.Target("spherical", "uniform")
    samples = run(problem(target, alpha=0.5), n_sweeps=None, schedule=[target] * 20)
    assert samples.solved.all()


def test_cold_stages_leave_all_solutions_equal():
    """At T = 0 the hinge allows each solution alike: its chains agree with those of the uniform potential."""
    target = ss.Target("spherical", "uniform")
    one = problem(target, n=15, alpha=0.5)
    stages = ([target] * 5, [Stage(ss.potentials.Hinge(), 0.0)] * 5)
    cold, hot = (ss.anneal(one, 64, schedule=own, n_extra=400, thin=10, rng=2, n_threads=1) for own in stages)
    error = np.hypot(*(own.stabilities.min(axis=1).reshape(64, -1).mean(axis=1).std() / 8 for own in (cold, hot)))
    assert abs(cold.stabilities.min(axis=1).mean() - hot.stabilities.min(axis=1).mean()) < 4 * error
    assert cold.target.potential == target.potential


def test_devices_are_refused():
    with pytest.raises(ValueError, match="GPU"):
        run(problem(), device="gpu")
    assert run(problem(), device="auto").info.device == "cpu"


def test_a_single_weight_is_refused():
    with pytest.raises(ValueError, match="n >= 2"):
        run(ss.Perceptron([[1.0], [0.5]], target=SPHERE))


def test_samplers_offer_real_weights():
    assert not any(SAMPLERS[name].lacks(1001, SPHERE) for name in ("asl", "tau", "temperature", "solve"))


@pytest.mark.parametrize(
    ("margin", "alpha", "potential"), [(-1.0, 10.0, "uniform"), (0.0, 1.2, "log"), (0.0, 1.0, "band(0.8)")]
)
@pytest.mark.parametrize("prior", ["spherical", "gaussian(1)"])
def test_solve(margin, alpha, potential, prior):
    found = ss.solve(ss.Perceptron.random(201, alpha, ss.Target(prior, potential, margin=margin), rng=0), 2, rng=1)
    assert found.solved.all()
    assert found.info.method == "descent"


def test_solve_tells_what_is_impossible():
    with pytest.warns(UserWarning, match="cannot be met together|opposite"):
        ss.solve(ss.Perceptron([[1.0, 1.0], [-1.0, -1.0]], target=ss.Target("spherical", "uniform", margin=0.1)))
    with pytest.raises(ValueError, match="descent"):
        ss.solve(problem(), method="reinforce")
