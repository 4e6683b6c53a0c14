"""Every temperature that is accepted costs little memory and a bounded amount of work; the others get a sentence."""

from __future__ import annotations

import resource
import subprocess
import sys

import numpy as np
import pytest

import solspace as ss
from solspace.measure import potentials
from solspace.numerics.power_table import power_table

pytestmark = pytest.mark.slow

GIGABYTE = 1 << 30


@pytest.fixture
def work(monkeypatch):
    """Count the points at which the log potential's channel is evaluated."""
    count = [0]
    channel = potentials.Log.channel

    def counted(self, omega, variance, beta):
        count[0] += np.broadcast(omega, variance).size
        return channel(self, omega, variance, beta)

    monkeypatch.setattr(potentials.Log, "channel", counted)
    return count


@pytest.mark.parametrize("temperature", [1e-4, 1e-3, 0.02, 1e3, 1e9, 1e12])
@pytest.mark.parametrize(("prior", "alpha"), [("binary", 0.3), ("spherical", 0.5)])
def test_predictions_at_any_temperature_are_a_bounded_amount_of_work(prior, alpha, temperature, work):
    p = ss.predict(ss.Target(prior, temperature=temperature), alpha)
    p.summary()
    assert p.status.ok
    assert p.accuracy < 1e-9
    assert work[0] < 8e6


def test_cold_overlaps_approach_their_limit():
    """χ = (1 - r)/T, the entropy and the mean stability have limits as T → 0, approached linearly."""
    at = [ss.predict(ss.Target(temperature=T), 0.3) for T in (4e-4, 2e-4, 1e-4)]
    for values in ([(1 - p.overlap) / p.target.temperature for p in at], [p.entropy for p in at]):
        assert abs((values[1] - values[0]) / (values[2] - values[1]) - 2) < 0.1


@pytest.mark.parametrize("margin", [0.0, -1.0])
def test_the_peak_of_a_cold_weight_is_seen(margin):
    p = ss.predict(ss.Target(potential="log_quadratic(1, 1)", temperature=1e-4, margin=margin), 0.3)
    p.summary()
    assert p.accuracy < 1e-8


@pytest.mark.parametrize("beta", [1e3, 1e6, 1e8])
def test_tables_stay_small(beta):
    assert power_table(beta).coefficients.shape == (256, 3, 8)


@pytest.mark.parametrize("temperature", [1e-9, 5e-324, 1e13, 1.7e308])
def test_other_temperatures_are_refused_in_words(temperature):
    with pytest.raises(ValueError, match=r"temperature must lie between 1e-08 and 1e\+12, or be inf"):
        ss.Target(temperature=temperature)


def test_theory_ends_before_the_samplers_do():
    cold = ss.Target(temperature=1e-6)
    for ask in (lambda: ss.predict(cold, 0.3), lambda: ss.thresholds(cold)):
        with pytest.raises(ValueError, match=r"temperature must be at least 0\.0001 for replica theory; got 1e-06"):
            ask()
    assert ss.predict(cold.replace(potential="uniform"), 0.3).status.ok
    assert np.isfinite(cold.channel(np.array([-3.0, 0.0, 3.0]), 0.5)).all()


def limited(code: str) -> subprocess.CompletedProcess[str]:
    """Run `code` in a process that may take two gigabytes of data."""

    def limit():
        resource.setrlimit(resource.RLIMIT_DATA, (2 * GIGABYTE, 2 * GIGABYTE))

    return subprocess.run([sys.executable, "-c", code], preexec_fn=limit, capture_output=True, text=True, timeout=300)


def test_cold_channels_fit_into_memory():
    done = limited(
        "import solspace as ss\n"
        "print(ss.Target(temperature=1e-8).channel([-3.0, 0.0, 3.0], 0.5)[1])\n"
        "print(ss.predict(ss.Target(temperature=1e-4), 0.3).summary())\n"
    )
    assert done.returncode == 0, done.stderr
    assert "overlap by r = 0.9998" in done.stdout


@pytest.mark.parametrize("prior", ["binary", "spherical"])
@pytest.mark.parametrize("potential", ["hinge", "errors", "tau(0.3)", "tau_wall(-1, 1, 0.5)"])
def test_a_soft_measure_at_infinite_temperature_has_no_thresholds(prior, potential):
    """It is the prior alone: nothing is made of the rounding of log Z = 0."""
    target = ss.Target(prior, potential, np.inf, margin=0.3)
    found = ss.thresholds(target)
    ends = (found.asl, found.dat, found.dynamical, found.condensation, found.zero_entropy)
    assert ends == (None, None, None, None, None)
    p = ss.predict(target, 3.0)
    assert p.samplable
    assert p.status.ok
    assert p.overlap == 0


@pytest.mark.parametrize(
    ("prior", "temperature"),
    [pytest.param("binary", 0.3, marks=pytest.mark.exhaustive), ("spherical", 2.0)],  # 14 s
)
def test_a_linear_potential_has_no_thresholds(prior, temperature):
    """U = 1 - s is a field along the sum of the patterns: g = 1/T and g' = 0, whatever the load."""
    target = ss.Target(prior, "tau(1)", temperature, margin=-0.5)
    found = ss.thresholds(target)
    ends = (found.asl, found.dat, found.dynamical, found.condensation, found.zero_entropy)
    assert ends == (None, None, None, None, None)
    p = ss.predict(target, 0.3)
    assert p.conjugate == pytest.approx(0.3 / temperature**2, rel=1e-12)
    assert p.samplable
    assert p.status.ok
