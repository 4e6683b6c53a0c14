"""No warning of NumPy's reaches a user of theory or channels, not even one who enabled all of them."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.power import gaussian_power_derivatives

TARGETS = [
    (ss.Target(), (1e-6, 0.3, 0.7)),
    (ss.Target("binary", "uniform", margin=-1.0), (0.5,)),
    (ss.Target("binary", "errors", 0.05), (0.5,)),
    (ss.Target("binary", "band(1)"), (0.5,)),
    (ss.Target("binary", "log_band(1)", 0.7), (0.5,)),
    (ss.Target("spherical", "uniform", margin=-2.5), (1e-6, 50.0, 278.0)),
    (ss.Target("spherical", "hinge", 0.05, -1.0), (5.0,)),
    (ss.Target("spherical", "band(1)", margin=-1.0), (0.3,)),
    (ss.Target("spherical", "log_quadratic(1, 1)"), (0.5,)),
    (ss.Target("binary", "tau(0.5)"), (0.3,)),
]


@pytest.fixture(autouse=True)
def all_warnings():
    """Warnings are errors under pytest; here NumPy gives all that it has."""
    with np.errstate(all="warn"):
        yield


@pytest.mark.parametrize(("target", "alphas"), TARGETS, ids=str)
def test_predictions_are_silent(target, alphas):
    for alpha in alphas:
        p = ss.predict(target, alpha)
        q = np.linspace(p.overlap, 1, 7)
        p.localization_time(q), p.free_entropy_at(q, 1.0), p.instability_at(q)
        p.overlap_at([0.0, 0.1, 30.0]), p.overlap_at(0.1, start="high"), p.regime([0.0, 1.0])
        s = np.linspace(-9, 9, 50)
        p.stability_density(s), p.stability_cdf(s), p.to_dict(), p.summary(), str(p.edge())


@pytest.mark.parametrize("target", [ss.Target(), ss.Target("spherical", "uniform", margin=-2.5)], ids=str)
def test_thresholds_and_diagrams_are_silent(target):
    found = ss.thresholds(target)
    ss.phase_diagram(target, np.array([0.9, 1.02]) * found.asl)
    ss.sampling_map(target, [target.margin])


@pytest.mark.parametrize("name", ["uniform", "log", "hinge", "errors", "band(1)", "log_quadratic(1, 1)", "tau(0.3)"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_channels_are_silent(name, dtype):
    target = ss.Target(potential=name, temperature=0.1)
    for variance in (1e-9, 0.3, 20.0):
        for omega in (np.linspace(-60, 60, 41), np.sqrt(variance) * np.linspace(-1000, 1000, 41)):
            found = target.channel(omega.astype(dtype), dtype(variance))
            assert all(np.isfinite(part).all() for part in found)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("beta", [0.0, 2.0])
def test_empty_columns_are_silent_also_on_threads(dtype, beta):
    """Blocks of samples are filled up by columns of variance zero; large ones are shared among threads."""
    omega = np.ones((20_000, 16), dtype)
    variance = np.where(np.arange(16) < 15, 0.5, 0.0).astype(dtype)
    g, _ = gaussian_power_derivatives(omega, variance, beta)
    assert np.isfinite(g[:, :15]).all()
