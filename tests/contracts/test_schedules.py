"""Every schedule passes one suite; a resumed or interrupted run equals an uninterrupted one bit for bit."""

from __future__ import annotations

import _thread
import threading
import time

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.annealing import chains as running
from solspace.samplers.annealing import schedules

pytestmark = pytest.mark.slow


@pytest.fixture(params=["binary", "gaussian"])
def problem(request):
    return ss.Perceptron.random(151, 0.3, patterns=request.param, rng=8)


@pytest.mark.parametrize("name", schedules.REGISTRY)
def test_every_schedule(name, problem):
    _, stages = schedules.stages_of(name, problem.target, 40)
    assert len(stages) == 40
    values = np.array([stage.energies(np.linspace(-3, 3, 61)) for stage in stages])
    assert np.isfinite(values[:-1]).all(), "a chain that starts at random weights needs a finite potential"
    for stage in stages:
        assert stage.margin == problem.target.margin
    samples = ss.anneal(problem, n_chains=3, n_sweeps=40, schedule=name, rng=0)
    assert samples.target == stages[-1].target
    assert samples.weights.shape == (3, 151)
    assert set(np.unique(samples.weights)) == {-1, 1}
    assert (samples.solved == problem.is_solution(samples.weights)).all()
    assert len(schedules.stages_of(name, problem.target, 1)[1]) == 1


def test_tau_ends_in_the_log_potential():
    _, stages = schedules.stages_of("tau", ss.Target(temperature=0.4, margin=0.2), 101)
    s = np.linspace(0.3, 3, 50)
    np.testing.assert_allclose(stages[-1].energies(s), -np.log(s - 0.2) / 0.4)
    np.testing.assert_allclose(stages[50].energies(s), (1 - (s - 0.2) ** 0.5) / 0.5 / 0.4)
    assert stages[-1].target == ss.Target(temperature=0.4, margin=0.2)


def test_temperature_ends_at_zero_exactly():
    _, stages = schedules.stages_of("temperature", ss.Target(potential="errors"), 11)
    assert stages[0].temperature == 1
    assert stages[-1].temperature == 0
    assert stages[3].potential == ss.potentials.Errors()
    assert schedules.stages_of("temperature", ss.Target(), 2)[1][0].potential == ss.potentials.Hinge()


def test_own_schedules(problem):
    targets = [ss.Target(potential="tau(0.5)", margin=margin) for margin in np.linspace(-0.5, 0.0, 30)]
    samples = ss.anneal(problem, n_chains=2, schedule=targets, rng=0)
    assert samples.target == targets[-1]
    assert samples.info["sampler"] == "own"
    assert samples.info["energy"].shape == (2, 30)

    class Half:
        name = "half"

        def stages(self, target, n_sweeps):
            return schedules.TauAnnealing(start=0.5).stages(target, n_sweeps)

    assert ss.anneal(problem, n_chains=2, n_sweeps=30, schedule=Half(), rng=0).info["tau"][0] == 0.5


@pytest.mark.parametrize(
    ("schedule", "n_sweeps", "words"),
    [
        ("sa", 10, "schedule"),
        (3, 10, "sequence of targets"),
        ([ss.Target()], 10, "leave n_sweeps out"),
        ([], None, "at least one"),
    ],
)
def test_wrong_schedules_are_explained(schedule, n_sweeps, words, problem):
    with pytest.raises(ValueError, match=words):
        ss.anneal(problem, n_chains=1, n_sweeps=n_sweeps, schedule=schedule)


def test_tau_needs_the_log_potential(problem):
    with pytest.raises(ValueError, match="ends in the log potential, a wall or log_band"):
        ss.anneal(problem.with_target(ss.Target(potential="band(2.0)")), n_chains=1, n_sweeps=5, schedule="tau")


OPTIONS = [
    {"n_extra": 20, "thin": 4},
    {"schedule": "temperature"},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_resume_is_seamless(options, problem, tmp_path, monkeypatch):
    """A run stopped by Ctrl-C at several places and taken up again is the run that was never stopped."""
    call = {"n_chains": 5, "n_sweeps": 30, "rng": 3, **options}
    whole = ss.anneal(problem, **call)
    path = tmp_path / "chains.npz"
    monkeypatch.setattr(running, "BEAT", 1e-9)  # a launch for each sweep

    def interrupt_at(sweep):
        def callback(chains):
            if chains.sweep >= sweep:
                raise KeyboardInterrupt

        return callback

    for sweep in (1, 9):
        with pytest.raises(KeyboardInterrupt):
            ss.anneal(problem, **call, checkpoint=path, callback=interrupt_at(sweep))
        assert path.exists()
    resumed = ss.anneal(problem, **call, checkpoint=path)
    assert (resumed.weights == whole.weights).all()
    for name in ("energy", "acceptance", "solved_at"):
        np.testing.assert_array_equal(resumed.info[name], whole.info[name])


@pytest.mark.slow
def test_ctrl_c_in_the_middle_of_a_sweep(tmp_path):
    """A real interrupt, while the kernels run: they stop at once, and nothing that was done is lost or done twice."""
    problem = ss.Perceptron.random(2001, 0.5, rng=8)
    call = {"n_chains": 6, "n_sweeps": 4000, "rng": 3}
    path = tmp_path / "chains.npz"
    begun = time.monotonic()
    timer = threading.Timer(0.1, _thread.interrupt_main)
    with pytest.raises(KeyboardInterrupt):
        ss.anneal(problem, **call, checkpoint=path, callback=lambda chains: timer.is_alive() or timer.start())
    assert time.monotonic() - begun < 30
    assert path.exists()
    resumed = ss.anneal(problem, **call, checkpoint=path)
    whole = ss.anneal(problem, **call)
    assert (resumed.weights == whole.weights).all()
    np.testing.assert_array_equal(resumed.info["acceptance"], whole.info["acceptance"])


def test_a_checkpoint_of_another_run_is_refused(problem, tmp_path):
    def stop(chains):
        raise KeyboardInterrupt

    path = tmp_path / "chains.npz"
    with pytest.raises(KeyboardInterrupt):
        ss.anneal(problem, n_chains=2, n_sweeps=30, rng=3, checkpoint=path, callback=stop)
    with pytest.raises(ValueError, match="another run"):
        ss.anneal(problem, n_chains=2, n_sweeps=30, rng=4, checkpoint=path)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_only_the_seed_decides(options, problem):
    """Not the number of threads, not the chains beside."""
    call = {"n_sweeps": 30, "rng": 3, **options}
    seven = ss.anneal(problem, n_chains=7, n_threads=1, **call)
    three = ss.anneal(problem, n_chains=3, n_threads=3, **call)
    rows = seven.info["chain"] < 3
    assert (seven.weights[rows] == three.weights).all()
    np.testing.assert_array_equal(seven.info["energy"][:3], three.info["energy"])
    assert (ss.anneal(problem, n_chains=3, **{**call, "rng": 4}).weights != three.weights).any()
