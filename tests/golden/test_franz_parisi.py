"""The Franz–Parisi curve against published values, its limits, and the load where a gap opens (theory notes 15)."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss
from solspace.theory import probe as module
from solspace.theory.probe import Curve

UNIFORM = ss.Target(potential="uniform")
# reference: log, T = 0.5, α = 0.3; probe: uniform (theory notes 15, by finite differences: 1e-6)
NOTES = {0.6: 0.4123870, 0.7: 0.3596429, 0.8: 0.2856483, 0.9: 0.1811020, 0.95: 0.1094446, 0.98: 0.0536926}
CASES = [
    (ss.Target(), UNIFORM, 0.3),
    (UNIFORM, UNIFORM, 0.3),
    (ss.Target(temperature=0.8), UNIFORM, 0.65),
    (ss.Target(margin=0.2), ss.Target(potential="uniform", margin=0.2), 0.3),
    (ss.Target(), ss.Target(temperature=0.7, margin=-0.2), 0.4),
    (ss.Target(potential="log_band(1)"), ss.Target(potential="band(1)"), 0.8),
    (ss.Target("spherical", "uniform", margin=-1.0), ss.Target("spherical", "uniform", margin=-1.0), 3.0),
    (ss.Target("spherical", "log", 0.5), ss.Target("spherical", "uniform"), 1.0),
]


def test_values_of_the_notes():
    curve = ss.franz_parisi(ss.Target(), 0.3, overlaps=list(NOTES))
    assert curve.values == pytest.approx(list(NOTES.values()), abs=3e-7)
    assert curve.stable.all()
    assert curve.status.ok


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[2]}")
def test_field_is_the_derivative_and_equations_are_solved(case):
    reference, probe, alpha = case
    p, h = np.array([0.72, 0.93]), np.array([1e-4, 2e-5])
    curve = ss.franz_parisi(reference, alpha, probe, overlaps=np.concatenate([p, p - h, p + h]))
    here, low, high = curve.values.reshape(3, 2)
    assert curve.converged.all()
    assert curve.accuracy < 1e-10
    assert (high - low) / (2 * h) == pytest.approx(-curve.fields[:2], rel=3e-6)
    assert (low + high - 2 * here < 1e-10).all()


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}, {case[2]}")
def test_without_a_field_the_probe_is_typical(case):
    """v has its maximum there, the free entropy of the probe: it does not know of the sample."""
    reference, probe, alpha = case
    curve = Curve(reference, probe, alpha)
    typical = ss.predict(probe, alpha)
    start = curve.start.distance
    near = curve.along([start * 0.999])[0]
    assert curve.start.value == typical.free_entropy
    assert near.value == pytest.approx(typical.free_entropy, abs=1e-5)
    assert abs(near.field) < 5e-3
    assert near.excess + (1 - near.distance) ** 2 == pytest.approx(typical.overlap, abs=2e-3)
    if reference == probe:
        assert 1 - start == pytest.approx(typical.overlap, abs=1e-9)


def test_near_the_sample_only_the_entropy_is_left():
    """p → 1: constraints cost little near a log sample at T < 1, so v is that of free weights at that distance."""
    d = np.array([1e-4, 1e-5, 1e-6])
    curve = ss.franz_parisi(ss.Target(), 0.3, overlaps=1 - 2 * d)
    free = -d * np.log(d) - (1 - d) * np.log1p(-d)
    assert np.abs(curve.values / free - 1)[-1] < 1e-3
    assert (np.diff(np.abs(curve.values / free - 1)) < 0).all()
    assert 0 < curve.values[-1] < 2e-5


def test_typical_solutions_are_isolated_and_log_samples_are_not():
    assert ss.franz_parisi(ss.Target(), 0.3).gap is None
    for alpha in (0.1, 0.5):
        curve = ss.franz_parisi(UNIFORM, alpha, overlaps=[0.9])
        assert 0.9 < curve.gap < 1
        ends = ss.franz_parisi(UNIFORM, alpha, overlaps=[curve.gap - 1e-7, curve.gap, curve.gap + 1e-7]).values
        assert ends[0] > 0 > ends[2]
        assert abs(ends[1]) < 1e-9


def test_a_finer_quadrature_changes_nothing(monkeypatch):
    overlaps = [0.62, 0.9, 0.99]
    before = [ss.franz_parisi(r, alpha, p, overlaps).values for r, p, alpha in CASES[:3]]
    for name in ("STEP", "FINE", "WIDEST", "GRID"):
        monkeypatch.setattr(module, name, getattr(module, name) / 1.7)
    after = [ss.franz_parisi(r, alpha, p, overlaps).values for r, p, alpha in CASES[:3]]
    assert np.abs(np.array(after) - before).max() < 1e-9


@pytest.mark.exhaustive
@pytest.mark.parametrize(("temperature", "load"), [(1.0, 0.769224), (0.8, 0.788111)])
def test_the_load_at_which_a_gap_opens(temperature, load):
    """At the root the curve touches zero; no independent value is known."""
    found = ss.thresholds(ss.Target(temperature=temperature)).overlap_gap
    assert found == pytest.approx(load, abs=2e-6)
    for shift, gap in ((-1e-3, False), (1e-3, True)):
        assert (
            ss.franz_parisi(ss.Target(temperature=temperature), found + shift, overlaps=[0.9]).gap is not None
        ) is gap


def test_there_is_no_gap_to_find():
    assert ss.thresholds(UNIFORM).overlap_gap == 0.0
    assert ss.thresholds(ss.Target(potential="hinge")).overlap_gap is None
    assert "overlap_gap" not in ss.thresholds(UNIFORM).to_dict()


def test_a_curve_that_ends_is_announced():
    """Samples of a soft potential miss constraints: no solution is close."""
    with pytest.warns(UserWarning, match="the curve ends"):
        curve = ss.franz_parisi(ss.Target(potential="hinge"), 0.4, overlaps=[0.5, 0.97])
    assert curve.converged.tolist() == [True, False]
    assert not curve.status.ok
    assert np.isnan(curve.values[1])


def test_arguments():
    with pytest.raises(ValueError, match="alpha"):
        ss.franz_parisi(ss.Target(), -1.0)
    with pytest.raises(ValueError, match="overlaps"):
        ss.franz_parisi(ss.Target(), 0.3, overlaps=[1.0])
    with pytest.raises(ValueError, match="same weights"):
        ss.franz_parisi(ss.Target(), 0.3, ss.Target("spherical"))
    with pytest.raises(ValueError, match="same weights"):
        ss.franz_parisi(ss.Target("ternary"), 0.3)
    curve = ss.franz_parisi(ss.Target(), 0.3, overlaps=0.8)
    assert curve.to_dict()["values"] == curve.values.tolist()
