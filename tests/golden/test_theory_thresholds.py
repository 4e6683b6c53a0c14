"""Thresholds against the tables of the theory notes, sections 7 and 10: an independent solver, all digits converged."""

import numpy as np
import pytest
from scipy.stats import norm

import solspace as ss
from solspace.theory import tricritical_margin
from solspace.theory.branch import Branch
from solspace.theory.thresholds import asl_threshold

SPHERE = {  # margin: asl, dat, d1rsb, static 1rsb, gardner, sat/unsat
    -0.1: (2.324131, 2.324131, None, None, None, None),
    -0.5: (3.950701, 3.950701, None, None, 4.770099, 4.700139),
    -1.0: (7.873560, 7.873560, None, None, 13.273200, 12.319634),
    -2.0: (61.878631, 61.878631, None, None, 173.348479, 125.402),
    -2.1: (82.614946, 82.850108, 82.672793, 82.693145, 233.592264, None),
    -2.5: (269.735956, 328.708982, 280.807714, 287.115199, 833.804170, 509.706659),
}
BINARY = {  # temperature: asl, d1rsb, static 1rsb, dat
    1 / 3: (0.611093, 0.620547, 0.629094, 0.655680),
    0.5: (0.651417, 0.665258, 0.683008, 0.723902),
    0.9: (0.652786, None, None, 0.812619),
}


def _close(found, printed, tolerance=1e-6):
    """Right to the tolerance, or to half a unit of the last printed digit where that is coarser."""
    digits = len(repr(printed).partition(".")[2])
    return abs(found - printed) <= max(tolerance * abs(printed), 0.51 * 10**-digits)


@pytest.mark.parametrize("margin", SPHERE)
def test_sphere(margin):
    asl, dat, dynamical, condensation, rs, one = SPHERE[margin]
    found = ss.thresholds(ss.Target("spherical", "uniform", margin=margin))
    assert _close(found.asl, asl)
    assert _close(found.dat, dat)
    assert found.asl_by == ("dAT" if asl == dat else "cusp")
    for value, printed in ((found.dynamical, dynamical), (found.condensation, condensation)):
        assert value is None if printed is None else _close(value, printed)
    if rs:
        assert _close(found.capacity_rs, rs)
    if one:
        assert _close(found.capacity_1rsb, one, 1e-5)
        assert found.capacity == found.capacity_1rsb


@pytest.mark.parametrize("temperature", BINARY)
def test_binary_log(temperature):
    asl, dynamical, condensation, dat = BINARY[temperature]
    found = ss.thresholds(ss.Target("binary", "log", temperature))
    assert _close(found.asl, asl)
    assert _close(found.dat, dat)
    if dynamical:
        assert _close(found.dynamical, dynamical)
        assert _close(found.condensation, condensation)
    assert found.asl < found.dynamical < found.condensation <= found.zero_entropy * (1 + 1e-12)
    assert abs(found.capacity - 0.8330785997395792) < 1e-9


@pytest.mark.parametrize(
    ("temperature", "q", "t", "r", "entropy"),
    [
        (1 / 3, 0.971286, 0.193879, 0.837594, 0.01333),
        (0.5, 0.981993, 0.397378, 0.799440, 0.02437),
        (0.9, 0.998938, 1.546617, 0.704736, 0.08257),
    ],
)
def test_where_the_cusp_is(temperature, q, t, r, entropy):
    alpha, state = asl_threshold(ss.Target("binary", "log", temperature))
    branch = Branch(state.target)
    landscape = branch.landscape(float(np.log(state.conjugate)))
    depth, height = landscape.peak
    assert abs(height - 1) < 1e-8
    assert abs(state.overlap - r) < 1e-6
    gap, _ = landscape.curve.distances(depth)
    assert abs(state.overlap + gap[0] - q) < 2e-6  # F is flat there: q is the least determined
    assert abs(landscape.curve.at_depth([depth]).time[0] - t) < 2e-6
    assert abs(ss.predict(state.target, alpha).entropy - entropy) < 1e-5
    found = ss.thresholds(state.target)
    assert abs(found.cusp_overlap - q) < 2e-6
    assert abs(found.cusp_time - t) < 2e-6


ZERO_ENTROPY = {np.inf: 0.8330786, 0.8: 0.734914, 0.5: 0.683219, 0.3: 0.616332}


@pytest.mark.parametrize("temperature", ZERO_ENTROPY)
def test_the_capacity_belongs_to_the_constraints(temperature):
    """Whatever the temperature, κ = 0 has solutions up to 0.833; the tilted measure's entropy vanishes earlier."""
    found = ss.thresholds(ss.Target(temperature=temperature))
    assert abs(found.capacity - 0.8330785997395792) < 1e-9
    assert abs(found.zero_entropy - ZERO_ENTROPY[temperature]) < 1e-5
    for share, satisfiable in ((0.999, True), (1.001, False)):
        p = ss.predict(found.target, share * found.capacity)
        assert p.satisfiable is satisfiable
        assert p.entropy < 0 or temperature == np.inf


def test_uniform_binary():
    found = ss.thresholds(ss.Target("binary", "uniform"))
    assert abs(found.capacity - 0.8330785997395792) < 1e-9
    assert (found.asl, found.asl_by, found.dynamical) == (0.0, "edge", 0.0)
    assert abs(ss.predict(found.target, found.capacity).overlap - 0.56394908) < 1e-8


@pytest.mark.parametrize("width", [0.3, 1.0, 2.5])
def test_symmetric_binary(width):
    target = ss.Target("binary", ss.potentials.Band(width))
    exact = -np.log(2) / np.log(norm.cdf(width) - norm.cdf(-width))
    found = ss.thresholds(target)
    assert abs(found.capacity / exact - 1) < 1e-12
    assert abs(found.zero_entropy / exact - 1) < 1e-12
    p = ss.predict(target, 0.9 * exact)
    assert p.overlap == 0
    assert abs(p.entropy - 0.1 * np.log(2)) < 1e-12


def test_tricritical_margin():
    assert abs(tricritical_margin() + 2.04312) < 1e-5
    alpha = ss.thresholds(ss.Target("spherical", "uniform", margin=tricritical_margin())).dat
    assert abs(alpha / 70.00841 - 1) < 1e-6


WINDOWS = {
    ("spherical", "uniform", 1.0, -2.5, 272): (0.058544, 0.060595, 0.062276),
    ("spherical", "uniform", 1.0, -2.5, 278): (0.020631, 0.036297, 0.047024),
    ("binary", "log", 0.5, 0.0, 0.66): (0.172602, 0.255530, 0.283964),
    ("binary", "log", 0.5, 0.0, 0.68): (None, 0.025683, 0.122826),
    ("binary", "uniform", 1.0, 0.0, 0.1): (-np.inf, 8.875553, 9.593399),
    ("binary", "uniform", 1.0, 0.0, 0.7): (-np.inf, 0.774324, 1.403916),
}


@pytest.mark.parametrize("case", WINDOWS, ids=str)
def test_windows(case):
    low, maxwell, high = WINDOWS[case]
    (window,) = ss.predict(ss.Target(*case[:4]), case[4]).windows
    assert window.low < 0 if low is None else window.low == low or abs(window.low - low) < 1e-6
    assert abs(window.maxwell - maxwell) < 1e-6
    assert abs(window.high - high) < 1e-6


def test_maxima_of_figure_one():
    p = ss.predict(ss.Target("spherical", "uniform", margin=-2.5), 278)
    assert abs(p.overlap_at(0.04) - 0.318968) < 1e-6
    assert abs(p.overlap_at(0.04, start="high") - 0.734581) < 1e-6
    assert p.regime([0.02, 0.03, 0.04, 0.05]).tolist() == ["green", "yellow", "red", "green"]


@pytest.mark.parametrize(
    ("power", "linear", "quadratic", "alpha", "r", "replicon"),
    [
        (1.4526, -1.003, 0.0, 0.67785, 0.691, 0.62),
        (1.2, 1.0126, 0.9133, 0.69292, 0.725, 0.77),
        (1.0214, 1.7308, 1.2460, 0.69809, 0.724, 0.80),
    ],
)
def test_designed_potentials(power, linear, quadratic, alpha, r, replicon):
    potential = ss.potentials.LogQuadratic(linear / power, quadratic / power)
    found, state = asl_threshold(ss.Target("binary", potential, 1 / power))
    assert abs(found - alpha) < 1e-5
    assert abs(state.overlap - r) < 6e-4
    assert abs(state.replicon - replicon) < 6e-3


def test_design_of_the_temperature():
    best = ss.design("log")
    assert abs(best.parameters["temperature"] - 0.7) < 0.02
    assert 0.66691 < best.alpha_asl < 0.6670
    assert "not about how many samples" in best.words


def test_design_of_three_parameters():
    best = ss.design(
        ss.potentials.LogQuadratic, initial={"temperature": 0.9, "linear": 1.5, "quadratic": 1.1}, progress=False
    )
    assert best.alpha_asl > 0.698
    assert best.replicon < 1
    assert best.entropy > 0
