"""A localization that was stopped and resumed ends with the bits of one that was not."""

from __future__ import annotations

import signal
import subprocess
import sys

import numpy as np
import pytest

import solspace as ss
from solspace.samplers.checkpoint import Checkpoint

pytestmark = pytest.mark.slow


class Stop(Exception):
    pass


@pytest.mark.parametrize(
    ("prior", "patterns", "alpha", "options"),
    [
        ("binary", "binary", 0.55, {}),
        ("binary", "gaussian", 0.3, {"variances": "full", "precision": "float64"}),
        ("spherical", "binary", 1.0, {"accuracy": "careful", "final_time": 20.0}),
    ],
)
def test_resumed_equals_uninterrupted(prior, patterns, alpha, options, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
    target = ss.Target(prior, "log", 0.5, margin=0.0 if prior == "binary" else -0.5)
    problem = ss.Perceptron.random(201, alpha, target, patterns, rng=5)
    whole = ss.localize(problem, 5, rng=3, **options)
    steps = len(whole.info["t"])
    path = tmp_path / "run.npz"

    def stop_at(step):
        def callback(record):
            if len(record) == step:
                raise Stop

        return callback

    for step in (2, steps // 2, steps - 1):
        with pytest.raises(Stop):
            ss.localize(problem, 5, rng=3, checkpoint=path, callback=stop_at(step), **options)
    resumed = ss.localize(problem, 5, rng=3, checkpoint=path, **options)
    assert np.array_equal(resumed.weights, whole.weights)
    for name in ("t", "overlap", "iterations", "converged", "instability", "damping", "careful"):
        np.testing.assert_array_equal(resumed.info[name], whole.info[name])


def test_another_run_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
    problem = ss.Perceptron.random(101, 0.3, rng=0)
    path = tmp_path / "run.npz"

    def stop(record):
        raise Stop

    with pytest.raises(Stop):
        ss.localize(problem, 2, rng=0, checkpoint=path, callback=stop)
    for change in ({"rng": 1}, {"rng": 0, "step": 0.07}, {"rng": 0, "n_samples": 3}):
        with pytest.raises(ValueError, match="belongs to another run"):
            ss.localize(problem, **{"n_samples": 2, **change}, checkpoint=path)


SCRIPT = """
import sys, numpy as np, solspace as ss
from solspace.samplers.checkpoint import Checkpoint
Checkpoint.maybe_save = lambda self, make: self.save(make())
problem = ss.Perceptron.random(201, 0.4, rng=0)
def slow(record):
    if "slow" in sys.argv:
        print(len(record), flush=True)
        import time; time.sleep(0.2)
samples = ss.localize(problem, 4, rng=7, checkpoint="run.npz", callback=slow)
np.save("weights.npy", samples.weights)
"""


def test_a_killed_process_goes_on(tmp_path):
    command = [sys.executable, "-c", SCRIPT]
    with subprocess.Popen([*command, "slow"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as victim:
        assert victim.stdout is not None
        while int(victim.stdout.readline()) < 6:
            pass
        victim.send_signal(signal.SIGKILL)
    assert (tmp_path / "run.npz").exists()
    subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
    expected = ss.localize(ss.Perceptron.random(201, 0.4, rng=0), 4, rng=7).weights
    assert np.array_equal(np.load(tmp_path / "weights.npy"), expected)


@pytest.mark.parametrize(("denoiser", "extra"), [
    ("ep", {"intercept": 1.5, "clamped": {3: 2.0}}), ("amp", {"clamped": {3: 2.0}, "sample_weight": np.linspace(0.5, 2, 40)}),
])  # fmt: skip
def test_levels_resume_too(denoiser, extra, tmp_path, monkeypatch):
    monkeypatch.setattr(Checkpoint, "maybe_save", lambda self, make: self.save(make()))
    x = np.random.default_rng(0).standard_normal((40, 31))
    problem = ss.Perceptron(x, target=ss.Target("levels(-1,0,2)", "logistic(2)"), **extra)
    whole = ss.localize(problem, 3, rng=3, denoiser=denoiser)
    path, steps = tmp_path / "run.npz", len(whole.info["t"])
    for step in (2, steps - 1):
        with pytest.raises(Stop):
            ss.localize(problem, 3, rng=3, denoiser=denoiser, checkpoint=path, callback=_stop_at(step))
    resumed = ss.localize(problem, 3, rng=3, denoiser=denoiser, checkpoint=path)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.info["overlap"], whole.info["overlap"])
    assert resumed.intercepts is None or np.array_equal(resumed.intercepts, whole.intercepts)


def _stop_at(step):
    def callback(record):
        if len(record) == step:
            raise Stop

    return callback
