"""Theory of potentials without a closed form: as accurate as the others, and a bounded amount of work."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import solspace as ss
from solspace.measure import potentials, quadrature
from solspace.theory.capacity import capacity, gardner
from solspace.theory.cavity import reference_averages

TAU = ss.Target(potential="tau(0.5)")


def channel_by_scipy(target, omega, variance):
    """Z and g of one field by adaptive quadrature in s, piece by piece."""
    sigma = np.sqrt(variance)
    peak = float(target.log_weight(omega))

    def moment(k):
        def integrand(z):
            return z**k * np.exp(float(target.log_weight(omega + sigma * z)) - peak - z * z / 2) / np.sqrt(2 * np.pi)

        edge = -omega / sigma
        return sum(quad(integrand, a, b, epsabs=0, epsrel=1e-13, limit=400)[0] for a, b in ((-14, edge), (edge, 14)))

    z = moment(0)
    return peak + np.log(z), moment(1) / z / sigma


@pytest.mark.parametrize("tau", [0.2, 0.5])
def test_averages_equal_a_double_integral(tau):
    target, r = ss.Target(potential=f"tau({tau})"), 0.4
    found = reference_averages(target, [r], [1 - r], level=1)[:, 0]
    gamma = 8 * np.sin(np.pi * np.arange(-24.5, 25) / 51)  # the trapezoidal rule in an angle
    weight = 8 * np.pi / 51 * np.cos(np.pi * np.arange(-24.5, 25) / 51) * np.exp(-(gamma**2) / 2) / np.sqrt(2 * np.pi)
    log_z, g = np.transpose([channel_by_scipy(target, np.sqrt(r) * x, 1 - r) for x in gamma])
    np.testing.assert_allclose(found[:2], [weight @ log_z, weight @ g**2], rtol=1e-9)


def test_a_prediction_is_that_of_fields_integrated_one_by_one(monkeypatch):
    def numbers():
        p = ss.predict(TAU, 0.3)
        q = p.overlap + (1 - p.overlap) * np.array([1e-3, 0.3, 0.9, 0.999])
        return np.array([p.overlap, p.free_entropy, p.entropy, p.replicon, *p.localization_time(q)])

    shared = numbers()
    monkeypatch.setattr(quadrature, "ROW", 10**9)
    np.testing.assert_allclose(shared, numbers(), rtol=1e-10)


def test_localization_stops_where_replica_symmetry_does():
    """λ → αp/4 < 1 as q → 1, like 1/log(1/ε): noise of the integrals at 1 - q < 1e-30 must not be taken for more."""
    found = ss.thresholds(TAU)
    assert found.asl_by == "dAT"
    assert found.asl == found.dat
    assert abs(found.dat - 3.8298635) < 1e-6


def test_thresholds_are_a_bounded_amount_of_work(monkeypatch):
    count = [0]
    weight = potentials.Tau.log_weight

    def counted(self, s):
        count[0] += np.size(s)
        return weight(self, s)

    monkeypatch.setattr(potentials.Tau, "log_weight", counted)
    ss.predict(TAU, 0.3).summary()
    ss.thresholds(TAU)
    assert count[0] < 2e7


def test_a_band_beside_the_origin_has_a_capacity():
    """The search for one step of replica symmetry breaking meets q₀ → 1, where it is Gardner's."""
    beside = [ss.Target("spherical", "band(1)", margin=margin) for margin in (-1.0, 1.0)]
    assert capacity(beside[0]) == capacity(beside[1])
    assert abs(capacity(beside[0]) - 1.977158) < 1e-5
    outside = ss.Target("spherical", "band(1)", margin=-4.0)
    assert abs(capacity(outside) / gardner(outside) - 1) < 1e-9
