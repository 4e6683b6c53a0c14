"""What the page draws is what `ss.predict` says; and what it runs is what its program repeats."""

from __future__ import annotations

import json

import numpy as np
import pytest

import solspace as ss
from solspace.explorer.charts import Charts
from solspace.explorer.curves import (
    FACTS,
    SHOWN,
    Diagram,
    columns,
    curves,
    loads,
    nearby,
    numbers,
    path,
    thresholds,
    verdict,
)
from solspace.explorer.runs import overlap_bars, sample, stability_bars
from solspace.explorer.settings import Settings, program

CASES = [
    (ss.Target(), 0.3, 1.0),
    (ss.Target(), 0.66, 0.2),
    (ss.Target(potential="uniform"), 0.5, 2.5),
    (ss.Target("spherical", "uniform", margin=-2.5), 278.0, 0.04),
    (ss.Target("ternary"), 0.9, 1.0),
    (ss.Target("levels(-3,-1,1,3)", "probit(0.5)"), 1.0, 0.3),
    (ss.Target("gaussian(1)", "logistic(2)"), 2.0, 1.0),
]
STEP = ss.Target(potential="uniform")
PLANTED = [
    (STEP, 1.0, 0.5),
    (STEP, 1.3, 0.1),  # hard
    (STEP, 2.0, 1.0),  # the teacher is found
    (ss.Target("ternary", "probit(0.1)"), 1.5, 0.3),
    (ss.Target("gaussian(1)", "flip(0.1)"), 2.0, 1.0),
]


@pytest.mark.parametrize(("target", "alpha", "time"), CASES)
def test_curves_are_the_predictions(target, alpha, time):
    drawn, p = curves(target.to_json(), alpha, time), ss.predict(target, alpha=alpha)
    for name in (*SHOWN["random"][0], *FACTS):
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


@pytest.mark.parametrize(("target", "alpha", "time"), PLANTED)
def test_curves_of_a_teacher_are_the_predictions(target, alpha, time):
    drawn, p = curves(target.to_json(), alpha, time, "planted"), ss.predict(target, alpha, "planted")
    for name in (*SHOWN["planted"][0], *FACTS):
        assert drawn[name] == pytest.approx(getattr(p, name), rel=1e-12)
    q = drawn["q"]
    assert q[0] == pytest.approx(p.least_overlap, abs=1e-5)
    assert q[-1] == pytest.approx(p.norm)
    np.testing.assert_allclose(drawn["f"], p.localization_time(q), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(drawn["p"], p.stability_density(drawn["s"]), rtol=1e-12)
    assert drawn["low"][0] == pytest.approx(p.message_passing_overlap)
    t, some = drawn["t_low"], np.linspace(0, len(drawn["low"]) - 1, 9).astype(int)
    assert np.median(np.abs(p.overlap_at(t[some]) - drawn["low"][some])) < 1e-7
    said = verdict(drawn, thresholds(target.to_json(), "planted"))
    assert said.colour == ("green" if p.samplable and not p.hard else "red")
    assert said.sentence.startswith("Hard: message passing") == p.hard


def test_a_posterior_has_its_own_thresholds_and_numbers():
    found = thresholds(STEP.to_json(), "planted")
    assert found == {name: getattr(ss.thresholds(STEP, "planted"), name) for name in SHOWN["planted"][1]}
    (low, high), alphas = loads(found)
    assert low < min(alphas) < found["spinodal"] < max(alphas) <= high
    lines = columns(STEP.to_json(), (1.0, 2.0), "planted")
    assert lines["maxwell"][0] == pytest.approx(ss.predict(STEP, 1.0, "planted").windows[0].maxwell)
    assert np.isnan(lines["maxwell"][1])
    assert not len(nearby(STEP.to_json(), 0.4, "planted")["v"])
    table = numbers(curves(STEP.to_json(), 1.3, 0.1, "planted"), found, "planted")
    assert all(words in table for words in ("overlap that AMP reaches", "1.24468", "1.4926"))
    assert "computing" not in numbers(None, {}, "planted")
    with pytest.raises(ValueError, match="needs a likelihood"):
        curves(ss.Target().to_json(), 0.3, 1.0, "planted")


def test_charts_reach_to_the_norm():
    charts, target = Charts(), ss.Target("levels(-3,-1,1,3)", "probit(0.5)").to_json()
    for ensemble in ("random", "planted"):
        drawn = curves(target, 1.0, 0.3, ensemble)
        charts.show_curves(drawn)
        assert charts.figures["path"].y_range.end > drawn["norm"] > 4
        assert charts.figures["overlaps"].x_range.end > drawn["overlap"] > 1
    charts.show_diagram(
        Diagram(found := thresholds(STEP.to_json(), "planted"), (0.0, 1.8), columns(STEP.to_json(), (1.0,), "planted"))
    )
    assert charts.frontier.location == found["localization"]
    assert not charts.unstable.visible


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


POSTERIOR = {"ensemble": "planted", "potential": "probit(0.5)", "temperature": 1.0}


@pytest.mark.parametrize(
    ("sampler", "measure"),
    [("asl", {}), ("tau", {}), ("temperature", {}), ("tau", {"prior": "ternary"}), ("asl", POSTERIOR),
     ("tempering", {"prior": "ternary", **POSTERIOR}), ("temperature", POSTERIOR)],
)  # fmt: skip
def test_a_run_reports_ends_and_is_repeated_by_its_program(sampler, measure, tmp_path, monkeypatch):
    settings, updates = Settings(n=101, alpha=0.2, samples=3, sweeps=20, sampler=sampler, seed=5, **measure), []
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
    predicted = report["prediction"] is not None
    assert predicted == ((sampler, measure) != ("temperature", POSTERIOR))  # which ends in another measure
    assert program(settings, predicted=predicted).encode() == done["files"]["code.py"]


def test_a_run_on_a_posterior_is_compared_with_its_theory():
    settings = Settings(n=301, alpha=1.5, samples=8, seed=5, **POSTERIOR)
    done, expected = sample(settings, None, lambda update: None), ss.predict(settings.target, 452 / 301, "planted")
    assert done["fair"]
    assert json.loads(done["files"]["report.json"])["prediction"]["bayes_error"] == pytest.approx(expected.bayes_error)
    ((_, seen, theory),) = (row for row in done["rows"] if row[0] == "overlap of two samples")
    assert float(theory) == pytest.approx(expected.overlap, abs=1e-4)
    assert abs(float(seen.split()[0]) - float(theory)) < 0.12


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
    weights = rng.choice([-1, 0, 1], size=(12, 101))
    overlaps = (weights @ weights.T / 101)[np.triu_indices(12, 1)]
    bars = overlap_bars(overlaps, 101)
    assert np.abs(overlaps[:, None] - np.append(bars["left"], bars["right"][-1])).min() > 0.4 / 101


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
