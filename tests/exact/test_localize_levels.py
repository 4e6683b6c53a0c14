"""Localization of levels, with intercepts, clamped and sample weights: with the exact denoiser it gives the enumerated law.

As in `test_localize_exact`: some instances, 1000 draws each; z-scores of the mean log likelihood, of the marginals and of an
intercept's mean. A correct sampler exceeds 4.5 in one of them about once in 10^3 runs; the planted bugs must.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import solspace as ss
from solspace.numerics.streams import generator
from solspace.samplers.localization import level_bath

DRAWS, THRESHOLD = 1000, 4.5
CASES = {
    "ternary": ("ternary", "logistic(3)", 5, {}),
    "unequal": ("ternary(0.3)", "log", 6, {}),
    "wide": ("levels(-3,-1,1,3)", "probit(0.5)", 4, {}),
    "half": ("levels(0,1)", "flip(0.2)", 8, {}),
    "intercept": ("ternary", "logistic(3)", 4, {"intercept": 1.5}),
    "steps": ("binary", "flip(0.1)", 7, {"intercept": 1.0}),
    "walls": ("binary", "uniform", 7, {"intercept": 1.0}),
    "clamped": ("levels(-1,0,2)", "logistic(2)", 6, {"clamped": {1: 2, 4: -1}}),
    "powers": ("binary", "logistic(2)", 8, {"sample_weight": True}),
}

USUAL = ("ternary", "wide", "intercept", "walls", "clamped")


def instances(name, count=3):
    prior, potential, n, options = CASES[name]
    found, seed = [], 0
    while len(found) < count:
        random = generator(78, seed)
        seed += 1
        m = 3 if potential in ("log", "uniform") else 9
        target = ss.Target(prior, potential, margin=-0.3 if m == 3 else 0.1)
        if "sample_weight" in options:
            options = {"sample_weight": random.uniform(0.4, 2.5, m)}
        labels = random.choice([-1, 1], m)
        problem = ss.Perceptron(random.standard_normal((m, n)), labels, target=target, **options)
        if m > 3 or problem.enumerate().n_solutions >= 10:
            found.append(problem)
    return found


def z_scores(problem, samples):
    """Return z-scores of the mean log weight with the intercept integrated out, of the marginals, and of the intercept."""
    law = problem.enumerate()
    p, weights = law.probabilities, law.weights
    number = {row.tobytes(): i for i, row in enumerate(weights)}
    drawn = [number[row.tobytes()] for row in samples.weights.astype(weights.dtype)]
    moving = weights.std(axis=0) > 0
    moving[list(problem.clamped)] = False
    values = np.column_stack([np.where(p > 0, law.log_weights, 0), weights[:, moving]])
    mean = p @ values
    error = np.sqrt(p @ (values - mean) ** 2 / DRAWS) + 1e-9
    scores = (values[drawn].mean(axis=0) - mean) / error
    if problem.intercept is None:
        return scores
    b, square = p @ law.intercept_means, p @ law.intercept_squares
    shifts = (samples.intercepts.mean() - b) / np.sqrt((square - b**2) / DRAWS)
    means, squares = law.intercept_means[drawn], law.intercept_squares[drawn]
    given = (samples.intercepts - means).sum() / np.sqrt((squares - means**2).sum())  # given the weights
    wide = ((samples.intercepts - means) ** 2).mean() / (squares - means**2).mean() - 1
    return np.concatenate([scores, [shifts, given, wide * np.sqrt(DRAWS) / 2.5]])


def judge(name, wrong=None, **options):
    scores = []
    for seed, problem in enumerate(instances(name)):
        law = problem.enumerate()
        mean = (lambda h, t, law=law: law.posterior_mean(h, t)) if wrong is None else wrong(problem)
        scores.append(
            z_scores(
                problem, ss.localize(problem, DRAWS, seed, denoiser=mean, progress=False, **{"finish": 0, **options})
            )
        )
    return max(abs(sum(own[0] for own in scores)) / np.sqrt(len(scores)), max(np.abs(own[1:]).max() for own in scores))


@pytest.mark.filterwarnings(
    "ignore:1 of 1000 samples miss constraints"
)  # the signs of three solutions' mean may be none of them
@pytest.mark.parametrize("name", [
    *USUAL, *(pytest.param(name, marks=pytest.mark.exhaustive) for name in CASES if name not in USUAL)
])  # fmt: skip
def test_the_exact_denoiser_gives_the_enumerated_law(name):
    assert judge(name) < THRESHOLD


@pytest.mark.parametrize(("name", "time"), [
    ("ternary", 2.0), ("wide", 0.4), ("intercept", 2.0),
    *(pytest.param(name, 0.5, marks=pytest.mark.exhaustive) for name in ("half", "steps", "clamped", "powers")),
    *(pytest.param(name, 3.0, marks=pytest.mark.exhaustive) for name in ("half", "steps", "clamped", "powers")),
])  # fmt: skip
def test_leaving_by_moves_at_any_time_gives_the_enumerated_law(name, time):
    assert judge(name, finish=60, final_time=time) < THRESHOLD


@pytest.mark.parametrize("wrong", ["no norm", "half the field"])
def test_a_finish_of_another_law_fails(wrong, monkeypatch):
    right = level_bath.LevelBath.draw

    def draw(bath, samples, *rest):
        times, fields = (
            (0 * samples.times, samples.fields()) if wrong == "no norm" else (samples.times, samples.fields() / 2)
        )
        spreads, means, mean = samples.spreads, samples.means, samples.mean
        other = SimpleNamespace(times=times, fields=lambda: fields, spreads=spreads, means=means, mean=mean)
        return right(bath, other, *rest)

    monkeypatch.setattr(level_bath.LevelBath, "draw", draw)
    assert judge("ternary", finish=60, final_time=2.0) > THRESHOLD


def no_norm(problem):
    law = problem.enumerate()
    return lambda h, t: law.posterior_mean(h)


def warm(problem):
    law = problem.with_target(problem.target.replace(temperature=1.5)).enumerate()
    return law.posterior_mean


def not_folded(problem):
    return ss.Perceptron(problem.patterns * problem.signs[:, None], target=problem.target).enumerate().posterior_mean


@pytest.mark.filterwarnings("ignore:.*samples miss constraints")
@pytest.mark.parametrize(
    ("name", "wrong"), [("ternary", no_norm), ("wide", no_norm), ("ternary", warm), ("ternary", not_folded)]
)
def test_planted_bugs_fail(name, wrong):
    assert judge(name, wrong) > THRESHOLD


@pytest.mark.parametrize("bug", ["prior twice", "labels forgotten"])
def test_wrong_intercepts_fail(bug, monkeypatch):
    from solspace.samplers.localization import loop

    right = loop.draw_intercepts

    def wrong(problem, weights, seeds):
        own = (
            {"intercept": problem.intercept / np.sqrt(2)} if bug == "prior twice" else {"intercept": problem.intercept}
        )
        signs = problem.signs if bug == "prior twice" else np.ones(problem.m, np.int8)
        rows = problem.patterns * signs[:, None]
        return right(ss.Perceptron(rows, signs, target=problem.target, **own), weights, seeds)

    monkeypatch.setattr(loop, "draw_intercepts", wrong)
    assert judge("intercept") > THRESHOLD


@pytest.mark.parametrize("denoiser", ["amp", "ep"])
@pytest.mark.parametrize(
    "prior", ["ternary", pytest.param("levels(-3,-1,1,3)", marks=pytest.mark.exhaustive), "gaussian(0.5)"]
)
def test_samples_overlap_as_the_marginals_tell(prior, denoiser):
    """On a random planted problem: overlap of two samples, norm, and a seed's result, with warm starts of message passing."""
    target = ss.Target(prior, "logistic(2)")
    problem = ss.Perceptron.planted(151, 0.6, target, rng=1)
    samples = ss.localize(problem, 8, 2, denoiser=denoiser, finish=0, progress=False)
    start = ss.amp(problem)
    norm = float(np.mean(start.mean**2 + start.variance))
    assert samples.overlaps().mean() == pytest.approx(start.overlap, abs=0.05 * norm)
    assert np.mean(samples.weights.astype(float) ** 2) == pytest.approx(norm, rel=0.05)
    assert problem.supports(samples.weights).all()
    if denoiser == "amp":
        again = ss.localize(problem, 3, 2, denoiser=denoiser, finish=0, progress=False)
        np.testing.assert_allclose(again.weights, samples.weights[:3], atol=1e-3)


def test_a_file_keeps_samples_of_levels_with_an_intercept(tmp_path):
    target = ss.Target("levels(-1,0,2)", "logistic(2)")
    problem = ss.Perceptron.planted(n=21, alpha=2, target=target, patterns="gaussian", intercept=1.5, rng=3)
    problem = ss.Perceptron(
        problem.patterns * problem.signs[:, None], problem.labels, target=target, intercept=1.5, clamped={4: 2}
    )
    samples = ss.localize(problem, 4, 1, progress=False)
    assert samples.info.denoiser == "ep"
    assert (samples.weights[:, 4] == 2).all()
    assert samples.weights.dtype == np.int8
    samples.save(tmp_path / "samples.npz")
    again = ss.Samples.load(tmp_path / "samples.npz")
    np.testing.assert_array_equal(again.intercepts, samples.intercepts)
    np.testing.assert_array_equal(problem.stabilities(again.weights, again.intercepts), samples.stabilities)


@pytest.mark.parametrize("prior", ["ternary", "gaussian"])
def test_a_function_has_no_variances_for_other_integrators(prior):
    problem = ss.Perceptron.random(11, 0.5, ss.Target(prior, "logistic"), rng=0)
    with pytest.raises(ValueError, match="returns no variances"):
        ss.localize(problem, 2, 0, denoiser=lambda h, t: 0 * h, integrator="matched")
