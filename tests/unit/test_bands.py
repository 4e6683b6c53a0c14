"""Walls by name and by object, the maps and designs that go with them, and potentials of users that end in a wall."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from terminal import invoke

import solspace as ss
from solspace.measure import quadrature
from solspace.theory.design import family_space
from solspace.theory.localization import Landscape, Localization
from solspace.theory.reference import solve


def test_one_wall_is_the_log_potential_seen_from_elsewhere():
    omega, variance = np.linspace(-3, 3, 13), np.array([[0.01], [0.7]])
    log = ss.Target(potential="log", temperature=0.6, margin=0.4)
    below = ss.Target(potential=ss.potentials.wall(0.4), temperature=0.6)
    above = ss.Target(potential=ss.potentials.wall(None, -0.4), temperature=0.6)
    for one, other, mirrored, sign in zip(
        log.channel(omega, variance), below.channel(omega, variance), above.channel(-omega, variance), (1, -1, 1)
    ):
        np.testing.assert_allclose(one, other, rtol=1e-14)
        np.testing.assert_allclose(one, sign * mirrored, rtol=1e-14)
    found = [ss.predict(target, 0.3) for target in (log, below, above)]
    assert found[0].overlap == pytest.approx(found[1].overlap, abs=1e-12)
    assert found[0].overlap == pytest.approx(found[2].overlap, abs=1e-12)


def test_an_even_pair_of_walls_is_the_band():
    band, walls = ss.Target(potential="log_band(0.8)"), ss.Target(potential=ss.potentials.wall(-0.8, 0.8))
    beside = ss.Target(potential=ss.potentials.wall(-0.5, 1.1), margin=-0.3)
    omega = np.linspace(-2, 2, 9)
    for one, other, shifted in zip(*(target.channel(omega, 0.3) for target in (band, walls, beside))):
        np.testing.assert_allclose(one, other, rtol=1e-14)
        np.testing.assert_allclose(one, shifted, rtol=1e-9, atol=1e-12)


def test_walls_beside_the_origin_have_an_overlap():
    p = ss.predict(ss.Target(potential=ss.potentials.wall(-0.5, 2.0)), 0.4)
    assert 0.01 < p.overlap < 0.9
    mirrored = ss.predict(ss.Target(potential=ss.potentials.wall(-2.0, 0.5)), 0.4)
    assert p.overlap == pytest.approx(mirrored.overlap, abs=1e-10)
    assert p.mean_stability == pytest.approx(-mirrored.mean_stability, abs=1e-8)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ss.potentials.wall(), "a lower or an upper end"),
        (lambda: ss.potentials.wall(1.0, -1.0), "must lie below"),
        (lambda: ss.potentials.wall("a"), "lower must be a number"),
        (lambda: ss.potentials.LogBand(-1.0), "width of the band must be a positive number"),
        (lambda: ss.potentials.TauWall(0.0, None, 0.5, quadratic=1.0), "needs a lower and an upper"),
        (lambda: ss.potentials.TauWall(0.0, None, 2.0), "tau must be at most 1"),
        (lambda: ss.predict(ss.Target(potential="log_band(1, -40)"), 0.1), "pushes too hard"),
        (lambda: ss.sampling_map(ss.Target(), widths=[1.0]), "widths are those of a band"),
        (lambda: ss.sampling_map(ss.Target()), "give one of the two"),
        (lambda: ss.sampling_map(ss.Target(potential="band"), [0.0], [1.0]), "give one of the two"),
    ],
)
def test_nonsense_gets_a_sentence(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_a_map_over_widths():
    found = ss.sampling_map(ss.Target(potential="log_band", temperature=0.5), widths=[1.0])
    assert found.asl[0] == pytest.approx(0.956407, abs=1e-6)
    assert found.widths.tolist() == [1.0]
    assert found.to_dict()["widths"] == [1.0]
    with pytest.raises(AttributeError, match="no margins"):
        _ = found.margins


def test_a_map_over_widths_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    invoke("phase", "--potential", "band(1)", "--widths=0.5:1.5:2", "--out", "map.png")
    lines = (tmp_path / "map.csv").read_text().splitlines()
    assert lines[0].startswith("width,asl")
    assert float(lines[2].split(",")[0]) == 1.5


def test_a_family_keeps_what_it_does_not_choose():
    make, space = family_space("log_band(0.8)", None, None)
    assert set(space) == {"temperature", "quadratic"}
    assert make(quadratic=0.1) == ss.potentials.LogBand(0.8, 0.1)
    assert family_space(ss.potentials.wall(0.2), None, None)[0]() == ss.potentials.wall(0.2)


def test_the_designed_band_reaches_furthest():
    """At the threshold of the designed band the instability touches one; that of its neighbours exceeds it."""

    def highest(temperature, quadratic):
        target = ss.Target(potential=ss.potentials.LogBand(1.0, quadratic), temperature=temperature)
        return Landscape(Localization(solve(target, 1.43797))).peak[1]

    assert highest(0.975655, -0.359653) == pytest.approx(1, abs=2e-4)
    assert highest(0.93, -0.359653) > 1.002
    assert highest(0.975655, -0.45) > 1.002


class Missing:
    """A user's wall whose breakpoints are forgotten."""

    breakpoints = (0.0,)

    def __init__(self, power):
        self.power = power

    def log_weight(self, s):
        return np.where(np.abs(s) < 1.03, self.power * np.log(np.maximum(1.03**2 - s**2, 1e-300)), -np.inf)


class Given(Missing):
    """The same with them."""

    breakpoints = (-1.03, 1.03)


@pytest.mark.slow
@pytest.mark.parametrize("temperature", [0.7, 1.0, 2.0])
def test_a_wall_of_ones_own_needs_no_warning(temperature):
    own, ours = (
        ss.Target(potential=potential, temperature=temperature)
        for potential in (Given(1.0), ss.potentials.LogBand(1.03))
    )
    omega = np.linspace(-2, 2, 41)
    for one, other in zip(own.channel(omega, 0.05), ours.channel(omega, 0.05)):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-9)
    assert ss.predict(own, 0.4).free_entropy == pytest.approx(ss.predict(ours, 0.4).free_entropy, abs=1e-9)
    problem = ss.Perceptron.random(n=101, alpha=0.2, target=own, rng=0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*miss constraints")
        ss.localize(problem, 2, rng=1, progress=False, final_time=2.0)


def test_a_missing_breakpoint_is_told_once(monkeypatch):
    monkeypatch.setattr(quadrature, "_warned", {})
    target = ss.Target(potential=Missing(0.7), temperature=1.0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for omega in np.linspace(0.9, 1.4, 12):
            target.channel(omega, 0.01)
    assert 1 <= len(caught) <= 3
    assert "accurate to" in str(caught[0].message)


@pytest.mark.parametrize(("potential", "tolerance"), [("log_band(1)", 1e-4), ("log", 1e-3)])
def test_means_that_begin_at_zero_are_asked_for_more(potential, tolerance):
    """What is small beside the weights' variance is not small beside means of 0."""
    target = ss.Target(potential=potential, temperature=0.7)
    problem = ss.Perceptron.random(n=101, alpha=0.5, target=target, rng=0)
    iterations = {
        given: ss.localize(problem, 2, rng=1, tolerance=given, progress=False).info.iterations.sum()
        for given in (None, 1e-3, 1e-4)
    }
    assert iterations[None] == iterations[tolerance]
    assert iterations[1e-3] < iterations[1e-4]
