"""Options of chains on levels and on posteriors: starts, extensions, checkpoints, clamped weights, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import solspace as ss

LOGISTIC = ss.Target("ternary", "logistic(2)")


def planted(prior="ternary", **extras):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 31))
    y = np.where(X[:, :5].sum(axis=1) > 0, 1, -1)
    return ss.Perceptron(X, y, target=LOGISTIC.replace(prior=prior), **extras)


PROBLEMS = {
    "ternary": planted(),
    "intercept": planted(intercept=2.0),
    "all": planted(intercept=2.0, clamped={2: 1, 30: 0}, sample_weight=np.linspace(0.2, 3, 60)),
    "fractions": planted("levels(0,0.5,2)"),
    "signs": ss.Perceptron.random(31, 0.5, ss.Target(potential="hinge", margin=0.2), rng=1),
    "clamped signs": ss.Perceptron(np.sign(np.random.default_rng(1).normal(size=(15, 31))), clamped={4: -1}),
}


def same(one, other):
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.stabilities, other.stabilities)
    if one.intercepts is not None:
        np.testing.assert_array_equal(one.intercepts, other.intercepts)
    for name in ("acceptance", "energy", "solved_at", "draw_sweep", "temperature", "chain", "draw"):
        np.testing.assert_array_equal(one.info[name], other.info[name], name)


@pytest.mark.parametrize("name", PROBLEMS)
def test_an_extended_run_is_a_longer_run(name, tmp_path):
    problem, options = PROBLEMS[name], {"n_chains": 3, "n_sweeps": 20, "thin": 4, "rng": 5}
    run = ss.anneal(problem, n_extra=10, **options)
    longer = ss.anneal(problem, n_extra=20, **options)
    same(run.extend(3), longer)
    same(run.extend(1).extend(2, n_threads=1), longer)
    same(run[: 2 * 2].extend(3), ss.anneal(problem, n_extra=20, **{**options, "n_chains": 2}))
    run.save(tmp_path / "samples.npz")
    back = ss.Samples.load(tmp_path / "samples.npz")
    with pytest.raises(ValueError, match="give it"):
        back.extend(3)
    same(back.extend(3, problem), longer)
    assert longer.weights.dtype == (np.float64 if name == "fractions" else np.int8)
    single = ss.anneal(problem, **{**options, "n_sweeps": 30, "thin": 10})
    assert single.extend(2).info.draw_sweep.tolist() == [29, 39, 49]


def test_what_cannot_be_extended_says_what_to_do():
    problem = ss.Perceptron.random(31, 0.3, rng=0)
    run = ss.anneal(problem, n_chains=3, n_sweeps=20, n_extra=10, rng=1)
    other = ss.Perceptron.random(31, 0.3, rng=1)
    for samples, given, words in [
        (ss.localize(problem, 2, rng=0), None, r"samples \+ ss.localize"),
        (ss.anneal(problem, 2, 20, "temperature", rng=0), None, "temperature 0"),
        (ss.anneal(problem, 2, 20, n_extra=10, exchange=True, rng=0), None, "initial=samples"),
        (run[1:], None, "picked or joined"),
        (ss.solve(problem, rng=0), None, "independent"),
        (run, other, "the one that was sampled"),
    ]:
        with pytest.raises(ValueError, match=words):
            samples.extend(2, given)
    with pytest.raises(ValueError, match="n_draws"):
        run.extend(0)


@pytest.mark.parametrize("name", PROBLEMS)
def test_chains_start_at_given_weights(name):
    problem = PROBLEMS[name]
    first = ss.anneal(problem, n_chains=3, n_sweeps=30, rng=1)
    # one proposal that is all but certainly refused at so low a temperature leaves most weights where they were
    cold = problem.with_target(problem.target.replace(temperature=1e-6))
    after = ss.anneal(cold, initial=first, n_sweeps=1, rng=2)
    assert len(after) == 3
    assert after.info.n_anneal == 1
    assert (after.weights != first.weights).mean() < 0.4  # of random ones half would differ, or more
    again = ss.anneal(problem, initial=first, n_extra=20, thin=5, rng=2)
    assert again.by_chain().shape == (3, 4, 31)
    if first.intercepts is None:
        np.testing.assert_array_equal(
            ss.anneal(problem, initial=first.weights.tolist(), n_extra=20, thin=5, rng=2).weights, again.weights
        )
    assert problem.supports(again.weights).all()


@pytest.mark.parametrize(("initial", "options", "words"), [
    (np.zeros((2, 30)), {"n_extra": 10}, "shape"), (np.full((2, 31), 0.5), {"n_extra": 10}, "row 0 is not"),
    (np.zeros((2, 31)), {}, "n_extra"), (np.zeros((2, 31)), {"n_extra": 10, "n_chains": 3}, "n_chains"),
    (np.zeros((2, 31)), {"n_extra": 10, "exchange": True}, "initial"), ("abc", {"n_extra": 10}, "initial"),
])  # fmt: skip
def test_wrong_starts_are_explained(initial, options, words):
    with pytest.raises(ValueError, match=words):
        ss.anneal(PROBLEMS["ternary"], initial=initial, rng=0, **options)


def test_an_intercept_must_start_within_its_prior():
    start = ss.anneal(PROBLEMS["intercept"], n_chains=2, n_sweeps=5, rng=0)
    start.intercepts[0] = 100.0
    with pytest.raises(ValueError, match="widths of its prior"):
        ss.anneal(PROBLEMS["intercept"], initial=start, n_extra=10, rng=0)


def test_clamped_weights_stay():
    problem = PROBLEMS["all"]
    samples = ss.anneal(problem, n_chains=4, n_sweeps=20, n_extra=20, rng=0)
    assert (samples.weights[:, [2, 30]] == [1, 0]).all()
    assert samples.intercepts.shape == (8,)
    assert (samples.weights.std(axis=0) > 0).sum() > 20
    every = ss.Perceptron(np.eye(3), [1, 1, -1], target=LOGISTIC, intercept=1.0, clamped={0: 1, 1: 0, 2: -1})
    fixed = ss.anneal(every, n_chains=2, n_sweeps=10, rng=0)
    assert (fixed.weights == [1, 0, -1]).all()
    assert np.ptp(fixed.intercepts) > 0


def test_threads_and_neighbours_change_nothing():
    problem, options = PROBLEMS["all"], {"n_sweeps": 20, "rng": 3}
    many = ss.anneal(problem, n_chains=7, n_threads=2, **options)
    few = ss.anneal(problem, n_chains=2, n_threads=1, **options)
    np.testing.assert_array_equal(many.weights[:2], few.weights)
    np.testing.assert_array_equal(many.intercepts[:2], few.intercepts)


@pytest.mark.parametrize("exchange", [False, True])
def test_a_stopped_run_goes_on(tmp_path, exchange):
    problem, file = PROBLEMS["all"], tmp_path / "run.npz"
    options = {"n_chains": 3, "n_sweeps": 40, "n_extra": 40, "rng": 7, "exchange": exchange}
    whole = ss.anneal(problem, **options)

    def stop(chains):
        if chains.sweep >= 50:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ss.anneal(problem, checkpoint=file, callback=stop, **options)
    resumed = ss.anneal(problem, checkpoint=file, **options)
    np.testing.assert_array_equal(resumed.weights, whole.weights)
    np.testing.assert_array_equal(resumed.intercepts, whole.intercepts)


def test_auto_ends_in_the_target():
    for potential, name in [
        ("log", "tau"),
        ("logistic", "tempering"),
        ("hinge", "tempering"),
        ("uniform", "tempering"),
    ]:
        problem = ss.Perceptron.random(31, 0.2, ss.Target("ternary", potential), rng=0)
        samples = ss.anneal(problem, n_chains=2, n_sweeps=50, rng=0)
        assert samples.info.sampler == name
        assert samples.target == problem.target
        assert samples.solved.all() or not problem.target.potential.hard


def test_what_no_device_and_no_search_can_honour_is_refused():
    for problem in (PROBLEMS["ternary"], PROBLEMS["clamped signs"], PROBLEMS["intercept"]):
        with pytest.raises(ValueError, match="device='cpu'"):
            ss.anneal(problem, device="gpu")
        with pytest.raises(ValueError, match="device='cpu'"):
            ss.anneal([problem, problem], device="gpu")
        assert len(ss.anneal(problem, 1, 3, device="auto", rng=0)) == 1
        with pytest.raises(ValueError, match="anneal"):
            ss.solve(problem)


def test_posteriors_are_judged_and_exported():
    problem = PROBLEMS["intercept"]
    samples = ss.anneal(problem, n_chains=32, n_sweeps=200, n_extra=1000, rng=1)
    report = ss.diagnose(samples)
    assert report.fair, report.verdict
    assert report.mixing.norm == pytest.approx((samples.weights**2).mean())
    assert report.copies == 0
    exported = samples.to_arviz()
    assert exported.posterior["intercept"].shape == (32, 100)


def test_sweeps_take_levels_and_likelihoods(tmp_path):
    targets = [ss.Target("ternary", "logistic(2)"), ss.Target("levels(-3,-1,1,3)", "log")]
    spec = ss.Spec(n=11, alpha=0.4, target=targets, sampler=[{"name": "tempering", "n_sweeps": 20}], n_samples=3)
    rows = ss.sweep(spec, tmp_path / "runs.db", executor="serial", show_progress=False)
    assert [row.status for row in rows] == ["done", "done"]
    with pytest.raises(ValueError, match="n <= 12"):
        ss.Spec(n=15, alpha=0.4, target=targets, sampler="exact")
