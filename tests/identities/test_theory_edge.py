"""The end q → 1: what `edge` says is what the curve does."""

import numpy as np
import pytest

import solspace as ss
from solspace.theory.localization import Localization

CASES = {
    "wall": (ss.Target("binary", "uniform", margin=0.2), 0.4, True),
    "two walls": (ss.Target("binary", "band(1.0)"), 0.5, True),
    "two powers": (ss.Target("binary", "log_band(1.0)", 0.5), 0.5, False),
    "two stronger powers": (ss.Target("binary", "log_band(0.8)", 0.4), 0.3, False),
    "two lines": (ss.Target("binary", "log_band(1.0)", 1.0), 0.5, False),
    "two weak powers": (ss.Target("binary", "log_band(1.0)", 2.0), 0.5, True),
    "powers beside the origin": (ss.Target("binary", ss.potentials.wall(-0.6, 1.4), 0.5), 0.3, False),
    "soft step": (ss.Target("binary", "errors", 0.5), 0.5, True),
    "weak power": (ss.Target("binary", "log", 2.0), 0.5, True),
    "linear": (ss.Target("binary", "log", 1.0), 0.5, False),
    "square": (ss.Target("binary", "log", 0.5), 0.5, False),
    "kink": (ss.Target("binary", "hinge", 0.5), 0.5, False),
    "square root": (ss.Target("binary", "tau(0.5)", 0.5), 0.5, False),
    "sphere": (ss.Target("spherical", "uniform", margin=-1.0), 5.0, False),
}


@pytest.mark.parametrize("name", CASES)
def test_edge_says_what_the_curve_does(name):
    target, alpha, at_one = CASES[name]
    p = ss.predict(target, alpha)
    edge = p.edge()
    assert edge.maximum_at_one is at_one
    assert edge.slope_sign == (1 if at_one else -1)
    curve = Localization(p._equilibrium)
    variance = np.array([1e-10, 1e-12])
    slope = curve._fields[0].averages((1 - p.overlap) - variance, variance).g2 / 2  # dG_E/dq
    if edge.logarithmic:
        assert abs(np.diff(slope)[0] / np.log(100) / edge.constant - 1) < 0.01
    elif edge.divergence > 0:
        local = np.log(slope[1] / slope[0]) / np.log(100)
        assert abs(local - edge.divergence) < 2e-3
        assert abs(slope[1] * variance[1] ** edge.divergence / edge.constant - 1) < 2e-3
    else:
        assert abs(slope[1] / edge.limit - 1) < 1e-5
    assert ("impossible" in edge.words) is at_one


def test_published_constant():
    """Binary weights, uniform measure, alpha = 0.5: C = 0.46585946876 (theory notes 5)."""
    edge = ss.predict(ss.Target("binary", "uniform"), 0.5).edge()
    assert abs(edge.constant - 0.46585946876) < 1e-11
    assert edge.divergence == 0.5


@pytest.mark.parametrize("alpha", [0.2, 0.6])
def test_value_at_one(alpha):
    """A single sample has no entropy: φ_t(1) = t/2 + α E log W."""
    p = ss.predict(ss.Target("binary", "uniform"), alpha)
    assert p.free_entropy_at(1.0, 3.0) == 1.5
    assert p.overlap_at(3.0, start="high") == 1.0
    assert p.localization_time(1.0) == -np.inf
    near = p.free_entropy_at(1 - 1e-12, 3.0)
    assert abs(near - 1.5) < 1e-5
    warm = ss.predict(ss.Target("binary", "log", 0.5), alpha)
    assert abs(warm.free_entropy_at(1 - 1e-13, 0.0) - warm.free_entropy_at(1.0, 0.0)) < 1e-9
    assert warm.localization_time(1.0) == np.inf


def test_a_potential_cures_it():
    assert not ss.predict(ss.Target("binary", "uniform"), 0.1).samplable
    assert not ss.predict(ss.Target("binary", "log", 1.5), 0.1).samplable
    assert ss.predict(ss.Target("binary", "log", 0.7), 0.1).samplable
