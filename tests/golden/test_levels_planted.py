"""Levels, real weights and planted problems against values of independent programs, to the digits they were printed with.

Entropy zeros, planted overlaps, free entropies and the first planted thresholds: an independent solver. ASL thresholds of levels:
`test_levels_theory` checks F by identities; these are this program's own digits, kept from changing.
"""

import pytest

import solspace as ss

ZERO_ENTROPY = {  # load, r/Q, Q
    "levels(0,1)": (0.58974, 0.7423, 0.3218),
    "ternary": (1.17448, 0.7207, 0.6305),
    "levels(-3,-1,1,3)": (1.35996, 0.7963, 4.501),
    "levels(-2,-1,0,1,2)": (1.47656, 0.8401, 1.723),
}
LOADS = (0.5, 1.0, 2.0, 4.0)
OVERLAPS = {
    "uniform": (0.2930890, 0.5607147, 1.0, 1.0),
    "probit(0.5)": (0.2297381, 0.4224902, 0.7156608, 0.9513517),
    "probit(1)": (0.1445810, 0.2665023, 0.4613767, 0.7130561),
    "logistic(1)": (0.0799653, 0.1509197, 0.2725327, 0.4584911),
    "logistic(3)": (0.2137752, 0.3919592, 0.6632346, 0.9167132),
    "flip(0.1)": (0.1838302, 0.3394015, 0.6039906, 1.0),
}
FREE_ENTROPIES = {
    "uniform": (0.3721328, 0.1061083, 0.0, 0.0),
    "probit(0.5)": (0.3623138, 0.0617702, -0.4542798, -1.2414977),
}


@pytest.mark.parametrize("prior", ZERO_ENTROPY)
def test_entropy_of_the_uniform_measure_ends(prior):
    load, share, norm = ZERO_ENTROPY[prior]
    target = ss.Target(prior, "uniform")
    p = ss.predict(target, load)
    assert abs(p.capacity - load) < 1e-5
    assert abs(p.entropy) < 2e-5
    assert abs(p.overlap / p.norm - share) < 1e-4
    assert abs(p.norm - norm) < 1e-3


def test_ternary_weights():
    p = ss.predict(ss.Target("ternary", "uniform"), 0.3)
    assert abs(p.entropy - 0.88035) < 5e-6
    assert abs(p.overlap / p.norm - 0.1892) < 5e-5
    assert abs(p.norm - 0.6666) < 5e-5


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "asl"), [(0.5, 0.940795), (0.7, 0.950958), (0.85, 0.937610)])
def test_loads_at_which_localization_of_ternary_weights_stops(temperature, asl):
    found = ss.thresholds(ss.Target("ternary", "log", temperature))
    assert found.asl_by == "cusp"
    assert abs(found.asl - asl) < 1e-6
    assert (
        found.asl < found.dynamical < found.condensation < found.zero_entropy + 1e-9 < found.capacity < found.dat + 0.1
    )


@pytest.mark.parametrize("potential", OVERLAPS)
def test_teachers(potential):
    for k, alpha in enumerate(LOADS):
        p = ss.predict(ss.Target(potential=potential), alpha, ensemble="planted")
        assert abs(p.overlap - OVERLAPS[potential][k]) < 1e-7
        if potential in FREE_ENTROPIES:
            assert abs(p.free_entropy - FREE_ENTROPIES[potential][k]) < 1e-7
        assert p.status.ok


def test_thresholds_of_the_step_teacher():
    found = ss.thresholds(ss.Target(potential="uniform"), ensemble="planted")
    assert abs(found.information - 1.24468) < 5e-6
    assert abs(found.spinodal - 1.4926) < 5e-5
    assert found.localization == 0
