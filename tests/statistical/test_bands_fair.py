"""Samples of the symmetric perceptron against replica theory: P(s), the square of overlaps, and the path; planted bugs fail.

Six instances at n = 401, sixteen samples each. Two samples of an even measure are independent of each other at every
constraint, so that the mean of s² is known to 0.001; a temperature off by a fifth moves it by 0.012.
"""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.diagnostics.comparison import overlap_square
from solspace.numerics.streams import generator
from solspace.samplers.kernels import amp as cpu

TARGET, ALPHA, N, K = ss.Target("binary", "log_band(1)", 0.7), 0.6, 401, 16
SQUARE, OVERLAP, PATH = 0.005, 0.3, 0.05
"""Largest deviations: of E s², of overlap² (relative), of |m|²/n along the path."""


def localize(problem, seed):
    return ss.localize(problem, K, rng=seed, step=0.06, progress=False)  # the default of 0.2 leaves E s² 4% too large


def anneal(problem, seed):
    return ss.anneal(problem, K, 400, rng=seed, progress=False)


def misfit(draw, sampled=TARGET, instances=6):
    """Return the largest deviation from theory, in units of what is allowed."""
    prediction = ss.predict(TARGET, ALPHA)
    s = np.linspace(-1, 1, 20001)
    expected = np.trapezoid(s**2 * prediction.stability_density(s), s)
    runs = [draw(ss.Perceptron.random(N, ALPHA, sampled, rng=generator(3, j)), j) for j in range(instances)]
    square = np.mean([run.stabilities**2 for run in runs])
    overlap = np.mean([run.overlaps() ** 2 for run in runs]) * N * (1 - prediction.replicon)
    off = [abs(square - expected) / SQUARE, abs(overlap - 1) / OVERLAP]
    if "t" in runs[0].info:
        off.append(max(abs(run_path(run) - prediction.overlap_at(path_times(run))).max() for run in runs) / (2 * PATH))
        mean = np.mean([run_path(run) for run in runs if len(path_times(run)) == len(path_times(runs[0]))], axis=0)
        off.append(abs(mean - prediction.overlap_at(path_times(runs[0]))).max() / PATH)
    return max(off), np.mean([run.solved.mean() for run in runs])


def path_times(run):
    t = np.asarray(run.info["t"], float)
    together = np.isfinite(t).all(axis=1) & (np.ptp(t, axis=1) == 0) & (t[:, 0] < 3)
    return t[together, 0]


def run_path(run):
    t = np.asarray(run.info["t"], float)
    together = np.isfinite(t).all(axis=1) & (np.ptp(t, axis=1) == 0) & (t[:, 0] < 3)
    return np.asarray(run.info["overlap"], float)[together].mean(axis=1)


@pytest.mark.parametrize("draw", [localize, anneal])
def test_samples_agree_with_theory(draw):
    off, solved = misfit(draw)
    assert off < 1
    assert solved > 0.98


@pytest.mark.parametrize("draw", [pytest.param(localize, marks=pytest.mark.exhaustive), anneal])
def test_a_wrong_temperature_fails(draw):
    assert misfit(draw, TARGET.replace(temperature=0.7 / 1.2))[0] > 1


@pytest.mark.exhaustive
@pytest.mark.filterwarnings("ignore:.*Try")
def test_without_the_onsager_reaction_it_fails(monkeypatch):
    respond = cpu.respond
    monkeypatch.setattr(cpu, "respond", lambda product, g, *rest: respond(product, np.zeros_like(g), *rest))
    assert misfit(localize, instances=2)[0] > 1


def test_samplers_agree_on_one_instance_and_mirror_images_are_told():
    problem = ss.Perceptron.random(N, ALPHA, TARGET, rng=1)
    prediction = ss.predict(TARGET, problem.alpha)
    asl, tau = localize(problem, 1), anneal(problem, 2)
    for samples in (asl, tau):
        report = ss.diagnose(samples, prediction)
        assert report.fair, report
        assert report.overlap_square.theory == pytest.approx(1 / (N * (1 - prediction.replicon)))
    between = (asl.weights.astype(float) @ tau.weights.T.astype(float) / N) ** 2
    assert between.mean() == pytest.approx(1 / (N * (1 - prediction.replicon)), rel=OVERLAP)
    signs = np.where(np.arange(K) % 2, -1, 1)[:, None]
    stuck = signs * near_copies(tau.weights[0])
    assert abs((stuck @ stuck.T / N)[np.triu_indices(K, 1)].mean()) < 0.05
    assert overlap_square(stuck, prediction).sigmas > 10


def near_copies(weights):
    """Return K weights that each differ from the given ones in a fifth of their places."""
    rng = np.random.default_rng(0)
    return np.where(rng.random((K, N)) < 0.2, -1.0, 1.0) * weights


def test_small_problems_are_quietly_planted():
    """All 2^14 weights of forty problems: E Z = 2^n Z0^m exactly, and log Z is hardly below its logarithm."""
    n, m = 14, 5
    laws = [ss.Perceptron.random(n, m / n, TARGET, "gaussian", rng=generator(5, j)).enumerate() for j in range(40)]
    log_z = np.array([law.log_partition for law in laws])
    expected = n * np.log(2) + m * float(TARGET.channel(0.0, 1.0)[0])
    spread = np.exp(log_z - expected)
    assert abs(spread.mean() - 1) < 4 * spread.std() / np.sqrt(len(spread))
    assert -0.05 < (log_z.mean() - expected) / n < 0.01
    for law in laws[:3]:
        np.testing.assert_allclose(law.marginals, 0, atol=1e-12)
