"""`ss.count` and `solspace count`: arguments, words, reproducibility, and what an interruption leaves."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from terminal import invoke

import solspace as ss
from solspace.cli import count as verb
from solspace.counting.count import _with_second, counted, prepared

SMALL = ss.Perceptron.random(21, 0.3, rng=0)


@pytest.mark.parametrize(
    ("problem", "options", "named"),
    [
        (SMALL, {"method": "guess"}, "guess"),
        (SMALL, {"confidence": 1.0}, "confidence"),
        (SMALL, {"confidence": 0}, "confidence"),
        (SMALL, {"time_limit": -1}, "time_limit"),
        (SMALL, {"device": "gpu"}, "device"),
        (SMALL, {"target": "uniform"}, "target"),
        (SMALL.patterns, {}, "problem"),
        (ss.Perceptron.random(21, 0.3, ss.Target("spherical"), rng=0), {}, "prior"),
        (ss.Perceptron.random(61, 0.3, rng=0), {"method": "exact"}, "exact"),
        (ss.Perceptron.random(21, 0.3, patterns="gaussian", rng=0), {"method": "smc"}, "smc"),
        (ss.Perceptron(SMALL.patterns, intercept=1.0), {"method": "epar"}, "intercept"),
        (ss.Perceptron.random(61, 0.3, ss.Target(potential="logistic(2)"), rng=0), {"method": "smc"}, "smc"),
    ],
)
def test_what_cannot_be_counted_is_a_sentence(problem, options, named):
    with pytest.raises(ValueError, match=named):
        ss.count(problem, **options)


def test_the_same_seed_gives_the_same_count():
    problem = ss.Perceptron.random(41, 0.5, rng=1)
    one, same, other = (ss.count(problem, method="epar", rng=seed) for seed in (1, 1, 2))
    assert (one.log, one.low, one.high) == (same.log, same.low, same.high)
    assert one.log != other.log


def test_what_a_count_prints():
    found = ss.count(SMALL)
    assert f"{round(math.exp(found.log)):,} solutions" in str(found)
    assert "(exact)" in str(found)
    assert "log₂" in str(found)
    assert "log₁₀" in str(found)
    assert str(found) in found._repr_html_()
    drawn = replace(found, exact=False, log=47.6, low=47.49, high=47.74)
    assert str(drawn) == "e^47.60 (95%: e^47.49 … e^47.74), 4.7e20 solutions; log₂ 68.67, log₁₀ 20.67"
    assert json.dumps(found.to_dict())
    assert str(ss.count(ss.Perceptron([[1, 1, 1], [-1, -1, -1]]))) == "no solution (exact)"


def test_methods_that_disagree_are_reported():
    found = replace(ss.count(SMALL), exact=False, log=5.0, low=4.9, high=5.1, method="epar")
    other = replace(found, log=6.0, low=5.8, high=6.2, method="smc")
    both = _with_second(found, other)
    assert (both.log, both.low, both.high) == (5.0, 4.9, 6.2)
    assert "disagrees" in both.status
    assert not both.trusted
    agreed = _with_second(found, replace(other, low=5.0))
    assert (agreed.low, agreed.high, agreed.trusted) == (4.9, 5.1, True)
    assert _with_second(replace(found, trusted=False), other).log == 6.0


def test_a_time_limit_leaves_what_was_found():
    found = ss.count(ss.Perceptron.random(61, 0.4, rng=0), method="epar", rng=0, time_limit=1e-6)
    assert found.status.startswith("stopped by the time limit")
    assert math.isfinite(found.low)
    partial = ss.count(ss.Perceptron.random(27, 0.3, patterns="gaussian", rng=0), method="exact", time_limit=1e-6)
    assert not partial.exact
    assert not partial.trusted
    assert partial.low <= ss.count(ss.Perceptron.random(27, 0.3, patterns="gaussian", rng=0)).log <= partial.high


def test_likelihoods_have_evidence_and_others_solutions():
    logistic = SMALL.with_target(ss.Target(potential="logistic(2)"))
    assert not prepared(logistic)[1].solutions
    assert prepared(SMALL)[1].solutions
    assert not prepared(SMALL, SMALL.target)[1].solutions
    assert prepared(SMALL.with_target(ss.Target(potential="hinge")))[1].solutions


def test_the_verb_counts_and_writes_its_report(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = invoke("count", "--n", "21", "--alpha", "0.4", "--json")
    report = json.loads(done.stdout)
    assert report == json.loads((tmp_path / "report.json").read_text())
    assert report["exact"]
    assert report["theory"] == pytest.approx(21 * ss.predict(ss.Target(potential="uniform"), 8 / 21).entropy)
    shown = invoke("count", "--n", "15", "--potential", "log", "--temperature", "1")
    assert "log Z" in shown.stdout
    np.save("X.npy", [[1, 1, 1], [-1, -1, -1]])
    assert "no solution" in invoke("count", "--patterns", "X.npy").stdout


def test_ctrl_c_shows_the_interval_so_far(tmp_path, monkeypatch):
    def interrupted(*arguments):
        yield next(counted(*arguments))
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(verb, "counted", interrupted)
    done = invoke("count", "--n", "61", "--method", "epar")
    assert done.exit_code == 130
    assert "lanes" in done.stdout
    assert json.loads((tmp_path / "report.json").read_text())["stopped"]


def test_a_picture_of_several_counts():
    loads = [ss.count(ss.Perceptron.random(19, alpha, rng=0)) for alpha in (0.2, 0.4)]
    loads.append(replace(loads[0], trusted=False, exact=False, low=1.0))
    axes = loads[0].plot(loads[1:])
    assert axes.get_xlabel().startswith("load")
