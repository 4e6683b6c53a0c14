"""`ss.solve`: what it returns, what it says where there is nothing, and when it stops."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pytest

import solspace as ss
from solspace.samplers import device
from solspace.samplers.constraints import contradiction, flat, inseparable
from solspace.samplers.solving import solve as module
from solspace.samplers.solving.solve import Search, count


def impossible(n=101, m=60, kind="binary"):
    """Return a problem in which a pattern comes with both labels."""
    problem = ss.Perceptron.random(n, m / n, patterns=kind, rng=0)
    return ss.Perceptron(np.vstack([problem.patterns, -problem.patterns[7]]))


def test_solutions_far_beyond_the_samplers():
    problem = ss.Perceptron.random(1001, 0.7, rng=1000)
    samples = ss.solve(problem, rng=0, progress=False)
    assert samples.solved.all()
    assert problem.is_solution(samples.weights).all()
    info = samples.info
    assert (info.method, info.tried, info.sampler) == ("reinforce", ["reinforce"], "solve")
    assert info.iterations > 0
    assert info.seconds > 0
    assert "no known law" in info.words
    assert (info.unmet == 0).all()


def test_it_is_saved_and_loaded(tmp_path):
    samples = ss.solve(ss.Perceptron.random(101, 0.4, rng=0), 2, progress=False)
    samples.save(tmp_path / "s.npz")
    again = ss.Samples.load(tmp_path / "s.npz")
    assert again.info.to_dict().keys() == samples.info.to_dict().keys()
    np.testing.assert_array_equal(again.info.unmet, samples.info.unmet)


def test_opposite_patterns_are_told_at_once():
    with pytest.warns(UserWarning, match="constraints 8 and 61 are opposite"):
        samples = ss.solve(impossible(), rng=0, progress=False)
    assert not samples.solved.any()
    assert "opposite" in samples.info.impossible
    assert samples.info.unmet[0] == 1


def test_what_no_weights_can_reach_is_told():
    problem = ss.Perceptron(np.eye(5, 31), target=ss.Target(margin=0.5))
    assert "at most" in contradiction(problem)
    narrow = ss.Perceptron.random(21, 0.4, ss.Target(potential="band(0.1)"), rng=0)
    assert "too narrow" in contradiction(narrow)
    assert contradiction(ss.Perceptron.random(21, 0.4, rng=0)) == ""
    assert "2 are opposite" in contradiction(ss.Perceptron(np.outer([1, -1], [0.1, 0.3, 0.7])))  # no signs add up to 0
    assert "2 are opposite" in contradiction(ss.Perceptron(np.outer([1, -1], [6, 4, 4])))
    assert "zero" in contradiction(ss.Perceptron(np.eye(3, 31, 30), target=ss.Target(potential="wall(1, 3)")))
    twice = impossible().patterns
    assert "8 and 61" in contradiction(ss.Perceptron(np.vstack([twice, twice[:5], twice[-1:]])))
    assert contradiction(ss.Perceptron([[0.5, 0.2, 0.2], [0.5, 0.2, 0.1]])) == ""


@pytest.mark.parametrize("seed", range(8))
def test_rows_that_a_tie_can_meet_are_no_contradiction(seed):
    """The same row with both labels: its entries add up to an even number, so weights may give it exactly 0."""
    row = np.random.default_rng(seed).integers(2, 17, 24)
    row[0] += row.sum() % 2
    for scale in (1, 10, 100, 7):
        assert contradiction(ss.Perceptron(np.vstack([row, row]) / scale, [1, -1])) == ""
    problem = ss.Perceptron(np.vstack([row, row]), [1, -1], target=ss.Target(potential="uniform"))
    found = count(problem)
    assert found.method == "ep"
    assert "exactly 0" in found.doubt
    samples = ss.solve(problem, rng=0, progress=False)
    assert samples.solved.all()
    assert not samples.stabilities.any()


def test_what_only_an_unlikely_tie_can_meet_is_a_doubt():
    with pytest.warns(UserWarning, match="exactly 0 meet both, and none were found"):
        samples = ss.solve(impossible(kind="gaussian"), rng=0, progress=False)
    assert not samples.solved.any()
    assert samples.info.impossible == ""
    assert "opposite" in samples.info.ended


def test_constraints_of_zeros_are_counted_as_met():
    patterns = ss.Perceptron.random(31, 0.3, patterns="gaussian", rng=0).patterns
    more = np.vstack([patterns, np.zeros((2, 31), np.float32)])
    assert count(ss.Perceptron(more)) == count(ss.Perceptron(patterns))
    assert count(ss.Perceptron(np.zeros((2, 31)))).log_number == pytest.approx(31 * np.log(2))


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_a_proof_does_not_depend_on_the_scale_of_patterns(scale):
    patterns = np.random.default_rng(0).standard_normal((30, 41))
    reach = scale * np.abs(patterns).sum(axis=1).min() / np.sqrt(41)
    beyond, within = (
        inseparable(ss.Perceptron(scale * patterns, target=ss.Target(margin=share * reach)), 9.0)
        for share in (0.9, 0.01)
    )
    assert beyond
    assert not within


def test_patterns_that_no_plane_separates_are_proved_so():
    problem = ss.Perceptron.random(31, 3.0, rng=0)
    assert inseparable(problem, 5.0)
    with pytest.warns(UserWarning, match="a linear program"):
        samples = ss.solve(problem, rng=0, progress=False)
    assert samples.info.unmet[0] <= 26
    assert inseparable(ss.Perceptron.random(31, 0.3, rng=0), 5.0) == ""


def test_a_time_limit_is_kept():
    problem = ss.Perceptron.random(1501, 0.8, rng=0)
    began = time.monotonic()
    with pytest.warns(UserWarning, match="time limit has passed"):
        samples = ss.solve(problem, time_limit=1.5, rng=0, progress=False)
    assert time.monotonic() - began < 30
    assert samples.info.ended == module.OUT_OF_TIME
    assert 0 < samples.info.unmet[0] < problem.m / 3


@pytest.mark.parametrize("method", ["tau", "ep"])
def test_a_time_limit_is_kept_by_every_method(method):
    problem = ss.Perceptron.random(401, 0.82, rng=0)
    with pytest.warns(UserWarning, match="time limit has passed"):
        samples = ss.solve(problem, method=method, time_limit=1.0, rng=0, progress=False)
    assert samples.info.tried[0] == method


def test_ctrl_c_leaves_the_best_so_far():
    seen: list[Search] = []

    def press(search):
        seen.append(search)
        if search.iterations >= 200:
            raise KeyboardInterrupt

    problem = ss.Perceptron.random(501, 0.8, rng=0)
    with pytest.raises(KeyboardInterrupt):
        ss.solve(problem, rng=0, progress=False, callback=press)
    samples = seen[-1].samples()
    assert samples.info.unmet[0] < problem.m / 4
    assert samples.info.unmet[0] == problem.violations(samples.weights[0])
    assert "unmet" in seen[-1].note


def test_structured_data_take_another_way():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 201)) + 1.5 * rng.normal(size=(60, 1)) * rng.normal(size=201)
    y = np.sign(X @ rng.choice([-1, 1], size=201))
    samples = ss.solve(ss.Perceptron(X, y), 2, rng=0, progress=False)
    assert samples.solved.all()
    assert samples.info.tried[0] == "tau"


def test_more_solutions_than_there_are():
    problem = ss.Perceptron.random(9, 0.9, rng=2)
    count = problem.enumerate().n_solutions
    with pytest.warns(UserWarning, match=f"there are {count} solutions in all"):
        samples = ss.solve(problem, count + 2, rng=0, progress=False)
    assert samples.solved.sum() == count
    assert len({row.tobytes() for row in samples.weights[samples.solved]}) == count


@dataclass(frozen=True)
class Away:
    """|s| of at least a gap."""

    gap: float = 0.3
    breakpoints = (-0.3, 0.3)

    def log_weight(self, s):
        return np.where(np.abs(s) < self.gap, -np.inf, 0.0)


def test_a_potential_of_your_own():
    problem = ss.Perceptron.random(101, 0.3, ss.Target(potential=Away()), rng=0)
    samples = ss.solve(problem, rng=0, progress=False)
    assert samples.solved.all()
    assert (np.abs(samples.stabilities) >= 0.3).all()


def test_the_flat_target_forgets_preferences():
    assert flat(ss.Target(temperature=0.1, margin=0.2)) == ss.Target(potential="uniform", margin=0.2)
    assert flat(ss.Target(potential="hinge")) == ss.Target(potential="uniform")
    assert flat(ss.Target(potential="band(2)")) == ss.Target(potential="band(2)")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "magic"}, "unknown method 'magic'"),
        ({"method": "exact"}, "n must be at most 20"),
        ({"n_solutions": 0}, "n_solutions must be an integer of at least 1"),
        ({"time_limit": -1}, "time_limit must be a positive number"),
        ({"device": "tpu"}, "unknown device"),
        ({"rng": -3}, "rng must be a non-negative integer"),
    ],
)
def test_nonsense_gets_a_sentence(options, words):
    with pytest.raises(ValueError, match=words):
        ss.solve(ss.Perceptron.random(31, 0.3, rng=0), **options)


@pytest.mark.parametrize("method", ["exact", "ep", "reinforce"])
def test_a_device_is_refused_where_it_would_not_be_used(method, monkeypatch):
    monkeypatch.setattr(device, "missing", lambda: "")
    problem = ss.Perceptron.random(15, 0.3, ss.Target(potential=Away()), rng=0)
    with pytest.raises(ValueError, match=f"method '{method}'.* runs on the processor"):
        ss.solve(problem, method=method, device="gpu", rng=0, progress=False)
    if method == "exact":
        assert ss.solve(problem, method=method, device="auto", rng=0, progress=False).info.device == "cpu"


def test_levels_are_refused():
    problem = ss.Perceptron.random(31, 0.3, ss.Target(prior="ternary"), rng=0)
    with pytest.raises(ValueError, match="±1"):
        ss.solve(problem)
    with pytest.raises(ValueError, match="Perceptron"):
        ss.solve("nonsense")


def test_sweeps_know_it(tmp_path):
    spec = ss.Spec(n=101, alpha=0.4, sampler={"name": "solve", "time_limit": 60.0}, instances=2)
    rows = list(ss.sweep(spec, tmp_path / "s.db", "serial").rows())
    assert [row.values["solved"] for row in rows] == [1, 1]
    assert all(row.values["unmet"] == 0 for row in rows)


def test_runs_side_by_side_and_alone_solve_alike():
    """Of one seed the first run sees the same noise, whatever runs beside it."""
    problem = ss.Perceptron.random(501, 0.6, rng=4)
    alone, beside = (ss.solve(problem, k, rng=2, method="reinforce", progress=False) for k in (1, 6))
    assert alone.solved.all()
    assert beside.solved.all()
    overlaps = beside.weights.astype(float) @ alone.weights[0] / problem.n
    assert overlaps.max() > 0.98
    assert np.sort(overlaps)[-2] < 0.98
