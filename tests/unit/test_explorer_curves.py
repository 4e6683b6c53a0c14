"""What the page draws is what `ss.predict` says; and what it runs is what its program repeats."""

from __future__ import annotations

import json

import numpy as np
import pytest

import solspace as ss
from solspace.explorer.curves import FACTS, columns, curves, loads, nearby, path, thresholds
from solspace.explorer.runs import overlap_bars, sample, stability_bars
from solspace.explorer.settings import Settings, program

CASES = [
    (ss.Target(), 0.3, 1.0),
    (ss.Target(), 0.66, 0.2),
    (ss.Target(potential="uniform"), 0.5, 2.5),
    (ss.Target("spherical", "uniform", margin=-2.5), 278.0, 0.04),
]


@pytest.mark.parametrize(("target", "alpha", "time"), CASES)
def test_curves_are_the_predictions(target, alpha, time):
    drawn, p = curves(target.to_json(), alpha, time), ss.predict(target, alpha=alpha)
    for name in FACTS:
        assert drawn[name] == pytest.approx(getattr(p, name), rel=1e-12)
    assert drawn["regime"] == p.regime(time)
    q = drawn["q"]
    np.testing.assert_allclose(drawn["f"], p.localization_time(q), rtol=1e-10, atol=1e-12)
    base = p.free_entropy_at(p.overlap, time)
    np.testing.assert_allclose(drawn["phi"], p.free_entropy_at(q, time) - base, atol=1e-12)
    np.testing.assert_allclose(drawn["p"], p.stability_density(drawn["s"]), rtol=1e-12)
    starts = [p.overlap_at(time, start=start) for start in ("low", "high")]
    assert {round(top["q"], 9) for top in drawn["tops"]} == {round(float(q), 9) for q in starts}
    assert all(drawn["phi_range"][0] < top["phi"] < drawn["phi_range"][1] for top in drawn["tops"])
    assert drawn["f_range"][0] <= time <= drawn["f_range"][1]


@pytest.mark.parametrize(("target", "alpha", "time"), CASES)
def test_f_is_drawn_as_a_curve(target, alpha, time):
    drawn, p = curves(target.to_json(), alpha, time), ss.predict(target, alpha=alpha)
    q, f = drawn["q"], drawn["f"]
    middle = np.asarray(p.localization_time((q[1:] + q[:-1]) / 2))
    beside = np.abs(middle - (f[1:] + f[:-1]) / 2)
    high, wide = beside / np.maximum(np.abs(middle), 1e-3), beside / np.abs(np.diff(f) / np.diff(q)) / (q[-1] - q[0])
    assert np.minimum(high, wide).max() < 2e-3  # half a pixel of a chart


@pytest.mark.parametrize(("target", "alpha", "time"), CASES)
def test_paths_are_roots_of_the_curve(target, alpha, time):
    drawn, p = curves(target.to_json(), alpha, time), ss.predict(target, alpha=alpha)
    for start in ("low", "high"):
        t, q = drawn[f"t_{start}"], drawn[start]
        some = np.linspace(0, len(t) - 1, 9).astype(int) if len(t) else []
        near = np.abs(p.overlap_at(t[some], start=start) - q[some]) if len(t) else np.zeros(1)
        assert np.median(near) < 1e-7  # but for the two sides of a jump
        assert (np.diff(t) >= 0).all()
    if not p.samplable:
        assert drawn["takeover"] == pytest.approx(p.windows[0].maxwell)
        assert len(drawn["high"]) > 1


def test_a_smooth_curve_has_one_path():
    q = np.linspace(0.5, 0.99, 50)
    drawn = path(q, (q - 0.5) / (1 - q), 0.5, [])
    assert len(drawn["high"]) == 0
    np.testing.assert_array_equal(drawn["low"][1:], q[1:])


def test_columns_and_thresholds_are_the_theorys():
    target = ss.Target("spherical", "uniform", margin=-2.5)
    lines = columns(target.to_json(), (200.0, 278.0, 1e6))
    np.testing.assert_allclose(
        [lines[n][1] for n in ("first", "maxwell", "last")], ss.predict(target, 278.0).windows[0]
    )
    assert np.isnan([lines["maxwell"][0], lines["maxwell"][2]]).all()
    found = thresholds(target.to_json())
    assert found["asl"] == pytest.approx(269.735956, abs=1e-5)
    (low, high), alphas = loads(found)
    assert low < min(alphas) <= found["asl"] <= max(alphas) <= high
    assert sum(found["asl"] <= a <= found["condensation"] for a in alphas) > 10


@pytest.mark.parametrize("sampler", ["asl", "tau", "temperature"])
def test_a_run_reports_ends_and_is_repeated_by_its_program(sampler, tmp_path, monkeypatch):
    settings, updates = Settings(n=101, alpha=0.2, samples=3, sweeps=20, sampler=sampler, seed=5), []
    done = sample(settings, None, updates.append)
    assert updates[0]["fraction"] <= updates[-1]["fraction"] == 1
    assert any(("seen" if sampler == "asl" else "energy") in update for update in updates)
    assert "bars" in updates[0]
    assert sum(done["bars"]["top"] * (done["bars"]["right"] - done["bars"]["left"])) == pytest.approx(1)
    pairs = done["pairs"]
    assert sum(pairs["top"] * (pairs["right"] - pairs["left"])) == pytest.approx(1)
    monkeypatch.chdir(tmp_path)
    exec(done["files"]["code.py"].decode(), {})
    repeated = ss.Samples.load("samples.npz")
    (tmp_path / "page.npz").write_bytes(done["files"]["samples.npz"])
    np.testing.assert_array_equal(repeated.weights, ss.Samples.load("page.npz").weights)
    report = json.loads(done["files"]["report.json"])
    assert report["solved"] == repeated.solved.sum()
    assert report["settings"]["seed"] == 5
    assert program(settings).encode() == done["files"]["code.py"]


def test_a_run_on_own_patterns_needs_no_theory(rng):
    patterns = rng.choice([-1, 1], size=(400, 101)).astype(np.int8)  # far past capacity
    done = sample(Settings(sampler="tau", samples=2, sweeps=5), patterns, lambda update: None)
    assert done["fair"] is not True
    assert "np.load" in done["files"]["code.py"].decode()


def test_overlaps_lie_in_the_middle_of_their_bars(rng):
    weights = rng.choice([-1, 1], size=(12, 101))
    overlaps = (weights @ weights.T / 101)[np.triu_indices(12, 1)]
    bars = overlap_bars(overlaps, 101)
    edges = np.append(bars["left"], bars["right"][-1])
    assert np.abs(overlaps[:, None] - edges).min() > 0.4 / 101
    assert len(overlap_bars(np.array([]), 101)["top"]) == 0


def test_bars_never_straddle_the_margin(rng):
    values = rng.integers(0, 60, size=2000) * 2 / np.sqrt(101) + 1 / np.sqrt(101)
    bars = stability_bars(values, ss.Perceptron.random(n=101, alpha=0.2, rng=0))
    assert np.abs(bars["left"]).min() < 1e-12
    assert (bars["top"][bars["right"] <= 1e-12] == 0).all()


def test_the_curve_around_a_sample_is_that_of_theory_and_empty_where_there_is_none():
    drawn, found = nearby(ss.Target().to_json(), 0.4), ss.franz_parisi(ss.Target(), 0.4)
    np.testing.assert_array_equal(drawn["v"], found.values)
    np.testing.assert_array_equal(drawn["d"], found.distances)
    assert not len(nearby(ss.Target("ternary").to_json(), 0.4)["v"])
